"""Types from schemas and values from text: every rule, and every reported bug of other parsers."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unspool import parse
from unspool._core.schema import text_to_value as _values
from unspool._core.schema.numbers import number_to_json
from unspool._core.schema.python_to_json import python_to_json
from unspool._core.schema.text_to_value import coerce, quote
from unspool._core.schema.tools import ANY, UNKNOWN, Tools, ValueType
from unspool.errors import UsageError


def _shown(value: object) -> str:
    """Return a test id that is equal in every process; sets have no order."""
    return repr(sorted(value) if isinstance(value, (set, frozenset)) else value)[:40]


EVERYTHING = {"string", "integer", "number", "boolean", "null", "array", "object"}


def of(*types: str) -> ValueType:
    return ValueType({"type": list(types)})


def refuse(constant: str) -> object:
    raise ValueError(constant)


def read(text: str) -> Any:
    """Parse the text strictly, with integers kept as written."""
    return json.loads(text, parse_int=str, parse_constant=refuse)


def infinite(value: object) -> bool:
    if isinstance(value, dict):
        return any(infinite(member) for member in value.values())
    if isinstance(value, list):
        return any(infinite(item) for item in value)
    return isinstance(value, float) and not math.isfinite(value)


# -- types that a schema allows

REFERENCES: dict[str, object] = {
    "$defs": {
        "count": {"type": "integer"},
        "a/b": {"type": "boolean"},
        "m~n": {"type": "null"},
        "~1": {"type": "array"},
        "per cent": {"type": "number"},
        "chain": {"$ref": "#/$defs/count"},
        "list": [{"type": "string"}, {"type": "array"}],
        "self": {"$ref": "#/$defs/self"},
        "ping": {"$ref": "#/$defs/pong"},
        "pong": {"anyOf": [{"$ref": "#/$defs/ping"}, {"type": "string"}]},
        "tree": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/tree"}}, {"type": "null"}]},
    },
    "definitions": {"old": {"type": "object"}},
}

SCHEMAS: list[tuple[object, set[str]]] = [
    # from `type`
    ({"type": "string"}, {"string"}),
    ({"type": ["string", "null"]}, {"string", "null"}),
    ({"type": ("integer",)}, {"integer"}),
    *(
        ({"type": alias}, {name})
        for name, aliases in {
            "string": "str text varchar char enum STRING Text",
            "integer": "int int32 int64 uint uint8 uint64 long short unsigned Integer",
            "number": "float double num numeric Number",
            "boolean": "bool binary BOOLEAN",
            "object": "dict map Object",
            "array": "list arr sequence Array",
            "null": "null NULL",
        }.items()
        for alias in aliases.split()
    ),
    # from `enum` and `const`
    ({"enum": ["a", "b"]}, {"string"}),
    (
        {"enum": [1, 2.5, True, None, "a", [], ()]},
        {"integer", "number", "boolean", "null", "string", "array"},
    ),
    ({"enum": [True]}, {"boolean"}),
    ({"enum": [{}]}, {"object"}),
    ({"const": None}, {"null"}),
    ({"const": 3}, {"integer"}),
    ({"type": "string", "enum": [1, 2]}, {"string"}),
    # from keywords of a type
    ({"properties": {}}, {"object"}),
    ({"additionalProperties": False}, {"object"}),
    ({"items": {}}, {"array"}),
    ({"prefixItems": []}, {"array"}),
    ({"type": "string", "properties": {}}, {"string"}),
    ({"enum": ["a"], "items": {}}, {"string"}),
    ({"items": []}, {"array"}),
    ({"items": True}, {"array"}),
    ({"properties": None, "additionalProperties": None, "items": None, "prefixItems": None}, EVERYTHING),
    ({"properties": [], "additionalProperties": 5, "items": "x", "prefixItems": {}}, EVERYTHING),
    # unions
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"integer", "null"}),
    ({"oneOf": [{"type": "integer"}, {"const": "auto"}]}, {"integer", "string"}),
    ({"type": "string", "anyOf": [{"type": "integer"}]}, {"string", "integer"}),
    ({"allOf": [{"type": "integer"}, {"description": "n"}]}, {"integer"}),
    ({"allOf": [{"type": "integer"}, {"type": "number"}]}, {"integer", "number"}),
    ({"anyOf": [{"type": "integer"}, {}]}, EVERYTHING),
    ({"anyOf": [{"type": "integer"}, True]}, EVERYTHING),
    ({"anyOf": [{"type": "integer"}, False]}, {"integer"}),
    ({"anyOf": [{"oneOf": [{"allOf": [{"type": "null"}]}]}, {"type": "array"}]}, {"null", "array"}),
    ({"type": "string", "anyOf": [{"format": "date"}, {"format": "time"}]}, {"string"}),
    ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"object"}),
    ({"type": "string", "nullable": True}, {"string", "null"}),
    ({"type": "string", "nullable": False}, {"string"}),
    ({"nullable": True}, EVERYTHING),
    # references
    ({"$ref": "#/$defs/count"}, {"integer"}),
    ({"$ref": "#/definitions/old"}, {"object"}),
    ({"$ref": "#/$defs/a~1b"}, {"boolean"}),
    ({"$ref": "#/$defs/m~0n"}, {"null"}),
    ({"$ref": "#/$defs/~01"}, {"array"}),
    ({"$ref": "#/$defs/per%20cent"}, {"number"}),
    ({"$ref": "#/%24defs/count"}, {"integer"}),
    ({"$ref": "#/$defs/chain"}, {"integer"}),
    ({"$ref": "#/$defs/list/1"}, {"array"}),
    ({"$ref": "#/$defs/count", "nullable": True}, {"integer", "null"}),
    ({"$ref": "#/$defs/count", "description": "n"}, {"integer"}),
    ({"anyOf": [{"$ref": "#/$defs/count"}, {"type": "null"}]}, {"integer", "null"}),
    # cycles add no types
    ({"$ref": "#/$defs/self"}, set()),
    ({"anyOf": [{"$ref": "#/$defs/self"}, {"type": "null"}]}, {"null"}),
    ({"$ref": "#/$defs/ping"}, {"string"}),
    ({"$ref": "#/$defs/pong"}, {"string"}),
    ({"$ref": "#/$defs/tree"}, {"array", "null"}),
    # schemas without constraints
    ({}, EVERYTHING),
    (True, EVERYTHING),
    ({"description": "anything"}, EVERYTHING),
    ({"type": "any"}, EVERYTHING),
    ({"type": []}, EVERYTHING),
    ({"type": None}, EVERYTHING),
    ({"type": {"type": "string"}}, EVERYTHING),
    ({"type": [5, None]}, EVERYTHING),
    ({"enum": "ab"}, EVERYTHING),
    ({"anyOf": {}}, EVERYTHING),
    ({"anyOf": []}, EVERYTHING),
    ({"$ref": 5}, EVERYTHING),
    ({"$ref": "https://example.com/schema"}, EVERYTHING),
    ({"$ref": "#count"}, EVERYTHING),
    ({"$ref": "#/$defs/missing"}, EVERYTHING),
    ({"$ref": "#/$defs/count/type/deeper"}, EVERYTHING),
    ({"$ref": "#/$defs/list/2"}, EVERYTHING),
    ({"$ref": "#/$defs/list/" + "9" * 5000}, EVERYTHING),
    ({"type": ["string", "whatever"]}, {"string"}),
    ({"type": "whatever", "enum": ["a"]}, {"string"}),
    # values that are not schemas
    (False, set()),
    (None, set()),
    ("string", set()),
    (5, set()),
    ([{"type": "string"}], set()),
]


@pytest.mark.parametrize(("schema", "types"), SCHEMAS, ids=_shown)
def test_schema_gives_types(schema: object, types: set[str]) -> None:
    kind = ValueType(schema, REFERENCES)
    assert kind.types == types
    assert kind.is_any == (types == EVERYTHING)
    assert kind.is_string == (types in (set(), {"string"}))


def test_schema_may_be_any_mapping() -> None:
    schema = MappingProxyType({"anyOf": (MappingProxyType({"type": "integer"}),)})
    assert ValueType(schema).types == {"integer"}


def test_reference_to_the_whole_document_is_resolved() -> None:
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}}
    kind = ValueType(schema)
    for _ in range(50):
        kind = kind.member("child")
        assert kind.types == {"object"}
    assert kind.member("n").types == {"integer"}


def test_schema_of_any_depth_does_not_raise() -> None:
    schema: object = {"type": "integer"}
    for _ in range(50):
        schema = {"anyOf": [schema]}
    assert ValueType(schema).types == {"integer"}
    for _ in range(50_000):
        schema = {"anyOf": [schema]}
    assert ValueType(schema).is_any
    assert ValueType(schema).member("key") is UNKNOWN
    while isinstance(schema, dict):  # unlink level by level, because freeing a deep object recurses
        schema = schema["anyOf"].pop() if "anyOf" in schema else None


def test_recursive_schema_is_accepted() -> None:
    schema: dict[str, Any] = {"type": "string"}
    schema["anyOf"] = [schema, {"type": "null"}]
    assert ValueType(schema).types == {"string", "null"}
    assert ValueType(schema).keys() is None


def test_shared_branches_are_visited_once() -> None:
    definitions: dict[str, object] = {"0": {"type": "integer", "properties": {"n": {"type": "null"}}}}
    for level in range(1, 60):
        branch = {"$ref": f"#/$defs/{level - 1}"}
        definitions[str(level)] = {"anyOf": [branch, dict(branch)]}
    kind = ValueType({"$ref": "#/$defs/40"}, {"$defs": definitions})
    assert kind.types == {"integer"}
    assert kind.member("n").types == {"null"}


# -- types of members and items

NESTED: dict[str, object] = {
    "$defs": {
        "line": {
            "type": "object",
            "properties": {"sku": {"type": "string"}, "next": {"$ref": "#/$defs/line"}},
            "additionalProperties": {"type": "integer"},
        },
        "circle": {"properties": {"kind": {"const": "circle"}, "size": {"type": "number"}}},
        "square": {"properties": {"kind": {"const": 4}, "size": {"type": "integer"}}},
    },
    "type": "object",
    "properties": {
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "maybe": {"anyOf": [{"$ref": "#/$defs/line"}, {"type": "null"}]},
        "shape": {"oneOf": [{"$ref": "#/$defs/circle"}, {"$ref": "#/$defs/square"}]},
        "pair": {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "null"}},
        "old_pair": {"items": [{"type": "string"}, {"type": "integer"}]},
        "either": {
            "anyOf": [
                {"prefixItems": [{"type": "string"}]},
                {"prefixItems": [{"type": "null"}, {"type": "boolean"}]},
            ]
        },
        "open": {"additionalProperties": {}, "items": True},
        "closed": {"additionalProperties": False, "items": False},
        "odd": {"properties": [1], "additionalProperties": 5, "items": "x", "prefixItems": {}},
        "any_more": {"additionalProperties": True},
        "both": {"allOf": [{"$ref": "#/$defs/circle"}, {"properties": {"n": {"type": "null"}}}]},
        "malformed": 5,
    },
}


@pytest.mark.parametrize(
    ("walk", "types"),
    [
        (lambda kind: kind.member("lines"), {"array"}),
        (lambda kind: kind.member("lines").items(), {"object"}),
        (lambda kind: kind.member("lines").items(1000), {"object"}),
        (lambda kind: kind.member("lines").items().member("sku"), {"string"}),
        (lambda kind: kind.member("lines").items().member("qty"), {"integer"}),
        (lambda kind: kind.member("lines").items().member("next").member("next").member("sku"), {"string"}),
        (lambda kind: kind.member("maybe").member("sku"), {"string"}),
        (lambda kind: kind.member("shape").member("kind"), {"string", "integer"}),
        (lambda kind: kind.member("shape").member("size"), {"number", "integer"}),
        (lambda kind: kind.member("pair").items(), {"string"}),
        (lambda kind: kind.member("pair").items(1), {"integer"}),
        (lambda kind: kind.member("pair").items(2), {"null"}),
        (lambda kind: kind.member("old_pair").items(1), {"integer"}),
        (lambda kind: kind.member("old_pair").items(2), set()),
        (lambda kind: kind.member("either").items(0), {"string", "null"}),
        (lambda kind: kind.member("either").items(1), {"boolean"}),
        (lambda kind: kind.member("open").member("x"), EVERYTHING),
        (lambda kind: kind.member("open").items(), EVERYTHING),
        (lambda kind: kind.member("closed").member("x"), set()),
        (lambda kind: kind.member("closed").items(), set()),
        (lambda kind: kind.member("odd").member("x"), set()),
        (lambda kind: kind.member("odd").items(), set()),
        (lambda kind: kind.member("any_more").member("x"), set()),
        (lambda kind: kind.member("both").member("size"), {"number"}),
        (lambda kind: kind.member("both").member("n"), {"null"}),
        (lambda kind: kind.member("malformed"), set()),
        (lambda kind: kind.member("undeclared"), set()),
        (lambda kind: kind.member("undeclared").member("x").items(), set()),
    ],
)
def test_member_types_are_resolved(walk: Callable[[ValueType], ValueType], types: set[str]) -> None:
    assert walk(ValueType(NESTED)).types == types


def test_enum_keys_are_resolved() -> None:
    kind = ValueType(NESTED)
    assert kind.member("shape").keys() == ("kind", "size")
    assert kind.member("lines").items().keys() == ("sku", "next")
    assert kind.member("lines").keys() is None
    assert kind.member("odd").keys() is None
    assert ValueType({"properties": {}}).keys() == ()


# -- tools

PARAMETERS = {"type": "object", "properties": {"n": {"type": "integer"}}}
SHAPES: list[dict[str, object]] = [
    {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}},
    {"function": {"name": "f", "parameters": PARAMETERS}},
    {"type": "function", "name": "f", "parameters": PARAMETERS},
    {"type": "function", "name": "f", "parameters": PARAMETERS, "function": None},
    {"name": "f", "input_schema": PARAMETERS},
    {"type": "custom", "name": "f", "input_schema": PARAMETERS},
    {"type": None, "name": "f", "input_schema": PARAMETERS, "parameters": None},
]


@pytest.mark.parametrize("tool", SHAPES)
def test_every_tool_shape_is_read(tool: dict[str, object]) -> None:
    tools = Tools([tool])
    assert tools.names == {"f"}
    assert tools.value_type("f", "n").types == {"integer"}
    assert tools.keys("f") == ("n",)


def test_tools_may_come_from_an_iterator() -> None:
    def generate() -> Iterator[dict[str, object]]:
        yield from SHAPES[:1]

    assert Tools(generate()).names == {"f"}


def test_tools_other_than_functions_are_skipped() -> None:
    """C16: ``web_search`` among the tools crashed vLLM (PR #45147)."""
    tools = Tools(
        [
            {"type": "web_search"},
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "custom", "custom": {"name": "freeform"}},
            {"type": "mcp", "function": "x"},
            SHAPES[0],
        ]
    )
    assert tools.names == {"f"}


def test_unknown_tool_differs_from_no_tools() -> None:
    unknown, none, some = Tools(None), Tools([]), Tools(SHAPES[:1])
    assert (unknown.known, none.known, some.known) == (False, True, True)
    assert unknown.names == none.names == set()
    assert (unknown.declares("f"), none.declares("f"), some.declares("f")) == (False, False, True)
    assert some.declares("g") is False


def test_could_become_matches_name_prefixes() -> None:
    tools = Tools([{"name": "get_weather", "input_schema": {}}, {"name": "ping", "input_schema": {}}])
    for prefix in ("", "g", "get_", "get_weather", "pi"):
        assert tools.could_become(prefix)
    for prefix in ("x", "weather", "get_weather_now", "Ping"):
        assert not tools.could_become(prefix)
    assert Tools(None).could_become("x")
    assert not Tools([]).could_become("")


def test_undeclared_parameters_have_no_type() -> None:
    tools = Tools([*SHAPES[:1], {"type": "function", "function": {"name": "bare"}}])
    assert tools.value_type("f", "other") is UNKNOWN
    assert tools.value_type("g", "n") is UNKNOWN
    assert tools.value_type("bare", "n") is UNKNOWN
    assert tools.keys("g") is None
    assert tools.keys("bare") is None


def test_value_types_are_cached() -> None:
    tools = Tools(SHAPES[:1])
    assert tools.value_type("f", "n") is tools.value_type("f", "n")


def test_parameters_may_be_a_reference() -> None:
    schema = {"$ref": "#/$defs/Args", "$defs": {"Args": PARAMETERS}}
    tools = Tools([{"name": "f", "input_schema": schema}])
    assert tools.value_type("f", "n").types == {"integer"}
    assert tools.keys("f") == ("n",)


@pytest.mark.parametrize("parameters", [None, "x", 5, [], True, {"properties": 5}, {"properties": None}])
def test_malformed_parameters_do_not_raise(parameters: object) -> None:
    tools = Tools([{"type": "function", "function": {"name": "f", "parameters": parameters}}])
    assert tools.value_type("f", "n") is UNKNOWN
    assert tools.keys("f") is None


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (5, "tools is a int; pass the request's list of tools"),
        ("f", "tools is a str; pass"),
        (SHAPES[0], "tools is a dict; pass"),
        ([SHAPES[0], "f"], "tools[1] is a str; pass"),
        ([None], "tools[0] is a NoneType; pass"),
        ([{}], "tools[0] is a function without a name; pass"),
        ([{"type": "function"}], "tools[0] is a function without a name; pass"),
        ([{"type": "function", "function": "f"}], "tools[0] is a function without a name; pass"),
        ([{"type": "function", "function": {"name": 5}}], "tools[0] is a function without a name; pass"),
        ([SHAPES[0], {"name": None, "input_schema": {}}], "tools[1] is a function without a name; pass"),
    ],
)
def test_invalid_tools_are_a_usage_error(tools: Any, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Tools(tools)


# -- conversion of text

HUGE = "9" * 4300
STAYS = None
"""Expected result: the text stays a string although the schema does not allow one."""

RULES: list[tuple[str, str, str | None]] = [
    # columns: types, text, JSON
    # 1: only string: verbatim
    ("string", "null", '"null"'),
    ("string", " 5 ", '" 5 "'),
    ("string", '"abc"', r'"\"abc\""'),
    ("string", "&amp;\n\u00e9\U0001f600", '"&amp;\\n\u00e9\U0001f600"'),
    ("string", '{"a": 1}', r'"{\"a\": 1}"'),
    ("string", "", '""'),
    # 2: null
    ("null", "null", "null"),
    ("null", " Null\n", "null"),
    ("null string", "NULL", "null"),
    ("null", "None", STAYS),
    ("null", "nil", STAYS),
    ("null", "", STAYS),
    # 3: boolean
    ("boolean", "true", "true"),
    ("boolean", " FALSE ", "false"),
    ("boolean", "True", "true"),
    ("boolean string", "True", "true"),
    ("boolean", "1", "true"),
    ("boolean null", "0", "false"),
    ("boolean string", "1", '"1"'),
    ("boolean", "yes", STAYS),
    # 4: integer
    ("integer", "5", "5"),
    ("integer", "-5", "-5"),
    ("integer", "\t5\r\n", "5"),
    ("integer", "5.0", "5"),
    ("integer", "-5.000", "-5"),
    ("integer", "007", "7"),
    ("integer", "-000", "-0"),
    ("integer", "+5", "5"),
    ("integer", HUGE, HUGE),
    ("integer", f"-{HUGE}.0", f"-{HUGE}"),
    ("integer", f"{HUGE}0", STAYS),
    ("integer", "5.5", STAYS),
    ("integer", "5.", STAYS),
    ("integer", "1e3", STAYS),
    ("integer", "5 5", STAYS),
    ("integer", "--5", STAYS),
    ("integer", "1_000", STAYS),
    ("integer", "\u0665", STAYS),  # a digit, but not an ASCII digit
    ("integer", "\u00a05", STAYS),  # whitespace, but not ASCII whitespace
    ("integer", "", STAYS),
    # 5: number
    ("number", "5", "5"),
    ("number", "5.0", "5.0"),
    ("number", "-0.10", "-0.10"),
    ("number", "1E+20", "1E+20"),
    ("number", "1.5e-7", "1.5e-7"),
    ("number", "+5.5", "5.5"),
    ("number", "007.50", "7.50"),
    ("number", "-007", "-7"),
    ("number", "00e1", "0e1"),
    ("number", "1e-999", "1e-999"),
    ("number", "0e999", "0e999"),
    ("number", HUGE, HUGE),
    ("number", "0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
    ("number", ".5", STAYS),
    ("number", "5.", STAYS),
    ("number", "inf", STAYS),
    ("number", "-Infinity", STAYS),
    ("number", "NaN", STAYS),
    ("number", "1e999", STAYS),
    ("number", "-1e999", STAYS),
    ("number", f"{HUGE}.5", STAYS),
    ("number", "1,000", STAYS),
    ("number", "0x10", STAYS),
    # 6: array and object: as written
    ("array", " [1,  2.50]\n", "[1,  2.50]"),
    ("object", '{"a":{"b":[1]}}', '{"a":{"b":[1]}}'),
    ("object", '{"n": ' + HUGE + "}", '{"n": ' + HUGE + "}"),
    ("object", '{"n": ' + HUGE + "0}", STAYS),
    ("array object", "[]", "[]"),
    ("array", "{}", STAYS),
    ("object", "[]", STAYS),
    ("object", '"{}"', STAYS),
    ("array", "[1", STAYS),
    ("array", "[1] 2", STAYS),
    ("array", "[1,]", STAYS),
    ("array", "[NaN]", STAYS),
    ("array", "[1e999]", STAYS),
    ("object", "{'k': 1}", STAYS),
    ("object", "{k: 1}", STAYS),
    ("object", '{"a": "x\ny"}', STAYS),
    ("object", "", "{}"),
    ("array", " \n", "[]"),
    ("array object", "", "{}"),
    ("array null", "", STAYS),
    ("array string", "", '""'),
    # 7: string among other types: verbatim
    ("string null", " x ", '" x "'),
    ("string integer", "5 apples", '"5 apples"'),
    ("string integer", " 5 ", "5"),
    ("string boolean number", "1.5", "1.5"),
    ("string array", "[x]", '"[x]"'),
    ("string array", "[1]", "[1]"),
    ("string object", '"x"', r'"\"x\""'),
    ("string number", "1e999", '"1e999"'),
    # 8: string among other types: padding and signs of a number are kept
    ("string integer", "01234", '"01234"'),
    ("string integer", "+4930123456", '"+4930123456"'),
    ("string number", "-007.5", '"-007.5"'),
    ("string number", "0.5", "0.5"),
    ("string integer", "0", "0"),
    # 9: order of attempts: null, boolean, integer, number
    ("number integer", "5.0", "5"),
    ("number integer", "5.5", "5.5"),
    ("string null boolean integer array", "null", "null"),
    ("string null boolean integer array", "false", "false"),
    # 10: any type: JSON, unless the text is a string
    ("any", "5", "5"),
    ("any", " [1] ", "[1]"),
    ("any", "null", "null"),
    ("any", "-0.50", "-0.50"),
    ("any", HUGE, HUGE),
    ("any", '"x"', r'"\"x\""'),
    ("any", " x ", '" x "'),
    ("any", "007", '"007"'),
    ("any", "True", '"True"'),
    ("any", "NULL", '"NULL"'),
    ("any", "1e999", '"1e999"'),
    ("any", '{"a": [1e999]}', r'"{\"a\": [1e999]}"'),
    ("any", "NaN", '"NaN"'),
    ("any", "123abc", '"123abc"'),
    ("any", "", '""'),
    # 11: no schema: string
    ("unknown", "5", '"5"'),
    ("unknown", " null ", '" null "'),
    ("unknown", "[1, 2.5]", '"[1, 2.5]"'),
]

PYTHON_RULES: list[tuple[str, str, str | None]] = [
    ("null", "None", "null"),
    ("string null", "None", "null"),
    ("null", "none", STAYS),
    ("string", "None", '"None"'),
    ("unknown", "None", '"None"'),
    ("boolean", "True", "true"),
    ("integer", "None", STAYS),
    ("string integer", "True", '"True"'),
    ("object", "{'k': True, 'deep': {'x': [1, None]}}", '{"k": true, "deep": {"x": [1, null]}}'),
    ("object", '{"k":  1}', '{"k":  1}'),
    ("object", "['k']", STAYS),
    ("object", "{1, 2}", STAYS),
    ("array", "{1, 2}", "[1, 2]"),
    ("array", "(1, 'a')", '[1, "a"]'),
    ("array", "(1)", STAYS),
    ("array", "[1e999]", STAYS),
    ("array", "[x]", STAYS),
    ("string array", "[x]", '"[x]"'),
    ("array number", "(5)", STAYS),
    ("any", "True", "true"),
    ("any", "None", "null"),
    ("any", "{'k': 'v'}", '{"k": "v"}'),
    ("any", "(5)", '"(5)"'),
    ("any", "('x')", "\"('x')\""),
    ("any", "'x'", "\"'x'\""),
    ("any", "007", '"007"'),
]


def check(types: str, text: str, expected: str | None, *, python_values: bool) -> None:
    kind = {"any": ANY, "unknown": UNKNOWN}.get(types) or of(*types.split())
    value, fits = coerce(text, kind, python_values)
    assert (value, fits) == ((quote(text), False) if expected is STAYS else (expected, True))
    read(value)


@pytest.mark.parametrize(("types", "text", "expected"), RULES, ids=_shown)
def test_coercion_rules_hold(types: str, text: str, expected: str | None) -> None:
    check(types, text, expected, python_values=False)


@pytest.mark.parametrize(("types", "text", "expected"), PYTHON_RULES, ids=_shown)
def test_coercion_rules_hold_for_python_values(types: str, text: str, expected: str | None) -> None:
    check(types, text, expected, python_values=True)


def test_order_of_a_union_does_not_matter() -> None:
    """Parsers differ: vLLM's Rust parsers take the order of the schema, SGLang prefers strings."""
    for names in (
        ("string", "integer", "null"),
        ("null", "string", "integer"),
        ("integer", "null", "string"),
    ):
        branches = ValueType({"anyOf": [{"type": name} for name in names]})
        assert coerce("5", branches, python_values=False) == ("5", True)
        assert coerce("null", branches, python_values=False) == ("null", True)
        assert coerce("x", branches, python_values=False) == ('"x"', True)


# -- reported bugs of other parsers

OPTIONAL_INTEGER = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
REPORTED_BUGS: list[tuple[str, object, str, str]] = [
    ("C01", OPTIONAL_INTEGER, "5", "5"),
    ("C01", OPTIONAL_INTEGER, "null", "null"),
    ("C01", {"oneOf": OPTIONAL_INTEGER["anyOf"]}, "5", "5"),
    ("C01", {"allOf": [{"type": "integer"}]}, "5", "5"),
    ("C01", {"type": ["integer", "null"]}, "5", "5"),
    ("C01", {"$ref": "#/$defs/n", "$defs": {"n": OPTIONAL_INTEGER}}, "5", "5"),
    ("C01", {"anyOf": [{"type": "object"}, {"type": "null"}]}, '{"a": 1}', '{"a": 1}'),
    ("C02", {"type": "string", "nullable": True}, "null", "null"),
    ("C02", {"type": ["string", "null"]}, "null", "null"),
    ("C04", {"type": "number"}, "108.0", "108.0"),
    ("C04", {"type": "number"}, "22.8", "22.8"),
    ("C05", {"type": "number"}, "1e999", '"1e999"'),
    ("C05", {"type": "number"}, "NaN", '"NaN"'),
    ("C05", {"type": "number"}, "Infinity", '"Infinity"'),
    ("C05", {}, "1e999", '"1e999"'),
    ("C05", {"type": "array"}, "[-Infinity]", '"[-Infinity]"'),
    ("C07", {"type": "integer"}, "9223372036854775807", "9223372036854775807"),
    ("C07", {"type": "number"}, "9223372036854775807", "9223372036854775807"),
    ("C07", {}, "9223372036854775807", "9223372036854775807"),
    ("C07", {"type": "number"}, "1e20", "1e20"),
    ("C07", {"type": "object"}, '{"id": 9223372036854775807}', '{"id": 9223372036854775807}'),
    ("C08", {"type": "string"}, "123abc", '"123abc"'),
    ("C08", None, "123abc", '"123abc"'),
    ("C10", None, "[1, 2.5]", '"[1, 2.5]"'),
    ("C10", {}, "[1, 2.5]", "[1, 2.5]"),
    ("C11", {"type": "integer"}, "5.0", "5"),
    ("C13", {"type": "number"}, "10", "10"),
    ("C14", {"type": ["string", "null"]}, "Bob", '"Bob"'),
    ("C14", {"enum": ["Bob", "Eve"]}, "Bob", '"Bob"'),
    ("C14", {"enum": ["Bob", None]}, "Bob", '"Bob"'),
]


@pytest.mark.parametrize(("row", "schema", "text", "expected"), REPORTED_BUGS)
def test_reported_coercion_bugs_are_absent(row: str, schema: object, text: str, expected: str) -> None:
    """One row per report: vLLM #37831, #39679, #42128, #43984, #55743 ...; C16 is above."""
    assert coerce(text, ValueType(schema), python_values=False)[0] == expected


def test_unfinished_numbers_are_not_numbers() -> None:
    """C04: ``108.`` was first taken for 108 and then corrected (vLLM PR #42128)."""
    assert coerce("108.", of("number"), python_values=False) == ('"108."', False)


# -- depth and size


def nest(opener: str, closer: str, inner: str, depth: int = 100_000) -> str:
    return opener * depth + inner + closer * depth


def test_deep_json_is_recognised() -> None:
    for text in (
        nest("[", "]", ""),
        nest("[ 1 , ", "\n]", "{}"),
        nest('{"a" : ', "}", '"x"'),
        nest('[{"a":1,"b":[', "]}, null]", "true,false"),
    ):
        kind = of("object") if text[0] == "{" else of("array")
        assert coerce(text, kind, python_values=False) == (text, True)
        assert coerce(text, ANY, python_values=False) == (text, True)


@pytest.mark.parametrize(
    "text",
    [
        nest("[", "]", "") + "]",
        nest("[", "]", "")[:-1],
        nest("[", "]", "1,"),
        nest("[", "]", "1 2"),
        nest("[", "]", "1:2"),
        nest("[", "]", ","),
        nest("[", "]", "}"),
        nest("[", "]", "{1:2}"),
        nest("[", "]", '{"a"}'),
        nest("[", "]", '{"a",1}'),
        nest("[", "]", '{"a":}'),
        nest("[", "]", '{"a":1,}'),
        nest("[", "]", '{"a":1 "b":2}'),
        nest("[", "]", "NaN"),
        nest("[", "]", "1e999"),
        nest("[", "]", "01"),
        nest("[", "]", '"\n"'),
        nest("[", "]", "'a'"),
        "[" * 100_000,
        nest('{"a":', "", ""),
        nest('{"a":', "]", "1"),
    ],
    ids=range(21),
)
def test_deep_text_that_is_not_json_is_a_string(text: str) -> None:
    assert coerce(text, ANY, python_values=False) == (quote(text), True)


tokens = st.lists(
    st.sampled_from(["[", "]", "{", "}", ",", ":", '"a"', "1", "-", "1.5", "null", " ", "\n", "x", '"']),
    max_size=12,
).map("".join)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(tokens | json_values.map(json.dumps) | json_values.map(lambda value: json.dumps(value, indent=1)))
def test_deep_check_agrees_with_shallow_check(text: str) -> None:
    assert _values._is_deep_json(text) == (_values._json_kind(text.strip()) is not None)


@pytest.mark.parametrize(
    "text",
    [
        "0" * 2_000_000 + "x",
        "1" * 2_000_000 + ".",
        "1." + "0" * 2_000_000 + "e",
        "[" + "\\" * 2_000_000,
        "'\\1" * 700_000,
    ],
)
def test_patterns_do_not_backtrack(text: str) -> None:
    """If the pattern were quadratic, this would take longer than a test may."""
    assert coerce(text, of("integer", "number", "array"), python_values=True)[1] is False
    python_to_json(text)


# -- Python literals

LITERALS: list[tuple[str, str | None]] = [
    ("True", "true"),
    ("false", "false"),
    ("None", "null"),
    ("null", "null"),
    (" [ ] ", "[]"),
    ("{}", "{}"),
    ("()", "[]"),
    ("(1)", "1"),
    ("(1,)", "[1]"),
    ("((1, 2), 3)", "[[1, 2], 3]"),
    ("{1, 2,}", "[1, 2]"),
    ("{'a': 1, 'b': [1, 2,],}", '{"a": 1, "b": [1, 2]}'),
    ("{1: 2, None: 3, True: 4, 1.5: 5}", '{"1": 2, "null": 3, "true": 4, "1.5": 5}'),
    ("[+1, -2, .5, 5., 1e5, 007]", "[1, -2, 0.5, 5.0, 1e5, 7]"),
    (HUGE, HUGE),
    (f"[{HUGE}0]", None),
    ("'a\"b'", r'"a\"b"'),
    ('"it\'s"', '"it\'s"'),
    (r"'\'\"\\\n\d'", "\"'" + r'\"\\\n\\d"'),
    (r"'\x41\u00e9\U0001F600\101\0'", r'"A\u00e9\ud83d\ude00A\u0000"'),
    (r"'\ud83d\ude00'", r'"\ud83d\ude00"'),
    ("'a\\\nb'", '"ab"'),
    ("'''a'b''c\n'''", "\"a'b''c\\n\""),
    ('"""a"b"""', r'"a\"b"'),
    ("''", '""'),
    ("''''''", '""'),
    ("'é\u2028'", '"é\u2028"'),
    *(
        (text, None)
        for text in (
            *("", " ", "[", "]", "(]", "[1", "[1)", "[,]", "[1,,2]", "[1 2]", "1, 2", "1 2", "[1]]"),
            *("{1: 2, 3}", "{1, 2: 3}", "{1:}", "{:1}", "{1: 2: 3}", "[1: 2]", "{1: 2 3: 4}", "{,}"),
            *("{(1,): 2}", "{[]: 1}", "{1: 2, (): 3}", "{1: 2, (3, [4, 5]): 6}", "(,)", ":", ","),
            *(
                "x",
                "Nonesuch",
                "None1",
                "1None",
                "TRUE",
                "nan",
                "1e999",
                "[1e999]",
                "1j",
                "1_0",
                "0x1",
                "1.2.3",
                "-",
            ),
            *("'a", "'a\nb'", "'''a", "'a' 'b'", "b'a'", "f'a'", r"'\x4'", r"'\N{DASH}'", r"'\U00110000'"),
            *("__import__('os')", "[i for i in []]", "1+1", "{**{}}", "[*[]]", "# c", "1 # c"),
        )
    ),
]


@pytest.mark.parametrize(("text", "expected"), LITERALS, ids=_shown)
def test_python_literals_become_json(text: str, expected: str | None) -> None:
    assert python_to_json(text) == expected


def test_deep_python_literals_become_json() -> None:
    assert python_to_json(nest("[", "]", "")) == nest("[", "]", "")
    assert python_to_json(nest("({'a': ", "},)", "None", 10_000)) == nest('[{"a": ', "}]", "null", 10_000)
    assert python_to_json("[" * 100_000) is None


python_literals = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(python_literals)
def test_python_repr_becomes_json(value: object) -> None:
    text = python_to_json(repr(value))
    assert text is not None
    assert json.loads(text) == json.loads(json.dumps(value))


def expected_json(node: ast.expr) -> object:
    """Return Python's value as JSON; sets keep the order in which they are written."""
    if isinstance(node, ast.Dict):
        keys = [json.loads(json.dumps({ast.literal_eval(key): 0})) for key in node.keys if key]
        return {next(iter(key)): expected_json(value) for key, value in zip(keys, node.values, strict=True)}
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [expected_json(item) for item in node.elts]
    return ast.literal_eval(node)


PIECES = [*"[](){},:'\"\\ \nnd1", "'''", "None", "True", "1.5", "-1", "x41", "u0041", "41", "[]", "''"]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("{'''\\x41''':[1.5,{-1,},],}")
@pytest.mark.filterwarnings("ignore:.*invalid:Warning")  # Python keeps unknown escapes, but warns
def test_python_literals_agree_with_python(text: str) -> None:
    converted = python_to_json(text)
    if converted is not None:
        assert json.loads(converted) == expected_json(ast.parse(text.strip(), mode="eval").body)


@pytest.mark.parametrize("text", ["", "+", ".", "e5", "1e", "5 ", "\u0665", "1e999", "-.", "0x1"])
def test_number_to_json_refuses_invalid_numbers(text: str) -> None:
    assert number_to_json(text) is None


# -- laws

names = st.sampled_from(
    ["string", "integer", "number", "boolean", "null", "array", "object", "int", "ANY", "?", ""]
)
junk: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just([])
)
references = st.sampled_from(
    ["#", "#/", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/anyOf/0", "#/x~2", "%", "#/%zz"]
)
schemas = st.recursive(
    junk | st.fixed_dictionaries({"type": names}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": names | st.lists(names | junk, max_size=3) | junk,
            "enum": st.lists(junk, max_size=3) | junk,
            "const": junk,
            "nullable": junk,
            "$ref": references | junk,
            **{
                keyword: st.lists(inner, max_size=3) | inner
                for keyword in ("anyOf", "oneOf", "allOf", "prefixItems")
            },
            **{
                keyword: st.dictionaries(st.sampled_from("ab"), inner) | junk
                for keyword in ("properties", "$defs")
            },
            **dict.fromkeys(("items", "additionalProperties"), inner),
        },
    ),
    max_leaves=12,
)
texts = (
    st.text()
    | tokens
    | json_values.map(json.dumps)
    | python_literals.map(repr)
    | st.from_regex(r"\s?[+-]?[0-9]{1,4}(\.[0-9]{0,3})?([eE][+-]?[0-9]{1,4})?\s?", fullmatch=True)
    | st.sampled_from(
        ["null", "None", "TRUE", "False", "NaN", "-Infinity", "[NaN]", "{'a': 1e999}", HUGE, ""]
    )
)


@given(text=texts, schema=schemas, python_values=st.booleans())
@example(text="[1e999]", schema={"type": "array"}, python_values=True)
@example(text="['\ud800']", schema={"type": "array"}, python_values=True)
def test_coerced_value_satisfies_the_schema(text: str, schema: object, *, python_values: bool) -> None:
    kind = ValueType(schema)
    value, fits = coerce(text, kind, python_values)
    result = json.loads(value, parse_int=str, parse_constant=refuse)
    assert not infinite(result)
    json_kind = _values._json_kind(value)
    if fits and kind.types and json_kind == "number":
        assert kind.types & {"number", "integer"}
    elif fits and kind.types:
        assert json_kind in kind.types
    else:
        assert value == quote(text)


@given(schemas)
def test_members_of_any_schema_do_not_raise(schema: object) -> None:
    kind = ValueType(schema)
    for _ in range(5):
        assert kind.types <= EVERYTHING
        keys = kind.keys()
        for key in keys or ():
            kind.member(key)
        kind = kind.member("a") if kind.items(1).is_string else kind.items(1)


@given(texts)
def test_strings_are_verbatim(text: str) -> None:
    for kind in (of("string"), UNKNOWN):
        value, fits = coerce(text, kind, python_values=True)
        assert fits
        assert json.loads(value) == text


@given(st.integers(0, 10**40), st.sampled_from(["", "-"]), st.integers(0, 3))
def test_integers_are_exact(number: int, sign: str, zeros: int) -> None:
    for text in (f"{sign}{'0' * zeros}{number}", f" {sign}{number}.0\n"):
        assert coerce(text, of("integer"), python_values=False) == (f"{sign}{number}", True)


@given(st.text())
def test_quote_escapes_only_what_json_requires(text: str) -> None:
    assert json.loads(quote(text)) == text
    assert quote("é\U0001f600\u2028/") == '"é\U0001f600\u2028/"'


def test_documented_examples_hold() -> None:
    schema = json.loads(
        '{"properties": {"s": {"type": "string"}, "i": {"type": "integer"}, "f": {"type": "number"}, '
        '"b": {"type": "boolean"}, "n": {"type": ["string", "null"]}, "a": {"type": "array"}, '
        '"o": {"type": "object"}, "eo": {"type": "object"}, "u": {"type": "string"}}}'
    )
    tools = Tools([{"name": "set_all", "input_schema": schema}])
    written = {"s": "42", "i": "42", "f": "3.5", "b": "True", "n": "None", "a": "[1, 2]"}
    written |= {"o": "{'k': 'v', 'deep': {'x': [1]}}", "eo": "", "u": "héllo 世界 😀"}
    pairs = [
        f"{quote(key)}: {coerce(text, tools.value_type('set_all', key), python_values=True)[0]}"
        for key, text in written.items()
    ]
    assert ", ".join(pairs) == (
        '"s": "42", "i": 42, "f": 3.5, "b": true, "n": null, "a": [1, 2], '
        '"o": {"k": "v", "deep": {"x": [1]}}, "eo": {}, "u": "héllo 世界 😀"'
    )


# -- null and booleans that the text types

OPTIONAL = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {"type": "object", "properties": {"day": {"type": "string"}}},
        },
    }
]
TYPED_VALUES = {
    "kimi_k3": (
        '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="day" type="%t"'
        "<|sep|>%v<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
    ),
    **{
        name: (
            f'<{tag}{section}>\n<{tag}invoke name="f">\n<{tag}parameter name="day" string="false">'
            f"%v</{tag}parameter>\n</{tag}invoke>\n</{tag}{section}>"
        )
        for name, tag, section in (
            ("deepseek_v3_2", "｜DSML｜", "function_calls"),
            ("deepseek_v4", "｜DSML｜", "tool_calls"),
            ("deepseek_v41", "｜DSML｜ ", "calls"),
        )
    },
    "gemma4": "<|tool_call>call:f{day:%v}<tool_call|>",
    "functiongemma": "<start_function_call>call:f{day:%v}<end_function_call>",
    "hermes": '<tool_call>{"name": "f", "arguments": {"day": %v}}</tool_call>',
    "pythonic": "[f(day=%p)]",
}


@pytest.mark.parametrize(
    ("word", "kind"), [("null", "null"), ("true", "boolean"), ("false", "boolean")], ids=lambda word: word
)
@pytest.mark.parametrize("dialect", TYPED_VALUES)
def test_null_and_booleans_that_the_text_types_are_not_strings(dialect: str, word: str, kind: str) -> None:
    python = {"null": "None", "true": "True", "false": "False"}[word]
    text = TYPED_VALUES[dialect].replace("%v", word).replace("%p", python).replace("%t", kind)
    message = parse(text, dialect, tools=OPTIONAL)
    assert [call.arguments for call in message.tool_calls] == [f'{{"day": {word}}}']
    assert {note.kind for note in message.diagnostics} <= {"schema_mismatch"}


@pytest.mark.parametrize(("text", "value"), [("None", "null"), ("True", "true"), ("null", "null")])
def test_python_words_without_quotes_are_not_strings(text: str, value: str) -> None:
    message = parse(f"<|tool_call>call:f{{day:{text}}}<tool_call|>", "gemma4", tools=OPTIONAL)
    assert [call.arguments for call in message.tool_calls] == [f'{{"day": {value}}}']


@pytest.mark.parametrize("text", ["none", "Nonesuch", "5", "NULL", "true story"])
def test_other_words_without_quotes_follow_the_schema(text: str) -> None:
    message = parse(f"<|tool_call>call:f{{day:{text}}}<tool_call|>", "gemma4", tools=OPTIONAL)
    assert [call.arguments for call in message.tool_calls] == [f'{{"day": "{text}"}}']
