"""Writer of the agents in docs/recipes.md, from the declarations that run them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final

from lab import ROOT
from lab.agents.agents import AGENTS, TASK, Agent, Place

_PLACE: Final = Place("http://127.0.0.1:8765", Path(), Path("~"))


def recipes() -> str:
    """Return the recipes of all agents."""
    return "\n".join(_recipe(agent) for agent in AGENTS)


def _recipe(agent: Agent) -> str:
    out = [f"### {agent.name}\n"]
    for name, text in agent.files(_PLACE).items():
        kind = Path(name).suffix[1:]
        own = text.replace(f"{ROOT}/", "")
        shown = json.dumps(json.loads(own), indent=2) if kind == "json" else own.rstrip()
        out.append(f"`~/{name}`:\n\n```{kind}\n{shown}\n```\n")
    lines = [f"export {name}={value}" for name, value in agent.environment(_PLACE).items()]
    lines += [_line(words) for words in (agent.prepare(_PLACE), agent.run(_PLACE)) if words]
    out.append("```sh\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(out)


def _line(words: tuple[str, ...]) -> str:
    shown = ("..." if word == TASK else word.replace(f"{ROOT}/", "") for word in words)
    return " ".join(word if word.startswith("~") else shlex.quote(word) for word in shown)
