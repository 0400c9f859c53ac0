"""Trials: the two ways to read a head, held against each other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool import Dialect, list_dialects
from unspool._core.payload.make import compile_syntax
from unspool._core.syntax.program import LITERAL, WHOLE_END, Program
from unspool._core.syntax.trial import FAIL, MATCH, NEED, Trial

ODDS_AND_ENDS = (" ", "\n", "f", "x_1", "{", "(", "<", ">", '"', "=", "é")


def programs_of(dialect: Dialect) -> list[Program]:
    """What may begin a call, a parameter or anything else."""
    grammar = compile_syntax(dialect, calls=True, calls_in_reasoning=True, repair=False)
    states = (grammar.fresh, grammar.content, *grammar.inside.values(), *grammar.bodies.values())
    found = [program for state in states for entry in state.entries.values() for program in entry.programs]
    return [*dict.fromkeys([*found, *grammar.param_programs])]


READABLE = {
    program.pattern.pattern: (dialect, program)
    for dialect in list_dialects()
    for program in programs_of(dialect)
    if program.pattern is not None
}
"""The programs that a pattern can stand for."""


@pytest.mark.parametrize("pattern", sorted(READABLE))
@given(data=st.data())
@settings(max_examples=50)
def test_a_pattern_says_what_the_steps_say(pattern: str, data: st.DataObject) -> None:
    dialect, program = READABLE[pattern]
    literals = [step.text for step in program.steps if step.kind == LITERAL]
    usual = [piece for step in program.steps for piece in (step.text if step.kind == LITERAL else "f", " ")]
    kept = [piece for piece in usual if piece != " " or data.draw(st.booleans())]
    odd = data.draw(st.lists(st.sampled_from([*ODDS_AND_ENDS, *literals]), max_size=3))
    text = "".join(kept[: data.draw(st.integers(len(kept) // 2, len(kept)))] + odd)
    text = text[: data.draw(st.integers(len(text) // 2, len(text)))]

    trial = Trial([program], dialect.values.unescape)
    answer = trial._run_steps(text, 0, False)
    assert program.pattern is not None
    head = program.pattern.match(text)
    if head is None:
        assert answer == FAIL
    elif head.lastgroup != WHOLE_END:
        assert answer == NEED
    else:
        assert answer == MATCH
        assert trial.offset == head.end()
        caught = {field: value for field, value in trial.fields.items() if field[0] != "?"}
        found = {field: value for field, value in head.groupdict().items() if field != WHOLE_END}
        if "key" in found:
            found["key"] = found["key"].strip()
        assert caught == found


def test_names_of_calls_are_caught_by_patterns() -> None:
    assert sum("(?P<name>" in pattern for pattern in READABLE) > 20
