"""Conversion from and to the output items of OpenAI's Responses API.

The order of the parts and the JSON text of arguments are kept.  A message does not record whether a tool is
free-form, so a call to a free-form tool becomes an ordinary ``function_call`` item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ...dialects._id_format import IdFormat
from ...message import BrokenCall, Message, Part, TextPart, ToolCall
from .broken_calls import Broken, call_from, check_broken, poisoned
from .chat import message_of_parts
from .message_fields import as_json, joined_text, mapping

ITEM_IDS: Final = {
    "reasoning": IdFormat("rs_{random}"),
    "content": IdFormat("msg_{random}"),
    "call": IdFormat("fc_{random}"),
}
"""Map from each kind of item to the format of its ids."""


def reasoning_item(id: str, text: str, status: str) -> dict[str, Any]:
    """Return a reasoning item with the text as content and as summary; some clients show only one of them."""
    return {
        "id": id,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text}],
        "content": [{"type": "reasoning_text", "text": text}],
        "status": status,
    }


def message_item(
    id: str, text: str, status: str, logprobs: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return an item with text for the user."""
    content = [output_text(text, logprobs)]
    return {"id": id, "type": "message", "role": "assistant", "status": status, "content": content}


def output_text(text: str, logprobs: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the content of an item with text for the user."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": list(logprobs)}


def message_to_items(message: Message, *, broken: Broken = "omit") -> list[dict[str, Any]]:
    """Return the output items of a message."""
    check_broken(broken)
    items: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            items.append(_call_item(part.id, part.name, part.arguments or "{}", "completed"))
        elif isinstance(part, BrokenCall) and broken == "poison":
            items.append(_call_item(part.id, part.name, poisoned(part), "incomplete"))
        elif part.text:
            make = reasoning_item if part.channel == "reasoning" else message_item
            items.append(make(ITEM_IDS[part.channel].new("", 0), part.text, "completed"))
    return items


def message_from_items(items: Iterable[Mapping[str, Any]] | Mapping[str, Any]) -> Message:
    """Convert the output items of a response, or of one turn of a conversation, to a message."""
    if isinstance(items, Mapping):
        items = items.get("output", [items])
    parts: list[Part] = []
    for each in items:
        item = mapping(each, "an item")
        kind = item.get("type", "message")
        if kind == "reasoning":
            text = joined_text(item.get("content") or item.get("summary"), "text")
            if text:
                parts.append(TextPart("reasoning", text))
        elif kind == "message":
            text = joined_text(item.get("content"), "text", "refusal")
            if text:
                parts.append(TextPart("content", text))
        elif kind in ("function_call", "custom_tool_call"):
            arguments = item.get("arguments") if kind == "function_call" else {"input": item.get("input", "")}
            id = str(item.get("call_id") or item.get("id") or "")
            parts.append(call_from(id, str(item.get("name") or ""), as_json(arguments)))
    return message_of_parts(parts)


def _call_item(id: str, name: str, arguments: str, status: str) -> dict[str, Any]:
    return {
        "id": ITEM_IDS["call"].new("", 0),
        "type": "function_call",
        "call_id": id,
        "name": name,
        "arguments": arguments,
        "status": status,
    }
