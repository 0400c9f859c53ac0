"""Headless runs of agents, each with a task of three turns, against the gateway and a scripted engine.

``--write`` regenerates the tables in docs/agents.md and docs/recipes.md, and the recorded requests for the
tests.

Needs: npm and the package index; 4 GB of disk space.
Takes: at most 2 minutes for each agent in each of six dialects.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab import ROOT, environments
from lab.agents.agents import AGENTS, FILE, Agent, Place, environment
from lab.agents.model_formats import MODEL_FORMATS, ModelFormat
from lab.agents.recipes import recipes
from lab.agents.recordings import record
from lab.agents.results_table import table
from lab.agents.scripted_engine import FILE_TEXT, SHELL_FILE_TEXT, Exchange, Scenario, servers, tools
from lab.docs_section import write_section

TEMPLATES: Final = ROOT / ".templates" / "xllamacpp"
_TIME_LIMIT: Final = 120
"""Time limit of a task in seconds."""


@dataclass
class Run:
    """Result of a task."""

    agent: Agent
    dialect: str
    done: bool
    seconds: float
    missing: str
    """Description of what is wrong, or an empty string."""
    place: Place
    seen: list[Exchange] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    output: str = ""
    """Output of the agent."""


# -- installation


def install(agent: Agent) -> str:
    """Install an agent; return an error message, or an empty string."""
    stamp = agent.home / ".installed"
    wanted = " ".join(agent.install)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return ""
    print(f"installing {wanted} into {agent.home.relative_to(ROOT)}", flush=True)
    shutil.rmtree(agent.home, ignore_errors=True)
    agent.home.mkdir(parents=True)
    commands: list[list[str]]
    if agent.python:
        pip = [str(agent.home / "bin" / "python"), "-m", "pip", "install", "-qq", "--no-input"]
        commands = [[sys.executable, "-m", "venv", str(agent.home)], [*pip, *agent.install]]
    else:
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(agent.home)]
        commands = [[*npm, *([] if agent.scripts else ["--ignore-scripts"]), *agent.install]]
    for command in commands:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if ended.returncode:
            return (ended.stderr or ended.stdout).strip()[-300:] or f"{command[0]} failed"
    stamp.write_text(wanted, encoding="utf-8")
    return ""


# -- runs


@contextmanager
def gateway(model_format: ModelFormat, engine: str, log: Path) -> Iterator[str]:
    """Run ``unspool serve`` with default settings in front of the engine; yield host and port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    template = TEMPLATES / f"{model_format.template}.jinja"
    if not template.is_file():
        raise SystemExit(f"{template} is missing; run make templates")
    command = [sys.executable, "-m", "unspool", "serve", "--upstream", "completions", "--url", engine]
    command += ["--template", str(template), "--port", address.rpartition(":")[2]]
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603
        try:
            _wait(process, f"http://{address}/ready", log)
            yield address
        finally:
            process.terminate()
            process.wait(60)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own server
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"the gateway did not start: {log.read_text(encoding='utf-8')}")


def run(agent: Agent, dialect: str, scenario: Scenario, url: str, scratch: Path) -> Run:
    """Run one task of one agent."""
    place = Place(url, scratch / "work", scratch / "home")
    place.folder.mkdir(parents=True)
    place.home.mkdir(parents=True)
    for name, text in agent.files(place).items():
        path = place.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    scenario.begin(agent.turns(place))
    began = time.monotonic()
    if prepare := agent.prepare(place):
        subprocess.run(  # noqa: S603
            _command(agent, prepare),
            cwd=place.folder,
            env=environment(agent, place),
            check=True,
            capture_output=True,
        )
    process = subprocess.Popen(  # noqa: S603
        _command(agent, agent.run(place)),
        cwd=place.folder,
        env=environment(agent, place),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=_TIME_LIMIT)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output = process.communicate()[0] + "\n(the agent did not end)"
    seconds = time.monotonic() - began
    missing = _missing(agent, place, scenario, process.returncode)
    return Run(
        agent, dialect, not missing, seconds, missing, place, scenario.seen, sorted(scenario.others), output
    )


def _command(agent: Agent, words: Sequence[str]) -> list[str]:
    first, *rest = words
    binary = agent.home / ("bin" if agent.python else "node_modules/.bin") / first
    return [str(binary) if binary.exists() else first, *rest]


def _missing(agent: Agent, place: Place, scenario: Scenario, code: int) -> str:
    wanted = {FILE: FILE_TEXT} | ({"shell.txt": SHELL_FILE_TEXT} if agent.shells else {})
    for name, text in wanted.items():
        path = place.folder / name
        if not path.is_file():
            return f"no {name}"
        if path.read_text(encoding="utf-8").rstrip("\n") != text.rstrip("\n"):
            return f"{name} holds {path.read_text(encoding='utf-8')!r}"
    refused = [f"{one.status}: {one.problem}" for one in scenario.seen if one.status != 200]
    if refused:
        return refused[0]
    return f"exit code {code}" if code else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agents and print the table; return 1 if a task failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", action="append", choices=[agent.name for agent in AGENTS])
    parser.add_argument("--dialect", action="append", choices=list(MODEL_FORMATS))
    parser.add_argument(
        "--write",
        action="store_true",
        help="regenerate the recordings; in a run of all agents and dialects, also the pages",
    )
    parser.add_argument("--show", action="store_true", help="print the output and the requests of each agent")
    options = parser.parse_args(arguments)
    environments.make("templates")
    agents = [agent for agent in AGENTS if not options.agent or agent.name in options.agent]
    dialects = options.dialect or list(MODEL_FORMATS)
    failed = False
    for agent in tuple(agents):
        if why := install(agent):
            print(f"{agent.name} cannot be installed: {why}")
            agents.remove(agent)
            failed = True
    runs: list[Run] = []
    scenario = Scenario(MODEL_FORMATS[dialects[0]])
    with tempfile.TemporaryDirectory(prefix="agents-") as name, servers(scenario) as (front, back):
        scratch = Path(name)
        for dialect in dialects:
            scenario.model_format = MODEL_FORMATS[dialect]
            log = scratch / f"{dialect}.log"
            with gateway(scenario.model_format, back, log) as scenario.gateway:
                for agent in agents:
                    folder = scratch / dialect / agent.folder
                    found = run(agent, dialect, scenario, front, folder)
                    runs.append(found)
                    if options.write and found.done and dialect == dialects[0]:
                        record(agent, found.place, found.seen)
                    print(
                        f"{dialect:14} {agent.name:14} {found.missing or 'done'} ({found.seconds:.0f} s)",
                        flush=True,
                    )
                    if options.show:
                        show(found)
            if options.show:
                print(log.read_text(encoding="utf-8"))
    results = {(found.agent.name, found.dialect): found.missing for found in runs}
    text = table(results, dialects)
    print(f"\n{text}")
    if options.write and not (options.agent or options.dialect):
        write_section("docs/agents.md", "results", text)
        write_section("docs/recipes.md", "agents", recipes())
    return int(failed or not all(found.done for found in runs))


def show(result: Run) -> None:
    """Print the details of a run, which help to add an agent."""
    print(result.output)
    for one in result.seen:
        print(one.status, one.path, f"{one.prompt} characters of prompt", sorted(one.body), one.problem)
        print("   ", sorted(tools(one.body)))
    print(result.others)


if __name__ == "__main__":
    sys.exit(main())
