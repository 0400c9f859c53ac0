"""Handler for Ollama's ``/api/chat`` and ``/api/generate``."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from ...generation.check_converted_size import convert_within_limits
from ...generation.generator import Generator
from ...generation.request import GenerationRequest
from ...generation.served_models import ServedModels
from ...http.exchange import Exchange
from ...http.json_encoding import encode_line
from ...http.request_body import BodyReader
from .encoder import OllamaEncoder
from .models import load_response
from .request import is_load, read_ollama_chat_request, read_ollama_generate_request


class OllamaHandler:
    """Handler for the two endpoints that generate text."""

    def __init__(self, generator: Generator, bodies: BodyReader, models: ServedModels) -> None:
        self._generator = generator
        self._bodies = bodies
        self._models = models

    def create(self, exchange: Exchange) -> Awaitable[None]:
        """Generate a response and send it."""
        return self._generator.generate(exchange, self._read, OllamaEncoder)

    async def _read(self, exchange: Exchange, body: Mapping[str, Any]) -> GenerationRequest | None:
        """Convert a request; if it only loads the model, answer it and return None."""
        form = exchange.path.rpartition("/")[2]
        if is_load(body, form):
            model = self._models.find(body.get("model"), exchange.allowed_models).model
            await exchange.respond(200, encode_line(load_response(model.name, body, form)))
            return None
        convert = read_ollama_chat_request if form == "chat" else read_ollama_generate_request
        return await convert_within_limits(self._bodies, exchange, convert, body)
