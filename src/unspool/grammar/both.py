"""Two schemas as one, and which values and types satisfy both."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

from .ir import Schema

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
    out = {**one, **other}
    if "type" in one and "type" in other:
        names = [_as_names(schema["type"]) for schema in (one, other)]
        kinds = [
            name
            for mine, yours in (names, names[::-1])
            for name in mine
            if name in yours or (name == "integer" and "number" in yours)
        ]
        if not kinds:
            return False
        out["type"] = kinds[0] if len(set(kinds)) == 1 else list(dict.fromkeys(kinds))
    for keyword in ("properties", "$defs"):
        if keyword in one and keyword in other:
            out[keyword] = {**one[keyword], **other[keyword]}
    if "required" in one and "required" in other:
        out["required"] = [*one["required"], *other["required"]]
    return out
