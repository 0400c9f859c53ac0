"""Parts of a scenario before rendering (text, reasoning and calls), with the tools for the calls."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Call:
    """Tool call whose arguments are Python values."""

    name: str
    arguments: dict[str, Any]
    spelling: str = ""
    """JSON text of the arguments, if its formatting is unusual."""

    @property
    def json(self) -> str:
        """Arguments as the JSON text that the model writes."""
        return self.spelling or json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning text."""

    text: str


ScenarioPart: TypeAlias = str | Reasoning | Call
"""Part of a scenario; a plain string stands for content."""


def weather(city: str, **more: str) -> Call:
    """Create a call with one or two strings as arguments."""
    return Call("get_weather", {"city": city, **more})


def write(path: str, content: str) -> Call:
    """Create a call with arbitrary text as an argument."""
    return Call("write_file", {"path": path, "content": content})


def values(**arguments: Any) -> Call:
    """Create a call whose arguments may have any type."""
    return Call("set_all", arguments)


PING: Final = Call("ping", {})
PARIS: Final = weather("Paris", unit="celsius")
REASONING: Final = Reasoning("The user wants to know about the weather.\nI should ask the tool.")


def _tool(name: str, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required or []}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


_STRING: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer"}
_NUMBERS: Final = {"type": "array", "items": _INTEGER}
_DEEP: Final = {"type": "object", "properties": {"x": _NUMBERS}}
_SKU: Final = {"type": "object", "properties": {"sku": _STRING, "qty": _INTEGER}}

STANDARD_TOOLS: Final = (
    _tool("get_weather", ["city"], city=_STRING, unit={"type": "string", "enum": ["celsius", "fahrenheit"]}),
    _tool("ping"),
    _tool(
        "set_all",
        s=_STRING,
        i=_INTEGER,
        f={"type": "number"},
        b={"type": "boolean"},
        n={"type": ["string", "null"]},
        a=_NUMBERS,
        o={"type": "object", "properties": {"k": _STRING, "deep": _DEEP}},
        ea={"type": "array"},
        eo={"type": "object"},
        u=_STRING,
    ),
    _tool("write_file", ["path", "content"], path=_STRING, content=_STRING),
    _tool("create_order", user_id=_INTEGER, items={"type": "array", "items": _SKU}),
)
"""Tools for the scenarios of the group ``standard`` and for the test corpus."""

_PLACE: Final = {"type": "object", "properties": {"city": _STRING, "zip": _STRING, "floor": _INTEGER}}
_REFER: Final = _tool(
    "refer",
    place={"$ref": "#/$defs/Place"},
    count={"$ref": "#/$defs/Count"},
    label={"$ref": "#/$defs/Label"},
)
_REFER["function"]["parameters"]["$defs"] = {"Place": _PLACE, "Count": _INTEGER, "Label": _STRING}

TOOLS: Final = (
    *STANDARD_TOOLS,
    _tool(
        "choose",
        maybe_int={"anyOf": [_INTEGER, {"type": "null"}]},
        maybe_text={"anyOf": [_STRING, {"type": "null"}]},
        int_or_text={"oneOf": [_INTEGER, _STRING]},
        flag_or_list={"anyOf": [{"type": "boolean"}, _NUMBERS]},
        level={"enum": [1, 2, 3]},
        word={"enum": ["on", "off", "null", "1"]},
        always={"const": "yes"},
        narrowed={"allOf": [_INTEGER, {"minimum": 0}]},
        place={"anyOf": [_PLACE, {"type": "null"}]},
    ),
    _REFER,
    _tool("nest", tree={"type": "object"}, list={"type": "array"}),
)
"""All tools for scenarios, in the form in which a request declares them."""
