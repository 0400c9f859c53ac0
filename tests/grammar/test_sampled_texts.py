"""Any text that a grammar allows parses back as calls that satisfy the schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

import unspool
from grammar_sampling import HARMLESS, Sampler
from matchers import Llama, XGrammar, has_llama, has_xgrammar
from unspool import Dialect, Message
from unspool.dialects.parse_templates import template_text, text_around
from unspool.grammar import Choice as ToolChoice
from unspool.grammar import Start, grammar_for

jsonschema = pytest.importorskip("jsonschema")

# --- tools

PLACE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "at": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        "inside": {"$ref": "#/$defs/Area"},
    },
    "required": ["name"],
    "additionalProperties": False,
}
AREA = {
    "type": "object",
    "properties": {"label": {"type": "string"}, "size": {"type": "integer", "minimum": 1, "maximum": 20}},
    "required": ["label"],
    "additionalProperties": False,
}
SEARCH = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 0},
        "ratio": {"type": "number"},
        "exact": {"type": "boolean"},
        "order": {"type": "string", "enum": ["up", "down", "as is"]},
        "level": {"enum": [1, 2.5, "high", None]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"$ref": "#/$defs/Place"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "kind": {"const": "search"},
    },
    "required": ["query", "exact"],
    "additionalProperties": False,
    "$defs": {"Place": PLACE, "Area": AREA},
}
OPTIONAL = {
    "type": "object",
    "properties": {"b": {"type": "string"}, "a": {"type": "integer"}, "c": {"type": ["boolean", "null"]}},
    "additionalProperties": False,
}
SCHEMAS: dict[str, Mapping[str, Any]] = {
    "search_places": SEARCH,
    "get_time": {"type": "object", "properties": {}},
    "all_optional": OPTIONAL,
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()
]

WITH_CALLS = [dialect for dialect in unspool.list_dialects() if dialect.call or dialect.frame is not None]


def check(message: Message, called: list[str], text: str) -> None:
    """Assert that the calls are the sampled ones, and that their arguments satisfy the schemas."""
    diagnostics = [diagnostic for diagnostic in message.diagnostics if diagnostic.kind not in HARMLESS]
    assert not diagnostics, text
    assert [call.name for call in message.tool_calls] == called, text
    for call in message.tool_calls:
        jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])


def prompt_for(dialect: Dialect, start: Start) -> str | None:
    """Return a prompt after which the output begins in the given state."""
    if start == "message":
        return None
    if dialect.frame is not None:
        route = next(route for route in dialect.frame.routes if route.into == start and route.header)
        return template_text(dialect.frame.open[0]) + route.header + dialect.frame.sep
    wrapper = dialect.reasoning[0] if start == "reasoning" else dialect.content[0]
    return text_around(wrapper, "text")[0]


def starts(dialect: Dialect) -> list[Start]:
    """Return the states in which an output may begin."""
    templates: dict[Start, object] = {"reasoning": dialect.reasoning, "content": dialect.content}
    if dialect.frame is not None:
        into = {route.into for route in dialect.frame.routes if route.header}
        templates = {"reasoning": "reasoning" in into, "content": "content" in into}
    return ["message", *(start for start, templates_ in templates.items() if templates_)]


def read_back(dialect: Dialect, choice: ToolChoice, start: Start, count: int, seed: int) -> list[str]:
    """Parse sampled texts back."""
    sampler = Sampler(dialect, grammar_for(dialect, TOOLS, choice=choice, start=start).root, seed)
    texts: list[str] = []
    for _ in range(count):
        texts.append(sampler.text())
        message = unspool.parse(texts[-1], dialect, tools=TOOLS, prompt=prompt_for(dialect, start))
        check(message, sampler.called, texts[-1])
        if choice != "auto":
            assert message.tool_calls, texts[-1]
            # A prompt that ends inside a framed message does not show the kind of the message.
            seeded = start == "content" or (start == "reasoning" and dialect.frame is not None)
            assert message.content is None or seeded, texts[-1]
    return texts


every_dialect = pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda dialect: dialect.name)


@every_dialect
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_sampled_text_parses_back(dialect: Dialect, choice: ToolChoice) -> None:
    read_back(dialect, choice, "message", count=12, seed=1)


@every_dialect
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_sampled_text_parses_back_after_a_prompt(dialect: Dialect, choice: ToolChoice) -> None:
    for start in starts(dialect)[1:]:
        read_back(dialect, choice, start, count=6, seed=2)


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"type": "string"}, {"format": "date"}]},
        {"type": "string"},
        {"const": "now"},
        {"enum": [1, 2]},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}},
        {"type": "no such type", "additionalProperties": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["hermes", "deepseek_v3_1", "xlam", "pythonic"])
def test_sampled_arguments_are_an_object_for_any_schema(name: str, schema: dict[str, Any]) -> None:
    dialect = unspool.get_dialect(name)
    tools = [{"name": "f", "parameters": schema}]
    sampler = Sampler(dialect, grammar_for(dialect, tools, choice="required").root, seed=1)
    for _ in range(10):
        text = sampler.text()
        message = unspool.parse(text, dialect, tools=tools)
        assert [call.name for call in message.tool_calls] == sampler.called, text


@pytest.mark.slow
@every_dialect
@pytest.mark.parametrize("choice", ["auto", "required", {"name": "search_places"}], ids=str)
def test_sampled_text_is_accepted_and_parses_back(dialect: Dialect, choice: ToolChoice) -> None:
    for start in starts(dialect):
        texts = read_back(dialect, choice, start, count=50, seed=3)
        grammar = grammar_for(dialect, TOOLS, choice=choice, start=start)
        matchers: list[Llama | XGrammar] = []
        if has_llama:
            matchers.append(Llama(grammar.gbnf()))
        if has_xgrammar:
            matchers += [XGrammar.from_gbnf(grammar.gbnf()), XGrammar.from_tag(grammar.structural_tag())]
        for match in matchers:
            for text in texts:
                assert not match.explain(text)
