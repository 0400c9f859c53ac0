"""Functions that intersect two JSON schemas, or merge ``$ref`` and ``allOf`` into one flat schema.

Each definition is merged at most once, because definitions may form cycles or be referenced several times.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

from ._nodes import Schema
from ._size_limit import Budget

CONSTRAINTS: Final = frozenset(
    ("$ref", "enum", "const", "anyOf", "oneOf", "allOf", "type", "properties", "items", "prefixItems")
)
"""Schema keywords that constrain a value."""
_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}


def has_type(value: object, types: object) -> bool:
    """Return whether a value has one of the types in a schema; True if the schema has no types."""
    names = _as_names(types)
    name = "object" if isinstance(value, Mapping) else _NAMES.get(type(value), "array")
    return not names or name in names or (name in ("integer", "number") and "number" in names)


def _as_names(types: object) -> list[str]:
    return [types] if isinstance(types, str) else list(types) if isinstance(types, (list, tuple)) else []


def intersect(one: Mapping[str, Any], other: Schema) -> Schema:
    """Return a schema for the values that satisfy both schemas; False if the schemas share no type."""
    if isinstance(other, bool):
        return one
    if not one:
        return other
    if "$ref" in other:
        return {**one, "allOf": [*one.get("allOf", ()), other]} if CONSTRAINTS & one.keys() else other
    out: dict[str, Any] = {}
    for part in (one, other):
        if not merge_into(out, part):
            return False
        if "allOf" in part:
            out["allOf"] = part["allOf"]
    return out


def merge_into(out: dict[str, Any], schema: Mapping[str, Any]) -> bool:
    """Add the keywords of ``schema``, except ``allOf`` and ``$defs``, to ``out``.

    New properties are added to ``out["properties"]`` in place, because copying would be slow for many
    schemas.  If no type satisfies both schemas, add nothing and return False.
    """
    if "type" in out and "type" in schema:
        types = _shared_types(_as_names(out["type"]), _as_names(schema["type"]))
        if not types:
            return False
        out["type"] = types[0] if len(types) == 1 else types
    for keyword, value in schema.items():
        if keyword == "properties":
            out.setdefault(keyword, {}).update(value)
        elif keyword == "required":
            out.setdefault(keyword, []).extend(value)
        elif keyword not in ("allOf", "$defs") and (keyword != "type" or keyword not in out):
            out[keyword] = value
    return True


def _shared_types(one: list[str], other: list[str]) -> list[str]:
    """Return the types that both lists allow; ``number`` includes ``integer``."""
    kinds = [
        name
        for mine, yours in ((one, other), (other, one))
        for name in mine
        if name in yours or (name == "integer" and "number" in yours)
    ]
    return list(dict.fromkeys(kinds))


def find_definition(reference: str, root: Schema) -> tuple[str, Schema]:
    """Return the name and the schema of the definition to which a reference points."""
    name = reference.rsplit("/", 1)[-1]
    definitions = root.get("$defs", {}) if isinstance(root, Mapping) else {}
    return name, definitions.get(name, True)


def flatten_schema(schema: Schema, root: Schema, budget: Budget) -> dict[str, Any]:
    """Return a schema with its references and ``allOf`` merged into it; conflicting schemas are left out."""
    out: dict[str, Any] = {}
    visited: set[str] = set()
    todo = [schema]
    while todo:
        part = todo.pop()
        budget.spend(4)  # the estimated number of parts that one schema adds
        if isinstance(part, bool):
            continue
        if "$ref" in part:
            name, target = find_definition(part["$ref"], root)
            if name not in visited:
                visited.add(name)
                todo.append(target)
            continue
        if merge_into(out, part):
            todo += reversed(part.get("allOf", ()))
    return out


def find_references(schema: Schema, root: Schema) -> frozenset[str]:
    """Return the names of the definitions to which a schema refers, directly or through other definitions.

    References inside the schemas of properties and items do not count.
    """
    names: set[str] = set()
    todo = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, bool):
            continue
        if "$ref" in part:
            name, target = find_definition(part["$ref"], root)
            if name not in names:
                names.add(name)
                todo.append(target)
        for keyword in ("anyOf", "oneOf", "allOf"):
            todo += part.get(keyword, ())
    return frozenset(names)
