"""Handler for ``/v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from ...generation.check_converted_size import convert_within_limits
from ...generation.generator import Generator
from ...generation.request import GenerationRequest
from ...http.exchange import Exchange
from ...http.request_body import BodyReader
from .encoder import ChatEncoder
from .request import read_chat_request


class ChatHandler:
    """Handler for Chat Completions requests."""

    def __init__(self, generator: Generator, bodies: BodyReader) -> None:
        self._generator = generator
        self._bodies = bodies

    def create(self, exchange: Exchange) -> Awaitable[None]:
        """Generate a response and send it."""
        return self._generator.generate(exchange, self._read, ChatEncoder)

    async def _read(self, exchange: Exchange, body: Mapping[str, Any]) -> GenerationRequest:
        return await convert_within_limits(self._bodies, exchange, read_chat_request, body)
