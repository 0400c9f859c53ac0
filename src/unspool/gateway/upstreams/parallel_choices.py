"""Parallel requests, for n choices from an engine that generates only one choice per request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from .base import Batch, Stream, Usage


class ParallelStreams:
    """Stream that merges the streams of several choices, one stream per choice."""

    def __init__(self, streams: list[Stream]) -> None:
        self._streams = streams
        # The queue holds at most n batches for n streams, so the streams cannot run far ahead of the reader.
        self._queue: asyncio.Queue[tuple[int, Batch | BaseException | None]] = asyncio.Queue(len(streams))
        self._open_count = len(streams)
        self._usage: dict[int, Usage] = {}
        self._tasks = [asyncio.create_task(self._pump(i, stream)) for i, stream in enumerate(streams)]

    @classmethod
    async def open(cls, n: int, open_choice: Callable[[int], Awaitable[Stream]]) -> Self:
        """Open n streams; if one of them fails, close all others and raise the error of that stream."""
        # Wait for all streams even if one fails, so that every stream that was opened can be closed.
        results = await asyncio.gather(*(open_choice(index) for index in range(n)), return_exceptions=True)
        streams = [one for one in results if not isinstance(one, BaseException)]
        errors = [one for one in results if isinstance(one, BaseException)]
        if errors:
            for stream in streams:
                await stream.close()
            raise errors[0]
        return cls(streams)

    async def _pump(self, choice: int, stream: Stream) -> None:
        """Move the batches of one stream to the queue, followed by None at the end of the stream."""
        try:
            while batch := await stream.next():
                await self._queue.put((choice, batch))
            await self._queue.put((choice, None))
        except Exception as error:  # noqa: BLE001 - next() raises it
            await self._queue.put((choice, error))

    async def next(self) -> Batch | None:
        """Return the next batch of any stream, or None when all streams have ended."""
        while self._open_count:
            choice, item = await self._queue.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                self._open_count -= 1
                continue
            for delta in item.deltas:
                delta.choice = choice
            if item.usage is not None:
                # All choices share one prompt, so the prompt's tokens count once; only completion tokens are
                # added up.
                self._usage[choice] = item.usage
                usages = self._usage.values()
                first = next(iter(usages))
                item.usage = Usage(first.prompt, sum(one.completion for one in usages), first.cached)
            return item
        return None

    async def close(self) -> None:
        """Stop all streams."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._streams:
            await stream.close()
