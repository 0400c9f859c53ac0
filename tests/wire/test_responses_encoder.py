"""Responses streams as OpenAI's own client reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from unspool import Parser
from unspool.errors import MalformedOutput, UsageError
from unspool.events import CallStart, Diagnostic, Event, Status, Text
from unspool.wire import Chunk, ResponsesStream
from wire_events import ALL, call, content_event, end, reasoning_event

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def wire(**options: Any) -> ResponsesStream:
    return ResponsesStream(Parser("hermes"), **options)


def encode_events(events: Iterable[Event], **options: Any) -> list[Chunk]:
    """Return the events of the stream, checked against the rules of every stream."""
    chunks = wire(model="m", **options).feed(events)
    assert [chunk["sequence_number"] for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        _EVENT.validate_python(chunk)
    responses = [chunk["response"] for chunk in chunks if "response" in chunk]
    assert len({response["id"] for response in responses if isinstance(response, dict)}) == 1
    return chunks


def read(chunks: Iterable[Chunk]) -> Any:
    """Return what the client has at the end."""
    state: Any = ResponseStreamState(input_tools=omit, text_format=omit)
    for chunk in chunks:
        state.handle_event(_EVENT.validate_python(chunk))
    return state._completed_response


def last_response(chunks: list[Chunk]) -> dict[str, Any]:
    response = chunks[-1]["response"]
    assert isinstance(response, dict)
    return response


def test_whole_turn_has_the_documented_events() -> None:
    kinds = [str(chunk["type"]).removeprefix("response.") for chunk in encode_events(ALL)]
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_summary_part.added",
        "reasoning_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


def test_client_receives_everything() -> None:
    final = read(encode_events(ALL))
    reasoning, message, first, second = final.output
    assert reasoning.content[0].text == reasoning.summary[0].text == "I see."
    assert message.content[0].text == "One moment."
    assert (first.call_id, first.name, first.arguments) == ("call_0", "f", '{"a": 1}')
    assert (second.call_id, second.arguments) == ("call_1", "{}")
    assert final.status == "completed"


def test_items_stay_the_same_from_first_to_last() -> None:
    chunks = encode_events(ALL)
    final = last_response(chunks)["output"]
    for index, item in enumerate(final):
        ids = set()
        for chunk in chunks:
            if chunk.get("output_index") == index:
                inner = chunk.get("item")
                ids.add(chunk.get("item_id") or (inner["id"] if isinstance(inner, dict) else None))
        assert ids == {item["id"]}
    done = [chunk["item"] for chunk in chunks if chunk["type"] == "response.output_item.done"]
    assert done == final


@pytest.mark.parametrize(
    ("events", "status", "reason"),
    [
        ([content_event("x"), end("length")], "incomplete", "max_output_tokens"),
        ([content_event("x"), end("content_filter")], "incomplete", "content_filter"),
        ([*call(0, '{"a', status="truncated"), end("length")], "incomplete", "max_output_tokens"),
        ([*call(0, '{"a', status="truncated"), end("stop")], "incomplete", "max_output_tokens"),
        ([*call(0, "{}"), end("length")], "completed", None),
        ([content_event("x"), end("stop")], "completed", None),
        ([end("stop")], "completed", None),
    ],
)
def test_status_is_reported(events: list[Event], status: str, reason: str | None) -> None:
    chunks = encode_events(events)
    assert chunks[-1]["type"] == f"response.{status}"
    assert last_response(chunks)["status"] == status
    assert last_response(chunks)["incomplete_details"] == (None if reason is None else {"reason": reason})


def test_cut_call_is_incomplete() -> None:
    chunks = encode_events([*call(0, '{"a', status="truncated"), end("length")])
    assert last_response(chunks)["output"][0]["status"] == "incomplete"


def test_failure_may_end_a_stream_at_any_point() -> None:
    for count in range(len(ALL)):
        stream = wire(model="m")
        chunks = stream.feed(ALL[:count]) if count else []
        chunks += stream.fail("server_error", "no more")
        assert [chunk["sequence_number"] for chunk in chunks] == list(range(len(chunks)))
        for chunk in chunks:
            _EVENT.validate_python(chunk)
        assert chunks[0]["type"] == "response.created"
        assert chunks[-1]["type"] == "response.failed"
        assert last_response(chunks)["error"] == {"code": "server_error", "message": "no more"}
        assert stream.fail("server_error", "again") == []


def test_encoding_after_the_end_is_an_error() -> None:
    stream = wire()
    stream.feed([end()])
    with pytest.raises(UsageError):
        stream.feed([content_event("x")])


def test_response_equals_the_last_event() -> None:
    whole = wire(model="m", echo={"temperature": 0.5}).response(Parser("hermes").message(ALL))
    streamed = last_response(encode_events(ALL, echo={"temperature": 0.5}))
    Response.model_validate(whole)
    assert _without_ids(whole) == _without_ids(streamed)
    assert whole["temperature"] == 0.5


def test_response_after_streaming_equals_the_streamed_one() -> None:
    stream = wire(model="m")
    streamed = last_response(stream.feed(ALL))
    message = Parser("hermes").message(ALL)
    assert stream.response(message) == streamed
    assert stream.response(message) == streamed
    with pytest.raises(UsageError):
        stream.feed([content_event("x")])


def _without_ids(response: Chunk) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(response))
    for one in (copy, *copy["output"]):
        del one["id"]
    del copy["created_at"]
    return copy


def test_logprobs_accompany_the_text() -> None:
    stream = wire()
    entry: Chunk = {"token": "x", "logprob": -1.0, "bytes": [120], "top_logprobs": []}
    chunks = stream.feed([reasoning_event("hm")])
    stream.logprobs.append(entry)
    chunks += stream.feed([content_event("x"), content_event("y"), end()])
    deltas = [chunk for chunk in chunks if chunk["type"] == "response.output_text.delta"]
    assert [delta["logprobs"] for delta in deltas] == [[entry], []]
    assert last_response(chunks)["output"][1]["content"][0]["logprobs"] == [entry]


# -- free-form tools


def custom(*pieces: str) -> tuple[list[str], Any]:
    """Return the streamed pieces of input, and the final item."""
    chunks = encode_events([*call(0, *pieces, name="run"), end()], custom_tools=["run"])
    assert not any("function_call" in str(chunk["type"]) for chunk in chunks)
    deltas = [str(c["delta"]) for c in chunks if c["type"] == "response.custom_tool_call_input.delta"]
    done = [c["input"] for c in chunks if c["type"] == "response.custom_tool_call_input.done"]
    item = last_response(chunks)["output"][0]
    assert done == [item["input"]]
    return deltas, item


TEXTS = [
    "",
    "plain",
    'quo"te',
    "back\\slash",
    "line\nbreak\ttab",
    "é\u2028\U0001f600",
    "\\u0041",
    "{}",
    "\x00\x7f",
]


@given(
    st.one_of(st.sampled_from(TEXTS), st.text(st.characters(exclude_categories=["Cs"]))),
    st.booleans(),
    st.lists(st.integers(1, 5), min_size=1),
)
def test_custom_tool_input_streams_as_text(text: str, ascii_only: bool, sizes: list[int]) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    pieces: list[str] = []
    at = 0
    while at < len(arguments):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(arguments[at : at + size])
        at += size
    deltas, item = custom(*pieces)
    assert item["input"] == text
    assert "".join(deltas) == text


def test_late_custom_tool_input_arrives_whole() -> None:
    deltas, item = custom('{"other": 1, ', '"input": "x"}')
    assert (deltas, item["input"]) == (["x"], "x")


@pytest.mark.parametrize(("status", "ended"), [("truncated", "incomplete"), ("malformed", "failed")])
def test_broken_custom_tool_input_is_never_done(status: Status, ended: str) -> None:
    """Clients run a call when its item is done, and this text cannot be poisoned."""
    events = [*call(0, '{"input": "ab', "c\\", status=status, name="run"), end("length")]
    chunks = encode_events(events, custom_tools=["run"])
    kinds = [str(chunk["type"]) for chunk in chunks]
    assert not [kind for kind in kinds if kind.endswith(".done")]
    assert kinds[-1] == f"response.{ended}"
    assert last_response(chunks)["output"] == []
    message = Parser("hermes").message(events)
    if status == "malformed":
        with pytest.raises(MalformedOutput, match="cannot carry"):
            wire(custom_tools=["run"]).response(message)
    else:
        assert wire(custom_tools=["run"]).response(message)["output"] == []


def test_custom_tool_input_that_is_not_an_object_is_handled() -> None:
    deltas, item = custom('["x"]')
    assert (deltas, item["input"]) == (['["x"]'], '["x"]')


# -- arbitrary streams


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    events: list[Event] = []
    count = 0
    for kind in draw(st.lists(st.sampled_from(["content", "reasoning", "call", "note"]), max_size=8)):
        if kind == "call":
            pieces = draw(st.sampled_from([(), ("{}",), ('{"a": ', "1}"), ('{"a": "', 'x"}')]))
            events += call(count, *pieces)
            count += 1
        elif kind == "note":
            events.append(Diagnostic("stray_closer", "", 0, 0))
        else:
            text = draw(st.sampled_from(["", "x", "\n", "<tool_call>"]))
            events.append(content_event(text) if kind == "content" else reasoning_event(text))
    return [*events, end(draw(st.sampled_from(["stop", "tool_calls"])))]


@given(streams(), st.lists(st.integers(0, 30)))
def test_any_stream_may_be_split_anywhere(events: list[Event], cuts: list[int]) -> None:
    stream = wire(model="m")
    chunks: list[Chunk] = []
    at = 0
    for cut in sorted(cuts):
        chunks += stream.feed(events[at:cut])
        at = max(at, cut)
    chunks += stream.feed(events[at:])
    final = read(chunks)
    calls = [event for event in events if isinstance(event, CallStart)]
    assert [item.call_id for item in final.output if item.type == "function_call"] == [c.id for c in calls]
    tidy = Parser("hermes").tidy().feed(events)
    text = "".join(event.text for event in tidy if isinstance(event, Text) and event.channel == "content")
    assert final.output_text == text
