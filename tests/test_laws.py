"""Each law, for each dialect that is registered.

``unspool.testing`` states the laws; here they meet everything we have: the
corpus, broken variants of it, and invented messages.  A dialect is tested by
existing.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vectors
from test_vectors import case_of, dialect_of
from unspool import Dialect, Message, ToolCall, get_dialect, list_dialects, parse, render
from unspool._template import parse_template, split_at, split_marks
from unspool.testing import (
    POLICIES,
    Case,
    Sample,
    assert_laws,
    assert_never_raises,
    assert_round_trip,
    chunkings,
    markers,
    messages,
    mutate,
    read,
)

NAMES = [dialect.name for dialect in list_dialects()]
each_dialect = pytest.mark.parametrize("name", NAMES)
invented = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
SEED = os.environ.get("UNSPOOL_SEED", "0")


@cache
def cases(name: str) -> tuple[Case, ...]:
    """The corpus of a dialect; for one without, a few messages of ours in its words."""
    dialect = get_dialect(name)
    found = [
        case_of(vector, dialect)
        for vector in vectors.load()
        if (of := dialect_of(vector)) is not None and of.name == name
    ]
    return tuple(found) or tuple(Case(render(dialect, message)) for message in _plain_messages(dialect))


def _plain_messages(dialect: Dialect) -> list[Message]:
    calls = (ToolCall("call_1", "get_weather", '{"city": "Paris"}'), ToolCall("call_2", "now", "{}"))
    found = [Message(content="Hello there.")]
    if dialect.reasoning:
        found.append(Message(reasoning="Let me see.", content="Hello."))
    if dialect.call or dialect.frame is not None:
        found += [Message(tool_calls=calls[:1]), Message(content="Let me check.", tool_calls=calls)]
    return found


def rng_for(name: str) -> Random:
    """Reproducible: the same for every run, unless ``UNSPOOL_SEED`` says otherwise."""
    return Random(crc32(f"{name} {SEED}".encode()))  # noqa: S311 - reproducible, not secret


def broken(name: str, number: int) -> list[Case]:
    """Cases of a dialect with one to three things wrong with them."""
    rng = rng_for(name)
    marks = markers(name)
    out = []
    for _ in range(number):
        case = rng.choice(cases(name))
        text = case.text
        for _ in range(rng.randint(1, 3)):
            text = mutate(text, rng, marks)
        policies = rng.choice([*POLICIES.values(), None, None])
        tools = rng.choice([case.tools, case.tools, None, ()])
        reason = rng.choice([case.finish_reason, None, "stop", "length"])
        out.append(replace(case, text=text, policies=policies, tools=tools, finish_reason=reason))
    return out


# -- texts


@each_dialect
def test_corpus_under_every_split(name: str) -> None:
    for case in cases(name):
        assert_laws(name, case, chunkings(case.text, splits=160, random=2))


@pytest.mark.slow
@each_dialect
def test_corpus_under_every_split_and_policy(name: str) -> None:
    for case in cases(name):
        for policies in POLICIES.values():
            for tools in (case.tools, None, ()):
                changed = replace(case, policies=policies, tools=tools)
                assert_laws(name, changed, chunkings(case.text, splits=10_000, random=10))


@pytest.mark.parametrize("policies", POLICIES)
@each_dialect
def test_corpus_under_policies(name: str, policies: str) -> None:
    for case in cases(name):
        changed = replace(case, policies=POLICIES[policies])
        assert_laws(name, changed, chunkings(case.text, splits=0, random=1))


@each_dialect
def test_corpus_without_tools(name: str) -> None:
    for case in cases(name):
        for tools in (None, ()):
            assert_laws(name, replace(case, tools=tools), chunkings(case.text, splits=0, random=1))


@each_dialect
def test_broken_text(name: str) -> None:
    for case in broken(name, 120):
        assert_laws(name, case, chunkings(case.text, splits=0, random=2))


@pytest.mark.slow
@each_dialect
def test_much_broken_text(name: str) -> None:
    for case in broken(name, 5000):
        assert_laws(name, case, chunkings(case.text, splits=40, random=3))


@each_dialect
def test_nothing_raises(name: str) -> None:
    for case in broken(name, 12):
        assert_never_raises(name, case)
        assert_never_raises(name, case, list(case.text))


@each_dialect
@invented
@given(st.data())
def test_random_markup(name: str, data: st.DataObject) -> None:
    words = ("x", " ", "\n", '"', "get_weather", "{", "}", "[", "]", "(", ")", ":", ",", "=", "1", "`")
    pieces = st.lists(st.sampled_from((*markers(name), *words)) | st.text(max_size=3), max_size=12)
    text = "".join(data.draw(pieces))
    assert_laws(name, text, chunkings(text, splits=0, random=1))


# -- messages


@each_dialect
@invented
@given(st.data())
def test_round_trip(name: str, data: st.DataObject) -> None:
    assert_round_trip(name, data.draw(messages(name)))


@each_dialect
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_rendered_messages_obey_the_laws(name: str, data: st.DataObject) -> None:
    sample: Sample = data.draw(messages(name))
    text = render(name, sample.message)
    for tools in (sample.tools, None, ()):
        assert_laws(name, Case(text, tools), chunkings(text, splits=0, random=2))
    cut = text[: data.draw(st.integers(0, len(text)))]
    assert_laws(name, Case(cut, sample.tools), chunkings(cut, splits=0, random=2))


@pytest.mark.slow
@each_dialect
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_many_round_trips(name: str, data: st.DataObject) -> None:
    sample: Sample = data.draw(messages(name))
    text = assert_round_trip(name, sample)
    assert_laws(name, Case(text, sample.tools), chunkings(text, splits=0, random=2))


@each_dialect
def test_reasoning_that_the_prompt_opened(name: str) -> None:
    dialect = get_dialect(name)
    for template in dialect.reasoning:
        marks, body = split_marks(template)
        before, _, after = split_at(parse_template(body), "text")
        if "^" in marks:
            continue
        opener = "".join(piece.text for piece in before)
        closer = "".join(piece.text for piece in after)
        message = parse(f"Let me see.{closer}Hello.", dialect, prompt=f"Hi there.\n{opener}")
        assert (message.reasoning, message.content) == ("Let me see.", "Hello."), template


@each_dialect
def test_corpus_has_calls(name: str) -> None:
    """A dialect that can write calls reads one in its own corpus: the laws are not about prose only."""
    dialect = get_dialect(name)
    if dialect.call or dialect.frame is not None:
        assert any(
            reading.message is not None and reading.message.tool_calls
            for reading in (read(name, case) for case in islice(cases(name), 40))
        )
