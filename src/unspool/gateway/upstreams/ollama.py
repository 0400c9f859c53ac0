"""Upstream for Ollama's ``/api/generate`` with raw prompts.

Ollama's OpenAI-compatible endpoints are not suitable: these endpoints render the prompt with Ollama's own
template, reject tools if this template does not support tools, and silently truncate long prompts to
a context size that a request cannot set.  ``/api/generate`` with ``raw`` accepts a rendered prompt
and a context size, and reports an error if the prompt is too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from ...wire import Delta
from ..http.json_decoding import decoder_of
from .base import Batch, Stream, UpstreamRequest, Usage
from .completions import (
    CompletionStream,
    CompletionsUpstream,
    Count,
    choice_failure,
    read_finish_reason,
)
from .logprobs import Logprobs, TokenLogprob, convert_logprobs


class _Chunk(msgspec.Struct):
    response: str = ""
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: Count | None = None
    eval_count: Count | None = None
    logprobs: list[TokenLogprob] | None = None
    error: Any = None
    object: str = ""
    message: str = ""


class OllamaUpstream(CompletionsUpstream):
    """Upstream for an Ollama server."""

    context: int = 0
    """Context size per request in tokens; 0 for the server's default."""

    async def start(self) -> None:
        """Connect to Ollama, and find out whether it adds a beginning-of-sequence token to prompts."""
        await super().start()
        reply = await self.connection.post_json("/api/show", {"model": self.model})
        info = reply.get("model_info") if isinstance(reply, Mapping) else None
        if isinstance(info, Mapping):
            adds = info.get("tokenizer.ggml.add_bos_token")
            # If the model's metadata has no such field, Ollama adds the token only for tokenizers of type
            # "llama".
            self._adds_bos = info.get("tokenizer.ggml.model") == "llama" if adds is None else bool(adds)

    async def _open_one(self, request: UpstreamRequest) -> Stream:
        body = await self._build_fields(request)
        if self.context:
            body["options"]["num_ctx"] = self.context
        prompt = await self._without_bos(request.prompt or "")
        body |= {"model": self.model, "prompt": prompt, "raw": True, "stream": True}
        # Without these fields, Ollama cuts out the middle of a long prompt and the start of a long output.
        body |= {"truncate": False, "shift": False}
        if request.on_body is not None:
            request.on_body(body)
        events = await self.connection.post("/api/generate", body, request.headers)
        return OllamaStream(events, request, finish_optional=False)


class OllamaStream(CompletionStream):
    """Stream of the chunks of one generation."""

    decoder: ClassVar[msgspec.json.Decoder[Any]] = decoder_of(_Chunk)

    def read_chunk(self, chunk: Any, batch: Batch) -> None:
        """Add the delta of a chunk to a batch."""
        if not self._open:
            if chunk.response:
                raise choice_failure(0)
            return
        reason = read_finish_reason(chunk.done_reason or "stop") if chunk.done else None
        source = None if chunk.logprobs is None else Logprobs(content=chunk.logprobs)
        logprobs = convert_logprobs(source, self._top)
        batch.deltas.append(Delta(0, chunk.response, finish=reason, logprobs=logprobs))
        if chunk.done:
            self._open.clear()
            batch.usage = Usage(chunk.prompt_eval_count or 0, chunk.eval_count or 0)
