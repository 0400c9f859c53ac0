"""Conversion of Messages request bodies to generation requests.

``content_blocks.py`` converts the conversation, and ``tools.py`` converts the tools.  If the last
message has the role ``assistant``, the model continues that message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from ...generation.request import GenerationRequest
from ...http.failure import invalid
from ..unsupported_fields import list_ignored, reject_unsupported
from ..validation import Count, Share, decode_body, read_stops
from .content_blocks import MessageHistory, read_text
from .tools import MessageTool, read_tools

_SAMPLING: Final = ("temperature", "top_p", "top_k")
_BILLING: Final = re.compile(r"x-anthropic-billing-header:[^\n]*\n*")
"""Pattern for the billing line that some agents put at the start of their system prompt.

The gateway removes this line, because it differs between sessions.  Sessions with different lines could not
share the cached start of the prompt.
"""


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[dict[str, Any]]


class _ToolChoice(msgspec.Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class MessagesBody(msgspec.Struct):
    """Body of a Messages request."""

    messages: list[_Message]
    max_tokens: Count
    model: str | None = None
    system: str | list[dict[str, Any]] | None = None
    tools: list[MessageTool] | None = None
    tool_choice: _ToolChoice | None = None
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


def read_messages_request(body: Mapping[str, Any], *, hosted: str = "ignore") -> GenerationRequest:
    """Convert the body of a Messages request to a generation request.

    :param hosted: how to treat tools that only their vendor can run: ``ignore`` or ``reject``.
    """
    request = {key: value for key, value in body.items() if value is not None}
    shape = decode_body(request, MessagesBody)
    reject_unsupported(request, "messages")
    if not shape.messages:
        raise invalid("messages is empty; send at least one message", "messages")
    history = MessageHistory()
    history.messages += _system(shape.system)
    for at, message in enumerate(shape.messages):
        history.add(message.role, message.content, f"messages[{at}]")
    messages = history.messages
    chat: dict[str, Any] = {"messages": messages}
    if messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls"):
        chat["continue_final_message"] = True
    tools, ignored_tools = read_tools(shape.tools or [], hosted)
    if tools:
        chat["tools"] = tools
    _read_tool_choice(shape.tool_choice, chat)
    stop = read_stops(shape.stop_sequences, "stop_sequences")
    if stop:
        chat["stop"] = list(stop)
    schema = _read_format(shape, chat)
    optional_fields = []
    if shape.thinking is not None:
        chat["thinking"] = _read_thinking(shape.thinking)
        optional_fields.append("thinking")
    effort = (shape.output_config or {}).get("effort")
    if effort is not None:
        chat["reasoning_effort"] = effort
        optional_fields.append("reasoning_effort")
    if shape.chat_template_kwargs is not None:
        chat["chat_template_kwargs"] = shape.chat_template_kwargs
    return GenerationRequest(
        api="messages",
        chat=chat,
        stream=bool(shape.stream),
        max_tokens=shape.max_tokens,
        stop=stop,
        schema=schema,
        sampling={key: request[key] for key in _SAMPLING if key in request},
        optional_fields=tuple(optional_fields),
        ignored=[*ignored_tools, *history.ignored, *list_ignored(request, MessagesBody.__struct_fields__)],
    )


def _read_thinking(thinking: Mapping[str, Any]) -> dict[str, Any]:
    kind = thinking.get("type")
    if kind not in ("enabled", "disabled", "adaptive"):
        raise invalid(f"thinking.type is {kind!r}; choose enabled, disabled or adaptive", "thinking.type")
    return {key: thinking[key] for key in ("type", "budget_tokens") if key in thinking}


def _read_tool_choice(choice: _ToolChoice | None, chat: dict[str, Any]) -> None:
    if choice is None:
        return
    if choice.type == "tool":
        if not choice.name:
            raise invalid("tool_choice.name is required", "tool_choice.name", "missing_required_parameter")
        chat["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
    else:
        chat["tool_choice"] = "required" if choice.type == "any" else choice.type
    if choice.disable_parallel_tool_use:
        chat["parallel_tool_calls"] = False


def _read_format(shape: MessagesBody, chat: dict[str, Any]) -> Mapping[str, Any] | None:
    """Set ``response_format`` in ``chat``; return the reply's JSON schema, or None if there is no schema."""
    form = shape.output_format or (shape.output_config or {}).get("format")
    if form is None:
        return None
    schema = form.get("schema") if isinstance(form, Mapping) else None
    if not isinstance(form, Mapping) or form.get("type") != "json_schema" or not isinstance(schema, Mapping):
        raise invalid("output_config.format needs the type json_schema and a schema", "output_config.format")
    chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    return schema


def _system(content: str | Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    if not content:
        return []
    text = content if isinstance(content, str) else read_text(content, "system")
    billing = _BILLING.match(text)
    text = text if billing is None else text[billing.end() :]
    return [{"role": "system", "content": text}] if text else []
