"""Arguments that do not fit the schema of their tool: missing ones, types, and allowed values."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from unspool import MalformedOutput, parse
from unspool.healing import feedback

NESTED: dict[str, Any] = {"anyOf": []}
NESTED["anyOf"] += [NESTED, {"const": "a"}]


def details(schema: Any, arguments: object, **extra: Any) -> list[str]:
    tools = [{"name": "f", "parameters": {"properties": {"x": schema}, **extra}}]
    text = f'<tool_call>{{"name": "f", "arguments": {json.dumps(arguments)}}}</tool_call>'
    return [each.detail for each in parse(text, "hermes", tools=tools).diagnostics]


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"enum": ["a", "b"]}, ["a", "b"]),
        ({"type": "string", "enum": ["a"], "nullable": True}, ["a", None]),
        ({"const": 1}, [1, 1.0]),
        ({"enum": [[1, {"k": "v"}]]}, [[1, {"k": "v"}]]),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, ["a", None]),
        ({"anyOf": [{"enum": ["a"]}, {"type": "integer"}]}, ["a", 3]),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, ["a", "b"]),
        ({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]}, ["b"]),
        ({"enum": []}, ["anything"]),
        ({"enum": "abc"}, ["anything"]),
        (NESTED, ["a", "anything"]),
        ({}, ["anything", 1]),
    ],
)
def test_allowed_values_fit(schema: Any, values: list[object]) -> None:
    for value in values:
        assert details(schema, {"x": value}) == []


@pytest.mark.parametrize(
    ("schema", "value", "detail"),
    [
        ({"enum": ["a", "b"]}, "c", """argument 'x' is not one of "a" or "b\""""),
        ({"type": "string", "enum": ["a", "b"]}, "c", """argument 'x' is not one of "a" or "b\""""),
        ({"const": "a"}, "b", """argument 'x' is not "a\""""),
        ({"enum": [1, "1"]}, True, "argument 'x' is a boolean, expected an integer or a string"),
        ({"enum": [1, False]}, True, "argument 'x' is not one of 1 or false"),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, "b", """argument 'x' is not "a\""""),
        (
            {"allOf": [{"enum": ["a", "b"]}, {"const": "b"}]},
            "a",
            """argument 'x' is not one of "a" or "b\"""",
        ),
        (
            {"enum": list(range(30))},
            99,
            f"argument 'x' is not one of {', '.join(map(str, range(20)))} and 10 other values",
        ),
    ],
)
def test_other_values_are_reported(schema: Any, value: object, detail: str) -> None:
    assert details(schema, {"x": value}) == [f"f: {detail}"]


def test_values_of_a_pydantic_model_are_checked() -> None:
    class Weather(BaseModel):
        unit: Literal["celsius", "fahrenheit"] | None = None
        mode: Literal["now"] = "now"

    tools = [{"name": "f", "parameters": Weather.model_json_schema()}]
    text = '<tool_call>{"name": "f", "arguments": %s}</tool_call>'
    for arguments in ('{"unit": null}', '{"unit": "celsius", "mode": "now"}'):
        assert parse(text % arguments, "hermes", tools=tools).diagnostics == ()
    message = parse(text % '{"unit": "kelvin", "mode": "later"}', "hermes", tools=tools)
    assert [each.kind for each in message.diagnostics] == ["schema_mismatch"]
    _, result = feedback(message, "hermes", tools)
    assert 'Argument \'unit\' is not one of "celsius" or "fahrenheit".' in result["content"]
    assert "Argument 'mode' is not \"now\"." in result["content"]
    with pytest.raises(MalformedOutput, match="schema mismatch"):
        parse(text % '{"unit": "kelvin"}', "hermes", tools=tools, policies="strict")


def test_alternatives_that_share_a_schema_take_linear_time() -> None:
    schema: Any = {"const": "a"}
    for _ in range(60):
        schema = {"anyOf": [schema, schema]}
    assert details(schema, {"x": "b"}) == ["""f: argument 'x' is not "a\""""]
