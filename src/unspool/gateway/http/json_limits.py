"""Limits of JSON from clients and stores: values, digits, escapes and depth, and the counting of these.

A decoder holds the interpreter until it is done.  How long that takes depends not only on the
size of a text but also on the number of its values, of their digits and of the escapes in its
strings: thirty megabytes of any of these take seconds, thirty megabytes of plain text almost no
time.  So :class:`Bounds` counts them in clients' texts before these are decoded.  The depth is
checked after decoding, before any recursive function reads the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .failure import Failure, invalid

MOST_DEPTH: Final = 128
"""Levels of nested containers, at most."""
SMALL: Final = 1 << 16
"""Bytes up to which a text is decoded on the event loop."""
FEW: Final = 5_000
"""Values up to which a small text is processed on the event loop."""
MOST_ESCAPES: Final = 1 << 22
"""Escapes in the strings of a text, at most."""
MOST_DIGITS: Final = 1 << 21
"""Digits in the numbers of a text, at most; the time for an integer grows with their square."""
_WINDOW: Final = 1 << 14
"""Bytes that are counted in one step, before other threads may run."""
_DIGITS: Final = 10
"""Number of digits that take as long to decode as a value."""
_ESCAPES: Final = 20
"""Number of escapes that take as long to decode as a value."""
_NO_SEPARATORS: Final = bytes(set(range(256)) - set(b",[{"))
_NO_DIGITS: Final = bytes(set(range(256)) - set(b"0123456789"))


class Bounds:
    """Counter of the values of a text, their digits and the escapes in its strings.

    The text is not decoded.  Counting uses methods of ``bytes``, because a loop in Python over
    the strings would take longer than decoding.
    """

    def __init__(self, most_values: int) -> None:
        self._most_values = most_values
        self._short = min(most_values, MOST_DIGITS, MOST_ESCAPES)
        """Bytes up to which no text exceeds a limit."""
        self._values = 0
        self._digits = 0
        self._escapes = 0
        self._at = 0
        """The number of bytes that are counted."""
        self._in_string = False

    def uncounted(self, data: bytes | bytearray) -> int:
        """Return the number of bytes to count; 0 if the body is too short to exceed a limit."""
        return len(data) - self._at if len(data) > self._short else 0

    def check(self, data: bytes | bytearray) -> None:
        """Count the new bytes of a body; refuse it above a limit."""
        if len(data) > self._short:
            self._check(data)

    def check_texts(self, texts: Sequence[str]) -> None:
        """Count JSON texts one by one; refuse them if all of them together are above a limit."""
        if sum(map(len, texts)) > self._short:
            for text in texts:
                self._at = 0
                self._in_string = False
                self._check(text.encode("utf-8", "surrogatepass"))

    def _check(self, data: bytes | bytearray) -> None:
        while self._at < len(data):
            self._count_window(data[self._at : self._at + _WINDOW])
            for count, limit, name in (
                (self._values, self._most_values, "values"),
                (self._digits, MOST_DIGITS, "digits in its numbers"),
                (self._escapes, MOST_ESCAPES, "escapes in its strings"),
            ):
                if count > limit:
                    raise too_many(limit, name)

    def count(self, data: bytes | bytearray) -> int:
        """Return the number of values; digits and escapes count as the values that take as long to decode."""
        while self._at < len(data):
            self._count_window(data[self._at : self._at + _WINDOW])
        return self._values + self._digits // _DIGITS + self._escapes // _ESCAPES

    def _count_window(self, window: bytes | bytearray) -> None:
        self._at += len(window)
        escapes = window.count(b"\\")
        if escapes:
            self._escapes += escapes
            window = window.replace(b"\\\\", b"")
            self._at += window.endswith(b"\\")  # skip the escaped character, too
            window = window.replace(b'\\"', b"")
        pieces = window.split(b'"')
        outside = b"".join(pieces[self._in_string :: 2])
        self._digits += len(outside.translate(None, _NO_DIGITS))
        # There are at most a key and a string between two separators, unless the text is not JSON.
        self._values += max(len(outside.translate(None, _NO_SEPARATORS)), len(pieces) // 4 - 1)
        self._in_string ^= len(pieces) % 2 == 0


def count_separators(data: bytes | bytearray) -> int:
    """Return the number of separators, also of those inside strings: an upper bound of the values."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def too_many(limit: int, name: str) -> Failure:
    """Return the failure of a request that is above a limit."""
    return Failure("too_large", f"the request has more than {limit} {name}", code="request_too_large")


def count_values(data: bytes | bytearray) -> int:
    """Return the number of values in a text, without decoding it.

    >>> count_values(b'{"a": [1, 2, 3]}')
    4
    """
    return Bounds(0).count(data)


def is_deeper(value: object, limit: int) -> bool:
    """Return whether containers are nested more than ``limit`` levels deep."""
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)  # type: ignore[attr-defined]
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def too_deep() -> Failure:
    """Return the failure of a body that is nested too deeply."""
    return invalid(f"the body is nested more than {MOST_DEPTH} levels deep", code="invalid_json")
