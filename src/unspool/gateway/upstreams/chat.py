"""Upstream for servers with ``/v1/chat/completions``, which render the prompt themselves.

Such servers may leave markup in the text, so the gateway parses the text.  Reasoning and tool calls
that the server has already parsed are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypedDict

import msgspec

from ...errors import ProtocolError
from ...events import FinishReason
from ...wire import Delta, read_chat_choice
from ..conversation.broken_calls_in_history import with_json_arguments
from ..conversation.media import IMAGES, has_media, move_media_to_user, without_media
from ..http.failure import Failure
from ..http.json_decoding import decoder_of
from ..telemetry.logs import log_once
from .base import Batch, Stream, UpstreamRequest
from .completions import (
    CompletionStream,
    CompletionsUpstream,
    Count,
    UsageChunk,
    builds_constraint,
    choice_failure,
    read_finish_reason,
    read_usage,
    single_choice,
)
from .failures import protocol_failure
from .http_client import Events
from .logprobs import Logprobs, convert_logprobs
from .parallel_choices import ParallelStreams

_FORWARDED_FIELDS: Final = (
    "response_format",
    "parallel_tool_calls",
    "reasoning_effort",
    "continue_final_message",
    "add_generation_prompt",
    "documents",
    "verbosity",
)
"""Request fields that are forwarded unchanged, besides sampling fields."""


_PATH: Final = "/v1/chat/completions"
_MEDIA_LEVELS: Final = (("image_url", "input_audio", "audio_url", "video_url", "file"), IMAGES, ())
"""Kinds of media parts to send, per attempt: first all kinds, then only images, then none."""


class _Function(TypedDict, total=False):
    name: str | None
    arguments: Any


class _ToolCall(TypedDict, total=False):
    index: int | None
    id: str | None
    function: _Function | None


class _Delta(TypedDict, total=False):
    content: str | None
    reasoning_content: str | None
    reasoning: str | None
    tool_calls: list[_ToolCall] | None


class _Choice(TypedDict, total=False):
    index: int
    delta: _Delta | None
    message: _Delta | None
    finish_reason: str | None
    stop_reason: str | int | None
    matched_stop: str | int | None
    logprobs: Logprobs | None
    token_ids: list[Count] | None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: UsageChunk | None = None
    error: Any = None
    object: str = ""
    message: str = ""


class ChatUpstream(CompletionsUpstream):
    """Upstream for a server with an OpenAI-compatible chat endpoint."""

    renders = True

    @property
    def constraints(self) -> Sequence[str]:
        """Output constraints that the chat endpoint supports in addition to tools."""
        return self.engine.constraints if self.engine.constrains_chat else ()

    async def open(self, request: UpstreamRequest) -> Stream:
        """Start generation."""
        if self._detect or not self.model:
            await self.identify()
        self.engine.check_supported(request)
        if request.n > 1 and not self.engine.supports_n:
            # Build the constraint once for all choices.
            await request.run_if_large(
                builds_constraint(request), partial(self.engine.constraint_fields, request)
            )
            return await ParallelStreams.open(
                request.n, lambda index: self._chat(single_choice(request, index))
            )
        return await self._chat(request)

    async def _chat(self, request: UpstreamRequest) -> Stream:
        body: dict[str, Any] = {
            **request.sampling,
            **{key: request.chat[key] for key in _FORWARDED_FIELDS if key in request.chat},
        }
        if request.plan.forced:
            body.pop("response_format", None)  # a forced tool call has no text that could follow this format
        body["stream"] = self.engine.streams_logprobs or request.logprobs is None or not request.tools
        if body["stream"]:
            body["stream_options"] = {"include_usage": True}
        if self.model:
            body["model"] = self.model
        if request.tools:
            body["tools"] = list(request.tools)
            body["tool_choice"] = self._tool_choice(request)
        if request.max_tokens is not None:
            body["max_tokens"] = request.max_tokens
        if request.stop:
            body["stop"] = list(request.stop)
        if request.logprobs is not None:
            body["logprobs"] = True
            alternatives = self.engine.top_logprobs(request.logprobs)
            if alternatives:  # some servers read 0 as "no log probabilities"
                body["top_logprobs"] = alternatives
        if request.n > 1:
            body["n"] = request.n
        if request.plan.chat_template_kwargs:
            body["chat_template_kwargs"] = dict(request.plan.chat_template_kwargs)
        body |= await request.run_if_large(
            builds_constraint(request), partial(self.engine.chat_fields, request)
        )
        if request.on_body is not None:
            request.on_body(body)
        prepare = partial(_prepare_messages, request.chat["messages"])
        messages = await request.run_if_large(request.large, prepare)
        events = await self._post(body, messages, request.headers)
        return ChatCompletionStream(events, request, finish_optional=self.engine.finish_optional)

    async def _post(
        self, body: dict[str, Any], messages: Sequence[Mapping[str, Any]], headers: Mapping[str, str]
    ) -> Events:
        """Send the conversation with all media parts that the server accepts.

        Servers do not announce which media they accept, so a rejected request is sent again with fewer
        media parts.
        """
        if not has_media(messages):
            return await self.connection.post(_PATH, {**body, "messages": messages}, headers)
        first_failure: Failure | None = None
        tried: list[Sequence[Mapping[str, Any]]] = []
        for keep in _MEDIA_LEVELS:
            reduced = without_media(messages, keep=keep)
            if reduced in tried:
                continue
            tried.append(reduced)
            try:
                events = await self.connection.post(_PATH, {**body, "messages": reduced}, headers)
            except Failure as failure:
                if failure.code not in ("upstream_rejected", "upstream_error"):
                    raise
                first_failure = first_failure or failure
                continue
            if first_failure is not None:
                log_once("field_ignored", f"images and files: {first_failure.message}")
            return events
        assert first_failure is not None  # noqa: S101 - the loop tries at least one level
        raise first_failure

    def _tool_choice(self, request: UpstreamRequest) -> object:
        """Return the ``tool_choice`` for the server.

        For vLLM, the value is "none": vLLM then shows the tools to the model, but does not parse the calls.
        """
        if self.engine.name == "vllm":
            return "none"
        return "auto" if request.plan.constraint.kind != "none" else request.chat.get("tool_choice") or "auto"


def _prepare_messages(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the conversation in a form that servers accept."""
    return list(move_media_to_user(with_json_arguments(messages)))


class ChatCompletionStream(CompletionStream):
    """Stream of the chunks of one chat completion."""

    decoder: ClassVar[msgspec.json.Decoder[Any]] = decoder_of(_Chunk)

    def read_chunk(self, chunk: Any, batch: Batch) -> None:
        for choice in chunk.choices or ():
            index = choice.get("index", 0)
            finish = None
            if index in self._open:
                finish = read_finish_reason(choice.get("finish_reason"))
            delta = _read_delta(choice, finish, self._top)
            if index not in self._open:
                if delta.text or delta.reasoning or delta.calls:
                    raise choice_failure(index)
                continue
            if finish is not None:
                self._open.discard(index)
            batch.deltas.append(delta)
        if chunk.usage is not None:
            batch.usage = read_usage(chunk.usage)


def _read_delta(choice: _Choice, finish: FinishReason | None, top: int | None) -> Delta:
    logprobs = convert_logprobs(choice.get("logprobs"), top)
    try:
        return read_chat_choice(choice, finish, logprobs=logprobs)
    except ProtocolError as error:
        raise protocol_failure(error) from error
