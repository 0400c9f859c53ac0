"""Repair of Messages responses whose text blocks contain markup, event by event and as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool import MalformedOutput, Parser, Policies
from unspool._core.conversions.make_broken_arguments_unparsable import is_poisoned
from unspool.policies import DEFAULTS
from unspool.sample_outputs import SampleOutput, list_samples, tools
from unspool.wire import MessagesRepair

CALL = '<tool_call>\n{"name": "now", "arguments": {"tz": "Europe/Oslo"}}\n</tool_call>'
OUTPUT = f"<think>Which zone?</think>Let me look.\n{CALL}"
THINKING = {"type": "thinking", "thinking": "Which zone?", "signature": "s1"}
TOOL_USE = {"type": "tool_use", "id": "c1", "name": "now", "input": {"tz": "UTC"}}


def repair(
    dialect: str = "hermes", *, prompt: str | None = None, policies: Policies = DEFAULTS
) -> MessagesRepair:
    return MessagesRepair(
        Parser(dialect, tools=tools(), prompt=prompt, policies=policies),
        lambda: Parser(dialect, tools=tools(), policies=policies),
    )


def message(*blocks: Any, reason: str = "end_turn") -> dict[str, Any]:
    return {
        "id": "msg_7",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": list(blocks),
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 5},
    }


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def events(*blocks: Any, reason: str = "end_turn", size: int = 3) -> Iterable[dict[str, Any]]:
    """Yield the events of a server for a message."""
    yield {"type": "message_start", "message": {**message(), "stop_reason": None}}
    for index, block in enumerate(blocks):
        value = block.get("text")
        start = text("") if value is not None else block
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for at in range(0, len(value or ""), size):
            delta = {"type": "text_delta", "text": value[at : at + size]}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def streamed(source: Iterable[dict[str, Any]], reading: MessagesRepair | None = None) -> list[Any]:
    reading = reading or repair()
    out: list[Any] = []
    for event in source:
        out += reading.feed(event)
    return out + reading.finish()


def assembled(out: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the blocks as a client assembles them; the input of a call is text."""
    assert [event["type"] for event in out if event["type"].startswith("message")] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    blocks: list[dict[str, Any]] = []
    is_open = False
    for event in out:
        if event["type"] == "content_block_start":
            assert not is_open
            assert event["index"] == len(blocks)
            is_open = True
            blocks.append(dict(event["content_block"]))
        elif event["type"].startswith("content_block"):
            assert is_open
            assert event["index"] == len(blocks) - 1
            is_open = event["type"] != "content_block_stop"
            for name, value in event.get("delta", {}).items():
                if name not in ("type", "signature"):
                    blocks[-1][name] = blocks[-1].get(name, "") + value
    assert not is_open
    return blocks


def summary(blocks: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for block in blocks:
        kind = block["type"]
        out.append((kind, block["name"] if kind == "tool_use" else block[kind]))
    return out


@pytest.mark.parametrize("sample", list_samples(), ids=lambda sample: sample.dialect.name)
def test_any_chunking_is_read_as_the_whole(sample: SampleOutput) -> None:
    name, prompt = sample.dialect.name, sample.prompt
    body: Any = repair(name, prompt=prompt).response(message(text(sample.output)))
    for size in (1, 7, len(sample.output)):
        out = streamed(events(text(sample.output), size=size), repair(name, prompt=prompt))
        assert summary(assembled(out)) == summary(body["content"])
        assert out[-2]["delta"]["stop_reason"] == body["stop_reason"]


@given(st.integers(1, len(OUTPUT)))
def test_text_may_be_split_anywhere(size: int) -> None:
    out = streamed(events(text(OUTPUT), size=size))
    assert summary(assembled(out)) == [
        ("thinking", "Which zone?"),
        ("text", "Let me look."),
        ("tool_use", "now"),
    ]
    assert assembled(out)[-1]["partial_json"] == '{"tz": "Europe/Oslo"}'
    assert out[-2] == {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 5},
    }


def test_blocks_of_the_server_pass_with_a_new_index() -> None:
    blocks = (THINKING, text(f"Let me look.\n{CALL}"), TOOL_USE)
    expected = [
        ("thinking", "Which zone?"),
        ("text", "Let me look."),
        ("tool_use", "now"),
        ("tool_use", "now"),
    ]
    body: Any = repair().response(message(*blocks, reason="tool_use"))
    assert summary(body["content"]) == expected
    assert (body["content"][0], body["content"][-1]) == (THINKING, TOOL_USE)
    assert summary(assembled(streamed(events(*blocks, reason="tool_use")))) == expected


def test_text_after_reasoning_of_the_server_starts_in_the_content() -> None:
    """The prompt of this model opens reasoning, which the server has already taken out."""

    def reading() -> MessagesRepair:
        return MessagesRepair(Parser("deepseek_r1", prompt="<think>\n"), lambda: Parser("deepseek_r1"))

    expected = [("thinking", "Which zone?"), ("text", "Noon.")]
    body: Any = reading().response(message(THINKING, text("Noon.")))
    assert summary(body["content"]) == expected
    assert summary(assembled(streamed(events(THINKING, text("Noon.")), reading()))) == expected


def test_other_fields_and_events_pass() -> None:
    body = repair().response({**message(text("Hello.")), "container": {"id": "x"}})
    assert body == {**message(text("Hello.")), "container": {"id": "x"}}
    ping, error = {"type": "ping"}, {"type": "error", "error": {"type": "overloaded_error"}}
    reading = repair()
    assert (reading.feed(ping), reading.feed(error)) == ([ping], [error])
    assert repair().response({"type": "error"}) == {"type": "error"}


@pytest.mark.parametrize("reason", ["max_tokens", "end_turn"])
def test_truncated_call_cannot_run(reason: str) -> None:
    cut = OUTPUT[:-20]
    out = streamed(events(text(cut), reason=reason))
    assert is_poisoned(assembled(out)[-1]["partial_json"])
    assert out[-2]["delta"]["stop_reason"] == "max_tokens"
    body: Any = repair().response(message(text(cut), reason=reason))
    assert (summary(body["content"])[-1][0], body["stop_reason"]) == ("text", "max_tokens")


def test_stream_that_breaks_off_closes_its_block() -> None:
    source = [event for event in events(text(OUTPUT[:-20])) if not event["type"].startswith("message_")]
    out = streamed(source)
    assert out[-1]["type"] == "content_block_stop"
    arguments = "".join(event.get("delta", {}).get("partial_json", "") for event in out)
    assert is_poisoned(arguments)


def test_malformed_call_is_an_error() -> None:
    broken = CALL.replace('"tz":', "tz:")
    with pytest.raises(MalformedOutput):
        repair().response(message(text(broken)))
    reading = repair(policies=Policies(malformed_call="error"))
    out = streamed(events(text(broken)), reading)
    assert (reading.failed, out[-1]["type"]) == (True, "error")


def test_message_without_text_keeps_its_blocks() -> None:
    assert repair().response(message(text(""))) == message(text(""))
