"""Handler for ``/v1/responses``."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from ...generation.check_converted_size import convert_within_limits
from ...generation.generator import Generator
from ...generation.request import GenerationRequest
from ...http.exchange import Exchange
from ...http.request_body import BodyReader
from ...http.thread_pools import RunWork
from ...state.responses_api_history import keep_response, load_context
from ...state.sealed_reasoning import Seal
from ...state.store import Store
from .encoder import ResponsesEncoder
from .request import read_responses_request


class ResponsesHandler:
    """Handler for requests that create a response."""

    def __init__(
        self, generator: Generator, bodies: BodyReader, store: Store, *, seal_key: str, hosted_tools: str
    ) -> None:
        """Create a handler.

        :param seal_key: secret for encrypting the reasoning that clients store.
        :param hosted_tools: how to treat tools that only their vendor can run: ``ignore`` or ``reject``.
        """
        self._generator = generator
        self._bodies = bodies
        self._store = store
        self._seal = Seal(seal_key)
        self._hosted_tools = hosted_tools

    def create(self, exchange: Exchange) -> Awaitable[None]:
        """Generate a response and send it."""
        return self._generator.generate(exchange, self._read, ResponsesEncoder, self._keep)

    async def _read(self, exchange: Exchange, body: Mapping[str, Any]) -> GenerationRequest:
        context = await load_context(self._store, self._bodies, exchange, body)
        return await convert_within_limits(
            self._bodies,
            exchange,
            read_responses_request,
            body,
            hosted=self._hosted_tools,
            past=context,
            seal=self._seal.of(exchange.tenant),
        )

    async def _keep(
        self, exchange: Exchange, request: GenerationRequest, response: Mapping[str, Any], run: RunWork
    ) -> None:
        await keep_response(
            self._store,
            exchange.tenant,
            response,
            request.items,
            conversation=request.conversation,
            stored=request.store,
            run=run,
        )
