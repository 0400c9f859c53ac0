"""Handlers for ``/tokenize`` and ``/detokenize``."""

from __future__ import annotations

from typing import Any

import msgspec

from ..generation.check_converted_size import convert_within_limits
from ..generation.served_models import ServedModels
from ..http.exchange import Exchange
from ..http.failure import Failure, invalid
from ..http.json_encoding import encode_line
from ..http.request_body import BodyReader
from ..http.thread_pools import WorkerPools
from .chat.request import read_chat_request
from .validation import decode_body


class _Tokenize(msgspec.Struct):
    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    """llama.cpp's name for ``prompt``."""
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    add_special: bool | None = None


class _Detokenize(msgspec.Struct):
    tokens: list[int]
    model: str | None = None


class Tokenize:
    """Handlers for ``/tokenize`` and ``/detokenize`` requests."""

    def __init__(self, models: ServedModels, bodies: BodyReader, pools: WorkerPools) -> None:
        self._models = models
        self._bodies = bodies
        self._pools = pools

    async def tokenize(self, exchange: Exchange) -> None:
        """Send the token ids of a string, or of the prompt that is rendered from messages."""
        body = await self._bodies.read(exchange)
        shape = decode_body({key: value for key, value in body.items() if value is not None}, _Tokenize)
        served = self._models.find(shape.model, exchange.allowed_models)
        text = shape.prompt if shape.prompt is not None else shape.content
        if (text is None) == (shape.messages is None):
            raise invalid("send either prompt or messages", "prompt", "missing_required_parameter")
        if shape.messages is not None:
            chat = {key: value for key, value in body.items() if key in ("messages", "tools")}
            request = await convert_within_limits(self._bodies, exchange, read_chat_request, chat)
            prepared = await self._pools.prompts.run(exchange.client, served.prepare, request, exchange.id)
            text = prepared.prompt
        special = shape.add_special_tokens if shape.add_special_tokens is not None else shape.add_special
        if special is None:
            # By default, special tokens are added to ``prompt`` (vLLM's field) but not to ``content``
            # (llama.cpp's field).
            special = shape.prompt is not None
        tokens = None
        if text is not None:
            tokens = await served.tokenize(self._pools.parsing, exchange.client, text, special=special)
        if tokens is None:
            raise _unavailable("tokenize")
        await exchange.respond(200, encode_line({"tokens": tokens, "count": len(tokens)}))

    async def detokenize(self, exchange: Exchange) -> None:
        """Send the text for a list of token ids."""
        shape = decode_body(await self._bodies.read(exchange), _Detokenize)
        served = self._models.find(shape.model, exchange.allowed_models)
        text = await served.detokenize(self._pools.parsing, exchange.client, shape.tokens)
        if text is None:
            raise _unavailable("detokenize")
        await exchange.respond(200, encode_line({"prompt": text, "content": text}))


def _unavailable(verb: str) -> Failure:
    message = (
        f"cannot {verb}: the upstream has no tokenizer endpoint; set model_dir to a directory that contains "
        "tokenizer.json"
    )
    return Failure("not_found", message, code="not_found")
