"""Common code of the JSON parsers, which could serve as building blocks of a tool-call parser.

These parsers do not support markers. Each parses the JSON of a single call in deltas, and returns the
value so far after each delta.
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
    """Return a reader for hermes' JSON of a single call without other text."""
    if dialect != "hermes" or scenario not in ("1k", "10k", "100k", "1M"):
        return None
    return Reader(start, _answer, _payload)
