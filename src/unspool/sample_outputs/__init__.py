"""Recordings: an output of every dialect, for people to look at.

This folder holds an output per dialect, written by hand after what its models
write, and ``tools.json``, the tools that they call.  A dialect without a file of
its own is shown with a standard message that ``render`` puts into its words, so
every registered dialect has one.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from .._core.render.message import render
from ..dialects._declaration import Dialect
from ..dialects._registry import get_dialect, list_dialects
from ..errors import UnspoolError
from ..message import Message, ToolCall

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

STANDARD: Final = Message(
    reasoning="Is Oslo or Rome warmer? Both forecasts first, at once; the average is a line of Python.",
    content="I'll fetch both forecasts and test the formula meanwhile.",
    tool_calls=(
        ToolCall("call00001", "get_weather", '{"city": "Oslo", "days": 3}'),
        ToolCall("call00002", "get_weather", '{"city": "Rome", "days": 3}'),
        ToolCall(
            "call00003",
            "run_python",
            r'{"code": "def mean(xs):\n    return sum(xs) / len(xs)", "timeout": 2.5}',
        ),
    ),
)
"""What dialects without a recording say."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One output of a model."""

    dialect: Dialect
    output: str
    """The raw text."""
    shows: str
    """What to look at, in a sentence."""
    prompt: str | None = None
    """The end of the prompt, where the output depends on it."""


def recordings(names: Sequence[str] = ()) -> list[Recording]:
    """The recordings of these dialects, or of all of them, those with a file first."""
    if names:
        return [_recording(get_dialect(name)) for name in names]
    return [_recording(dialect) for dialect in sorted(list_dialects(), key=_has_no_file)]


@cache
def tools() -> list[dict[str, object]]:
    """The tools that the recordings call."""
    found: list[dict[str, object]] = json.loads(folder().joinpath("tools.json").read_text(encoding="utf-8"))
    return found


def folder() -> Traversable:
    """Where the files are."""
    return files("unspool").joinpath("sample_outputs")


def _file(dialect: Dialect) -> Traversable:
    return folder().joinpath(f"{dialect.name}.toml")


def _has_no_file(dialect: Dialect) -> bool:
    return not _file(dialect).is_file()


def _recording(dialect: Dialect) -> Recording:
    if _has_no_file(dialect):
        return _rendered(dialect)
    data = tomllib.loads(_file(dialect).read_text(encoding="utf-8"))
    return Recording(dialect, data["output"], data["shows"], data.get("prompt"))


def _rendered(dialect: Dialect) -> Recording:
    """The standard message, or as much of it as the dialect has words for."""
    for message in (
        STANDARD,
        replace(STANDARD, reasoning=None),
        replace(STANDARD, content=None),
        replace(STANDARD, reasoning=None, content=None),
        replace(STANDARD, tool_calls=()),
        replace(STANDARD, reasoning=None, tool_calls=()),
    ):
        try:
            output = render(dialect, message)
        except UnspoolError:
            continue
        return Recording(dialect, output, "The standard message, in this dialect's words.")
    return Recording(dialect, STANDARD.content or "", "Plain text.")


_PIECE: Final = re.compile(r" ?\w{1,5}| ?[^\w\s]{1,2}|\s+")


def pieces(text: str) -> list[str]:
    """The text in pieces like those that a model's tokens give.

    >>> pieces("Use <tool_call> now.")
    ['Use', ' <', 'tool_', 'call', '>', ' now', '.']
    """
    return _PIECE.findall(text)
