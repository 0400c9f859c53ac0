"""Quotation of model output in a prompt, without control tokens and markers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from .._core.compiler.match_program_types import PUNCTUATION
from ..dialects import CONTROL_TOKEN, Dialect, find
from ..dialects.list_templates_and_markers import dialect_literals, turn_markers

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def neutralise(text: str, dialect: str | Dialect) -> str:
    """Return the text with every control token and every marker of the dialect broken up.

    A space is inserted after the first character of each marker, except for markers that are only words, such
    as ``now``.  People and models can still read the text, but tokenizers and parsers treat it as plain text.

    >>> neutralise('I wrote <tool_call>{"name": ""}', "hermes")
    'I wrote < tool_call>{"name": ""}'
    """
    pattern = _pattern(find(dialect))
    text = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    while True:
        broken = pattern.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
        if broken == text:
            return text
        text = broken


@lru_cache(maxsize=256)
def _pattern(dialect: Dialect) -> re.Pattern[str]:
    markers = sorted(set(_markers(dialect)), key=lambda marker: (-len(marker), marker))
    return re.compile("|".join([*map(re.escape, markers), CONTROL_TOKEN.pattern]))


def _markers(dialect: Dialect) -> Iterator[str]:
    """Yield the markers that are longer than one character, without the whitespace around them."""
    for literal in (*dialect_literals(dialect), *turn_markers(dialect)):
        # Models may omit the bracket of a list next to a marker.
        for marker in (literal, literal.strip().removesuffix("[").removeprefix("]")):
            if len(marker.strip()) > 1 and PUNCTUATION.search(marker):
                yield marker.strip()
