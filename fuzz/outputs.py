"""Seed outputs: the repository's vectors, and messages rendered in each dialect."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from unspool import Dialect, Message, ToolCall, UnspoolError, get_dialect, list_dialects, render

ROOT: Final = Path(__file__).resolve().parent.parent
_VECTOR: Final = re.compile(r"^(`{3,})raw\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
_LONGEST: Final = 400
_MOST: Final = 3
"""Number of vectors per dialect."""

CALLS: Final = (
    ToolCall("call_1", "get_weather", '{"city": "Os\\"lo", "days": 3, "where": {"at": [1.5, -2]}}'),
    ToolCall("call_2", "f", '{"x": [null, true, {"a": "b"}], "code": "a < b\\n"}'),
    ToolCall("call_3", "python", '{"code": "print(1)"}'),
)
MESSAGES: Final = (
    Message(content="Hello."),
    Message(reasoning="Let me see.", content="Hello."),
    Message(tool_calls=CALLS[:1]),
    Message(reasoning="Hm.", tool_calls=CALLS[1:2]),
    Message(content="Let me check.", tool_calls=CALLS[:2]),
    Message(tool_calls=CALLS[2:]),
)


@cache
def outputs() -> tuple[tuple[Dialect, str], ...]:
    """Return short outputs of every dialect."""
    return (*_written(), *_vectors())


def _written() -> Iterator[tuple[Dialect, str]]:
    for dialect in list_dialects():
        for message in MESSAGES:
            try:
                yield dialect, render(message, dialect)
            except UnspoolError:
                continue  # not every dialect can express every message


def _vectors() -> Iterator[tuple[Dialect, str]]:
    for folder in sorted((ROOT / "tests" / "corpus").iterdir()):
        try:
            dialect = get_dialect(folder.name)
        except UnspoolError:
            continue
        texts = (
            found[2]
            for name in ("malformed.md", "examples.md")
            if (folder / name).is_file()
            for found in _VECTOR.finditer((folder / name).read_text("utf-8"))
        )
        short = [text for text in texts if len(text) <= _LONGEST]
        yield from ((dialect, text) for text in short[:_MOST])


def support() -> None:
    """Make the helpers of the tests importable: vocabularies, samplers."""
    path = str(ROOT / "tests" / "support")
    if path not in sys.path:
        sys.path.append(path)
