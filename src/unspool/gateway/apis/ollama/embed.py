"""Handler for Ollama's ``/api/embed`` and the older ``/api/embeddings``."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ...generation.served_models import ServedModels
from ...http.exchange import Exchange
from ...http.failure import Failure, invalid
from ...http.json_encoding import encode_line
from ...http.json_limits import SMALL
from ...http.request_body import BodyReader
from ...http.thread_pools import WorkerPool
from ...upstreams.completions import UsageChunk
from ..validation import decode_body

_OF_NUMBERS: Final = b"[]0123456789+-.eE, \t\r\n"
"""All characters that can occur in a JSON array of numbers."""


class _Embed(msgspec.Struct):
    model: str | None = None
    input: str | list[str] | None = None
    prompt: str | None = None
    dimensions: int | None = None
    truncate: bool | None = None
    options: dict[str, Any] | None = None
    keep_alive: float | str | None = None


class _Vector(msgspec.Struct):
    embedding: msgspec.Raw
    """JSON array of numbers, exactly as the upstream encoded it."""
    index: int = 0


class _Embeddings(msgspec.Struct):
    data: list[_Vector]
    usage: UsageChunk | None = None


class OllamaEmbed:
    """Handler for embedding requests."""

    def __init__(self, models: ServedModels, bodies: BodyReader, pool: WorkerPool) -> None:
        self._models = models
        self._bodies = bodies
        self._pool = pool

    async def embed(self, exchange: Exchange) -> None:
        """Send the embeddings that the upstream's ``/v1/embeddings`` returns."""
        shape = decode_body(await self._bodies.read(exchange), _Embed)
        served = self._models.find(shape.model, exchange.allowed_models)
        is_old = exchange.path.endswith("/embeddings")
        texts = shape.prompt if is_old else shape.input
        if texts is None:
            name = "prompt" if is_old else "input"
            raise invalid(f"{name} is required", name, "missing_required_parameter")
        body: dict[str, Any] = {"input": texts}
        if shape.dimensions is not None:
            body["dimensions"] = shape.dimensions
        exchange.watch_connection()
        upstream_response = await served.upstream.forward("/v1/embeddings", body, exchange.upstream_headers())
        try:
            data = await upstream_response.read_all()
        finally:
            await upstream_response.close()

        def convert() -> bytes:
            vectors, tokens = _read_vectors(data, 1 if isinstance(texts, str) else len(texts))
            if is_old:
                return encode_line({"embedding": vectors[0]})
            about = {"model": served.model.name, "prompt_eval_count": tokens}
            return encode_line({"embeddings": vectors, **about})

        answer = await self._pool.run_if_large(exchange.client, len(data) > SMALL, convert)
        await exchange.respond(200, answer)


def _read_vectors(data: bytes, count: int) -> tuple[list[msgspec.Raw], int]:
    """Return the embeddings in an upstream's response, and the number of prompt tokens."""
    try:
        answer = msgspec.json.decode(data, type=_Embeddings)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _not_embeddings() from error
    if len(answer.data) != count or not all(_are_numbers(bytes(one.embedding)) for one in answer.data):
        raise _not_embeddings()
    vectors = [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]
    return vectors, 0 if answer.usage is None else answer.usage.prompt_tokens or 0


def _are_numbers(data: bytes) -> bool:
    return data.startswith(b"[") and data.rfind(b"[") == 0 and not data.translate(None, _OF_NUMBERS)


def _not_embeddings() -> Failure:
    message = "the upstream sent invalid embeddings"
    return Failure("upstream", message, code="upstream_protocol")
