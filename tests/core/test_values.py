"""The inside of calls: values and parameters, as models write them and as they slip."""

from __future__ import annotations

import json

import pytest

from unspool import Dialect, Message, ToolCall, list_dialects, render
from unspool.testing import Case, assert_laws, assert_round_trip, chunkings

# In a nested value tags are its members.
TAGGED = [
    dialect
    for dialect in list_dialects()
    if any("{params}" in call for call in dialect.call[:1]) and not dialect.values.nested
]
each_tagged = pytest.mark.parametrize("dialect", TAGGED, ids=lambda dialect: dialect.name)
STRINGS = {"type": "object", "properties": {"text": {"type": "string"}, "more": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": STRINGS}} for name in ("note", "other")
]


def call(name: str, **arguments: object) -> Message:
    return Message(tool_calls=(ToolCall("call_1", name, json.dumps(arguments)),))


@each_tagged
def test_calls_that_a_value_holds_are_data(dialect: Dialect) -> None:
    held = render(dialect, call("note", text="x", more="y")) + "\n" + render(dialect, call("other"))
    for text in (held, f"Write\n{held}\nso."):
        message = call("note", text=text, more="z")
        written = assert_round_trip(dialect, message, TOOLS)
        assert_laws(dialect, Case(written, TOOLS), chunkings(written, splits=4, random=1))
