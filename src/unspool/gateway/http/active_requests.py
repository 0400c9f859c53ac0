"""Set of active requests, with a limit on their number, timeouts for slow clients, and stream pings.

The limit and the metric count only admitted requests, which are generations and forwarded requests.
They do not count health checks, scrapes, the page, and requests whose bodies are still arriving.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

from ..telemetry.metrics import Gauge
from .exchange import Exchange
from .failure import Failure

_CHECK_INTERVAL: Final = 1.0
"""Maximum time in seconds between two checks of all clients."""


class ActiveRequests:
    """Set of the requests in progress."""

    def __init__(self, gauge: Gauge, *, limit: int, client_timeout: float, ping_interval: float) -> None:
        """Create an empty set.

        :param gauge: metric for the number of admitted requests.
        :param limit: maximum number of admitted requests; 0 for no limit.
        :param client_timeout: seconds after which a client that does not read is disconnected.
        :param ping_interval: seconds without data after which a stream sends a ping.
        """
        self._gauge = gauge
        self._limit = limit
        self._client_timeout = client_timeout
        self._ping_interval = ping_interval
        self._exchanges: set[Exchange] = set()
        self._admitted: set[Exchange] = set()
        """Requests whose bodies have arrived; only these count towards the limit."""
        self._checker: asyncio.Task[None] | None = None
        self._empty: asyncio.Event | None = None
        """Event that is set when the last request ends; None if nothing waits for it."""

    def __len__(self) -> int:
        return len(self._exchanges)

    def enter(self, exchange: Exchange) -> None:
        """Add a new request."""
        self._exchanges.add(exchange)

    def admit(self, exchange: Exchange) -> None:
        """Admit a request whose body has arrived, or raise a failure if the limit has been reached."""
        if self._limit and len(self._admitted) >= self._limit:
            message = f"more than {self._limit} concurrent requests; retry later"
            raise Failure("overloaded", message, code="overloaded", retry_after="1")
        exchange.admit()
        self._admitted.add(exchange)
        self._gauge.add(amount=1)

    def exit(self, exchange: Exchange) -> None:
        """Remove a request that has ended."""
        self._exchanges.discard(exchange)
        if exchange in self._admitted:
            self._admitted.remove(exchange)
            exchange.finish()
            self._gauge.add(amount=-1)
        exchange.stop_watching()
        if self._empty is not None and not self._exchanges:
            self._empty.set()

    async def wait_until_empty(self) -> None:
        """Wait until all requests have ended."""
        while self._exchanges:
            self._empty = asyncio.Event()
            await self._empty.wait()

    async def start(self) -> None:
        """Start checking the clients; requires a running event loop."""
        if self._checker is None:
            self._checker = asyncio.create_task(self._check_forever())

    async def stop(self) -> bool:
        """Stop checking the clients; return False if the checks were not running."""
        if self._checker is None:
            return False
        self._checker.cancel()
        with suppress(asyncio.CancelledError):
            await self._checker
        self._checker = None
        return True

    async def _check_forever(self) -> None:
        pings: set[asyncio.Task[None]] = set()
        while True:
            await asyncio.sleep(min(_CHECK_INTERVAL, self._ping_interval))
            self._check_clients(pings)

    def _check_clients(self, pings: set[asyncio.Task[None]]) -> None:
        """Disconnect clients that have stopped reading, and ping clients whose stream is idle."""
        limit = time.monotonic() - self._client_timeout
        for exchange in tuple(self._exchanges):
            if exchange.sending_since is not None and exchange.sending_since < limit:
                exchange.disconnect()
            elif exchange.ping:
                ping = asyncio.create_task(exchange.ping_if_idle(self._ping_interval))
                pings.add(ping)
                ping.add_done_callback(pings.discard)
