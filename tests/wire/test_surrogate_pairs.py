"""A character that JSON writes as two escapes is sent whole, on every wire and in every chunking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from unspool import Parser, Policies
from unspool.wire import ChatStream, MessagesStream, ResponsesStream, SurrogateJoiner

PAIR = "\\ud83d\\ude00"
ARGUMENTS = {
    "a pair": ('{"x": "' + PAIR + '"}', "complete"),
    "escaped backslashes are no halves": ('{"x": "\\\\ud83d"}', "complete"),
    "half a pair": ('{"x": "\\ud83d"}', "complete"),
    "half a pair, and the output ends": ('{"x": "\\ud83d', "truncated"),
}


def chat(chunk: Any) -> list[str]:
    calls = chunk["choices"][0]["delta"].get("tool_calls", ())
    return [call["function"]["arguments"] for call in calls if "id" not in call]


def messages(chunk: Any) -> list[str]:
    return [chunk["delta"]["partial_json"]] if "partial_json" in chunk.get("delta", {}) else []


def responses(chunk: Any) -> list[str]:
    return [chunk["delta"]] if chunk["type"] == "response.function_call_arguments.delta" else []


WIRES: dict[str, tuple[Callable[[Parser], Any], Callable[[Any], list[str]]]] = {
    "chat": (ChatStream, chat),
    "messages": (MessagesStream, messages),
    "responses": (ResponsesStream, responses),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_lone_surrogate_waits_for_its_pair(wire: str, name: str) -> None:
    arguments, status = ARGUMENTS[name]
    output = f'<tool_call>\n{{"name": "f", "arguments": {arguments}'
    output += "}\n</tool_call>" if status == "complete" else ""
    make, fragments_of = WIRES[wire]
    for size in (1, 2, 6, 7, len(output)):
        parser = Parser("hermes", policies=Policies())
        stream = make(parser)
        pieces = [output[at : at + size] for at in range(0, len(output), size)]
        chunks = [chunk for piece in pieces for chunk in stream.feed(parser.feed(piece))]
        chunks += stream.feed(parser.finish("stop" if status == "complete" else "length"))
        fragments = [fragment for chunk in chunks for fragment in fragments_of(chunk)]
        assert "".join(fragments).startswith(arguments)
        if status == "complete":
            assert "".join(fragments) == arguments
        if PAIR in arguments:
            assert any(PAIR in fragment for fragment in fragments)


def test_pair_split_between_chunks_is_joined() -> None:
    joiner = SurrogateJoiner()
    first = {"n": 1, "choices": [{"index": 1, "text": "a\ud83d"}, {"index": 0, "text": "b"}]}
    second = {"n": None, "choices": [{"index": 1, "text": "\ude00c"}]}
    assert joiner.join(first) == {"n": 1, "choices": [{"index": 1, "text": "a"}, {"index": 0, "text": "b"}]}
    assert joiner.join(second) == {"n": None, "choices": [{"index": 1, "text": "\U0001f600c"}]}


def test_half_of_a_pair_before_other_text_is_replaced() -> None:
    joiner = SurrogateJoiner()
    assert [joiner.join(text) for text in ("\ud83d", "", "x")] == ["", "", "\ufffdx"]
