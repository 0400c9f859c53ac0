"""An agent: typed arguments for its tools, and feedback to the model if a call cannot be run.

make run            # or: unspool serve MODEL
OPENAI_BASE_URL=http://127.0.0.1:8765/v1 OPENAI_API_KEY=x python examples/agent_loop.py "Who is at home?"
"""

import json
import sys
from pathlib import Path
from typing import Any

from openai import OpenAI
from pydantic import BaseModel

from unspool import Message
from unspool.healing import feedback

DIALECT = "hermes"


class ListFiles(BaseModel):
    """List the files in a folder."""

    folder: Path

    def run(self) -> object:
        return sorted(path.name for path in self.folder.iterdir())


class ReadFile(BaseModel):
    """Read a file."""

    path: Path

    def run(self) -> object:
        return self.path.read_text(encoding="utf-8")


TOOLS: dict[str, type[ListFiles | ReadFile]] = {"list_files": ListFiles, "read_file": ReadFile}
DECLARED: list[Any] = [
    {
        "type": "function",
        "function": {"name": name, "description": tool.__doc__, "parameters": tool.model_json_schema()},
    }
    for name, tool in TOOLS.items()
]

client = OpenAI()
messages: list[Any] = [{"role": "user", "content": sys.argv[1]}]
for _ in range(10):
    response = client.chat.completions.create(model="local", messages=messages, tools=DECLARED)
    message = Message.from_chat(response.choices[0].message.model_dump())
    retry = feedback(message, DIALECT, DECLARED)
    if retry:  # a call is malformed, names an unknown tool or does not fit its schema: no call has run
        print("retry:", retry[-1]["content"])
        messages += retry
        continue
    messages.append(message.to_chat())
    for call in message.tool_calls:
        try:
            result = json.dumps(call.parse_as(TOOLS[call.name]).run())
        except Exception as error:  # noqa: BLE001 - the model can correct its call
            result = f"error: {error!r}"
        print(f"{call.name} {call.arguments} -> {result}")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    if not message.tool_calls:
        print(message.content)
        break
