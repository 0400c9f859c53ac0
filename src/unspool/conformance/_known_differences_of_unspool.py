"""Rulings: cases in which unspool deliberately differs from the expected result of a scenario.

A ruling is a permanent decision, unless it is marked as a *defect*, which is a known fault that has yet to be
fixed. All differences without an entry are failures. The tests check that every entry is still needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from .case_format import TestCase


@dataclass(frozen=True, slots=True)
class Ruling:
    """Reason why the result of certain cases may differ from the expected result."""

    name: str
    scenarios: tuple[str, ...]
    """Patterns of scenario names."""
    classes: tuple[str, ...]
    """Classes of differences that the ruling covers."""
    reason: str
    dialects: tuple[str, ...] = ("*",)
    """Patterns of dialect names."""
    defect: bool = False

    def covers(self, case: TestCase, difference: str) -> bool:
        """Return whether the ruling covers a class of difference in a case."""
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
        "calls count only in one run at the beginning: JSON after a call and reasoning is text",
        ("generic_json", "xlam"),
    ),
    Ruling(
        "calls end reasoning",
        ("order/inside reasoning: *",),
        ("loss",),
        "the marker that opens a section of calls ends reasoning, as this family's models intend",
        ("kimi_k2",),
    ),
    Ruling(
        "strings without escapes",
        ("truncation/*",),
        ("arguments",),
        "only the text after a quote shows whether it ends the string, and the output was cut there",
        ("functiongemma", "gemma4", "lfm2"),
    ),
    Ruling(
        "code fences",
        ("orphans/the closer of the calls*",),
        ("leak",),
        "a code fence that closes nothing is part of the answer: it may open a code block",
        ("command_r",),
    ),
)
"""All rulings and known defects; the first entry that covers a case is used."""
