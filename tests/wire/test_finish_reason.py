"""The finish reason is the same in the whitespace filter, the message builder and all wires.

For a client of a wire an announced malformed call is a call; in the message it is one only if kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal, get_args, get_type_hints

import pytest

from unspool import Message, Parser, Policies
from unspool.events import FinishReason
from unspool.message import BrokenCall
from unspool.wire import ChatStream, ChatStreamDecoder, MessagesStream, ResponsesStream, WireOptions
from unspool.wire._messages_encoder import STOP_REASONS

GOOD = '<tool_call>{"name": "now", "arguments": {"a": 1}}</tool_call>'
BAD = '<tool_call>{"name": "now", "arguments": {oops}}</tool_call>'
CUT = '<tool_call>{"name": "now", "arguments": {"a": "b'
HEAD = '<tool_call>{"na'
OUTPUTS = {
    "nothing": "",
    "text": "Hi.",
    "a call": GOOD,
    "a call, then text": GOOD + "So.",
    "a malformed call": BAD,
    "a malformed call, then a good one": BAD + GOOD,
    "a call that is cut off": CUT,
    "a good call, then one that is cut off": GOOD + CUT,
    "a head that is cut off": GOOD + HEAD,
    "a call in reasoning": f"<think>{GOOD}",
}
REASONS: tuple[FinishReason | None, ...] = (None, *get_args(FinishReason))
VALUES = [(name, value) for name, hint in get_type_hints(Policies).items() for value in get_args(hint)]

FORCED_REASONS: tuple[Literal["tool_calls", "stop"], ...] = ("tool_calls", "stop")
FROM_MESSAGES = {theirs: ours for ours, theirs in STOP_REASONS.items()}
INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content_filter"}


def encode_all(wire: ChatStream | MessagesStream | ResponsesStream, portions: Sequence[Any]) -> list[Any]:
    return [chunk for events in portions for chunk in wire.feed(events)]


def finish_reasons(
    parser: Parser, options: WireOptions, portions: Sequence[Any]
) -> tuple[set[str], dict[str, str]]:
    """Return the finish reason of these events in the filter, the builder and every wire."""
    tidy, fold = parser.tidy(), parser.fold()
    for events in portions:
        tidy.feed(events)
        fold.feed(events)
    message = fold.message
    chat = encode_all(ChatStream(parser, options=options), portions)
    whole: Any = ChatStream(parser, options=options).response(message)
    sent = encode_all(MessagesStream(parser, options=options), portions)
    (delta,) = (event["delta"] for event in sent if event["type"] == "message_delta")
    client = ChatStreamDecoder()
    for chunk in chat:
        client.feed(chunk)
    by_wire = {
        "chat": chat[-1]["choices"][0]["finish_reason"],
        "chat, whole": whole["choices"][0]["finish_reason"],
        "a client of chat": str(client.finish().finish_reason),
        "messages": FROM_MESSAGES[delta["stop_reason"]],
    }
    if not malformed(message):
        messages: Any = MessagesStream(parser, options=options).response(message)
        by_wire["messages, whole"] = FROM_MESSAGES[messages["stop_reason"]]
    assert fold.finish_reason is not None
    assert message.finish_reason is not None
    return {tidy.finish_reason, fold.finish_reason, message.finish_reason}, by_wire


def malformed(message: Message) -> bool:
    return any(isinstance(part, BrokenCall) and part.status == "malformed" for part in message.parts)


def responses(parser: Parser, portions: Sequence[Any]) -> tuple[Any, Any]:
    """Return the status of a response, streamed and whole; this API has no status for calls."""
    chunks = encode_all(ResponsesStream(parser), portions)
    whole: Any = ResponsesStream(parser).response(parser.message(chain.from_iterable(portions)))
    return ended(chunks[-1]["response"]), ended(whole)


def ended(response: dict[str, Any]) -> str:
    details = response["incomplete_details"]
    assert response["status"] == ("completed" if details is None else "incomplete")
    return "stop" if details is None else INCOMPLETE[details["reason"]]


@pytest.mark.parametrize("forced", [False, True], ids=["free", "forced"])
@pytest.mark.parametrize(("name", "value"), VALUES, ids="=".join)
def test_every_wire_reports_the_same_finish_reason(name: str, value: str, forced: bool) -> None:
    for forced_reason in FORCED_REASONS:
        if value == "error":  # an error has no finish reason
            continue
        options = WireOptions(forced_finish_reason=forced_reason)
        for title, text in OUTPUTS.items():
            for reason_ in REASONS:
                for chunks in ([text], list(text)):
                    parser = Parser("hermes", policies={name: value}, forced=forced)
                    portions = [*map(parser.feed, chunks), parser.finish(reason_)]
                    (reason,), reasons = finish_reasons(parser, options, portions)
                    if reason == "stop" and malformed(parser.message(chain.from_iterable(portions))):
                        reason = "tool_calls"
                    reason = options.finish_reason(reason, forced=forced)  # type: ignore[arg-type]
                    assert set(reasons.values()) == {reason}, (title, reason_)
                    streamed, whole = responses(parser, portions)
                    plain = reason if reason in ("length", "content_filter") else "stop"
                    assert streamed == whole == plain, (title, reason_)


@pytest.mark.parametrize("commit", ["name", "call"])
@pytest.mark.parametrize("kept", ["drop", "text", "call"])
@pytest.mark.parametrize("text", [CUT, HEAD, GOOD + CUT])
def test_cut_call_gives_length_under_any_policy(text: str, kept: Any, commit: Any) -> None:
    parser = Parser("hermes", policies=Policies(commit=commit, truncated_call=kept))
    assert parser.message(parser.feed(text) + parser.finish("stop")).finish_reason == "length"


def test_incomplete_call_is_an_incomplete_item() -> None:
    parser = Parser("hermes", policies=Policies(truncated_call="call"))
    events = parser.feed(GOOD + CUT) + parser.finish("length")
    whole: Any = ResponsesStream(parser).response(parser.message(events))
    streamed: Any = ResponsesStream(parser).feed(events)[-1]["response"]
    for response in (whole, streamed):
        assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
        assert json.loads(response["output"][0]["arguments"]) == {"a": 1}
