"""Runner that tests a parser with every case and every chunking.

``result_file_format.py`` documents the format of the results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from .._version import __version__
from ..dialects import get_dialect
from ..errors import ProtocolError
from . import _accepted_differences
from ._chunkings import CHUNKINGS, Chunks, chunked
from ._compare import MATCH, Difference, compare, diff, worse
from ._delta_reader import DecodedStream, decode_stream
from ._known_differences_of_unspool import RULINGS
from ._shrink import shrink
from .case_format import Json, Run, TestCase
from .parser_interface import Adapter, ParserFailed, Unsupported
from .result_file_format import FORMAT, abbreviate, abbreviate_list
from .scenarios import GROUPS, Inapplicable, cases

BATCH: Final = "batch"
"""Name of the non-streaming mode, in which the parser receives the complete output at once."""
ALL_CHUNKINGS: Final = (BATCH, *CHUNKINGS)
"""All chunkings, including the non-streaming mode."""
DEFAULT_CHUNKINGS: Final = tuple(chunking for chunking in ALL_CHUNKINGS if chunking != "two")
"""All chunkings except ``two``, which needs up to a hundred runs per case."""


@dataclass(slots=True)
class CaseResult:
    """Result of one case with all chunkings that were tried."""

    case: TestCase
    status: str = "passed"
    """``passed``, ``failed``, ``xfailed`` or ``unsupported``."""
    worst: Run | None = None
    """The run that determined the status of the case; for a passed case, the first run."""
    chunkings: dict[str, str] = field(default_factory=dict)
    """Class of the difference for each chunking, keyed by the name of the chunking."""
    reason: str = ""
    """Reason for the status: a ruling, a policy difference or an unsupported feature."""
    minimal: tuple[TestCase, Chunks] | None = None
    """Smallest failing variant of the case, with its chunks; None if no smaller variant was found."""

    @property
    def difference(self) -> str:
        """Class of the worst difference."""
        return "match" if self.worst is None else self.worst.difference


@dataclass(slots=True)
class Report:
    """Results of all cases for one parser."""

    parser: Json
    results: list[CaseResult]
    inapplicable: list[Inapplicable]
    chunkings: tuple[str, ...]

    @property
    def counts(self) -> Counter[str]:
        """Number of cases with each status."""
        return Counter(result.status for result in self.results)

    @property
    def failed(self) -> list[CaseResult]:
        """Cases that failed."""
        return [result for result in self.results if result.status == "failed"]


class Runner:
    """Runner that tests one parser."""

    def __init__(
        self, adapter: Adapter, chunkings: Sequence[str] = DEFAULT_CHUNKINGS, *, minimise: bool = True
    ) -> None:
        self._adapter = adapter
        self._identity = adapter.identity()
        self._chunkings = tuple(chunkings)
        self._minimise = minimise

    def run(
        self,
        chosen: Iterable[TestCase | Inapplicable],
        progress: Callable[[CaseResult], None] | None = None,
    ) -> Report:
        """Run the cases in order, and call ``progress`` after each case."""
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
        return Report(self._identity.to_json(), results, inapplicable, self._chunkings)

    def check(self, case: TestCase) -> CaseResult:
        """Run one case with every chunking, and return the result."""
        result = CaseResult(case)
        for chunking in self._chunkings:
            if case.streaming_mode != "both" and (case.streaming_mode == BATCH) != (chunking == BATCH):
                continue
            try:
                self._run_chunking(result, chunking)
            except Unsupported as error:
                return CaseResult(case, "unsupported", reason=str(error))
        worst = result.worst
        if worst is not None and worst.status == "failed" and self._minimise:
            result.minimal = self._shrink(worst)
        return result

    def _run_chunking(self, result: CaseResult, chunking: str) -> None:
        """Run the variants of a chunking until one does not pass, and update the result."""
        case = result.case
        result.chunkings[chunking] = "match"
        for chunks in chunked(case.model_output, "whole" if chunking == BATCH else chunking):
            run = self.run_case(case, chunking, chunks)
            if run.status == "passed":
                result.worst = result.worst or run
                continue
            result.chunkings[chunking] = run.difference
            previous = result.worst
            if previous is None or _is_worse(run, previous):
                result.worst, result.status, result.reason = run, run.status, run.reason
            return

    def run_case(self, case: TestCase, chunking: str, chunks: Chunks) -> Run:
        """Run one case with the given chunks, and return the run with its verdict."""
        run = Run(case, self._identity.name, chunking, chunks)
        choices = [chunks if chunking == BATCH else _shift_cuts(chunks, offset) for offset in range(case.n)]
        try:
            answers = self._adapter.answer(case, choices, streaming=chunking != BATCH)
            streams = [decode_stream(answer.deltas, answer.finish_reason) for answer in answers]
            if chunking == BATCH:  # the order of the parts in a complete message is unknown
                streams = [DecodedStream(stream.message, stream.positions[-1:]) for stream in streams]
        except (ParserFailed, ProtocolError) as error:
            difference = Difference("error", str(error))
            run = run.executed(None, str(error))
            return run.judged(difference.name, difference.detail, self._find_reason(case, difference, None))
        compared = [(compare(case, stream), stream) for stream in streams]
        difference, stream = next((pair for pair in compared if pair[0] != MATCH), compared[0])
        run = run.executed(stream.message)
        if difference == MATCH:
            return run.judged("match")
        return run.judged(difference.name, difference.detail, self._find_reason(case, difference, stream))

    def _find_reason(self, case: TestCase, difference: Difference, stream: DecodedStream | None) -> str:
        if self._identity.name == "unspool":
            return next((r.reason for r in RULINGS if r.covers(case, difference.name)), "")
        return _accepted_differences.find_reason(case, stream) if stream is not None else ""

    def _shrink(self, worst: Run) -> tuple[TestCase, Chunks] | None:
        def fails(case: TestCase, chunks: Chunks) -> bool:
            try:
                run = self.run_case(case, worst.chunking, chunks)
            except Unsupported:
                return False
            return run.status == "failed" and run.difference == worst.difference

        case, chunks = shrink(worst.case, worst.chunking, worst.chunks, fails)
        same = case.model_output == worst.case.model_output and chunks == worst.chunks
        return None if same else (case, chunks)


def _is_worse(run: Run, previous: Run) -> bool:
    """Return whether a run failed more severely than the previous run of the same case."""
    rank = {"passed": 0, "xfailed": 1, "failed": 2}
    if rank[run.status] != rank[previous.status]:
        return rank[run.status] > rank[previous.status]
    return (
        run.difference != previous.difference and worse(run.difference, previous.difference) == run.difference
    )


def _shift_cuts(chunks: Chunks, offset: int) -> Chunks:
    """Move all chunk boundaries by ``offset`` characters; each choice of a request has its own offset."""
    if not offset:
        return chunks
    text = "".join(chunks)
    cuts, at = [0], 0
    for chunk in chunks:
        at += len(chunk)
        cuts.append(min(at + offset, len(text)))
    return tuple(text[a:b] for a, b in pairwise([*cuts, len(text)]))


def run_suite(
    adapter: Adapter,
    *,
    dialects: Sequence[str] = (),
    scenarios: Sequence[str] = (),
    chunkings: Sequence[str] = DEFAULT_CHUNKINGS,
    minimise: bool = True,
    progress: Callable[[CaseResult], None] | None = None,
) -> Report:
    """Test a parser with the whole suite or a part of it."""
    return Runner(adapter, chunkings, minimise=minimise).run(cases(dialects, scenarios), progress)


def explain_failure(result: CaseResult) -> str:
    """Explain a failure in readable form, with the smallest failing output or the difference."""
    worst = result.worst
    if worst is None:
        return f"{result.case.key}: {result.status}"
    lines = [
        f"{result.case.dialect}: {result.case.scenario_name}: {worst.difference} ({worst.chunking})",
        f"  {_shorten(worst.detail)}",
        f"  rule: {result.case.rule}",
    ]
    case, chunks = result.minimal or (result.case, worst.chunks)
    lines.append(f"  output: {_shorten(case.model_output)!r}")
    if len(chunks) > 1:
        lines.append(f"  chunks: {_shorten(str(list(chunks)))}")
    if result.minimal is None:
        lines += [f"  {_shorten(line)}" for line in diff(result.case, worst.actual).split("\n")]
    return "\n".join(lines)


def _shorten(text: str) -> str:
    return text if len(text) <= 600 else f"{text[:300]} ... {text[-280:]}"


# -- conversion to JSON


def to_json(reports: Sequence[Report]) -> Json:
    """Convert the results of one or more parsers to the format that ``result_file_format.py`` documents."""
    named = dict.fromkeys(result.case.dialect for report in reports for result in report.results)
    entries = [entry for report in reports for entry in _entries(report)]
    keys = {entry["case"] for entry in entries}
    cases_by_key = {
        result.case.key: result.case
        for report in reports
        for result in report.results
        if result.case.key in keys
    }
    inapplicable = {(one.dialect, one.scenario): one for report in reports for one in report.inapplicable}
    chunkings = dict.fromkeys(chunking for report in reports for chunking in report.chunkings)
    return {
        "format": FORMAT,
        "unspool": __version__,
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "chunkings": list(chunkings),
        "parsers": [report.parser for report in reports],
        "dialects": [{"name": name, "models": get_dialect(name).family.models} for name in sorted(named)],
        "groups": [{"name": name, "title": title} for name, title in GROUPS.items()],
        "inapplicable": [one.to_json() for one in inapplicable.values()],
        "cells": [cell for report in reports for cell in _cells(report)],
        "results": entries,
        "cases": {key: abbreviate(case.to_json()) for key, case in cases_by_key.items()},
    }


def _samples(report: Report) -> dict[tuple[str, str], CaseResult]:
    """Return the first passed case of each cell (see ``result_file_format.py``)."""
    cases_by_key: dict[tuple[str, str], CaseResult] = {}
    for result in report.results:
        if result.status == "passed":
            cases_by_key.setdefault((result.case.dialect, result.case.group), result)
    return cases_by_key


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
        "chunkings": result.chunkings,
        "chunking": worst.chunking if worst is not None else "",
        "chunks": abbreviate_list(worst.chunks) if worst is not None else [],
        "actual": worst.actual.to_json() if worst is not None and worst.actual is not None else None,
        "error": worst.error if worst is not None else "",
        "detail": worst.detail if worst is not None else "",
        "diff": diff(result.case, worst.actual) if worst is not None else "",
        "reason": result.reason,
        "defect": any(ruling.defect and ruling.reason == result.reason for ruling in RULINGS),
        "minimal": None,
    }
    if result.minimal is not None:
        case, chunks = result.minimal
        entry["minimal"] = {"output": case.model_output, "chunks": list(chunks)}
    shortened: Json = abbreviate(entry)
    return shortened
