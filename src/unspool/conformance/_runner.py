"""The runner: a parser, the cases, and every way of cutting them.

``results.py`` documents what comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from .._version import __version__
from ..dialects._registry import get_dialect
from ..errors import ProtocolError
from . import _policy_differences as excuses
from ._adapters import Adapter, ParserFailed, Unsupported
from ._cases import Json, Run, TestCase
from ._chunkings import CHUNKINGS, Chunks, chunked
from ._compare import MATCH, Difference, compare, diff, worse
from ._delta_reader import Rebuilt, rebuild
from ._results import FORMAT, abbreviated, abbreviated_list
from ._rulings import RULINGS
from ._scenarios import GROUPS, Inapplicable, cases
from ._shrink import shrink

BATCH: Final = "batch"
"""Not a way of cutting: the whole output, to the parser of whole outputs."""
WAYS: Final = (BATCH, *CHUNKINGS)
"""All that a run may try."""
DEFAULT_WAYS: Final = tuple(way for way in WAYS if way != "two")
"""Without the one that takes a hundred runs for each case."""


@dataclass(slots=True)
class CaseResult:
    """A case, in every way that was tried."""

    case: TestCase
    status: str = "passed"
    """``passed``, ``failed``, ``xfailed`` or ``unsupported``."""
    worst: Run | None = None
    """The run that says why it did not pass; of a case that did, the first."""
    ways: dict[str, str] = field(default_factory=dict)
    """The class of the difference, by chunking."""
    excuse: str = ""
    minimal: tuple[TestCase, Chunks] | None = None

    @property
    def difference(self) -> str:
        """The class of the worst difference."""
        return "match" if self.worst is None else self.worst.difference


@dataclass(slots=True)
class Report:
    """What became of every case, for one parser."""

    parser: Json
    results: list[CaseResult]
    inapplicable: list[Inapplicable]
    ways: tuple[str, ...]

    @property
    def counts(self) -> Counter[str]:
        """How many cases passed, failed, and so on."""
        return Counter(result.status for result in self.results)

    @property
    def failed(self) -> list[CaseResult]:
        """The cases that failed."""
        return [result for result in self.results if result.status == "failed"]


class Runner:
    """Holds one parser against cases."""

    def __init__(
        self, adapter: Adapter, ways: Sequence[str] = DEFAULT_WAYS, *, minimise: bool = True
    ) -> None:
        self._adapter = adapter
        self._identity = adapter.identity()
        self._ways = tuple(ways)
        self._minimise = minimise

    def run(
        self,
        chosen: Iterable[TestCase | Inapplicable],
        progress: Callable[[CaseResult], None] | None = None,
    ) -> Report:
        """Run the cases, one after the other; ``progress`` hears of each."""
        results: list[CaseResult] = []
        inapplicable: list[Inapplicable] = []
        for case in chosen:
            if isinstance(case, Inapplicable):
                if case.dialect in self._identity.dialects:
                    inapplicable.append(case)
            elif case.dialect in self._identity.dialects:
                results.append(self.check(case))
                if progress is not None:
                    progress(results[-1])
        return Report(self._identity.to_json(), results, inapplicable, self._ways)

    def check(self, case: TestCase) -> CaseResult:
        """One case, in every way."""
        result = CaseResult(case)
        for way in self._ways:
            if case.streaming_mode != "both" and (case.streaming_mode == BATCH) != (way == BATCH):
                continue
            try:
                self._way(result, way)
            except Unsupported as reason:
                return CaseResult(case, "unsupported", excuse=str(reason))
        worst = result.worst
        if worst is not None and worst.status == "failed" and self._minimise:
            result.minimal = self._smallest(worst)
        return result

    def _way(self, result: CaseResult, way: str) -> None:
        """Every cut of one chunking, up to the first that goes wrong."""
        case = result.case
        result.ways[way] = "match"
        for chunks in chunked(case.model_output, "whole" if way == BATCH else way):
            run = self.once(case, way, chunks)
            if run.status == "passed":
                result.worst = result.worst or run
                continue
            result.ways[way] = run.difference
            seen = result.worst
            if seen is None or _graver(run, seen):
                result.worst, result.status, result.excuse = run, run.status, run.excuse
            return

    def once(self, case: TestCase, way: str, chunks: Chunks) -> Run:
        """One case, cut in one way."""
        run = Run(case, self._identity.name, way, chunks)
        choices = [chunks if way == BATCH else _shifted(chunks, by) for by in range(case.n)]
        try:
            answers = self._adapter.answer(case, choices, streaming=way != BATCH)
            streams = [rebuild(answer.deltas, answer.finish_reason) for answer in answers]
            if way == BATCH:  # a whole message has no order
                streams = [Rebuilt(stream.message, stream.reached[-1:]) for stream in streams]
        except (ParserFailed, ProtocolError) as error:
            difference = Difference("error", str(error))
            run = run.executed(None, str(error))
            return run.judged(difference.name, difference.detail, self._excuse(case, difference, None))
        judged = [(compare(case, stream), stream) for stream in streams]
        difference, stream = next((pair for pair in judged if pair[0] != MATCH), judged[0])
        run = run.executed(stream.message)
        if difference == MATCH:
            return run.judged("match")
        return run.judged(difference.name, difference.detail, self._excuse(case, difference, stream))

    def _excuse(self, case: TestCase, difference: Difference, stream: Rebuilt | None) -> str:
        if self._identity.name == "unspool":
            return next((r.reason for r in RULINGS if r.covers(case, difference.name)), "")
        return excuses.excuse(case, stream) if stream is not None else ""

    def _smallest(self, worst: Run) -> tuple[TestCase, Chunks] | None:
        def fails(case: TestCase, chunks: Chunks) -> bool:
            try:
                run = self.once(case, worst.chunking, chunks)
            except Unsupported:
                return False
            return run.status == "failed" and run.difference == worst.difference

        case, chunks = shrink(worst.case, worst.chunking, worst.chunks, fails)
        same = case.model_output == worst.case.model_output and chunks == worst.chunks
        return None if same else (case, chunks)


def _graver(run: Run, seen: Run) -> bool:
    """Whether a run says more about its case than the one seen before."""
    rank = {"passed": 0, "xfailed": 1, "failed": 2}
    if rank[run.status] != rank[seen.status]:
        return rank[run.status] > rank[seen.status]
    return run.difference != seen.difference and worse(run.difference, seen.difference) == run.difference


def _shifted(chunks: Chunks, by: int) -> Chunks:
    """The same text with its cuts elsewhere, so that the choices of a request are not in step."""
    if not by:
        return chunks
    text = "".join(chunks)
    cuts, at = [0], 0
    for chunk in chunks:
        at += len(chunk)
        cuts.append(min(at + by, len(text)))
    return tuple(text[a:b] for a, b in pairwise([*cuts, len(text)]))


def run_suite(
    adapter: Adapter,
    *,
    dialects: Sequence[str] = (),
    scenarios: Sequence[str] = (),
    ways: Sequence[str] = DEFAULT_WAYS,
    minimise: bool = True,
    progress: Callable[[CaseResult], None] | None = None,
) -> Report:
    """Hold a parser against the suite, or a part of it."""
    return Runner(adapter, ways, minimise=minimise).run(cases(dialects, scenarios), progress)


def told(result: CaseResult) -> str:
    """Why a case failed, for people: the smallest output that does, or the difference."""
    worst = result.worst
    if worst is None:
        return f"{result.case.key}: {result.status}"
    lines = [
        f"{result.case.dialect}: {result.case.scenario_name}: {worst.difference} ({worst.chunking})",
        f"  {_short(worst.detail)}",
        f"  rule: {result.case.rule}",
    ]
    case, chunks = result.minimal or (result.case, worst.chunks)
    lines.append(f"  output: {_short(case.model_output)!r}")
    if len(chunks) > 1:
        lines.append(f"  chunks: {_short(str(list(chunks)))}")
    if result.minimal is None:
        lines += [f"  {_short(line)}" for line in diff(result.case, worst.actual).split("\n")]
    return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= 600 else f"{text[:300]} ... {text[-280:]}"


# -- results


def to_json(reports: Sequence[Report]) -> Json:
    """Results of one or more parsers, in the format of ``results.py``."""
    named = dict.fromkeys(result.case.dialect for report in reports for result in report.results)
    entries = [entry for report in reports for entry in _entries(report)]
    shown = {entry["case"] for entry in entries}
    found = {
        result.case.key: result.case
        for report in reports
        for result in report.results
        if result.case.key in shown
    }
    inapplicable = {(one.dialect, one.scenario): one for report in reports for one in report.inapplicable}
    ways = dict.fromkeys(way for report in reports for way in report.ways)
    return {
        "format": FORMAT,
        "unspool": __version__,
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "chunkings": list(ways),
        "parsers": [report.parser for report in reports],
        "dialects": [{"name": name, "models": get_dialect(name).family.models} for name in sorted(named)],
        "groups": [{"name": name, "title": title} for name, title in GROUPS.items()],
        "inapplicable": [one.to_json() for one in inapplicable.values()],
        "cells": [cell for report in reports for cell in _cells(report)],
        "results": entries,
        "cases": {key: abbreviated(case.to_json()) for key, case in found.items()},
    }


def _samples(report: Report) -> dict[tuple[str, str], CaseResult]:
    """The first case of every cell that passed."""
    found: dict[tuple[str, str], CaseResult] = {}
    for result in report.results:
        if result.status == "passed":
            found.setdefault((result.case.dialect, result.case.group), result)
    return found


def _cells(report: Report) -> Iterator[Json]:
    cells: dict[tuple[str, str], list[CaseResult]] = {}
    for result in report.results:
        cells.setdefault((result.case.dialect, result.case.group), []).append(result)
    samples = _samples(report)
    for (dialect, group), results in cells.items():
        counts = Counter(result.status for result in results)
        sample = samples.get((dialect, group))
        yield {
            "parser": report.parser["name"],
            "dialect": dialect,
            "group": group,
            **{status: counts[status] for status in ("passed", "failed", "xfailed", "unsupported")},
            "classes": dict(Counter(r.difference for r in results if r.status != "unsupported")),
            "sample": sample.case.key if sample is not None else None,
        }


def _entries(report: Report) -> Iterator[Json]:
    samples = {id(result) for result in _samples(report).values()}
    for result in report.results:
        if result.status != "passed" or id(result) in samples:
            yield _entry(report.parser["name"], result)


def _entry(parser: str, result: CaseResult) -> Json:
    worst = result.worst
    entry: dict[str, Any] = {
        "parser": parser,
        "case": result.case.key,
        "dialect": result.case.dialect,
        "group": result.case.group,
        "scenario": result.case.scenario_name,
        "status": result.status,
        "class": result.difference,
        "chunkings": result.ways,
        "chunking": worst.chunking if worst is not None else "",
        "chunks": abbreviated_list(worst.chunks) if worst is not None else [],
        "actual": worst.actual.to_json() if worst is not None and worst.actual is not None else None,
        "error": worst.error if worst is not None else "",
        "detail": worst.detail if worst is not None else "",
        "diff": diff(result.case, worst.actual) if worst is not None else "",
        "excuse": result.excuse,
        "defect": any(ruling.defect and ruling.reason == result.excuse for ruling in RULINGS),
        "minimal": None,
    }
    if result.minimal is not None:
        case, chunks = result.minimal
        entry["minimal"] = {"output": case.model_output, "chunks": list(chunks)}
    shortened: Json = abbreviated(entry)
    return shortened
