"""Conversion from and to the content blocks of Anthropic's Messages API.

The arguments of a call are an object in this API, so the spelling of the JSON text is lost.  A broken call
never becomes a ``tool_use`` block, because an object cannot be made invalid on purpose (*poisoned*).  The
order of the parts is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ...message import BrokenCall, Message, Part, TextPart, ToolCall
from .broken_calls import Broken, check_broken
from .chat import message_of_parts
from .make_broken_arguments_unparsable import load_object, unsendable_call
from .message_fields import as_json, mapping

SIGNATURE: Final = "unspool"
"""Signature of thinking blocks.  Clients send it back; the gateway ignores it."""
MESSAGE_ADVICE: Final = (
    'Convert with broken="omit" to leave such calls out, and parse without malformed_call="call".'
)
"""Advice for callers that convert a message."""


def message_to_blocks(
    message: Message,
    *,
    broken: Broken = "omit",
    load_arguments: Callable[[str], object] = json.loads,
    advice: str = MESSAGE_ADVICE,
) -> list[dict[str, Any]]:
    """Return the content blocks of a message.

    :param load_arguments: function that converts a call's arguments from JSON text to ``input``.
    :param advice: end of the error message for a malformed call.
    :raises MalformedOutput: if a call is malformed and ``broken`` is ``poison``.
    """
    check_broken(broken)
    blocks: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            value = load_object(part.name, part.arguments, load_arguments, part.args_start, advice)
            blocks.append({"type": "tool_use", "id": part.id, "name": part.name, "input": value})
        elif isinstance(part, BrokenCall):
            if broken == "poison":
                if part.status == "malformed":
                    start = _place(message, part)
                    raise unsendable_call(part.name, part.raw, start, start, advice)
            elif part.text:
                _add_text(blocks, part.channel, part.text)
        elif part.text:
            _add_text(blocks, part.channel, part.text)
    return blocks


def _place(message: Message, call: BrokenCall) -> int:
    """Return the offset of a malformed call in the output, or 0 if the message does not have it."""
    same = [each for each in message.diagnostics if each.kind == "malformed_call" and each.raw == call.raw]
    return same[0].start if same else 0


def message_from_blocks(content: str | Iterable[Mapping[str, Any]] | Mapping[str, Any]) -> Message:
    """Convert the content of an assistant message of the Messages API to a ``Message``."""
    if isinstance(content, Mapping):
        content = content.get("content", "")
    if isinstance(content, str):
        return message_of_parts([TextPart("content", content)] if content else [])
    parts: list[Part] = []
    for each in content:
        block = mapping(each, "a content block")
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            parts.append(TextPart("content", str(block["text"])))
        elif kind == "thinking" and block.get("thinking"):
            parts.append(TextPart("reasoning", str(block["thinking"])))
        elif kind == "tool_use":
            arguments = as_json(block.get("input"))
            parts.append(ToolCall(str(block.get("id") or ""), str(block.get("name") or ""), arguments))
    return message_of_parts(parts)


def _add_text(blocks: list[dict[str, Any]], channel: str, text: str) -> None:
    if channel == "reasoning":
        blocks.append({"type": "thinking", "thinking": text, "signature": SIGNATURE})
    else:
        blocks.append({"type": "text", "text": text})
