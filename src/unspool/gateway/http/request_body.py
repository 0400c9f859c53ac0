"""Reading and decoding of request bodies, within limits on their size, values and nesting.

Large bodies are processed in threads, so that they do not block the event loop.  While a body
arrives, its values are counted, and the gateway reads no more data until the count is done.  So a
body is rejected as soon as it exceeds a limit, and clients cannot send faster than the gateway
counts.  Bodies with too many nested levels are rejected here, before any recursive function
processes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from ..settings import Settings
from .exchange import Exchange, too_large
from .failure import Failure, invalid
from .json_decoding import VALUES
from .json_limits import MOST_DEPTH, SMALL, Bounds, count_separators, is_deeper, too_deep, too_many
from .thread_pools import WorkerPool

Params = ParamSpec("Params")
Result = TypeVar("Result")

_COUNT_INTERVAL: Final = 1 << 20
"""Number of bytes that must arrive before the values in these bytes are counted."""
_OPENERS: Final = (b"[", b"{")


class BodyReader:
    """Reader of request bodies, shared by all endpoints."""

    def __init__(self, settings: Settings, pool: WorkerPool) -> None:
        self._pool = pool
        self._max_bytes = settings.max_request_bytes
        self.max_values = settings.max_request_values
        self._timeout = settings.client_timeout
        self._free_bytes = max(settings.max_pending_bytes, settings.max_request_bytes)
        """Memory that is still available for large bodies, in bytes."""
        self._max_arriving = settings.max_pending_requests
        self._arriving: dict[Exchange, None] = {}
        """Requests whose bodies are arriving, in the order in which they last received data."""

    async def read(self, exchange: Exchange) -> dict[str, Any]:
        """Read a request's body and return the JSON object in it."""
        bounds = Bounds(self.max_values)
        with self._reserve(exchange) as reserve:

            async def on_growth(data: bytearray) -> None:
                self._arriving[exchange] = self._arriving.pop(exchange, None)
                if len(data) > SMALL:
                    reserve(len(data))
                    if bounds.uncounted(data) >= _COUNT_INTERVAL:
                        await self._pool.run(exchange.client, bounds.check, data)

            data = await exchange.read_body(self._max_bytes, self._timeout, on_growth)
            self._arriving.pop(exchange, None)  # the body has arrived
            if len(data) <= SMALL:
                exchange.values = count_separators(data)
            return await self.run(exchange, decode, data, bounds)

    async def run(
        self,
        exchange: Exchange,
        work: Callable[Params, Result],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Result:
        """Run a function on a request's body: directly if the request is small, otherwise in a thread."""
        return await self._pool.run_if_large(exchange.client, exchange.is_large, work, *args, **kwargs)

    def charge(self, exchange: Exchange, size: int, values: int, times: int = 1) -> None:
        """Add the size of stored data to the size of the request that uses the data, and check the limits.

        :param size: size of the data in bytes.
        :param values: number of JSON values in the data.
        :param times: how often the request refers to the data.
        """
        exchange.size += size * times
        exchange.values += values * times
        if exchange.size > self._max_bytes:
            raise too_large(self._max_bytes)
        if exchange.values > self.max_values:
            raise too_many(self.max_values, "values")

    @contextmanager
    def _reserve(self, exchange: Exchange) -> Iterator[Callable[[int], None]]:
        """Reserve one of the limited places for arriving bodies; if none is free, displace the slowest body.

        The slowest body is the one that has received no data for the longest time.

        Yield a function that reserves memory for the body's current size, or raises a failure if there is
        not enough memory.
        """
        if len(self._arriving) >= self._max_arriving:
            slowest = next(iter(self._arriving))
            del self._arriving[slowest]
            slowest.displace()
        self._arriving[exchange] = None
        reserved = 0

        def reserve(size: int) -> None:
            nonlocal reserved
            self._free_bytes -= size - reserved
            reserved = size
            if self._free_bytes < 0:
                message = "too many large requests at once; retry later"
                raise Failure("overloaded", message, code="overloaded", retry_after="1")

        try:
            yield reserve
        finally:
            self._arriving.pop(exchange, None)
            self._free_bytes += reserved


def decode(data: bytes | bytearray, bounds: Bounds) -> dict[str, Any]:
    """Decode a body and return the JSON object in it.

    :param bounds: limits on the body; the first part of the body may already have been counted.
    """
    bounds.check(data)
    try:
        value = VALUES.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise invalid(f"the body is not JSON: {error}", code="invalid_json") from error
    except RecursionError as error:
        raise too_deep() from error
    if not isinstance(value, dict):
        raise invalid(f"the body is a {type(value).__name__}; expected an object", code="invalid_json")
    # A small body with few opening brackets cannot be nested too deeply, so skip the slower check for it.
    if (len(data) > SMALL or sum(map(data.count, _OPENERS)) > MOST_DEPTH) and is_deeper(value, MOST_DEPTH):
        raise too_deep()
    return value
