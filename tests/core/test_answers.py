"""An answer stays an answer: what nothing but its shape could make a call, or reasoning, is text."""

from __future__ import annotations

import pytest

from unspool import CallStart, Parser, Text, get_dialect, list_dialects
from unspool.testing import assert_laws, chunkings

NAMES = [dialect.name for dialect in list_dialects() if dialect.name != "functionary_v32"]
each_dialect = pytest.mark.parametrize("name", NAMES)

NO_CALLS = (
    '{"name": "Alice", "age": 30}',
    '{"age": 30, "name": "Alice"}',
    '{"name": "Alice"}',
    '{"name": "Alice", "pets": [{"name": "Rex", "arguments": {}}]}',
    '[{"name": "Alice", "age": 30}, {"name": "Bob", "age": 31}]',
    "[{'name': 'Alice', 'age': 30}]",
    '```json\n{"name": "Alice", "age": 30}\n```',
    '```json\n[{"name": "Alice", "age": 30}]\n```',
    "[]",
    "```json\n[]\n```",
)
"""Answers in JSON that no tool is called by, in whatever dialect."""


@each_dialect
@pytest.mark.parametrize("answer", NO_CALLS)
def test_an_answer_in_json_is_no_call(name: str, answer: str) -> None:
    dialect = get_dialect(name)
    reading = assert_laws(dialect, answer, chunkings(answer, splits=0))
    message = reading.message
    assert message is not None
    assert (message.content, message.tool_calls) == (dialect.prompt.echo + answer, ())


def test_what_may_be_an_answer_is_held_until_its_members_tell() -> None:
    parser = Parser("llama3_json")
    assert parser.feed('{"name": "find", ') == []
    assert parser.bound is None
    events = parser.feed('"parameters"')
    assert [event.name for event in events if isinstance(event, CallStart)] == ["find"]


def test_an_answer_that_was_held_is_given_back_whole() -> None:
    parser = Parser("llama3_json")
    answer = '{"name": "Alice", "about": "' + "x" * 5000 + '"}'
    assert parser.feed(answer[:-1]) == []
    assert parser.feed("}") == [Text("content", answer, 0, len(answer))]
