"""``/v1/messages``: its requests as chat completions.

Blocks become messages: thinking, text and tool_use of an assistant are one turn;
results of tools in a user's message are messages of the role tool, before the
user's own text.  A last message of the assistant's is the beginning of the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from .body import Count, Job, Share, checked, stops, string_at
from .failure import Failure, invalid
from .fields import left_out, refuse
from .message_tools import MessageTool, read_tools

_SAMPLING: Final = ("temperature", "top_p", "top_k")
_BILLING: Final = re.compile(r"x-anthropic-billing-header:[^\n]*\n*")
"""What an agent tells its vendor first, another line in every session: no prompt would share its prefix."""


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[dict[str, Any]]


class _Choice(msgspec.Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class MessagesBody(msgspec.Struct):
    """A message's request, as far as types go."""

    messages: list[_Message]
    max_tokens: Count
    model: str | None = None
    system: str | list[dict[str, Any]] | None = None
    tools: list[MessageTool] | None = None
    tool_choice: _Choice | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: Share | None = None
    top_p: Share | None = None
    top_k: int | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    thread: dict[str, Any] | None = None


def messages_job(body: Mapping[str, Any], *, hosted: str = "ignore") -> Job:
    """A message's request.

    :param hosted: what to do with tools that only their vendor can run.
    """
    request = {key: value for key, value in body.items() if value is not None}
    shape = checked(request, MessagesBody)
    refuse(request, "messages")
    if not shape.messages:
        raise invalid("messages is empty: there is nothing to answer", "messages")
    if shape.thread is not None:
        raise Failure(
            "invalid_request",
            "thread: this gateway keeps no conversations of this API; send the whole conversation",
            param="thread",
            code="thread_unsupported_request",
            details={"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
        )
    messages = _system(shape.system)
    for at, message in enumerate(shape.messages):
        messages += _turn(message, f"messages[{at}]")
    chat: dict[str, Any] = {"messages": messages}
    if messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls"):
        chat["continue_final_message"] = True
    tools, unoffered = read_tools(shape.tools or [], hosted)
    if tools:
        chat["tools"] = tools
    _choose(shape.tool_choice, chat)
    stop = stops(shape.stop_sequences, "stop_sequences")
    if stop:
        chat["stop"] = list(stop)
    schema = _format(shape, chat)
    soft = []
    if shape.thinking is not None:
        chat["thinking"] = _thinking(shape.thinking)
        soft.append("thinking")
    effort = (shape.output_config or {}).get("effort")
    if effort is not None:
        chat["reasoning_effort"] = effort
        soft.append("reasoning_effort")
    if shape.chat_template_kwargs is not None:
        chat["chat_template_kwargs"] = shape.chat_template_kwargs
    return Job(
        api="messages",
        request=chat,
        stream=bool(shape.stream),
        max_tokens=shape.max_tokens,
        stop=stop,
        schema=schema,
        sampling={key: request[key] for key in _SAMPLING if key in request},
        soft=tuple(soft),
        left_out=[*unoffered, *left_out(request, MessagesBody.__struct_fields__)],
    )


def _thinking(given: Mapping[str, Any]) -> dict[str, Any]:
    kind = given.get("type")
    if kind not in ("enabled", "disabled", "adaptive"):
        raise invalid(f"thinking.type is {kind!r}; choose enabled, disabled or adaptive", "thinking.type")
    return {key: given[key] for key in ("type", "budget_tokens") if key in given}


def _choose(given: _Choice | None, chat: dict[str, Any]) -> None:
    if given is None:
        return
    if given.type == "tool":
        if not given.name:
            raise invalid("tool_choice.name is required", "tool_choice.name", "missing_required_parameter")
        chat["tool_choice"] = {"type": "function", "function": {"name": given.name}}
    else:
        chat["tool_choice"] = "required" if given.type == "any" else given.type
    if given.disable_parallel_tool_use:
        chat["parallel_tool_calls"] = False


def _format(shape: MessagesBody, chat: dict[str, Any]) -> Mapping[str, Any] | None:
    """The schema of the answer, if there is to be one."""
    form = shape.output_format or (shape.output_config or {}).get("format")
    if form is None:
        return None
    schema = form.get("schema") if isinstance(form, Mapping) else None
    if not isinstance(form, Mapping) or form.get("type") != "json_schema" or not isinstance(schema, Mapping):
        raise invalid("output_config.format: expected type json_schema and a schema", "output_config.format")
    chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    return schema


# -- messages


def _system(given: str | Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    if not given:
        return []
    text = given if isinstance(given, str) else _text(given, "system")
    found = _BILLING.match(text)
    text = text if found is None else text[found.end() :]
    return [{"role": "system", "content": text}] if text else []


def _turn(message: _Message, place: str) -> list[dict[str, Any]]:
    """What a message becomes."""
    content = message.content
    if isinstance(content, str):
        return [{"role": message.role, "content": content}]
    if message.role == "assistant":
        return [_assistant(content, place)]
    if message.role == "system":
        return [{"role": "system", "content": _text(content, f"{place}.content")}]
    return _user(content, place)


def _assistant(blocks: Sequence[Mapping[str, Any]], place: str) -> dict[str, Any]:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for at, block in enumerate(blocks):
        kind = block.get("type")
        where = f"{place}.content[{at}]"
        if kind == "text":
            texts.append(string_at(block, "text", where))
        elif kind == "thinking":
            thoughts.append(string_at(block, "thinking", where))
        elif kind == "tool_use":
            arguments = block.get("input")
            # Clients send text back that they could not read.
            if not isinstance(arguments, Mapping | str):
                raise invalid(f"{where}.input is not an object", f"{where}.input", "invalid_type")
            function = {
                "name": string_at(block, "name", where),
                "arguments": arguments
                if isinstance(arguments, str)
                else json.dumps(arguments, ensure_ascii=False),
            }
            calls.append({"id": string_at(block, "id", where), "type": "function", "function": function})
        elif kind != "redacted_thinking":
            raise _unreadable(kind, where)
    turn: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or (None if calls else "")}
    if thoughts:
        turn["reasoning_content"] = "\n".join(thoughts)
    if calls:
        turn["tool_calls"] = calls
    return turn


def _user(blocks: Sequence[Mapping[str, Any]], place: str) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for at, block in enumerate(blocks):
        kind = block.get("type")
        where = f"{place}.content[{at}]"
        if kind == "text":
            parts.append({"type": "text", "text": string_at(block, "text", where)})
        elif kind == "tool_result":
            out.append(
                {
                    "role": "tool",
                    "tool_call_id": string_at(block, "tool_use_id", where),
                    "content": _result(block, where),
                }
            )
        elif kind == "image":
            parts.append({"type": "image_url", "image_url": {"url": _image(block, where)}})
        else:
            raise _unreadable(kind, where)
    if all(part["type"] == "text" for part in parts):
        text = "\n".join(part["text"] for part in parts)
        return [*out, {"role": "user", "content": text}] if parts or not out else out
    return [*out, {"role": "user", "content": parts}]


def _result(block: Mapping[str, Any], where: str) -> str:
    content = block.get("content")
    text = content if isinstance(content, str) else _text(content or (), f"{where}.content")
    return f"Error: {text}" if block.get("is_error") else text


def _image(block: Mapping[str, Any], where: str) -> str:
    source = block.get("source")
    if isinstance(source, Mapping):
        if source.get("type") == "url" and isinstance(source.get("url"), str):
            return str(source["url"])
        if source.get("type") == "base64":
            return f"data:{source.get('media_type')};base64,{source.get('data')}"
    raise invalid(f"{where}.source: expected an image as base64 or url", f"{where}.source")


def _text(blocks: object, place: str) -> str:
    if not isinstance(blocks, Sequence):
        raise invalid(f"{place} is not a string or a list of blocks", place, "invalid_type")
    texts: list[str] = []
    for at, block in enumerate(blocks):
        if not isinstance(block, Mapping) or block.get("type") != "text":
            kind = block.get("type") if isinstance(block, Mapping) else type(block).__name__
            raise _unreadable(kind, f"{place}[{at}]")
        texts.append(string_at(block, "text", f"{place}[{at}]"))
    return "\n".join(texts)


def _unreadable(kind: object, place: str) -> Exception:
    return invalid(f"{place}.type is {kind!r}, which this gateway cannot read here", f"{place}.type")
