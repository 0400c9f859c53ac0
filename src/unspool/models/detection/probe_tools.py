"""Example tools for the test conversations that a chat template renders, and types for rendered turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from ...message import Message


class RenderedTurn(NamedTuple):
    """A rendered conversation, split at the assistant's turn."""

    prompt: str
    """Text before the assistant's turn."""
    turn: str
    """Text of the assistant's turn; empty if the template refuses the message."""
    rest: str
    """Text after the turn: the end marker, and text that the template adds to every conversation."""


RenderTurn: TypeAlias = Callable[[Message], RenderedTurn]
"""Function that renders an assistant message."""

_TYPES: Final[Mapping[str, str]] = {
    "redkey": "string",
    "bluekey": "string",
    "numkey": "integer",
    "flagkey": "boolean",
    "nullkey": "null",
    "listkey": "array",
    "mapkey": "object",
}
_SCHEMAS: Final[Mapping[str, Mapping[str, str]]] = {
    "get_weather": {"city": "string", "days": "integer"},
    "find_place": {"query": "string", "near": "string"},
    "unspool_alpha": _TYPES,
    "unspool_omega": _TYPES,
}


def _schema(kind: str) -> dict[str, object]:
    schema: dict[str, object] = {"type": kind, "description": "A value."}
    if kind == "array":
        schema["items"] = {"type": "integer"}
    if kind == "object":
        schema["additionalProperties"] = {"type": "integer"}
    return schema


TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Call {name}.",
            "parameters": {
                "type": "object",
                "properties": {key: _schema(kind) for key, kind in properties.items()},
                "required": list(properties)[:1],
            },
        },
    }
    for name, properties in _SCHEMAS.items()
]
"""Example tools that are passed to the template."""
FLAT_TOOLS: Final = TOOLS[:2]
"""The example tools with simple schemas."""
