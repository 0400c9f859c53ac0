"""Each policy has an effect in each dialect that it concerns.

``unspool.testing`` states the law and finds the outputs; these tests apply it to every dialect. Two
policies concern the wires and are tested there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any, get_args, get_type_hints

import pytest

from paths import ROOT
from unspool import (
    Dialect,
    MalformedOutput,
    Message,
    Parser,
    Policies,
    UsageError,
    get_dialect,
    list_dialects,
    parse,
    render,
)
from unspool.dialects import Habits
from unspool.testing import _parser_runs as readings
from unspool.testing import assert_policy
from unspool.testing._every_policy_has_effect_law import EFFECTS, SampleCall
from unspool.wire import ChatStream, WireChoice, WireOptions

NAMES = [dialect.name for dialect in list_dialects()]
CHOICES = {field.name: get_args(get_type_hints(Policies)[field.name]) for field in fields(Policies)}
each_dialect = pytest.mark.parametrize("name", NAMES)
each_policy = pytest.mark.parametrize("policy", EFFECTS)


@each_dialect
@each_policy
def test_every_policy_value_has_an_effect(policy: str, name: str) -> None:
    assert_policy(name, policy)


@each_policy
def test_policy_law_covers_many_dialects(policy: str) -> None:
    """Dialects without the feature of a policy are derived; there must not be many of them."""
    wordings = [wording for wording in map(SampleCall, list_dialects()) if wording.capabilities.calls]
    assert sum(map(EFFECTS[policy].applies, wordings)) > len(wordings) // 3


@pytest.mark.parametrize("policy", CHOICES)
def test_every_policy_value_is_covered(policy: str) -> None:
    assert set(EFFECTS[policy].predicates(SampleCall(get_dialect("hermes")))) == set(CHOICES[policy])


@each_policy
@pytest.mark.parametrize("name", ["cohere", "minimax_m3"])
def test_ignored_policy_is_detected(policy: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = assert_policy(name, policy)

    def deaf(*arguments: Any, policies: Policies, **options: Any) -> Parser:
        """Return a parser that ignores one policy."""
        kept = {field: getattr(policies, field) for field in CHOICES if field != policy}
        return Parser(*arguments, policies=Policies(**kept), **options)

    monkeypatch.setattr(readings, "Parser", deaf)
    if shown is None:
        assert assert_policy(name, policy) is None
        return
    with pytest.raises(AssertionError, match=f"policies: {policy}=.*has no effect") as caught:
        assert_policy(name, policy)
    assert name in str(caught.value)


# -- the options of the wire


def deltas(name: str, text: str, wire: WireChoice, **options: Any) -> Iterator[dict[str, Any]]:
    """Return the choices that a client receives."""
    parser = Parser(name, **options)
    for chunk in ChatStream(parser, options=wire).feed(parser.feed(text) + parser.finish()):
        choices: Any = chunk["choices"]
        yield choices[0]


@each_dialect
def test_reasoning_field_option_names_the_field(name: str) -> None:
    try:
        text = render(Message(reasoning="Hm.", content="Hi."), name)
    except UsageError:
        assert not SampleCall(get_dialect(name)).capabilities.reasoning
        return
    for value, names in {
        "both": {"reasoning", "reasoning_content"},
        "reasoning": {"reasoning"},
        "reasoning_content": {"reasoning_content"},
    }.items():
        sent = [choice["delta"] for choice in deltas(name, text, {"reasoning_field": value})]
        assert {key for delta in sent for key in delta if delta[key] == "Hm."} == names


@each_dialect
def test_forced_finish_reason_option_names_the_reason(name: str) -> None:
    wording = SampleCall(get_dialect(name))
    if not wording.capabilities.calls:
        pytest.skip("the dialect has no calls")
    encode = partial(deltas, name, wording.write())
    for value in ("tool_calls", "stop"):
        options = {"forced_finish_reason": value}
        assert [*encode(options, forced=True)][-1]["finish_reason"] == value
        assert [*encode(options)][-1]["finish_reason"] == "tool_calls"


def test_type_attribute_may_have_any_name() -> None:
    words = ("str", "num", "bool", "null", "list", "obj")
    dialect = Dialect(
        "typed",
        call=('<do what="{name}">{params}</do>',),
        param=('<v k="{key}" t="{type}">{value}</v>',),
        habits=Habits(type_words=words),
        request="hermes",
    )
    assert assert_policy(dialect, "schemaless_value") is not None


# -- presets of other engines

ENGINES = ("vllm", "sglang", "dynamo", "llamacpp", "ollama")
HEADINGS = {"vllm": "vLLM and SGLang", "sglang": "vLLM and SGLang", "llamacpp": "llama.cpp"}
PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("engine", ENGINES)
def test_docs_list_the_presets(engine: str) -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    heading = HEADINGS.get(engine, engine.capitalize())
    (section,) = (text for text in sections if text.startswith(heading))
    if engine in ("vllm", "sglang"):
        section = section.partition(f"<!-- /{engine} -->")[2].partition("<!-- sglang")[0]
    # Each section describes the preset first and gives advice after it; `dict(reversed(...))` keeps the
    # description.
    documented = dict(reversed(re.findall(r'`(\w+)="(\w+)"`', section.partition("What no policy gives")[0])))
    like = Policies.preset(engine)
    differing = {
        name: getattr(like, name) for name in CHOICES if getattr(like, name) != getattr(Policies(), name)
    }
    wire = WireOptions.preset(engine)
    differing |= {
        name: value for name, value in asdict(wire).items() if value != getattr(WireOptions(), name)
    }
    assert differing
    assert differing.items() <= documented.items()
    found = {**asdict(like), **asdict(wire)}
    assert all(found[name] == value for name, value in documented.items() if value not in ADVISED)


ADVISED = {"canonical", "error"}
"""Values that the page mentions beside the presets."""


def test_options_override_a_preset() -> None:
    assert Policies.preset("vllm", after_calls="text") == replace(Policies.preset("vllm"), after_calls="text")
    assert Policies.from_mapping({"preset": "vllm", "commit": "call"}).commit == "call"
    assert Policies.from_mapping({}) == Policies()


def test_unknown_presets_and_policies_are_refused() -> None:
    with pytest.raises(
        UsageError, match="preset='tgi': choose one of vllm, sglang, dynamo, llamacpp, ollama, strict"
    ):
        Policies.preset("tgi")
    with pytest.raises(UsageError, match=r"there is no policy 'colour': choose from .*after_calls"):
        Policies.preset("vllm", colour="red")
    with pytest.raises(UsageError, match="commit='red': choose one of name, call"):
        Policies.preset("vllm", commit="red")


def test_misspelt_policies_are_suggested() -> None:
    with pytest.raises(
        UsageError, match=r"'strict' is the name of a preset: use Policies.preset\('strict'\)"
    ):
        Policies("strict")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="there is no policy 'malformed': did you mean 'malformed_call'"):
        Policies(malformed="text")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="reasoning_field=both is not a policy of parsers, but an option of"):
        Policies(reasoning_field="both")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="no wire option 'reasoning': did you mean 'reasoning_field'"):
        WireOptions.from_mapping({"reasoning": "both"})


@pytest.mark.parametrize("choice", ["vllm", {"preset": "vllm"}, Policies.preset("vllm")], ids=repr)
def test_policies_may_be_named(choice: Any) -> None:
    assert Parser("hermes", policies=choice).policies == Policies.preset("vllm")


@pytest.mark.parametrize(
    ("arguments", "detail"),
    [
        ('{"n": 3, "s": "x"}', None),
        ('{"n": 3.0, "s": "x", "more": []}', None),
        ('{"n": "3", "s": "x"}', "f: argument 'n' is a string, expected an integer"),
        ('{"n": true, "s": "x"}', "f: argument 'n' is a boolean, expected an integer"),
        ('{"n": 3.5, "s": "x"}', "f: argument 'n' is a number, expected an integer"),
        ('{"n": 3}', "f: the required argument 's' is missing"),
        ('{"s": null}', "f: argument 's' is null, expected a string"),
    ],
)
def test_arguments_that_do_not_fit_are_reported(arguments: str, detail: str | None) -> None:
    properties = {"n": {"type": "integer"}, "s": {"type": "string"}}
    tools = [{"name": "f", "parameters": {"properties": properties, "required": ["s"]}}]
    text = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'
    message = parse(text, "hermes", tools=tools)
    assert [d.detail for d in message.diagnostics] == ([] if detail is None else [detail])
    assert [text[d.start : d.end] for d in message.diagnostics] == ([] if detail is None else [arguments])
    chunks = encode_strictly(text, tools)
    if detail is None:
        assert parse(text, "hermes", tools=tools, policies="strict").tool_calls[0].arguments == arguments
        assert "error" not in chunks[-1]
        return
    with pytest.raises(MalformedOutput, match=re.escape(detail)):
        parse(text, "hermes", tools=tools, policies="strict")
    assert detail in str(chunks[-1]["error"])


def test_undeclared_tools_are_reported() -> None:
    tools = [{"name": "g"}]
    text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    message = parse(text, "hermes", tools=tools)
    assert [(d.kind, d.detail) for d in message.diagnostics] == [("unknown_tool", "f")]
    assert message.tool_calls
    for harmless in (None, [], [{"name": "f"}]):
        assert parse(text, "hermes", tools=harmless).diagnostics == ()
    dropped = parse(text, "hermes", tools=tools, policies={"unknown_tool": "drop"})
    assert (dropped.content, dropped.tool_calls, dropped.finish_reason) == (None, (), "stop")
    assert [d.kind for d in dropped.diagnostics] == ["unknown_tool"]
    with pytest.raises(MalformedOutput, match="unknown tool"):
        parse(text, "hermes", tools=tools, policies="strict")
    assert "unknown tool" in str(encode_strictly(text, tools)[-1]["error"])


def encode_strictly(text: str, tools: list[dict[str, Any]]) -> list[Any]:
    parser = Parser("hermes", tools=tools, policies="strict")
    return ChatStream(parser).feed(parser.feed(text) + parser.finish())
