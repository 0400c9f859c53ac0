"""Sample outputs for demonstrations: one raw output per dialect.

This folder contains outputs, which were written by hand in the style of real models, and ``tools.json``,
which declares the tools that the outputs call.  For a dialect without a file, ``render`` writes a standard
message in the dialect's markup, so every dialect has a sample.
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
from ..dialects import Dialect, get_dialect, list_dialects
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
"""The message that is rendered for dialects without a file."""


@dataclass(frozen=True, slots=True)
class SampleOutput:
    """A sample output of one dialect."""

    dialect: Dialect
    output: str
    """The raw text of the output."""
    shows: str
    """One sentence that describes the sample."""
    prompt: str | None = None
    """The end of the prompt if the meaning of the output depends on it; otherwise None."""


def list_samples(names: Sequence[str] = ()) -> list[SampleOutput]:
    """Return the samples of these dialects; without names, return all samples, those with a file first."""
    if names:
        return [_sample(get_dialect(name)) for name in names]
    return [_sample(dialect) for dialect in sorted(list_dialects(), key=_has_no_file)]


@cache
def tools() -> list[dict[str, object]]:
    """Return the tools that the samples call."""
    declared: list[dict[str, object]] = json.loads(
        sample_folder().joinpath("tools.json").read_text(encoding="utf-8")
    )
    return declared


def sample_folder() -> Traversable:
    """Return the folder that contains the sample files."""
    return files("unspool").joinpath("sample_outputs")


def _file(dialect: Dialect) -> Traversable:
    return sample_folder().joinpath(f"{dialect.name}.toml")


def _has_no_file(dialect: Dialect) -> bool:
    return not _file(dialect).is_file()


def _sample(dialect: Dialect) -> SampleOutput:
    if _has_no_file(dialect):
        return _rendered_sample(dialect)
    data = tomllib.loads(_file(dialect).read_text(encoding="utf-8"))
    return SampleOutput(dialect, data["output"], data["shows"], data.get("prompt"))


def _rendered_sample(dialect: Dialect) -> SampleOutput:
    """Return the standard message in a dialect's markup, without parts that the dialect cannot express."""
    for message in (
        STANDARD,
        replace(STANDARD, reasoning=None),
        replace(STANDARD, content=None),
        replace(STANDARD, reasoning=None, content=None),
        replace(STANDARD, tool_calls=()),
        replace(STANDARD, reasoning=None, tool_calls=()),
    ):
        try:
            output = render(message, dialect)
        except UnspoolError:
            continue
        return SampleOutput(dialect, output, "The standard message in the markup of this dialect.")
    return SampleOutput(dialect, STANDARD.content or "", "Plain text.")


_PIECE: Final = re.compile(r" ?\w{1,5}| ?[^\w\s]{1,2}|\s+")


def pieces(text: str) -> list[str]:
    """Split a text into pieces that are about as long as tokens.

    >>> pieces("Use <tool_call> now.")
    ['Use', ' <', 'tool_', 'call', '>', ' now', '.']
    """
    return _PIECE.findall(text)
