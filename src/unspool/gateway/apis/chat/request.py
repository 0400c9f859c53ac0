"""Bodies of requests: checked, and turned into one internal request.

Whatever the API, what comes out is a :class:`Job`: a request in the shape of a
chat completion, and what the answer must look like.  The conversions of the other
two APIs are in ``responses.py`` and ``messages.py``.

A field of the wrong type is refused with its name, fields that nobody knows are
handed to the engine.
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
from ..unsupported_fields import REFUSED, WITHOUT_EFFECT, refuse

Api: TypeAlias = Literal["chat", "responses", "messages", "ollama", "ollama_generate"]
Struct = TypeVar("Struct", bound=msgspec.Struct)

Count: TypeAlias = Annotated[int, Meta(ge=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Temperature: TypeAlias = Annotated[float, Meta(ge=0, le=2)]
Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]
Name: TypeAlias = Annotated[str, Meta(min_length=1)]

MOST_CHOICES: Final = 128


@dataclass(slots=True)
class Job:
    """A request, whichever API it came by."""

    api: Api
    request: dict[str, Any]
    """In the shape of a chat completion."""
    stream: bool = False
    n: int = 1
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    """Tokens that end the answer, besides the model's own."""
    keeps_stop: bool = False
    """What ended the answer is part of it."""
    logprobs: int | None = None
    """Alternatives per token; None: no log probabilities."""
    token_ids: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    schema: Mapping[str, Any] | None = None
    """What the answer is to be, if JSON."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """Everything for the engine."""
    custom_tools: tuple[str, ...] = ()
    """Names of free-form tools."""
    namespaces: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By the name that the model is shown, the namespace of a tool and its name there."""
    echo: dict[str, Any] = field(default_factory=dict)
    """Fields that the response repeats."""
    items: list[dict[str, Any]] = field(default_factory=list)
    """Its own input as items, each with an id."""
    store: bool = True
    """Whether the response is to be kept."""
    conversation: str | None = None
    """What its input and its output are to be added to."""
    soft: tuple[str, ...] = ()
    """Switches that clients send unasked: left out where the model has no ear for them."""
    seal: Callable[[str], str] | None = None
    """Seals reasoning for a client that sends it back; None: it does not want that."""
    thread: Thread | None = None
    """What the message is to be added to (Messages)."""
    left_out: Sequence[str] = ()
    """What of the request the answer does without: for the log."""


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
    """A chat completion's request, as far as types go."""

    messages: Annotated[list[_Message], Meta(min_length=1)]
    model: str | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: _Format | None = None
    n: Annotated[int, Meta(ge=1, le=MOST_CHOICES)] | None = None
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


_OURS: Final = frozenset(
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
"""Fields that are not handed to the engine as they are, if at all."""

_PLACE: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)


def checked(body: Mapping[str, Any], shape: type[Struct]) -> Struct:
    """The body as a struct; a mistake names the field."""
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        found = _PLACE.fullmatch(str(error))
        told, place = (found[1], found[2]) if found is not None else (str(error), None)
        missing = re.fullmatch(r"Object missing required field `(\w+)`", told)
        if missing:
            place = f"{place}.{missing[1]}" if place else missing[1]
            raise invalid(f"{place} is required", place, "missing_required_parameter") from error
        told = told.replace("`", "")
        raise invalid(f"{place}: {told}" if place else told, place, "invalid_type") from error


def chat_job(body: Mapping[str, Any]) -> Job:
    """A chat completion's request."""
    request = {key: value for key, value in body.items() if value is not None}
    shape = checked(request, ChatBody)
    check_tools(request.get("tools"), "tools")
    refuse(request, "chat")
    if set(shape.modalities or ()) - {"text"}:
        raise invalid("modalities: this gateway answers in text", "modalities", "unsupported_parameter")
    options = shape.stream_options
    if options is not None and not shape.stream:
        raise invalid("stream_options is for streams: set stream, too", "stream_options")
    if shape.top_logprobs is not None and not shape.logprobs:
        raise invalid("top_logprobs needs logprobs=true", "top_logprobs")
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
        stop=stops(shape.stop, "stop"),
        logprobs=(shape.top_logprobs or 0) if shape.logprobs else None,
        stop_ids=tuple(shape.stop_token_ids or ()),
        keeps_stop=bool(shape.include_stop_str_in_output or shape.no_stop_trim),
        token_ids=bool(shape.return_token_ids),
        include_usage=bool(options and options.include_usage),
        continuous_usage=bool(options and options.include_usage and options.continuous_usage_stats),
        schema=answer_schema(request.get("response_format")),
        sampling={key: value for key, value in request.items() if key not in _OURS},
        left_out=verbosity(shape.verbosity),
    )


def verbosity(wanted: str | None) -> list[str]:
    """What is not done about it: no chat template has such a switch."""
    return [f"verbosity {wanted}: models have no switch for it"] if wanted not in (None, "medium") else []


def check_tools(tools: Sequence[Mapping[str, Any]] | None, place: str) -> None:
    """Refuse tools that are no functions, and names that come twice."""
    seen: set[str] = set()
    for at, tool in enumerate(tools or ()):
        if tool.get("type") != "function":
            told = f"{place}[{at}].type is {tool.get('type')!r}; this API takes functions"
            if tool.get("type") == "custom":
                told += ", /v1/responses takes custom tools, too"
            raise invalid(told, f"{place}[{at}].type")
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
            raise invalid(
                f"{place}[{at}]: there are two tools named {name!r}", f"{place}[{at}].function.name"
            )
        seen.add(name)


def stops(given: object, place: str) -> tuple[str, ...]:
    """Stop strings."""
    found = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(found, list) or not all(isinstance(stop, str) for stop in found):
        raise invalid(f"{place} is not a string or a list of strings", place, "invalid_type")
    if any(not stop for stop in found):
        raise invalid(f"{place} has an empty string, which would stop everything", place)
    return tuple(found)


def answer_schema(given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The schema that ``response_format`` asks for."""
    if given is None or given.get("type") == "text":
        return None
    if given.get("type") == "json_object":
        return {"type": "object"}
    inner = given.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, Mapping) else None
    return schema if isinstance(schema, Mapping) else {"type": "object"}


def string_at(item: Mapping[str, Any], key: str, place: str) -> str:
    """The string that an item of a list must have under this key."""
    value = item.get(key)
    if not isinstance(value, str):
        code = "missing_required_parameter" if value is None else "invalid_type"
        raise invalid(
            f"{place}.{key} is {'required' if value is None else 'not a string'}", f"{place}.{key}", code
        )
    return value
