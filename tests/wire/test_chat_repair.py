"""Repair of Chat Completions whose text contains markup, chunk by chunk and as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool import MalformedOutput, Parser, Policies
from unspool._core.conversions.make_broken_arguments_unparsable import is_poisoned
from unspool.errors import ProtocolError
from unspool.sample_outputs import SampleOutput, list_samples, tools
from unspool.wire import ChatRepair, ChatStreamDecoder, ChoiceReader

Delta = dict[str, Any]
HEAD = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 5, "model": "m"}
CALL = '<tool_call>\n{"name": "now", "arguments": {"tz": "Europe/Oslo"}}\n</tool_call>'
OUTPUT = f"<think>Which zone?</think>Let me look.\n{CALL}"
SAMPLES = list_samples()


def repair(
    dialect: str = "hermes", *, prompt: str | None = None, policies: Policies | None = None
) -> ChatRepair:
    def parser() -> Parser:
        return Parser(dialect, tools=tools(), prompt=prompt, policies=policies or Policies())

    return ChatRepair(lambda: ChoiceReader(parser(), lambda: Parser(dialect)))


def chunk(delta: Delta, reason: str | None = None, /, index: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": reason, **more}
    return {**HEAD, "choices": [choice]}


def texts(text: str, size: int = 3) -> list[dict[str, Any]]:
    return [chunk({"content": text[at : at + size]}) for at in range(0, len(text), size)]


def streamed(chunks: Iterable[dict[str, Any]], reading: ChatRepair | None = None) -> list[Any]:
    """Return the repaired chunks of a stream that ends with its marker."""
    reading = reading or repair()
    out: list[Any] = []
    for one in chunks:
        out += reading.feed(one)
    return out + reading.finish(end_marked=True)


def decoded(chunks: Sequence[dict[str, Any]]) -> tuple[Any, ...]:
    """Return what a strict client reads."""
    decoder = ChatStreamDecoder()
    for one in chunks:
        decoder.feed(one)
    message = decoder.finish()
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    return message.reasoning, message.content, calls, message.finish_reason


def whole(text: str, reason: str = "stop", reading: ChatRepair | None = None, **message: Any) -> Any:
    body = {
        **HEAD,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **message},
                "finish_reason": reason,
            }
        ],
        "usage": {"total_tokens": 9},
    }
    return (reading or repair()).response(body)


def read_whole(body: Any) -> tuple[Any, ...]:
    choice = body["choices"][0]
    message = choice["message"]
    calls = [
        (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())
    ]
    return message.get("reasoning"), message["content"], calls, choice["finish_reason"]


def reading_of(sample: SampleOutput) -> ChatRepair:
    return repair(sample.dialect.name, prompt=sample.prompt)


# -- the law: it does not matter how the server splits the text


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.dialect.name)
def test_any_chunking_is_read_as_the_whole(sample: SampleOutput) -> None:
    parser = Parser(sample.dialect, tools=tools(), prompt=sample.prompt)
    message = parser.message(parser.feed(sample.output) + parser.finish("stop"))
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    expected = (message.reasoning, message.content, calls, message.finish_reason)
    assert read_whole(whole(sample.output, reading=reading_of(sample))) == expected
    for size in (1, 2, 7, 50, len(sample.output)):
        chunks = [*texts(sample.output, size), chunk({}, "stop")]
        assert decoded(streamed(chunks, reading_of(sample))) == expected


@given(st.lists(st.integers(0, len(OUTPUT)), max_size=8), st.booleans())
def test_text_may_be_split_anywhere(cuts: list[int], late_reason: bool) -> None:
    ends = sorted({*cuts, len(OUTPUT)})
    pieces = [OUTPUT[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    chunks = [chunk({"content": piece}) for piece in pieces]
    if late_reason:
        chunks.append(chunk({}, "stop"))
    else:
        chunks[-1]["choices"][0]["finish_reason"] = "stop"
    calls = [("now", '{"tz": "Europe/Oslo"}')]
    assert decoded(streamed(chunks)) == ("Which zone?", "Let me look.", calls, "tool_calls")


# -- what passes


def test_fields_of_the_chunks_pass() -> None:
    chunks = [{**one, "system_fingerprint": "fp"} for one in [*texts("Hello."), chunk({}, "stop")]]
    out = streamed(chunks)
    assert len(out) > 3
    for one in out:
        assert {**one, "choices": []} == {**HEAD, "system_fingerprint": "fp", "choices": []}


def test_chunks_without_choices_pass() -> None:
    usage = {**HEAD, "choices": [], "usage": {"total_tokens": 3}}
    error = {"error": {"message": "out of memory"}}
    out = streamed([*texts("Hello."), chunk({}, "stop"), usage, error])
    assert out[-2:] == [usage, error]


def test_usage_in_a_chunk_whose_text_is_held_back_is_sent() -> None:
    reading = repair()
    out = reading.feed(chunk({"role": "assistant", "content": "Hi "}))
    out += reading.feed({**chunk({"content": "<tool"}), "usage": {"total_tokens": 4}})
    assert (out[-1]["choices"], out[-1]["usage"]) == (
        [{"index": 0, "delta": {}, "finish_reason": None}],
        {"total_tokens": 4},
    )
    out += reading.feed(chunk({"content": "box>"}, "stop"))
    assert decoded([{**one, "usage": None} for one in out])[1] == "Hi <toolbox>"


def test_usage_is_sent_once_per_chunk_of_the_server() -> None:
    """Clients may add up the usage of all chunks."""
    out = streamed([{**chunk({"content": OUTPUT}, "stop"), "usage": {"total_tokens": 4}}])
    assert [one["usage"] for one in out if one["usage"]] == [{"total_tokens": 4}]
    assert len(out) > 4


def test_calls_and_reasoning_of_the_server_pass() -> None:
    function = {"name": "now", "arguments": '{"tz": '}
    chunks = [
        chunk({"role": "assistant", "reasoning_content": "Which "}),
        chunk({"reasoning_content": "zone?"}),
        chunk({"content": "Let me look."}),
        chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"UTC"}'}}]}),
        chunk({}, "tool_calls"),
    ]
    out = streamed(chunks)
    calls = [("now", '{"tz": "UTC"}')]
    assert decoded(out) == ("Which zone?", "Let me look.", calls, "tool_calls")
    assert [
        call["id"] for one in out for call in one["choices"][0]["delta"].get("tool_calls", ()) if "id" in call
    ] == ["c1"]


def test_additional_fields_of_calls_and_deltas_pass() -> None:
    """Gemini's endpoint adds a signature to a call, and audio models add audio to a delta."""
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "now", "arguments": "{}"},
        "extra_content": {"signature": "s"},
    }
    first = streamed([chunk({"tool_calls": [{"index": 0, **call}]}), chunk({}, "tool_calls")])
    openers = [c for one in first for c in one["choices"][0]["delta"].get("tool_calls", ()) if "id" in c]
    assert openers[0]["extra_content"] == {"signature": "s"}
    body = whole("", "tool_calls", tool_calls=[call], refusal=None, audio={"id": "a"})
    message = body["choices"][0]["message"]
    assert message["tool_calls"] == [call]
    assert (message["refusal"], message["audio"]) == (None, {"id": "a"})
    out = streamed([chunk({"audio": {"id": "a"}, "refusal": None}), chunk({}, "stop")])
    assert [one["choices"][0]["delta"].get("audio") for one in out].count({"id": "a"}) == 1


def test_custom_calls_pass() -> None:
    custom = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    out = streamed([chunk({"tool_calls": [custom]}), chunk({}, "tool_calls")])
    assert [one["choices"][0]["delta"].get("tool_calls") for one in out].count([custom]) == 1
    assert whole("", "tool_calls", tool_calls=[custom])["choices"][0]["message"]["tool_calls"] == [custom]


def test_content_that_is_not_text_passes() -> None:
    parts = [{"type": "text", "text": "Hi"}]
    out = streamed([chunk({"content": parts}), chunk({}, "stop")])
    assert [one["choices"][0]["delta"].get("content") for one in out].count(parts) == 1


def test_choices_are_independent() -> None:
    chunks: list[dict[str, Any]] = []
    for first, second in zip(texts(OUTPUT), texts(OUTPUT.replace("Oslo", "Rome")), strict=True):
        second["choices"][0]["index"] = 1
        chunks += [first, second]
    chunks += [chunk({}, "stop"), chunk({}, "length", index=1)]
    out = streamed(chunks)
    for index, city in enumerate(("Oslo", "Rome")):
        mine = [
            {**one, "choices": [{**one["choices"][0], "index": 0}]}
            for one in out
            if one["choices"][0]["index"] == index
        ]
        assert decoded(mine)[2] == [("now", f'{{"tz": "Europe/{city}"}}')]


def test_no_log_probability_and_no_token_id_is_lost() -> None:
    chunks = []
    for number, one in enumerate(texts(OUTPUT)):
        one["choices"][0]["logprobs"] = {"content": [{"token": str(number), "logprob": -0.5}]}
        one["choices"][0]["token_ids"] = [number]
        chunks.append(one)
    out = streamed([*chunks, chunk({}, "stop")])
    tokens = [
        entry["token"]
        for one in out
        for entry in (one["choices"][0].get("logprobs") or {"content": []})["content"]
    ]
    ids = [id for one in out for id in one["choices"][0].get("token_ids", ())]
    assert ids == list(range(len(chunks)))
    assert tokens == [str(number) for number in ids]


# -- the end


def test_unknown_finish_reason_passes_and_its_open_call_cannot_run() -> None:
    out = streamed([*texts(OUTPUT[:-20]), chunk({}, "abort")])
    assert out[-1]["choices"][0]["finish_reason"] == "abort"
    assert is_poisoned(arguments_in(out))


def test_stream_with_an_end_marker_but_no_finish_reason_gets_one() -> None:
    assert decoded(streamed(texts(OUTPUT)))[3] == "tool_calls"


@pytest.mark.parametrize("text", ["One ", "One <tool", "<think>Hm", "One\n\n<"])
def test_stream_that_breaks_off_is_read_as_truncated(text: str) -> None:
    reading = repair()
    out: list[Any] = [one for part in texts(text) for one in reading.feed(part)]
    out += reading.finish(end_marked=False)
    parser = Parser("hermes")
    content = parser.message(parser.feed(text) + parser.finish("length")).content
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in out) == (content or "")
    assert {one["choices"][0]["finish_reason"] for one in out} == {None}


def test_call_in_a_stream_that_breaks_off_cannot_run() -> None:
    reading = repair()
    out: list[Any] = [one for part in texts(OUTPUT[:-20]) for one in reading.feed(part)]
    out += reading.finish(end_marked=False)
    assert is_poisoned(arguments_in(out))
    assert {one["choices"][0]["finish_reason"] for one in out} == {None}


def arguments_in(chunks: Iterable[Any]) -> str:
    calls = [call for one in chunks for call in one["choices"][0]["delta"].get("tool_calls", ())]
    return "".join(call["function"]["arguments"] for call in calls)


def test_output_after_the_finish_reason_is_an_error() -> None:
    reading = repair()
    reading.feed(chunk({"content": "a"}, "stop"))
    assert reading.feed(chunk({}, None)) == []
    with pytest.raises(ProtocolError, match="has finished"):
        reading.feed(chunk({"content": "b"}))


@pytest.mark.parametrize("choice", [[], {"index": "0"}, {"index": True}, {"index": 0, "delta": "a"}], ids=str)
def test_choice_of_another_type_is_an_error(choice: Any) -> None:
    with pytest.raises(ProtocolError):
        repair().feed({**HEAD, "choices": [choice]})


def test_malformed_call_is_an_error_only_under_this_policy() -> None:
    broken = CALL.replace('"tz":', "tz:")
    policies = Policies(malformed_call="error")
    reading = repair(policies=policies)
    out = streamed(texts(broken), reading)
    assert reading.failed
    assert out[-1]["error"]["code"] == "malformed_call"
    assert reading.feed(chunk({"content": "more"})) == []
    with pytest.raises(MalformedOutput):
        whole(broken, reading=repair(policies=policies))
    assert not repair_fails(broken)


def repair_fails(text: str) -> bool:
    reading = repair()
    streamed(texts(text), reading)
    return reading.failed


@pytest.mark.parametrize("text", ["", "Hello.", "  a < b\n"])
def test_text_without_markup_is_unchanged(text: str) -> None:
    assert read_whole(whole(text, "length")) == (None, text, [], "length")
    assert json.dumps(whole(text)["usage"]) == '{"total_tokens": 9}'
