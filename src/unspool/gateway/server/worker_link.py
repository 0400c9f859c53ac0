"""Connection from a worker to the supervisor, for exchanging metrics with the other workers."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from ..telemetry.metrics import Metrics, Snapshot

_REPORT_INTERVAL: Final = 1.0
"""Seconds between reports."""
_TIMEOUT: Final = 2.0
"""Seconds to wait for the supervisor's answer."""


class WorkerLink:
    """Connection from a worker to the supervisor.

    Both sides send JSON objects, one per line.  A worker sends these keys:

    - ``counted``: the worker's metrics
    - ``serves``: true when the worker accepts requests
    - ``ask``: a number, to request the metrics of all other workers

    The supervisor answers a request with ``answer`` (the same number) and ``counted`` (the metrics).
    """

    def __init__(self, link: socket.socket, metrics: Metrics, on_lost: Callable[[], None]) -> None:
        """Create a link.

        :param on_lost: called when the supervisor has closed the connection.
        """
        self._socket = link
        self._metrics = metrics
        self._on_lost = on_lost
        self._numbers = itertools.count()
        self._questions: dict[int, asyncio.Future[list[Snapshot]]] = {}
        """Requests for metrics that the supervisor has not answered yet, keyed by request number."""
        self._tasks: list[asyncio.Task[None]] = []
        self._writer: asyncio.StreamWriter | None = None

    async def start(self) -> None:
        """Open the connection, and start to receive answers and send reports."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._socket, limit=1 << 24)
        self._tasks = [asyncio.create_task(self._listen(reader)), asyncio.create_task(self._report())]

    async def stop(self) -> None:
        """Send the last report and close the connection."""
        for task in self._tasks:
            task.cancel()
        self._send(counted=self._metrics.snapshot())
        if self._writer is not None:
            with suppress(ConnectionError):
                await self._writer.drain()
            self._writer.close()

    def report_serving(self) -> None:
        """Report that the worker accepts requests."""
        self._send(serves=True)

    async def read_others(self) -> list[Snapshot]:
        """Return the metrics of all other workers, including dead ones.

        If the supervisor does not answer in time, return an empty list.
        """
        number = next(self._numbers)
        answer: asyncio.Future[list[Snapshot]] = asyncio.get_running_loop().create_future()
        self._questions[number] = answer
        self._send(ask=number, counted=self._metrics.snapshot())
        try:
            async with asyncio.timeout(_TIMEOUT):
                return await answer
        except TimeoutError:
            return []
        finally:
            del self._questions[number]

    def _send(self, **message: object) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(msgspec.json.encode(message) + b"\n")

    async def _report(self) -> None:
        """Send the metrics to the supervisor at intervals, if they have changed."""
        reported: Snapshot | None = None
        while True:
            await asyncio.sleep(_REPORT_INTERVAL)
            counted = self._metrics.snapshot()
            if counted != reported:
                reported = counted
                self._send(counted=counted)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Handle answers until the supervisor closes the connection."""
        with suppress(ConnectionError):
            while line := await reader.readline():
                message = msgspec.json.decode(line)
                answer = self._questions.get(message["answer"])
                if answer is not None and not answer.done():
                    answer.set_result(message["counted"])
        self._on_lost()
