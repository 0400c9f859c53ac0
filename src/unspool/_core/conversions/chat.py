"""Conversion from and to the assistant messages of Chat Completions.

Chat Completions has one field for each kind of text, so the order of reasoning, content and calls is lost:
``message_from_chat`` returns the reasoning first, then the content, then the calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...errors import UsageError
from ...events import FinishReason
from ...message import BrokenCall, Message, Part, TextPart, ToolCall
from .broken_calls import Broken, call_from, check_broken, poisoned
from .message_fields import as_json, joined_text, mapping

_REASONING_FIELDS: Final = {
    "both": ("reasoning_content", "reasoning"),
    "reasoning_content": ("reasoning_content",),
    "reasoning": ("reasoning",),
}


def message_to_chat(
    message: Message, *, broken: Broken = "omit", reasoning_field: str = "both"
) -> dict[str, Any]:
    """Convert a ``Message`` to an assistant message of Chat Completions."""
    check_broken(broken)
    if reasoning_field not in _REASONING_FIELDS:
        raise UsageError(f"reasoning_field={reasoning_field!r}: choose one of {', '.join(_REASONING_FIELDS)}")
    calls: list[dict[str, Any]] = []
    content: list[str] = []
    reasoning: list[str] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            calls.append(_call(part.id, part.name, part.arguments or "{}"))
        elif isinstance(part, TextPart):
            (content if part.channel == "content" else reasoning).append(part.text)
        elif broken == "poison":
            calls.append(_call(part.id, part.name, poisoned(part)))
        elif part.text:
            (content if part.channel == "content" else reasoning).append(part.text)
    # If there are calls but no text, OpenAI sends null; without calls, clients expect a string.
    out: dict[str, Any] = {"role": "assistant", "content": "".join(content) or (None if calls else "")}
    if any(reasoning):
        out |= dict.fromkeys(_REASONING_FIELDS[reasoning_field], "".join(reasoning))
    if calls:
        out["tool_calls"] = calls
    return out


def message_from_chat(message: Mapping[str, Any]) -> Message:
    """Convert an assistant message of Chat Completions to a ``Message``."""
    fields = mapping(message, "an assistant message")
    if "choices" in fields:
        raise UsageError("this is a response, not a message: pass response['choices'][0]['message']")
    if fields.get("role", "assistant") != "assistant":
        raise UsageError(f"the message has the role {fields['role']!r}: pass an assistant message")
    reasoning = fields.get("reasoning_content")
    reasoning = joined_text(fields.get("reasoning") if reasoning is None else reasoning, "text")
    content = joined_text(fields.get("content"), "text", "refusal")
    parts: list[Part] = []
    if reasoning:
        parts.append(TextPart("reasoning", reasoning))
    if content:
        parts.append(TextPart("content", content))
    for call in fields.get("tool_calls") or ():
        function = mapping(mapping(call, "a tool call").get("function"), "the function of a tool call")
        arguments = as_json(function.get("arguments"))
        parts.append(call_from(str(call.get("id") or ""), str(function.get("name") or ""), arguments))
    return message_of_parts(parts)


def message_of_parts(parts: list[Part]) -> Message:
    """Return the message with these parts.

    If a call is truncated, the finish reason of the message is ``length``.
    """
    cut = any(isinstance(part, BrokenCall) and part.status == "truncated" for part in parts)
    return Message(parts=parts, finish_reason="length" if cut else "auto")


def reason_of(message: Message) -> FinishReason:
    """Return the finish reason of a message; of a message so far, the one that its parts suggest."""
    if message.finish_reason is None:
        return reason_of(message_of_parts(list(message.parts)))
    return message.finish_reason


def _call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
