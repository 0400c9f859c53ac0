"""Two schemas as one, and which values and types satisfy both."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

from ._intermediate import Schema

CONSTRAINTS: Final = frozenset(
    ("$ref", "enum", "const", "anyOf", "oneOf", "allOf", "type", "properties", "items", "prefixItems")
)
"""Keywords that say something about a value."""
_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}


def is_of(value: object, types: object) -> bool:
    """Whether a given value is of the types that are asked for, if any are."""
    names = _as_names(types)
    name = "object" if isinstance(value, Mapping) else _NAMES.get(type(value), "array")
    return not names or name in names or (name in ("integer", "number") and "number" in names)


def _as_names(types: object) -> list[str]:
    return [types] if isinstance(types, str) else list(types) if isinstance(types, (list, tuple)) else []


def both(one: Mapping[str, Any], other: Schema) -> Schema:
    """A schema that asks for both; False where no value is of both types."""
    if isinstance(other, bool):
        return one
    if not one:
        return other
    if "$ref" in other:
        return {**one, "allOf": [*one.get("allOf", ()), other]} if CONSTRAINTS & one.keys() else other
    out: dict[str, Any] = {}
    for part in (one, other):
        if not add_to(out, part):
            return False
        if "allOf" in part:
            out["allOf"] = part["allOf"]
    return out


def add_to(out: dict[str, Any], schema: Mapping[str, Any]) -> bool:
    """Let a schema that is being made ask for what another one says, too, but for its ``allOf``.

    Its properties grow in place: there may be many schemas to add.  False: no value is of both types, and
    nothing was added.
    """
    if "type" in out and "type" in schema:
        types = _common(_as_names(out["type"]), _as_names(schema["type"]))
        if not types:
            return False
        out["type"] = types[0] if len(types) == 1 else types
    for keyword, said in schema.items():
        if keyword == "properties":
            out.setdefault(keyword, {}).update(said)
        elif keyword == "required":
            out.setdefault(keyword, []).extend(said)
        elif keyword not in ("allOf", "$defs") and (keyword != "type" or keyword not in out):
            out[keyword] = said
    return True


def _common(one: list[str], other: list[str]) -> list[str]:
    """The types that are among both."""
    kinds = [
        name
        for mine, yours in ((one, other), (other, one))
        for name in mine
        if name in yours or (name == "integer" and "number" in yours)
    ]
    return list(dict.fromkeys(kinds))
