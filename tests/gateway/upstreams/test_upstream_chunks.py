"""Upstream chunks with arbitrary values in any field: a failure or valid output, never a traceback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from unspool import plan
from unspool.errors import ProtocolError
from unspool.gateway.generation.planned_choice_reader import Reader
from unspool.gateway.http.failure import Failure
from unspool.gateway.http.json_encoding import encode_line as encode
from unspool.gateway.upstreams.base import Batch, UpstreamRequest
from unspool.gateway.upstreams.chat import ChatCompletionStream
from unspool.gateway.upstreams.completions import CompletionStream
from unspool.gateway.upstreams.http_client import IdleTimer
from unspool.gateway.upstreams.ollama import OllamaStream

PLAN = plan("hermes", {"messages": [{"role": "user", "content": "Hi"}]})
TASK = UpstreamRequest("x", {"messages": []}, PLAN, "", logprobs=2, token_ids=True)


class FakeEvents:
    """A stream of events that are already available."""

    def __init__(self, *reads: Sequence[bytes]) -> None:
        self._reads = iter(reads)
        self.end_marked = True
        self.idle_timer = IdleTimer(300.0)

    async def read(self) -> list[bytes] | None:
        chunk = next(self._reads, None)
        return None if chunk is None else list(chunk)

    async def close(self) -> None:
        pass


def batches(kind: type[CompletionStream], *reads: Sequence[bytes]) -> tuple[list[Batch], Failure | None]:
    """Return the batches of a stream, and the failure that it ends with."""

    async def read() -> tuple[list[Batch], Failure | None]:
        stream = kind(FakeEvents(*reads), TASK, finish_optional=False)  # type: ignore[arg-type]
        chunk: list[Batch] = []
        try:
            while (batch := await stream.next()) is not None:
                chunk.append(batch)
        except Failure as failure:
            return chunk, failure
        return chunk, None

    return asyncio.run(read())


COUNTS = {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 1}}
TOKEN = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [{"token": "b", "logprob": -1.0}]}
CHUNKS: dict[type[CompletionStream], list[dict[str, Any]]] = {
    CompletionStream: [
        {
            "object": "text_completion",
            "choices": [
                {
                    "index": 0,
                    "text": "a",
                    "finish_reason": "stop",
                    "stop_reason": "END",
                    "token_ids": [1, 2],
                    "prompt_token_ids": [3],
                    "logprobs": {
                        "tokens": ["a"],
                        "token_logprobs": [-0.5],
                        "top_logprobs": [{"a": -0.5, "b": -1.0}],
                    },
                }
            ],
            "usage": COUNTS,
        }
    ],
    ChatCompletionStream: [
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {
                        "content": "a",
                        "reasoning_content": "b",
                        "tool_calls": [
                            {"index": 0, "id": "x", "function": {"name": "f", "arguments": '{"a": 1}'}}
                        ],
                    },
                    "finish_reason": "tool_calls",
                    "logprobs": {"content": [TOKEN]},
                }
            ],
            "usage": COUNTS,
        }
    ],
    OllamaStream: [
        {
            "response": "a",
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 7,
            "eval_count": 5,
            "logprobs": [TOKEN],
        }
    ],
}


def nested_value(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


WRONG: list[Any] = [None, True, -1, 2**70, 1.5, 10**400, "0", "x" * 5000, "\ud800", [], {}, [[1]], {"a": 1}]
WRONG_TEXTS = ["1e400", "-1e400", "NaN", "1" * 5000, '"\\u0000"', "[" * 3000 + "]" * 3000, "{"]


def iter_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every position in a value, including the value itself."""
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from iter_places(one, (*place, key))


def replace_at(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    out = deepcopy(value)
    inner = out
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = new
    return out


def damage(chunk: dict[str, Any]) -> Iterator[bytes]:
    """Yield the chunk with another value in every position."""
    for place in iter_places(chunk):
        for value in WRONG:
            yield json.dumps(replace_at(chunk, place, value)).encode()
        for text in WRONG_TEXTS:
            yield json.dumps(replace_at(chunk, place, "HERE")).replace('"HERE"', text).encode()
        yield json.dumps(replace_at(chunk, place, nested_value(400))).encode()


@pytest.mark.parametrize("kind", CHUNKS)
def test_any_value_in_any_field_is_handled(kind: type[CompletionStream]) -> None:
    for chunk in CHUNKS[kind]:
        good, failure = batches(kind, [json.dumps(chunk).encode()])
        assert failure is None
        assert good[0].deltas
        for payload in damage(chunk):
            received, failure = batches(kind, [payload])
            assert failure is None or failure.code.startswith("upstream")
            reader = Reader(PLAN)
            for batch in received:
                for delta in batch.deltas:
                    with suppress(ProtocolError):
                        reader.feed(delta)
                encode([reader.take_logprobs(), reader.take_token_ids(), batch.usage])
                encode(batch.prompt_token_ids)


@pytest.mark.parametrize("kind", CHUNKS)
def test_deltas_before_a_broken_event_are_delivered(kind: type[CompletionStream]) -> None:
    """A12: text of the model is not lost because of a later failure."""
    good = {
        CompletionStream: b'{"choices": [{"text": "Hello"}]}',
        ChatCompletionStream: b'{"choices": [{"delta": {"content": "Hello"}}]}',
        OllamaStream: b'{"response": "Hello"}',
    }[kind]
    for broken in (b"{", b"[]", b'{"error": "boom"}', b"\xff"):
        received, failure = batches(kind, [good, broken, good])
        assert [delta.text for batch in received for delta in batch.deltas] == ["Hello"]
        assert failure is not None


@pytest.mark.parametrize("kind", CHUNKS)
def test_event_with_too_many_values_is_an_error(kind: type[CompletionStream]) -> None:
    """The event would be decoded in one step on the event loop."""
    _, failure = batches(kind, [b'{"error": [' + b"[]," * (1 << 18) + b"0]}"])
    assert failure is not None
    assert (failure.code, "too many values" in failure.message) == ("upstream_protocol", True)


SECOND = {
    CompletionStream: b'{"choices": [{"text": "a", "finish_reason": "stop"}]}',
    ChatCompletionStream: b'{"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}',
    OllamaStream: b'{"response": "a", "done": true}',
}


@pytest.mark.parametrize("kind", CHUNKS)
def test_second_response_after_the_first_is_ignored(kind: type[CompletionStream]) -> None:
    for reads in ([[SECOND[kind]], [SECOND[kind]]], [[SECOND[kind], SECOND[kind]]]):
        received, failure = batches(kind, *reads)
        assert [delta.text for batch in received for delta in batch.deltas] == ["a"]
        assert failure is not None
        assert failure.code == "upstream_protocol"


def test_empty_events_do_not_reset_the_idle_timer() -> None:
    now = iter(range(0, 10_000, 200))
    events = FakeEvents(*[[b'{"choices": []}']] * 100)
    events.idle_timer = IdleTimer(300.0, lambda: float(next(now)))

    async def read() -> None:
        stream = CompletionStream(events, TASK, finish_optional=False)  # type: ignore[arg-type]
        while await stream.next() is not None:
            pass

    with pytest.raises(Failure, match="no output for too long"):
        asyncio.run(read())


def test_empty_deltas_are_counted() -> None:
    """Otherwise they could continue forever."""
    received, _ = batches(CompletionStream, *[[b'{"choices": [{"text": ""}]}']] * 50)
    reader = Reader(PLAN)
    for batch in received:
        for delta in batch.deltas:
            reader.feed(delta)
    assert reader.size == 50


def test_arguments_that_are_not_json_are_not_a_complete_call() -> None:
    chunk = (
        b'{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": '
        b'{"name": "f", "arguments": "{\\"a\\": NaN}"}}]}, "finish_reason": "tool_calls"}]}'
    )
    received, _ = batches(ChatCompletionStream, [chunk])
    reader = Reader(PLAN)
    for batch in received:
        for delta in batch.deltas:
            reader.feed(delta)
    assert reader.outcomes == {"malformed": 1}
