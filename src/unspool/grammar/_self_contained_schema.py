"""Self-contained copies of JSON schemas, which include all definitions that they reference."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from .._core.schema.json_pointer import resolve_reference
from .._core.schema.tools import ValueType
from ._nodes import Schema
from ._size_limit import Budget

_ONE: Final = ("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames")
_UNIONS: Final = ("anyOf", "oneOf")
_LIST: Final = ("allOf", "prefixItems", "items", *_UNIONS)
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas")
_DROPPED: Final = ("$defs", "definitions", "nullable", "$schema", "$id", "id")
_ANNOTATIONS: Final = frozenset(("title", "description", "default", "examples", "deprecated"))


def self_contained(
    schema: Schema, root: Schema | None = None, prefix: str = "", budget: Budget | None = None
) -> Schema:
    """Return a copy of a schema in which all references point into the copy's own ``$defs``.

    In the copy, every type has its name in JSON Schema. Other spellings that the parser accepts, such as
    ``str`` or ``nullable``, are replaced.

    :param root: the document to which the references belong; None if this document is the schema itself.
    :param prefix: a prefix for the names of the copied definitions.

    >>> self_contained({"items": {"$ref": "#/definitions/A"}, "definitions": {"A": {"type": "int"}}})
    {'items': {'$ref': '#/$defs/A'}, '$defs': {'A': {'type': 'integer'}}}
    """
    copier = _SchemaCopier(schema if root is None else root, prefix, budget or Budget())
    out = copier.copy(schema)
    copier.copy_definitions()
    return {**out, "$defs": copier.definitions} if copier.definitions and isinstance(out, dict) else out


class _SchemaCopier:
    """Copier of schemas from one document, including the definitions to which they refer."""

    def __init__(self, root: Schema, prefix: str, budget: Budget) -> None:
        self.root = root
        self.prefix = prefix
        self.budget = budget
        self.definitions: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        # For each name, the number that was last appended to make a copy's name unique.
        self._suffixes: dict[str, int] = {}
        self._deferred: list[tuple[str, object]] = []

    def copy_definitions(self) -> None:
        """Copy the definitions to which the copied schemas refer.

        The method uses a loop, because recursion over a long chain of definitions could overflow the stack.
        """
        while self._deferred:
            name, reference = self._deferred.pop()
            self.definitions[name] = self.copy(resolve_reference(reference, self.root))

    def copy(self, schema: object) -> Any:
        """Return a copy of one schema."""
        self.budget.spend()
        if not isinstance(schema, Mapping):
            return schema if isinstance(schema, bool) else True
        if "$ref" in schema:
            out: dict[str, Any] = {"$ref": self._reference(schema["$ref"])}
            rest = {k: v for k, v in schema.items() if k not in _DROPPED and k not in _ANNOTATIONS}
            del rest["$ref"]
            if rest:
                out = {"allOf": [out, self._plain(rest)]}
        else:
            out = self._plain(schema)
        return _nullable(out) if schema.get("nullable") is True else out

    def _plain(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a schema without ``$ref`` and without malformed keywords.

        The function is long but flat, because it has one branch per kind of keyword.
        """
        out: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _DROPPED:
                continue
            if key == "type":
                types = _types(value)
                if types:
                    out[key] = types[0] if len(types) == 1 else types
            elif key == "required":
                if isinstance(value, (list, tuple)):
                    out[key] = [name for name in value if isinstance(name, str)]
            elif key == "enum":
                if isinstance(value, (list, tuple)) and value:
                    out[key] = list(value)
            elif key in _NAMED and isinstance(value, Mapping):
                out[key] = {name: self.copy(inner) for name, inner in value.items()}
            elif key in _LIST and isinstance(value, (list, tuple)):
                schemas = _valid_schemas(value) if key in _UNIONS else value
                if schemas:
                    out["prefixItems" if key == "items" else key] = [self.copy(inner) for inner in schemas]
            elif key in _ONE and isinstance(value, (bool, Mapping)):
                out[key] = self.copy(value)
            elif key not in _NAMED and key not in _LIST and key not in _ONE:
                out[key] = value
        return out

    def _reference(self, reference: object) -> str:
        pointer = unquote(reference) if isinstance(reference, str) else ""
        if pointer not in self._names:
            word = re.sub(r"[^A-Za-z0-9_.-]+", "_", pointer.rsplit("/", 1)[-1]).strip("_") or "root"
            base = name = f"{self.prefix}{word}"
            while name in self.definitions:
                self._suffixes[base] = self._suffixes.get(base, 1) + 1
                name = f"{base}_{self._suffixes[base]}"
            self._names[pointer] = name
            self.definitions[name] = True
            self._deferred.append((name, reference))
        return f"#/$defs/{self._names[pointer]}"


def _valid_schemas(alternatives: Iterable[object]) -> list[object]:
    """Return a union's alternatives without invalid schemas, which the parser ignores, too."""
    return [schema for schema in alternatives if isinstance(schema, (bool, Mapping))]


def _types(declared: object) -> list[str]:
    names = declared if isinstance(declared, (list, tuple)) else [declared]
    out: list[str] = []
    for name in names:
        kind = ValueType({"type": name})
        if kind.is_any:
            return []
        out += sorted(kind.types - set(out))
    return out


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "null" in ValueType(schema, schema).types and "$ref" not in schema:
        return schema
    return {"anyOf": [schema, {"type": "null"}]}
