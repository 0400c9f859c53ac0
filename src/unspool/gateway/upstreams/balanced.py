"""Several upstreams for one model.

A request goes to the upstream that has the fewest, or, if that has not many more, to
the one that conversations with the same beginning go to: it has read that beginning
already.  What fails before the first byte is tried elsewhere.  An upstream that fails
again and again rests: nobody is sent there until it answers when asked for its health,
and the first failure after that makes it rest again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from ..failure import Failure
from ..logs import log
from .base import Batch, Stream, Task
from .completions import CompletionsUpstream

_FAILURES: Final = 3
"""So many failures in a row make an upstream rest."""
_PAUSES: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between questions for its health; the last for ever."""
_SLACK: Final = 4
"""So many requests more than the idlest has, an upstream may have that knows the conversation."""
_ELSEWHERE: Final = ("upstream_refused", "upstream_lost", "upstream_busy", "upstream_error")
"""Failures after which another upstream may do better."""


class Member:
    """One of the upstreams."""

    def __init__(self, upstream: CompletionsUpstream) -> None:
        self.upstream = upstream
        self.active = 0
        """Its streams."""
        self.failures = 0
        """In a row."""
        self.resting: asyncio.Task[None] | None = None
        self.salt = blake2b(self.url.encode(), digest_size=16).digest()
        """Which conversations are at home there follows from the address, in every process alike."""

    @property
    def url(self) -> str:
        """Its address."""
        return self.upstream.connection.url

    def failed(self, failure: Failure) -> None:
        """Remember that; perhaps it should rest."""
        if failure.code == "upstream_busy":
            return
        self.failures += 1
        if self.failures >= _FAILURES and self.resting is None:
            log(logging.WARNING, "upstream rests", url=self.url, reason=failure.message)
            self.resting = asyncio.create_task(self._rest())

    def succeeded(self) -> None:
        """It works."""
        self.failures = 0

    async def _rest(self) -> None:
        pauses = iter(_PAUSES)
        pause = 0.0
        while True:
            pause = next(pauses, pause)
            await asyncio.sleep(pause)
            if await self.upstream.connection.reachable():
                break
        self.failures = _FAILURES - 1
        self.resting = None
        log(logging.INFO, "upstream works again", url=self.url)


class Balanced:
    """Several upstreams of one kind as one."""

    def __init__(self, upstreams: Sequence[CompletionsUpstream]) -> None:
        self.members = [Member(upstream) for upstream in upstreams]
        self.renders = upstreams[0].renders

    @property
    def constraints(self) -> Sequence[str]:
        """What all of them can hold a model to."""
        first, *others = (member.upstream.constraints for member in self.members)
        return [kind for kind in first if all(kind in other for other in others)]

    async def start(self) -> None:
        """Connect to all of them."""
        await asyncio.gather(*(member.upstream.start() for member in self.members))

    async def stop(self) -> None:
        """Disconnect."""
        for member in self.members:
            if member.resting is not None:
                member.resting.cancel()
            await member.upstream.stop()

    async def ready(self) -> bool:
        """Whether any of them answers."""
        return any(await asyncio.gather(*(member.upstream.ready() for member in self.members)))

    async def count(self, prompt: str) -> int | None:
        """What the first says that can be asked."""
        for member in self.members:
            if member.resting is None and (count := await member.upstream.count(prompt)) is not None:
                return count
        return None

    async def open(self, task: Task) -> Stream:
        """Begin to generate, wherever that is possible."""
        return await BalancedStream(self, task).begun()

    def choose(self, task: Task, tried: Sequence[Member]) -> Member | None:
        """The upstream for a task; None: there is no other."""
        able = [member for member in self.members if member.resting is None and member not in tried]
        if not able:
            return None
        key = _beginning(task.request)
        known = max(able, key=lambda member: blake2b(key, key=member.salt).digest())
        idlest = min(able, key=lambda member: member.active)
        return known if known.active <= idlest.active + _SLACK else idlest


class BalancedStream:
    """A stream of one of the upstreams; until it has begun, that may become another."""

    def __init__(self, balanced: Balanced, task: Task) -> None:
        self._balanced = balanced
        self._task = task
        self._tried: list[Member] = []
        self._stream: Stream | None = None

    async def begun(self) -> Stream:
        """The stream itself, when an upstream has accepted it; a failure if none does."""
        failure: Failure | None = None
        while (member := self._balanced.choose(self._task, self._tried)) is not None:
            self._tried.append(member)
            member.active += 1
            try:
                self._stream = await member.upstream.open(self._task)
            except BaseException as error:
                member.active -= 1
                if not isinstance(error, Failure) or not error.code.startswith("upstream"):
                    raise
                if error.code == "upstream_rejected":
                    raise
                member.failed(error)
                failure = error
                if error.code not in _ELSEWHERE:
                    raise
            else:
                return self
        raise failure or Failure(
            "overloaded",
            "none of the upstreams answers",
            code="upstream_refused",
            retry_after=f"{max(1, round(_PAUSES[0]))}",
        )

    async def next(self) -> Batch | None:
        """What has come in since."""
        while self._stream is not None:
            try:
                batch = await self._stream.next()
            except Failure as failure:
                self._tried[-1].failed(failure)
                await self.close()
                if failure.code not in _ELSEWHERE:
                    raise
                if self._balanced.choose(self._task, self._tried) is None:
                    raise
                await self.begun()
                continue
            if batch is None or batch.deltas:
                self._tried[-1].succeeded()
                # Nothing can be tried again from here on, so there is nothing more to do for a delta.
                self.next = self._stream.next  # type: ignore[method-assign]
            return batch
        return None

    async def close(self) -> None:
        """Stop generating."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._tried[-1].active -= 1
            await stream.close()


def _beginning(request: Mapping[str, object]) -> bytes:
    """What conversations share that have the same beginning."""
    messages = request.get("messages")
    return msgspec.json.encode(messages[:2] if isinstance(messages, list) else None)
