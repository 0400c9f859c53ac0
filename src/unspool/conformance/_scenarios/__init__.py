"""Scenarios: written once, in no dialect, and rendered into each.

To add one, put it into the module of its group.  :func:`cases` renders every
scenario into every dialect; where a dialect cannot express one, it says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

from ...dialects._registry import get_dialect, list_dialects
from ...errors import UsageError
from .._cases import TestCase
from . import (
    arguments,
    markers,
    order,
    requests,
    standard,
    truncation,
)
from . import (
    faulty_calls as calls,
)
from . import (
    lookalikes as answers,
)
from .capabilities import Able
from .scenario import Scenario

GROUPS: Final[dict[str, str]] = {
    "standard": standard.TITLE,
    "order": order.TITLE,
    "arguments": arguments.TITLE,
    "answers": answers.TITLE,
    "truncation": truncation.TITLE,
    **markers.TITLES,
    **calls.TITLES,
    **requests.TITLES,
}
"""Titles of the groups, by name."""

SCENARIOS: Final[dict[str, Scenario]] = {
    scenario.full_name: scenario
    for module in (standard, order, arguments, answers, truncation, markers, calls, requests)
    for scenario in module.SCENARIOS
}
"""Every scenario, by its full name."""


@dataclass(frozen=True, slots=True)
class Inapplicable:
    """A scenario that a dialect cannot express."""

    dialect: str
    scenario: str
    group: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """As it stands in the results."""
        return {
            "dialect": self.dialect,
            "scenario": self.scenario,
            "group": self.group,
            "reason": self.reason,
        }


@cache
def able(dialect: str) -> Able:
    """What a dialect can express."""
    return Able(get_dialect(dialect))


def select(patterns: Sequence[str] = ()) -> list[Scenario]:
    """The scenarios that a name, a group or a pattern such as ``order/*`` selects; all, if there are none."""
    if not patterns:
        return list(SCENARIOS.values())
    found = [
        scenario
        for scenario in SCENARIOS.values()
        if any(scenario.group == pattern or fnmatchcase(scenario.full_name, pattern) for pattern in patterns)
    ]
    if not found:
        raise UsageError(f"no scenario matches {', '.join(patterns)}: see unspool conformance list")
    return found


def cases(dialects: Sequence[str] = (), scenarios: Sequence[str] = ()) -> Iterator[TestCase | Inapplicable]:
    """Every scenario in every dialect, or some of both."""
    names = [get_dialect(name).name for name in dialects] or [dialect.name for dialect in list_dialects()]
    chosen = select(scenarios)
    for name in names:
        for scenario in chosen:
            case = scenario.case(able(name))
            if isinstance(case, str):
                yield Inapplicable(name, scenario.full_name, scenario.group, case)
            else:
                yield case
