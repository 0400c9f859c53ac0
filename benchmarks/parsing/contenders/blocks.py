"""What the readers of JSON have in common that one could build a parser of.

They know nothing of markers.  Each is given a single call's JSON, in deltas, and asked
after each delta for what there is so far.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..workloads import Answer, pieces
from . import Reader, Start


def _payload(deltas: Sequence[str]) -> list[str]:
    text = "".join(deltas)
    return pieces(text[text.index("{") : text.rindex("}") + 1])


def _answer(results: list[Any]) -> Answer:
    call = results[-1]
    return Answer(calls=[(call["name"], json.dumps(call["arguments"]))])


def reading(start: Start, dialect: str, scenario: str) -> Reader | None:
    """A reader of hermes' JSON, where there is one call and nothing else."""
    if dialect != "hermes" or scenario not in ("1k", "10k", "100k", "1M"):
        return None
    return Reader(start, _answer, _payload)
