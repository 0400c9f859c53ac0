"""Handlers for ``/v1/completions`` and ``/v1/embeddings``, which forward requests to the upstream."""

from __future__ import annotations

import msgspec

from ..generation.response_encoder import ResponseEncoder
from ..generation.served_models import ServedModels
from ..http.active_requests import ActiveRequests
from ..http.exchange import Exchange
from ..http.failure import Failure
from ..http.request_body import BodyReader
from .error_bodies import openai_error
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
        served = self._models.find(body.get("model"), exchange.allowed_models)
        exchange.watch_connection()
        exchange.log_fields["model"] = served.model.name
        response = await served.upstream.forward(path, body, exchange.upstream_headers())
        headers = ((b"content-type", response.content_type.encode("latin-1")),)
        try:
            if not response.streams:
                # Read the upstream's whole response first: once the gateway has started its own response, it
                # can no longer change the status to an error.
                data = await response.read_all()
                if exchange.usage is not None:
                    exchange.tokens = _count_tokens(data)
                await exchange.respond(200, data, headers)
                return
            exchange.failing = _end_with_error
            await exchange.start(200, headers)
            exchange.ping = ResponseEncoder.ping
            while portion := await response.read():
                if exchange.usage is not None and b'"usage"' in portion:
                    for event in portion.split(b"\n\n"):
                        # Each count includes all earlier ones, if an upstream sends several.
                        exchange.tokens = _count_tokens(event.removeprefix(b"data: ")) or exchange.tokens
                await exchange.send(portion)
            await exchange.send(b"", more=False)
        finally:
            await response.close()


class _Usage(msgspec.Struct):
    total_tokens: int | None = None


class _Counted(msgspec.Struct):
    usage: _Usage | None = None


def _count_tokens(data: bytes) -> int:
    """Return the number of tokens that a response reports, or 0 if it reports none."""
    try:
        usage = msgspec.json.decode(data, type=_Counted).usage
    except msgspec.MsgspecError:
        return 0
    return max(0, (usage and usage.total_tokens) or 0)


def _end_with_error(failure: Failure) -> bytes:
    return data_event(openai_error(failure)) + DONE
