"""Agent with OpenAI's Agents SDK and its default model class, which uses Responses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agents import Agent, Runner, function_tool


@function_tool
def write_file(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content, encoding="utf-8")
    return "written"


@function_tool
def run(command: str) -> str:
    """Run a command."""
    ended = subprocess.run(  # noqa: S602 - the purpose of the tool
        command, shell=True, check=False, capture_output=True, text=True
    )
    return ended.stdout + ended.stderr


agent = Agent(name="worker", model="local", tools=[write_file, run])
print(Runner.run_sync(agent, sys.argv[1]).final_output)
