"""Bodies of requests, from the client's bytes to an object: bounded, fair, and off the loop if large.

What takes time to decode is counted while a large body comes, and its client sends no
more until that is done: a body is refused where it passes a bound, and nobody fills the
gateway faster than it counts.  Arguments of calls are JSON in a string, which is decoded
later: the same bounds hold for them.  A body that is nested more deeply than anybody
writes by hand is refused here, before anything that walks it meets its own limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from ..apis.chat.request import Job
from ..conversation.history_repair import arguments_of
from ..settings import Settings
from ..state.store import Weight
from .errors import Failure, invalid
from .exchange import Exchange, too_large
from .json_decoding import SMALL, VALUES, Bounds, separators, too_many
from .worker_pools import Lane

Given = ParamSpec("Given")
Found = TypeVar("Found")

MOST_DEPTH: Final = 128
"""Containers in containers."""
MOST_WRITTEN: Final = 1 << 22
"""Characters of a call's arguments, and bytes of all tools or of a schema: they are written and read
again on the way to a prompt, each time in one go, and no model takes as much."""
MOST_LEFT_OUT: Final = 20
"""Fields of a request that the log says are left out."""
_STEP: Final = 1 << 20
"""A body is looked at whenever so much of it has come."""
_OPENING: Final = (b"[", b"{")


class Intake:
    """Takes in the bodies of all requests."""

    def __init__(self, settings: Settings, lane: Lane) -> None:
        self._most_bytes = settings.max_request_bytes
        self._most_values = settings.max_request_values
        self._seconds = settings.client_timeout
        self._room = max(settings.max_pending_bytes, settings.max_request_bytes)
        self._lane = lane
        self._most_coming = settings.max_pending_requests
        self._coming: dict[Exchange, None] = {}
        """Requests whose bodies are being received, the one first that has not grown for the longest time."""

    async def body(self, exchange: Exchange) -> dict[str, Any]:
        """The object that a request's body holds."""
        bounds = Bounds(self._most_values)
        with self._charge() as charge:

            async def grown(data: bytearray) -> None:
                self._coming[exchange] = self._coming.pop(exchange, None)
                charge(len(data))
                if bounds.unseen(data) >= _STEP:
                    await self._lane.run(exchange.whose, bounds.look, data)

            with self._place(exchange):
                data = await exchange.body(self._most_bytes, self._seconds, grown)
            if len(data) <= SMALL:
                exchange.values = separators(data)
            return await self.off_loop(exchange, decode, data, bounds)

    @contextmanager
    def _place(self, exchange: Exchange) -> Iterator[None]:
        """Hold a place for a body that is being received; if all are taken, the slowest gives up its own."""
        if len(self._coming) >= self._most_coming:
            slowest = next(iter(self._coming))
            del self._coming[slowest]
            slowest.displace()
        self._coming[exchange] = None
        try:
            yield
        finally:
            self._coming.pop(exchange, None)

    def charge(self, exchange: Exchange, weight: Weight, times: int = 1) -> None:
        """Count what a request refers back to as a part of it; refuse it above the bounds of a body."""
        exchange.size += weight.size * times
        exchange.values += weight.values * times
        if exchange.size > self._most_bytes:
            raise too_large(self._most_bytes)
        if exchange.values > self._most_values:
            raise too_many(self._most_values, "values")

    async def job(
        self, exchange: Exchange, read: Callable[Given, Job], *args: Given.args, **more: Given.kwargs
    ) -> Job:
        """What a body asks for."""

        def bounded() -> Job:
            job = read(*args, **more)
            arguments = arguments_of(job.request["messages"])
            if exchange.size > MOST_WRITTEN:
                _bound("arguments of a call", max(map(len, arguments), default=0))
                _bound("tools", len(msgspec.json.encode(job.request.get("tools"))))
                _bound("schema of the answer", len(msgspec.json.encode(job.schema)))
            Bounds(self._most_values).look_into(arguments)
            # For the log, which is written on the event loop.
            job.left_out = list(dict.fromkeys(job.left_out))[:MOST_LEFT_OUT]
            return job

        return await self.off_loop(exchange, bounded)

    async def off_loop(
        self, exchange: Exchange, work: Callable[Given, Found], *args: Given.args, **more: Given.kwargs
    ) -> Found:
        """Do something with a body: at once if it is small, else in the lane for that."""
        if not exchange.large:
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


def decode(data: bytes | bytearray, bounds: Bounds) -> dict[str, Any]:
    """The object that a body holds.

    :param bounds: which may have seen some of it.
    """
    bounds.look(data)
    try:
        found = VALUES.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise invalid(f"the body is not JSON: {error}", code="invalid_json") from error
    except RecursionError as error:
        raise _too_deep() from error
    if not isinstance(found, dict):
        raise invalid(f"the body is a {type(found).__name__}; expected an object", code="invalid_json")
    if (len(data) > SMALL or sum(map(data.count, _OPENING)) > MOST_DEPTH) and deeper(found, MOST_DEPTH):
        raise _too_deep()
    return found


def _bound(what: str, size: int) -> None:
    if size > MOST_WRITTEN:
        told = f"the {what}: more than {MOST_WRITTEN} characters"
        raise Failure("too_large", told, code="request_too_large")


def _too_deep() -> Failure:
    return invalid(f"the body is nested more than {MOST_DEPTH} deep", code="invalid_json")


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
        if not level:
            return False
    return True
