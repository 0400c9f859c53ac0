"""Agents that ``lab.agents`` runs: their packages, commands and tools.

An agent runs with its default settings, except for the gateway's address, the permission to
work without confirmation, and options that stop telemetry.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab import ROOT
from lab.agents.scripted_engine import COMMAND, FILE_TEXT, Answer, Turns

NODE: Final = f"node-{sys.platform}-{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'x64'}@24.9.0"
"""Node package for agents that need a newer Node than many systems have."""
PROGRAMS: Final = Path(__file__).parent / "programs"
"""Folder of the programs for agent libraries: the loop from a library's documentation, with two tools."""
INSTALLED: Final = ROOT / ".agents"
TASK: Final = "Do the task: write hello.txt, then run the command, then say that you are done."
FILE: Final = "hello.txt"


@dataclass(frozen=True)
class Place:
    """Environment of an agent's task."""

    url: str
    """Address of the gateway, without ``/v1``."""
    folder: Path
    """Working directory."""
    home: Path
    """Empty home directory."""

    @property
    def file(self) -> str:
        """Full path of the file to write."""
        return str(self.folder / FILE)


Words = Callable[[Place], tuple[str, ...]]
Files = Callable[[Place], Mapping[str, str]]


@dataclass(frozen=True)
class Agent:
    """Agent, with its installation and tools."""

    name: str
    api: str
    install: tuple[str, ...]
    """Packages with versions; the first one is the agent."""
    run: Words
    """Command, relative to the installation folder."""
    turns: Callable[[Place], Turns]
    python: bool = False
    """True for packages from PyPI, False for npm."""
    environment: Callable[[Place], Mapping[str, str]] = lambda _: {}
    files: Files = lambda _: {}
    """Configuration files; paths are relative to the agent's home directory."""
    shells: bool = True
    """True if the agent can run commands."""
    prepare: Words = lambda _: ()
    """Command to run before the task."""
    scripts: bool = False
    """True if npm must run the install script of the package."""

    @property
    def version(self) -> str:
        """Version of the first package."""
        return self.install[0].rpartition("==" if self.python else "@")[2]

    @property
    def folder(self) -> str:
        """Folder name of the agent."""
        return self.name.lower().replace(" ", "-")

    @property
    def home(self) -> Path:
        """Path of the agent's installation."""
        package = self.install[0].rpartition("==" if self.python else "@")[0]
        return INSTALLED / package.lstrip("@").replace("/", "-")


def with_tools(
    write: str, shell: str, write_arguments: Any, shell_arguments: Any, last: Answer = "All done."
) -> Callable[[Place], Turns]:
    """Return the turns of an agent that writes files with one tool and runs commands with another."""

    def of(place: Place) -> Turns:
        def turns(tools: Mapping[str, Any], turn: int) -> Answer:
            if not tools:
                return "A short title"
            steps: list[Answer] = [
                (write, write_arguments(place)),
                (shell, shell_arguments(place)),
                last,
            ]
            return steps[turn]

        return turns

    return of


HERE: Final = f"cat > {FILE} <<'EOF'\n{FILE_TEXT}EOF\n"
"""Shell command that writes the file, for agents whose only tool is a shell."""


def _of_program(last: Answer = "All done.") -> Callable[[Place], Turns]:
    """Return the turns for the tools of the programs in ``PROGRAMS``."""
    return with_tools(
        "write_file",
        "run",
        lambda _: {"path": FILE, "content": FILE_TEXT},
        lambda _: {"command": COMMAND},
        last,
    )


def _by_text(edit: str) -> Callable[[Place], Turns]:
    """Return the turns for an agent without tools, which finds files in the text."""

    def turns(_: Mapping[str, Any], turn: int) -> Answer:
        return "All done." if turn else edit

    return lambda _: turns


CODEX: Final = ("@openai/codex@0.166.0",)
CODEX_RUN: Final = (
    "codex",
    "exec",
    "--skip-git-repo-check",
    "--dangerously-bypass-approvals-and-sandbox",
    TASK,
)


def _codex(place: Place) -> str:
    return (
        'model_provider = "unspool"\nmodel = "local"\n'
        f'[model_providers.unspool]\nname = "unspool"\nbase_url = "{place.url}/v1"\nwire_api = "responses"\n'
    )


AGENTS: Final[Sequence[Agent]] = (
    Agent(
        "Codex",
        "Responses",
        CODEX,
        lambda _: CODEX_RUN,
        with_tools("exec_command", "exec_command", lambda _: {"cmd": HERE}, lambda _: {"cmd": COMMAND}),
        files=lambda p: {".codex/config.toml": _codex(p)},
    ),
    Agent(
        "Codex with MCP",
        "Responses",
        CODEX,
        lambda _: CODEX_RUN,
        with_tools(
            "mcp__files__write_file",
            "exec_command",
            lambda p: {"path": p.file, "content": FILE_TEXT},
            lambda _: {"cmd": COMMAND},
        ),
        files=lambda p: {
            ".codex/config.toml": _codex(p)
            + f'[mcp_servers.files]\ncommand = "python3"\nargs = ["{PROGRAMS / "mcp_files.py"}"]\n'
        },
    ),
    Agent(
        "Claude Code",
        "Messages",
        ("@anthropic-ai/claude-code@2.1.325",),
        lambda _: ("claude", "-p", TASK, "--allowedTools", "Write,Bash"),
        with_tools(
            "Write",
            "Bash",
            lambda p: {"file_path": p.file, "content": FILE_TEXT},
            lambda _: {"command": COMMAND, "description": "the command"},
        ),
        environment=lambda p: {
            "ANTHROPIC_BASE_URL": p.url,
            "ANTHROPIC_AUTH_TOKEN": "x",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        scripts=True,
    ),
    Agent(
        "opencode",
        "Chat",
        ("opencode-ai@1.18.33",),
        lambda _: ("opencode", "run", "--model", "unspool/local", TASK),
        with_tools(
            "write",
            "bash",
            lambda p: {"filePath": p.file, "content": FILE_TEXT},
            lambda _: {"command": COMMAND, "description": "the command"},
        ),
        files=lambda p: {
            ".config/opencode/opencode.json": json.dumps(
                {
                    "provider": {
                        "unspool": {
                            "npm": "@ai-sdk/openai-compatible",
                            "options": {"baseURL": f"{p.url}/v1"},
                            "models": {"local": {}},
                        }
                    }
                }
            )
        },
        scripts=True,
    ),
    Agent(
        "qwen-code",
        "Chat",
        ("@qwen-code/qwen-code@0.24.4",),
        lambda _: ("qwen", "--yolo", "-p", TASK),
        with_tools(
            "write_file",
            "run_shell_command",
            lambda p: {"file_path": p.file, "content": FILE_TEXT},
            lambda _: {"command": COMMAND, "is_background": False},
        ),
        environment=lambda p: {
            "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": f"{p.url}/v1",
            "OPENAI_MODEL": "local",
        },
    ),
    Agent(
        "Continue",
        "Chat",
        ("@continuedev/cli@1.5.47",),
        lambda p: ("cn", "-p", TASK, "--auto", "--config", str(p.home / "config.yaml")),
        with_tools(
            "Write",
            "Bash",
            lambda p: {"filepath": p.file, "content": FILE_TEXT},
            lambda _: {"command": COMMAND},
        ),
        files=lambda p: {
            "config.yaml": "name: local\nversion: 0.0.1\nschema: v1\nmodels:\n"
            "  - name: local\n    provider: openai\n    model: local\n    apiKey: x\n"
            f"    apiBase: {p.url}/v1\n    roles: [chat]\n    capabilities: [tool_use]\n"
        },
    ),
    Agent(
        "pi",
        "Chat",
        ("@earendil-works/pi-coding-agent@0.87.1", NODE),
        lambda _: ("pi", "-p", "--provider", "unspool", "--model", "local", TASK),
        with_tools(
            "write", "bash", lambda p: {"path": p.file, "content": FILE_TEXT}, lambda _: {"command": COMMAND}
        ),
        files=lambda p: {
            ".pi/agent/models.json": json.dumps(
                {
                    "providers": {
                        "unspool": {
                            "baseUrl": f"{p.url}/v1",
                            "api": "openai-completions",
                            "apiKey": "x",
                            "models": [{"id": "local"}],
                        }
                    }
                }
            )
        },
    ),
    Agent(
        "Kimi Code",
        "Chat",
        ("@moonshot-ai/kimi-code@2.1.0", NODE),
        lambda _: ("kimi", "-p", TASK),
        with_tools(
            "Write", "Bash", lambda p: {"path": p.file, "content": FILE_TEXT}, lambda _: {"command": COMMAND}
        ),
        files=lambda p: {
            ".kimi-code/config.toml": 'default_model = "local"\n'
            f'[providers.unspool]\ntype = "openai"\nbase_url = "{p.url}/v1"\napi_key = "x"\n'
            '[models.local]\nprovider = "unspool"\nmodel = "local"\nmax_context_size = 65536\n'
        },
    ),
    Agent(
        "Cline",
        "Chat",
        ("cline@3.0.65",),
        lambda _: ("cline", TASK),
        with_tools(
            "editor",
            "run_commands",
            lambda p: {"path": p.file, "new_text": FILE_TEXT},
            lambda _: {"commands": [COMMAND]},
        ),
        prepare=lambda p: ("cline", "auth", "openai", "-k", "x", "-m", "local", "-b", f"{p.url}/v1"),
        scripts=True,
    ),
    Agent(
        "AI SDK",
        "Responses",
        ("ai@7.0.169", "@ai-sdk/openai@4.0.114"),
        lambda _: ("node", str(PROGRAMS / "ai_sdk.mjs"), TASK),
        _of_program(),
        environment=lambda p: {"OPENAI_BASE_URL": f"{p.url}/v1", "OPENAI_API_KEY": "x"},
    ),
    Agent(
        "OpenAI Agents SDK",
        "Responses",
        ("openai-agents==0.24.0",),
        lambda _: ("python", str(PROGRAMS / "openai_agents_sdk.py"), TASK),
        _of_program(),
        python=True,
        environment=lambda p: {
            "OPENAI_BASE_URL": f"{p.url}/v1",
            "OPENAI_API_KEY": "x",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
        },
    ),
    Agent(
        "smolagents",
        "Chat",
        ("smolagents[openai]==1.26.0",),
        lambda _: ("python", str(PROGRAMS / "smolagents_loop.py"), TASK),
        _of_program(("final_answer", {"answer": "All done."})),
        python=True,
        environment=lambda p: {"OPENAI_BASE_URL": f"{p.url}/v1"},
    ),
    Agent(
        "mini-swe-agent",
        "Chat",
        ("mini-swe-agent==2.4.6", "mcp==2.3.0"),
        lambda _: ("mini", "--yolo", "--exit-immediately", "-m", "openai/local", "-t", TASK),
        with_tools(
            "bash",
            "bash",
            lambda _: {"command": HERE},
            lambda _: {"command": COMMAND},
            ("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}),
        ),
        python=True,
        environment=lambda p: {
            "OPENAI_API_BASE": f"{p.url}/v1",
            "OPENAI_API_KEY": "x",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
        },
    ),
    Agent(
        "aider",
        "Chat",
        ("aider-chat==0.86.2",),
        lambda _: ("aider", "--model", "openai/local", "--yes-always", "--no-git", "--message", TASK),
        _by_text(f"I write the file.\n\n{FILE}\n```\n{FILE_TEXT}```\n"),
        python=True,
        environment=lambda p: {"OPENAI_API_BASE": f"{p.url}/v1", "OPENAI_API_KEY": "x"},
        shells=False,
    ),
)


def environment(agent: Agent, place: Place) -> dict[str, str]:
    """Return the environment variables of an agent, with its own home and none of this machine's settings."""
    own = agent.home.glob("node_modules/node-*/bin")
    return {
        "PATH": os.pathsep.join([*map(str, own), os.environ["PATH"]]),
        "HOME": str(place.home),
        "XDG_CONFIG_HOME": str(place.home / ".config"),
        "XDG_DATA_HOME": str(place.home / ".local/share"),
        "XDG_CACHE_HOME": str(place.home / ".cache"),
        "XDG_STATE_HOME": str(place.home / ".local/state"),
        "AGENT_PACKAGES": str(agent.home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "CI": "1",
        "NO_COLOR": "1",
        **agent.environment(place),
    }
