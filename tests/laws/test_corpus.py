"""The corpus: outputs of models and their expected messages, in every chunking."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

import corpus_cases
from corpus_cases import Vector
from standard_scenarios import callers, vectors_of
from unspool import (
    CallArgs,
    CallEnd,
    CallStart,
    Dialect,
    Parser,
    Policies,
    UnknownDialect,
    get_dialect,
    parse,
)
from unspool.dialects import Names, Section
from unspool.dialects.parse_templates import parse_template, split_at
from unspool.events import FinishReason
from unspool.models import from_response_template
from unspool.stages import ReasoningSplitter
from unspool.testing import ModelOutput, ParseRun, assert_laws, chunkings, comparable, run_parser

PLAN = "the plan applies chat_template_kwargs: see tests/planning/test_plan.py"
TRAILING = "reasoning never ends in whitespace, in any dialect"
UNTERMINATED = "an unterminated string has no end: finding one would mean holding the rest of the output"
RULINGS = {
    **{
        (dialect, "M14 Unterminated string, then the close marker"): UNTERMINATED
        for dialect in (
            "apriel",
            "dots",
            "ernie45",
            "granite4",
            "hermes",
            "hunyuan_a13b",
            "internlm2",
            "jamba",
            "k2_horizon",
            "longcat",
            "nemotron_json",
            "trinity",
        )
    },
    ("mistral", "M17 Name in front of the marker (tools: bash)"): (
        "the call is parsed; removing the name, too, would hold prose back at every tool's name"
    ),
    ("nemotron_v3", "nemotron, thinking disabled, leading opener (PRE.6)"): PLAN,
    ("nemotron_v3", "nemotron, force_nonempty_content, reasoning only"): PLAN,
    ("granite", "granite"): TRAILING,
    ("granite", "E12 Granite 3.2 reasoning phrases"): TRAILING,
    ("pythonic", "text before and after (our choice)"): "whitespace before a call is framing",
    ("sarashina", "M1 Truncated"): "the name is complete, so there is a truncated call",
    ("response_template", "cut call region"): "arguments stream, so the received part is shown",
    ("minicpmv", "Newline repair"): "rewriting text is a filter after the parser, not parsing",
}
"""Cases where we decide otherwise, and why. They must fail: an obsolete ruling is removed."""


def dialect_of(vector: Vector) -> Dialect | None:
    """Return the dialect of a case; None if it is not registered."""
    if vector.response_template is not None:
        return from_response_template(vector.response_template)
    registered_dialect = _registered(vector)
    if registered_dialect is not None and isinstance(vector.tool_choice, dict):
        # For guided output of a named choice, the whole object is the arguments.
        return replace(
            registered_dialect,
            call=("{args}",),
            section=(Section("{calls}", only_at_start=True),),
            names=Names(fixed=vector.tool_choice["name"]),
        )
    return registered_dialect


def _registered(vector: Vector) -> Dialect | None:
    names = [vector.dialect]
    if vector.variant is not None:
        variant = vector.variant.replace(".", "")
        names = [f"{vector.dialect}{variant}", f"{vector.dialect}_{variant}", variant, vector.dialect]
    for name in names:
        try:
            return get_dialect(name)
        except UnknownDialect:
            continue
    return None


def case_of(vector: Vector, dialect: Dialect) -> ModelOutput:
    """Return the case as a request and its answer."""
    return ModelOutput(
        vector.raw,
        tools=vector.tools,
        prompt=_prompt(vector, dialect),
        policies=Policies(**vector.policies) if vector.policies else None,  # type: ignore[arg-type]
        finish_reason=cast("FinishReason | None", vector.finish),
    )


def _prompt(vector: Vector, dialect: Dialect) -> str | None:
    """Return a prompt that leaves the parser in the start state of the case."""
    if vector.prefix is not None:
        return vector.prefix
    wrappers = {"reasoning": dialect.reasoning, "think": dialect.reasoning, "response": dialect.content}
    templates = wrappers.get(vector.start, ())
    if not templates:
        return None
    before, _, _ = split_at(parse_template(templates[0]), "text")
    return "".join(piece.text for piece in before)


def describe_difference(vector: Vector, reading: ParseRun) -> str:
    """Return the differences from the expected result; empty if there are none."""
    message = reading.message
    if message is None:
        return "no message"
    differences = []
    for channel, expected in (("content", vector.content), ("reasoning", vector.reasoning)):
        got = message.content if channel == "content" else message.reasoning
        if got != expected:
            differences.append(f"{channel}\n    expected: {expected!r}\n    got:      {got!r}")
    calls = _streamed(reading)
    if len(calls) != len(vector.calls):
        differences.append(f"calls\n    expected: {vector.calls}\n    got:      {calls}")
    else:
        for (name, arguments, native, status), call in zip(calls, vector.calls, strict=True):
            same = call.cut == (status == "truncated") and name == call.name and call.accepts(arguments)
            if not same or call.id not in (None, native):
                got = f"{name} {arguments} {status} id={native}"
                differences.append(f"call\n    expected: {call}\n    got:      {got}")
    kept = [(call.name, call.arguments) for call in message.tool_calls]
    complete = [(name, arguments) for name, arguments, _, status in calls if status == "complete"]
    if kept != complete:
        differences.append(f"calls of the message\n    streamed: {complete}\n    folded:   {kept}")
    cut = sum(call.cut for call in vector.calls)
    diagnostics = [diagnostic.kind for diagnostic in message.diagnostics]
    if diagnostics.count("truncated_call") != cut:
        differences.append(f"{cut} cut calls, problems: {diagnostics}")
    heads = "cut_head" in diagnostics
    finish = "length" if cut or heads else "tool_calls" if vector.calls else vector.finish or "stop"
    if message.finish_reason != finish:
        differences.append(f"finish_reason\n    expected: {finish}\n    got:      {message.finish_reason}")
    return "\n".join(differences)


def _streamed(reading: ParseRun) -> Sequence[tuple[str, str, str, str]]:
    """Return name, arguments, id and status of every call that was not malformed, as streamed."""
    names: dict[int, tuple[str, str]] = {}
    arguments: dict[int, str] = {}
    out = []
    for event in reading.events:
        if isinstance(event, CallStart):
            names[event.index] = event.name, event.id
            arguments[event.index] = ""
        elif isinstance(event, CallArgs):
            arguments[event.index] += event.json
        elif isinstance(event, CallEnd) and event.status != "malformed":
            name, native = names[event.index]
            out.append((name, arguments[event.index], native, event.status))
    return out


def registered_cases() -> list[tuple[Vector, Dialect]]:
    """Return every case of a registered dialect."""
    pairs = ((vector, dialect_of(vector)) for vector in corpus_cases.load())
    return [(vector, dialect) for vector, dialect in pairs if dialect is not None]


def parameters(pairs: Sequence[tuple[Vector, Dialect]]) -> list[object]:
    return [pytest.param(vector, dialect, id=str(vector)) for vector, dialect in pairs]


def key(vector: Vector) -> tuple[str, str]:
    return vector.dialect, vector.title


REGISTERED = registered_cases()


@pytest.mark.parametrize(
    ("vector", "dialect"), parameters([pair for pair in REGISTERED if key(pair[0]) not in RULINGS])
)
def test_case_parses_as_documented(vector: Vector, dialect: Dialect) -> None:
    case = case_of(vector, dialect)
    for chunks in chunkings(case.text, splits=0, random=1):
        reading = run_parser(dialect, case, chunks)
        wrong = describe_difference(vector, reading)
        if wrong:
            events = "\n    ".join(map(str, comparable(reading.events, case.text)))
            reading.fail(f"{vector.file}:{vector.line}", f"{vector.title}\n{wrong}\n  events:\n    {events}")


@pytest.mark.parametrize(
    ("vector", "dialect"), parameters([pair for pair in REGISTERED if key(pair[0]) in RULINGS])
)
def test_ruling_still_applies(vector: Vector, dialect: Dialect) -> None:
    case = case_of(vector, dialect)
    reading = assert_laws(dialect, case, chunkings(case.text, splits=0))
    assert describe_difference(vector, reading), f"{vector} comes out as the corpus says: remove the ruling"


def test_rulings_refer_to_cases() -> None:
    assert RULINGS.keys() <= {key(vector) for vector in corpus_cases.load()}


@pytest.mark.parametrize("name", sorted({*corpus_cases.dialects(), *(dialect.name for dialect in callers())}))
def test_reasoning_split_equals_the_parser(name: str) -> None:
    pairs = [(vector, dialect) for vector, dialect in REGISTERED if vector.dialect == name]
    if name in {dialect.name for dialect in callers()}:
        pairs += [(vector, get_dialect(name)) for vector in vectors_of(name)]
    for vector, dialect in pairs:
        if vector.policies or not vector.reasoning:
            continue
        case = case_of(vector, dialect)
        whole = parse(
            case.text, dialect, tools=case.tools, prompt=case.prompt, finish_reason=case.finish_reason
        )
        for chunks in ([case.text], re.findall(r"(?s).{1,7}", case.text)):
            half = ReasoningSplitter(dialect, tools=case.tools, prompt=case.prompt)
            tools = Parser(dialect, tools=case.tools, start_channel="content")
            pieces = [*map(half.feed, chunks), half.finish(case.finish_reason)]
            events = [event for piece in pieces for event in tools.feed(piece.rest)]
            message = tools.message(events + tools.finish(case.finish_reason))
            assert "".join(piece.reasoning for piece in pieces) == (whole.reasoning or ""), str(vector)
            assert message.content == whole.content, str(vector)
            calls = [(call.name, call.arguments) for call in message.tool_calls]
            assert calls == [(call.name, call.arguments) for call in whole.tool_calls], str(vector)
