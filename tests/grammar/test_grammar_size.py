"""Very large schemas: a grammar, a plan, or a call has linear cost, or is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from unspool import Message, ToolCall, UsageError, parse, plan, render
from unspool._core.scan.character_runs import COMPILED
from unspool.grammar import GrammarTooLarge, grammar_for, guided_schema
from unspool.testing._linear_time_law import assert_linear

Schema = dict[str, Any]
KINDS = ("hermes", "qwen3_coder", "minimax_m3", "gemma4", "pythonic", "harmony")
TEXT: Schema = {"type": "string"}
counted = pytest.mark.skipif(COMPILED, reason="the lines of a compiled module are not seen")


def tool(schema: Mapping[str, Any], name: str = "f") -> Schema:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def members(count: int, every: int = 0, **more: Any) -> Schema:
    """Return an object schema in which every second, every third or no property is required."""
    names = [f"p{number}" for number in range(count)]
    needed = [name for number, name in enumerate(names) if every and number % every == 0]
    return {"type": "object", "properties": dict.fromkeys(names, TEXT), "required": needed, **more}


def member(schema: Mapping[str, Any], **more: Any) -> Schema:
    return {"type": "object", "properties": {"a": schema}, **more}


def matching(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


def definitions(count: int, body: Callable[[Schema], Schema]) -> Schema:
    """Return a chain of definitions, each made of the next one."""
    made = {f"d{n}": body({"$ref": f"#/$defs/d{n + 1}"}) for n in range(count)}
    return member({"$ref": "#/$defs/d0"}, **{"$defs": {**made, f"d{count}": members(1)}})


def nested_schema(count: int) -> Schema:
    schema = TEXT
    for _ in range(count):
        schema = member(schema)
    return schema


GROWING: dict[str, Callable[[int], list[Schema]]] = {
    "optional": lambda size: [tool(members(size))],
    "required": lambda size: [tool(members(size, 1))],
    "some required, and others": lambda size: [tool(members(size, 3, additionalProperties=True))],
    "an enum": lambda size: [tool(member({"enum": [f"v{n}" for n in range(size)]}))],
    "a constant": lambda size: [tool(member({"const": list(range(size))}))],
    "tools": lambda size: [tool(members(2, 1), f"f{number}") for number in range(size)],
    "alternatives": lambda size: [tool(member({"anyOf": [members(1)] * size}))],
    "parts": lambda size: [tool({"allOf": [{"properties": {f"p{n}": TEXT}} for n in range(size)]})],
    "references": lambda size: [tool(definitions(size, lambda _: members(1)))],
    "items": lambda size: [tool(member({"type": "array", "prefixItems": [TEXT] * size}))],
    "a set": lambda size: [tool(member(matching(f"^[{''.join(chr(256 + 2 * n) for n in range(size))}]$")))],
    "words": lambda size: [tool(member(matching(f"^({'|'.join(f'x{n}' for n in range(size))})$")))],
    "a long name": lambda size: [tool({"properties": {"a" * size: TEXT}, "additionalProperties": True})],
}  # fmt: skip


def every_form(dialect: str, tools: list[Schema]) -> None:
    grammar = grammar_for(dialect, tools, choice="required")
    grammar.gbnf()
    grammar.structural_tag()
    guided_schema(tools)


@counted
@pytest.mark.parametrize("dialect", ["hermes", "minimax_m3", "pythonic"])
@pytest.mark.parametrize("what", GROWING)
def test_grammar_cost_is_linear_in_the_schema(dialect: str, what: str) -> None:
    """The grammar of optional properties was cubic, that of an enum and of many tools quadratic."""
    # A small cost per tool is visible only with many tools.
    assert_linear(lambda size: every_form(dialect, GROWING[what](size)), 150 if what == "an enum" else 12)


@counted
@pytest.mark.parametrize("what", ["optional", "an enum", "tools"])
def test_plan_cost_is_linear_in_the_request(what: str) -> None:
    def decide(size: int) -> None:
        request = {"messages": [{"role": "user", "content": "Hi"}], "tools": GROWING[what](size)}
        plan("hermes", {**request, "tool_choice": "required"}).parser().feed("Hi")

    assert_linear(decide, 50)


@counted
@pytest.mark.parametrize("dialect", ["hermes", "qwen3_coder", "minimax_m3", "pythonic"])
@pytest.mark.parametrize("what", GROWING)
def test_parse_and_render_cost_is_linear_in_schema_and_call(dialect: str, what: str) -> None:
    """A call with a value for each property, or for the last alternative, typed by the schemas."""

    def there_and_back(size: int) -> None:
        tools = GROWING[what](size)
        function = tools[-1]["function"]
        properties = function["parameters"].get("properties", {})
        arguments = {name: str(number) for number, name in enumerate(properties)}
        call = ToolCall("call_1", function["name"], json.dumps(arguments))
        text = render(Message(tool_calls=(call,)), dialect)
        assert parse(text, dialect, tools=tools).tool_calls

    assert_linear(there_and_back, 150 if what == "an enum" else 40)


@pytest.mark.parametrize("dialect", KINDS)
def test_reference_chains_may_have_any_length(dialect: str) -> None:
    tools = [tool(definitions(400, member))]
    if dialect == "minimax_m3":  # this dialect nests the tags
        with pytest.raises(UsageError, match="more than 50 levels deep"):
            every_form(dialect, tools)
    else:
        every_form(dialect, tools)


@pytest.mark.parametrize("dialect", KINDS)
def test_nested_schema_is_written_or_refused(dialect: str) -> None:
    every_form(dialect, [tool(nested_schema(49))])
    for levels in (300, 20_000):
        with pytest.raises(UsageError, match="more than 100 levels deep"):
            every_form(dialect, [tool(nested_schema(levels))])


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("dialect", KINDS)
def test_double_references_do_not_grow_exponentially(
    dialect: str, keyword: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty definitions that each use the next one twice must not grow exponentially."""
    monkeypatch.setattr("unspool.grammar._size_limit.LARGEST", 20_000)  # a low limit makes the test fast
    tools = [tool(definitions(40, lambda other: {"type": "object", keyword: [other, other]}))]
    try:
        every_form(dialect, tools)
    except GrammarTooLarge as error:
        assert keyword != "allOf", "two equal members of allOf must not grow the grammar"
        assert "offer fewer tools" in str(error)  # noqa: PT017


@pytest.mark.parametrize("dialect", KINDS)
def test_recursive_definition_with_constraints_is_accepted(dialect: str) -> None:
    inside = {"$ref": "#/$defs/P", "type": "object", "title": "x"}
    node = {"type": "object", "properties": {"next": inside}}
    tools = [tool({"type": "object", "properties": {"p": inside}, "$defs": {"P": node}})]
    if dialect == "minimax_m3":  # nested tags have no limit of depth
        with pytest.raises(UsageError, match="contains itself"):
            every_form(dialect, tools)
    else:
        every_form(dialect, tools)


def test_oversized_patterns_are_not_enforced() -> None:
    plain = grammar_for("hermes", [tool(member(TEXT))], choice="required").gbnf()
    for pattern in ("(" * 3000 + "a" + ")" * 3000, "((a{200}){200}){200}", "^(((a|b){250}c){250})$"):
        schema = member(matching(pattern))
        assert grammar_for("hermes", [tool(schema)], choice="required").gbnf() == plain


def test_bounds_beyond_doubles_apply_to_integers() -> None:
    schema = member({"type": "integer", "minimum": -(10**400), "maximum": 10**400})
    assert '"-"' in grammar_for("hermes", [tool(schema)], choice="required").gbnf()


def test_counts_beyond_engine_limits_are_unbounded() -> None:
    schema = member({"type": "array", "items": TEXT, "minItems": 10**9})
    assert "{256,}" in grammar_for("minimax_m3", [tool(schema)], choice="required").gbnf()
