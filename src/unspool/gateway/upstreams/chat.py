"""``/v1/chat/completions`` of a server that leaves markup in the text: we repair its output.

The server renders the prompt.  Whatever it has told apart by itself, reasoning or
calls, is passed on; the text is parsed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from ..conversation.history_repair import with_json_arguments
from ..conversation.media import IMAGES, has_media, results_as_text, without_media
from ..http.errors import Failure
from ..http.json_decoding import decoder_of
from ..telemetry.logs import log_once
from .base import Batch, CallPiece, Delta, Stream, UpstreamRequest
from .completions import (
    CompletionStream,
    CompletionsUpstream,
    Count,
    UsageChunk,
    finish_of,
    more_of,
    one_of,
    takes_grammar,
    usage_of,
)
from .fan_out import ManyStreams
from .http import Events
from .logprobs import Logprobs, logprobs_of

_SENT: Final = (
    "response_format",
    "parallel_tool_calls",
    "reasoning_effort",
    "continue_final_message",
    "add_generation_prompt",
    "documents",
    "verbosity",
)
"""Fields of the request that go on as they are, besides those of sampling."""


_PATH: Final = "/v1/chat/completions"
_TAKEN: Final = (("image_url", "input_audio", "audio_url", "video_url", "file"), IMAGES, ())
"""Kinds of parts that a server may take: all, pictures, none."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    matched_stop: str | int | None = None
    logprobs: Logprobs | None = None
    token_ids: list[Count] | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: UsageChunk | None = None
    error: Any = None
    object: str = ""
    message: str = ""


class ChatUpstream(CompletionsUpstream):
    """A server with an OpenAI-compatible chat endpoint."""

    renders = True

    @property
    def constraints(self) -> Sequence[str]:
        """What it can hold a model to."""
        return self.engine.constraints if self.engine.repairs else ()

    async def open(self, task: UpstreamRequest) -> Stream:
        """Begin to generate."""
        if self._detect or not self.model:
            await self.look()
        self.engine.check(task)
        if task.n > 1 and not self.engine.many:
            await task.run_if_large(takes_grammar(task), partial(self.engine.held, task))  # once for all
            return await ManyStreams.open(task.n, lambda number: self._chat(one_of(task, number)))
        return await self._chat(task)

    async def _chat(self, task: UpstreamRequest) -> Stream:
        body: dict[str, Any] = {
            **task.sampling,
            **{key: task.request[key] for key in _SENT if key in task.request},
        }
        if task.plan.forced:
            body.pop("response_format", None)  # there will be a call, and no answer
        body["stream"] = self.engine.streams_logprobs or task.logprobs is None or not task.tools
        if body["stream"]:
            body["stream_options"] = {"include_usage": True}
        if self.model:
            body["model"] = self.model
        if task.tools:
            body["tools"] = list(task.tools)
            body["tool_choice"] = self._choice(task)
        if task.max_tokens is not None:
            body["max_tokens"] = task.max_tokens
        if task.stop:
            body["stop"] = list(task.stop)
        if task.logprobs is not None:
            body["logprobs"] = True
            alternatives = self.engine.logprobs(task.logprobs)
            if alternatives:  # some take 0 for none at all
                body["top_logprobs"] = alternatives
        if task.n > 1:
            body["n"] = task.n
        if task.plan.chat_template_kwargs:
            body["chat_template_kwargs"] = dict(task.plan.chat_template_kwargs)
        body |= await task.run_if_large(takes_grammar(task), partial(self.engine.chat, task))
        if task.tell is not None:
            task.tell(body)
        messages = await task.run_if_large(task.large, partial(_shown, task.request["messages"]))
        events = await self._post(body, messages)
        return ChatCompletionStream(events, task, plain_end=self.engine.plain_end)

    async def _post(self, body: dict[str, Any], messages: Sequence[Mapping[str, Any]]) -> Events:
        """Send the conversation, with as much of what is not text as the server takes."""
        if not has_media(messages):
            return await self.connection.post(_PATH, {**body, "messages": messages})
        failed: Failure | None = None
        tried: list[Sequence[Mapping[str, Any]]] = []
        for keep in _TAKEN:
            shown = without_media(messages, keep=keep)
            if shown in tried:
                continue
            tried.append(shown)
            try:
                events = await self.connection.post(_PATH, {**body, "messages": shown})
            except Failure as failure:
                if failure.code not in ("upstream_rejected", "upstream_error"):
                    raise
                failed = failed or failure
                continue
            if failed is not None:
                log_once("left out of requests", f"pictures and files: {failed.message}")
            return events
        assert failed is not None  # noqa: S101 - there is always one to try
        raise failed

    def _choice(self, task: UpstreamRequest) -> object:
        """What to say: vLLM shows the tools and leaves the text alone if told that there is no choice."""
        if self.engine.name == "vllm":
            return "none"
        return "auto" if task.plan.constraint.kind != "none" else task.request.get("tool_choice") or "auto"


def _shown(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The conversation as servers take it."""
    return list(results_as_text(with_json_arguments(messages)))


class ChatCompletionStream(CompletionStream):
    """The chunks of one chat completion."""

    decoder: ClassVar[msgspec.json.Decoder[Any]] = decoder_of(_Chunk)

    def take(self, chunk: Any, batch: Batch) -> None:
        for choice in chunk.choices or ():
            delta = choice.delta or choice.message or _Delta()
            if choice.index not in self._open:
                if delta.content or delta.reasoning_content or delta.reasoning or delta.tool_calls:
                    raise more_of(choice.index)
                continue
            reason = finish_of(choice.finish_reason)
            if reason is not None:
                self._open.discard(choice.index)
            stopped = choice.stop_reason if choice.stop_reason is not None else choice.matched_stop
            batch.deltas.append(
                Delta(
                    choice.index,
                    delta.content or "",
                    finish=reason,
                    stopped_by=stopped if isinstance(stopped, str) else None,
                    logprobs=logprobs_of(choice.logprobs, self._top),
                    token_ids=choice.token_ids,
                    reasoning=delta.reasoning_content or delta.reasoning or "",
                    calls=_calls(delta.tool_calls or ()),
                )
            )
        if chunk.usage is not None:
            batch.usage = usage_of(chunk.usage)


def _calls(given: Sequence[_ToolCall]) -> list[CallPiece]:
    out: list[CallPiece] = []
    for place, call in enumerate(given):
        function = call.function or _Function()
        arguments = function.arguments
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            try:
                arguments = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
            except (ValueError, RecursionError) as error:
                told = "the upstream sent arguments that are no JSON"
                raise Failure("upstream", told, code="upstream_protocol") from error
        index = place if call.index is None else call.index
        out.append(CallPiece(index, call.id or "", function.name or "", arguments))
    return out
