"""A worker's line to the supervisor: what it counts, what the others count, and that it lives."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from ..telemetry.metrics import Metrics, Snapshot

_OFTEN: Final = 1.0
"""Seconds between reports."""
_PATIENCE: Final = 2.0
"""Seconds to wait for an answer."""


class WorkerLink:
    """The other workers, as one of them sees them."""

    def __init__(self, line: socket.socket, metrics: Metrics, lost: Callable[[], None]) -> None:
        """Prepare to talk.

        :param lost: called when the supervisor is gone.
        """
        self._line = line
        self._metrics = metrics
        self._lost = lost
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[list[Snapshot]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._writer: asyncio.StreamWriter | None = None

    async def start(self) -> None:
        """Begin to listen, and to report."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._line, limit=1 << 24)
        self._tasks = [asyncio.create_task(self._listen(reader)), asyncio.create_task(self._report())]

    async def stop(self) -> None:
        """Report for the last time."""
        for task in self._tasks:
            task.cancel()
        self._tell(counted=self._metrics.snapshot())
        if self._writer is not None:
            with suppress(ConnectionError):
                await self._writer.drain()
            self._writer.close()

    def report_serving(self) -> None:
        """Say that requests are answered from now on."""
        self._tell(serves=True)

    async def read_others(self) -> list[Snapshot]:
        """What all others counted, the dead included; nothing if the supervisor does not answer."""
        number = next(self._numbers)
        asked: asyncio.Future[list[Snapshot]] = asyncio.get_running_loop().create_future()
        self._asked[number] = asked
        self._tell(ask=number, counted=self._metrics.snapshot())
        try:
            async with asyncio.timeout(_PATIENCE):
                return await asked
        except TimeoutError:
            return []
        finally:
            del self._asked[number]

    def _tell(self, **message: object) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(msgspec.json.encode(message) + b"\n")

    async def _report(self) -> None:
        told: Snapshot | None = None
        while True:
            await asyncio.sleep(_OFTEN)
            counted = self._metrics.snapshot()
            if counted != told:
                told = counted
                self._tell(counted=counted)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                message = msgspec.json.decode(line)
                asked = self._asked.get(message["answer"])
                if asked is not None and not asked.done():
                    asked.set_result(message["counted"])
        self._lost()
