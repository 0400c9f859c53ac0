"""Handler for ``/v1/messages`` and ``/v1/messages/count_tokens``."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from ...generation.check_converted_size import convert_within_limits
from ...generation.generator import Generator
from ...generation.request import GenerationRequest
from ...generation.served_models import ServedModels
from ...http.exchange import Exchange
from ...http.failure import Failure
from ...http.json_encoding import encode_line
from ...http.request_body import BodyReader
from ...http.thread_pools import RunWork, WorkerPools
from ...state.messages_api_conversations import MessageThread, keep_turn, resume
from ...state.store import Store
from .encoder import MessagesEncoder
from .request import read_messages_request


class MessagesHandler:
    """Handler for Messages requests."""

    def __init__(
        self,
        generator: Generator,
        bodies: BodyReader,
        store: Store,
        models: ServedModels,
        pools: WorkerPools,
        *,
        keeps_threads: bool,
        hosted_tools: str,
    ) -> None:
        """Create a handler.

        :param keeps_threads: store replies, so that later requests can continue a thread.
        :param hosted_tools: how to treat tools that only their vendor can run: ``ignore`` or ``reject``.
        """
        self._generator = generator
        self._bodies = bodies
        self._store = store
        self._models = models
        self._pools = pools
        self._keeps_threads = keeps_threads
        self._hosted_tools = hosted_tools

    def create(self, exchange: Exchange) -> Awaitable[None]:
        """Generate a response and send it."""
        return self._generator.generate(exchange, self._read, MessagesEncoder, self._keep)

    async def count_tokens(self, exchange: Exchange) -> None:
        """Send the number of tokens in the prompt that a request would produce."""
        body = await self._bodies.read(exchange)
        served = self._models.find(body.get("model"), exchange.allowed_models)
        whole, _ = await self._resume(exchange, body)
        request = await self._convert(exchange, {"max_tokens": 1, **whole})
        prepared = await self._pools.prompts.run(exchange.client, served.prepare, request, exchange.id)
        tokens = None
        if prepared.prompt is not None:
            tokens = await served.tokenize(self._pools.parsing, exchange.client, prepared.prompt)
        if tokens is None:
            raise Failure(
                "not_found",
                "cannot count tokens: the upstream has no tokenizer endpoint; set model_dir to a directory "
                "that contains tokenizer.json",
                code="not_found",
            )
        await exchange.respond(200, encode_line({"input_tokens": len(tokens)}))

    async def _read(self, exchange: Exchange, body: Mapping[str, Any]) -> GenerationRequest:
        whole, thread = await self._resume(exchange, body)
        request = await self._convert(exchange, whole)
        request.thread = thread
        return request

    async def _resume(
        self, exchange: Exchange, body: Mapping[str, Any]
    ) -> tuple[dict[str, Any], MessageThread | None]:
        return await resume(self._store, self._bodies, exchange, body, keeps=self._keeps_threads)

    async def _convert(self, exchange: Exchange, body: Mapping[str, Any]) -> GenerationRequest:
        return await convert_within_limits(
            self._bodies, exchange, read_messages_request, body, hosted=self._hosted_tools
        )

    async def _keep(
        self, exchange: Exchange, request: GenerationRequest, response: Mapping[str, Any], run: RunWork
    ) -> None:
        if request.thread is not None:
            await keep_turn(self._store, exchange.tenant, response, request.thread, run)
