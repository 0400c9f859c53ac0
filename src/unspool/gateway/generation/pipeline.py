"""The output of one request, on its way from the upstream to the client."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import MalformedOutput
from ...events import CallStart, Event, FinishReason, Text
from ..apis.answers import (
    ANSWERS,
    Answer,
    ChatAnswer,
    MessagesAnswer,
    ResponsesAnswer,
    Whole,
    encode,
)
from ..apis.chat.request import Job
from ..http.errors import Failure
from ..http.exchange import Exchange
from ..http.json_decoding import SMALL
from ..telemetry.logs import log
from ..state import threads
from ..state.history import keep
from ..upstreams.base import Batch, Stream, Usage
from .reader import Reader

if TYPE_CHECKING:
    from ..app import Gateway
    from .served_models import Served

Found = TypeVar("Found")


class Output:
    """The output of one request, on its way from the upstream to the client."""

    def __init__(
        self, gateway: Gateway, served: Served, exchange: Exchange, job: Job, readers: list[Reader]
    ) -> None:
        self.gateway = gateway
        self.served = served
        self.exchange = exchange
        self.job = job
        self.readers = readers
        self._first = False
        self._usage: Usage | None = None
        self._arguments = (job, served.model.name, readers)
        self._finish_reasons: Callable[[], list[FinishReason]] = list

    async def stream(self, stream: Stream) -> None:
        """Send while it comes in."""
        answer = ANSWERS[self.job.api](*self._arguments)
        self._finish_reasons = answer.finish_reasons
        self.exchange.failing = answer.failing
        await self.exchange.start(200, answer.headers)
        await self.exchange.send(await self._off_loop(answer.opening))
        self.exchange.ping = answer.ping
        while (batch := await stream.next()) is not None:
            data = self._encoded(batch, answer)
            if data:
                await self.exchange.send(data)
            if answer.failed:
                self.exchange.fields["error"] = "malformed_output"
                await self.exchange.send(answer.end, more=False)
                return
        answer.usage = self._counted()
        last = await self._off_loop(answer.closing)
        if isinstance(answer, ResponsesAnswer):
            await self._keep(answer.response)
        elif isinstance(answer, MessagesAnswer):
            with suppress(MalformedOutput):  # what cannot be said whole is sent again by the client
                await self._keep_turn(await self._off_loop(answer.whole))
        await self.exchange.send(last, more=False)

    def _encoded(self, batch: Batch, answer: Answer) -> bytes:
        """All that one read brought, to be sent at once."""
        if isinstance(answer, ChatAnswer) and batch.prompt_token_ids is not None:
            answer.prompt_token_ids = batch.prompt_token_ids
        found: dict[int, list[Event]] = {}
        for delta in batch.deltas:
            events = self.readers[delta.choice].feed(delta)
            if delta.choice in found:
                found[delta.choice] += events
            else:
                found[delta.choice] = events
        self._bounded(batch)
        if self.job.continuous_usage:
            answer.usage = self._counted()
        out: list[bytes] = []
        for choice, events in found.items():
            if events:
                out.append(answer.feed(choice, events))
                self._see(events)
        return b"".join(out)

    async def whole(self, stream: Stream) -> None:
        """Send when all has come in."""
        answer = Whole(*self._arguments)
        self._finish_reasons = answer.finish_reasons
        while (batch := await stream.next()) is not None:
            answer.prompt_token_ids = batch.prompt_token_ids or answer.prompt_token_ids
            for delta in batch.deltas:
                events = self.readers[delta.choice].feed(delta)
                answer.feed(delta.choice, events)
                self._see(events)
            self._bounded(batch)
        answer.usage = self._counted()
        body = await self._off_loop(answer.body)
        reasons = answer.finish_reasons()
        self._finish_reasons = lambda: reasons
        if self.job.api == "responses":
            await self._keep(body)
        elif self.job.api == "messages":
            await self._keep_turn(body)
        data = await self._off_loop(partial(encode, body))
        # The client may take its time: nothing but these bytes is to wait for it.
        del answer, body
        await self.exchange.respond(200, data)

    async def _off_loop(self, work: Callable[[], Found]) -> Found:
        """Do what takes longer the larger the answer is: at once if it is small, else in its lane.

        An answer repeats some of its request, and is kept with all of it.
        """
        if self._size() <= SMALL and not self.exchange.large:
            return work()
        return await self.gateway.lanes.answers.run(self.exchange.whose, work)

    async def _keep(self, response: Mapping[str, Any]) -> None:
        """Keep the response, if the request did not forbid it: another may go on from here."""
        job, store, owner = self.job, self.gateway.store, self.exchange.owner
        await self._kept(
            keep(
                store,
                owner,
                response,
                job.items,
                conversation=job.conversation,
                stored=job.store,
                off_loop=self._off_loop,
            )
        )

    async def _keep_turn(self, message: Mapping[str, Any] | None) -> None:
        """Keep a message of a thread."""
        if message is not None and self.job.thread is not None:
            store, owner = self.gateway.store, self.exchange.owner
            await self._kept(threads.keep(store, owner, message, self.job.thread, self._off_loop))

    async def _kept(self, keeping: Coroutine[Any, Any, None]) -> None:
        """The client has its answer, whether or not this works."""
        try:
            await keeping
        except Failure as failure:
            log(logging.WARNING, "not kept", id=self.exchange.id, reason=failure.message)

    def _see(self, events: list[Any]) -> None:
        if not self._first and any(isinstance(event, (Text, CallStart)) for event in events):
            self._first = True
            elapsed = time.monotonic() - self.exchange.began
            self.exchange.fields["first_delta"] = round(elapsed, 4)
            self.gateway.metrics.first_delta.observe(elapsed, self.job.api)

    def _bounded(self, batch: Batch) -> None:
        self._usage = batch.usage or self._usage
        limit = self.served.settings.max_output_bytes
        if self._size() > limit:
            raise Failure("upstream", f"the output is larger than {limit} bytes", code="output_too_large")

    def _size(self) -> int:
        return sum([reader.size for reader in self.readers])

    def _counted(self) -> Usage:
        """Token counts: the upstream's, else our own."""
        return self._usage or Usage(0, sum(reader.tokens for reader in self.readers))

    def count(self) -> None:
        """Tell metrics and the log what came of it."""
        metrics, usage = self.gateway.metrics, self._counted()
        dialect = self.readers[0].plan.dialect.name
        thoughts = sum(reader.reasoning_tokens for reader in self.readers)
        for kind, amount in (
            ("prompt", usage.prompt),
            ("completion", usage.completion),
            ("reasoning", thoughts),
        ):
            if amount:
                metrics.tokens.add(kind, amount=amount)
        reasons = [
            reason
            for reader, reason in zip(self.readers, self._finish_reasons(), strict=False)
            if reader.finished
        ]
        for reason in reasons:
            metrics.ended.add(self.job.api, reason)
        for reader in self.readers:
            metrics.held.observe(reader.peak_held, dialect)
            for outcome, amount in reader.outcomes.items():
                metrics.outcomes.add(dialect, outcome, amount=amount)
        self.exchange.fields |= {
            "model": self.served.model.name,
            "dialect": dialect,
            "stream": self.job.stream,
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "finish_reasons": reasons,
            "outcomes": dict(sum((reader.outcomes for reader in self.readers), start=Counter())),
        }
