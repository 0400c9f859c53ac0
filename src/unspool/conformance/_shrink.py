"""Shrinking: the smallest case that still fails in the same way.

Cutting the text at random would leave nobody to say what must come out of it.  So
what is *meant* gets smaller: a part is left out, a text or an argument shortened, and
the scenario renders it anew, with its expectation.  Then the chunks are joined, as
far as the difference stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from ._cases import TestCase
from ._chunkings import Chunks, chunked
from ._scenarios import SCENARIOS, able
from ._scenarios.message_parts import Call, Say, Thought
from ._scenarios.scenario import Scenario

TRIES: Final = 200
"""How often a parser is asked, at most."""
_WAYS: Final = 8
"""Of so many ways of a chunking one must fail."""

Fails = Callable[[TestCase, Chunks], bool]
"""Whether a case, cut like this, fails in the way that is looked for."""


def shrink(
    case: TestCase, chunking: str, chunks: Chunks, fails: Fails, tries: int = TRIES
) -> tuple[TestCase, Chunks]:
    """The smallest case that still fails, and its chunks.

    :param chunking: how it was cut; ``batch``: not at all.
    """
    budget = _Budget(fails, tries)
    scenario = SCENARIOS.get(case.scenario_name)
    if scenario is not None:
        case, chunks = _smallest_meaning(scenario, case, chunking, chunks, budget)
    if chunking == "batch" or case.n > 1:
        return case, chunks
    return case, _fewest(case, chunks, budget)


class _Budget:
    """Asks a parser a limited number of times."""

    def __init__(self, fails: Fails, tries: int) -> None:
        self._fails = fails
        self.left = tries

    def fails(self, case: TestCase, chunks: Chunks) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return self._fails(case, chunks)


def _smallest_meaning(
    scenario: Scenario, case: TestCase, chunking: str, chunks: Chunks, budget: _Budget
) -> tuple[TestCase, Chunks]:
    shrunk = True
    while shrunk and budget.left:
        shrunk = False
        for parts in _smaller(scenario.parts):
            found = _failing(replace(scenario, parts=parts), case, chunking, budget)
            if found is not None:
                scenario = replace(scenario, parts=parts)
                case, chunks = found
                shrunk = True
                break
    return case, chunks


def _failing(
    scenario: Scenario, case: TestCase, chunking: str, budget: _Budget
) -> tuple[TestCase, Chunks] | None:
    """The smaller scenario in the same dialect, if it fails, too."""
    try:
        smaller = scenario.case(able(case.dialect))
    except Exception:  # noqa: BLE001 - a twist need not cope with less than it was written for
        return None
    if isinstance(smaller, str) or len(smaller.model_output) >= len(case.model_output):
        return None
    for chunks in islice(chunked(smaller.model_output, "whole" if chunking == "batch" else chunking), _WAYS):
        if budget.fails(smaller, chunks):
            return smaller, chunks
    return None


def _smaller(parts: Sequence[Say]) -> Iterator[list[Say]]:
    """Less to say: without a part, or with a smaller one."""
    for at in range(len(parts)):
        if len(parts) > 1:
            yield [*parts[:at], *parts[at + 1 :]]
    for at, part in enumerate(parts):
        for less in _less(part):
            yield [*parts[:at], less, *parts[at + 1 :]]


def _less(part: Say) -> Iterator[Say]:
    if isinstance(part, Thought):
        yield from (Thought(text) for text in _shorter(part.text))
    elif isinstance(part, str):
        yield from _shorter(part)
    elif not part.spelling:
        for key, value in part.arguments.items():
            rest = {name: other for name, other in part.arguments.items() if name != key}
            yield Call(part.name, rest)
            for less in _less_value(value):
                yield Call(part.name, {**part.arguments, key: less})


def _less_value(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        yield from _shorter(value)
    elif isinstance(value, list) and value:
        yield value[: len(value) // 2]
    elif isinstance(value, dict) and value:
        yield dict(islice(value.items(), len(value) // 2))


def _shorter(text: str) -> Iterator[str]:
    """Halves, then without a character at either end."""
    half = len(text) // 2
    for less in (text[:half], text[half:], text[1:], text[:-1]):
        if less.strip() and less != text:
            yield less.strip()


def _fewest(case: TestCase, chunks: Chunks, budget: _Budget) -> Chunks:
    """The same text with as few cuts as it takes."""
    if budget.fails(case, (case.model_output,)):
        return (case.model_output,)
    at = 0
    while at + 1 < len(chunks) and budget.left:
        joined = (*chunks[:at], chunks[at] + chunks[at + 1], *chunks[at + 2 :])
        if budget.fails(case, joined):
            chunks = joined
        else:
            at += 1
    return chunks
