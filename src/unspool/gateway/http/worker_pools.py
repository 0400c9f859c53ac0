"""Lanes for heavy work: off the event loop, bounded, and fair.

A thread cannot be stopped.  So whatever takes time enters a lane: so many pieces of
work run at once, so many more wait, and the next one is refused with 503 and a
``Retry-After``, instead of waiting for what may never end.  Who waits is served in
turn, an owner after the other: one client's hundred requests do not stand before
another's first.

What belongs together has a lane of its own, so that a flood of one kind of work does
not hold up the others: :class:`Lanes`.  A piece of work whose client has left keeps
its place until it ends, because its thread does.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, ParamSpec, TypeVar

from .errors import Failure

Given = ParamSpec("Given")
Found = TypeVar("Found")

_TURN: Final = 0.0002
"""Seconds after which a thread lets the event loop run, which asks for every delta of every stream."""
_RETRY: Final = "1"
"""Seconds after which it is worth to try again."""


class Lane:
    """Threads for one kind of heavy work, and the queue before them."""

    def __init__(self, name: str, *, width: int, queue: int) -> None:
        """Open a lane.

        :param name: what is done in it, for whoever is refused.
        :param width: pieces of work that run at once.
        :param queue: pieces of work that may wait.
        """
        self.name = name
        self.waiting = 0
        self._free = width
        self._queue = queue
        self._owners: dict[str, deque[asyncio.Future[None]]] = {}
        """Who waits, by owner; the first owner is next."""
        self._threads = ThreadPoolExecutor(width, thread_name_prefix=f"unspool-{name}")

    async def run(
        self, owner: str, work: Callable[Given, Found], *args: Given.args, **more: Given.kwargs
    ) -> Found:
        """Do it in the lane, when it is this owner's turn.

        :param owner: whose work it is: a key, an address.
        """
        await self._enter(owner)
        loop = asyncio.get_running_loop()
        try:
            future = self._threads.submit(partial(work, *args, **more))
        except BaseException:
            self._leave()
            raise

        def over(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                loop.call_soon_threadsafe(self._leave)

        future.add_done_callback(over)
        try:
            return await asyncio.wrap_future(future)
        finally:
            del future  # with an error it holds this frame, which would hold it

    def of(self, owner: str) -> OffLoop:
        """The lane for the work of one owner."""
        return OffLoop(self, owner)

    async def _enter(self, owner: str) -> None:
        if self._free:
            self._free -= 1
            return
        if self.waiting >= self._queue:
            told = f"too much to do for {self.name}: {self.waiting} are waiting already; try again"
            raise Failure("overloaded", told, code="overloaded", retry_after=_RETRY)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owners.setdefault(owner, deque()).append(turn)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(owner, turn)
            else:
                self._leave()  # its turn came at the same moment
            raise

    def _forget(self, owner: str, turn: asyncio.Future[None]) -> None:
        line = self._owners[owner]
        line.remove(turn)
        self.waiting -= 1
        if not line:
            del self._owners[owner]

    def _leave(self) -> None:
        """A thread is free: for the first of the owner whose turn it is."""
        for owner in list(self._owners):
            line = self._owners.pop(owner)
            turn = next((one for one in line if not one.done()), None)
            if turn is None:  # all of them are being cancelled: they forget themselves
                self._owners[owner] = line
                continue
            line.remove(turn)
            self.waiting -= 1
            if line:
                self._owners[owner] = line  # behind the others
            turn.set_result(None)
            return
        self._free += 1

    def close(self) -> None:
        """No more work; what runs is left alone."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class OffLoop:
    """A lane for the work of one owner."""

    def __init__(self, lane: Lane, owner: str) -> None:
        self._lane = lane
        self._owner = owner

    async def __call__(self, work: Callable[[], Found], /) -> Found:
        """Do it in the lane, when it is this owner's turn."""
        return await self._lane.run(self._owner, work)


class Lanes:
    """The lanes of a gateway."""

    def __init__(self) -> None:
        sys.setswitchinterval(min(_TURN, sys.getswitchinterval()))
        self.bodies = Lane("reading large requests", width=1, queue=64)
        """Large bodies, decoded and checked; one at a time, because a decoder lets nobody else run."""
        self.prompts = Lane("preparing prompts", width=4, queue=256)
        """Plans, grammars and prompts: what every generation waits for."""
        self.aside = Lane("parsing and counting tokens", width=1, queue=16)
        """What no generation waits for."""
        self.answers = Lane("writing large answers", width=1, queue=sys.maxsize)
        """Large answers, put together when they are over; nobody is refused, because the work is done."""
        self.templates = Lane("running templates of requests", width=1, queue=4)
        """Templates that requests bring."""

    def close(self) -> None:
        """No more work."""
        for lane in (self.bodies, self.prompts, self.aside, self.answers, self.templates):
            lane.close()
