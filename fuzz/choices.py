"""An input, read as choices and what they are about: the first bytes choose, the rest is the matter itself.

Every input means something, so that whatever a fuzzer does to one is another.
What the rest holds is written as people would write it (text, JSON), so that
markers from a dictionary land in it whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from itertools import pairwise
from random import Random
from typing import Final, TypeVar, get_args, get_type_hints
from zlib import crc32

from unspool import Dialect, FinishReason, Policies, list_dialects
from unspool.testing import POLICIES, Case

T = TypeVar("T")

LONGEST: Final = 1 << 12
"""Characters of an output: growth is the business of other tests."""
SEPARATOR: Final = "\x1e"
"""Between the parts of a text that has several."""

TOOLS: Final[tuple[dict[str, object], ...]] = (
    {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "exact": {"type": "boolean"},
                "where": {
                    "type": "object",
                    "properties": {"at": {"type": "array", "items": {"type": "number"}}},
                },
            },
        },
    },
    {"name": "f", "parameters": {"type": "object", "properties": {"x": {}, "code": {"type": "string"}}}},
    {"name": "python", "parameters": {"type": "object", "properties": {"code": {"type": "string"}}}},
)
OFFERED: Final[tuple[Sequence[dict[str, object]] | None, ...]] = (None, TOOLS, ())
REASONS: Final[tuple[FinishReason | None, ...]] = (None, "stop", "length", "tool_calls")


class Choices:
    """One input, being read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        """The next byte; 0 where there are no more."""
        at, self._at = self._at, self._at + 1
        return self._data[at] if at < len(self._data) else 0

    def among(self, options: Sequence[T]) -> T:
        """One of them."""
        return options[self.byte() % len(options)]

    def dialect(self) -> Dialect:
        """One of the built-in dialects."""
        places, dialects = _ring()
        found = bisect_left(places, self.byte() << 8 | self.byte())
        return dialects[found % len(dialects)]

    def policies(self) -> Policies | None:
        """The defaults, one of the sets that the laws are tried with, or any other combination."""
        number = self.byte()
        named = [None, *POLICIES.values()]
        return named[number] if number < len(named) else _combined(number)

    def cuts(self, length: int) -> list[tuple[int, int]]:
        """Where to cut so much: one by one, or in pieces of several lengths, empty ones among them."""
        number = self.byte()
        if not number:
            return [(at, at + 1) for at in range(length)]
        rng = Random(number)  # noqa: S311 - reproducible, not secret
        longest = rng.choice((2, 4, 9, 30, 200))
        cuts = [0]
        while cuts[-1] < length:
            cuts.append(min(length, cuts[-1] + rng.randint(0, longest)))
        return list(pairwise(cuts))

    def chunks(self, text: str) -> list[str]:
        """The text in pieces."""
        return [text[start:end] for start, end in self.cuts(len(text))]

    def rest(self) -> bytes:
        """All that is left."""
        return self._data[self._at :]

    def written(self) -> str:
        """All that is left, as a file or a request would hold it: always UTF-8."""
        return self.rest()[: 4 * LONGEST].decode("utf-8", "replace")[:LONGEST]

    def text(self) -> str:
        """All that is left, as text; what is no UTF-8 becomes lone surrogates, which JSON can hold, too."""
        return self.rest()[: 4 * LONGEST].decode("utf-8", "surrogateescape")[:LONGEST]


@cache
def _ring() -> tuple[list[int], list[Dialect]]:
    """Each dialect has a place that follows from its name: a new one leaves the meaning of inputs alone."""
    found = sorted((_place(dialect), dialect.name, dialect) for dialect in list_dialects())
    return [place for place, _, _ in found], [dialect for _, _, dialect in found]


def _place(dialect: Dialect) -> int:
    return crc32(dialect.name.encode()) & 0xFFFF


def choosing(dialect: Dialect) -> bytes:
    """The bytes that choose a dialect."""
    return _place(dialect).to_bytes(2, "big")


@cache
def _combined(number: int) -> Policies:
    rng = Random(number)  # noqa: S311 - reproducible, not secret
    hints = get_type_hints(Policies)
    return Policies(**{field.name: rng.choice(get_args(hints[field.name])) for field in fields(Policies)})


def read_case(choices: Choices) -> tuple[Dialect, Case, list[str]]:
    """An output, in a dialect and under a request, and the pieces that it comes in."""
    dialect = choices.dialect()
    policies, tools, reason = choices.policies(), choices.among(OFFERED), choices.among(REASONS)
    number = Choices(bytes([choices.byte()]))
    text = choices.text()
    return dialect, Case(text, tools, None, policies, reason), number.chunks(text)


def written_case(dialect: Dialect, text: str, *, number: int = 0) -> bytes:
    """An input that is read as such a case; the number varies what is chosen besides."""
    rng = Random(f"{number} {text}")  # noqa: S311 - reproducible, not secret
    policy = rng.choice((0, 0, rng.randrange(256)))
    return (
        choosing(dialect)
        + bytes([policy, rng.randrange(3), rng.randrange(4), rng.randrange(256)])
        + text.encode()
    )
