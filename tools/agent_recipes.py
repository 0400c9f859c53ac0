"""Writer of the agents in docs/recipes.md, from the declarations that run them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final

from agent_list import AGENTS, TASK, Agent, Place

PAGE: Final = Path(__file__).parent.parent / "docs" / "recipes.md"
_BEGIN: Final = "<!-- agents: written by tools/agent_runs.py -->\n"
_END: Final = "<!-- end of the agents -->\n"
_ROOT: Final = Path(__file__).parent.parent
_PLACE: Final = Place("http://127.0.0.1:8765", Path(), Path("~"))


def written() -> str:
    """Return the recipes of all agents."""
    return "\n".join(_recipe(agent) for agent in AGENTS)


def write() -> None:
    """Insert the recipes into the page."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    PAGE.write_text(f"{head}{_BEGIN}\n{written()}\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")


def _recipe(agent: Agent) -> str:
    out = [f"### {agent.name}\n"]
    for name, text in agent.files(_PLACE).items():
        kind = Path(name).suffix[1:]
        own = text.replace(f"{_ROOT}/", "")
        shown = json.dumps(json.loads(own), indent=2) if kind == "json" else own.rstrip()
        out.append(f"`~/{name}`:\n\n```{kind}\n{shown}\n```\n")
    lines = [f"export {name}={value}" for name, value in agent.environment(_PLACE).items()]
    lines += [_line(words) for words in (agent.prepare(_PLACE), agent.run(_PLACE)) if words]
    out.append("```sh\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(out)


def _line(words: tuple[str, ...]) -> str:
    shown = ("..." if word == TASK else word.replace(f"{_ROOT}/", "") for word in words)
    return " ".join(word if word.startswith("~") else shlex.quote(word) for word in shown)
