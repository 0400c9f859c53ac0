"""The data model of the conformance suite: validation, serialisation and the life of a case."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from unspool import UnknownDialect, UsageError
from unspool.conformance import (
    CallReference,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    Run,
    TestCase,
    TextSegment,
    ToolCall,
    Unfinished,
    cases,
    json_schema,
)
from unspool.conformance._delta_reader import StreamPosition, decode_stream
from unspool.conformance.case_format import Status, order_lines, part_from_json
from unspool.errors import ProtocolError

jsonschema = pytest.importorskip("jsonschema")

CALL = ToolCall(FunctionCall("get_weather", '{"city": "Paris"}'), None, verbatim=True)
CASE = TestCase(
    scenario_name="mine/one",
    dialect="hermes",
    group="mine",
    model_output='Hm.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
    expected_tools_called=True,
    expected_tool_calls=(CALL,),
    expected_content="Hm.",
    expected_order=(TextSegment("content", "Hm."), CallReference(0)),
    expected_finish_reason="tool_calls",
)


def sample() -> list[TestCase]:
    """Return cases of all groups in dialects of all kinds."""
    names = ["hermes", "qwen3_coder", "harmony", "gemma4", "pythonic", "kimi_k2", "cohere"]
    return [case for case in cases(names) if isinstance(case, TestCase)]


# -- validation


def test_empty_output_is_valid() -> None:
    empty = TestCase("mine/empty", "hermes", "mine", "", expected_tools_called=False)
    assert empty.model_output == ""
    assert empty.expected == ExtractedToolCallInformation(tools_called=False)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"model_output": None}, "model_output is missing"),
        ({"expected_tools_called": False}, "expected_tools_called=False with 1 expected calls"),
        (
            {"expected_tool_calls": (), "expected_order": ()},
            "expected_tools_called=True with 0 expected calls",
        ),
        ({"parser_name": "glm45"}, "belongs to the dialect glm45"),
        ({"streaming_mode": "sometimes"}, "choose one of both, stream, batch"),
        ({"start": "middle"}, "choose one of content, reasoning, response"),
        ({"finish_reason": "bored"}, "finish_reason='bored'"),
        ({"expected_finish_reason": "bored"}, "expected_finish_reason='bored'"),
        ({"n": 0}, "at least one choice"),
        ({"expected_order": (TextSegment("content", "Hm."),)}, "expected_order has calls []"),
        (
            {"expected_order": (CallReference(0), TextSegment("content", "Oh."))},
            "expected_order has content 'Oh.'",
        ),
        ({"expected_reasoning": "Hm."}, "expected_order has reasoning ''"),
    ],
)
def test_contradictory_case_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        replace(CASE, **changes)
    assert complaint in str(error.value)
    assert "mine/one" in str(error.value)


def test_unregistered_parser_is_an_error() -> None:
    with pytest.raises(UnknownDialect):
        replace(CASE, dialect="nobody", parser_name="nobody")
    assert replace(CASE, parser_name="qwen25").parser_name == "qwen25"
    assert CASE.parser_name == "hermes"


def test_missing_output_differs_from_an_empty_one() -> None:
    plain = CASE.to_json()
    for value in ({**plain, "model_output": None}, {k: v for k, v in plain.items() if k != "model_output"}):
        with pytest.raises(UsageError, match="no model_output"):
            TestCase.from_json(value)
    with pytest.raises(UsageError, match="invalid case"):
        TestCase.from_json({**plain, "mood": "good"})


# -- serialisation


def test_json_lines_round_trip() -> None:
    for case in sample():
        line = case.to_line()
        assert line.endswith("\n")
        assert line.count("\n") == 1
        assert TestCase.from_json(json.loads(line)) == case


def test_schema_accepts_cases_and_rejects_contradictions() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for case in sample():
        assert validator.is_valid(case.to_json()), case.key
    good = CASE.to_json()
    wrong: list[dict[str, Any]] = [
        {"expected_tools_called": False},
        {"expected_tool_calls": []},
        {"model_output": None},
        {"n": 0},
        {"start": "middle"},
        {"expected_order": [{"content": "a", "reasoning": "b"}]},
        {"mood": "good"},
    ]
    for change in wrong:
        assert not validator.is_valid(good | change), change


def test_schema_has_every_field() -> None:
    names = {field.name for field in fields(TestCase)}
    assert json_schema()["properties"].keys() == names
    assert set(json_schema()["required"]) == names
    assert CASE.to_json().keys() == names


def test_text_form_shows_the_case() -> None:
    text = replace(CASE, start="reasoning", prompt="<think>\n", tool_choice="required").to_text()
    for part in ("mine/one in hermes", "| <tool_call>", "'<think>\\n'", '"required"', 'content   "Hm."'):
        assert part in text
    assert order_lines(CASE.expected)[-2:] == [
        'call      get_weather {"city": "Paris"}',
        "finish    tool_calls",
    ]


@pytest.mark.parametrize(
    "part",
    [
        TextSegment("content", "a"),
        TextSegment("reasoning", ""),
        CallReference(3),
        Unfinished("malformed", "x", "f", "{"),
    ],
)
def test_parts_round_trip(part: TextSegment | CallReference | Unfinished) -> None:
    assert part_from_json(part.to_json()) == part


def test_messages_and_deltas_round_trip() -> None:
    message = ExtractedToolCallInformation(True, (CALL,), "a", "b", "stop", (CallReference(0),))
    assert ExtractedToolCallInformation.from_json(message.to_json()) == message
    delta = DeltaMessage("a", None, (DeltaToolCall(0, "id", "f", "{"), DeltaToolCall(1, arguments="}")))
    assert DeltaMessage.from_json(delta.to_json()) == delta
    assert DeltaMessage().empty
    assert not delta.empty


def test_server_chunks_become_deltas() -> None:
    wire = {
        "reasoning_content": "a",
        "tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}],
    }
    assert DeltaMessage.from_json(wire) == DeltaMessage(None, "a", (DeltaToolCall(0, None, "f", ""),))


# -- the life of a case


def test_run_is_created_executed_and_judged() -> None:
    run = Run(CASE, "mine")
    states: list[Status] = [run.status]
    executed = run.executed(CASE.expected)
    states += [executed.status, executed.judged("match").status]
    states += [executed.judged("loss", "gone").status, executed.judged("loss", "gone", "a policy").status]
    assert states == ["created", "executed", "passed", "failed", "xfailed"]
    assert run.status == "created"


def test_run_steps_cannot_be_skipped_or_repeated() -> None:
    run = Run(CASE, "mine")
    executed = run.executed(None, "it raised")
    judged = executed.judged("error", "it raised")
    for state in (run, judged):
        with pytest.raises(UsageError, match="create a new Run"):
            state.judged("match")
    for state in (executed, judged):
        with pytest.raises(UsageError, match="create a new Run"):
            state.executed(None)


# -- the stream decoder


def call_delta(index: int, **fields: str) -> DeltaMessage:
    return DeltaMessage(tool_calls=(DeltaToolCall(index, **fields),))


def test_deltas_add_up_to_a_message() -> None:
    stream = decode_stream(
        [
            DeltaMessage(reasoning="Hm. "),
            None,
            DeltaMessage(content="So:"),
            call_delta(0, name="f", id="mine"),
            DeltaMessage(),
            call_delta(0, arguments='{"a": '),
            call_delta(0, arguments="1}"),
            call_delta(1, name="g", arguments="{}"),
        ],
        None,
    )
    message = stream.message
    assert (message.reasoning, message.content, message.finish_reason) == ("Hm. ", "So:", None)
    assert [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls] == [
        ("mine", "f", '{"a": 1}'),
        ("call_1", "g", "{}"),
    ]
    assert message.order == (
        TextSegment("reasoning", "Hm. "),
        TextSegment("content", "So:"),
        CallReference(0),
        CallReference(1),
    )
    assert stream.positions[0] == StreamPosition(0, 3, 0)
    assert stream.positions[-1] == StreamPosition(3, 3, 2)


@pytest.mark.parametrize(
    ("deltas", "rule"),
    [
        ([call_delta(1, name="f")], "index"),
        ([call_delta(0, arguments="{}")], "name"),
        ([call_delta(0, name="f"), call_delta(0, name="f")], "name"),
        ([call_delta(0, name="f"), call_delta(0, name="g")], "retraction"),
        ([call_delta(0, name="f", id="a"), call_delta(1, name="g", id="a")], "id"),
    ],
)
def test_stream_that_clients_misread_is_refused(deltas: list[DeltaMessage], rule: str) -> None:
    with pytest.raises(ProtocolError, match=f"rule '{rule}'"):
        decode_stream(deltas, None)
