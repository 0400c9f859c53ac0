"""Schemas that say the same in fewer words: references and ``allOf`` at the top of one are taken in.

Definitions may refer to each other in circles, and to the same one in many ways; each counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._intermediate import Schema
from ._schema_intersection import add_to
from ._size_limit import Budget


def definition(reference: str, root: Schema) -> tuple[str, Schema]:
    """The name that a reference has among the document's definitions, and what stands there."""
    name = reference.rsplit("/", 1)[-1]
    definitions = root.get("$defs", {}) if isinstance(root, Mapping) else {}
    return name, definitions.get(name, True)


def merged(schema: Schema, root: Schema, budget: Budget) -> dict[str, Any]:
    """A schema with what its references and ``allOf`` say; what contradicts that says nothing."""
    out: dict[str, Any] = {}
    known: set[str] = set()
    todo = [schema]
    while todo:
        part = todo.pop()
        budget.spend(4)  # as much work as a few constants
        if isinstance(part, bool):
            continue
        if "$ref" in part:
            name, target = definition(part["$ref"], root)
            if name not in known:
                known.add(name)
                todo.append(target)
            continue
        if add_to(out, part):
            todo += reversed(part.get("allOf", ()))
    return out


def references(schema: Schema, root: Schema) -> frozenset[str]:
    """The definitions that a schema is made of, without its members."""
    found: set[str] = set()
    todo = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, bool):
            continue
        if "$ref" in part:
            name, target = definition(part["$ref"], root)
            if name not in found:
                found.add(name)
                todo.append(target)
        for keyword in ("anyOf", "oneOf", "allOf"):
            todo += part.get(keyword, ())
    return frozenset(found)
