"""Log of a soak test: requests, their results, and the check that each result is legitimate.

An answer must match the upstream's output. An error must have a reason: the fault that the
request asked for, or a recorded disturbance. Any other result is wrong, and a single wrong
result fails the test.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import Final

from lab.soak.clients import RequestResult
from lab.soak.script import HARMLESS, MARK, Output

_SETTLING: Final = 2.0
"""Seconds after a disturbance during which its effects may show, such as dead connections."""
_ONE: Final = 2
"""Number of names that a request with one upstream depends on: the gateway and the upstream."""
_FAILURES: Final = 3
_RESTING: Final = 30.0
"""Number of consecutive failures that make an upstream rest, and the seconds in which they count."""
_SHOWN: Final = 3
"""Number of examples to print for each kind of fault."""


@dataclass
class Disturbance:
    """Deliberate fault: a process killed or stopped, or a full disk."""

    what: str
    names: frozenset[str]
    """Names of the affected upstreams or gateways."""
    began: float
    ended: float = float("inf")


@dataclass
class ResultLog:
    """All entries of the log."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Number of results by kind of request."""
    faults: Counter[str] = field(default_factory=Counter)
    disturbances: list[Disturbance] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    fault_times: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    """Times at which requests asked a model with two upstreams for faults."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of faults by kind."""

    def begin(self, what: str, *names: str) -> Disturbance:
        """Record the start of a disturbance."""
        found = Disturbance(what, frozenset(names), time.monotonic())
        self.disturbances.append(found)
        return found

    def is_explained(self, began: float, names: set[str]) -> bool:
        """Return whether a disturbance affected the request while it ran, or shortly before."""
        # Recent disturbances are at the end, and older ones cannot have affected the request.
        for one in reversed(self.disturbances[-40:]):
            if one.ended + _SETTLING >= began and one.names & names:
                return True
        return False

    def record_failure(self, kind: str, text: str) -> None:
        """Record a fault."""
        self.counts[kind] += 1
        if self.counts[kind] <= _SHOWN:
            self.wrong.append(f"{kind}: {text[:1500]}")

    def check_result(
        self, way: str, result: RequestResult, output: Output, fault: str, began: float, names: set[str]
    ) -> None:
        """Check the result of a request."""
        self.outcomes[way][result.ended] += 1
        self.faults[fault] += 1
        place = f"{way}, fault={fault}, {sorted(names)}, {result}"
        if result.ended == "answered":
            if fault not in HARMLESS and way != "left":
                self.record_failure("unnoticed fault", place)
            elif not _matches(result, output):
                self.record_failure("different from the model's output", f"{place}\nwritten: {output}")
        elif result.ended == "error":
            if (
                fault in HARMLESS
                and not self.is_explained(began, names)
                and not self._all_upstreams_rest(result, names)
            ):
                self.record_failure("unexplained error", place)
        elif result.ended == "hung" or (result.ended == "broken" and not self.is_explained(began, names)):
            self.record_failure("lost", place)
        if fault not in HARMLESS and len(names) > _ONE:
            self.fault_times.append(began)
        if not _is_prefix(result, output, fault):
            self.record_failure("different from the model's output", f"{place}\nwritten: {output}")

    def table(self) -> str:
        """Return a table of results by kind of request."""
        lines = [f"| {'asked':26} | {' | '.join(f'{one:>8}' for one in _COLUMNS)} |"]
        lines.append(f"|{'-' * 28}|{'|'.join(['---------:'] * len(_COLUMNS))}|")
        total: Counter[str] = Counter()
        for counted in self.outcomes.values():
            total += counted
        for way, counted in (*sorted(self.outcomes.items()), ("all", total)):
            lines.append(f"| {way:26} | {' | '.join(f'{counted[one]:8,}' for one in _COLUMNS)} |")
        return "\n".join(lines)

    def verdict(self) -> str:
        """Describe the deliberate faults and the failures."""
        disturbed = Counter(one.what for one in self.disturbances)
        lines = [
            f"Faults of upstreams: {_listed(self.faults)}.",
            f"Disturbances: {_listed(disturbed)}.",
            f"Lost: {self.counts['lost']}. Leaked: {self.counts['leaked']}.",
            f"All failures: {_listed(self.counts) or 0}.",
        ]
        return "\n".join([*lines, *(f"  {one}" for one in self.wrong)])

    def _all_upstreams_rest(self, result: RequestResult, names: set[str]) -> bool:
        """Return whether both upstreams of a model may rest after failures that requests asked for."""
        recent = [one for one in self.fault_times if one > time.monotonic() - _RESTING]
        return result.status == 503 and len(names) > _ONE and len(recent) >= 2 * _FAILURES

    def check_leak(self, way: str, result: RequestResult, marks: set[str]) -> None:
        """Check that an answer has no text of another request."""
        found = set(MARK.findall(f"{result.text} {result.reasoning} {result.calls} {result.problem}"))
        if found - marks:
            self.record_failure("leaked", f"{way}: {sorted(found - marks)} in an answer to {sorted(marks)}")


_COLUMNS: Final = ("answered", "error", "broken", "left", "hung")


def _listed(counted: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counted.items()))


def _matches(result: RequestResult, output: Output) -> bool:
    """Return whether an answer is exactly the output."""
    if result.reasoning is not None and result.reasoning.strip() != output.reasoning.strip():
        return False
    return result.text.strip() == output.text.strip() and result.calls == list(output.calls)


def _is_prefix(result: RequestResult, output: Output, fault: str) -> bool:
    """Return whether the part before a failure is a prefix of the output, without invented calls."""
    calls = list(output.calls)
    if any(call not in calls for call in result.calls):
        return False
    text = result.text.strip()
    return output.text.startswith(text.rstrip("x") if fault == "huge" else text)
