"""Ollama's ``/api/chat`` and ``/api/generate``: their requests as chat completions."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from ....dialects._id_format import OPENAI_ID
from ...generation.request import GenerationRequest
from ...http.errors import invalid
from ..validation import check_tools, checked, stops

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
"""Options that engines know, by their usual names."""


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
    """What requests for the two have in common."""

    model: str | None = None
    stream: bool = True
    format: str | dict[str, Any] | None = None
    options: dict[str, Any] | None = None
    think: bool | str | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    keep_alive: float | str | None = None


class ChatBody(OllamaBody, kw_only=True):
    """A request for ``/api/chat``, as far as types go."""

    messages: list[_Message]
    tools: list[dict[str, Any]] | None = None


class GenerateBody(OllamaBody, kw_only=True):
    """A request for ``/api/generate``, as far as types go."""

    prompt: str = ""
    system: str | None = None
    images: list[str] | None = None
    suffix: str | None = None
    template: str | None = None
    context: list[int] | None = None
    raw: bool | None = None


def is_load(body: Mapping[str, Any], form: str) -> bool:
    """Whether a request wants nothing but that the model is there."""
    return not body.get("messages" if form == "chat" else "prompt") and not body.get("images")


def read_ollama_chat_request(body: Mapping[str, Any]) -> GenerationRequest:
    """A request for ``/api/chat``."""
    request = {key: value for key, value in body.items() if value is not None}
    shape = checked(request, ChatBody)
    check_tools(request.get("tools"), "tools")
    chat: dict[str, Any] = {"messages": _messages(shape.messages)}
    if shape.tools:
        chat["tools"] = shape.tools
    return _job(shape, chat, "chat")


def read_ollama_generate_request(body: Mapping[str, Any]) -> GenerationRequest:
    """A request for ``/api/generate``."""
    shape = checked({key: value for key, value in body.items() if value is not None}, GenerateBody)
    for name, told in (
        ("raw", "/v1/completions takes prompts that are rendered already"),
        ("suffix", "/v1/completions takes it where the engine does"),
        ("template", "the template is the gateway's (its settings model_dir or template)"),
        ("context", "send the conversation to /api/chat"),
    ):
        if getattr(shape, name):
            raise invalid(f"{name} cannot be used here: {told}", name, "unsupported_parameter")
    system = [{"role": "system", "content": shape.system}] if shape.system else []
    message = {"role": "user", "content": _content(shape.prompt, shape.images)}
    return _job(shape, {"messages": [*system, message]}, "generate")


def _job(shape: OllamaBody, chat: dict[str, Any], form: str) -> GenerationRequest:
    options = dict(shape.options or {})
    stop = stops(options.pop("stop", None), "options.stop")
    limit = options.pop("num_predict", None)
    if limit is not None and not isinstance(limit, int):
        raise invalid("options.num_predict is not an integer", "options.num_predict", "invalid_type")
    sampling = {name: options.pop(key) for key, name in _SAMPLING.items() if options.get(key) is not None}
    left_out = [f"options.{name}: it is for the engine's own configuration" for name in options]
    if shape.keep_alive is not None:
        left_out.append("keep_alive: models stay as they are")
    if stop:
        chat["stop"] = list(stop)
    soft: list[str] = []
    if isinstance(shape.think, bool):
        chat["enable_thinking"] = shape.think
        soft.append("enable_thinking")
    elif shape.think is not None:
        chat["reasoning_effort"] = shape.think
        soft.append("reasoning_effort")
    return GenerationRequest(
        api="ollama" if form == "chat" else "ollama_generate",
        request=chat,
        stream=shape.stream,
        max_tokens=limit if limit is not None and limit > 0 else None,
        stop=stop,
        logprobs=(shape.top_logprobs or 0) if shape.logprobs else None,
        schema=_format(shape.format, chat),
        sampling=sampling,
        soft=tuple(soft),
        left_out=left_out,
    )


def _format(given: str | Mapping[str, Any] | None, chat: dict[str, Any]) -> Mapping[str, Any] | None:
    """``format`` as ``response_format``; its schema."""
    if not given:
        return None
    if given == "json":
        chat["response_format"] = {"type": "json_object"}
        return {"type": "object"}
    if isinstance(given, str):
        raise invalid(f"format is {given!r}; choose 'json' or a JSON schema", "format")
    chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": given}}
    return given


def _content(text: str | None, images: Sequence[str] | None) -> str | list[dict[str, Any]]:
    if not images:
        return text or ""
    pictures = [{"type": "image_url", "image_url": {"url": _picture(image)}} for image in images]
    return [{"type": "text", "text": text or ""}, *pictures]


def _picture(image: str) -> str:
    """A picture in base64 as an address; what it begins with tells its kind."""
    kinds = {"iVBOR": "png", "/9j/": "jpeg", "R0lG": "gif", "UklG": "webp"}
    kind = next((kind for start, kind in kinds.items() if image.startswith(start)), "png")
    return f"data:image/{kind};base64,{image}"


def _messages(given: Sequence[_Message]) -> list[dict[str, Any]]:
    """Messages; calls get ids, and results that have none belong to the calls in their order, or by name."""
    out: list[dict[str, Any]] = []
    waiting = _Waiting(())
    for at, message in enumerate(given):
        if message.role == "tool":
            out.append(_result(message, waiting, f"messages[{at}]"))
            continue
        turn: dict[str, Any] = {"role": message.role, "content": _content(message.content, message.images)}
        if message.thinking:
            turn["reasoning_content"] = message.thinking
        if message.tool_calls:
            calls = [(call.id or OPENAI_ID.new("", 0), call.function.name) for call in message.tool_calls]
            waiting = _Waiting(calls)
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


class _Waiting:
    """Calls that have no result yet."""

    def __init__(self, calls: Sequence[tuple[str, str]]) -> None:
        self._ids = {number: id for number, (id, _) in enumerate(calls)}
        self._by_id: dict[str | None, deque[int]] = {}
        self._by_name: dict[str | None, deque[int]] = {}
        for number, (id, name) in enumerate(calls):
            self._by_id.setdefault(id, deque()).append(number)
            self._by_name.setdefault(name, deque()).append(number)

    def take(self, id: str | None, name: str | None) -> str | None:
        """Return the id of the first call with this id or name; of the first of all if both are None."""
        if id is None and name is None:
            number = next(iter(self._ids), None)
        else:
            found = [self._first(self._by_id.get(id)), self._first(self._by_name.get(name))]
            number = min((one for one in found if one is not None), default=None)
        return None if number is None else self._ids.pop(number)

    def _first(self, numbers: deque[int] | None) -> int | None:
        """Return the first of these calls that still waits."""
        while numbers and numbers[0] not in self._ids:
            numbers.popleft()
        return numbers[0] if numbers else None


def _result(message: _Message, waiting: _Waiting, place: str) -> dict[str, Any]:
    id = waiting.take(message.tool_call_id or None, message.tool_name or None)
    if id is None:
        raise invalid(f"{place}: there is no call that this could be the result of", place)
    return {"role": "tool", "tool_call_id": id, "content": message.content or ""}
