"""Chat Completions: request body to generation request.

The other APIs convert their requests to the format of Chat Completions, so this module also has what
they share: :class:`Job`, and the validation of fields.

A field of the wrong type is refused by name.  Unknown fields go to the engine unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from ...http.errors import invalid
from ...state.threads import Thread
from ..unsupported_fields import REFUSED, WITHOUT_EFFECT, reject_unsupported

Api: TypeAlias = Literal["chat", "responses", "messages", "ollama", "ollama_generate"]
Struct = TypeVar("Struct", bound=msgspec.Struct)

Count: TypeAlias = Annotated[int, Meta(ge=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Temperature: TypeAlias = Annotated[float, Meta(ge=0, le=2)]
Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]
Name: TypeAlias = Annotated[str, Meta(min_length=1)]

MAX_CHOICES: Final = 128


@dataclass(slots=True)
class Job:
    """Request for generation, independent of the API that it came from."""

    api: Api
    request: dict[str, Any]
    """The request in the format of Chat Completions."""
    stream: bool = False
    n: int = 1
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    """Stop token ids besides the model's own."""
    include_stop: bool = False
    """Keep the stop string or token in the output."""
    logprobs: int | None = None
    """Number of alternatives per token; None for no log probabilities."""
    token_ids: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    schema: Mapping[str, Any] | None = None
    """JSON schema of the reply, if the request asks for JSON."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """All other fields that the engine may understand."""
    custom_tools: tuple[str, ...] = ()
    """Names of free-form tools."""
    namespaces: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Namespace of a tool and its name there, by the name that the model sees."""
    echo: dict[str, Any] = field(default_factory=dict)
    """Fields of the request to repeat in the response."""
    items: list[dict[str, Any]] = field(default_factory=list)
    """Input items of the request itself, each with an id (Responses)."""
    store: bool = True
    """Store the response."""
    conversation: str | None = None
    """Conversation to extend by input and output (Responses)."""
    optional_fields: tuple[str, ...] = ()
    """Fields of ``request`` to leave out if the model does not support them, because clients always send
    them."""
    seal: Callable[[str], str] | None = None
    """Encrypts reasoning for a client that sends it back; None if the client does not."""
    thread: Thread | None = None
    """Thread to extend by the message (Messages)."""
    ignored: Sequence[str] = ()
    """Ignored fields with the reason, for the log."""


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
"""Fields that the gateway handles, so the engine does not get them as they are."""

_ERROR: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
"""Message and path of msgspec's errors."""


def decode_body(body: Mapping[str, Any], shape: type[Struct]) -> Struct:
    """Convert a body to a struct; an error names the field."""
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        match = _ERROR.fullmatch(str(error))
        message, place = (match[1], match[2]) if match is not None else (str(error), None)
        missing = re.fullmatch(r"Object missing required field `(\w+)`", message)
        if missing:
            place = f"{place}.{missing[1]}" if place else missing[1]
            raise invalid(f"{place} is required", place, "missing_required_parameter") from error
        message = message.replace("`", "")
        raise invalid(f"{place}: {message}" if place else message, place, "invalid_type") from error


def chat_job(body: Mapping[str, Any]) -> Job:
    """Convert the body of a Chat Completions request."""
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
    return Job(
        api="chat",
        request=request,
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


def ignore_verbosity(value: str | None) -> list[str]:
    """Return the log entry for a verbosity, which no chat template supports."""
    return [f"verbosity {value}: no model supports it"] if value not in (None, "medium") else []


def check_tools(tools: Sequence[Mapping[str, Any]] | None, place: str) -> None:
    """Refuse tools that are not functions, and duplicate names."""
    seen: set[str] = set()
    for at, tool in enumerate(tools or ()):
        if tool.get("type") != "function":
            message = f"{place}[{at}].type is {tool.get('type')!r}; this API accepts only functions"
            if tool.get("type") == "custom":
                message += "; use /v1/responses for custom tools"
            raise invalid(message, f"{place}[{at}].type")
        function = tool.get("function")
        if not isinstance(function, Mapping):
            raise invalid(f"{place}[{at}].function is required", f"{place}[{at}].function")
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise invalid(
                f"{place}[{at}].function.name is required",
                f"{place}[{at}].function.name",
                "missing_required_parameter",
            )
        if name in seen:
            raise invalid(f"{place}[{at}]: duplicate tool name {name!r}", f"{place}[{at}].function.name")
        seen.add(name)


def read_stops(value: object, place: str) -> tuple[str, ...]:
    """Return stop strings from a string or a list."""
    stops = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise invalid(f"{place} is not a string or a list of strings", place, "invalid_type")
    if any(not stop for stop in stops):
        raise invalid(f"{place} contains an empty string, which would end every output", place)
    return tuple(stops)


def reply_schema(response_format: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the JSON schema that ``response_format`` demands, or None for text."""
    if response_format is None or response_format.get("type") == "text":
        return None
    if response_format.get("type") == "json_object":
        return {"type": "object"}
    inner = response_format.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, Mapping) else None
    return schema if isinstance(schema, Mapping) else {"type": "object"}


def string_at(item: Mapping[str, Any], key: str, place: str) -> str:
    """Return a required string of an object."""
    value = item.get(key)
    if not isinstance(value, str):
        code = "missing_required_parameter" if value is None else "invalid_type"
        raise invalid(
            f"{place}.{key} is {'required' if value is None else 'not a string'}", f"{place}.{key}", code
        )
    return value
