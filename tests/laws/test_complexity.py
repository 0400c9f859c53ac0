"""Complexity: the law, its past violations, and the measurement itself."""

from __future__ import annotations

import gc
import shutil
from dataclasses import asdict
from itertools import product
from random import Random
from typing import NoReturn
from zlib import crc32

import pytest

from lab.complexity import LENGTHS, MARGIN, counted_instructions
from unspool import (
    CallArgs,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Message,
    Parser,
    Policies,
    Text,
    get_dialect,
    list_dialects,
    parse,
    plan,
    render,
)
from unspool._core.compile_cache import compiled_dialect
from unspool._core.compiler.compiled_dialect import CompiledDialect
from unspool._core.scan.character_runs import COMPILED
from unspool._core.schema.tools import ValueType
from unspool.events import normalise
from unspool.testing import (
    HostileText,
    ModelOutput,
    assert_complexity,
    assert_order,
    assert_wires,
    chunkings,
    hostile,
    run_parser,
)
from unspool.testing._linear_time_law import CharacterVocabulary, assert_linear, count_lines, states, units

NAMES = [dialect.name for dialect in list_dialects()]
REPAIR = Policies(malformed_call="repair")
counted = pytest.mark.skipif(COMPILED, reason="the lines of a compiled module are not seen")


def work(times: int) -> None:
    for _ in range(times):
        render(Message(content="Hi"), "hermes")


@counted
def test_line_count_is_reproducible() -> None:
    work(1)
    assert count_lines(lambda: work(1)) * 7 == count_lines(lambda: work(7)) > 0


@counted
def test_quadratic_work_is_detected() -> None:
    assert_linear(work, 10)
    with pytest.raises(AssertionError, match="lines executed for 10"):
        assert_linear(lambda size: work(size * size), 10)


@counted
def test_sublinear_work_passes() -> None:
    assert_linear(lambda size: work(5 if size == 1 else 1), 10)


def test_every_state_has_an_output() -> None:
    modes = {"matching", "arguments", "string", "tail", "between", "recovery"}
    assert modes | {"start", "reasoning", "content"} <= set(states("hermes"))
    assert {"<tool_call>", "<tool_call", "<tool_call>\n", '"', "\\"} <= set(units("hermes"))


@counted
@pytest.mark.parametrize("name", NAMES)
def test_hostile_texts_cost_linear_work(name: str) -> None:
    """One text for each dialect; ``python -m lab.complexity`` tries all of them."""
    assert_complexity(hostile(name, Random(crc32(name.encode()))), 400)  # noqa: S311 - reproducible


@counted
def test_repairs_before_the_name_cost_linear_work() -> None:
    """Every step used to rewrite all diagnostics."""
    assert_complexity(HostileText("hermes", "string", '<tool_call>{"arguments": {"a": "', "\n", REPAIR))


def test_combined_dialects_do_not_evict_others() -> None:
    names = [name for name in NAMES if "+" not in name][:11]
    kept = {name: compiled_dialect(get_dialect(name)) for name in names}
    gc.collect()
    before = sum(isinstance(one, CompiledDialect) for one in gc.get_objects())
    for calls, reasoning in product(names[:9], names):
        Parser(f"{calls}+{reasoning}").finish()
    gc.collect()
    after = sum(isinstance(one, CompiledDialect) for one in gc.get_objects())
    assert after - before <= 64 * (1 + max(len(get_dialect(name).also_accepts) for name in names))
    assert after - before < 9 * 11
    assert all(compiled_dialect(get_dialect(name)) is compiled for name, compiled in kept.items())


class Unread(list[str]):
    """A string that must not be scanned."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("somebody looks through all that is held")


@counted
def test_pending_is_known_without_scanning() -> None:
    """Arguments before the name are set aside in pieces, and a gateway asks after every delta."""
    parser = Parser("hermes")
    pieces = Unread()
    parser._machine.ledger._set_aside = pieces
    opening = '<tool_call>{"arguments": {"a": "'
    parser.feed(opening)
    for number in range(40):
        parser.feed("b" * 100)
        assert parser.pending == len(opening) + 100 * (number + 1)
    assert len(pieces) > 1


@counted
def test_plan_stages_cost_linear_work() -> None:
    """One stage used to sum all pending text, and others joined it."""
    request = {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "parallel_tool_calls": False,
        "chat_template_kwargs": {"force_nonempty_content": True},
    }

    def read_planned(size: int) -> None:
        parser = plan("nemotron_v3", request).parser()
        for _ in range(size):
            parser.feed("a")
            assert parser.pending >= 0

    assert_linear(read_planned, 200)


# -- memory


@pytest.mark.parametrize("name", NAMES)
def test_endless_name_is_not_held(name: str) -> None:
    forms = compiled_dialect(get_dialect(name)).forms.calls
    nameless = any(form.unnamed for form in forms)  # a call without a name, which the parameters identify
    heads = {head for state, head in states(name).items() if "matching" in state}
    for before, key in product(heads, ("name", "id", "other", "a" * 900)):
        parser = Parser(name)
        parser.feed(f'{before}{{"{key}": "')
        for _ in range(20):
            parser.feed("x" * 100)
            assert nameless or parser.max_pending is not None
            assert parser.max_pending is None or parser.pending <= parser.max_pending <= 1024


def test_overlong_head_is_text_with_a_diagnostic() -> None:
    output = '<tool_call>\n{"name": "' + "a" * 8000
    for chunks in chunkings(output, random=1, splits=0):
        parser = Parser("hermes")
        events: list[Event] = [event for chunk in chunks for event in parser.feed(chunk)]
        assert normalise(events) == [
            Diagnostic("overlong_head", "<tool_call>", 0, 0),
            Text("content", output, 0, len(output)),
        ]


def test_arguments_before_the_name_are_held_until_the_name() -> None:
    parser = Parser("hermes")
    assert parser.feed('<tool_call>{"arguments": {"a": "' + "x" * 5000 + '"}') == []
    assert parser.max_pending is None
    events = parser.feed(', "name": "f"}</tool_call>')
    assert [type(event) for event in events] == [CallStart, CallArgs, CallArgs, CallEnd]


def test_second_call_may_have_its_arguments_first() -> None:
    parser = Parser("mistral_v3")
    parser.feed('[TOOL_CALLS][{"name": "f", "arguments": {}}, {"arguments": {"a": "' + "x" * 2000)
    assert (parser.pending > 2000, parser.max_pending) == (True, None)


# -- complexity by number of calls


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ["text", "drop", "call", "error"])
def test_uncommitted_calls_leave_no_gap_in_indices(name: str, what: str) -> None:
    """With ``commit=call`` the remaining calls are numbered from 0, whatever happens to broken ones."""
    policies = Policies(commit="call", malformed_call=what, truncated_call=what)  # type: ignore[arg-type]
    states_ = states(name)
    whole = states_.get("late between") or states_.get("tail") or ""
    for output in (
        whole,
        states_.get("recovery", "") + whole,
        states_.get("recovery", "") + "\n" + whole + whole,
    ):
        case = ModelOutput(output, policies=policies)
        for chunks in ([output], list(output)):
            assert_order(run_parser(name, case, chunks))
        assert_wires(name, case, [[output]])


# -- complexity of schemas


@counted
def test_schema_alternatives_cost_linear_work() -> None:
    def ask(size: int) -> None:
        kind = ValueType({"anyOf": [{"properties": {f"p{i}": {"type": "integer"}}} for i in range(size)]})
        assert len(kind.keys() or ()) == size
        for i in range(size):
            kind.member(f"p{i}")
            kind.member(f"q{i}")

    assert_linear(ask, 50)


def test_reference_into_a_list_is_resolved() -> None:
    kind = ValueType({"anyOf": [{"type": "integer"}, {"$ref": "#/anyOf/0"}]})
    assert kind.types == {"integer"}
    assert ValueType({"$ref": "#/anyOf/1"}, {"anyOf": [{}, {"type": "string"}]}).types == {"string"}
    assert ValueType({"$ref": "#/anyOf/9"}, {"anyOf": []}).is_any


def test_many_diagnostics_are_all_reported() -> None:
    broken = '<tool_call>{"name": "f", "arguments": {]}</tool_call>\n'
    message = parse(broken * 50, "hermes", policies=Policies(commit="call", malformed_call="drop"))
    assert [diagnostic.kind for diagnostic in message.diagnostics] == ["malformed_call"] * 50


# -- complexity of ids and text


def test_spaces_around_omitted_special_tokens_are_shown() -> None:
    """Spaces before a possible special token used to be held, uncounted and rescanned."""
    vocabulary = CharacterVocabulary(["<tool_call>"])
    parser = Parser("hermes", tokenizer=vocabulary)
    parser.feed_decoded("", [vocabulary.id("<tool_call>")])
    shown = 0
    for _ in range(3000):
        shown += sum(len(event.text) for event in parser.feed_decoded(" ", [32]) if isinstance(event, Text))
        max_pending = parser.max_pending
        assert max_pending is not None
        assert parser.pending <= max_pending <= 2048
    assert shown > 2000


# -- number of executed instructions

COPIED = {
    "blanks between thoughts": HostileText("hermes", "content", "Hello.", "<think></think>\n", step=16),
    "a value that looks like a list": HostileText(
        "minimax_m3",
        "value",
        ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="f">]<]minimax[>[<a>b',
        "]<]minimax[>[<c>",
        step=0,
    ),
    "calls that are dropped": HostileText(
        "hermes",
        "content",
        "",
        '<tool_call>{"name": "f", "arguments": ]</tool_call>\n',
        Policies(commit="call", malformed_call="drop"),
        step=16,
    ),
    "arguments before the name": HostileText(
        "hermes", "head", '<tool_call>{"arguments": {"a": "', "b", step=16
    ),
    "special tokens that the text leaves out": HostileText(
        "hermes", "start", "<tool_call>", " ", input_form="decoded"
    ),
}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="callgrind counts the instructions")
@pytest.mark.parametrize("what", COPIED)
def test_texts_are_not_copied_repeatedly(what: str) -> None:
    """Line counts do not show how much a line copies."""
    few, many = counted_instructions("src", asdict(COPIED[what]))
    assert many <= MARGIN * few * (LENGTHS[1] / LENGTHS[0])
