"""The flow of a request that generates text, whichever API it comes by.

A request is read, admitted, converted by its API, planned, sent to an upstream, and answered
while the upstream's output arrives, or after its end:

- Before the answer has started, a failure is a status and an error body.
- After that, a failure is the last event of the stream, in the API's own form.
- If the client disconnects, the upstream's stream is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from ...policies import Policies
from ..conversation.history_repair import malformed_in_a_row, without_poisoned_arguments
from ..http.active_requests import ActiveRequests
from ..http.exchange import Exchange
from ..http.request_body import BodyReader
from ..http.worker_pools import WorkerPools
from ..telemetry.logs import log, log_once
from ..telemetry.metrics import Metrics
from ..upstreams.base import UpstreamRequest
from .answer import Answer
from .model import Prepared
from .observer import Observe
from .reader import Reader
from .relay import KeepResponse, Relay
from .request import GenerationRequest
from .served_models import ServedModel, ServedModels

ReadBody: TypeAlias = Callable[[Exchange, Mapping[str, Any]], Awaitable[GenerationRequest | None]]
"""An API's function that converts a body; None: it has answered the request itself."""


class Generator:
    """Generator of answers."""

    def __init__(
        self,
        models: ServedModels,
        bodies: BodyReader,
        active: ActiveRequests,
        pools: WorkerPools,
        metrics: Metrics,
        *,
        log_contents: bool,
        observe: Observe | None = None,
    ) -> None:
        """Create a generator.

        :param log_contents: log the bodies of requests.
        :param observe: called for every request.
        """
        self._models = models
        self._bodies = bodies
        self._active = active
        self._pools = pools
        self._metrics = metrics
        self._log_contents = log_contents
        self._observe = observe

    async def generate(
        self,
        exchange: Exchange,
        read: ReadBody,
        answer_type: type[Answer],
        keep: KeepResponse | None = None,
    ) -> None:
        """Answer a request.

        :param read: converts the body.
        :param answer_type: encodes the answer.
        :param keep: stores the response.
        """
        body = await self._bodies.read(exchange)
        self._active.admit(exchange)
        observer = None if self._observe is None else self._observe(exchange)
        served = self._models.find(body.get("model"))
        model = served.model
        request = await read(exchange, body)
        if request is None:
            return
        for reason in request.left_out:
            log_once("field_ignored", reason)
        policies = model.policies
        if await self._bodies.run(exchange, _repair_history, request) >= served.settings.malformed_retries:
            policies = replace(policies, malformed_call="error")
        exchange.watch_connection()
        if self._log_contents:
            log(logging.INFO, "request_contents", id=exchange.id, body=body)
        reads_ids = served.settings.token_ids and model.tokenizer is not None
        prepared, readers = await self._pools.prompts.run(
            exchange.client, _prepare, served, request, exchange.id, policies, reads_ids=reads_ids
        )
        if observer is not None:
            observer.on_plan(served, request, prepared, policies, reads_ids=reads_ids)
        task = UpstreamRequest(
            id=exchange.id,
            request=request.request,
            plan=prepared.plan,
            prompt=prepared.prompt,
            tools=prepared.tools,
            n=request.n,
            max_tokens=request.max_tokens,
            stop=request.stop,
            stop_ids=request.stop_ids,
            keeps_stop=request.keeps_stop,
            logprobs=request.logprobs,
            token_ids=request.token_ids or reads_ids,
            schema=None if prepared.plan.forced else request.schema,
            sampling=request.sampling,
            large=exchange.is_large,
            run_if_large=partial(self._pools.prompts.run_if_large, exchange.client),
            tell=None if observer is None else observer.on_upstream_request,
        )
        relay = Relay(
            served,
            exchange,
            request,
            readers,
            self._pools.answers,
            self._metrics,
            answer_type=answer_type,
            keep=keep,
            observer=observer,
        )
        try:
            stream = await served.upstream.open(task)
            try:
                source = stream if observer is None else await observer.on_open(stream)
                await (relay.stream(source) if request.stream else relay.send_whole(source))
            finally:
                await stream.close()
        finally:
            relay.report()


def _repair_history(request: GenerationRequest) -> int:
    """Restore the arguments that the model wrote; return the number of malformed calls at the end."""
    messages = request.request["messages"]
    request.request["messages"] = without_poisoned_arguments(messages)
    return malformed_in_a_row(messages)


def _prepare(
    served: ServedModel, request: GenerationRequest, id: str, policies: Policies, *, reads_ids: bool
) -> tuple[Prepared, list[Reader]]:
    """Plan a request and create a reader for each choice; both compile the schemas of tools."""
    prepared = served.prepare(request, id, policies)
    return prepared, [Reader(prepared.plan, ids=reads_ids) for _ in range(request.n)]
