"""Limits on JSON from clients and stores: the number of values, digits and escapes, and the depth.

While a decoder runs, it holds the GIL, so no other thread can run.  Decoding time depends not only
on the size of the JSON but also on the number of values, of digits in numbers and of escapes in
strings.  Thirty megabytes of any of these take seconds to decode; thirty megabytes of plain text take
almost no time.  So :class:`Bounds` counts values, digits and escapes in data from clients before the
data is decoded.  The depth is checked after decoding, before any recursive function processes the
value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .failure import Failure, invalid

MOST_DEPTH: Final = 128
"""Maximum number of nested levels of arrays and objects."""
SMALL: Final = 1 << 16
"""Maximum size in bytes of JSON that is decoded on the event loop."""
FEW: Final = 5_000
"""Maximum number of JSON values that are processed on the event loop."""
MOST_ESCAPES: Final = 1 << 22
"""Maximum number of escapes in all strings of a request."""
MOST_DIGITS: Final = 1 << 21
"""Maximum number of digits in all numbers of a request.

The time to decode an integer grows with the square of the number of its digits.
"""
_WINDOW: Final = 1 << 14
"""Number of bytes to examine in one step; other threads may run between two steps."""
_DIGITS: Final = 10
"""Number of digits that take as long to decode as one value."""
_ESCAPES: Final = 20
"""Number of escapes that take as long to decode as one value."""
_NO_SEPARATORS: Final = bytes(set(range(256)) - set(b",[{"))
_NO_DIGITS: Final = bytes(set(range(256)) - set(b"0123456789"))


class Bounds:
    """Limits on the values, digits and escapes in JSON, which are counted without decoding the JSON.

    Counting uses methods of ``bytes``, because a Python loop over all strings would take longer than
    decoding them.
    """

    def __init__(self, most_values: int) -> None:
        self._most_values = most_values
        self._short = min(most_values, MOST_DIGITS, MOST_ESCAPES)
        """Size in bytes up to which JSON cannot exceed any limit."""
        self._values = 0
        self._digits = 0
        self._escapes = 0
        self._at = 0
        """Number of bytes that have been examined."""
        self._in_string = False

    def uncounted(self, data: bytes | bytearray) -> int:
        """Return the number of bytes not yet examined, or 0 if the body cannot exceed a limit."""
        return len(data) - self._at if len(data) > self._short else 0

    def check(self, data: bytes | bytearray) -> None:
        """Count the new bytes of a body; raise a failure if the body exceeds a limit."""
        if len(data) > self._short:
            self._check(data)

    def check_texts(self, texts: Sequence[str]) -> None:
        """Count several JSON documents; raise a failure if their total exceeds a limit."""
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
        """Return the cost of decoding JSON, expressed as a number of values.

        ``_DIGITS`` digits or ``_ESCAPES`` escapes cost as much as one value.
        """
        while self._at < len(data):
            self._count_window(data[self._at : self._at + _WINDOW])
        return self._values + self._digits // _DIGITS + self._escapes // _ESCAPES

    def _count_window(self, window: bytes | bytearray) -> None:
        self._at += len(window)
        escapes = window.count(b"\\")
        if escapes:
            self._escapes += escapes
            # Remove escaped backslashes first, then escaped quotes.  Every quote that remains starts or ends
            # a string.  So if the data is split at these quotes, every second part is outside strings.
            window = window.replace(b"\\\\", b"")
            self._at += window.endswith(b"\\")  # the escaped character starts the next window: skip it
            window = window.replace(b'\\"', b"")
        pieces = window.split(b'"')
        outside = b"".join(pieces[self._in_string :: 2])
        self._digits += len(outside.translate(None, _NO_DIGITS))
        # In valid JSON, there are at most two strings, a key and a value, between two separators.  If there
        # are more, the input is invalid, and its quotes are counted instead of its separators.
        self._values += max(len(outside.translate(None, _NO_SEPARATORS)), len(pieces) // 4 - 1)
        self._in_string ^= len(pieces) % 2 == 0


def count_separators(data: bytes | bytearray) -> int:
    """Return an upper bound for the number of values: the number of ``,``, ``[`` and ``{``."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def too_many(limit: int, name: str) -> Failure:
    """Return the failure for a request with more than ``limit`` values, digits or escapes."""
    return Failure("too_large", f"the request has more than {limit} {name}", code="request_too_large")


def count_values(data: bytes | bytearray) -> int:
    """Return the cost of decoding JSON, expressed as a number of values; the JSON is not decoded.

    >>> count_values(b'{"a": [1, 2, 3]}')
    4
    """
    return Bounds(0).count(data)


def is_deeper(value: object, limit: int) -> bool:
    """Return whether arrays and objects are nested more than ``limit`` levels deep."""
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
    """Return the failure for a body that is nested too deeply."""
    return invalid(f"the body is nested more than {MOST_DEPTH} levels deep", code="invalid_json")
