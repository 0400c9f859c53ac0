"""Agent with smolagents that calls tools through Chat Completions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from smolagents import OpenAIModel, ToolCallingAgent, tool


@tool  # type: ignore[untyped-decorator]
def write_file(path: str, content: str) -> str:
    """Write a file.

    Args:
        path: path of the file
        content: contents of the file

    """
    Path(path).write_text(content, encoding="utf-8")
    return "written"


@tool  # type: ignore[untyped-decorator]
def run(command: str) -> str:
    """Run a command.

    Args:
        command: shell command

    """
    ended = subprocess.run(  # noqa: S602 - the purpose of the tool
        command, shell=True, check=False, capture_output=True, text=True
    )
    return ended.stdout + ended.stderr


model = OpenAIModel("local", api_base=os.environ["OPENAI_BASE_URL"], api_key="x")
print(ToolCallingAgent([write_file, run], model).run(sys.argv[1]))
