"""Deltas for an engine's server equal the Chat Completions stream, in any chunking, also for cut outputs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unspool import MalformedOutput, Parser, Policies, get_dialect, list_dialects
from unspool._core.render.example_output import example
from unspool.integrations._deltas import Delta, DeltaEncoder
from unspool.wire import ChatStream, is_poisoned

NAMES = [dialect.name for dialect in list_dialects()]


def new_id(name: str, index: int) -> str:
    return f"{name}{index}"


def merge_deltas(text: str, dialect: str, size: int) -> tuple[Any, ...]:
    parser = Parser(dialect, new_id=new_id)
    deltas = DeltaEncoder(parser)
    steps = [parser.feed(text[at : at + size]) for at in range(0, len(text), size)] + [parser.finish()]
    reasoning = content = ""
    calls: list[list[str | None]] = []
    for delta in map(deltas.feed, steps):
        reasoning += delta.reasoning
        content += delta.content
        for call in delta.calls:
            if call.name is not None:
                assert call.index == len(calls)
                calls.append([call.id, call.name, ""])
            calls[call.index][2] = f"{calls[call.index][2]}{call.arguments}"
    assert deltas.has_calls == bool(calls)
    return reasoning, content, calls, deltas.finish_reason


def shown_message(text: str, dialect: str) -> tuple[Any, ...]:
    parser = Parser(dialect, new_id=new_id)
    message = parser.message(parser.feed(text) + parser.finish())
    whole: Any = ChatStream(parser).response(message)
    choice = whole["choices"][0]
    answer = choice["message"]
    calls = [
        [call["id"], call["function"]["name"], call["function"]["arguments"]]
        for call in answer.get("tool_calls", ())
    ]
    return answer.get("reasoning", ""), answer["content"] or "", calls, choice["finish_reason"]


@pytest.mark.parametrize("dialect", NAMES)
def test_deltas_add_up_to_the_chat_stream(dialect: str) -> None:
    text = example(get_dialect(dialect))[0]
    for end in (len(text), len(text) * 2 // 3, len(text) - 3):
        expected = shown_message(text[:end], dialect)
        for size in (1, 5, len(text)):
            assert merge_deltas(text[:end], dialect, size) == expected


def test_cut_call_cannot_be_run() -> None:
    _, _, ((_, name, arguments),), finish = merge_deltas(
        '<tool_call>{"name": "now", "arguments": {"tz": "Eu', "hermes", 4
    )
    assert (name, finish) == ("now", "length")
    assert is_poisoned(arguments)
    with pytest.raises(json.JSONDecodeError):
        json.loads(arguments)


def test_policy_errors_are_errors() -> None:
    parser = Parser("hermes", policies=Policies(malformed_call="error"))
    deltas = DeltaEncoder(parser)
    with pytest.raises(MalformedOutput):
        deltas.feed(parser.feed('<tool_call>{"name": "now", "arguments": {"tz": }}</tool_call>'))


def test_empty_step_gives_an_empty_delta() -> None:
    assert not Delta()
    parser = Parser("hermes")
    assert not DeltaEncoder(parser).feed(parser.feed("<tool"))
