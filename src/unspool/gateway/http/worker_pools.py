"""Bounded and fair thread pools for heavy work.

A thread cannot be stopped.  So each pool runs a fixed number of jobs at once, queues a fixed
number more, and refuses the next with 503 and ``Retry-After``, which is better than a queue
that never ends.  Queued jobs start in turn, one client after the other: a hundred jobs of one
client do not delay the first job of another.

Each kind of work has its own pool, so that a flood of one kind does not hold up the others:
see :class:`WorkerPools`.  A job whose client has left keeps its place until it ends, because
its thread does.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from .failure import Failure

Params = ParamSpec("Params")
Result = TypeVar("Result")

RunWork: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Function that runs another one: at once, or in a thread if that takes long."""

_SWITCH_INTERVAL: Final = 0.0002
"""Seconds after which a worker thread lets the event loop run; the loop has to run for every delta."""
_RETRY_AFTER: Final = "1"
"""Seconds, as the header has it."""


class WorkerPool:
    """Threads for one kind of heavy work, and the queue in front of them."""

    def __init__(self, name: str, *, width: int, queue: int) -> None:
        """Start a pool.

        :param name: the kind of work, for error messages.
        :param width: jobs that run at once, at most.
        :param queue: jobs that wait, at most.
        """
        self.name = name
        self.waiting = 0
        """Jobs in the queue."""
        self._free = width
        self._queue = queue
        self._clients: dict[str, deque[asyncio.Future[None]]] = {}
        """Queued jobs by client; the first client is next."""
        self._threads = ThreadPoolExecutor(width, thread_name_prefix=f"unspool-{name}")

    async def run(
        self, client: str, work: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs
    ) -> Result:
        """Run a function in a thread, when it is this client's turn.

        :param client: an API key's digest or an address; clients take turns.
        """
        await self._enter(client)
        loop = asyncio.get_running_loop()
        try:
            future = self._threads.submit(partial(work, *args, **kwargs))
        except BaseException:
            self._leave()
            raise

        def leave(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed, so no job waits any more
                loop.call_soon_threadsafe(self._leave)

        future.add_done_callback(leave)
        try:
            return await asyncio.wrap_future(future)
        finally:
            del future  # a failed future refers to this frame, which would refer to the future

    async def run_if_large(
        self,
        client: str,
        large: bool,
        work: Callable[Params, Result],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Result:
        """Run a function in a thread if its input is large, else at once."""
        if large:
            return await self.run(client, work, *args, **kwargs)
        return work(*args, **kwargs)

    async def _enter(self, client: str) -> None:
        """Take a free thread, or wait in the queue for one."""
        if self._free:
            self._free -= 1
            return
        if self.waiting >= self._queue:
            message = f"the queue for {self.name} is full ({self.waiting} waiting); retry later"
            raise Failure("overloaded", message, code="overloaded", retry_after=_RETRY_AFTER)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._clients.setdefault(client, deque()).append(turn)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(client, turn)
            else:
                self._leave()  # the turn came in the same moment, so pass it on
            raise

    def _remove(self, client: str, turn: asyncio.Future[None]) -> None:
        """Remove a cancelled job from the queue."""
        turns = self._clients[client]
        turns.remove(turn)
        self.waiting -= 1
        if not turns:
            del self._clients[client]

    def _leave(self) -> None:
        """Hand a free thread to the first job of the client whose turn it is."""
        for client in list(self._clients):
            turns = self._clients.pop(client)
            turn = next((one for one in turns if not one.done()), None)
            if turn is None:  # all of them are being cancelled, and remove themselves
                self._clients[client] = turns
                continue
            turns.remove(turn)
            self.waiting -= 1
            if turns:
                self._clients[client] = turns  # last in the order of clients
            turn.set_result(None)
            return
        self._free += 1

    def close(self) -> None:
        """Drop queued jobs; running ones go on."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class WorkerPools:
    """The pools of a gateway."""

    def __init__(self) -> None:
        sys.setswitchinterval(min(_SWITCH_INTERVAL, sys.getswitchinterval()))
        self.bodies = WorkerPool("reading large requests", width=1, queue=64)
        """Decodes and checks large bodies, one at a time, because a decoder holds the interpreter."""
        self.prompts = WorkerPool("preparing prompts", width=4, queue=256)
        """Makes plans, grammars and prompts, which every generation waits for."""
        self.parsing = WorkerPool("parsing and counting tokens", width=1, queue=16)
        """Does work that no generation waits for."""
        self.answers = WorkerPool("writing large answers", width=1, queue=sys.maxsize)
        """Encodes large answers; its queue is endless, because the answers are already generated."""
        self.templates = WorkerPool("running templates of requests", width=1, queue=4)
        """Runs chat templates that come in requests."""

    def close(self) -> None:
        """Close all pools."""
        for pool in (self.bodies, self.prompts, self.parsing, self.answers, self.templates):
            pool.close()
