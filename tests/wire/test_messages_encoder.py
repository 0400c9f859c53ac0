"""Messages streams as Anthropic's own client reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("anthropic")

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from unspool import Parser
from unspool.errors import UsageError
from unspool.events import CallStart, Event, Text
from unspool.wire import Chunk, MessagesStream, Usage, sse
from wire_events import ALL, call, content_event, end, reasoning_event

_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def wire(**options: Any) -> MessagesStream:
    return MessagesStream(Parser("hermes"), **options)


def encode_events(events: Iterable[Event], **options: Any) -> list[Chunk]:
    """Return the events of the stream, checked against the rules of every stream."""
    chunks = wire(model="m", **options).feed(events)
    check(chunks)
    return chunks


def check(chunks: Iterable[Chunk]) -> None:
    """Assert that blocks follow one another, each with deltas of its own type."""
    open_block: dict[str, Any] | None = None
    expected = 0
    for chunk in chunks:
        _EVENT.validate_python(chunk)
        if chunk["type"] == "content_block_start":
            assert open_block is None
            assert chunk["index"] == expected
            block = chunk["content_block"]
            assert isinstance(block, dict)
            open_block = block
        elif chunk["type"] == "content_block_delta":
            assert open_block is not None
            assert chunk["index"] == expected
            delta = chunk["delta"]
            assert isinstance(delta, dict)
            kinds = {
                "text": ["text_delta"],
                "thinking": ["thinking_delta", "signature_delta"],
                "tool_use": ["input_json_delta"],
            }
            assert delta["type"] in kinds[open_block["type"]]
        elif chunk["type"] == "content_block_stop":
            assert open_block is not None
            open_block = None
            expected += 1


def read(chunks: Iterable[Chunk]) -> Any:
    """Return what the client has at the end."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for chunk in chunks:
        snapshot = accumulate_event(
            event=_EVENT.validate_python(chunk), current_snapshot=snapshot, json_bufs=buffers
        )
    return snapshot


def test_whole_turn_has_the_documented_events() -> None:
    kinds = []
    for chunk in encode_events(ALL):
        delta = chunk.get("delta")
        kinds.append(str(delta["type"] if isinstance(delta, dict) and "type" in delta else chunk["type"]))
    assert kinds == [
        "message_start",
        "content_block_start",
        "thinking_delta",
        "thinking_delta",
        "signature_delta",
        "content_block_stop",
        "content_block_start",
        "text_delta",
        "text_delta",
        "content_block_stop",
        "content_block_start",
        "input_json_delta",
        "input_json_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_client_receives_everything() -> None:
    final = read(encode_events(ALL))
    thinking, text, first, second = final.content
    assert (thinking.thinking, bool(thinking.signature)) == ("I see.", True)
    assert text.text == "One moment."
    assert (first.id, first.name, first.input) == ("call_0", "f", {"a": 1})
    assert (second.id, second.input) == ("call_1", {})
    assert final.stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([content_event("x"), end("stop")], "end_turn"),
        ([end("stop")], "end_turn"),
        ([content_event("x"), end("length")], "max_tokens"),
        ([content_event("x"), end("content_filter")], "refusal"),
        ([*call(0, "{}"), end("stop")], "tool_use"),
        ([*call(0, '{"a', status="truncated"), end("length")], "max_tokens"),
    ],
)
def test_stop_reason_is_translated(events: list[Event], reason: str) -> None:
    assert read(encode_events(events)).stop_reason == reason


def test_stop_sequence_is_named() -> None:
    stream = wire()
    chunks = stream.feed([content_event("x")])
    stream.stop_sequence = "END"
    chunks += stream.feed([end()])
    final = read(chunks)
    assert (final.stop_reason, final.stop_sequence) == ("stop_sequence", "END")


def test_tokens_are_counted_at_the_end() -> None:
    stream = wire()
    chunks = stream.feed([content_event("x")])
    final = read(chunks + stream.feed([end()], usage=Usage(7, 5)))
    assert (final.usage.input_tokens, final.usage.output_tokens) == (7, 5)


def test_encoding_after_the_end_is_an_error() -> None:
    stream = wire()
    stream.feed([end()])
    with pytest.raises(UsageError):
        stream.feed([content_event("x")])


def test_response_equals_the_stream() -> None:
    whole = wire(model="m", id="msg_1").response(Parser("hermes").message(ALL))
    Message.model_validate(whole)
    streamed = read(encode_events(ALL, id="msg_1"))
    assert whole["content"] == [block.model_dump(exclude_none=True) for block in streamed.content]
    assert whole["stop_reason"] == streamed.stop_reason


def test_events_have_both_lines() -> None:
    for chunk in encode_events(ALL):
        event, data, *rest = sse(chunk).split("\n")
        assert event == f"event: {chunk['type']}"
        assert json.loads(data.removeprefix("data: ")) == chunk
        assert rest == ["", ""]


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    events: list[Event] = []
    count = 0
    for kind in draw(st.lists(st.sampled_from(["content", "reasoning", "call"]), max_size=8)):
        if kind == "call":
            events += call(count, *draw(st.sampled_from([(), ("{}",), ('{"a": ', "1}"), ('{"a": "', 'x"}')])))
            count += 1
        else:
            text = draw(st.sampled_from(["", "x", "\n"]))
            events.append(content_event(text) if kind == "content" else reasoning_event(text))
    return [*events, end()]


@given(streams(), st.lists(st.integers(0, 30)))
def test_any_stream_may_be_split_anywhere(events: list[Event], cuts: list[int]) -> None:
    stream = wire(model="m")
    chunks: list[Chunk] = []
    at = 0
    for cut in sorted(cuts):
        chunks += stream.feed(events[at:cut])
        at = max(at, cut)
    chunks += stream.feed(events[at:])
    check(chunks)
    final = read(chunks)
    ids = [event.id for event in events if isinstance(event, CallStart)]
    assert [block.id for block in final.content if block.type == "tool_use"] == ids
    tidy = Parser("hermes").tidy().feed(events)
    text = "".join(event.text for event in tidy if isinstance(event, Text) and event.channel == "content")
    assert "".join(block.text for block in final.content if block.type == "text") == text


def test_keep_alive_is_a_ping() -> None:
    assert sse(wire().keep_alive()) == 'event: ping\ndata: {"type":"ping"}\n\n'
