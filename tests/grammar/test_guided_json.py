"""Guided JSON: the schema of what ``generic_json`` parses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_sampled_texts import TOOLS, check

import unspool
from grammar_sampling import Sampler
from matchers import XGrammar, needs_xgrammar
from unspool import UsageError
from unspool.grammar import grammar_for, guided_schema
from unspool.grammar._nodes import SchemaValue
from unspool.grammar._self_contained_schema import self_contained

jsonschema = pytest.importorskip("jsonschema")

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
OTHER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def tool(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def test_schema_has_the_shape_engines_share() -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    assert guided_schema([tool("get_weather", parameters)]) == {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string", "enum": ["get_weather"]}, "parameters": parameters},
            "required": ["name", "parameters"],
            "additionalProperties": False,
        },
    }


def test_choice_required_named_and_single_give_schemas() -> None:
    required = guided_schema(TOOLS)
    named = guided_schema(TOOLS, choice={"name": "get_time"})
    single = guided_schema(TOOLS, parallel=False)
    time = {"name": "get_time", "parameters": {}}
    search = {"name": "search_places", "parameters": {"query": "x", "exact": True}}
    cases: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
        (
            required,
            [[time], [time, search]],
            [[], time, [{"name": "get_tim", "parameters": {}}], [{"name": "get_time"}]],
        ),
        (named, [[time]], [[search], [time, time], []]),
        (single, [[time], [search]], [[time, search], []]),
    ]
    for schema, good, bad in cases:
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        assert all(map(validator.is_valid, good))
        assert not any(map(validator.is_valid, bad))


@needs_xgrammar
def test_xgrammar_accepts_the_schema() -> None:
    match = XGrammar.from_schema(guided_schema(TOOLS))
    time, other = (
        {"name": "get_time", "parameters": {}},
        {"name": "all_optional", "parameters": {"c": None}},
    )
    arguments = {"query": "x", "exact": True, "place": {"name": "y"}}
    assert match(json.dumps([time, other]))
    assert match(json.dumps([{"name": "search_places", "parameters": arguments}]))
    assert not match('[{"name": "get_tim", "parameters": {}}]')
    assert not match('[{"name": "search_places", "parameters": {"query": 1, "exact": true}}]')
    assert not match("[]")


@pytest.mark.parametrize("options", [{}, {"parallel": False}, {"choice": {"name": "search_places"}}])
def test_sampled_text_parses_back(options: dict[str, Any]) -> None:
    dialect = unspool.get_dialect("generic_json")
    sampler = Sampler(dialect, SchemaValue(guided_schema(TOOLS, **options)), seed=4)
    for _ in range(30):
        text = sampler.text()
        message = unspool.parse(text, dialect, tools=TOOLS)
        check(message, [call["name"] for call in json.loads(text)], text)
        assert message.content is None


def test_grammar_is_equal_to_the_schema() -> None:
    grammar = grammar_for("qwen3_coder", TOOLS, choice="required", parallel=False)
    assert grammar.json_schema() == guided_schema(TOOLS, parallel=False)
    with pytest.raises(UsageError, match="always contains a call"):
        grammar_for("qwen3_coder", TOOLS).json_schema()


def test_named_function_takes_bare_arguments() -> None:
    grammar = grammar_for("hermes", [tool("f", {**NODE, "$defs": {"Node": NODE}})], choice={"name": "f"})
    assert grammar.json_schema(bare=True) == {**NODE, "$defs": {"Node": NODE}}
    with pytest.raises(UsageError, match="choice must name one function"):
        guided_schema(TOOLS, bare=True)


# --- references


def test_definitions_are_hoisted_and_shared() -> None:
    one, two = (tool(name, {**NODE, "$defs": {"Node": NODE, "Unused": {}}}) for name in ("one", "two"))
    schema = guided_schema([one, two])
    assert schema["$defs"] == {"Node": NODE}
    calls = schema["items"]["anyOf"]
    assert calls[0]["properties"]["parameters"] == calls[1]["properties"]["parameters"] == NODE


def test_definitions_of_the_same_name_are_kept_apart() -> None:
    members = {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}}
    first = tool("first", {**members, "$defs": {"X": NODE, "Node": NODE}})
    second = tool("second", {**members, "$defs": {"X": OTHER}})
    schema = guided_schema([first, second])
    assert schema["$defs"] == {"X": NODE, "Node": NODE, "second.X": OTHER}
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid([{"name": "first", "parameters": {"x": {}}}])
    assert not validator.is_valid([{"name": "second", "parameters": {"x": {}}}])
    assert validator.is_valid([{"name": "second", "parameters": {"x": {"n": 1}}}])


def test_references_to_any_location_are_resolved() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"$ref": "#/properties/a", "description": "the same"},
            "self": {"$ref": "#"},
            "lost": {"$ref": "#/nowhere"},
            "far": {"$ref": "https://example.com/schema"},
            "of": {"$ref": "#/properties/pair/anyOf/1"},
            "pair": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            "e~/s%25": {"$ref": "#/properties/e~0~1s%2525"},
        },
    }
    schema = guided_schema([tool("f", parameters)])
    validator = jsonschema.Draft202012Validator(schema)

    def valid(**arguments: object) -> bool:
        return bool(validator.is_valid([{"name": "f", "parameters": arguments}]))

    assert valid(b=1, self={"b": 2}, lost=[], far=None, of="x")
    assert not valid(b="1")
    assert not valid(self={"b": "x"})
    assert not valid(of=None)


def test_keywords_unknown_to_value_readers_are_expanded() -> None:
    sloppy = {
        "type": "dict",
        "properties": {
            "a": {"type": "int", "nullable": True},
            "b": {"$ref": "#/definitions/B", "nullable": True},
            "c": {"type": ["str", "null"], "nullable": True},
            "d": {"type": "any"},
            "e": {"type": "array", "items": [{"type": "float"}]},
            "f": "a string",
            "g": {"enum": []},
            "h": {"anyOf": [], "properties": 3},
        },
        "required": True,
        "definitions": {"B": {"type": "bool"}},
    }
    assert self_contained(sloppy) == {
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "b": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}]},
            "c": {"type": ["string", "null"]},
            "d": {},
            "e": {"type": "array", "prefixItems": [{"type": "number"}]},
            "f": True,
            "g": {},
            "h": {},
        },
        "$defs": {"B": {"type": "boolean"}},
    }


def test_reference_with_siblings_is_merged() -> None:
    schema = {"$ref": "#/$defs/A", "minimum": 1, "$defs": {"A": {"type": "integer"}}}
    assert self_contained(schema) == {
        "allOf": [{"$ref": "#/$defs/A"}, {"minimum": 1}],
        "$defs": {"A": {"type": "integer"}},
    }
