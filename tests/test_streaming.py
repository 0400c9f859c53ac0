"""``stream`` and ``astream``: events of an output that arrives in chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from unspool import CallArgs, CallEnd, MalformedOutput, Parser, UsageError, astream, parse, stream
from unspool.events import normalise
from unspool.healing import feedback
from unspool.wire import ChatStream, is_poisoned
from vocabularies import bytes_for

OUTPUT = '<think>Hm.</think>So. <tool_call>{"name": "f", "arguments": {"n": 1}}</tool_call>'


class Source:
    """Chunks that record whether they were closed."""

    def __init__(self, error: Exception | None = None) -> None:
        self.closed = False
        self.error = error
        self.count = 0

    def chunks(self) -> Iterator[str]:
        try:
            for at in range(0, len(OUTPUT), 3):
                self.count += 1
                yield OUTPUT[at : at + 3]
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True

    async def achunks(self) -> AsyncIterator[str]:
        try:
            for at in range(0, len(OUTPUT), 3):
                self.count += 1
                await asyncio.sleep(0)
                yield OUTPUT[at : at + 3]
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


def collect(source: Source, **options: Any) -> tuple[list[Any], Any]:
    events = stream(source.chunks(), "hermes", **options)
    return list(events), events


def collect_async(source: Source, **options: Any) -> tuple[list[Any], Any]:
    async def run() -> tuple[list[Any], Any]:
        events = astream(source.achunks(), "hermes", **options)
        return [event async for event in events], events

    return asyncio.run(run())


both = pytest.mark.parametrize("collect_events", [collect, collect_async])
Collect = Callable[..., tuple[list[Any], Any]]


def new_id(name: str, index: int) -> str:
    return f"{name}-{index}"


@both
def test_stream_gives_the_events_of_the_parser(collect_events: Collect) -> None:
    source = Source()
    events, iterator = collect_events(source, new_id=new_id, finish_reason="stop")
    parser = Parser("hermes", new_id=new_id)
    assert normalise(events) == normalise(parser.feed(OUTPUT) + parser.finish("stop"))
    assert iterator.message == parse(OUTPUT, "hermes", new_id=new_id, finish_reason="stop")
    assert source.closed


@both
def test_finish_reason_is_asked_after_the_last_chunk(collect_events: Collect) -> None:
    source = Source()
    asked: list[int] = []

    def reason() -> str:
        asked.append(source.count)
        return "length"

    events, _ = collect_events(source, finish_reason=reason)
    assert events[-1].reason == "length"
    assert asked == [-(-len(OUTPUT) // 3)]


@both
def test_error_of_the_source_passes_through(collect_events: Collect) -> None:
    source = Source(error=ConnectionError("gone"))
    with pytest.raises(ConnectionError, match="gone"):
        collect_events(source)
    assert source.closed


def test_events_arrive_with_their_chunk() -> None:
    source = Source()
    for event in stream(source.chunks(), "hermes"):
        assert event.end <= 3 * source.count


def test_leaving_early_closes_the_source_and_does_not_finish() -> None:
    source = Source()
    with stream(source.chunks(), "hermes") as events:
        for _ in events:
            break
        assert not source.closed
        assert events.message.content is None
    assert source.closed
    assert events.parser.feed("x") is not None, "the parser was finished"


def test_leaving_early_closes_an_asynchronous_source() -> None:
    async def run() -> bool:
        source = Source()
        async with astream(source.achunks(), "hermes") as events:
            async for _ in events:
                break
        return source.closed

    assert asyncio.run(run())


def test_message_grows_with_the_events() -> None:
    events = stream(["Hel", "lo", "."], "hermes")
    contents = [events.message.content for _ in events]
    assert contents == ["Hel", "Hello", "Hello.", "Hello."]


@pytest.mark.parametrize("policies", [None, {"truncated_call": "call"}])
def test_open_call_is_no_tool_call_of_the_message_so_far(policies: Any) -> None:
    with stream([OUTPUT[:-30], OUTPUT[-30:]], "hermes", policies=policies) as events:
        for event in events:
            if isinstance(event, CallEnd):
                break
            assert not events.message.tool_calls
            assert events.message.finish_reason is None
    assert [call.arguments for call in events.message.tool_calls] == ['{"n": 1}']
    assert events.message.finish_reason is None, "the output was not finished"


def test_message_so_far_with_an_open_call_is_safe_to_convert() -> None:
    with stream([OUTPUT[:-20]], "hermes") as events:
        for event in events:
            if isinstance(event, CallArgs):
                break
    assert "tool_calls" not in events.message.to_chat()
    (call,) = events.message.to_chat(broken="poison")["tool_calls"]
    assert is_poisoned(call["function"]["arguments"])
    choice: Any = ChatStream(Parser("hermes")).response(events.message)["choices"]
    assert choice[0]["finish_reason"] == "length"
    assert "is incomplete" in feedback(events.message, "hermes", None)[1]["content"]


def test_token_ids_are_chunks_with_a_tokenizer() -> None:
    tokenizer = bytes_for("hermes")
    ids = list(tokenizer.encode("Hello."))
    events = stream([ids[:2], ids[2:]], "hermes", tokenizer=tokenizer)
    assert [*events][-1].end == 6
    assert events.message.content == "Hello."
    with pytest.raises(UsageError, match="needs the model's tokenizer"):
        next(stream([[1, 2]], "hermes"))


def test_parse_takes_token_ids_with_a_tokenizer() -> None:
    tokenizer = bytes_for("hermes")
    text = 'Hm.</think>Hi. <tool_call>{"name": "f", "arguments": {"n": 1}}</tool_call>'
    ids = list(tokenizer.encode(text))

    def new_id(name: str, index: int) -> str:
        return f"{name}-{index}"

    whole = parse(text, "hermes", start_channel="reasoning", new_id=new_id)
    assert whole.reasoning == "Hm."
    prompt = tokenizer.encode("<|im_start|>assistant\n<think>\n")
    for begin in ({"start_channel": "reasoning"}, {"prompt": prompt}):
        options: Any = {**begin, "tokenizer": tokenizer, "new_id": new_id}
        assert parse(ids, "hermes", **options) == whole
        assert parse(iter(ids), "hermes", **options) == whole
    with pytest.raises(UsageError, match="for token ids, also pass tokenizer="):
        parse(ids, "hermes")
    with pytest.raises(UsageError, match="decode bytes"):
        parse(b"Hi.", "hermes")
    with pytest.raises(UsageError, match="leave tokenizer= out to parse text"):
        parse("Hi.", "hermes", tokenizer=tokenizer)


def test_parser_may_be_passed_with_its_options() -> None:
    events = stream(["Hm.</think>Hi."], Parser("hermes", start_channel="reasoning"))
    list(events)
    assert (events.message.reasoning, events.message.content) == ("Hm.", "Hi.")
    with pytest.raises(UsageError, match="pass these options to Parser"):
        stream(["a"], Parser("hermes"), tools=[])


def test_wrong_kind_of_chunks_is_named() -> None:
    source = Source()
    with pytest.raises(UsageError, match=r"unspool\.astream"):
        stream(source.achunks(), "hermes")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"unspool\.stream"):
        astream(source.chunks(), "hermes")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="decode bytes"):
        list(stream([b"abc"], "hermes"))


def test_swapped_arguments_are_named() -> None:
    with pytest.raises(UsageError, match=r"swapped: call stream\(chunks, 'hermes'\)"):
        stream("hermes", ["Hi."])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"swapped: call astream\(chunks, 'hermes'\)"):
        astream("hermes", Source().achunks())  # type: ignore[arg-type]


def test_strict_stream_raises_at_the_broken_call() -> None:
    broken = '<tool_call>{"name": "f", "arguments": {oops}}</tool_call>'
    events = stream(["Hi. ", broken, "never read"], "hermes", policies="strict")
    with pytest.raises(MalformedOutput):
        list(events)
    assert events.parser.pending == 0
