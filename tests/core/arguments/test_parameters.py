"""Values and parameters inside calls, well-formed and with common mistakes of models."""

from __future__ import annotations

import json

import pytest

from unspool import Dialect, Message, ToolCall, list_dialects, parse, render
from unspool.testing import ModelOutput, assert_laws, assert_round_trip, chunkings

# In a nested value, tags are the members of the value.
TAGGED = [
    dialect
    for dialect in list_dialects()
    if any("{params}" in call for call in dialect.call[:1]) and not dialect.habits.nested
]
each_tagged = pytest.mark.parametrize("dialect", TAGGED, ids=lambda dialect: dialect.name)
STRINGS = {"type": "object", "properties": {"text": {"type": "string"}, "more": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": STRINGS}} for name in ("note", "other")
]


def call(name: str, **arguments: object) -> Message:
    return Message(tool_calls=(ToolCall("call_1", name, json.dumps(arguments)),))


@each_tagged
def test_call_markup_in_a_value_is_data(dialect: Dialect) -> None:
    pending = render(dialect, call("note", text="x", more="y")) + "\n" + render(dialect, call("other"))
    for text in (pending, f"Write\n{pending}\nso."):
        message = call("note", text=text, more="z")
        written = assert_round_trip(dialect, message, TOOLS)
        assert_laws(dialect, ModelOutput(written, TOOLS), chunkings(written, splits=4, random=1))


@pytest.mark.parametrize(
    ("envelope", "key"),
    [
        ('{"name": "note", "arguments": {"text": "x"}, "dry": true}', "dry"),
        ('{"dry": true, "name": "note", "arguments": {"text": "x"}}', "dry"),
        ('{"name": "note", "arguments": {"text": "x"}, "arguments": {}}', "arguments"),
        ('{"type": "function", "name": "note", "arguments": {"text": "x"}}', None),
    ],
)
def test_envelope_members_do_not_vanish_without_a_diagnostic(envelope: str, key: str | None) -> None:
    message = parse(f"<tool_call>{envelope}</tool_call>", "hermes", tools=TOOLS)
    assert [call.arguments for call in message.tool_calls] == ['{"text": "x"}']
    assert [(diagnostic.kind, diagnostic.detail) for diagnostic in message.diagnostics] == (
        [("extra_member", key)] if key else []
    )


@pytest.mark.parametrize(
    ("dialect", "text", "detail"),
    [
        (
            "glm45",
            "<tool_call>note\n<arg_key>text</arg_key>x</arg_value>\n</tool_call>",
            "<arg_value> is missing",
        ),
        (
            "glm47",
            r"<tool_call>note<arg_key>text</arg_key>\n<arg_value>x</arg_value></tool_call>",
            r"\n spelled out between tags",
        ),
        (
            "minicpm5",
            '<function name="note"><param name="arguments">{"text": "x"}</param></function>',
            "arguments holds all arguments",
        ),
    ],
)
def test_slip_is_noted(dialect: str, text: str, detail: str) -> None:
    message = parse(text, dialect, tools=TOOLS)
    assert [call.arguments for call in message.tool_calls] == ['{"text": "x"}']
    assert [(diagnostic.kind, diagnostic.detail) for diagnostic in message.diagnostics] == [("slip", detail)]
