"""Example output of a dialect, and the message that the parser reads from it.

An example that users see must parse.  Not every dialect can combine all parts of a message: in some, content
before a call turns the call into prose.  So the example has as many parts as the parser reads back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ...dialects._declaration import Dialect
from ...errors import UsageError
from ...message import Message, ToolCall
from ...parser import parse
from .message import render

EXAMPLE: Final = Message(
    reasoning="The user wants the weather.",
    content="Let me check.",
    tool_calls=(
        ToolCall("0", "get_weather", '{"city": "Paris", "days": 3}'),
        ToolCall("1", "now", "{}"),
    ),
)
"""The complete message, for dialects that can express all of it."""


def _tool(name: str, **types: str) -> Mapping[str, Any]:
    properties = {key: {"type": kind} for key, kind in types.items()}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


EXAMPLE_TOOLS: Final = (_tool("get_weather", city="string", days="integer"), _tool("now"))
"""The tools that the example calls."""


def example(dialect: Dialect, *, reasoning: bool = True) -> tuple[str, Message]:
    """Return an output with as many parts of the example as the dialect can express, and its message.

    :param reasoning: whether the output may contain reasoning.
    """
    calls = EXAMPLE if reasoning else replace(EXAMPLE, reasoning=None)
    for message in (
        calls,
        replace(calls, content=None),
        replace(calls, reasoning=None),
        replace(calls, content=None, reasoning=None),
        replace(calls, tool_calls=()),
    ):
        try:
            text = render(dialect, message)
        except UsageError:
            continue
        return text, read_example(text, dialect)
    text = EXAMPLE.content or ""
    return text, read_example(text, dialect)


def read_example(text: str, dialect: Dialect) -> Message:
    """Parse an output with the example's tools."""
    return parse(text, dialect, tools=EXAMPLE_TOOLS, prompt="" if dialect.frame is None else None)


def calls_of(message: Message) -> list[tuple[str, object]]:
    """Return the calls of a message for comparison: names, and arguments as values."""
    return [(call.name, json_value(call.arguments)) for call in message.tool_calls]


def json_value(text: str) -> object:
    """Return the value of a JSON text, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
