"""``/v1/messages``: its requests as chat completions.

Its conversation is read in ``message_blocks.py``, its tools in ``message_tools.py``.
A last message of the assistant's is the beginning of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from ...generation.request import GenerationRequest
from ...http.errors import invalid
from ..unsupported_fields import left_out, refuse
from ..validation import Count, Share, checked, stops
from .blocks import MessageHistory, text_of
from .tools import MessageTool, read_tools

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


def read_messages_request(body: Mapping[str, Any], *, hosted: str = "ignore") -> GenerationRequest:
    """A message's request.

    :param hosted: what to do with tools that only their vendor can run.
    """
    request = {key: value for key, value in body.items() if value is not None}
    shape = checked(request, MessagesBody)
    refuse(request, "messages")
    if not shape.messages:
        raise invalid("messages is empty: there is nothing to answer", "messages")
    history = MessageHistory()
    history.messages += _system(shape.system)
    for at, message in enumerate(shape.messages):
        history.take(message.role, message.content, f"messages[{at}]")
    messages = history.messages
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
    return GenerationRequest(
        api="messages",
        request=chat,
        stream=bool(shape.stream),
        max_tokens=shape.max_tokens,
        stop=stop,
        schema=schema,
        sampling={key: request[key] for key in _SAMPLING if key in request},
        soft=tuple(soft),
        left_out=[*unoffered, *history.left_out, *left_out(request, MessagesBody.__struct_fields__)],
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
    text = given if isinstance(given, str) else text_of(given, "system")
    found = _BILLING.match(text)
    text = text if found is None else text[found.end() :]
    return [{"role": "system", "content": text}] if text else []
