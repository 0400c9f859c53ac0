"""Reasoning of Kimi K3 whose closing marker lacks its last token."""

from __future__ import annotations

import pytest

from unspool import Parser

THOUGHT = "<|open|>think<|sep|>thought<|close|>think"
CALL = (
    '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'
    '<|open|>argument key="a" type="string"<|sep|>x<|close|>argument<|sep|><|close|>call<|sep|>'
    "<|close|>tools<|sep|>"
)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    ("rest", "content", "names"),
    [("<|open|>response<|sep|>answer", "answer", []), (CALL, None, ["f"])],
)
def test_broken_closer_ends_reasoning(size: int, rest: str, content: str | None, names: list[str]) -> None:
    parser = Parser("kimi_k3")
    builder = parser.fold()
    text = THOUGHT + rest
    for start in range(0, len(text), size):
        builder.feed(parser.feed(text[start : start + size]))
    builder.feed(parser.finish())
    message = builder.message
    assert (message.reasoning, message.content) == ("thought", content)
    assert [call.name for call in message.tool_calls] == names


def test_closing_words_inside_reasoning_are_text() -> None:
    parser = Parser("kimi_k3")
    events = parser.feed(f"{THOUGHT}ing on<|close|>think<|sep|>answer") + parser.finish()
    message = parser.message(events)
    assert (message.reasoning, message.content) == ("thought<|close|>thinking on", "answer")
