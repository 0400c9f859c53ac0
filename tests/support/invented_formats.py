"""Formats of calls that no model writes; each is a function from a message to text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from unspool import Message, ToolCall


def words(message: Message) -> str:
    """Return calls between words in capital letters, one per line."""
    text = f"THINKING:\n{message.reasoning}\nANSWERING:\n" if message.reasoning else ""
    text += message.content or ""
    if message.tool_calls and message.content:
        text += "\n"
    return text + "\n".join(f"CALL {call.name} WITH {call.arguments} END" for call in message.tool_calls)


def pipes(message: Message) -> str:
    """Return calls between pipes, and a marker at the end of every turn."""
    text = f"~~think~~{message.reasoning}~~/think~~\n" if message.reasoning else ""
    text += message.content or ""
    text += "".join(f"||tool|{call.name}|{call.arguments}||" for call in message.tool_calls)
    return f"{text}<|done|>"


def attributes(message: Message) -> str:
    """Return calls in tags, with the name, the id, keys and types in attributes."""
    text = f"<why>{message.reasoning}</why>\n" if message.reasoning else ""
    text += message.content or ""
    if not message.tool_calls:
        return text
    calls = "".join(
        f'<action ref="{call.id}" tool="{call.name}">\n'
        + "".join(
            f'<input key="{key}" kind="{_kind(value)}">{_plain(value)}</input>\n'
            for key, value in _arguments(call).items()
        )
        + "</action>\n"
        for call in message.tool_calls
    )
    return f"{text}<act>\n{calls}</act>"


def lines(message: Message) -> str:
    """Return numbered calls with one line for each key and value."""
    text = f"(({message.reasoning}))\n" if message.reasoning else ""
    text += message.content or ""
    calls = [
        f"@@call {call.name}({number})\n"
        + "".join(f"  - {key} := {_plain(value)} ;\n" for key, value in _arguments(call).items())
        + "@@end"
        for number, call in enumerate(message.tool_calls, 1)
    ]
    return "\n".join([*([text] if text else []), *calls]).replace("))\n\n@@", "))\n@@")


def brackets(message: Message) -> str:
    """Return calls in the notation of Python between brackets."""
    text = f"{{{{plan}}}}{message.reasoning}{{{{/plan}}}}" if message.reasoning else ""
    text += message.content or ""
    calls = [
        f"{call.name}({', '.join(f'{key}={value!r}' for key, value in _arguments(call).items())})"
        for call in message.tool_calls
    ]
    return text + (f"⟦{'; '.join(calls)}⟧" if calls else "")


FORMATS: Final[Mapping[str, Callable[[Message], str]]] = {
    "words": words,
    "pipes": pipes,
    "attributes": attributes,
    "lines": lines,
    "brackets": brackets,
}


def _arguments(call: ToolCall) -> dict[str, Any]:
    arguments: dict[str, Any] = json.loads(call.arguments)
    return arguments


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _kind(value: object) -> str:
    kinds = {str: "text", bool: "flag", int: "number", float: "number", list: "list", dict: "map"}
    return kinds[type(value)]
