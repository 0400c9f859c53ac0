"""The books of a soak: what was asked, what came of it, and whether that can be.

An answer must be what the upstream was told to write, an error must have a reason: the fault that
the request asked for, or one of the disturbances that are written down here.  What has
neither is wrong, and one wrong entry is enough to fail.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import Final

from soak_clients import Got
from soak_script import HARMLESS, MARK, Output

_SETTLING: Final = 2.0
"""Seconds after a disturbance in which its consequences may show: connections are found dead."""
_ONE: Final = 2
"""A request needs its gateway and one upstream, or two."""
_FAILURES: Final = 3
_RESTING: Final = 30.0
"""So many failures in a row make an upstream rest, and they were not longer ago than so many seconds."""
_SHOWN: Final = 3
"""Of each kind of what is wrong."""


@dataclass
class Disturbance:
    """Something was killed, stopped or full."""

    what: str
    whom: frozenset[str]
    """Names of the upstreams or gateways that it concerns."""
    began: float
    ended: float = float("inf")


@dataclass
class Books:
    """All entries."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By the way that was asked: how often it ended how."""
    faults: Counter[str] = field(default_factory=Counter)
    disturbances: list[Disturbance] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    spoilt: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    """When requests asked a model with two upstreams for faults."""
    counts: Counter[str] = field(default_factory=Counter)
    """Of what is wrong, by kind."""

    def begin(self, what: str, *whom: str) -> Disturbance:
        """Something is disturbed from now on."""
        found = Disturbance(what, frozenset(whom), time.monotonic())
        self.disturbances.append(found)
        return found

    def excused(self, began: float, whom: set[str]) -> bool:
        """Whether something that a request needs was disturbed while it ran, or shortly before."""
        # Recent ones are at the end; an old one cannot concern it.
        for one in reversed(self.disturbances[-40:]):
            if one.ended + _SETTLING >= began and one.whom & whom:
                return True
        return False

    def accuse(self, kind: str, text: str) -> None:
        """Something is wrong."""
        self.counts[kind] += 1
        if self.counts[kind] <= _SHOWN:
            self.wrong.append(f"{kind}: {text[:1500]}")

    def enter(self, way: str, got: Got, output: Output, fault: str, began: float, whom: set[str]) -> None:
        """Judge what came of a request."""
        self.outcomes[way][got.ended] += 1
        self.faults[fault] += 1
        place = f"{way}, fault={fault}, {sorted(whom)}, {got}"
        if got.ended == "answered":
            if fault not in HARMLESS and way != "left":
                self.accuse("a fault that nobody noticed", place)
            elif not _is(got, output):
                self.accuse("not what the model wrote", f"{place}\nwritten: {output}")
        elif got.ended == "error":
            if fault in HARMLESS and not self.excused(began, whom) and not self._all_rest(got, whom):
                self.accuse("an error without a reason", place)
        elif got.ended == "hung" or (got.ended == "broken" and not self.excused(began, whom)):
            self.accuse("lost", place)
        if fault not in HARMLESS and len(whom) > _ONE:
            self.spoilt.append(began)
        if not _begins(got, output, fault):
            self.accuse("not what the model wrote", f"{place}\nwritten: {output}")

    def table(self) -> str:
        """How often what was asked ended how."""
        lines = [f"| {'asked':26} | {' | '.join(f'{one:>8}' for one in _COLUMNS)} |"]
        lines.append(f"|{'-' * 28}|{'|'.join(['---------:'] * len(_COLUMNS))}|")
        total: Counter[str] = Counter()
        for counted in self.outcomes.values():
            total += counted
        for way, counted in (*sorted(self.outcomes.items()), ("all", total)):
            lines.append(f"| {way:26} | {' | '.join(f'{counted[one]:8,}' for one in _COLUMNS)} |")
        return "\n".join(lines)

    def verdict(self) -> str:
        """What was done wrong on purpose, and what is wrong."""
        disturbed = Counter(one.what for one in self.disturbances)
        lines = [
            f"Faults of upstreams: {_listed(self.faults)}.",
            f"Disturbances: {_listed(disturbed)}.",
            f"Lost: {self.counts['lost']}. Leaked: {self.counts['leaked']}.",
            f"All that is wrong: {_listed(self.counts) or 0}.",
        ]
        return "\n".join([*lines, *(f"  {one}" for one in self.wrong)])

    def _all_rest(self, got: Got, whom: set[str]) -> bool:
        """Whether both upstreams of a model may rest: requests have asked each for failures in a row."""
        recent = [one for one in self.spoilt if one > time.monotonic() - _RESTING]
        return got.status == 503 and len(whom) > _ONE and len(recent) >= 2 * _FAILURES

    def search(self, way: str, got: Got, marks: set[str]) -> None:
        """Look for what is somebody else's."""
        found = set(MARK.findall(f"{got.text} {got.reasoning} {got.calls} {got.problem}"))
        if found - marks:
            self.accuse("leaked", f"{way}: {sorted(found - marks)} in an answer to {sorted(marks)}")


_COLUMNS: Final = ("answered", "error", "broken", "left", "hung")


def _listed(counted: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counted.items()))


def _is(got: Got, output: Output) -> bool:
    """Whether an answer is all that was written, and nothing else."""
    if got.reasoning is not None and got.reasoning.strip() != output.reasoning.strip():
        return False
    return got.text.strip() == output.text.strip() and got.calls == list(output.calls)


def _begins(got: Got, output: Output, fault: str) -> bool:
    """Whether what came before a failure is the beginning of what was written: no call that nobody wrote."""
    calls = list(output.calls)
    if any(call not in calls for call in got.calls):
        return False
    text = got.text.strip()
    return output.text.startswith(text.rstrip("x") if fault == "huge" else text)
