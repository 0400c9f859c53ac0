"""Target: messages. ``render`` refuses them, or writes text that parses back and obeys the laws."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from fuzz.choices import Choices, choosing
from fuzz.forgiving import object_of
from fuzz.outputs import MESSAGES
from unspool import Message, ToolCall, UnspoolError, list_dialects, parse, render
from unspool.testing import ModelOutput, assert_laws

HEAD: Final = 3
"""Number of bytes for choices in front of the JSON."""


def run(data: bytes) -> None:
    choices = Choices(data)
    dialect = choices.dialect()
    number = Choices(bytes([choices.byte()]))
    fields = object_of(choices.utf8_text())
    message = Message(
        content=_text(fields.get("content")),
        reasoning=_text(fields.get("reasoning")),
        tool_calls=tuple(_call(each) for each in _list(fields.get("calls"))),
    )
    try:
        text = render(message, dialect)
    except UnspoolError:
        return
    # Without tools, some dialects read an unusual name as no name.
    tools = [{"name": call.name} for call in message.tool_calls] or None
    assert_laws(dialect, ModelOutput(text, tools), [number.chunks(text)])
    found = parse(text, dialect, tools=tools)
    assert [call.name for call in found.tool_calls] == [call.name for call in message.tool_calls], text


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: object) -> list[Any]:
    return value[:8] if isinstance(value, list) else []


def _call(value: object) -> ToolCall:
    fields = value if isinstance(value, dict) else {}
    arguments = fields.get("arguments")
    arguments_json = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(_text(fields.get("id")) or "", _text(fields.get("name")) or "f", arguments_json)


def seeds() -> Iterator[bytes]:
    for number, dialect in enumerate(list_dialects()):
        message = MESSAGES[number % len(MESSAGES)]
        calls = [
            {"id": call.id, "name": call.name, "arguments": json.loads(call.arguments)}
            for call in message.tool_calls
        ]
        fields = {"content": message.content, "reasoning": message.reasoning, "calls": calls}
        yield choosing(dialect) + bytes([number]) + json.dumps(fields).encode()
