"""Standard scenarios of the conformance suite, as vectors in every dialect.

``unspool.conformance`` defines the scenarios, and ``render`` writes them in a dialect.  The expected result
follows from the scenario, without a parser.  Nothing is stored, except for three dialects: their vectors in
``corpus/<dialect>/standard.md`` are reviewed by hand, and no program writes them.

A scenario that a dialect cannot express is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Final

from corpus_cases import Call, Vector
from unspool import Dialect, Message, get_dialect, list_dialects, render
from unspool.conformance.case_format import TestCase, Unfinished
from unspool.conformance.scenarios.dialect_capabilities import Capabilities
from unspool.conformance.scenarios.scenario import Scenario, to_render_parts
from unspool.conformance.scenarios.ten_standard_patterns import PATTERNS, SCENARIOS, SIZES

BETWEEN = ("", "")
"""Marks the offset just past the first call."""
CUTS: Final = {
    "inside name, key and value": (
        ("get_weather", "get_wea"),
        ("city", "ci"),
        ("Reykjavik", "Reyk"),
        ("unit", "uni"),
        ("celsius", "c"),
    ),
    "inside the names, and between the calls": (
        ("set_all", "set"),
        ("first", "first"),
        BETWEEN,
        ("get_weather", ""),
        ("get_weather", "g"),
        ("Reykjavik", "R"),
    ),
}
"""Cuts of pattern 10: a word of the text and its first half."""


def pattern(scenario: Scenario) -> int:
    """Return the number of a scenario's pattern."""
    return int(scenario.name.split(" ")[0])


def title(scenario: Scenario) -> str:
    """Return the title of a scenario without the title of its pattern."""
    return scenario.name.partition(": ")[2]


def callers() -> list[Dialect]:
    """Return all dialects that have calls."""
    return [dialect for dialect in list_dialects() if Capabilities(dialect).has_calls]


# -- scenarios in one dialect


@dataclass(frozen=True)
class Case:
    """Scenario in one dialect."""

    scenario: Scenario
    test: TestCase
    vector: Vector
    splits: Sequence[int]  # offsets in the text

    @property
    def raw(self) -> str:
        return self.test.model_output

    @property
    def pattern(self) -> int:
        return pattern(self.scenario)

    @property
    def sizes(self) -> Sequence[int]:
        """Chunk sizes to try."""
        return SIZES if PATTERNS[self.pattern - 1] == "streaming" else ()

    @property
    def unfinished(self) -> Unfinished | None:
        """Truncated or malformed call of the scenario."""
        return _unfinished(self.test)


@cache
def cases(name: str) -> tuple[Case, ...]:
    """Return all scenarios that the dialect can express."""
    able = Capabilities(get_dialect(name))
    tests = ((scenario, scenario.case(able)) for scenario in SCENARIOS)
    return tuple(
        Case(scenario, test, _vector(test, scenario), _places(test, scenario, able))
        for scenario, test in tests
        if isinstance(test, TestCase)
    )


def vectors_of(name: str) -> list[Vector]:
    """Return the scenarios of a dialect as vectors of the corpus; empty if it has no calls."""
    return [case.vector for case in cases(name)] if Capabilities(get_dialect(name)).has_calls else []


def _vector(test: TestCase, scenario: Scenario) -> Vector:
    """Return a scenario as a vector of the corpus."""
    calls = [
        Call(
            call.function.name,
            call.function.arguments if call.verbatim else None,
            json.loads(call.function.arguments),
            id=call.id,
        )
        for call in test.expected_tool_calls
    ]
    unfinished = _unfinished(test)
    if unfinished is not None and unfinished.kind == "truncated":
        calls.append(Call(unfinished.name, unfinished.arguments, cut=True))
    broken = unfinished is not None and unfinished.kind == "malformed"
    return Vector(
        dialect=test.dialect,
        title=scenario.name,
        file="the standard scenarios",
        line=0,
        raw=test.model_output,
        content=test.expected_content,
        reasoning=test.expected_reasoning,
        calls=tuple(calls),
        finish="length" if test.finish_reason == "length" else None,
        tools=tuple(test.tools),
        policies={"malformed_call": "drop"} if broken else {},
    )


def _unfinished(test: TestCase) -> Unfinished | None:
    return next((part for part in test.expected_order if isinstance(part, Unfinished)), None)


def _places(test: TestCase, scenario: Scenario, able: Capabilities) -> list[int]:
    return [_place(test, scenario, able, cut) for cut in CUTS.get(title(scenario), ())]


def _place(case: TestCase, scenario: Scenario, able: Capabilities, cut: tuple[str, str]) -> int:
    """Return the offset just past the first half of a word; a function's name may also be in a header."""
    raw = case.model_output
    if cut == BETWEEN:
        return _end_of_first(raw, scenario, able)
    word, half = cut
    start = raw.rindex(word) if word in {"get_weather", "set_all"} else raw.index(word)
    return start + len(half)


def _end_of_first(raw: str, scenario: Scenario, able: Capabilities) -> int:
    """Return the offset just past the first call: its end marker, or the last character it has of its own."""
    alone = render(Message(parts=tuple(to_render_parts(scenario.parts[:1], able))), able.dialect, check=False)
    different = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(raw, alone, strict=False)))
    end = raw.find(able.end_marker, raw.index("first"))
    return min(different, end + len(able.end_marker)) if able.end_marker and end >= 0 else different
