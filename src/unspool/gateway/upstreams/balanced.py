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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeVar

from ..http.errors import Failure
from ..telemetry.logs import log
from .base import Batch, Stream, UpstreamRequest
from .completions import CompletionsUpstream
from .http import Passed

Begun = TypeVar("Begun")

_FAILURES: Final = 3
"""So many failures in a row make an upstream rest."""
_PAUSES: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between questions for its health; the last for ever."""
_SLACK: Final = 4
"""So many requests more than the idlest has, an upstream may have that knows the conversation."""
_SHARED: Final = 1000
"""Characters at the beginning of a prompt, or of a message, that tell one conversation from another."""
_ELSEWHERE: Final = (
    "upstream_refused",
    "upstream_lost",
    "upstream_busy",
    "upstream_error",
    "upstream_redirect",
)
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

    def left(self) -> None:
        """One of its streams is over."""
        self.active -= 1

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

    async def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        """What the first says that can be asked."""
        for member in self.members:
            if member.resting is None:
                found = await member.upstream.tokenize(text, special=special)
                if found is not None:
                    return found
        return None

    async def detokenize(self, tokens: Sequence[int]) -> str | None:
        """Likewise."""
        for member in self.members:
            if member.resting is None and (found := await member.upstream.detokenize(tokens)) is not None:
                return found
        return None

    async def forward(self, path: str, body: Mapping[str, Any]) -> Passed:
        """Hand a request on, wherever that is possible."""
        tried: list[Member] = []
        passed = await self.somewhere(body, tried, lambda upstream: upstream.forward(path, body))
        tried[-1].succeeded()
        passed.closed = tried[-1].left
        return passed

    async def somewhere(
        self,
        request: Mapping[str, Any],
        tried: list[Member],
        begin: Callable[[CompletionsUpstream], Awaitable[Begun]],
    ) -> Begun:
        """Begin something, with the first upstream that lets us; a failure if none does.

        :param tried: those that are not to be asked; the last one of it did, and has it among its ``active``.
        """
        failure: Failure | None = None
        while (member := self.choose(request, tried)) is not None:
            tried.append(member)
            member.active += 1
            try:
                return await begin(member.upstream)
            except BaseException as error:
                member.active -= 1
                if not isinstance(error, Failure):
                    raise
                if not error.code.startswith("upstream") or error.code == "upstream_rejected":
                    raise
                member.failed(error)
                failure = error
                if error.code not in _ELSEWHERE:
                    raise
        raise failure or Failure(
            "overloaded",
            "none of the upstreams answers",
            code="upstream_refused",
            retry_after=f"{max(1, round(_PAUSES[0]))}",
        )

    async def open(self, task: UpstreamRequest) -> Stream:
        """Begin to generate, wherever that is possible."""
        return await BalancedStream(self, task).begun()

    def choose(self, request: Mapping[str, Any], tried: Sequence[Member]) -> Member | None:
        """The upstream for a request; None: there is no other."""
        able = [member for member in self.members if member.resting is None and member not in tried]
        if not able:
            return None
        key = _beginning(request)
        known = max(able, key=lambda member: blake2b(key, key=member.salt).digest())
        idlest = min(able, key=lambda member: member.active)
        return known if known.active <= idlest.active + _SLACK else idlest


class BalancedStream:
    """A stream of one of the upstreams; until it has begun, that may become another."""

    def __init__(self, balanced: Balanced, task: UpstreamRequest) -> None:
        self._balanced = balanced
        self._task = task
        self._tried: list[Member] = []
        self._stream: Stream | None = None

    async def begun(self) -> Stream:
        """The stream itself, when an upstream has accepted it; a failure if none does."""
        task = self._task
        self._stream = await self._balanced.somewhere(
            task.request, self._tried, lambda upstream: upstream.open(task)
        )
        return self

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
                if self._balanced.choose(self._task.request, self._tried) is None:
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
            self._tried[-1].left()
            await stream.close()


def _beginning(request: Mapping[str, Any]) -> bytes:
    """What conversations share that have the same beginning."""
    messages, prompt = request.get("messages"), request.get("prompt")
    said = [_said(one) for one in messages[:2]] if isinstance(messages, list) else _shortened(prompt)
    return repr(said).encode("utf-8", "replace")


def _said(message: object) -> list[object]:
    """Who says what, as far as it tells one conversation from another."""
    if not isinstance(message, Mapping):
        return []
    content = message.get("content")
    parts = content[:4] if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return [message.get("role"), *map(_shortened, texts)]


def _shortened(text: object) -> object:
    return text[:_SHARED] if isinstance(text, str) else None
