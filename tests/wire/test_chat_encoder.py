"""Chat Completions streams as real clients read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from openai import ContentFilterFinishReasonError, LengthFinishReasonError
from openai._streaming import SSEDecoder
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from unspool import Parser
from unspool.errors import UsageError
from unspool.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Channel,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    Markup,
    Status,
    Text,
)
from unspool.message import BrokenCall, Message, Part, TextPart, ToolCall
from unspool.policies import Policies
from unspool.wire import (
    DONE,
    ChatStream,
    ChatStreamDecoder,
    Chunk,
    Usage,
    WireOptions,
    is_poisoned,
    is_poisoned_as_malformed,
    make_poison,
    remove_poison,
    sse,
)

# The wire has no spans.

KEEP = Policies(malformed_call="call", truncated_call="call")
"""Parts of a broken call stay on the wire, so the expected message keeps them."""


def wire(policies: Policies | None = None, *, forced: bool = False, **options: Any) -> ChatStream:
    return ChatStream(Parser("hermes", policies=policies, forced=forced), **options)


def content(text: str) -> Event:
    return Text("content", text, 0, 0)


def reasoning(text: str) -> Event:
    return Text("reasoning", text, 0, 0)


def call(index: int, *pieces: str, status: Status = "complete") -> list[Event]:
    return [
        CallStart(index, f"f{index}", f"call_{index}", 0, 0),
        *(CallArgs(index, piece, 0, 0) for piece in pieces),
        CallEnd(index, status, "" if status == "complete" else "raw", 0, 0),
    ]


def text_part(text: str) -> Part:
    return TextPart("content", text)


def reasoning_part(text: str) -> Part:
    return TextPart("reasoning", text)


def call_part(index: int, arguments: str) -> Part:
    return ToolCall(f"call_{index}", f"f{index}", arguments)


def markup() -> Event:
    return Markup("call", "<tool_call>", 0, 0)


def note(kind: str) -> Event:
    return Diagnostic(kind, "", 0, 0)


def as_received(part: Part) -> Part:
    """Return a part as a client that knows poison understands it."""
    if not isinstance(part, ToolCall) or not is_poisoned(part.arguments):
        return part
    status: Literal["malformed", "truncated"] = (
        "malformed" if is_poisoned_as_malformed(part.arguments) else "truncated"
    )
    return BrokenCall(part.id, part.name, remove_poison(part.arguments), status, "", "content")


@dataclass(frozen=True)
class Case:
    """Events without Finish, and the client's expected result."""

    events: Sequence[Event]
    parts: tuple[Part, ...]
    reason: FinishReason
    backend_reason: FinishReason | None = "stop"

    def stream(self, **options: Any) -> list[Chunk]:
        stream = wire(**options, model="m", id="chatcmpl-1", created=1)
        return stream.feed([*self.events, Finish(self.backend_reason, 0)])

    def joined(self, channel: str) -> str:
        return "".join(
            part.text for part in self.parts if isinstance(part, TextPart) and part.channel == channel
        )

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        return [(part.id, part.name, part.arguments) for part in self.parts if isinstance(part, ToolCall)]

    @property
    def message(self) -> Message:
        return Message(parts=[as_received(part) for part in self.parts], finish_reason=self.reason)

    @property
    def broken(self) -> bool:
        """Return whether an announced call has arguments that no JSON reader accepts."""
        return any(isinstance(event, CallEnd) and event.status == "malformed" for event in self.events)


CASES = {
    "nothing": Case([], (), "stop"),
    "text": Case([content("Hello"), content(" world")], (text_part("Hello world"),), "stop"),
    "text cut off": Case([content("Hel")], (text_part("Hel"),), "length", backend_reason="length"),
    "text filtered": Case(
        [content("Hel")], (text_part("Hel"),), "content_filter", backend_reason="content_filter"
    ),
    "reasoning": Case(
        [reasoning("Let me "), reasoning("see."), markup(), content("Hi")],
        (reasoning_part("Let me see."), text_part("Hi")),
        "stop",
    ),
    "one call": Case(
        [content("Now:"), markup(), *call(0, '{"a"', ": 1", "", "}"), markup()],
        (text_part("Now:"), call_part(0, '{"a": 1}')),
        "tool_calls",
    ),
    "three calls": Case(
        [*call(0, '{"a": 1}'), markup(), *call(1, '{"b": ', "[2]}"), *call(2, '{"c": "é\\n"}')],
        (call_part(0, '{"a": 1}'), call_part(1, '{"b": [2]}'), call_part(2, '{"c": "é\\n"}')),
        "tool_calls",
    ),
    "call without arguments": Case(call(0, "{}"), (call_part(0, "{}"),), "tool_calls"),
    "call without arguments, nothing sent": Case(
        [*call(0), *call(1, "", "")], (call_part(0, "{}"), call_part(1, "{}")), "tool_calls"
    ),
    "truncated call": Case(
        [*call(0, '{"a": "he', status="truncated"), note("truncated_call")],
        (call_part(0, '{"a": "he\\u"]'),),
        "length",
    ),
    "truncated call after a complete one": Case(
        [*call(0, '{"a": 1}'), *call(1, status="truncated")],
        (call_part(0, '{"a": 1}'), call_part(1, '{"\\u"]')),
        "length",
    ),
    "cut head": Case([content("Now:"), note("cut_head")], (text_part("Now:"),), "length"),
    "cut head after a call": Case([*call(0, "{}"), note("cut_head")], (call_part(0, "{}"),), "length"),
    "malformed call": Case(
        [*call(0, '{"a": ', status="malformed"), note("malformed_call")],
        (call_part(0, '{"a": "\\u<malformed>"]'),),
        "tool_calls",
    ),
    "malformed call, cut off later": Case(
        [*call(0, '{"a": ', status="malformed"), content("And")],
        (call_part(0, '{"a": "\\u<malformed>"]'), text_part("And")),
        "length",
        backend_reason="length",
    ),
    "malformed call after a complete one": Case(
        [*call(0, "{}"), *call(1, "{", status="malformed")],
        (call_part(0, "{}"), call_part(1, '{"\\u<malformed>"]')),
        "tool_calls",
    ),
    "complete call after a malformed one": Case(
        [*call(0, "{", status="malformed"), *call(1, "{}")],
        (call_part(0, '{"\\u<malformed>"]'), call_part(1, "{}")),
        "tool_calls",
    ),
    "the backend's guess": Case([content("Hi")], (text_part("Hi"),), "stop", backend_reason="tool_calls"),
    "the backend knows nothing": Case(
        call(0, "{}"), (call_part(0, "{}"),), "tool_calls", backend_reason=None
    ),
    "text after a call": Case(
        [*call(0, '{"a": 1}'), content("Done.")], (call_part(0, '{"a": 1}'), text_part("Done.")), "tool_calls"
    ),
    "text after a call, cut off": Case(
        [*call(0, "{}"), content("Do")],
        (call_part(0, "{}"), text_part("Do")),
        "tool_calls",
        backend_reason="length",
    ),
    "reasoning after a call": Case(
        [reasoning("One."), *call(0, '{"a": 1}'), reasoning("Two."), content("Hi")],
        (reasoning_part("One."), call_part(0, '{"a": 1}'), reasoning_part("Two."), text_part("Hi")),
        "tool_calls",
    ),
}

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def deltas(chunks: Iterable[Chunk]) -> list[Any]:
    """Return the deltas of chunks with one choice each."""
    out = []
    for chunk in chunks:
        choices: Any = chunk["choices"]
        (choice,) = choices
        out.append(choice["delta"])
    return out


# The exact keys of every chunk.


def test_step_gives_chunks() -> None:
    case = Case([reasoning("Hm"), content("Now:"), *call(0, '{"a"', ": 1}")], (), "tool_calls")
    chunks = case.stream()
    assert deltas(chunks) == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "Hm", "reasoning": "Hm"},
        {"content": "Now:"},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_0",
                    "type": "function",
                    "function": {"name": "f0", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1}'}}]},
        {},
    ]
    assert chunks[0] == {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None},
        ],
    }
    assert chunks[-1]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]


@cases
def test_deltas_contain_no_null(case: Case) -> None:
    assert "null" not in json.dumps(deltas(case.stream()))


def test_markup_and_diagnostics_do_not_split_deltas() -> None:
    events = [content("a"), markup(), content("b"), note("stray_closer"), content(""), content("c")]
    assert deltas(wire().feed(events))[1:] == [{"content": "abc"}]


def test_empty_deltas_are_not_sent() -> None:
    assert len(wire().feed([content(""), reasoning(""), markup(), note("repaired")])) == 1


def test_call_may_be_the_first_chunk() -> None:
    stream = wire()
    assert deltas(stream.feed([])) == [{"role": "assistant", "content": ""}]
    assert stream.feed([]) == []
    assert deltas(stream.feed([content("a")])) == [{"content": "a"}]


def test_call_without_arguments_gets_one_delta() -> None:
    for events in (call(0), call(0, ""), call(0, "{}"), call(0, "", "{", "}")):
        sent = deltas(wire().feed(events))[2:]
        assert sent == [{"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}]


@pytest.mark.parametrize(
    ("status", "poison"), [("truncated", '{"\\u"]'), ("malformed", '{"\\u<malformed>"]')]
)
def test_broken_call_gets_unreadable_arguments(status: Status, poison: str) -> None:
    sent = deltas(wire().feed(call(0, status=status)))[2:]
    assert sent == [{"tool_calls": [{"index": 0, "function": {"arguments": poison}}]}]


def test_reasoning_field_follows_the_option() -> None:
    fields: list[Literal["reasoning_content", "reasoning"]] = ["reasoning_content", "reasoning"]
    for field in fields:
        stream = wire(options=WireOptions(reasoning_field=field))
        assert deltas(stream.feed([reasoning("Hm")]))[1] == {field: "Hm"}
        whole: Any = stream.response(Message(reasoning="Hm"))
        message = whole["choices"][0]["message"]
        assert message == {"role": "assistant", "content": "", field: "Hm"}


@pytest.mark.parametrize(
    ("forced", "policy", "status", "reason"),
    [
        (True, "stop", "complete", "stop"),
        (True, "tool_calls", "complete", "tool_calls"),
        (False, "stop", "complete", "tool_calls"),
        (True, "stop", "truncated", "length"),
    ],
)
def test_forced_call_finish_reason_follows_the_option(
    *, forced: bool, policy: Literal["stop", "tool_calls"], status: Status, reason: str
) -> None:
    stream = wire(forced=forced, options=WireOptions(forced_finish_reason=policy))
    chunks = stream.feed([*call(0, "{}", status=status), Finish("stop", 0)])
    assert chunks[-1]["choices"] == [{"index": 0, "delta": {}, "finish_reason": reason}]


@cases
def test_stream_equals_the_built_message(case: Case) -> None:
    message = Parser("hermes", policies=KEEP).message([*case.events, Finish(case.backend_reason, 0)])
    assert message.finish_reason == case.reason


def test_choices_are_independent() -> None:
    streams = [wire(id="x", created=1, index=index) for index in range(2)]
    chunks = [chunk for stream in streams for chunk in stream.feed([])]
    chunks += [*streams[1].feed([content("b"), *call(0, "{}")]), *streams[0].feed([content("a")])]
    chunks += [chunk for stream in streams for chunk in stream.feed([Finish("stop", 0)])]
    for index, (text, reason) in enumerate([("a", "stop"), ("b", "tool_calls")]):
        reader = ChatStreamDecoder(index=index)
        for chunk in chunks:
            reader.feed(chunk)
        assert (reader.finish().content, reader.finish().finish_reason) == (text, reason)
    completion = openai_completion(chunks)
    assert [choice.message.content for choice in completion.choices] == ["a", "b"]


def test_usage_comes_last_and_is_sent_if_it_is_passed() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    for include in (False, True, None):
        stream = wire(include_usage=include)
        assert len(stream.feed([], usage=usage)) == 1
        *_, last = stream.feed([Finish("stop", 0)])
        counts = Usage.from_mapping(usage).to_chat()
        assert usage.items() <= counts.items()
        assert (last["choices"] == []) is (include is not False)
        assert last.get("usage") == (None if include is False else counts)
        assert stream.feed([], usage=usage) == []


def test_chunks_without_usage_have_null_only_on_request() -> None:
    for include in (False, True, None):
        stream = wire(include_usage=include)
        chunks = stream.feed([content("a"), Finish("stop", 0)])
        assert all(chunk["choices"] for chunk in chunks), "no usage was passed"
        assert {"usage" in chunk for chunk in chunks} == {include is True}


def test_usage_in_sse_comes_before_done() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    *_, last, done = wire().sse([Finish("stop", 0)], usage=usage).split("\n\n")[:-1]
    assert done == "data: [DONE]"
    assert json.loads(last.removeprefix("data: "))["usage"]["total_tokens"] == 3


def test_usage_may_follow_the_last_choice() -> None:
    stream = wire(include_usage=True)
    stream.feed([Finish("stop", 0)])
    (chunk,) = stream.feed([], usage=Usage(1, 2, 1, 2))
    assert chunk["usage"] == Usage(1, 2, 1, 2).to_chat()


def test_encoding_after_finish_is_an_error() -> None:
    stream = wire()
    stream.feed([Finish("stop", 0)])
    assert stream.feed([]) == []
    with pytest.raises(UsageError, match="after Finish"):
        stream.feed([content("a")])


def test_ids_and_timestamps_are_generated() -> None:
    one, two = wire(), wire()
    assert one.id.startswith("chatcmpl-")
    assert one.id != two.id
    assert one.created > 1_700_000_000


# Server-sent events, decoded by OpenAI's client.


def test_sse_framing_survives_any_text() -> None:
    text = "a\n\n\u2028\u0085\r\x0bé😀\ud83d"
    chunks = Case([content(text)], (), "stop").stream()
    body = "".join(map(sse, chunks)) + DONE
    decoder = SSEDecoder()
    data = [event.data for event in decoder.iter_bytes(iter([body.encode()]))]
    assert data.pop() == "[DONE]"
    assert [json.loads(item) for item in data] == chunks
    assert len(body.splitlines()) == 2 * (len(chunks) + 1)


# Accumulators of client libraries.


def openai_completion(chunks: Iterable[Chunk]) -> Any:
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in chunks:
        list(state.handle_chunk(ChatCompletionChunk.model_validate(chunk)))
    try:
        return state.get_final_completion()
    except (LengthFinishReasonError, ContentFilterFinishReasonError):
        return state.current_completion_snapshot  # the client raises for these finish reasons


@cases
def test_openai_client_reads_the_stream(case: Case) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    stream = wire(include_usage=True)
    chunks = [chunk for event in case.events for chunk in stream.feed([event])]
    chunks += [*stream.feed([Finish(case.backend_reason, 0)], usage=usage)]
    for sent in (chunks, case.stream()):
        (choice,) = openai_completion(sent).choices
        assert choice.finish_reason == case.reason
        assert choice.message.role == "assistant"
        assert choice.message.content == case.joined("content")
        extra = choice.message.model_extra
        assert extra.get("reasoning_content", "") == case.joined("reasoning")
        assert extra.get("reasoning", "") == case.joined("reasoning")
        calls = choice.message.tool_calls or []
        assert [(call.id, call.function.name, call.function.arguments) for call in calls] == case.calls
        assert all(call.type == "function" for call in calls)
    assert openai_completion(chunks).usage.total_tokens == 3


def langchain_message(chunks: Iterable[Chunk]) -> tuple[AIMessageChunk, str]:
    model = ChatOpenAI(model="m", api_key=lambda: "none")
    total: ChatGenerationChunk | None = None
    for chunk in chunks:
        part = model._convert_chunk_to_generation_chunk(chunk, AIMessageChunk, None)
        if part is not None:
            total = part if total is None else total + part
    assert total is not None
    assert isinstance(total.message, AIMessageChunk)
    return total.message, (total.generation_info or {})["finish_reason"]


def is_complete(event: Event) -> bool:
    return isinstance(event, CallEnd) and event.status == "complete"


@cases
def test_langchain_reads_the_stream(case: Case) -> None:
    message, reason = langchain_message(case.stream())
    assert reason == case.reason
    assert message.content == case.joined("content")  # this client has no field for reasoning
    sent = [(call["id"], call["name"], call["args"]) for call in message.tool_call_chunks]
    assert sent == case.calls
    assert len(message.tool_calls) == len([end for end in case.events if is_complete(end)])
    if case.reason == "tool_calls" and not case.broken:
        assert [(call["id"], call["name"], call["args"]) for call in message.tool_calls] == [
            (id_, name, json.loads(arguments)) for id_, name, arguments in case.calls
        ]
        assert not message.invalid_tool_calls


def reconstruct(chunks: Iterable[Chunk]) -> Message:
    reader = ChatStreamDecoder()
    for chunk in chunks:
        assert not reader.finished
        reader.feed(chunk)
    assert reader.finished
    return reader.finish()


@cases
def test_decoder_restores_the_message(case: Case) -> None:
    assert reconstruct(case.stream()) == case.message


@pytest.mark.parametrize("field", ["both", "reasoning_content", "reasoning"])
def test_decoder_reads_each_reasoning_field(
    field: Literal["both", "reasoning_content", "reasoning"],
) -> None:
    case = CASES["reasoning after a call"]
    assert reconstruct(case.stream(options=WireOptions(reasoning_field=field))) == case.message


# Complete responses, validated by the client's own model.


@cases
def test_completion_validates(case: Case) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    response = wire(model="m", id="chatcmpl-1", created=1).response(case.message, usage=usage)
    completion = ChatCompletion.model_validate(response, strict=True)
    assert (completion.id, completion.model, completion.created) == ("chatcmpl-1", "m", 1)
    assert completion.usage is not None
    assert completion.usage.total_tokens == 3
    (choice,) = completion.choices
    assert choice.finish_reason == case.reason
    assert choice.message.content == (case.joined("content") or (None if case.calls else ""))
    assert (choice.message.model_extra or {}).get("reasoning", "") == case.joined("reasoning")
    calls = [call for call in choice.message.tool_calls or [] if call.type == "function"]
    assert [(call.id, call.function.name, call.function.arguments) for call in calls] == case.calls


def test_completion_equals_the_documented_dict() -> None:
    call = ToolCall("call_0", "f", "{}")
    response = wire(id="x", created=1).response(
        Message(tool_calls=(call,), finish_reason="tool_calls"), Message(content="Hi")
    )
    function = {"name": "f", "arguments": "{}"}
    assert response == {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
                },
                "finish_reason": "tool_calls",
            },
            {"index": 1, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"},
        ],
    }


# Laws.

texts = st.text(max_size=6)
arguments = st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(st.booleans())).map(
    json.dumps
)


steps: st.SearchStrategy[Channel | Status | None] = st.sampled_from(
    ["content", "reasoning", "complete", "malformed", None]
)


def pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[a:b] for a, b in pairwise([0, *cuts, len(text)])]


@st.composite
def outputs(draw: st.DrawFn) -> Case:
    """Generate events in an order that a parser may give them, and the message that they build."""
    events: list[Event] = []
    count = 0
    truncated: list[Status] = draw(st.sampled_from([[], ["truncated"]]))
    for step in [*draw(st.lists(steps)), *truncated]:
        match step:
            case None:
                events.append(markup())
            case "content" | "reasoning":
                events += [Text(step, piece, 0, 0) for piece in pieces(draw, draw(texts)) if piece]
            case _:
                sent = draw(arguments)
                if step != "complete":
                    sent = sent[: draw(st.integers(0, len(sent) - 1))]
                events += call(count, *pieces(draw, sent), status=step)
                count += 1
    reasons: list[FinishReason | None] = ["stop", "length", "content_filter", None]
    reason = draw(st.sampled_from(reasons))
    message = Parser("hermes", policies=KEEP).message([*events, Finish(reason, 0)])
    parts: list[Part] = [
        ToolCall(part.id, part.name, part.arguments + make_poison(part.arguments, part.status))
        if isinstance(part, BrokenCall)
        else part
        for part in message.parts
    ]
    assert message.finish_reason is not None
    return Case(events, tuple(parts), message.finish_reason, reason)


@given(outputs(), st.data())
def test_any_chunking_gives_the_same_message(case: Case, data: st.DataObject) -> None:
    events = [*case.events, Finish(case.backend_reason, 0)]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=5)))
    bounds = [0, *cuts, len(events)]
    stream = wire(id="chatcmpl-1", created=1, model="m")
    feeds = [stream.feed(events[a:b]) for a, b in pairwise(bounds)]
    chunks = [chunk for feed in feeds for chunk in feed]
    whole = case.stream()
    assert reconstruct(chunks) == case.message
    assert reconstruct(whole) == case.message
    assert len(whole) <= len(chunks) <= len(whole) + len(cuts)


@given(outputs())
def test_any_output_reads_the_same_in_every_client(case: Case) -> None:
    chunks = case.stream()
    (choice,) = openai_completion(chunks).choices
    message, reason = langchain_message(chunks)
    assert choice.finish_reason == reason == case.reason
    assert choice.message.content == message.content == case.joined("content")
    calls = choice.message.tool_calls or []
    assert [(call.id, call.function.name, call.function.arguments) for call in calls] == case.calls
    assert [(call["id"], call["name"], call["args"]) for call in message.tool_call_chunks] == case.calls


@given(outputs())
def test_reason_tool_calls_needs_a_complete_call(case: Case) -> None:
    statuses = [event.status for event in case.events if isinstance(event, CallEnd)]
    if not {"complete", "malformed"} & set(statuses):
        assert case.reason != "tool_calls"
    if "truncated" in statuses:
        assert case.reason == "length"
