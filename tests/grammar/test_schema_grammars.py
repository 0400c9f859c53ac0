"""Schemas as grammars: they accept valid values, and allow nothing that violates the schema."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import unspool
from grammar_sampling import Sampler
from matchers import Llama, XGrammar, needs_llama, needs_xgrammar
from unspool.grammar._gbnf import expand_rules, format_rules, to_gbnf
from unspool.grammar._named_rules import Rules
from unspool.grammar._nodes import (
    Chars,
    Node,
    Repeat,
    Schema,
    SchemaValue,
    TextUpTo,
    char_class,
    seq,
    up_to,
)
from unspool.grammar._parse_regex import UnsupportedPattern, parse_pattern
from unspool.grammar._schema_to_rules import integer_range
from unspool.grammar._self_contained_schema import self_contained
from unspool.grammar._text_excluding_markers import add_text_rules

jsonschema = pytest.importorskip("jsonschema")

CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "anything": (True, [None, 1, "x", [], {"a": [True]}], []),
    "string": ({"type": "string"}, ["", 'a"b\\', "é\n"], [1, None, ["x"]]),
    "integer": ({"type": "integer"}, [0, -7, 10**15], ["1", 1.5, None]),
    "number": ({"type": "number"}, [0, -1.5, 1e-9, 12], ["1", True]),
    "boolean": ({"type": "boolean"}, [True, False], [0, "true"]),
    "null": ({"type": "null"}, [None], [0, ""]),
    "nullable": ({"type": ["string", "null"]}, ["a", None], [1]),
    "enum": ({"enum": ["a", 'b"', 3, None, [1]]}, ["a", 'b"', 3, None, [1]], ["b", 4]),
    "const": ({"const": {"a": [1, "x"]}}, [{"a": [1, "x"]}], [{"a": [1]}, {}]),
    "array": ({"type": "array", "items": {"type": "integer"}}, [[], [1], [1, 2, 3]], [["1"], 1]),
    "bounded array": (
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        [[1], [1, 2]],
        [[], [1, 2, 3]],
    ),
    "at least two": (
        {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        [[1, 2], [1, 2, 3, 4, 5]],
        [[], [1]],
    ),
    "tuple": (
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        [["a", 1]],
        [["a", "b"], ["a", 1, 2]],
    ),
    "open tuple": (
        {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        [["a"], ["a", 1, 2]],
        [[1], ["a", "b"]],
    ),
    "both types": (
        {"type": ["number", "string"], "allOf": [{"type": ["integer", "null"]}]},
        [1, -2],
        ["a", None, 1.5],
    ),
    "an alternative of another type": (
        {
            "type": "object",
            "anyOf": [{"type": "string"}, {"required": ["a"], "properties": {"a": {"const": 1}}}],
        },
        [{"a": 1}],
        ["a", {}],
    ),
    "values of another type": ({"type": "string", "enum": ["a", 1]}, ["a"], [1]),
    "any array": ({"type": "array"}, [[], [1, "x", None, {"a": 1}]], [{}]),
    "object": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "boolean"}},
            "required": ["b"],
        },
        [{"b": "x"}, {"a": 1, "b": "x"}, {"b": "x", "c": True}, {"a": 1, "b": "", "c": False}],
        [{}, {"a": 1}, {"b": 1}, {"b": "x", "d": 1}, {"b": "x", "c": None}],
    ),
    "all optional": (
        {"type": "object", "properties": {k: {"type": "integer"} for k in "abc"}},
        [{}, {"a": 1}, {"b": 1}, {"c": 1}, {"a": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}],
        [{"a": "1"}, {"d": 1}],
    ),
    "no members": ({"type": "object", "properties": {}}, [{}], [{"a": 1}]),
    "any object": ({"type": "object"}, [{}, {"a": 1, "b": {"c": []}}], [[], 1]),
    "map": (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        [{}, {"x": 1}, {"x": 1, "y": 2}],
        [{"x": "1"}],
    ),
    "open object": (
        {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": {"type": "integer"},
        },
        [{"name": "x"}, {"name": "x", "names": 2, "other": 3}],
        [{"nam": 1}, {"name": "x", "other": "y"}],
    ),
    "anyOf": ({"anyOf": [{"type": "integer"}, {"type": "string", "enum": ["x"]}]}, [1, "x"], ["y", None]),
    "oneOf": ({"oneOf": [{"type": "boolean"}, {"type": "null"}]}, [True, None], [0]),
    "anyOf around": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 2}],
        [{}],
    ),
    "allOf": (
        {
            "allOf": [
                {"$ref": "#/$defs/A"},
                {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
            ],
            "$defs": {"A": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
        },
        [{"a": "x", "b": 1}],
        [{"a": "x"}, {"b": 1}],
    ),
    "reference": (
        {"type": "array", "items": {"$ref": "#/definitions/N"}, "definitions": {"N": {"type": "integer"}}},
        [[1]],
        [["1"]],
    ),
    "recursion": (
        {
            "$ref": "#/$defs/Tree",
            "$defs": {
                "Tree": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "integer"},
                        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                    },
                    "required": ["value"],
                }
            },
        },
        [{"value": 1}, {"value": 1, "children": [{"value": 2, "children": []}]}],
        [{}, {"value": 1, "children": [{}]}],
    ),
    "from 10 to 120": (
        {"type": "integer", "minimum": 10, "maximum": 120},
        [10, 19, 99, 100, 120],
        [9, 121, 200, 1, -10],
    ),
    "around zero": ({"type": "integer", "minimum": -12, "maximum": 5}, [-12, -3, 0, 5], [-13, 6]),
    "positive": ({"type": "integer", "exclusiveMinimum": 0}, [1, 10, 999], [0, -1]),
    "not negative": ({"type": "number", "minimum": 0}, [0, 1.5], [-1.5]),
    "short": ({"type": "string", "minLength": 1, "maxLength": 3}, ["a", "abc"], ["", "abcd"]),
    "pattern": (
        {"type": "string", "pattern": "^[A-Z]{2}-\\d+(\\.\\d*)?$"},
        ["AB-1", "ZZ-12.", "ZZ-1.5"],
        ["A-1", "AB-", "ab-1"],
    ),
    "open pattern": ({"type": "string", "pattern": "b+"}, ["b", "abba"], ["", "aca"]),
    "quotes in a pattern": ({"type": "string", "pattern": '^"[^a]\\\\"?$'}, ['"x\\', '"x\\"'], ['"a\\']),
    "date": ({"type": "string", "format": "date"}, ["2026-11-15"], ["2026-13-01", "today"]),
    "words for types": ({"type": "dict", "properties": {"n": {"type": "int"}}}, [{"n": 1}], [{"n": "1"}]),
    "no schema": ({"allOf": [{"description": "any"}]}, [1, "x"], []),
    "no type": ({"properties": {"n": {"type": "integer"}}, "required": ["n"]}, [{"n": 1}], [{}]),
}


def spell(value: Any, notation: str) -> str:
    """Write a value as the dialects' codecs write it."""
    if notation == "json":
        return json.dumps(value, ensure_ascii=False)
    if notation == "python":
        text = unspool.render(_message({"k": value}), "pythonic")
        return text.removeprefix("[f(k=").removesuffix(")]")
    text = unspool.render(_message({"k": value}), "functiongemma")
    return text.removeprefix("<start_function_call>call:f{k:").removesuffix("}<end_function_call>")


def _message(arguments: dict[str, Any]) -> unspool.Message:
    return unspool.Message(tool_calls=(unspool.ToolCall("", "f", json.dumps(arguments, ensure_ascii=False)),))


def value_node(schema: Schema, notation: str) -> Node:
    clean = self_contained(schema)
    if notation == "json":
        return SchemaValue(clean)
    return (
        SchemaValue(clean, "python") if notation == "python" else SchemaValue(clean, "bare", quote="<escape>")
    )


@needs_llama
@pytest.mark.parametrize("notation", ["json", "python", "bare"])
@pytest.mark.parametrize("name", CASES)
def test_llama_accepts_exactly_valid_values(name: str, notation: str) -> None:
    schema, good, bad = CASES[name]
    match = Llama(to_gbnf(value_node(schema, notation)))
    for value in good:
        assert not match.explain(spell(value, notation))
    for value in bad:
        assert not match(spell(value, notation)), value


@needs_xgrammar
@pytest.mark.parametrize("notation", ["json", "python", "bare"])
@pytest.mark.parametrize("name", CASES)
def test_xgrammar_accepts_the_same_grammar(name: str, notation: str) -> None:
    schema, good, bad = CASES[name]
    match = XGrammar.from_gbnf(to_gbnf(value_node(schema, notation)))
    for value in good:
        assert not match.explain(spell(value, notation))
    for value in bad:
        assert not match(spell(value, notation)), value


@pytest.mark.parametrize("name", CASES)
def test_sampled_value_satisfies_the_schema(name: str) -> None:
    schema = self_contained(CASES[name][0])
    sampler = Sampler(unspool.get_dialect("hermes"), SchemaValue(schema), seed=3)
    for _ in range(50):
        text = sampler.text()
        jsonschema.validate(json.loads(text), schema)


@needs_llama
def test_whitespace_is_flexible_but_bounded() -> None:
    match = Llama(to_gbnf(SchemaValue({"type": "object", "properties": {"a": {"type": "integer"}}})))
    assert match('{"a":1}')
    assert match('{\n  "a": 1\n}')
    assert not match('{"a":' + "\n" * 9 + "1}")


@needs_llama
def test_additional_keys_differ_from_declared_ones() -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "no": {"type": "string"}},
        "additionalProperties": {"type": "integer"},
    }
    match = Llama(to_gbnf(SchemaValue(schema)))
    assert match('{"n": 1, "nam": 2, "names": 3, "noo": 4, "_": 5}')
    assert not match('{"name": 1}')
    assert not match('{"x": 1, "no": 2}')


@needs_llama
def test_strings_exclude_markers() -> None:
    match = Llama(
        to_gbnf(SchemaValue({"type": "array", "items": {"type": "string"}}, without=("</v>", "<v")))
    )
    assert match('["<", "</v", "</", "v>", "<\\/v>", "\\u003c"]')
    assert not match('["</v>"]')
    assert not match('["a<v"]')


@needs_llama
@pytest.mark.parametrize(
    ("end", "without"),
    [
        ("</x>", ()),
        ("aab", ("ab",)),
        ("\n</x>", ("</x>", "<y")),
        ("aaa", ()),
        (">>>", (">a",)),
        ("abab", ("ba",)),
    ],
)
def test_text_ends_before_a_marker(end: str, without: tuple[str, ...]) -> None:
    match = Llama(to_gbnf(TextUpTo(end, without)))
    letters = sorted(set(end + "".join(without) + "z"))
    draw = random.Random(0)  # noqa: S311 - reproducible, not secret
    for _ in range(300):
        text = "".join(draw.choices(letters, k=draw.randint(0, 9))) + draw.choice(("", end))
        ends = [text.find(other) + len(other) for other in without if other in text]
        expected = text.find(end) == len(text) - len(end) >= 0 and all(at == len(text) for at in ends)
        assert match(text) == expected, text


@needs_llama
def test_marker_containing_excluded_text_is_handled() -> None:
    match = Llama(to_gbnf(up_to("]<[</city>", ("]<[",))))
    assert match("Paris]<[</city>")
    assert not match("a]<[b]<[</city>")
    assert not match("Paris]<[</town>")


@needs_llama
@pytest.mark.parametrize(
    ("low", "high"), [(0, 0), (3, 7), (0, 99), (7, 1234), (95, 105), (-20, -3), (-105, 98), (1000, 1999)]
)
def test_integer_ranges_are_exact(low: int, high: int) -> None:
    match = Llama(to_gbnf(integer_range(low, high)))
    edges = {low - 1, low, low + 1, high - 1, high, high + 1, 0, 5, 10, 99, 100, 1000, -1, -9, -10, -100}
    for number in edges:
        assert match(str(number)) == (low <= number <= high), number
    assert not match("-0")
    assert not match("007")


@pytest.mark.parametrize(
    "pattern", ["a(?=b)", "\\bword", "(a)\\1", "(a*)*", "a**", "[b-a]", "(", "a{,2}", "[]", "a{2"]
)
def test_unsupported_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedPattern):
        parse_pattern(pattern)


def test_unsupported_pattern_in_a_schema_is_not_enforced() -> None:
    assert to_gbnf(SchemaValue({"type": "string", "pattern": "a(?=b)"})) == to_gbnf(
        SchemaValue({"type": "string"})
    )


def test_rule_names_are_unique() -> None:
    rules = Rules()
    names = [rules.reserve(hint) for hint in ("a", "a", "a-2", "a 2", "A", "é", "")]
    assert len(set(names)) == len(names)


def test_unused_rules_are_not_written() -> None:
    rules = expand_rules(seq("a", Repeat(Chars(char_class("a-c]^-")), 1, 3)))
    text = 'root ::= "a" [\\u002D\\]\\u005Ea-c]{1,3}\n'
    assert format_rules({**rules, "other": Chars(char_class("x"))}) == text


def test_text_without_markers_is_one_rule() -> None:
    rules = Rules()
    assert add_text_rules(rules, "", ()) == Repeat(Chars(((0, 0x10FFFF),)))
    assert not rules.bodies
