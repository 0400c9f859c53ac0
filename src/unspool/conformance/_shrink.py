"""Shrinking of a failing case, which is a search for the smallest case that fails in the same way.

The text of a case cannot be shortened directly, because the expected result of the shorter text would be
unknown. The search therefore makes the *scenario* smaller: it removes a part, or shortens a text or an
argument, and then renders the output and the expected result again. Finally, it joins chunks as long as the
case still fails in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from ._chunkings import Chunks, chunked
from .case_format import TestCase
from .scenarios import SCENARIOS, capabilities_of
from .scenarios.sample_parts import Call, Reasoning, ScenarioPart
from .scenarios.scenario import Scenario

MAX_RUNS: Final = 200
"""Maximum number of times that the parser is run."""
_VARIANTS: Final = 8
"""Maximum number of variants of a chunking that are tried for each smaller case."""

FailurePredicate = Callable[[TestCase, Chunks], bool]
"""Function that returns whether a case, split into these chunks, fails in the same way as the original case.
"""


def shrink(
    case: TestCase, chunking: str, chunks: Chunks, fails: FailurePredicate, max_runs: int = MAX_RUNS
) -> tuple[TestCase, Chunks]:
    """Return the smallest known case that fails in the same way, with its chunks.

    :param chunking: the chunking that failed; ``batch`` means that the output was not split.
    """
    budget = _Budget(fails, max_runs)
    scenario = SCENARIOS.get(case.scenario_name)
    if scenario is not None:
        case, chunks = _shrink_scenario(scenario, case, chunking, chunks, budget)
    if chunking == "batch" or case.n > 1:
        return case, chunks
    return case, _join_chunks(case, chunks, budget)


class _Budget:
    """Budget that limits how often the parser is run."""

    def __init__(self, fails: FailurePredicate, max_runs: int) -> None:
        self._fails = fails
        self.left = max_runs

    def fails(self, case: TestCase, chunks: Chunks) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return self._fails(case, chunks)


def _shrink_scenario(
    scenario: Scenario, case: TestCase, chunking: str, chunks: Chunks, budget: _Budget
) -> tuple[TestCase, Chunks]:
    shrunk = True
    while shrunk and budget.left:
        shrunk = False
        for parts in _smaller_parts(scenario.parts):
            failure = _render_failing(replace(scenario, parts=parts), case, chunking, budget)
            if failure is not None:
                scenario = replace(scenario, parts=parts)
                case, chunks = failure
                shrunk = True
                break
    return case, chunks


def _render_failing(
    scenario: Scenario, case: TestCase, chunking: str, budget: _Budget
) -> tuple[TestCase, Chunks] | None:
    """Render a smaller scenario in the same dialect; if the case still fails, return it with its chunks."""
    try:
        smaller = scenario.case(capabilities_of(case.dialect))
    except Exception:  # noqa: BLE001 - an edit may rely on the parts that were removed
        return None
    if isinstance(smaller, str) or len(smaller.model_output) >= len(case.model_output):
        return None
    for chunks in islice(
        chunked(smaller.model_output, "whole" if chunking == "batch" else chunking), _VARIANTS
    ):
        if budget.fails(smaller, chunks):
            return smaller, chunks
    return None


def _smaller_parts(parts: Sequence[ScenarioPart]) -> Iterator[list[ScenarioPart]]:
    """Yield lists in which one of the parts is missing or smaller."""
    for at in range(len(parts)):
        if len(parts) > 1:
            yield [*parts[:at], *parts[at + 1 :]]
    for at, part in enumerate(parts):
        for less in _smaller_part(part):
            yield [*parts[:at], less, *parts[at + 1 :]]


def _smaller_part(part: ScenarioPart) -> Iterator[ScenarioPart]:
    if isinstance(part, Reasoning):
        yield from (Reasoning(text) for text in _shorter_texts(part.text))
    elif isinstance(part, str):
        yield from _shorter_texts(part)
    elif not part.spelling:
        for key, value in part.arguments.items():
            rest = {name: other for name, other in part.arguments.items() if name != key}
            yield Call(part.name, rest)
            for less in _smaller_value(value):
                yield Call(part.name, {**part.arguments, key: less})


def _smaller_value(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        yield from _shorter_texts(value)
    elif isinstance(value, list) and value:
        yield value[: len(value) // 2]
    elif isinstance(value, dict) and value:
        yield dict(islice(value.items(), len(value) // 2))


def _shorter_texts(text: str) -> Iterator[str]:
    """Yield both halves of a text, then the text without its first or its last character."""
    half = len(text) // 2
    for less in (text[:half], text[half:], text[1:], text[:-1]):
        if less.strip() and less != text:
            yield less.strip()


def _join_chunks(case: TestCase, chunks: Chunks, budget: _Budget) -> Chunks:
    """Join adjacent chunks as long as the case still fails; return the resulting chunks."""
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
