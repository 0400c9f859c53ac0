"""Table of results in docs/agents.md."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

from lab.agents.agents import AGENTS, Agent


def table(results: Mapping[tuple[str, str], str], dialects: Sequence[str]) -> str:
    """Return the table of agents by dialects; an empty result is a completed task."""
    shown = [agent for agent in AGENTS if any((agent.name, dialect) in results for dialect in dialects)]
    lines = [
        f"| agent | version | API | {' | '.join(dialects)} |",
        f"|---|---|---|{'---|' * len(dialects)}",
    ]
    lines += [_row(agent, results, dialects) for agent in shown]
    done = sum(not result for result in results.values())
    system = f"{platform.system()}, Python {platform.python_version()}"
    return "\n".join(lines) + f"\n\n{done} of {len(results)} tasks were completed ({system}).\n"


def _row(agent: Agent, results: Mapping[tuple[str, str], str], dialects: Sequence[str]) -> str:
    cells = []
    for dialect in dialects:
        result = results.get((agent.name, dialect))
        cells.append("" if result is None else result.replace("|", "\\|")[:60] or "done")
    note = "" if agent.shells else ", file only, since it has no tools"
    return f"| {agent.name} | {agent.version} | {agent.api}{note} | {' | '.join(cells)} |"
