"""Example output of a dialect, and the message that the parser returns for it.

An example that users see must be parsed correctly.  Some dialects cannot combine all parts of a message;
for instance, a call after content may be read as prose.  So the example contains only as many parts as
the dialect can express.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
"""Example message for dialects that can express all of its parts."""


def _tool(name: str, **types: str) -> Mapping[str, Any]:
    properties = {key: {"type": kind} for key, kind in types.items()}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


EXAMPLE_TOOLS: Final = (_tool("get_weather", city="string", days="integer"), _tool("now"))
"""Tools that the example message calls."""


def example(dialect: Dialect, *, reasoning: bool = True) -> tuple[str, Message]:
    """Return an example output of a dialect, and the message that the parser returns for this output.

    The example has as many parts as the dialect can express.

    :param reasoning: whether the output may contain reasoning.
    """
    content, calls = EXAMPLE.content, EXAMPLE.tool_calls
    thoughts = EXAMPLE.reasoning if reasoning else None
    for message in (
        Message(content, thoughts, calls),
        Message(None, thoughts, calls),
        Message(content, None, calls),
        Message(None, None, calls),
        Message(content, thoughts),
    ):
        try:
            text = render(message, dialect)
        except UsageError:
            continue
        return text, read_example(text, dialect)
    text = EXAMPLE.content or ""
    return text, read_example(text, dialect)


def read_example(text: str, dialect: Dialect) -> Message:
    """Parse an output, with the tools of the example, and return the message."""
    return parse(text, dialect, tools=EXAMPLE_TOOLS, prompt="" if dialect.frame is None else None)


def calls_of(message: Message) -> list[tuple[str, object]]:
    """Return the name and the decoded arguments of each call in a message, in a form that can be compared."""
    return [(call.name, json_value(call.arguments)) for call in message.tool_calls]


def json_value(text: str) -> object:
    """Return the value of JSON text, or the text itself if it is not valid JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
