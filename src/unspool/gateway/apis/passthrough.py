"""Handlers of ``/v1/completions`` and ``/v1/embeddings``, which forward requests to the upstream."""

from __future__ import annotations

from ..generation.answer import Answer
from ..generation.served_models import ServedModels
from ..http.active_requests import ActiveRequests
from ..http.errors import Failure
from ..http.exchange import Exchange
from ..http.request_body import BodyReader
from .errors import openai_error
from .sse import DONE, data_event


class Passthrough:
    """Handlers that forward requests and responses unchanged."""

    def __init__(self, models: ServedModels, bodies: BodyReader, active: ActiveRequests) -> None:
        self._models = models
        self._bodies = bodies
        self._active = active

    async def completions(self, exchange: Exchange) -> None:
        """Forward a request for a raw completion."""
        await self._forward(exchange, "/v1/completions")

    async def embeddings(self, exchange: Exchange) -> None:
        """Forward a request for embeddings."""
        await self._forward(exchange, "/v1/embeddings")

    async def _forward(self, exchange: Exchange, path: str) -> None:
        body = await self._bodies.read(exchange)
        self._active.admit(exchange)
        served = self._models.find(body.get("model"))
        exchange.watch_connection()
        exchange.log_fields["model"] = served.model.name
        passed = await served.upstream.forward(path, body)
        headers = ((b"content-type", passed.content_type.encode("latin-1")),)
        try:
            if not passed.streams:
                # Wait for all of it: a response that has started cannot become an error.
                await exchange.respond(200, await passed.all(), headers)
                return
            exchange.failing = _end_with_error
            await exchange.start(200, headers)
            exchange.ping = Answer.ping
            while portion := await passed.read():
                await exchange.send(portion)
            await exchange.send(b"", more=False)
        finally:
            await passed.close()


def _end_with_error(failure: Failure) -> bytes:
    return data_event(openai_error(failure)) + DONE
