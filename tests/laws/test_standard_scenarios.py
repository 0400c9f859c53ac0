"""The ten standard patterns in every dialect parse as intended in every chunking.

The texts are rendered during the test and compared with the input, never with stored results of the parser.
``test_render.py`` checks that ``render`` writes what models write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

import jsonschema  # type: ignore[import-untyped]
import pytest
from test_corpus import case_of, describe_difference

import corpus_cases
import standard_scenarios
from corpus_cases import Vector
from standard_scenarios import Case
from unspool import Dialect, Message, Parser, ToolCall, get_dialect
from unspool.conformance.case_format import CallReference, TextSegment
from unspool.conformance.scenarios.sample_parts import STANDARD_TOOLS
from unspool.message import TextPart
from unspool.testing import assert_laws, chunkings, run_parser
from unspool.wire import ChatStream, ChatStreamDecoder

NAMES = [dialect.name for dialect in standard_scenarios.callers()]
TYPES = {
    tool["function"]["name"]: jsonschema.Draft202012Validator(tool["function"]["parameters"])
    for tool in STANDARD_TOOLS
}
FILES = ("harmony", "hermes", "qwen3_coder")
"""One dialect of each form (messages with headers, JSON, tags) has its scenarios as a readable file."""
each_dialect = pytest.mark.parametrize("name", NAMES)


@each_dialect
def test_scenario_parses_as_intended(name: str) -> None:
    """The laws and the expected message hold for one chunk, single characters and random chunks."""
    dialect = get_dialect(name)
    for case in standard_scenarios.cases(name):
        case_ = case_of(case.vector, dialect)
        reading = assert_laws(dialect, case_, chunkings(case.raw, splits=0, random=1))
        if wrong := describe_difference(case.vector, reading):
            reading.fail(case.vector.title, wrong)
        assert reading.message is not None
        assert order_of(reading.message) == expected_order(case), case.vector.title
        for call in reading.message.tool_calls:
            TYPES[call.name].validate(json.loads(call.arguments))


def order_of(message: Message) -> list[tuple[str, str]]:
    """Return channels, texts and names of calls in order."""
    return [
        (part.channel, part.text.strip()) if isinstance(part, TextPart) else ("call", part.name)
        for part in message.parts
        if isinstance(part, TextPart | ToolCall)
    ]


def expected_order(case: Case) -> list[tuple[str, str]]:
    order: list[tuple[str, str]] = []
    for part in case.test.expected_order:
        if isinstance(part, TextSegment):
            order.append((part.channel, part.text.strip()))
        elif isinstance(part, CallReference):
            order.append(("call", case.test.expected_tool_calls[part.index].function.name))
    return order


def cut_cases(name: str) -> list[Case]:
    """Return the cases that define their own chunkings."""
    split_cases = [case for case in standard_scenarios.cases(name) if case.sizes or case.splits]
    assert {case.pattern for case in split_cases} == {9, 10}
    return split_cases


def ways(case: Case) -> Iterator[list[str]]:
    """Yield the chunkings of a case: every size, every place, and all places at once."""
    for size in case.sizes:
        yield list(pieces(case.raw, range(size, len(case.raw), size)))
    for place in case.splits:
        yield list(pieces(case.raw, [place]))
    if case.splits:
        yield list(pieces(case.raw, case.splits))


def pieces(text: str, places: Sequence[int]) -> Iterator[str]:
    return (text[start:end] for start, end in pairwise([0, *sorted(places), len(text)]))


@each_dialect
def test_scenario_chunkings_give_the_same_message(name: str) -> None:
    dialect = get_dialect(name)
    for case in cut_cases(name):
        for chunks in ways(case):
            reading = run_parser(dialect, case_of(case.vector, dialect), chunks)
            if wrong := describe_difference(case.vector, reading):
                reading.fail(case.vector.title, wrong)


@each_dialect
def test_client_reassembles_every_chunking(name: str) -> None:
    dialect = get_dialect(name)
    for case in cut_cases(name):
        vector = case.vector
        for chunks in ways(case):
            message = receive_chunks(dialect, vector, chunks)
            assert (message.content, message.reasoning) == (vector.content, vector.reasoning)
            assert [call.name for call in message.tool_calls] == [call.name for call in vector.calls]
            for got, call in zip(message.tool_calls, vector.calls, strict=True):
                assert call.accepts(got.arguments)
                assert call.id in {None, got.id}
            assert message.finish_reason == "tool_calls"


def receive_chunks(dialect: Dialect, vector: Vector, chunks: Sequence[str]) -> Message:
    """Return what a client of Chat Completions receives."""
    parser = Parser(dialect, tools=vector.tools)
    chat, client = ChatStream(parser), ChatStreamDecoder()
    for events in (*(parser.feed(chunk) for chunk in chunks), parser.finish("stop")):
        for chunk in chat.feed(events):
            client.feed(chunk)
    return client.finish()


@each_dialect
def test_malformed_scenario_is_reported(name: str) -> None:
    """Malformed text is never reported as valid."""
    dialect = get_dialect(name)
    for case in standard_scenarios.cases(name):
        title = case.vector.title
        message = run_parser(dialect, case_of(case.vector, dialect)).message
        assert message is not None
        kinds = [diagnostic.kind for diagnostic in message.diagnostics]
        if case.unfinished is None:
            assert kinds == [], title
        elif case.unfinished.kind == "malformed":
            assert kinds.count("malformed_call") == 1, title
        else:
            kind = {"fragment": "cut_head", "truncated": "truncated_call"}[case.unfinished.kind]
            assert kind in kinds, title
            assert message.finish_reason == "length", title


@pytest.mark.parametrize("name", FILES)
def test_example_files_match_the_scenarios(name: str) -> None:
    """The files are parsed with the rest of the corpus; this test compares them with the scenarios."""
    written = {v.title: v for v in corpus_cases.load(name) if v.file == f"{name}/standard.md"}
    expected = {vector.title: vector for vector in standard_scenarios.vectors_of(name)}
    assert written.keys() == expected.keys()
    for title, vector in expected.items():
        assert comparable(written[title]) == comparable(vector), title


def comparable(vector: Vector) -> tuple[object, ...]:
    """Return what a case states, without its location."""
    calls = [
        (call.name, call.text if call.cut else json.dumps(call.value), call.cut, call.id)
        for call in vector.calls
    ]
    return vector.raw, vector.content, vector.reasoning, calls, vector.tools, vector.finish, vector.policies
