"""Load balancer, which combines several upstreams for the same model into one upstream.

All requests of a conversation prefer the same upstream, because it may have the start of the prompt in
its cache.  But if the preferred upstream has many more active requests than the least busy upstream,
the request goes to the least busy upstream.  A request that fails before its first delta is tried again on
another upstream.

An upstream that fails several times in a row is *paused*: it receives no requests until a health check
succeeds.  If the first request after the health check fails, the upstream is paused again at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeVar

from ..http.failure import Failure
from ..telemetry.logs import log
from .base import Batch, Stream, UpstreamRequest
from .completions import CompletionsUpstream
from .http_client import ForwardedResponse

T = TypeVar("T")

_MAX_FAILURES: Final = 3
"""Number of consecutive failures after which an upstream is paused."""
_CHECK_DELAYS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Delays in seconds between the health checks of a paused upstream; the last delay is repeated."""
_MAX_IMBALANCE: Final = 4
"""Maximum number of active requests by which the preferred upstream may exceed the least busy one."""
_PREFIX_LENGTH: Final = 1000
"""Number of characters at the start of a prompt or message that identify a conversation."""
_RETRY_CODES: Final = (
    "upstream_refused",
    "upstream_lost",
    "upstream_busy",
    "upstream_error",
    "upstream_redirect",
)
"""Codes of failures after which a request is tried on another upstream."""


class Member:
    """One upstream of a load balancer, with its state."""

    def __init__(self, upstream: CompletionsUpstream) -> None:
        self.upstream = upstream
        self.active = 0
        """Number of active requests."""
        self.failures = 0
        """Number of consecutive failures."""
        self.health_check: asyncio.Task[None] | None = None
        """Task that checks the health of a paused upstream; None if the upstream is not paused."""
        self.salt = blake2b(self.url.encode(), digest_size=16).digest()
        """Key for rendezvous hashing.

        The key depends only on the upstream's address, so all workers choose the same upstream for a
        conversation.
        """

    @property
    def url(self) -> str:
        """URL of the upstream."""
        return self.upstream.connection.url

    @property
    def paused(self) -> bool:
        """True while the upstream receives no requests."""
        return self.health_check is not None

    def record_failure(self, failure: Failure) -> None:
        """Count a failure, and pause the upstream after too many failures in a row."""
        if failure.code == "upstream_busy":
            return  # an upstream that reports overload still works
        self.failures += 1
        if self.failures >= _MAX_FAILURES and self.health_check is None:
            log(logging.WARNING, "upstream_paused", url=self.url, reason=failure.message)
            self.health_check = asyncio.create_task(self._resume_when_healthy())

    def release(self) -> None:
        """Decrease the number of active requests."""
        self.active -= 1

    def record_success(self) -> None:
        """Reset the number of consecutive failures."""
        self.failures = 0

    async def _resume_when_healthy(self) -> None:
        delays = iter(_CHECK_DELAYS)
        delay = 0.0
        while True:
            delay = next(delays, delay)
            await asyncio.sleep(delay)
            if await self.upstream.connection.reachable():
                break
        self.failures = _MAX_FAILURES - 1  # one more failure pauses the upstream again
        self.health_check = None
        log(logging.INFO, "upstream_resumed", url=self.url)


class LoadBalancer:
    """Upstream that distributes requests over several upstreams for the same model, called members."""

    def __init__(self, upstreams: Sequence[CompletionsUpstream]) -> None:
        self.members = [Member(upstream) for upstream in upstreams]
        self.renders = upstreams[0].renders

    @property
    def constraints(self) -> Sequence[str]:
        """Output constraints that all members support."""
        first, *others = (member.upstream.constraints for member in self.members)
        return [kind for kind in first if all(kind in other for other in others)]

    async def start(self) -> None:
        """Connect to all members."""
        await asyncio.gather(*(member.upstream.start() for member in self.members))

    async def stop(self) -> None:
        """Disconnect from all members."""
        for member in self.members:
            if member.health_check is not None:
                member.health_check.cancel()
            await member.upstream.stop()

    async def ready(self) -> bool:
        """Return whether at least one member is ready."""
        return any(await asyncio.gather(*(member.upstream.ready() for member in self.members)))

    async def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        """Return a text's token ids, computed by the first member that can tokenize."""
        for member in self.members:
            if not member.paused:
                tokens = await member.upstream.tokenize(text, special=special)
                if tokens is not None:
                    return tokens
        return None

    async def detokenize(self, tokens: Sequence[int]) -> str | None:
        """Return the text for token ids, computed by the first member that can detokenize."""
        for member in self.members:
            if not member.paused and (text := await member.upstream.detokenize(tokens)) is not None:
                return text
        return None

    async def forward(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ForwardedResponse:
        """Forward a request to the first member that accepts it."""
        tried: list[Member] = []
        response = await self.try_members(body, tried, lambda upstream: upstream.forward(path, body, headers))
        tried[-1].record_success()
        response.on_close = tried[-1].release
        return response

    async def try_members(
        self,
        chat: Mapping[str, Any],
        tried: list[Member],
        start: Callable[[CompletionsUpstream], Awaitable[T]],
    ) -> T:
        """Start a request on the first member that accepts it, or raise the last failure.

        :param chat: request body; the preferred member depends on its first messages.
        :param tried: members to skip.  Every member that this method tries is appended to the list.  On
            return, the last member in the list has accepted the request; the caller must release it.
        :param start: function that starts the request on a member's upstream.
        """
        failure: Failure | None = None
        while (member := self.choose(chat, tried)) is not None:
            tried.append(member)
            member.active += 1
            try:
                return await start(member.upstream)
            except BaseException as error:
                member.active -= 1
                if not isinstance(error, Failure):
                    raise
                if not error.code.startswith("upstream") or error.code == "upstream_rejected":
                    raise
                member.record_failure(error)
                failure = error
                if error.code not in _RETRY_CODES:
                    raise
        raise failure or Failure(
            "overloaded",
            "all upstreams are down; retry later",
            code="upstream_refused",
            retry_after=f"{max(1, round(_CHECK_DELAYS[0]))}",
        )

    async def open(self, request: UpstreamRequest) -> Stream:
        """Start generation on the first member that accepts the request."""
        return await BalancedStream(self, request).open()

    def choose(self, chat: Mapping[str, Any], tried: Sequence[Member]) -> Member | None:
        """Return the best member that is not paused and has not been tried, or None if there is none."""
        available = [member for member in self.members if not member.paused and member not in tried]
        if not available:
            return None
        # Rendezvous hashing: when a member is paused, only its own conversations move to other members.
        key = _conversation_key(chat)
        preferred = max(available, key=lambda member: blake2b(key, key=member.salt).digest())
        least_busy = min(available, key=lambda member: member.active)
        return preferred if preferred.active <= least_busy.active + _MAX_IMBALANCE else least_busy


class BalancedStream:
    """Stream that is started again on another member if it fails before its first delta."""

    def __init__(self, balancer: LoadBalancer, request: UpstreamRequest) -> None:
        self._balancer = balancer
        self._request = request
        self._tried: list[Member] = []
        self._stream: Stream | None = None

    async def open(self) -> Stream:
        """Start generation on the first member that accepts the request."""
        request = self._request
        self._stream = await self._balancer.try_members(
            request.chat, self._tried, lambda upstream: upstream.open(request)
        )
        return self

    async def next(self) -> Batch | None:
        """Return the next batch, or None at the end."""
        while self._stream is not None:
            try:
                batch = await self._stream.next()
            except Failure as failure:
                self._tried[-1].record_failure(failure)
                await self.close()
                if failure.code not in _RETRY_CODES:
                    raise
                if self._balancer.choose(self._request.chat, self._tried) is None:
                    raise
                await self.open()
                continue
            if batch is None or batch.deltas:
                self._tried[-1].record_success()
                # After the first delta, no retry is possible, so later calls can skip this method.
                self.next = self._stream.next  # type: ignore[method-assign]
            return batch
        return None

    async def close(self) -> None:
        """Stop generation."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._tried[-1].release()
            await stream.close()


def _conversation_key(chat: Mapping[str, Any]) -> bytes:
    """Return bytes that are equal for all requests of a conversation."""
    messages, prompt = chat.get("messages"), chat.get("prompt")
    start = [_message_start(one) for one in messages[:2]] if isinstance(messages, list) else _truncate(prompt)
    return repr(start).encode("utf-8", "replace")


def _message_start(message: object) -> list[object]:
    """Return a message's role and the beginnings of its first content parts."""
    if not isinstance(message, Mapping):
        return []
    content = message.get("content")
    parts = content[:4] if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return [message.get("role"), *map(_truncate, texts)]


def _truncate(text: object) -> object:
    return text[:_PREFIX_LENGTH] if isinstance(text, str) else None
