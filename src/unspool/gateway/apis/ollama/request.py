"""Conversion of the bodies of ``/api/chat`` and ``/api/generate`` requests to generation requests."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from ....dialects import OPENAI_ID
from ...generation.request import GenerationRequest
from ...http.failure import invalid
from ..validation import check_tools, decode_body, read_stops

_SAMPLING: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "repeat_penalty": "repetition_penalty",
}
"""Ollama's sampling options, each with the name that engines use for it."""


class _Function(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | None = None


class _Call(msgspec.Struct):
    function: _Function
    id: str | None = None


class _Message(msgspec.Struct):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[_Call] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class OllamaBody(msgspec.Struct):
    """Fields that the bodies of ``/api/chat`` and ``/api/generate`` have in common."""

    model: str | None = None
    stream: bool = True
    format: str | dict[str, Any] | None = None
    options: dict[str, Any] | None = None
    think: bool | str | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    keep_alive: float | str | None = None


class ChatBody(OllamaBody, kw_only=True):
    """Body of an ``/api/chat`` request."""

    messages: list[_Message]
    tools: list[dict[str, Any]] | None = None


class GenerateBody(OllamaBody, kw_only=True):
    """Body of an ``/api/generate`` request."""

    prompt: str = ""
    system: str | None = None
    images: list[str] | None = None
    suffix: str | None = None
    template: str | None = None
    context: list[int] | None = None
    raw: bool | None = None


def is_load(body: Mapping[str, Any], form: str) -> bool:
    """Return whether a request only asks to load the model."""
    return not body.get("messages" if form == "chat" else "prompt") and not body.get("images")


def read_ollama_chat_request(body: Mapping[str, Any]) -> GenerationRequest:
    """Convert the body of an ``/api/chat`` request to a generation request."""
    request = {key: value for key, value in body.items() if value is not None}
    shape = decode_body(request, ChatBody)
    check_tools(request.get("tools"), "tools")
    chat: dict[str, Any] = {"messages": _read_messages(shape.messages)}
    if shape.tools:
        chat["tools"] = shape.tools
    return _build_request(shape, chat, "chat")


def read_ollama_generate_request(body: Mapping[str, Any]) -> GenerationRequest:
    """Convert the body of an ``/api/generate`` request to a generation request."""
    shape = decode_body({key: value for key, value in body.items() if value is not None}, GenerateBody)
    for name, advice in (
        ("raw", "use /v1/completions for rendered prompts"),
        ("suffix", "use /v1/completions, if the engine supports it"),
        ("template", "set model_dir or template in the gateway's settings"),
        ("context", "send the conversation to /api/chat"),
    ):
        if getattr(shape, name):
            raise invalid(f"{name} is not supported here; {advice}", name, "unsupported_parameter")
    system = [{"role": "system", "content": shape.system}] if shape.system else []
    message = {"role": "user", "content": _content(shape.prompt, shape.images)}
    return _build_request(shape, {"messages": [*system, message]}, "generate")


def _build_request(shape: OllamaBody, chat: dict[str, Any], form: str) -> GenerationRequest:
    options = dict(shape.options or {})
    stop = read_stops(options.pop("stop", None), "options.stop")
    limit = options.pop("num_predict", None)
    if limit is not None and not isinstance(limit, int):
        raise invalid("options.num_predict is not an integer", "options.num_predict", "invalid_type")
    sampling = {name: options.pop(key) for key, name in _SAMPLING.items() if options.get(key) is not None}
    ignored = [f"options.{name}: set it in the engine's configuration" for name in options]
    if shape.keep_alive is not None:
        ignored.append("keep_alive: the gateway does not load or unload models")
    if stop:
        chat["stop"] = list(stop)
    optional_fields: list[str] = []
    if isinstance(shape.think, bool):
        chat["enable_thinking"] = shape.think
        optional_fields.append("enable_thinking")
    elif shape.think is not None:
        chat["reasoning_effort"] = shape.think
        optional_fields.append("reasoning_effort")
    return GenerationRequest(
        api="ollama" if form == "chat" else "ollama_generate",
        chat=chat,
        stream=shape.stream,
        max_tokens=limit if limit is not None and limit > 0 else None,
        stop=stop,
        logprobs=(shape.top_logprobs or 0) if shape.logprobs else None,
        schema=_read_format(shape.format, chat),
        sampling=sampling,
        optional_fields=tuple(optional_fields),
        ignored=ignored,
    )


def _read_format(value: str | Mapping[str, Any] | None, chat: dict[str, Any]) -> Mapping[str, Any] | None:
    """Set ``response_format`` in ``chat``; return the reply's JSON schema, or None if there is no schema."""
    if not value:
        return None
    if value == "json":
        chat["response_format"] = {"type": "json_object"}
        return {"type": "object"}
    if isinstance(value, str):
        raise invalid(f"format is {value!r}; choose 'json' or a JSON schema", "format")
    chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": value}}
    return value


def _content(text: str | None, images: Sequence[str] | None) -> str | list[dict[str, Any]]:
    if not images:
        return text or ""
    parts = [{"type": "image_url", "image_url": {"url": _data_url(image)}} for image in images]
    return [{"type": "text", "text": text or ""}, *parts]


def _data_url(image: str) -> str:
    """Return a data URL for a base64 image; detect the image's type from the first characters of the data."""
    kinds = {"iVBOR": "png", "/9j/": "jpeg", "R0lG": "gif", "UklG": "webp"}
    kind = next((kind for start, kind in kinds.items() if image.startswith(start)), "png")
    return f"data:image/{kind};base64,{image}"


def _read_messages(messages: Sequence[_Message]) -> list[dict[str, Any]]:
    """Convert messages to the format of Chat Completions.

    A call without an id receives a new id.  A tool result without an id is matched to the first call
    that has the same tool name and no result yet.  If the result has no tool name either, it is matched to
    the first call without a result.
    """
    out: list[dict[str, Any]] = []
    open_calls = _OpenCalls(())
    for at, message in enumerate(messages):
        if message.role == "tool":
            out.append(_read_result(message, open_calls, f"messages[{at}]"))
            continue
        turn: dict[str, Any] = {"role": message.role, "content": _content(message.content, message.images)}
        if message.thinking:
            turn["reasoning_content"] = message.thinking
        if message.tool_calls:
            calls = [(call.id or OPENAI_ID.new("", 0), call.function.name) for call in message.tool_calls]
            open_calls = _OpenCalls(calls)
            turn["tool_calls"] = [
                {
                    "id": id,
                    "type": "function",
                    "function": {
                        "name": name,
                        "arguments": json.dumps(call.function.arguments or {}, ensure_ascii=False),
                    },
                }
                for (id, name), call in zip(calls, message.tool_calls, strict=True)
            ]
        out.append(turn)
    return out


class _OpenCalls:
    """An assistant message's tool calls that have no result yet."""

    def __init__(self, calls: Sequence[tuple[str, str]]) -> None:
        self._ids = {number: id for number, (id, _) in enumerate(calls)}
        self._by_id: dict[str | None, deque[int]] = {}
        self._by_name: dict[str | None, deque[int]] = {}
        for number, (id, name) in enumerate(calls):
            self._by_id.setdefault(id, deque()).append(number)
            self._by_name.setdefault(name, deque()).append(number)

    def take(self, id: str | None, name: str | None) -> str | None:
        """Remove the first open call with this id or name, and return its id; return None if there is none.

        If both arguments are None, take the first open call.
        """
        if id is None and name is None:
            number = next(iter(self._ids), None)
        else:
            candidates = [self._first(self._by_id.get(id)), self._first(self._by_name.get(name))]
            number = min((one for one in candidates if one is not None), default=None)
        return None if number is None else self._ids.pop(number)

    def _first(self, numbers: deque[int] | None) -> int | None:
        """Return the first number whose call has no result yet, or None; remove all numbers before it."""
        while numbers and numbers[0] not in self._ids:
            numbers.popleft()
        return numbers[0] if numbers else None


def _read_result(message: _Message, open_calls: _OpenCalls, place: str) -> dict[str, Any]:
    id = open_calls.take(message.tool_call_id or None, message.tool_name or None)
    if id is None:
        reference = message.tool_call_id or message.tool_name
        problem = (
            f"{reference!r} does not match any open call"
            if reference
            else "no earlier call is waiting for this result"
        )
        raise invalid(f"{place}: {problem}", place)
    return {"role": "tool", "tool_call_id": id, "content": message.content or ""}
