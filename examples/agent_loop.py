"""An agent: send the messages, run the calls of the model, and add their results, until it answers.

make run            # or: unspool serve MODEL
OPENAI_BASE_URL=http://127.0.0.1:8765/v1 OPENAI_API_KEY=x python examples/agent_loop.py "Who is at home?"
"""

import json
import sys
from pathlib import Path
from typing import Any

from openai import OpenAI


def list_files(folder: str) -> list[str]:
    """List the files in a folder."""
    return sorted(path.name for path in Path(folder).iterdir())


def read_file(path: str) -> str:
    """Return the text of a file."""
    return Path(path).read_text(encoding="utf-8")


TOOLS = {function.__name__: function for function in (list_files, read_file)}


def schema(function: Any) -> dict[str, Any]:
    """Return the declaration of a tool for the model."""
    names = [name for name in function.__annotations__ if name != "return"]
    parameters = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
    }
    declaration = {"name": function.__name__, "description": function.__doc__, "parameters": parameters}
    return {"type": "function", "function": declaration}


def run(name: str, arguments: str) -> str:
    """Run a call, and return its result as text."""
    try:
        return json.dumps(TOOLS[name](**json.loads(arguments)))
    except Exception as error:  # noqa: BLE001 - the model can correct its call
        return f"error: {error!r}"


client = OpenAI()
messages: list[Any] = [{"role": "user", "content": sys.argv[1]}]
for _ in range(10):
    answer = client.chat.completions.create(
        model="local", messages=messages, tools=[schema(function) for function in TOOLS.values()]
    ).choices[0]
    messages.append(answer.message)
    if not answer.message.tool_calls:
        print(answer.message.content)
        break
    for call in answer.message.tool_calls:
        result = run(call.function.name, call.function.arguments)
        print(f"{call.function.name} {call.function.arguments} -> {result}")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
