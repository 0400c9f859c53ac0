"""Ollama, told the prompt as it is.

Its OpenAI-compatible endpoints write the prompt by their own template, refuse tools to models
whose template has none, and cut prompts to a context that no request can set, without a word.
``/api/generate`` with ``raw`` takes the prompt that we have written, the context that it
needs, and says so if it does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from ..http.json_decoding import decoder_of
from .base import Batch, Delta, Stream, UpstreamRequest, Usage
from .completions import (
    CompletionStream,
    CompletionsUpstream,
    Count,
    finish_of,
    more_of,
)
from .logprobs import Logprobs, TokenLogprob, logprobs_of


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
    """A server of Ollama's."""

    context: int = 0
    """How many tokens a request may take; 0: as the server has it."""

    async def start(self) -> None:
        """Connect, and ask what the model's prompts begin with."""
        await super().start()
        told = await self.connection.ask("/api/show", {"model": self.model})
        values = told.get("model_info") if isinstance(told, Mapping) else None
        if isinstance(values, Mapping):
            adds = values.get("tokenizer.ggml.add_bos_token")
            # As llama.cpp does where the file does not say.
            self._adds_bos = values.get("tokenizer.ggml.model") == "llama" if adds is None else bool(adds)

    async def _one(self, task: UpstreamRequest) -> Stream:
        body = await self._parameters(task)
        if self.context:
            body["options"]["num_ctx"] = self.context
        prompt = await self._without_bos(task.prompt or "")
        body |= {"model": self.model, "prompt": prompt, "raw": True, "stream": True}
        # Otherwise a prompt that is too long loses its middle, and an output that is too long its beginning.
        body |= {"truncate": False, "shift": False}
        if task.tell is not None:
            task.tell(body)
        return OllamaStream(await self.connection.post("/api/generate", body), task, plain_end=False)


class OllamaStream(CompletionStream):
    """The chunks of one generation."""

    decoder: ClassVar[msgspec.json.Decoder[Any]] = decoder_of(_Chunk)

    def take(self, chunk: Any, batch: Batch) -> None:
        """Add what a chunk brought."""
        if not self._open:
            if chunk.response:
                raise more_of(0)
            return
        reason = finish_of(chunk.done_reason or "stop") if chunk.done else None
        given = None if chunk.logprobs is None else Logprobs(content=chunk.logprobs)
        batch.deltas.append(Delta(0, chunk.response, finish=reason, logprobs=logprobs_of(given, self._top)))
        if chunk.done:
            self._open.clear()
            batch.usage = Usage(chunk.prompt_eval_count or 0, chunk.eval_count or 0)
