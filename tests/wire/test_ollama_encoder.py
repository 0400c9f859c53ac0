"""Ollama's lines as Ollama's own client reads them; ``test_parsing_laws`` checks the wire law."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ollama")

from ollama import ChatResponse, GenerateResponse

from unspool import Parser, Policies, parse
from unspool.errors import MalformedOutput, UsageError
from unspool.events import Text
from unspool.wire import Chunk, OllamaStream, Usage

CALL = '<tool_call>\n{"name": "f", "arguments": {"a": [1, "é"]}}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": "f", "arguments": {"a": }}\n</tool_call>'


def lines(text: str, size: int, *, finish: Any = "stop", form: Any = "chat", **policies: Any) -> list[Chunk]:
    parser = Parser("hermes", policies=Policies(**policies))
    stream = OllamaStream(parser, model="m", form=form, created=0)
    out = [
        line for at in range(0, len(text), size) for line in stream.feed(parser.feed(text[at : at + size]))
    ]
    return out + stream.feed(parser.finish(finish), usage=Usage(output_tokens=3))


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_turn_gives_lines(size: int) -> None:
    read = [
        ChatResponse.model_validate(line) for line in lines(f"<think>\nHm.\n</think>\n\nSo.\n{CALL}", size)
    ]
    assert "".join(line.message.content or "" for line in read) == "So."
    assert "".join(line.message.thinking or "" for line in read) == "Hm."
    calls = [call.function for line in read for call in line.message.tool_calls or ()]
    assert [(call.name, call.arguments) for call in calls] == [("f", {"a": [1, "é"]})]
    assert [line.done for line in read] == [False] * (len(read) - 1) + [True]
    assert (read[-1].done_reason, read[-1].eval_count) == ("stop", 3)
    assert read[0].created_at == "1970-01-01T00:00:00Z"


def test_generate_form_is_supported() -> None:
    read = [
        GenerateResponse.model_validate(line)
        for line in lines("<think>\nHm.\n</think>\n\nSo.", 1, form="generate")
    ]
    assert "".join(line.response or "" for line in read) == "So."
    assert "".join(line.thinking or "" for line in read) == "Hm."


def test_broken_call_is_not_announced() -> None:
    assert "".join(line["message"]["content"] for line in lines(BROKEN, 1)) == BROKEN  # type: ignore[index]
    assert [line["done"] for line in lines(BROKEN, 1, malformed_call="drop")] == [True]
    assert "error" in lines(BROKEN, 1, malformed_call="call")[-1]
    assert "error" in lines(BROKEN, 1, malformed_call="error")[-1]
    cut = lines(CALL[:-20], 1, finish="length")
    assert [(line["done"], line.get("done_reason")) for line in cut] == [(True, "length")]
    policies = Policies(malformed_call="call")
    with pytest.raises(MalformedOutput):
        OllamaStream(Parser("hermes", policies=policies)).response(parse(BROKEN, "hermes", policies=policies))


def test_stream_encodes_one_output() -> None:
    parser = Parser("hermes")
    stream = OllamaStream(parser)
    stream.feed(parser.finish("stop"))
    with pytest.raises(UsageError, match="one OllamaStream per output"):
        stream.feed([Text("content", "x", 0, 1)])


def test_calls_are_numbered_from_zero() -> None:
    text = f"{CALL}\n{CALL}"
    response = OllamaStream(Parser("hermes")).response(parse(text, "hermes"))
    for messages in ([line["message"] for line in lines(text, 7)], [response["message"]]):
        calls = [call["function"] for message in messages for call in message.get("tool_calls", ())]  # type: ignore[attr-defined]
        assert calls == [{"index": index, "name": "f", "arguments": {"a": [1, "é"]}} for index in (0, 1)]
