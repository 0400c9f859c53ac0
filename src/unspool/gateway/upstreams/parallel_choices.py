"""n choices from an engine that generates one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from .base import Batch, Stream, Usage


class ManyStreams:
    """Several streams as one."""

    def __init__(self, streams: list[Stream]) -> None:
        self._streams = streams
        # One place for each: whoever is ahead waits until it is read.
        self._queue: asyncio.Queue[tuple[int, Batch | BaseException | None]] = asyncio.Queue(len(streams))
        self._open = len(streams)
        self._usage: dict[int, Usage] = {}
        self._tasks = [asyncio.create_task(self._pump(i, stream)) for i, stream in enumerate(streams)]

    @classmethod
    async def open(cls, n: int, begin: Callable[[int], Awaitable[Stream]]) -> Self:
        """Begin n streams; if one cannot, none does."""
        found = await asyncio.gather(*(begin(number) for number in range(n)), return_exceptions=True)
        streams = [one for one in found if not isinstance(one, BaseException)]
        failed = [one for one in found if isinstance(one, BaseException)]
        if failed:
            for stream in streams:
                await stream.close()
            raise failed[0]
        return cls(streams)

    async def _pump(self, choice: int, stream: Stream) -> None:
        try:
            while batch := await stream.next():
                await self._queue.put((choice, batch))
            await self._queue.put((choice, None))
        except Exception as error:  # noqa: BLE001 - it is raised by whoever reads
            await self._queue.put((choice, error))

    async def next(self) -> Batch | None:
        """What one of them has."""
        while self._open:
            choice, item = await self._queue.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                self._open -= 1
                continue
            for delta in item.deltas:
                delta.choice = choice
            if item.usage is not None:
                self._usage[choice] = item.usage
                known = self._usage.values()
                first = next(iter(known))
                item.usage = Usage(first.prompt, sum(one.completion for one in known), first.cached)
            return item
        return None

    async def close(self) -> None:
        """Stop all of them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._streams:
            await stream.close()
