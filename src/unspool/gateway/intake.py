"""Bodies of requests, from the client's bytes to an object: bounded, fair, and off the loop if large.

A decoder holds the interpreter until it is done, so what bounds a body is not only its
size but the number of its values and of the escapes in its strings: thirty megabytes of
either would take seconds, and the same of plain text costs next to nothing.  A body that
is nested more deeply than anybody writes by hand is refused here, before anything that
walks it meets its own limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from .exchange import Exchange
from .failure import Failure, invalid
from .lanes import Lane
from .settings import Settings

Given = ParamSpec("Given")
Found = TypeVar("Found")

SMALL: Final = 1 << 16
"""Bodies up to so many bytes are decoded where they are, and count for nothing."""
MOST_DEPTH: Final = 128
"""Containers in containers."""
MOST_ESCAPES: Final = 1 << 22
"""In strings; in a text of that many megabytes every fourth character or so would be one."""
_WINDOW: Final = 1 << 16
_STRING: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
"""What is left of a string."""
_OPENING: Final = (b"[", b"{")


class Intake:
    """Takes in the bodies of all requests."""

    def __init__(self, settings: Settings, lane: Lane) -> None:
        self._most_bytes = settings.max_request_bytes
        self._most_values = settings.max_request_values
        self._seconds = settings.client_timeout
        self._room = max(settings.max_pending_bytes, settings.max_request_bytes)
        self._lane = lane

    async def body(self, exchange: Exchange) -> dict[str, Any]:
        """The object that a request's body holds."""
        with self._charge() as charge:
            data = await exchange.body(self._most_bytes, self._seconds, charge)
            return await self.off_loop(exchange, decode, data, self._most_values)

    async def off_loop(
        self, exchange: Exchange, work: Callable[Given, Found], *args: Given.args, **more: Given.kwargs
    ) -> Found:
        """Do something with a body: at once if it is small, else in the lane for that."""
        if exchange.size <= SMALL:
            return work(*args, **more)
        return await self._lane.run(exchange.whose, work, *args, **more)

    @contextmanager
    def _charge(self) -> Iterator[Callable[[int], None]]:
        """Told how large a body has become; refuses if too much is being taken in at once."""
        charged = 0

        def charge(size: int) -> None:
            nonlocal charged
            if size <= SMALL:
                return
            self._room -= size - charged
            charged = size
            if self._room < 0:
                told = "too many large requests at once; try again"
                raise Failure("overloaded", told, code="overloaded", retry_after="1")

        try:
            yield charge
        finally:
            self._room += charged


def decode(data: bytes | bytearray, most_values: int) -> dict[str, Any]:
    """The object that a body holds."""
    if more_values(data, most_values):
        told = f"the request has more than {most_values} values"
        raise Failure("too_large", told, code="request_too_large")
    if len(data) > MOST_ESCAPES and _more(data, _escapes, MOST_ESCAPES):
        told = f"the strings of the request have more than {MOST_ESCAPES} escapes"
        raise Failure("too_large", told, code="request_too_large")
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise invalid(f"the body is not JSON: {error}", code="invalid_json") from error
    except RecursionError as error:
        raise _too_deep() from error
    if not isinstance(found, dict):
        raise invalid(f"the body is a {type(found).__name__}; expected an object", code="invalid_json")
    if sum(map(data.count, _OPENING)) > MOST_DEPTH and deeper(found, MOST_DEPTH):
        raise _too_deep()
    return found


def _too_deep() -> Failure:
    return invalid(f"the body is nested more than {MOST_DEPTH} deep", code="invalid_json")


def more_values(data: bytes | bytearray, most: int) -> bool:
    """Whether a text of JSON has more values than so many, without decoding it.

    What separates or opens values is counted, and only if that might be too much is it
    asked which of them are in strings.
    """
    if not _more(data, _values, most):
        return False
    size = len(data)
    count = at = 0
    while at < size and count <= most:
        quote = data.find(b'"', at, at + _WINDOW)
        end = min(at + _WINDOW, size) if quote < 0 else quote
        count += _values(data, at, end)
        at = end if quote < 0 else _behind_string(data, quote + 1)
    return count > most


def _more(data: bytes | bytearray, counted: Callable[[bytes | bytearray, int, int], int], most: int) -> bool:
    """Whether a text has more of something than so many.

    No step reads more than a window of it, so that other threads can run in between.
    """
    count = 0
    for at in range(0, len(data), _WINDOW):
        count += counted(data, at, at + _WINDOW)
        if count > most:
            return True
    return False


def _values(data: bytes | bytearray, start: int, end: int) -> int:
    """What separates or opens values."""
    return data.count(b",", start, end) + data.count(b"[", start, end) + data.count(b"{", start, end)


def _escapes(data: bytes | bytearray, start: int, end: int) -> int:
    return data.count(b"\\", start, end)


def _behind_string(data: bytes | bytearray, at: int) -> int:
    """Where a string ends that has begun."""
    while at < len(data):
        found = _STRING.match(data, at, at + _WINDOW)
        end = at if found is None else found.end()
        if data[end : end + 1] == b'"':
            return end + 1
        if end == at:  # a backslash is the last character
            break
        at = end
    return len(data)


def deeper(value: object, most: int) -> bool:
    """Whether containers are in containers more than so many deep."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)  # type: ignore[attr-defined]
            if isinstance(inner, (dict, list))
        ]
    return bool(level)
