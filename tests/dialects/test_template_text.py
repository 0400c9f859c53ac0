"""Templates are text: only the names of placeholders between braces have a meaning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool import Dialect, Message, SpecError, ToolCall, parse, render
from unspool.dialects import Habits, Names, Opener, Section, Wrapper
from unspool.dialects.parse_templates import (
    PLACEHOLDERS,
    Literal,
    escaped,
    parse_template,
    source,
    surround,
    text_around,
)
from unspool.testing import check_dialect

CALL = Message(tool_calls=(ToolCall("", "get", '{"a": 1}'),))

LITERAL_MARKS = {
    "a section that begins with !": Dialect(
        "odd", section=("!tools\n{calls}\n!end",), call=("{name}{args}",), reasoning=()
    ),
    "reasoning that begins with ^": Dialect(
        "odd", reasoning=("^think^{text}^/think^",), call=("<c>{name}{args}</c>",)
    ),
    "a section that begins with ?": Dialect(
        "odd", section=("?[{calls}]",), call=("<c>{name}{args}</c>",), reasoning=()
    ),
    "reasoning that begins with ?": Dialect(
        "odd", reasoning=("?<t>{text}</t>",), call=("<c>{name}{args}</c>",)
    ),
    "content that begins with ^": Dialect(
        "odd", content=("^<t>{text}</t>",), call=("<c>{name}{args}</c>",), reasoning=()
    ),
    "a call that begins with ^": Dialect("odd", call=("^^{name}^{args}^^",), reasoning=()),
    "a dropped marker of marks": Dialect("odd", call=("<c>{name}{args}</c>",), drop=("!!!",), reasoning=()),
}


@pytest.mark.parametrize("kind", LITERAL_MARKS)
def test_marks_are_literal_text(kind: str) -> None:
    dialect = LITERAL_MARKS[kind]
    messages = [CALL, Message(content="Hi.", tool_calls=CALL.tool_calls)]
    if dialect.reasoning:
        messages.append(Message(reasoning="Hm.", content="Hi."))
    for message in messages:
        read = parse(render(message, dialect), dialect)
        assert (read.reasoning, read.content) == (message.reasoning, message.content)
        assert [(call.name, call.arguments) for call in read.tool_calls] == [
            (call.name, call.arguments) for call in message.tool_calls
        ]


@pytest.mark.parametrize("kind", [kind for kind in LITERAL_MARKS if kind != "a section that begins with ?"])
def test_dialects_with_literal_marks_obey_the_laws(kind: str) -> None:
    check_dialect(
        LITERAL_MARKS[kind], ["!tools\nget{}\n!end ^think^a^/think^ ?[x] <c>get{}</c>!!!"], examples=5
    )


def test_double_braces_write_the_name_of_a_placeholder() -> None:
    dialect = Dialect("odd", call=("{{name}}: {name} {{{args}}} {{args}}",), reasoning=())
    text = render(CALL, dialect)
    assert text == '{name}: get {{"a": 1}} {args}'
    assert [(call.name, call.arguments) for call in parse(text, dialect).tool_calls] == [("get", '{"a": 1}')]
    check_dialect(dialect, [text], examples=5)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{tool}", "{tool}"),
        ("{ name }", "{ name }"),
        ('{"name": 1}', '{"name": 1}'),
        ("{{name}}", "{name}"),
        ("{{tool}}", "{tool}"),
        ("{{args:python}}", "{args:python}"),
        ("{{{{name}}}}", "{{name}}"),
        ("{{name}", "{{name}"[:1] + "|name|"),
        ("{}", "{}"),
        ("{{}}", "{{}}"),
        (' key="{{name}}"', ' key="{name}"'),
        ("a{b}c{{d}", "a{b}c{{d}"),
    ],
)
def test_braces_in_templates(template: str, text: str) -> None:
    shown = "".join(
        piece.text if isinstance(piece, Literal) else f"|{piece.text[1:-1]}|"
        for piece in parse_template(template)
    )
    assert shown == text


@given(
    st.text('{}ab:_ \n"=') | st.lists(st.sampled_from(("{", "}", "name", "args:json", "x", " "))).map("".join)
)
def test_escaped_text_is_literal(text: str) -> None:
    assert source(parse_template(escaped(text))) == text
    assert not any(name in PLACEHOLDERS for name in _placeholders(escaped(text)))


def _placeholders(template: str) -> list[str]:
    return [getattr(piece, "field", "") for piece in parse_template(template)]


def test_escaped_text_may_contain_placeholders() -> None:
    template = escaped("{N} {name} N", {"N": "{name}"})
    assert template == "{{{name}}} {{name}} {name}"
    assert source(parse_template(template)) == "{{name}} {name} {name}"
    assert _placeholders(template) == ["", "name", "", "name"]


def test_surround_skips_escaped_placeholders() -> None:
    assert surround("{{args}} {args} {{{args}}}", "{args}", "<", ">") == "{{args}} <{args}> {{<{args}>}}"


def test_text_around_a_placeholder() -> None:
    assert text_around("{{text}}<a>{text}</a>", "text") == ("{text}<a>", "</a>")


def test_misspelt_placeholder_is_refused_with_its_escape() -> None:
    with pytest.raises(SpecError, match=r"did you mean \{name\}.*write \{\{nmae\}\}"):
        Dialect("odd", call=("<c {nmae}>{args}</c>",))
    escape = Dialect("odd", call=("<c {{nmae}} {name}>{args}</c>",))
    assert parse("<c {nmae} get>{}</c>", escape).tool_calls[0].name == "get"


def test_tolerated_spaces_stand_between_control_tokens_and_words() -> None:
    templates: dict[str, Any] = {
        "call": ("<|c|>call<|n|>{name}<|a|>{args}<|z|>call<|n|>",),
        "reasoning": ("<|t|>think{text}<|z|>think",),
    }
    text = "<|t|> thinkHm.<|z|> think<|c|> call <|n|>get<|a|>{}<|z|> call <|n|>"
    strict, tolerant = (
        Dialect("odd", **templates),
        Dialect("odd", habits=Habits(tolerates_spaces=True), **templates),
    )
    assert not parse(text, strict).tool_calls
    message = parse(text, tolerant)
    assert (message.reasoning, message.tool_calls[0].name) == ("Hm.", "get")
    assert render(message, tolerant) == text.replace("> ", ">").replace(" <", "<").replace(
        "think Hm", "thinkHm"
    )
    check_dialect(tolerant, [text], examples=5)


def test_places_where_a_template_is_accepted() -> None:
    start = Dialect("odd", section=(Section("[{calls}]", only_at_start=True),), call=("{name}{args}",))
    assert parse("[get{}]", start).tool_calls
    assert not parse("So: [get{}]", start).tool_calls
    declared = Dialect(
        "odd", section=(Section("{calls}", declared_only=True),), call=("<c>{name}</c>",), names=Names()
    )
    tools = [{"type": "function", "function": {"name": "get"}}]
    assert not parse("<c>get</c>", declared).tool_calls
    assert parse("<c>get</c>", declared, tools=tools).tool_calls
    wrapper = Dialect("odd", reasoning=(Wrapper("<t>{text}</t>", only_at_start=True),))
    assert parse("Hi.\n<t>Hm.</t>", wrapper).reasoning is None
    anywhere = Dialect("odd", reasoning=(Wrapper("<t>{text}</t>", mid_line=True),))
    assert parse("Hi. <t>Hm.</t>", anywhere).reasoning == "Hm."
    assert Opener(" to=", only_at_start=True).text == " to="
