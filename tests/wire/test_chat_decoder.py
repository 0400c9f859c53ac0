"""The decoder of other servers' streams: what it accepts, and that it rejects each violation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from unspool.errors import ProtocolError
from unspool.healing import feedback
from unspool.message import BrokenCall, Message, TextPart, ToolCall
from unspool.wire import RULES, ChatStreamDecoder, make_poison

Delta = dict[str, Any]

ROLE: Delta = {"role": "assistant", "content": ""}
STOP: Delta = {"delta": {}, "finish_reason": "stop"}
CALLS: Delta = {"delta": {}, "finish_reason": "tool_calls"}
LENGTH: Delta = {"delta": {}, "finish_reason": "length"}
USAGE: Delta = {"choices": [], "usage": {"total_tokens": 3}}


def calls(*entries: object) -> Delta:
    return {"tool_calls": list(entries)}


def opener(index: int = 0, arguments: object = "", /, **changes: object) -> Delta:
    function = {"name": f"f{index}", "arguments": arguments}
    return {"index": index, "id": f"call_{index}", "type": "function", "function": function} | changes


def more(arguments: object, index: int = 0, /, **changes: object) -> Delta:
    return {"index": index, "function": {"arguments": arguments}} | changes


def without(entry: Delta, key: str) -> Delta:
    return {name: value for name, value in entry.items() if name != key}


def chunk(delta: object, reason: object = None, index: int = 0, **changes: object) -> Delta:
    choice = {"index": index, "delta": delta, "finish_reason": reason}
    return {"id": "x", "object": "chat.completion.chunk", "choices": [choice]} | changes


def read(*chunks: Mapping[str, object], lenient: bool = False, check_json: bool = True) -> Message:
    reader = ChatStreamDecoder(lenient=lenient, check_json=check_json)
    for item in chunks:
        reader.feed(item)
    return reader.finish()


# Accepted streams.


def test_whole_stream_is_decoded() -> None:
    message = read(
        chunk(ROLE),
        chunk({"reasoning_content": "Hm", "reasoning": "Hm"}),
        chunk({"reasoning_content": ".", "reasoning": "."}),
        chunk({"content": "No"}),
        chunk({"content": "w:"}),
        chunk(calls(opener(0))),
        chunk(calls(more('{"a"'))),
        chunk(calls(opener(1), more(": 1}"))),
        chunk(calls(more("{}", 1))),
        chunk({"content": "Done."}),
        chunk({}, "tool_calls"),
        USAGE,
    )
    one, two = ToolCall("call_0", "f0", '{"a": 1}'), ToolCall("call_1", "f1", "{}")
    assert message == Message(
        reasoning="Hm.",
        content="Now:Done.",
        tool_calls=(one, two),
        finish_reason="tool_calls",
        parts=(
            TextPart("reasoning", "Hm."),
            TextPart("content", "Now:"),
            one,
            two,
            TextPart("content", "Done."),
        ),
    )


def test_bare_choices_and_deltas_are_decoded() -> None:
    assert read(ROLE, {"content": "a"}, {"index": 1, "delta": {"content": "b"}}, STOP).content == "a"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_either_reasoning_field_is_read(field: str) -> None:
    assert read(ROLE, {field: "a"}, {field: "b"}, STOP).reasoning == "ab"


def test_openai_may_begin_with_nulls() -> None:
    first = {"role": "assistant", "content": None, "refusal": None}
    assert read(chunk(first, usage=None), chunk({}, "stop", usage=None), USAGE).content is None


def test_call_in_one_delta_is_read() -> None:
    message = read(ROLE | calls(opener(0, "{}"), opener(1, '{"a": 1}')), CALLS)
    assert [call.arguments for call in message.tool_calls] == ["{}", '{"a": 1}']


def test_last_text_may_come_with_the_finish_reason() -> None:
    assert read(ROLE, {"delta": {"content": "a"}, "finish_reason": "stop"}).content == "a"


def test_other_choices_are_skipped() -> None:
    chunks = [chunk(ROLE, index=1), chunk(ROLE), chunk({}, "stop", index=1), chunk({"content": "a"})]
    chunks += [chunk({}, "length"), USAGE]
    for index, reason in enumerate(["length", "stop"]):
        reader = ChatStreamDecoder(index=index)
        for item in chunks:
            reader.feed(item)
        assert reader.finish().finish_reason == reason


def test_finished_and_usage_are_reported() -> None:
    reader = ChatStreamDecoder()
    reader.feed(ROLE)
    assert not reader.finished
    reader.feed(STOP)
    assert reader.finished
    assert reader.usage is None
    reader.feed(USAGE)
    assert reader.usage == {"total_tokens": 3}


def test_numbers_of_any_length_are_kept() -> None:
    assert read(ROLE, calls(opener(0, "9" * 10_000)), CALLS).tool_calls[0].arguments == "9" * 10_000


def test_incomplete_arguments_are_a_violation_for_any_finish_reason() -> None:
    for reason in (LENGTH, CALLS):
        with pytest.raises(ProtocolError, match="rule 'json'"):
            read(ROLE, calls(opener(0, '{"a')), reason)
        message = read(ROLE, calls(opener(0, '{"a\\u"]')), reason)
        assert not message.tool_calls
        assert message.parts == (BrokenCall("call_0", "f0", '{"a', "truncated", "", "content"),)


def test_poisoned_call_is_broken_with_its_status() -> None:
    for status in ("malformed", "truncated"):
        arguments = '{"a": 1' + make_poison('{"a": 1', status)
        message = read(ROLE, calls(opener(0, arguments)), LENGTH)
        assert message.parts == Message.from_chat({"tool_calls": [opener(0, arguments)]}).parts
        (part,) = message.parts
        assert isinstance(part, BrokenCall)
        assert (part.arguments, part.status) == ('{"a": 1', status)


def test_feedback_on_a_truncated_call_from_the_wire_says_incomplete() -> None:
    message = read(ROLE, calls(opener(0, '{"a": "he\\u"]')), LENGTH)
    assert "is incomplete" in feedback(message, "hermes", None)[1]["content"]


def test_message_so_far_has_no_calls_and_no_finish_reason() -> None:
    reader = ChatStreamDecoder()
    assert reader.message == Message(finish_reason=None)
    for item in (ROLE, {"content": "Now:"}, calls(opener(0, '{"a": 1}'))):
        reader.feed(item)
    assert (reader.message.content, reader.message.finish_reason) == ("Now:", None)
    assert not reader.message.tool_calls
    assert reader.message.parts[1] == BrokenCall("call_0", "f0", '{"a": 1}', "truncated", "", "content")
    with pytest.raises(ProtocolError, match="without a finish_reason"):
        reader.finish()
    reader.feed(CALLS)
    assert reader.finish() == reader.message
    assert reader.message.tool_calls == (ToolCall("call_0", "f0", '{"a": 1}'),)


def test_check_json_can_be_disabled() -> None:
    assert read(ROLE, calls(opener(0, '{"a')), STOP, check_json=False).tool_calls[0].arguments == '{"a'


def test_lenient_mode_accepts_nulls() -> None:
    continuation = {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": "{}"}}
    chunks = [
        {"choices": []},  # Azure sends the results of its content filter first
        chunk(ROLE, usage={"total_tokens": 1}),
        chunk({"content": "a", "role": None, "tool_calls": None}, usage={"total_tokens": 2}),
        chunk(calls(opener(0, None))),
        chunk(calls(continuation)),
        chunk({"content": None}, "tool_calls"),
    ]
    message = read(*chunks, lenient=True)
    assert (message.content, message.tool_calls) == ("a", (ToolCall("call_0", "f0", "{}"),))


# Rejected streams: (rule, message, chunks); the last chunk breaks the rule.

VIOLATIONS: list[tuple[str, str, Sequence[Mapping[str, object]]]] = [
    ("choices", "'choices' is null", [{"choices": None}]),
    ("choices", "a choice has no index", [{"choices": [{"delta": ROLE}]}]),
    ("choices", "'delta' is null", [chunk(None)]),
    ("choices", "the key 'choices' is missing", [ROLE, {"error": {"message": "out of memory"}}]),
    ("role", "the role in the first delta is null", [{"content": "a"}]),
    ("role", 'the role in the first delta is ""', [{"role": "", "content": "a"}]),
    ("role", 'the role in the first delta is "user"', [{"role": "user"}]),
    ("role", "the role in the first delta is null", [STOP]),
    ("role", 'the role is sent again: "assistant"', [ROLE, {"role": "assistant", "content": "a"}]),
    ("text", "'content' is [", [ROLE, {"content": [{"type": "text", "text": "a"}]}]),
    ("text", "'reasoning' is 1", [ROLE, {"reasoning": 1}]),
    ("text", "reasoning_content and reasoning differ", [ROLE, {"reasoning_content": "a", "reasoning": "b"}]),
    (
        "text",
        "reasoning was in reasoning before, and now it is in reasoning_content",
        [ROLE, {"reasoning": "a"}, {"reasoning_content": "b"}],
    ),
    ("index", "has no index", [ROLE, calls(without(opener(), "index"))]),
    ("index", "has no index", [ROLE, calls(opener(index=None))]),
    ("index", "has no index", [ROLE, calls(opener(index=True))]),
    ("index", "has no index", [ROLE, calls("f")]),
    ("index", "'tool_calls' is not a list", [ROLE, {"tool_calls": opener()}]),
    ("index", "a delta has the call index 1, but the next call has index 0", [ROLE, calls(opener(1))]),
    (
        "index",
        "a delta has the call index 2, but the next call has index 1",
        [ROLE, calls(opener()), calls(more("{}", 2))],
    ),
    ("id", "the first delta of call 0 has no id", [ROLE, calls(without(opener(), "id"))]),
    ("id", 'the id in the first delta of call 0 is ""', [ROLE, calls(opener(id=""))]),
    ("id", "the id in the first delta of call 0 is 7", [ROLE, calls(opener(id=7))]),
    ("id", "the id of another call", [ROLE, calls(opener()), calls(opener(1, id="call_0"))]),
    ("id", 'the id is sent again in the next delta of call 0: "call_0"', [ROLE, calls(opener(), opener())]),
    (
        "id",
        'the id is sent again in the next delta of call 0: ""',
        [ROLE, calls(opener()), calls(more("", id=""))],
    ),
    ("name", "the first delta of call 0 has no name", [ROLE, calls(opener(function={"arguments": ""}))]),
    ("name", 'the name in the first delta of call 0 is ""', [ROLE, calls(opener(function={"name": ""}))]),
    (
        "name",
        'the name is sent again in the next delta of call 0: "f0"',
        [ROLE, calls(opener()), calls(more("", function={"name": "f0", "arguments": "{}"}))],
    ),
    ("type", "the first delta of call 0 has no type", [ROLE, calls(without(opener(), "type"))]),
    ("type", 'the type in the first delta of call 0 is "tool"', [ROLE, calls(opener(type="tool"))]),
    ("type", "the type is sent again", [ROLE, calls(opener()), calls(more("{}", type="function"))]),
    (
        "arguments",
        'the arguments in the first delta of call 0 are {"a": 1}',
        [ROLE, calls(opener(0, {"a": 1}))],
    ),
    (
        "arguments",
        "the arguments in the next delta of call 0 are {}",
        [ROLE, calls(opener()), calls(more({}))],
    ),
    ("arguments", "'function' in the first delta of call 0 is \"f\"", [ROLE, calls(opener(function="f"))]),
    ("null", "in the delta: content, tool_calls", [ROLE, {"content": None, "tool_calls": None}]),
    ("null", "in the next delta of call 0: id", [ROLE, calls(opener()), calls(more("{}", id=None))]),
    (
        "null",
        "in the next delta of call 0: name",
        [ROLE, calls(opener()), calls(more("", function={"name": None, "arguments": "{}"}))],
    ),
    ("null", "in the first delta of call 0: arguments", [ROLE, calls(opener(0, None))]),
    (
        "retraction",
        'changes the id from "call_0" to "call_9"; another call needs index 1',
        [ROLE, calls(opener(0, "{}")), calls(opener(id="call_9"))],
    ),
    (
        "retraction",
        'changes the name from "f0" to "g"',
        [ROLE, calls(opener()), calls(more("", function={"name": "g"}))],
    ),
    ("end", "the chunk follows the terminal chunk (chunk 1)", [ROLE, STOP, {"content": "a"}]),
    ("end", "the chunk follows the terminal chunk (chunk 1)", [ROLE, STOP, chunk({})]),
    ("finish", "the chunk follows the terminal chunk (chunk 1)", [ROLE, STOP, STOP]),
    ("finish", 'finish_reason is "eos", not one of stop, length,', [ROLE, chunk({}, "eos")]),
    ("finish", 'finish_reason is ""', [ROLE, chunk({}, "")]),
    ("finish", "there was no call", [ROLE, CALLS]),
    ("usage", "'choices' is empty before the terminal chunk", [ROLE, USAGE]),
    ("usage", "usage is in a chunk that has choices", [chunk(ROLE, usage={"total_tokens": 1})]),
    ("usage", "the key 'choices' is missing", [ROLE, STOP, {"usage": {"total_tokens": 1}}]),
    ("usage", "usage is 3", [ROLE, STOP, {"choices": [], "usage": 3}]),
    ("usage", "usage is sent again", [ROLE, STOP, USAGE, USAGE]),
    ("json", "needs one delta '{}'", [ROLE, calls(opener()), CALLS]),
    (
        "json",
        "the arguments of call 1 (f1) are not JSON",
        [ROLE, calls(opener(0, "{}"), opener(1, "{")), STOP],
    ),
    ("json", "Extra data", [ROLE, calls(opener(0, "{}")), calls(more("{}")), CALLS]),
    ("json", "NaN is not JSON", [ROLE, calls(opener(0, '{"a": NaN}')), CALLS]),
    ("json", "the arguments of call 0 (f0) are not JSON", [ROLE, calls(opener(0, "[" * 100_000)), CALLS]),
    (
        "json",
        "send only what is new, not the whole text so far",
        [ROLE, calls(opener(0, '{"a"')), calls(more('{"a": 1}')), CALLS],
    ),
]


@pytest.mark.parametrize(
    ("rule", "says", "chunks"), VIOLATIONS, ids=[f"{rule}: {says}" for rule, says, _ in VIOLATIONS]
)
def test_violation_is_reported(rule: str, says: str, chunks: Sequence[Mapping[str, object]]) -> None:
    reader = ChatStreamDecoder()
    for item in chunks[:-1]:
        reader.feed(item)
    with pytest.raises(ProtocolError, match=re.escape(says)) as caught:
        reader.feed(chunks[-1])
    text = str(caught.value)
    assert text.startswith(f"chunk {len(chunks) - 1} breaks rule '{rule}': ")
    assert f"\n    rule: {RULES[rule]}\n    chunk: {{" in text
    assert len(text) < 1000


def test_every_rule_has_a_violation() -> None:
    assert {rule for rule, _, _ in VIOLATIONS} == set(RULES)


def test_lenient_mode_accepts_only_nulls_and_usage() -> None:
    for rule, _, chunks in VIOLATIONS:
        if rule in ("null", "usage"):
            continue
        with pytest.raises(ProtocolError, match="breaks rule"):
            read(*chunks, lenient=True)


def test_stream_without_an_end_is_a_violation() -> None:
    with pytest.raises(ProtocolError, match="'finish': it ended after 2 chunks without a finish_reason"):
        read(ROLE, {"content": "a"})
