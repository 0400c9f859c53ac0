"""Rulings: where unspool does not do what a scenario expects, and why.

A ruling is a decision that stands.  A *defect* is none: it is a fault that is known,
so that the suite can stay strict until it is mended.  The tests hold both to it:
one that is not needed any more must go.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from ._cases import TestCase


@dataclass(frozen=True, slots=True)
class Ruling:
    """Some cases, and why they come out otherwise."""

    name: str
    scenarios: tuple[str, ...]
    """Patterns of scenario names."""
    classes: tuple[str, ...]
    """The classes of difference that it covers."""
    reason: str
    dialects: tuple[str, ...] = ("*",)
    """Patterns of dialect names."""
    defect: bool = False

    def covers(self, case: TestCase, difference: str) -> bool:
        """Whether the ruling is about this."""
        return (
            difference in self.classes
            and any(fnmatchcase(case.dialect, pattern) for pattern in self.dialects)
            and any(fnmatchcase(case.scenario_name, pattern) for pattern in self.scenarios)
        )


RULINGS: Final[tuple[Ruling, ...]] = (
    Ruling(
        "calls in one run",
        ("order/*call-reasoning-call*",),
        ("loss",),
        "calls that count only at the beginning come in one run: JSON behind a call and reasoning is text",
        ("generic_json", "xlam"),
    ),
    Ruling(
        "calls end reasoning",
        ("order/inside reasoning: *",),
        ("loss",),
        "the marker that opens a section of calls ends reasoning, as this family's models mean it",
        ("kimi_k2",),
    ),
    Ruling(
        "strings that nothing escapes",
        ("truncation/*",),
        ("arguments",),
        "a quote ends a string only if what follows shows it, and the output was cut before that",
        ("functiongemma", "gemma4", "lfm2"),
    ),
    Ruling(
        "code fences",
        ("orphans/the closer of the calls*",),
        ("leak",),
        "a code fence that closes nothing belongs to the answer: it may open a block of code",
        ("command_r",),
    ),
)
"""What is ruled, and what is known to be wrong; of several that cover a case the first counts."""
