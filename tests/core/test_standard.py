"""The ten standard patterns: the files are what ``standard.py`` writes, and hold for the cuts they name.

That the texts come out as the files say is tested with the rest of the corpus, in ``test_vectors.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

import pytest
from test_vectors import case_of, difference

import standard
import vectors
from standard import Case
from unspool import Dialect, Message, Parser, get_dialect
from unspool.conformance.scenarios.abilities import Able
from unspool.conformance.scenarios.meaning import STANDARD_TOOLS
from unspool.conformance.scenarios.standard import PATTERNS, SCENARIOS
from unspool.testing import read
from unspool.wire import ChatStream, Reconstructor
from vectors import CORPUS, Vector

NAMES = [dialect.name for dialect in standard.callers()]
each_dialect = pytest.mark.parametrize("name", NAMES)


@each_dialect
def test_the_file_is_up_to_date(name: str) -> None:
    dialect = get_dialect(name)
    written = standard.path(dialect).read_text("utf-8")
    assert written == standard.page(dialect), "run: python tests/support/standard.py"


def test_no_file_is_left_over() -> None:
    assert set(CORPUS.glob("*/standard.md")) == {standard.path(get_dialect(name)) for name in NAMES}


@each_dialect
def test_every_pattern_is_there(name: str) -> None:
    able = Able(get_dialect(name))
    there = {case.pattern for case in standard.cases(able.dialect)}
    assert there >= set(range(1, len(PATTERNS) + 1)) - ({3} if "parallel" in able.lacks else set())


@cache
def by_title(name: str) -> dict[str, Vector]:
    path = standard.path(get_dialect(name)).relative_to(CORPUS).as_posix()
    return {vector.title: vector for vector in vectors.load() if vector.file == path}


def cut_cases(name: str) -> list[tuple[Case, Vector]]:
    """The cases that say how to cut them, as ``standard`` and as the file has them."""
    found = [
        (case, by_title(name)[case.title])
        for case in standard.cases(get_dialect(name))
        if case.sizes or case.splits
    ]
    assert {case.pattern for case, _ in found} == {9, 10}
    return found


def ways(case: Case) -> Iterator[list[str]]:
    """The chunks that a case asks for: of every size, at every place, and at all places at once."""
    for size in case.sizes:
        yield list(pieces(case.raw, range(size, len(case.raw), size)))
    for place in case.splits:
        yield list(pieces(case.raw, [place]))
    if case.splits:
        yield list(pieces(case.raw, case.splits))


def pieces(text: str, places: Sequence[int]) -> Iterator[str]:
    return (text[start:end] for start, end in pairwise([0, *sorted(places), len(text)]))


@each_dialect
def test_cuts(name: str) -> None:
    dialect = get_dialect(name)
    for case, vector in cut_cases(name):
        assert vector.raw == case.raw
        for chunks in ways(case):
            reading = read(dialect, case_of(vector, dialect), chunks)
            if wrong := difference(vector, reading):
                reading.fail(vector.file, f"{vector.title}\n{wrong}")


@each_dialect
def test_a_client_puts_the_cuts_together(name: str) -> None:
    dialect = get_dialect(name)
    for case, vector in cut_cases(name):
        for chunks in ways(case):
            message = received(dialect, vector, chunks)
            assert (message.content, message.reasoning) == (vector.content, vector.reasoning)
            assert [call.name for call in message.tool_calls] == [call.name for call in vector.calls]
            for got, call in zip(message.tool_calls, vector.calls, strict=True):
                assert call.accepts(got.arguments)
                assert call.id in {None, got.id}
            assert message.finish_reason == "tool_calls"


def received(dialect: Dialect, vector: Vector, chunks: Sequence[str]) -> Message:
    """What a client of Chat Completions makes of the stream."""
    parser = Parser(dialect, tools=vector.tools)
    chat, client = ChatStream(parser), Reconstructor()
    for events in (*(parser.feed(chunk) for chunk in chunks), parser.finish("stop")):
        for chunk in chat.encode(events):
            client.feed(chunk)
    return client.message()


@each_dialect
def test_what_is_wrong_is_told(name: str) -> None:
    """The corpus says what comes out of malformed text; here, that it does not pass for a good one."""
    dialect = get_dialect(name)
    for case in standard.cases(dialect):
        message = read(dialect, case_of(by_title(name)[case.title], dialect)).message
        assert message is not None
        kinds = [problem.kind for problem in message.problems]
        if case.unfinished is None:
            assert kinds == [], case.title
        elif case.unfinished.kind == "malformed":
            assert kinds.count("malformed_call") == 1, case.title
        else:
            kind = {"fragment": "cut_head", "truncated": "truncated_call"}[case.unfinished.kind]
            assert kind in kinds, case.title
            assert message.finish_reason == "length", case.title


def test_the_tools_of_the_patterns_are_those_of_the_corpus() -> None:
    assert list(STANDARD_TOOLS) == json.loads((CORPUS / "tools.json").read_text("utf-8"))


def test_every_pattern_has_scenarios() -> None:
    assert {standard.pattern(scenario) for scenario in SCENARIOS} == set(range(1, len(PATTERNS) + 1))
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
