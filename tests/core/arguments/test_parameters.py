"""Values and parameters inside calls, well-formed and with common mistakes of models."""

from __future__ import annotations

import json
import re
from typing import Literal

import pytest

from unspool import Dialect, Message, Policies, ToolCall, list_dialects, parse, render
from unspool.dialects.parse_templates import parse_template, split_at, template_text
from unspool.testing import ModelOutput, assert_laws, assert_round_trip, chunkings

# In a nested value, tags are the members of the value.
TAGGED = [
    dialect
    for dialect in list_dialects()
    if any("{params}" in call for call in dialect.call[:1]) and not dialect.habits.nested
]
each_tagged = pytest.mark.parametrize("dialect", TAGGED, ids=lambda dialect: dialect.name)
STRINGS = {"type": "object", "properties": {"text": {"type": "string"}, "more": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": STRINGS}} for name in ("note", "other")
]


def call(name: str, **arguments: object) -> Message:
    return Message(tool_calls=(ToolCall("call_1", name, json.dumps(arguments)),))


@each_tagged
def test_call_markup_in_a_value_is_data(dialect: Dialect) -> None:
    pending = render(call("note", text="x", more="y"), dialect) + "\n" + render(call("other"), dialect)
    for text in (pending, f"Write\n{pending}\nso."):
        message = call("note", text=text, more="z")
        written = assert_round_trip(dialect, message, TOOLS)
        assert_laws(dialect, ModelOutput(written, TOOLS), chunkings(written, splits=4, random=1))


ALL_TAGGED = [dialect for dialect in list_dialects() if any("{params}" in call for call in dialect.call[:1])]


SECTIONED = [
    dialect
    for dialect in ALL_TAGGED
    if len(template_text(dialect.section[0]).replace("{calls}", "").strip()) > 1
]


@pytest.mark.parametrize("dialect", ALL_TAGGED, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("gap", ["", "\n"])
@pytest.mark.parametrize("count", [2, 3])
def test_doubled_closing_tag_is_noise(dialect: Dialect, gap: str, count: int) -> None:
    written = render(call("note", text="x", more="y"), dialect)
    head, closer, tail = _around_closer(dialect, written, "y")
    text = head + gap.join([closer] * count) + gap + tail
    run = assert_laws(dialect, ModelOutput(text, TOOLS), chunkings(text, splits=6, random=1))
    assert run.message is not None
    assert [json.loads(each.arguments) for each in run.message.tool_calls] == [{"text": "x", "more": "y"}]
    assert {note.kind for note in run.message.diagnostics} == {"stray_closer"}


@pytest.mark.parametrize("dialect", TAGGED, ids=lambda dialect: dialect.name)
def test_closing_tag_after_its_opening_tag_in_a_value_is_data(dialect: Dialect) -> None:
    written = render(call("note", text="x", more="y"), dialect)
    head, closer, tail = _around_closer(dialect, written, "y")
    opening = _around_closer(dialect, render(call("note", text="z"), dialect), "z")[0]
    quoted = opening[opening.index(_opening_literal(dialect)) :]
    text = head + quoted + closer + closer + tail
    run = assert_laws(dialect, ModelOutput(text, TOOLS), chunkings(text, splits=6, random=1))
    assert run.message is not None
    assert [json.loads(each.arguments)["more"] for each in run.message.tool_calls] == [
        "y" + (quoted + closer).rstrip("\n")
    ]


REQUIRED = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {**STRINGS, "required": ["text", "more"]}},
    }
    for name in ("note", "other")
]


def _openers(dialect: Dialect) -> list[str]:
    """Return the opening markers of sections and calls that no call follows."""
    templates = (*map(template_text, dialect.section), dialect.call[0])
    found = [re.split(r"\{\w+\}", template)[0].strip() for template in templates]
    return [opener for opener in dict.fromkeys(found) if len(opener) > 1]


@pytest.mark.parametrize("dialect", ALL_TAGGED, ids=lambda dialect: dialect.name)
def test_closing_tag_before_an_opener_without_a_call_is_data(dialect: Dialect) -> None:
    written = render(call("note", text="x", more="y"), dialect)
    head, closer, tail = _around_closer(dialect, written, "x", "text")
    for opener in _openers(dialect):
        text = f"{head}{closer} {opener} x{closer}{tail}"
        run = assert_laws(dialect, ModelOutput(text, TOOLS), chunkings(text, splits=6, random=1))
        assert run.message is not None
        assert [json.loads(each.arguments) for each in run.message.tool_calls] == [
            {"text": f"x{closer} {opener} x", "more": "y"}
        ]


@pytest.mark.parametrize("dialect", SECTIONED, ids=lambda dialect: dialect.name)
def test_closing_tags_in_a_value_do_not_end_a_call_that_lacks_a_required_argument(dialect: Dialect) -> None:
    written = render(call("note", text="x", more="y"), dialect)
    head, closer, tail = _around_closer(dialect, written, "x", "text")
    call_closer = re.split(r"\{\w+\}", dialect.call[0])[-1].strip().partition("\n")[0]
    text = f"{head}{closer}\n{call_closer} x{closer}{tail}"
    run = assert_laws(dialect, ModelOutput(text, REQUIRED), chunkings(text, splits=6, random=1))
    assert run.message is not None
    assert [json.loads(each.arguments) for each in run.message.tool_calls] == [
        {"text": f"x{closer}\n{call_closer} x", "more": "y"}
    ]


@pytest.mark.parametrize("dialect", ALL_TAGGED, ids=lambda dialect: dialect.name)
def test_call_that_lacks_a_required_argument_ends_where_it_is_closed(dialect: Dialect) -> None:
    for calls in (1, 2):
        one = call("note", text="x").tool_calls[0]
        text = render(Message(tool_calls=(one,) * calls), dialect, check=False) + "\nDone."
        run = assert_laws(dialect, ModelOutput(text, REQUIRED), chunkings(text, splits=6, random=1))
        assert run.message is not None
        assert [json.loads(each.arguments) for each in run.message.tool_calls] == [{"text": "x"}] * calls
        assert (run.message.content or "").strip() == "Done."


@pytest.mark.parametrize("dialect", SECTIONED, ids=lambda dialect: dialect.name)
def test_unclosed_call_in_a_value_ends_with_the_section(dialect: Dialect) -> None:
    if dialect.habits.nested or dialect.frame is not None:
        pytest.skip("nested values have no quoted calls, and a message ends with its section")
    written = render(call("note", text="QUOTE"), dialect)
    quoted = render(call("other", text="QUOTE"), dialect)
    inner = quoted[quoted.index(_opening_literal_of_call(dialect)) : quoted.index("QUOTE")] + "z"
    text = "\n".join([written.replace("QUOTE", f"A {inner}"), written, written])
    run = assert_laws(dialect, ModelOutput(text, TOOLS), chunkings(text, splits=6, random=1))
    assert run.message is not None
    assert [json.loads(each.arguments)["text"] for each in run.message.tool_calls] == [
        f"A {inner}",
        "QUOTE",
        "QUOTE",
    ]
    assert [note.kind for note in run.message.diagnostics] == ["slip"]


def _opening_literal_of_call(dialect: Dialect) -> str:
    return parse_template(dialect.call[0])[0].text.lstrip()


NESTED = [dialect for dialect in ALL_TAGGED if dialect.habits.nested]


@pytest.mark.parametrize("dialect", NESTED, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("value", ["x", ""])
def test_nested_value_without_closing_tag_ends_at_the_next_parameter(dialect: Dialect, value: str) -> None:
    written = render(call("note", text="x", more="y"), dialect)
    head, _, tail = _around_closer(dialect, written, "x", "text")
    text = head.removesuffix("x") + value + tail
    run = assert_laws(dialect, ModelOutput(text, TOOLS), chunkings(text, splits=6, random=1))
    assert run.message is not None
    assert [json.loads(each.arguments) for each in run.message.tool_calls] == [{"text": value, "more": "y"}]
    assert [(note.kind, note.detail) for note in run.message.diagnostics] == [
        ("slip", "the closing tag of text is missing")
    ]
    # Without a schema, the tag may as well be part of the text; then it is noted.
    if value:
        assert [note.kind for note in parse(text, dialect).diagnostics] == ["slip"]


def _around_closer(dialect: Dialect, written: str, value: str, key: str = "more") -> tuple[str, str, str]:
    """Return the text up to the end of a value, the closing tag, and the rest."""
    _, _, pieces = split_at(parse_template(dialect.param[0]), "value")
    closer = "".join(piece.text for piece in pieces).strip().replace("{key}", key)
    first = re.search(rf"\b{value}\b(?=\s*{re.escape(closer)})", written)
    assert first is not None
    end = first.end()
    at = written.index(closer, end)
    return written[:end], closer, written[at + len(closer) :]


def _opening_literal(dialect: Dialect) -> str:
    return parse_template(dialect.param[0])[0].text.lstrip()


@pytest.mark.parametrize(
    ("envelope", "key"),
    [
        ('{"name": "note", "arguments": {"text": "x"}, "dry": true}', "dry"),
        ('{"dry": true, "name": "note", "arguments": {"text": "x"}}', "dry"),
        ('{"name": "note", "arguments": {"text": "x"}, "arguments": {}}', "arguments"),
        ('{"type": "function", "name": "note", "arguments": {"text": "x"}}', None),
    ],
)
def test_envelope_members_do_not_vanish_without_a_diagnostic(envelope: str, key: str | None) -> None:
    message = parse(f"<tool_call>{envelope}</tool_call>", "hermes", tools=TOOLS)
    assert [call.arguments for call in message.tool_calls] == ['{"text": "x"}']
    assert [(diagnostic.kind, diagnostic.detail) for diagnostic in message.diagnostics] == (
        [("extra_member", key)] if key else []
    )


ENVELOPES = [
    dialect
    for dialect in list_dialects()
    if "{envelope}" in "".join(dialect.call[:1]) and not dialect.envelope.keyed
]


@pytest.mark.parametrize("dialect", ENVELOPES, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("keys", ["arguments", "parameters"])
@pytest.mark.parametrize("type_", ["", '"type": "function", '])
def test_envelope_in_a_function_member_keeps_its_arguments(dialect: Dialect, keys: str, type_: str) -> None:
    plain = _envelope_text(dialect, "note")
    name = dialect.envelope.name_keys[0]
    nested = f'{{{type_}"function": {{"{name}": "note", "{keys}": {{"text": "x"}}}}}}'
    text = plain.replace(ENVELOPE.search(plain)[0], nested)  # type: ignore[index]
    assert nested in text
    run = assert_laws(dialect, ModelOutput(text, TOOLS), chunkings(text, splits=4, random=1))
    assert run.message is not None
    assert [(call.name, call.arguments) for call in run.message.tool_calls] == [("note", '{"text": "x"}')]


@pytest.mark.parametrize("dialect", ENVELOPES, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("policy", ["text", "repair"])
def test_envelope_without_its_arguments_is_not_a_complete_call(
    dialect: Dialect, policy: Literal["text", "repair"]
) -> None:
    plain = _envelope_text(dialect, "note")
    name = dialect.envelope.name_keys[0]
    for member in ('"args_of_it": {"text": "x"}', '"deeper": {"more": {"text": "x"}}'):
        for members in (f'"{name}": "note", {member}', f'{member}, "{name}": "note"'):
            text = plain.replace(ENVELOPE.search(plain)[0], f"{{{members}}}")  # type: ignore[index]
            policies = Policies(malformed_call=policy)
            output = ModelOutput(text, TOOLS, policies=policies)
            run = assert_laws(dialect, output, chunkings(text, splits=4, random=1))
            assert run.message is not None
            assert not run.message.tool_calls


def _envelope_text(dialect: Dialect, name: str) -> str:
    ids = "abcdefghi"
    return render(Message(tool_calls=(ToolCall(ids, name, '{"text": "x"}'),)), dialect, check=False)


ENVELOPE = re.compile(r"\{[^{}]*\{[^{}]*\}[^{}]*\}")


@pytest.mark.parametrize("dialect", ["generic_json", "llama3_json"])
def test_declaration_of_a_tool_is_not_a_call_of_another_tool(dialect: str) -> None:
    text = '{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}'
    assert parse(text, dialect, tools=TOOLS).content == text
    assert parse(text.replace('"f"', '"note"'), dialect, tools=TOOLS).tool_calls
    assert parse(text, dialect).tool_calls


@pytest.mark.parametrize("extra", ['"dry": true', '"meta": {}', '"meta": "x"'])
def test_envelope_without_arguments_is_complete_if_no_member_could_hold_them(extra: str) -> None:
    message = parse(f'<tool_call>{{"name": "note", {extra}}}</tool_call>', "hermes")
    assert [call.arguments for call in message.tool_calls] == ["{}"]


@pytest.mark.parametrize(
    ("dialect", "text", "detail"),
    [
        (
            "glm45",
            "<tool_call>note\n<arg_key>text</arg_key>x</arg_value>\n</tool_call>",
            "<arg_value> is missing",
        ),
        (
            "glm47",
            r"<tool_call>note<arg_key>text</arg_key>\n<arg_value>x</arg_value></tool_call>",
            r"\n spelled out between tags",
        ),
        (
            "minicpm5",
            '<function name="note"><param name="arguments">{"text": "x"}</param></function>',
            "arguments holds all arguments",
        ),
    ],
)
def test_slip_is_noted(dialect: str, text: str, detail: str) -> None:
    message = parse(text, dialect, tools=TOOLS)
    assert [call.arguments for call in message.tool_calls] == ['{"text": "x"}']
    assert [(diagnostic.kind, diagnostic.detail) for diagnostic in message.diagnostics] == [("slip", detail)]


@pytest.mark.parametrize(
    ("head", "value", "expected"),
    [
        ("<function=note>", "\nline\n", "\nline\n"),
        ("<function=note> ", "\nline", "\nline"),
        ("<function=note>\n", "\nline\n", "line"),
        ("<function=note>\n", "line", "line"),
        ("<function=note>", "line", "line"),
    ],
)
def test_compact_call_keeps_the_newlines_of_its_values(head: str, value: str, expected: str) -> None:
    params = f"<parameter=text>{value}</parameter><parameter=more>x</parameter>"
    text = f"<tool_call>{head}{params}</function></tool_call>"
    run = assert_laws("mimo", ModelOutput(text, TOOLS), chunkings(text, splits=40, random=1))
    assert run.message is not None
    assert [json.loads(each.arguments) for each in run.message.tool_calls] == [
        {"text": expected, "more": "x"}
    ]
