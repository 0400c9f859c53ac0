"""Conversion of Chat Completions request bodies to generation requests.

A field with the wrong type is rejected, and the error names the field.  Unknown fields are passed to the
engine unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from ...generation.request import GenerationRequest
from ...http.failure import invalid
from ..unsupported_fields import REFUSED, WITHOUT_EFFECT, ignore_verbosity, reject_unsupported
from ..validation import (
    Count,
    Name,
    Penalty,
    Share,
    Temperature,
    check_tools,
    decode_body,
    read_stops,
)

MAX_CHOICES: Final = 128


class _Part(msgspec.Struct):
    type: str
    text: str | None = None


class _Function(msgspec.Struct):
    name: Name
    arguments: Any = None


class _Call(msgspec.Struct):
    function: _Function
    id: str | None = None
    type: str | None = None


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _ToolFunction(msgspec.Struct):
    name: Annotated[str, Meta(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Tool(msgspec.Struct):
    type: str
    function: _ToolFunction | None = None


class _JsonSchema(msgspec.Struct):
    schema: dict[str, Any] | None = None
    name: str | None = None
    strict: bool | None = None


class _Format(msgspec.Struct):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class ChatBody(msgspec.Struct):
    """Body of a Chat Completions request."""

    messages: Annotated[list[_Message], Meta(min_length=1)]
    model: str | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: _Format | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    return_token_ids: bool | None = None
    logit_bias: dict[str, float] | None = None
    user: str | None = None
    reasoning_effort: str | int | float | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    include_reasoning: bool | None = None
    separate_reasoning: bool | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    skip_special_tokens: bool | None = None
    ignore_eos: bool | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    no_stop_trim: bool | None = None
    documents: list[dict[str, Any]] | None = None
    modalities: list[str] | None = None
    verbosity: str | None = None


_HANDLED_FIELDS: Final = frozenset(
    (
        "messages",
        "model",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "n",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "logprobs",
        "top_logprobs",
        "return_token_ids",
        "reasoning_effort",
        "chat_template_kwargs",
        "chat_template_args",
        "include_reasoning",
        "separate_reasoning",
        "continue_final_message",
        "add_generation_prompt",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "ignore_eos",
        "thinking",
        "enable_thinking",
        "thinking_mode",
        "thinking_budget",
        "reasoning",
        "functions",
        "function_call",
        "documents",
        "stop_token_ids",
        "include_stop_str_in_output",
        "no_stop_trim",
        "add_special_tokens",
        "modalities",
        "verbosity",
        *WITHOUT_EFFECT,
        *REFUSED["chat"],
    )
)
"""Fields that the gateway handles itself; all other fields are passed to the engine unchanged."""


def read_chat_request(body: Mapping[str, Any]) -> GenerationRequest:
    """Convert the body of a Chat Completions request to a generation request."""
    request = {key: value for key, value in body.items() if value is not None}
    shape = decode_body(request, ChatBody)
    check_tools(request.get("tools"), "tools")
    reject_unsupported(request, "chat")
    if set(shape.modalities or ()) - {"text"}:
        raise invalid("modalities: only text is supported", "modalities", "unsupported_parameter")
    options = shape.stream_options
    if options is not None and not shape.stream:
        raise invalid("stream_options requires stream=true", "stream_options")
    if shape.top_logprobs is not None and not shape.logprobs:
        raise invalid("top_logprobs requires logprobs=true", "top_logprobs")
    if shape.response_format is not None and shape.response_format.type == "json_schema":
        inner = shape.response_format.json_schema
        if inner is None or inner.schema is None:
            raise invalid(
                "response_format.json_schema.schema is required", "response_format.json_schema.schema"
            )
    return GenerationRequest(
        api="chat",
        chat=request,
        stream=bool(shape.stream),
        n=shape.n or 1,
        max_tokens=shape.max_completion_tokens or shape.max_tokens,
        stop=read_stops(shape.stop, "stop"),
        logprobs=(shape.top_logprobs or 0) if shape.logprobs else None,
        stop_ids=tuple(shape.stop_token_ids or ()),
        include_stop=bool(shape.include_stop_str_in_output or shape.no_stop_trim),
        token_ids=bool(shape.return_token_ids),
        include_usage=bool(options and options.include_usage),
        continuous_usage=bool(options and options.include_usage and options.continuous_usage_stats),
        schema=reply_schema(request.get("response_format")),
        sampling={key: value for key, value in request.items() if key not in _HANDLED_FIELDS},
        ignored=ignore_verbosity(shape.verbosity),
    )


def reply_schema(response_format: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the JSON schema that ``response_format`` requires, or None if it allows any text."""
    if response_format is None or response_format.get("type") == "text":
        return None
    if response_format.get("type") == "json_object":
        return {"type": "object"}
    inner = response_format.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, Mapping) else None
    return schema if isinstance(schema, Mapping) else {"type": "object"}
