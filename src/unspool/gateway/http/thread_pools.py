"""Bounded and fair thread pools for heavy work.

A running thread cannot be stopped, so the number of jobs must be limited.  Each pool runs a fixed
number of jobs at a time and has a queue of limited length.  If the queue is full, the request fails with
status 503 with ``Retry-After``.  Clients take turns: when one client has queued a hundred jobs,
another client's first job does not have to wait for all of them.

Each kind of work has its own pool, so that many jobs of one kind do not delay the other kinds (see
:class:`WorkerPools`).  If a client disconnects while its job is running, the job continues to occupy
its thread until it is done.
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
"""Function that runs the work passed to it: directly, or in a thread if the work takes long."""

_SWITCH_INTERVAL: Final = 0.0002
"""Maximum time in seconds for which a worker thread holds the GIL while the event loop waits for the GIL.

The event loop must run for every delta, so this time is shorter than Python's default.
"""
_RETRY_AFTER: Final = "1"
"""Value of the ``Retry-After`` header, in seconds."""


class WorkerPool:
    """Threads for one kind of heavy work, with a queue of waiting jobs."""

    def __init__(self, name: str, *, width: int, queue: int) -> None:
        """Start a pool.

        :param name: the kind of work, for error messages.
        :param width: maximum number of running jobs.
        :param queue: maximum number of waiting jobs.
        """
        self.name = name
        self.waiting = 0
        """Number of jobs in the queue."""
        self._free = width
        self._queue = queue
        self._clients: dict[str, deque[asyncio.Future[None]]] = {}
        """Queued jobs, keyed by client.  The next free thread runs the oldest job of the first client."""
        self._threads = ThreadPoolExecutor(width, thread_name_prefix=f"unspool-{name}")

    async def run(
        self, client: str, work: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs
    ) -> Result:
        """Run a function in a thread when it is this client's turn.

        :param client: an API key's digest or an IP address; clients take turns.
        """
        await self._enter(client)
        loop = asyncio.get_running_loop()
        try:
            future = self._threads.submit(partial(work, *args, **kwargs))
        except BaseException:
            self._leave()
            raise

        def leave(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed, so there are no waiting jobs
                loop.call_soon_threadsafe(self._leave)

        future.add_done_callback(leave)
        try:
            return await asyncio.wrap_future(future)
        finally:
            del future  # otherwise a failed future and this function's frame form a reference cycle

    async def run_if_large(
        self,
        client: str,
        large: bool,
        work: Callable[Params, Result],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Result:
        """Run a function in a thread if its input is large, otherwise directly."""
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
                self._leave()  # the job was cancelled just after it got a thread, so release the thread
            raise

    def _remove(self, client: str, turn: asyncio.Future[None]) -> None:
        """Remove a cancelled job from the queue."""
        turns = self._clients[client]
        turns.remove(turn)
        self.waiting -= 1
        if not turns:
            del self._clients[client]

    def _leave(self) -> None:
        """Pass a free thread to the next client's first job; if no job is waiting, keep the thread free."""
        for client in list(self._clients):
            turns = self._clients.pop(client)
            turn = next((one for one in turns if not one.done()), None)
            if turn is None:  # all jobs of this client are being cancelled and will remove themselves
                self._clients[client] = turns
                continue
            turns.remove(turn)
            self.waiting -= 1
            if turns:
                self._clients[client] = turns  # this client's next turn comes after all other clients
            turn.set_result(None)
            return
        self._free += 1

    def close(self) -> None:
        """Cancel queued jobs; running jobs continue."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class WorkerPools:
    """The worker pools of a gateway, one per kind of work."""

    def __init__(self) -> None:
        sys.setswitchinterval(min(_SWITCH_INTERVAL, sys.getswitchinterval()))
        self.bodies = WorkerPool("reading large requests", width=1, queue=64)
        """Pool for decoding and checking large bodies, one at a time, because a decoder holds the GIL."""
        self.prompts = WorkerPool("preparing prompts", width=4, queue=256)
        """Pool for creating plans, grammars and prompts, which every generation needs before it starts."""
        self.parsing = WorkerPool("parsing and counting tokens", width=1, queue=16)
        """Pool for ``/v1/parse``, ``/tokenize`` and similar requests; generation requests do not use it."""
        self.answers = WorkerPool("writing large answers", width=1, queue=sys.maxsize)
        """Pool for encoding large answers; its queue is unlimited, so that no finished answer is lost."""
        self.templates = WorkerPool("running chat templates from requests", width=1, queue=4)
        """Pool for running chat templates that clients send in requests."""

    def close(self) -> None:
        """Close all pools."""
        for pool in (self.bodies, self.prompts, self.parsing, self.answers, self.templates):
            pool.close()
