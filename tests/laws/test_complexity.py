"""How work grows: the law of effort, what broke it once, and the measure itself."""

from __future__ import annotations

import gc
import shutil
from dataclasses import asdict
from itertools import product
from random import Random
from typing import NoReturn
from zlib import crc32

import pytest

from complexity import LENGTHS, MARGIN, counted_instructions
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
    normalise,
    parse,
    plan,
    render,
)
from unspool._core.arguments.select import compile_dialect
from unspool._core.compiler.compiled_dialect import CompiledDialect
from unspool._core.scan.runs import COMPILED
from unspool._core.schema.tools import ValueType
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
from unspool.testing._complexity import CharacterVocabulary, assert_linear, count_lines, states, units

NAMES = [dialect.name for dialect in list_dialects()]
REPAIR = Policies(malformed_call="repair")
counted = pytest.mark.skipif(COMPILED, reason="the lines of a compiled module are not seen")


def work(times: int) -> None:
    for _ in range(times):
        render("hermes", Message(content="Hi"))


@counted
def test_it_is_the_same_whatever_else_the_machine_does() -> None:
    work(1)
    assert count_lines(lambda: work(1)) * 7 == count_lines(lambda: work(7)) > 0


@counted
def test_quadratic_work_is_noticed() -> None:
    assert_linear(work, 10)
    with pytest.raises(AssertionError, match="lines for 10"):
        assert_linear(lambda size: work(size * size), 10)


@counted
def test_less_work_for_more_is_no_growth() -> None:
    assert_linear(lambda size: work(5 if size == 1 else 1), 10)


def test_an_output_of_every_state_is_found() -> None:
    assert {"start", "reasoning", "content", "trial", "payload", "string", "tail", "between", "junk"} <= set(
        states("hermes")
    )
    assert {"<tool_call>", "<tool_call", "<tool_call>\n", '"', "\\"} <= set(units("hermes"))


@counted
@pytest.mark.parametrize("name", NAMES)
def test_hostile_texts_cost_their_length(name: str) -> None:
    """One for each dialect; ``make complexity`` tries all."""
    assert_complexity(hostile(name, Random(crc32(name.encode()))), 400)  # noqa: S311 - reproducible


@counted
def test_repairs_before_the_name_cost_their_number() -> None:
    """All notes were written anew at every step."""
    assert_complexity(HostileText("hermes", "string", '<tool_call>{"arguments": {"a": "', "\n", REPAIR))


def test_dialects_that_requests_combine_are_not_kept_in_place_of_others() -> None:
    names = [name for name in NAMES if "+" not in name][:11]
    kept = {name: compile_dialect(get_dialect(name)) for name in names}
    gc.collect()
    before = sum(isinstance(one, CompiledDialect) for one in gc.get_objects())
    for calls, reasoning in product(names[:9], names):
        Parser(f"{calls}+{reasoning}").finish()
    gc.collect()
    after = sum(isinstance(one, CompiledDialect) for one in gc.get_objects())
    assert after - before <= 64 * (1 + max(len(get_dialect(name).also_accepts) for name in names))
    assert after - before < 9 * 11
    assert all(compile_dialect(get_dialect(name)) is syntax for name, syntax in kept.items())


class Unread(list[str]):
    """What nobody looks through."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("somebody looks through all that is held")


@counted
def test_what_is_held_is_known_without_looking_at_it() -> None:
    """Arguments before the name are laid aside in pieces, and a gateway asks after every delta."""
    parser = Parser("hermes")
    pieces = Unread()
    parser._ledger._aside = pieces
    opening = '<tool_call>{"arguments": {"a": "'
    parser.feed(opening)
    for number in range(40):
        parser.feed("b" * 100)
        assert parser.pending == len(opening) + 100 * (number + 1)
    assert len(pieces) > 1


@counted
def test_the_stages_of_a_plan_cost_their_length() -> None:
    """One summed up all that it held, others joined it."""
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


# -- what is held


@pytest.mark.parametrize("name", NAMES)
def test_a_name_without_end_is_not_held(name: str) -> None:
    forms = compile_dialect(get_dialect(name)).forms
    nameless = any(form.unnamed for form in forms)  # an object of arguments that tell the function
    heads = {head for state, head in states(name).items() if "trial" in state}
    for before, key in product(heads, ("name", "id", "other", "a" * 900)):
        parser = Parser(name)
        parser.feed(f'{before}{{"{key}": "')
        for _ in range(20):
            parser.feed("x" * 100)
            assert nameless or parser.max_pending is not None
            assert parser.max_pending is None or parser.pending <= parser.max_pending <= 1024


def test_a_head_that_goes_on_is_text_with_a_problem() -> None:
    output = '<tool_call>\n{"name": "' + "a" * 8000
    for chunks in chunkings(output, random=1, splits=0):
        parser = Parser("hermes")
        events: list[Event] = [event for chunk in chunks for event in parser.feed(chunk)]
        assert normalise(events) == [
            Diagnostic("overlong_head", "<tool_call>", 0, 0),
            Text("content", output, 0, len(output)),
        ]


def test_arguments_before_the_name_are_held_to_the_name() -> None:
    parser = Parser("hermes")
    assert parser.feed('<tool_call>{"arguments": {"a": "' + "x" * 5000 + '"}') == []
    assert parser.max_pending is None
    found = parser.feed(', "name": "f"}</tool_call>')
    assert [type(event) for event in found] == [CallStart, CallArgs, CallArgs, CallEnd]


def test_the_second_of_two_calls_may_have_its_arguments_first() -> None:
    parser = Parser("mistral_v3")
    parser.feed('[TOOL_CALLS][{"name": "f", "arguments": {}}, {"arguments": {"a": "' + "x" * 2000)
    assert (parser.pending > 2000, parser.max_pending) == (True, None)


# -- numbers of calls


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ["text", "drop", "keep", "error"])
def test_calls_that_do_not_get_through_leave_no_holes(name: str, what: str) -> None:
    """``commit=call``: the calls that do are counted from 0, whatever becomes of broken ones."""
    policies = Policies(commit="call", malformed_call=what, truncated_call=what)  # type: ignore[arg-type]
    found = states(name)
    whole = found.get("late between") or found.get("tail") or ""
    for output in (whole, found.get("junk", "") + whole, found.get("junk", "") + "\n" + whole + whole):
        case = ModelOutput(output, policies=policies)
        for chunks in ([output], list(output)):
            assert_order(run_parser(name, case, chunks))
        assert_wires(name, case, [[output]])


# -- schemas


@counted
def test_alternatives_of_a_schema_cost_their_number() -> None:
    def ask(size: int) -> None:
        kind = ValueType({"anyOf": [{"properties": {f"p{i}": {"type": "integer"}}} for i in range(size)]})
        assert len(kind.keys() or ()) == size
        for i in range(size):
            kind.member(f"p{i}")
            kind.member(f"q{i}")

    assert_linear(ask, 50)


def test_a_reference_into_a_list_is_found() -> None:
    kind = ValueType({"anyOf": [{"type": "integer"}, {"$ref": "#/anyOf/0"}]})
    assert kind.types == {"integer"}
    assert ValueType({"$ref": "#/anyOf/1"}, {"anyOf": [{}, {"type": "string"}]}).types == {"string"}
    assert ValueType({"$ref": "#/anyOf/9"}, {"anyOf": []}).is_any


def test_many_problems_are_all_told() -> None:
    broken = '<tool_call>{"name": "f", "arguments": {]}</tool_call>\n'
    message = parse(broken * 50, "hermes", policies=Policies(commit="call", malformed_call="drop"))
    assert [diagnostic.kind for diagnostic in message.diagnostics] == ["malformed_call"] * 50


# -- ids and their text


def test_blanks_where_a_special_token_was_left_out_are_shown() -> None:
    """They may stand before it, if it is on its way; all were held, not counted, and read each time."""
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


# -- what only instructions tell

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
def test_texts_that_were_copied_again_and_again_are_not(what: str) -> None:
    """Lines do not tell how much is copied in them."""
    few, many = counted_instructions("src", asdict(COPIED[what]))
    assert many <= MARGIN * few * (LENGTHS[1] / LENGTHS[0])
