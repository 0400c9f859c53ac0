"""What a model is made to write: the tools that it is offered, and a turn of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from ...message import Message


class Writing(NamedTuple):
    """A turn as a template writes it, cut out of the conversation."""

    prompt: str
    """What stands before it."""
    turn: str
    rest: str
    """What ends the turn, and whatever the template adds to every conversation."""


Write: TypeAlias = Callable[[Message], Writing]
"""Writes a message as the model would; the turn is empty where that is refused."""

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
"""The tools that templates are rendered with."""
FLAT_TOOLS: Final = TOOLS[:2]
"""Those with simple schemas."""
