"""Rendering verifies itself: written text parses back, or an error names what does not."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_corpus import case_of, dialect_of

import corpus_cases
from standard_scenarios import callers
from unspool import Dialect, Message, ToolCall, UsageError, get_dialect, list_dialects, parse, render
from unspool.conformance.scenarios.dialect_capabilities import Capabilities
from unspool.dialects.parse_templates import only_at_start
from unspool.events import Channel
from unspool.message import Part, TextPart
from unspool.templates import ChatTemplate, normalise_history
from unspool.testing import markers, run_parser

NAMES = [dialect.name for dialect in list_dialects()]
CHANNELS: tuple[Channel, ...] = ("content", "reasoning")
each_dialect = pytest.mark.parametrize("name", NAMES)


def shape(parts: tuple[Part, ...]) -> list[tuple[str, str]]:
    """Return calls by name and texts by channel in order, ignoring whitespace and how texts are split."""
    shapes: list[tuple[str, str]] = []
    for part in parts:
        kind = part.channel if isinstance(part, TextPart) else "call"
        text = "".join(part.text.split()) if isinstance(part, TextPart) else part.name
        if kind != "call" and shapes and shapes[-1][0] == kind:
            text = shapes.pop()[1] + text
        if text:
            shapes.append((kind, text))
    return shapes


def assert_proved(name: str, *parts: Part) -> None:
    """Assert that ``render`` refuses exactly what does not parse back."""
    message = Message(parts=parts)
    try:
        text = render(message, name, check=False)
    except UsageError:
        return  # the dialect cannot express this message
    tools = [{"name": part.name} for part in parts if isinstance(part, ToolCall)]
    comes_back = shape(parse(text, name, tools=tools or None).parts) == shape(parts)
    if comes_back:
        assert render(message, name) == text
    else:
        with pytest.raises(UsageError, match="cannot express this message"):
            render(message, name)


@pytest.mark.parametrize("name", [dialect.name for dialect in callers()])
def test_calls_are_written_like_the_model(name: str) -> None:
    """The corpus has the exact text: parsing back alone would accept a format that no model writes."""
    most = 1 if "parallel" in Capabilities(get_dialect(name)).missing else 2
    written = []
    for vector in corpus_cases.load():
        dialect = dialect_of(vector)
        if dialect is None or dialect.name != name or len(vector.calls) < most or vector.policies:
            continue
        message = run_parser(dialect, case_of(vector, dialect)).message
        assert message is not None
        if not message.diagnostics:
            written.append(
                strip_end(vector.raw, dialect) == strip_end(render(message, dialect, check=False), dialect)
            )
    assert any(written), f"render reproduces none of {len(written)} examples of the corpus exactly"


def strip_end(text: str, dialect: Dialect) -> str:
    """Return the text without surrounding whitespace and without the end-of-turn marker."""
    for stop in dialect.stop:
        text = text.removesuffix(stop)
    return text.strip()


def make_call(name: str) -> ToolCall:
    spec = get_dialect(name)
    code = any("{code}" in template for template in spec.call[:1])
    function = spec.names.fixed or "now"
    return ToolCall(spec.id_format.new(function, 0), function, '{"code": "1"}' if code else "{}")


@each_dialect
def test_parts_keep_their_order(name: str) -> None:
    parts: list[Part] = [TextPart("reasoning", "Hm."), TextPart("content", "Let me see."), make_call(name)]
    for length in (1, 2, 3):
        for chosen in permutations(parts, length):
            assert_proved(name, *chosen)


@each_dialect
def test_markers_in_prose_are_written_or_refused(name: str) -> None:
    for marker in markers(get_dialect(name)):
        for text in (f"Write {marker} there.", f"{marker}now", marker):
            for channel in CHANNELS:
                assert_proved(name, TextPart(channel, text))
                assert_proved(name, TextPart(channel, text), make_call(name))


@each_dialect
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_call_in_prose_is_refused(name: str, data: st.DataObject) -> None:
    """Prose that quotes a whole call, or a part of one."""
    try:
        whole = render(Message(tool_calls=(make_call(name),)), name, check=False)
    except UsageError:
        return
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    before = data.draw(st.sampled_from(("", "So: ", "`", "\n")))
    assert_proved(name, TextPart("content", before + whole[start:end]))


CALL = ToolCall("", "f", '{"a": 1}')


@pytest.mark.parametrize("name", ["xlam", "generic_json", "llama3_json", "watt"])
def test_text_before_a_call_is_refused_where_calls_come_first(name: str) -> None:
    message = Message(content="Let me see.", tool_calls=(CALL,))
    with pytest.raises(UsageError, match=f"'{name}' cannot express .* part 1, a call of 'f' .* check=False"):
        render(message, name)
    assert render(message, name, check=False).startswith("Let me see.")


def test_marker_in_prose_makes_no_call() -> None:
    message = Message(content='Never write [TOOL_CALLS]rm{"path": "/"} here.')
    with pytest.raises(UsageError, match="part 0, content 'Never write"):
        render(message, "mistral")
    assert parse(render(message, "mistral", check=False), "mistral").tool_calls[0].name == "rm"


def test_alias_markers_in_prose_are_refused() -> None:
    message = Message(content='Never write. [TOOL_CALLS]rm{"path": "/"}')
    with pytest.raises(UsageError, match="is read as content 'Never write"):
        render(message, "mistral")


@pytest.mark.parametrize(
    "arguments",
    ['{"a": 5, "b": "5", "c": null, "d": "null", "e": [1.0, 1], "f": {"g": true}}', "{}", "", " "],
)
@each_dialect
def test_typed_values_are_not_refused(name: str, arguments: str) -> None:
    """Without a schema a tagged number is a string; verification knows the intended type."""
    call = make_call(name)
    if call.arguments != "{}" or not get_dialect(name).call:
        return
    render(Message(tool_calls=(ToolCall(call.id, call.name, arguments),)), name)


def test_malformed_arguments_are_refused() -> None:
    message = Message(tool_calls=(ToolCall("", "f", '{"a": '),))
    with pytest.raises(UsageError, match="part 0, a call of 'f'"):
        render(message, "hermes")
    assert '{"a":' in render(message, "hermes", check=False)


def test_ids_that_cannot_round_trip_are_refused() -> None:
    twice = ToolCall("abc", "f", "{}")
    with pytest.raises(UsageError, match=r"part 1, a call of 'f' .* is read with the id"):
        render(Message(tool_calls=(twice, twice)), "solar_open")
    with pytest.raises(UsageError, match=r"part 0, .* has no id"):
        render(Message(tool_calls=(CALL,)), "solar_open")
    render(Message(tool_calls=(twice,)), "solar_open")


def test_whitespace_at_the_ends_is_framing() -> None:
    call = ToolCall("", "f", "{}")
    parts = (TextPart("reasoning", "\nHm. \n"), TextPart("content", "\n\nSee: \n\n"), call)
    assert parse(render(Message(parts=parts), "hermes"), "hermes").content == "See:"


def test_history_is_written_without_verification() -> None:
    """The history shows the model what happened; rendering it must not make a request fail."""
    template = ChatTemplate("{% for message in messages %}{{ message.content }}{% endfor %}")
    function = {"name": "f", "arguments": '{"a": 1}'}
    message = {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }
    (written,) = normalise_history([message], template, dialect="xlam")
    assert written["content"] == 'Let me see.[{"name": "f", "arguments": {"a": 1}}]'


@each_dialect
def test_reasoning_after_text_round_trips(name: str) -> None:
    """An opening marker within a line is text, so it gets a line of its own, which is not content."""
    parts = (TextPart("content", "Let me see."), TextPart("reasoning", "Hm."))
    spec = get_dialect(name)
    if spec.frame is None and spec.reasoning and not only_at_start(spec.reasoning[0]):
        message = parse(render(Message(parts=parts), name), name)
        assert (message.content, message.reasoning) == ("Let me see.", "Hm.")


@pytest.mark.parametrize(
    "name", ["hermes", "mistral", "pythonic", "qwen3_coder", "minimax_m3", "functiongemma"]
)
def test_last_value_of_a_key_given_twice_is_written(name: str) -> None:
    message = Message(tool_calls=[ToolCall("1", "f", '{"a": 1, "b": {"c": 2, "c": 3}, "a": 4}')])
    tools = [
        {
            "type": "function",
            "function": {
                "name": "f",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "integer"},
                        "b": {"type": "object", "properties": {"c": {"type": "integer"}}},
                    },
                },
            },
        }
    ]
    (call,) = parse(render(message, name, check=False), name, tools=tools).tool_calls
    assert json.loads(call.arguments) == {"a": 4, "b": {"c": 3}}
