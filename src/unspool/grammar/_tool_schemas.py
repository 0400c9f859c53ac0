"""Tool schemas: self-contained copies of them, and a combined schema for guided decoding.

A backend that cannot constrain the markup of a dialect gets a JSON schema
instead.  The model then writes a list that the dialect ``generic_json`` can read::

    [{"name": "get_weather", "parameters": {"city": "Paris"}}]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from .._core.schema.json_pointer import resolve_reference
from .._core.schema.tools import Tools, ValueType, tool_function, tool_name
from ..errors import UsageError
from ._nodes import Schema
from ._size_limit import Budget

Choice: TypeAlias = Literal["auto", "required"] | Mapping[str, Any]
"""The ``tool_choice`` of a request; a mapping names the function."""

NO_ARGUMENTS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}
ANY_ARGUMENTS: Final[Mapping[str, Any]] = {"type": "object"}

_ONE: Final = ("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames")
_UNIONS: Final = ("anyOf", "oneOf")
_LIST: Final = ("allOf", "prefixItems", "items", *_UNIONS)
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas")
_DROPPED: Final = ("$defs", "definitions", "nullable", "$schema", "$id", "id")
_ANNOTATIONS: Final = frozenset(("title", "description", "default", "examples", "deprecated"))


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the model may call."""

    name: str
    parameters: Mapping[str, Any]
    """The schema of the arguments; its references point into its own ``$defs``."""


def read_functions(tools: Iterable[Mapping[str, Any]]) -> list[Function]:
    """Return the functions among the tools of a request.

    A function that declares no parameters accepts none.  A function with
    ``strict: false`` accepts arbitrary parameters.
    """
    declared = list(tools)
    Tools(declared)  # only to raise an error if a declaration has no name
    budget = Budget()
    out: list[Function] = []
    for tool in declared:
        body = tool_function(tool)
        if tool.get("type") not in (None, "function") and tool.get("input_schema") is None:
            continue
        schema = body.get("parameters")
        schema = body.get("input_schema") if schema is None else schema
        strict = body.get("strict") is not False
        out.append(Function(body["name"], _arguments(schema, budget) if strict else ANY_ARGUMENTS))
    return out


def _arguments(schema: object, budget: Budget) -> Mapping[str, Any]:
    budget.check_schema(schema)
    if not isinstance(schema, Mapping) or not schema:
        return NO_ARGUMENTS
    clean = self_contained(schema, budget=budget)
    if isinstance(clean, bool):
        return ANY_ARGUMENTS if clean else NO_ARGUMENTS
    # Arguments are always an object, even if their schema does not declare the type.
    if "$ref" not in clean:
        return {**clean, "type": "object"}
    if ValueType(clean).types == {"object"}:
        return clean
    body = {key: value for key, value in clean.items() if key != "$defs"}
    return {"type": "object", "allOf": [body], "$defs": clean.get("$defs", {})}


def select_functions(tools: Iterable[Mapping[str, Any]], choice: Choice) -> tuple[list[Function], bool]:
    """Return the functions that the model may call, and True if ``choice`` names one function."""
    offered = read_functions(tools)
    if not offered:
        raise UsageError("the tools contain no function, so there is nothing to constrain")
    if choice in ("auto", "required"):
        return offered, False
    name = tool_name(choice) if isinstance(choice, Mapping) else None
    if not isinstance(name, str):
        raise UsageError(f'choice must be "auto", "required" or {{"name": "..."}}, got {choice!r}')
    matches = [function for function in offered if function.name == name]
    if not matches:
        names = ", ".join(function.name for function in offered)
        raise UsageError(f"choice names {name!r}, which is not among the tools: {names}")
    return matches[:1], True


# --- one schema


def self_contained(
    schema: Schema, root: Schema | None = None, prefix: str = "", budget: Budget | None = None
) -> Schema:
    """Return a copy of a schema in which all references point into the copy's own ``$defs``.

    The copy uses only the type names of JSON Schema.  Other names that the parser
    accepts (``str``, ``nullable``) are replaced.

    :param root: the document to which the references belong; None if that is the schema itself.
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
        self._suffixes: dict[str, int] = {}  # last number appended to each name, to make it unique
        self._deferred: list[tuple[str, object]] = []

    def copy_definitions(self) -> None:
        """Copy the definitions to which the copied schemas refer.

        This is a loop, because recursion over a long chain of definitions could overflow the stack.
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
    """Return the alternatives of a union that are valid schemas; the parser ignores the others, too."""
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


# --- guided decoding


def guided_schema(
    tools: Iterable[Mapping[str, Any]],
    *,
    choice: Choice = "required",
    parallel: bool = True,
    bare: bool = False,
) -> dict[str, Any]:
    """Return a JSON schema for a list of calls, for backends that can constrain only JSON.

    If ``choice`` names a function, the list has exactly one call.

    :param bare: for a named function, return the schema of its arguments alone.  The
        output then does not contain the function's name.
    """
    offered, is_named = select_functions(tools, choice)
    if choice == "auto":
        raise UsageError(
            'guided JSON forces a call, but choice="auto" does not; use a structural tag or GBNF'
        )
    if bare:
        if not is_named:
            raise UsageError("bare arguments do not contain the function's name; name it in choice")
        return dict(offered[0].parameters)
    definitions: dict[str, Any] = {}
    calls = []
    for function in offered:
        parameters = _hoist(function, definitions)
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"type": "string", "enum": [function.name]}, "parameters": parameters},
                "required": ["name", "parameters"],
                "additionalProperties": False,
            }
        )
    schema: dict[str, Any] = {"type": "array", "minItems": 1}
    if is_named or not parallel:
        schema["maxItems"] = 1
    schema["items"] = calls[0] if len(calls) == 1 else {"anyOf": calls}
    if definitions:
        schema["$defs"] = definitions
    return schema


def _hoist(function: Function, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a function's schema after moving the definitions in it to ``definitions``."""
    own: Mapping[str, Any] = function.parameters
    inner = own.get("$defs", {})
    if any(name in definitions and definitions[name] != inner[name] for name in inner):
        renamed = self_contained(own, prefix=f"{function.name}.")
        own = renamed if isinstance(renamed, Mapping) else own
        inner = own.get("$defs", {})
    definitions.update(inner)
    return {key: value for key, value in own.items() if key != "$defs"}
