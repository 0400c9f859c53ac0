"""JSON from outside, decoded: what clients send, what upstreams answer, what was kept of either.

A decoder holds the interpreter until it is done, so what bounds a text is not only its
size but the number of its values, of their digits and of the escapes in its strings:
thirty megabytes of any would take seconds, and the same of plain text costs next to
nothing.  Of clients' texts these are counted before.

The decoder's own way to a float takes 8 us where the exponent is large, and holds the
interpreter while it is at it: a body of one megabyte would stop everything for
seconds.  Python's takes a twentieth of that, and a function of Python for each lets
others run in between.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from ..._core.schema.number_range import MOST_DIGITS as MOST_DIGITS_OF_ONE
from .errors import Failure

Decoded = TypeVar("Decoded")

SMALL: Final = 1 << 16
"""Texts up to so many bytes are decoded where they are, on the loop, and count for nothing."""
FEW: Final = 5_000
"""Texts up to so many values are gone through where they are, if they are small."""
MOST_ESCAPES: Final = 1 << 22
"""In strings; in a text of that many megabytes every fourth character or so would be one."""
MOST_DIGITS: Final = 1 << 21
"""Of numbers; whole ones take time by the square of their digits, of which they may have thousands."""
_WINDOW: Final = 1 << 14
"""A text is looked at so much at a time, so that other threads can run in between."""
_DIGITS: Final = 10
"""Digits that take as long to decode as a value."""
_ESCAPES: Final = 20
"""Escapes that do."""
_NO_SEPARATORS: Final = bytes(set(range(256)) - set(b",[{"))
_NO_DIGITS: Final = bytes(set(range(256)) - set(b"0123456789"))


def number(text: str) -> float:
    """Return a number that is not an integer; refuse what not every client reads, as NaN and infinity."""
    value = float(text)
    if len(text.lstrip("-")) > MOST_DIGITS_OF_ONE or not math.isfinite(value):
        raise ValueError("Number out of range")
    return value


def is_object(text: str) -> bool:
    """Return whether a text is a JSON object that every server reads."""
    try:
        return isinstance(json.loads(text, parse_float=number, parse_constant=number), dict)
    except (ValueError, RecursionError):
        return False


def decoder_of(type_: type[Decoded]) -> msgspec.json.Decoder[Decoded]:
    """What decodes values of a type."""
    return msgspec.json.Decoder(type_, float_hook=number)


VALUES: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(float_hook=number)
"""Decodes whatever comes."""


class Bounds:
    """Counts the values of a text, their digits and the escapes in its strings, without decoding it.

    By methods of ``bytes``: a step of Python for each string would take longer than to decode it.
    """

    def __init__(self, most_values: int) -> None:
        self._most_values = most_values
        self._short = min(most_values, MOST_DIGITS, MOST_ESCAPES)
        """No text of at most this many characters exceeds a bound."""
        self._values = 0
        self._digits = 0
        self._escapes = 0
        self._at = 0
        """How far it has looked."""
        self._in_string = False

    def unseen(self, data: bytes | bytearray) -> int:
        """How much of a body is still to be looked at; nothing where it is too short to pass a bound."""
        return len(data) - self._at if len(data) > self._short else 0

    def look(self, data: bytes | bytearray) -> None:
        """Look at what has come since; refuses what passes a bound."""
        if len(data) > self._short:
            self._look(data)

    def look_into(self, texts: Sequence[str]) -> None:
        """Look at texts that are JSON, each of its own; refuses what all of them together pass."""
        if sum(map(len, texts)) > self._short:
            for text in texts:
                self._at = 0
                self._in_string = False
                self._look(text.encode("utf-8", "surrogatepass"))

    def _look(self, data: bytes | bytearray) -> None:
        while self._at < len(data):
            self._look_at(data[self._at : self._at + _WINDOW])
            for count, most, what in (
                (self._values, self._most_values, "values"),
                (self._digits, MOST_DIGITS, "digits in its numbers"),
                (self._escapes, MOST_ESCAPES, "escapes in its strings"),
            ):
                if count > most:
                    raise too_many(most, what)

    def counted(self, data: bytes | bytearray) -> int:
        """Count the values of a text; digits and escapes count as values that take as long to decode."""
        while self._at < len(data):
            self._look_at(data[self._at : self._at + _WINDOW])
        return self._values + self._digits // _DIGITS + self._escapes // _ESCAPES

    def _look_at(self, window: bytes | bytearray) -> None:
        self._at += len(window)
        escapes = window.count(b"\\")
        if escapes:
            self._escapes += escapes
            window = window.replace(b"\\\\", b"")
            self._at += window.endswith(b"\\")  # what that escapes
            window = window.replace(b'\\"', b"")
        pieces = window.split(b'"')
        outside = b"".join(pieces[self._in_string :: 2])
        self._digits += len(outside.translate(None, _NO_DIGITS))
        # Between two separators are a key and a string at most: what has more quotes is no JSON.
        self._values += max(len(outside.translate(None, _NO_SEPARATORS)), len(pieces) // 4 - 1)
        self._in_string ^= len(pieces) % 2 == 0


def separators(data: bytes | bytearray) -> int:
    """Count what stands between values, and within strings, too: no text has many more values."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def too_many(most: int, what: str) -> Failure:
    """Return the refusal of a request that has more of something than is taken."""
    return Failure("too_large", f"the request has more than {most} {what}", code="request_too_large")


def values_of(data: bytes | bytearray) -> int:
    """Count the values of a text, however many they are, without decoding it.

    >>> values_of(b'{"a": [1, 2, 3]}')
    4
    """
    return Bounds(0).counted(data)
