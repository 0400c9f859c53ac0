"""Target: tools with any schema. Arguments parse as JSON in any chunks, and plans are made or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from fuzz.choices import Choices, choosing
from fuzz.forgiving import object_of
from unspool import Message, Policies, ToolCall, UnspoolError, list_dialects, plan, render
from unspool.testing import ModelOutput, assert_laws

EXAMPLES: Final[tuple[dict[str, Any], ...]] = (
    {
        "schema": {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": ["string", "null"]},
                "c": {"enum": [1, "x"]},
            },
            "required": ["a"],
        },
        "arguments": {"a": 1, "b": "two", "c": "x"},
    },
    {
        "schema": {
            "$defs": {"P": {"type": "object", "properties": {"next": {"$ref": "#/$defs/P"}}}},
            "type": "object",
            "properties": {"p": {"$ref": "#/$defs/P"}, "l": {"type": "array", "items": {"type": "number"}}},
            "additionalProperties": False,
        },
        "arguments": {"p": {"next": {}}, "l": [1, 2.5]},
    },
    {
        "schema": {
            "properties": {
                "x": {"anyOf": [{"type": "boolean"}, {"const": None}, {"type": "string", "pattern": "^a+$"}]},
                "y": {"oneOf": [{"type": "integer", "minimum": 3, "maximum": 9}, {"type": "object"}]},
                "z": {"allOf": [{"type": "string", "minLength": 1}, {"format": "date"}]},
            }
        },
        "arguments": {"x": True, "y": 4, "z": "2026-01-02"},
    },
)

HEAD: Final = 4
"""Number of bytes for choices in front of the JSON."""


def run(data: bytes) -> None:
    choices = Choices(data)
    dialect = choices.dialect()
    policies = choices.choose((None, Policies(schemaless_value="json"), Policies(malformed_call="repair")))
    number = Choices(bytes([choices.byte()]))
    fields = object_of(choices.utf8_text())
    tools = ({"type": "function", "function": {"name": "f", "parameters": fields.get("schema")}},)
    arguments = fields.get("arguments")
    call = ToolCall("call_1", "f", json.dumps(arguments if isinstance(arguments, dict) else {}))
    try:
        text = render(Message(tool_calls=(call,)), dialect, check=False)
        assert_laws(dialect, ModelOutput(text, tools, policies=policies), [number.chunks(text)])
    except UnspoolError:
        pass
    request = {
        "messages": [{"role": "user", "content": "?"}],
        "tools": list(tools),
        "tool_choice": "required",
    }
    try:
        plan(dialect, request)
    except UnspoolError:
        return


def seeds() -> Iterator[bytes]:
    for number, dialect in enumerate(list_dialects()):
        fields = EXAMPLES[number % len(EXAMPLES)]
        yield choosing(dialect) + bytes([number % 3, number]) + json.dumps(fields).encode()
