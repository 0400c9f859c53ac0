"""An example: a message in the words of a dialect, and what is read of them.

What is shown to people as a dialect's way of writing must be read by it.  Not
every dialect reads all that a message may hold (in some, content before a call
makes prose of the call), so the example has as much in it as comes back.
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
"""The message, if a dialect has words for all of it."""


def _tool(name: str, **types: str) -> Mapping[str, Any]:
    properties = {key: {"type": kind} for key, kind in types.items()}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


EXAMPLE_TOOLS: Final = (_tool("get_weather", city="string", days="integer"), _tool("now"))
"""The tools that it calls."""


def example(dialect: Dialect, *, reasoning: bool = True) -> tuple[str, Message]:
    """An output of the dialect with as much of the example in it as is read back, and what is read.

    :param reasoning: whether there may be any.
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
    """What is read of an output that calls the example's tools."""
    return parse(text, dialect, tools=EXAMPLE_TOOLS, prompt="" if dialect.frame is None else None)


def calls_of(message: Message) -> list[tuple[str, object]]:
    """The calls of a message, as far as they must come out the same: names, and arguments as values."""
    return [(call.name, json_value(call.arguments)) for call in message.tool_calls]


def json_value(text: str) -> object:
    """The value that a JSON text stands for; the text itself if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text
