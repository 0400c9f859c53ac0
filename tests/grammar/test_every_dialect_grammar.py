"""Every dialect's grammar in the matchers of real engines.

Rendered output is accepted; an unknown tool and arguments of the wrong type are rejected.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Literal, TypeAlias

import pytest
from test_sampled_texts import WITH_CALLS

import unspool
from matchers import Llama, XGrammar, has_llama, has_xgrammar, needs_llama, needs_xgrammar
from unspool import Dialect, Message, ToolCall, UsageError
from unspool.dialects import Names
from unspool.grammar import Choice, Grammar, Start, grammar_for

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"type": "string", "enum": ["c", "f"]},
        "rain": {"type": "boolean"},
        "ratio": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {
            "type": "object",
            "properties": {"lat": {"type": "number"}, "name": {"type": "string"}},
            "required": ["lat"],
        },
        "note": {"type": ["string", "null"]},
    },
    "required": ["city", "days"],
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]
ALL = {
    "city": 'Zürich "x" <b>\n</b>',
    "days": 3,
    "unit": "c",
    "rain": True,
    "ratio": -1.5,
    "tags": ["a", "b c"],
    "where": {"lat": 2, "name": "x"},
    "note": None,
}
FEW = {"city": "Paris", "days": 0}
WRONG: dict[str, dict[str, Any]] = {
    "string for an integer": {"city": "Paris", "days": "three"},
    "number for an integer": {"city": "Paris", "days": 1.5},
    "not in the enum": {"city": "Paris", "days": 1, "unit": "k"},
    "string for a boolean": {"city": "Paris", "days": 1, "rain": "maybe"},
    "item of the wrong type": {"city": "Paris", "days": 1, "tags": [[1]]},
    "member of the wrong type": {"city": "Paris", "days": 1, "where": {"lat": "x"}},
    "member missing": {"city": "Paris", "days": 1, "where": {}},
    "parameter missing": {"city": "Paris"},
    "unknown parameter": {"city": "Paris", "days": 1, "extra": 1},
}

every_dialect = pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda dialect: dialect.name)


def render_calls(dialect: Dialect, *calls: tuple[str, dict[str, Any]], **text: str) -> str:
    """Render the calls as the model writes them."""
    made = [
        ToolCall(dialect.id_format.new(name, index), name, json.dumps(arguments, ensure_ascii=False))
        for index, (name, arguments) in enumerate(calls)
    ]
    out = unspool.render(Message(tool_calls=tuple(made), **text), dialect)  # type: ignore[arg-type]
    if dialect.name == "sarashina":  # the envelope is a Python literal
        out = out.replace(": true", ": True").replace(": null", ": None")
    return out


def has_reasoning(dialect: Dialect) -> bool:
    if dialect.frame is not None:
        return any(route.into == "reasoning" and route.header for route in dialect.frame.routes)
    return bool(dialect.reasoning)


Matcher: TypeAlias = Llama | XGrammar


def matchers(grammar: Grammar) -> tuple[Matcher, ...]:
    available: list[Matcher] = []
    if has_llama:
        available.append(Llama(grammar.gbnf()))
    if has_xgrammar:
        available.append(XGrammar.from_tag(grammar.structural_tag()))
    if not available:
        pytest.skip("neither xllamacpp nor xgrammar is installed")
    return tuple(available)


@cache
def standard_matchers(
    dialect: Dialect,
    choice: Literal["auto", "required", "now"],
    *,
    parallel: bool = True,
    reasoning: bool = True,
    start: Start = "message",
) -> tuple[Matcher, ...]:
    """Return matchers for the tools above."""
    wanted: Choice = {"name": "now"} if choice == "now" else choice
    return matchers(
        grammar_for(dialect, TOOLS, choice=wanted, parallel=parallel, reasoning=reasoning, start=start)
    )


def accepts(grammar: Grammar | tuple[Matcher, ...], *texts: str) -> None:
    for match in matchers(grammar) if isinstance(grammar, Grammar) else grammar:
        for text in texts:
            assert not match.explain(text)


def rejects(grammar: Grammar | tuple[Matcher, ...], *texts: str) -> None:
    for match in matchers(grammar) if isinstance(grammar, Grammar) else grammar:
        for text in texts:
            assert not match(text), text


# --- laws


@every_dialect
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_rendered_calls_are_accepted(dialect: Dialect, choice: Literal["auto", "required"]) -> None:
    texts = [
        render_calls(dialect, ("get_weather", ALL)),
        render_calls(dialect, ("get_weather", FEW)),
        render_calls(dialect, ("now", {})),
        render_calls(dialect, ("get_weather", FEW), ("now", {}), ("get_weather", ALL)),
    ]
    if has_reasoning(dialect):
        texts.append(render_calls(dialect, ("now", {}), reasoning="I wonder < what > to do."))
    if choice == "auto":
        texts.append(render_calls(dialect, content="Hello, [world] {of} <b>tags</b>."))
        if isinstance(dialect.section[0], str):
            texts.append(render_calls(dialect, ("now", {}), content="Let me see."))
    accepts(standard_matchers(dialect, choice), *texts)


@every_dialect
def test_misspelled_tool_is_rejected(dialect: Dialect) -> None:
    texts = [
        render_calls(dialect, (name, FEW)) for name in ("get_wether", "get_weather2", "get", "Get_weather")
    ]
    rejects(standard_matchers(dialect, "required"), *texts)
    rejects(standard_matchers(dialect, "auto"), *texts)


@every_dialect
def test_arguments_of_the_wrong_type_are_rejected(dialect: Dialect) -> None:
    texts = [render_calls(dialect, ("get_weather", arguments)) for arguments in WRONG.values()]
    rejects(standard_matchers(dialect, "required"), *texts)
    rejects(standard_matchers(dialect, "auto"), *texts)


@every_dialect
def test_required_choice_needs_a_call(dialect: Dialect) -> None:
    rejects(standard_matchers(dialect, "required"), "", "Hello.", render_calls(dialect, content="Hello."))


@every_dialect
def test_parallel_calls_follow_the_setting(dialect: Dialect) -> None:
    one, two = render_calls(dialect, ("now", {})), render_calls(dialect, ("now", {}), ("now", {}))
    single = standard_matchers(dialect, "required", parallel=False)
    accepts(single, one)
    rejects(single, two)
    named = standard_matchers(dialect, "now")
    accepts(named, one)
    rejects(named, two, render_calls(dialect, ("get_weather", FEW)))


@every_dialect
def test_reasoning_is_accepted_only_where_allowed(dialect: Dialect) -> None:
    if not has_reasoning(dialect):
        pytest.skip("the model does not reason")
    text = render_calls(dialect, ("now", {}), reasoning="Hm.")
    accepts(standard_matchers(dialect, "required"), text)
    rejects(standard_matchers(dialect, "required", reasoning=False), text)
    rest = text[text.index("Hm.") :]
    accepts(standard_matchers(dialect, "required", start="reasoning"), rest)
    accepts(standard_matchers(dialect, "auto", start="reasoning"), rest)
    rejects(standard_matchers(dialect, "required", start="reasoning"), render_calls(dialect, ("now", {})))


@needs_llama
@needs_xgrammar
@every_dialect
def test_xgrammar_accepts_our_gbnf(dialect: Dialect) -> None:
    match = XGrammar.from_gbnf(grammar_for(dialect, TOOLS, choice="required").gbnf())
    assert not match.explain(render_calls(dialect, ("get_weather", ALL), ("now", {})))
    assert not match(render_calls(dialect, ("get_weather", WRONG["parameter missing"])))


@every_dialect
def test_single_tool_is_accepted(dialect: Dialect) -> None:
    for choice in ("auto", "required"):
        grammar = grammar_for(dialect, TOOLS[:1], choice=choice)
        accepts(grammar, *(render_calls(dialect, *[("get_weather", ALL)] * count) for count in (1, 2)))
        rejects(grammar, render_calls(dialect, ("now", {})))


XGRAMMAR_MODELS = {
    "deepseek_v3": "deepseek_r1",
    "deepseek_v3_1": "deepseek_v3_1",
    "deepseek_v3_2": "deepseek_v3_2",
    "deepseek_v4": "deepseek_v4",
    "deepseek_v41": "deepseek_v4_1",
    "glm47": "glm_4_7",
    "hermes": "qwen_3",
    "kimi_k2": "kimi",
    "llama3_json": "llama",
    "minimax_m2": "minimax",
    "minimax_m3": "minimax_m3",
    "qwen3_coder": "qwen_3_coder",
}
"""Dialects for which xgrammar has a structural tag of its own."""


@needs_xgrammar
@pytest.mark.parametrize("name", XGRAMMAR_MODELS)
def test_rendered_reasoning_is_what_xgrammar_expects(name: str) -> None:
    dialect = unspool.get_dialect(name)
    white_space = dialect.writing.before_calls
    match = XGrammar.built_in(XGRAMMAR_MODELS[name], TOOLS)
    for calls in ([("get_weather", FEW)], [("get_weather", FEW), ("get_weather", {**FEW, "tags": ["a"]})]):
        text = render_calls(dialect, *calls)
        assert match(text) or not match.explain(white_space + text)


# --- grammar options


@pytest.mark.parametrize(
    "choice",
    [
        {"name": "now"},
        {"type": "function", "name": "now"},
        {"type": "function", "function": {"name": "now"}},
        {"type": "tool", "name": "now"},
    ],
)
def test_every_form_of_a_named_choice_is_accepted(choice: dict[str, Any]) -> None:
    expected = grammar_for("hermes", TOOLS, choice={"name": "now"})
    assert grammar_for("hermes", TOOLS, choice=choice).root == expected.root


def test_tools_may_have_the_messages_shape() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    tools: list[dict[str, Any]] = [{"name": "get_weather", "input_schema": WEATHER}, search]
    text = render_calls(unspool.get_dialect("hermes"), ("get_weather", FEW))
    accepts(grammar_for("hermes", tools, choice="required"), text)
    assert "web_search" not in grammar_for("hermes", tools).gbnf()


def test_non_strict_tool_takes_any_arguments() -> None:
    tools = [
        {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER, "strict": False}}
    ]
    for name in ("hermes", "qwen3_coder", "pythonic", "gemma4", "minimax_m3"):
        dialect = unspool.get_dialect(name)
        grammar = grammar_for(dialect, tools, choice="required")
        accepts(
            grammar,
            render_calls(dialect, ("get_weather", {"anything": "x"})),
            render_calls(dialect, ("get_weather", {})),
        )
        rejects(grammar, render_calls(dialect, ("get_wether", {})))


def test_tool_without_parameters_takes_none() -> None:
    for tool in ({"name": "now"}, {"name": "now", "parameters": None}, {"name": "now", "parameters": {}}):
        dialect = unspool.get_dialect("hermes")
        grammar = grammar_for(dialect, [tool], choice="required")
        accepts(grammar, render_calls(dialect, ("now", {})))
        rejects(grammar, render_calls(dialect, ("now", {"a": 1})))


def test_calls_and_reasoning_of_two_dialects_combine() -> None:
    grammar = grammar_for("llama3_json+deepseek_r1", TOOLS, choice="required")
    accepts(grammar, '<think>\nHm.\n</think>\n\n{"name": "now", "parameters": {}}')


def test_prompt_may_have_opened_content() -> None:
    dialect = unspool.get_dialect("kimi_k3")
    call = render_calls(dialect, ("now", {}))
    grammar = grammar_for(dialect, TOOLS, choice="required", start="content")
    accepts(grammar, "<|close|>response<|sep|>" + call, "Hm.<|close|>response<|sep|>" + call)
    rejects(grammar, call)
    # Kimi K3 writes an answer before its calls, even an empty one.
    accepts(
        grammar_for(dialect, TOOLS, choice="required"),
        "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|>" + call,
    )


def test_prompt_may_have_opened_a_message() -> None:
    call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}"
    harmony = unspool.get_dialect("harmony")
    answers = ("Hello.", "Hello.<|return|>")
    accepts(
        standard_matchers(harmony, "auto", start="content"), f"Hm.<|end|><|start|>assistant{call}", *answers
    )
    accepts(standard_matchers(harmony, "required", start="content"), f"Hm.<|end|><|start|>assistant{call}")
    rejects(standard_matchers(harmony, "required", start="content"), *answers)
    functionary = unspool.get_dialect("functionary_v32")
    accepts(standard_matchers(functionary, "required", start="content"), "Hm.>>>now\n{}")


def test_envelope_with_an_id_is_accepted() -> None:
    call = '{"tool_call_id": "0", "tool_name": "now", "parameters": {}}'
    grammar = grammar_for("cohere", TOOLS, choice="required")
    accepts(grammar, f"<|START_ACTION|>[\n    {call}\n]<|END_ACTION|>")


def test_union_of_string_and_array_is_accepted() -> None:
    schema = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"x": schema}, "required": ["x"]}}]
    for name in ("qwen3_coder", "glm47", "minicpm5"):
        dialect = unspool.get_dialect(name)
        grammar = grammar_for(dialect, tools, choice="required")
        accepts(grammar, *(render_calls(dialect, ("f", {"x": x})) for x in ("", "a [b]", ["a"], [])))
        # Such text would parse as a list with items of the wrong type.
        rejects(grammar, *(render_calls(dialect, ("f", {"x": x})) for x in ("[1]", " [1]", '{"a": 1}')))


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_alternatives_that_admit_nothing_are_left_out_between_tags(keyword: str) -> None:
    schema = {keyword: [{"type": "integer"}, False]}
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"x": schema}, "required": ["x"]}}]
    for name in ("qwen3_coder", "dots", "minimax_m3"):
        dialect = unspool.get_dialect(name)
        grammar = grammar_for(dialect, tools, choice="required")
        call = render_calls(dialect, ("f", {"x": 5}))
        accepts(grammar, call)
        rejects(grammar, call.replace("5", "five"))


def test_patterns_hold_between_tags() -> None:
    schema = {"type": "string", "pattern": "^[A-Z]{3}$"}
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"x": schema}, "required": ["x"]}}]
    dialect = unspool.get_dialect("qwen3_coder")
    grammar = grammar_for(dialect, tools, choice="required")
    accepts(grammar, render_calls(dialect, ("f", {"x": "ABC"})))
    rejects(grammar, render_calls(dialect, ("f", {"x": "abc"})))


def test_keys_that_are_not_python_identifiers_are_accepted() -> None:
    schema = {
        "type": "object",
        "properties": {"content-type": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["n"],
    }
    dialect = unspool.get_dialect("pythonic")
    grammar = grammar_for(dialect, [{"name": "f", "parameters": schema}], choice="required")
    accepts(
        grammar,
        render_calls(dialect, ("f", {"n": 1})),
        render_calls(dialect, ("f", {"content-type": "x", "n": 1})),
    )
    rejects(grammar, render_calls(dialect, ("f", {"content-type": "x"})))


def test_recursive_schema_is_accepted() -> None:
    tree = {
        "type": "object",
        "properties": {"sub": {"$ref": "#/$defs/T"}, "n": {"type": "integer"}},
        "required": ["n"],
    }
    tools = [{"name": "f", "parameters": {**tree, "$defs": {"T": tree}}}]
    deep = {"sub": {"sub": {"n": 1}, "n": 2}, "n": 3}
    for name in ("hermes", "pythonic", "qwen3_coder"):
        dialect = unspool.get_dialect(name)
        grammar = grammar_for(dialect, tools, choice="required")
        accepts(grammar, render_calls(dialect, ("f", deep)))
        rejects(grammar, render_calls(dialect, ("f", {"sub": {"sub": {}, "n": 2}, "n": 3})))


@pytest.mark.parametrize("types", [{}, {"type": ["object", "null"]}])
def test_schema_that_is_a_reference_is_followed(types: dict[str, Any]) -> None:
    target = {**types, "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tools = [{"name": "f", "parameters": {"$ref": "#/$defs/T", "$defs": {"T": target}}}]
    dialect = unspool.get_dialect("hermes")
    grammar = grammar_for(dialect, tools, choice="required")
    accepts(grammar, render_calls(dialect, ("f", {"n": 1})))
    rejects(grammar, render_calls(dialect, ("f", {"n": "x"})))
    rejects(grammar, render_calls(dialect, ("f", {})))


def test_names_are_escaped_where_the_dialect_does() -> None:
    dialect = unspool.get_dialect("kimi_k3")
    assert dialect.habits.unescape
    schema = {"type": "object", "properties": {"a&b": {"type": "string"}}}
    accepts(
        grammar_for(dialect, [{"name": "f", "parameters": schema}], choice="required"),
        render_calls(dialect, ("f", {"a&b": "x"})),
    )


# --- unsupported combinations


@pytest.mark.parametrize("name", ["kimi", "passthrough", "minimax_append_think"])
def test_dialect_without_calls_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="has no tool calls"):
        grammar_for(name, TOOLS, choice="required")


def test_tools_without_functions_are_refused() -> None:
    with pytest.raises(UsageError, match="tools contain no function"):
        grammar_for("hermes", [{"type": "web_search"}])


def test_invalid_choice_is_refused() -> None:
    for choice in ("none", 1, {"type": "function"}):
        with pytest.raises(UsageError, match='choice must be "auto"'):
            grammar_for("hermes", TOOLS, choice=choice)  # type: ignore[arg-type]


def test_choice_of_an_unoffered_tool_is_refused() -> None:
    with pytest.raises(UsageError, match="'later', which is not among the tools: get_weather, now"):
        grammar_for("hermes", TOOLS, choice={"name": "later"})


@pytest.mark.parametrize(
    ("name", "start"), [("llama3_json", "reasoning"), ("hermes", "content"), ("functionary_v32", "reasoning")]
)
def test_invalid_start_is_refused(name: str, start: Any) -> None:
    with pytest.raises(UsageError, match="so the prompt cannot have opened it"):
        grammar_for(name, TOOLS, start=start)


def test_unwritable_names_are_refused() -> None:
    for dialect in ("kimi_k2", "harmony"):
        with pytest.raises(UsageError, match="cannot write the tool name 'two words'"):
            grammar_for(dialect, [{"name": "two words"}])
    schema = {"type": "object", "properties": {"a>b": {"type": "string"}}}
    with pytest.raises(UsageError, match="cannot write the parameter name 'a>b'"):
        grammar_for("qwen3_coder", [{"name": "f", "parameters": schema}])


def test_recursive_schema_between_tags_is_refused() -> None:
    tree = {"type": "object", "properties": {"sub": {"$ref": "#/$defs/T"}}}
    with pytest.raises(UsageError, match="the definition T contains itself"):
        grammar_for("minimax_m3", [{"name": "f", "parameters": {**tree, "$defs": {"T": tree}}}])


def test_raw_code_is_refused() -> None:
    with pytest.raises(UsageError, match="raw code"):
        grammar_for(Dialect("coder", call=("<code name={name}>{code}</code>",)), TOOLS)


def test_dialect_with_one_function_accepts_only_it() -> None:
    dialect = Dialect("one", call=("<c>{args}</c>",), names=Names(fixed="now"))
    accepts(grammar_for(dialect, TOOLS, choice="required"), "<c>{}</c>")
    with pytest.raises(UsageError, match="can call only 'now'"):
        grammar_for(dialect, TOOLS[:1])
