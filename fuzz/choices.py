"""Decoding of an input: its first bytes choose the options, the rest is the payload.

Every input is valid, so each of the fuzzer's mutations is another valid input. The
payload is readable (text, JSON), so that markers from the fuzzer's dictionary stay intact
in it.
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

from unspool import Dialect, Policies, list_dialects
from unspool.events import FinishReason
from unspool.testing import POLICIES, ModelOutput

T = TypeVar("T")

LONGEST: Final = 1 << 12
"""Longest output in characters; other tests cover growth."""
SEPARATOR: Final = "\x1e"
"""Separator between the parts of a payload with several parts."""

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
    """Decoder of one input."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        """Return the next byte, or 0 at the end."""
        at, self._at = self._at, self._at + 1
        return self._data[at] if at < len(self._data) else 0

    def choose(self, options: Sequence[T]) -> T:
        """Choose one of the options."""
        return options[self.byte() % len(options)]

    def dialect(self) -> Dialect:
        """Choose a built-in dialect."""
        places, dialects = _ring()
        found = bisect_left(places, self.byte() << 8 | self.byte())
        return dialects[found % len(dialects)]

    def policies(self) -> Policies | None:
        """Choose the default policies, one of the sets of the laws, or any other combination."""
        number = self.byte()
        named = [None, *POLICIES.values()]
        return named[number] if number < len(named) else _combined(number)

    def spans(self, length: int) -> list[tuple[int, int]]:
        """Choose spans that split ``length`` items: single items, or several lengths including empty ones."""
        number = self.byte()
        if not number:
            return [(at, at + 1) for at in range(length)]
        rng = Random(number)  # noqa: S311 - reproducible, not secret
        longest = rng.choice((2, 4, 9, 30, 200))
        spans = [0]
        while spans[-1] < length:
            spans.append(min(length, spans[-1] + rng.randint(0, longest)))
        return list(pairwise(spans))

    def chunks(self, text: str) -> list[str]:
        """Split the text into chunks."""
        return [text[start:end] for start, end in self.spans(len(text))]

    def rest(self) -> bytes:
        """Return the remaining bytes."""
        return self._data[self._at :]

    def utf8_text(self) -> str:
        """Return the remaining bytes as a file or a request holds them, always valid UTF-8."""
        return self.rest()[: 4 * LONGEST].decode("utf-8", "replace")[:LONGEST]

    def text(self) -> str:
        """Return the remaining bytes as text; invalid UTF-8 becomes lone surrogates, which JSON can hold."""
        return self.rest()[: 4 * LONGEST].decode("utf-8", "surrogateescape")[:LONGEST]


@cache
def _ring() -> tuple[list[int], list[Dialect]]:
    """Give each dialect a position derived from its name.

    A new dialect does not change the meaning of the other inputs.
    """
    found = sorted((_place(dialect), dialect.name, dialect) for dialect in list_dialects())
    return [place for place, _, _ in found], [dialect for _, _, dialect in found]


def _place(dialect: Dialect) -> int:
    return crc32(dialect.name.encode()) & 0xFFFF


def choosing(dialect: Dialect) -> bytes:
    """Return the bytes that choose a dialect."""
    return _place(dialect).to_bytes(2, "big")


@cache
def _combined(number: int) -> Policies:
    rng = Random(number)  # noqa: S311 - reproducible, not secret
    hints = get_type_hints(Policies)
    return Policies(**{field.name: rng.choice(get_args(hints[field.name])) for field in fields(Policies)})


def read_case(choices: Choices) -> tuple[Dialect, ModelOutput, list[str]]:
    """Decode a dialect, an output with its request, and the chunks of the output."""
    dialect = choices.dialect()
    policies, tools, reason = choices.policies(), choices.choose(OFFERED), choices.choose(REASONS)
    number = Choices(bytes([choices.byte()]))
    text = choices.text()
    return dialect, ModelOutput(text, tools, None, policies, reason), number.chunks(text)


def written_case(dialect: Dialect, text: str, *, number: int = 0) -> bytes:
    """Return an input that decodes to this case; the number varies the other choices."""
    rng = Random(f"{number} {text}")  # noqa: S311 - reproducible, not secret
    policy = rng.choice((0, 0, rng.randrange(256)))
    return (
        choosing(dialect)
        + bytes([policy, rng.randrange(3), rng.randrange(4), rng.randrange(256)])
        + text.encode()
    )
