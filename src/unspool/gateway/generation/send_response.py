"""Relay that sends the upstream's output for one request to the client."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from ...errors import MalformedOutput, ProtocolError
from ...events import CallStart, Event, FinishReason, Text
from ..http.exchange import Exchange
from ..http.failure import Failure
from ..http.json_encoding import encode_line
from ..http.json_limits import SMALL
from ..http.thread_pools import RunWork, WorkerPool
from ..telemetry.logs import log
from ..telemetry.metrics import Metrics
from ..upstreams.base import Batch, Stream, Usage
from ..upstreams.failures import protocol_failure
from .observer import GenerationObserver
from .planned_choice_reader import Reader
from .request import GenerationRequest
from .response_encoder import ResponseEncoder
from .served_models import ServedModel

Result = TypeVar("Result")


KeepResponse: TypeAlias = Callable[[Exchange, GenerationRequest, Mapping[str, Any], RunWork], Awaitable[None]]
"""An API's function for storing a response, so that later requests can refer to the response."""


class Relay:
    """Relay that parses the output of one request, sends the response, and records metrics."""

    def __init__(
        self,
        served: ServedModel,
        exchange: Exchange,
        request: GenerationRequest,
        readers: list[Reader],
        pool: WorkerPool,
        metrics: Metrics,
        *,
        encoder_type: type[ResponseEncoder],
        keep: KeepResponse | None,
        observer: GenerationObserver | None,
    ) -> None:
        self._served = served
        self._exchange = exchange
        self._request = request
        self._readers = readers
        self._pool = pool
        self._metrics = metrics
        self._encoder = encoder_type(request, served.model.name, readers, served.model.wire_options)
        self._keep = keep
        self._on_batch = None if observer is None else observer.on_batch
        self._has_output = False
        """True once some text or a call has arrived in the output."""
        self._upstream_usage: Usage | None = None
        self._finish_reasons: Callable[[], list[FinishReason]] = list

    async def stream(self, stream: Stream) -> None:
        """Send the response as a stream while the output arrives."""
        exchange, encoder = self._exchange, self._encoder
        self._finish_reasons = encoder.finish_reasons
        exchange.failing = encoder.failing
        await exchange.start(200, encoder.headers)
        await exchange.send(await self._run_if_large(encoder.opening))
        exchange.ping = encoder.ping
        while (batch := await stream.next()) is not None:
            events_of = self._read(batch)
            if self._request.continuous_usage:
                encoder.usage = self._usage()
            data = b""
            for choice, events in events_of.items():
                if events:
                    data += encoder.feed(choice, events)
                    if not self._has_output:
                        self._look_for_output(events)
            if data:
                await exchange.send(data)
            if encoder.failed:
                exchange.log_fields["error"] = "malformed_output"
                await exchange.send(encoder.end, more=False)
                return
        encoder.usage = self._usage()
        last = await self._run_if_large(encoder.closing)
        if self._keep is not None:
            with suppress(MalformedOutput):  # if the output is malformed, nothing is stored
                response = await self._run_if_large(encoder.streamed_response)
                if response is not None:
                    await self._store(response)
        await exchange.send(last, more=False)

    async def send_whole(self, stream: Stream) -> None:
        """Send the response as a single body, after the output has ended."""
        data = await self._encode_whole(stream)
        # The client may read slowly; free everything except these bytes in the meantime.
        del self._encoder
        await self._exchange.respond(200, data)

    async def _encode_whole(self, stream: Stream) -> bytes:
        """Read the output to its end, and return the encoded response."""
        encoder = self._encoder
        builders = [reader.planned.fold() for reader in self._readers]
        options, forced = encoder.options, self._readers[0].planned.forced
        self._finish_reasons = lambda: [
            options.finish_reason(builder.finish_reason or "stop", forced=forced) for builder in builders
        ]
        while (batch := await stream.next()) is not None:
            for choice, events in self._read(batch).items():
                builders[choice].feed(events)
                if not self._has_output:
                    self._look_for_output(events)
        encoder.usage = self._usage()
        body = await self._run_if_large(lambda: encoder.response([builder.message for builder in builders]))
        reasons = self._finish_reasons()
        self._finish_reasons = lambda: reasons
        if self._keep is not None:
            await self._store(body)
        return await self._run_if_large(lambda: encode_line(body))

    def _read(self, batch: Batch) -> dict[int, list[Event]]:
        """Parse a batch of deltas; return the resulting events, keyed by choice index."""
        if self._on_batch is not None:
            self._on_batch(batch)
        events_of: dict[int, list[Event]] = {}
        readers = self._readers
        for delta in batch.deltas:
            try:
                events = readers[delta.choice].feed(delta)
            except ProtocolError as error:
                raise protocol_failure(error) from error
            if delta.choice in events_of:
                events_of[delta.choice] += events
            else:
                events_of[delta.choice] = events
        if batch.usage is not None:
            self._upstream_usage = batch.usage
        if batch.prompt_token_ids is not None:
            self._encoder.prompt_token_ids = batch.prompt_token_ids
        size = 0
        for reader in readers:
            size += reader.size
        limit = self._served.settings.max_output_bytes
        if size > limit:
            raise Failure("upstream", f"the output is larger than {limit} bytes", code="output_too_large")
        return events_of

    async def _run_if_large(self, work: Callable[[], Result]) -> Result:
        """Run a function that processes the response; use a thread if the response or the request is large.

        The size of the request matters because the response repeats parts of the request, and because both
        are stored together.
        """
        size = 0
        for reader in self._readers:
            size += reader.size
        large = size > SMALL or self._exchange.is_large
        return await self._pool.run_if_large(self._exchange.client, large, work)

    async def _store(self, response: Mapping[str, Any]) -> None:
        """Store the response; if this fails, log the failure and continue."""
        assert self._keep is not None  # noqa: S101 - the callers have checked it
        try:
            await self._keep(self._exchange, self._request, response, self._run_if_large)
        except Failure as failure:
            log(logging.WARNING, "store_failed", id=self._exchange.id, reason=failure.message)

    def _look_for_output(self, events: list[Event]) -> None:
        """Record the time to the first output, if these events contain text or a call."""
        for event in events:
            if isinstance(event, (Text, CallStart)):
                self._has_output = True
                elapsed = time.monotonic() - self._exchange.started_at
                self._exchange.log_fields["first_delta"] = round(elapsed, 4)
                self._metrics.first_delta.observe(elapsed, self._request.api)
                return

    def _usage(self) -> Usage:
        """Return the upstream's token counts, or the readers' counts if the upstream reports none."""
        return self._upstream_usage or Usage(0, sum([reader.tokens for reader in self._readers]))

    def report(self) -> None:
        """Record the result of the request in the metrics and in the request's log line."""
        metrics, usage = self._metrics, self._usage()
        self._exchange.tokens = usage.prompt + usage.completion
        dialect = self._readers[0].plan.dialect.name
        reasoning = 0
        outcomes: Counter[str] = Counter()
        reasons: list[FinishReason] = []
        # If the response never started, there are readers but no finish reasons, so do not zip strictly.
        for reader, reason in zip(self._readers, self._finish_reasons(), strict=False):
            if reader.finished:
                reasons.append(reason)
                metrics.ended.add(self._request.api, reason)
        for reader in self._readers:
            reasoning += reader.reasoning_tokens
            metrics.held.observe(reader.peak_held, dialect)
            for outcome, amount in reader.outcomes.items():
                outcomes[outcome] += amount
                metrics.outcomes.add(dialect, outcome, amount=amount)
        if outcomes["unread_call"]:
            metrics.unread_calls.add(self._served.model.name, amount=outcomes["unread_call"])
        if usage.prompt:
            metrics.tokens.add("prompt", amount=usage.prompt)
        if usage.completion:
            metrics.tokens.add("completion", amount=usage.completion)
        if reasoning:
            metrics.tokens.add("reasoning", amount=reasoning)
        self._exchange.log_fields |= {
            "model": self._served.model.name,
            "dialect": dialect,
            "stream": self._request.stream,
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "finish_reasons": reasons,
            "outcomes": dict(outcomes),
        }
