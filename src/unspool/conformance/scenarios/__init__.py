"""Scenarios of the suite, which are declared once and rendered in every dialect.

To add a scenario, edit the module of its group. :func:`cases` renders every scenario in every dialect. If a
dialect cannot express a scenario, :func:`cases` yields an :class:`Inapplicable` with the reason instead of a
case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

from ...dialects import get_dialect, list_dialects
from ...errors import UsageError
from ..case_format import TestCase
from . import (
    answers_like_calls,
    arguments,
    changed_markers,
    faulty_calls,
    missing_and_stray_markers,
    order,
    requests,
    ten_standard_patterns,
    truncation,
)
from .dialect_capabilities import Capabilities
from .scenario import Scenario

GROUPS: Final[dict[str, str]] = {
    "standard": ten_standard_patterns.TITLE,
    "order": order.TITLE,
    "arguments": arguments.TITLE,
    "answers": answers_like_calls.TITLE,
    "truncation": truncation.TITLE,
    **missing_and_stray_markers.TITLES,
    "changed": changed_markers.TITLE,
    **faulty_calls.TITLES,
    **requests.TITLES,
}
"""Names of the groups, each with its title."""

_MODULES: Final = (
    ten_standard_patterns,
    order,
    arguments,
    answers_like_calls,
    truncation,
    missing_and_stray_markers,
    changed_markers,
    faulty_calls,
    requests,
)
SCENARIOS: Final[dict[str, Scenario]] = {
    scenario.full_name: scenario for module in _MODULES for scenario in module.SCENARIOS
}
"""Scenarios, keyed by full name."""


@dataclass(frozen=True, slots=True)
class Inapplicable:
    """Scenario that a dialect cannot express, with the reason."""

    dialect: str
    scenario: str
    group: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """Return the JSON object for the result file."""
        return {
            "dialect": self.dialect,
            "scenario": self.scenario,
            "group": self.group,
            "reason": self.reason,
        }


@cache
def capabilities_of(dialect: str) -> Capabilities:
    """Return the capabilities of a dialect."""
    return Capabilities(get_dialect(dialect))


def select(patterns: Sequence[str] = ()) -> list[Scenario]:
    """Return the scenarios that match a pattern (a group, a name, or ``order/*``); default: all."""
    if not patterns:
        return list(SCENARIOS.values())
    matches = [
        scenario
        for scenario in SCENARIOS.values()
        if any(scenario.group == pattern or fnmatchcase(scenario.full_name, pattern) for pattern in patterns)
    ]
    if not matches:
        raise UsageError(
            f"no scenario matches {', '.join(patterns)}; run unspool conformance list to see all"
        )
    return matches


def cases(dialects: Sequence[str] = (), scenarios: Sequence[str] = ()) -> Iterator[TestCase | Inapplicable]:
    """Yield a case for every scenario in every dialect; both can be restricted to a selection."""
    names = [get_dialect(name).name for name in dialects] or [dialect.name for dialect in list_dialects()]
    selected = select(scenarios)
    for name in names:
        for scenario in selected:
            case = scenario.case(capabilities_of(name))
            if isinstance(case, str):
                yield Inapplicable(name, scenario.full_name, scenario.group, case)
            else:
                yield case
