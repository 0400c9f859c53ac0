"""Processing of generation requests, shared by all APIs.

The generator reads the body, admits the request, converts the body with a function of the API, plans the
request, sends it to the upstream, and relays the output:

- A failure before the start of the response becomes an HTTP status and an error body.
- A failure after the start of a stream becomes its last event, in the API's own format.
- If the client disconnects, the gateway closes the upstream's stream.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from ...planning import ContentParsers
from ...policies import Policies
from ..conversation.broken_calls_in_history import count_malformed_calls, without_poisoned_arguments
from ..http.active_requests import ActiveRequests
from ..http.exchange import Exchange
from ..http.request_body import BodyReader
from ..http.thread_pools import WorkerPools
from ..telemetry.logs import log, log_once
from ..telemetry.metrics import Metrics
from ..upstreams.base import UpstreamRequest
from .observer import Observe
from .planned_choice_reader import Reader
from .prepare_request import PreparedRequest
from .request import GenerationRequest
from .response_encoder import ResponseEncoder
from .send_response import KeepResponse, Relay
from .served_models import ServedModel, ServedModels

ReadBody: TypeAlias = Callable[[Exchange, Mapping[str, Any]], Awaitable[GenerationRequest | None]]
"""An API's function for converting a request body; returns None if it has already sent a response."""


class Generator:
    """Generator of responses, shared by the handlers of all APIs."""

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

        :param log_contents: log request bodies, for debugging.
        :param observe: function that creates the observer of a request.
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
        encoder_type: type[ResponseEncoder],
        keep: KeepResponse | None = None,
    ) -> None:
        """Generate the response to a request, and send it.

        :param read: function that converts the body.
        :param encoder_type: encoder for the response.
        :param keep: function that stores the response; None if the response is never stored.
        """
        body = await self._bodies.read(exchange)
        self._active.admit(exchange)
        observer = None if self._observe is None else self._observe(exchange)
        served = self._models.find(body.get("model"), exchange.allowed_models)
        model = served.model
        exchange.log_fields["model"] = model.name
        request = await read(exchange, body)
        if request is None:
            return
        for reason in request.ignored:
            log_once("field_ignored", reason)
        policies = model.policies
        # When a tool result reports a malformed call, the model usually corrects the call.  After too many
        # failed corrections, the next malformed call becomes an error response; otherwise client and model
        # could repeat the call forever.
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
        upstream_request = UpstreamRequest(
            id=exchange.id,
            chat=request.chat,
            plan=prepared.plan,
            prompt=prepared.prompt,
            tools=prepared.tools,
            n=request.n,
            max_tokens=request.max_tokens,
            stop=request.stop,
            stop_ids=request.stop_ids,
            include_stop=request.include_stop,
            logprobs=request.logprobs,
            token_ids=request.token_ids or reads_ids,
            schema=None if prepared.plan.forced else request.schema,
            sampling=request.sampling,
            large=exchange.is_large,
            run_if_large=partial(self._pools.prompts.run_if_large, exchange.client),
            on_body=None if observer is None else observer.on_upstream_request,
            headers=exchange.upstream_headers(),
        )
        relay = Relay(
            served,
            exchange,
            request,
            readers,
            self._pools.answers,
            self._metrics,
            encoder_type=encoder_type,
            keep=keep,
            observer=observer,
        )
        try:
            stream = await served.upstream.open(upstream_request)
            try:
                source = stream if observer is None else await observer.on_open(stream)
                await (relay.stream(source) if request.stream else relay.send_whole(source))
            finally:
                await stream.close()
        finally:
            relay.report()


def _repair_history(request: GenerationRequest) -> int:
    """Remove poison from the conversation; return the number of consecutive malformed calls at its end."""
    messages = request.chat["messages"]
    request.chat["messages"] = without_poisoned_arguments(messages)
    return count_malformed_calls(messages)


def _prepare(
    served: ServedModel, request: GenerationRequest, id: str, policies: Policies, *, reads_ids: bool
) -> tuple[PreparedRequest, list[Reader]]:
    """Return the planned request, and a reader for each choice.

    Planning and creating readers both compile tool schemas, so this function runs in a worker pool.
    """
    prepared = served.prepare(request, id, policies)
    parsers = ContentParsers(prepared.plan)
    return prepared, [Reader(prepared.plan, ids=reads_ids, content_parsers=parsers) for _ in range(request.n)]
