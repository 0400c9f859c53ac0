"""JSON schemas: those of the tools, made self-contained, and the one for guided decoding.

Where a backend cannot constrain a dialect's own markup, it is given a schema
instead, and writes a list that the dialect ``generic_json`` reads::

    [{"name": "get_weather", "parameters": {"city": "Paris"}}]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from .._core.schema.tools import Tools, ValueType, tool_function, tool_name
from ..errors import UsageError
from ._intermediate import Schema
from ._size_limit import Budget

Choice: TypeAlias = Literal["auto", "required"] | Mapping[str, Any]
"""``tool_choice`` of a request; a mapping names the function."""

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
    """A tool that the model may call."""

    name: str
    parameters: Mapping[str, Any]
    """Schema of the arguments, self-contained."""


def functions(tools: Iterable[Mapping[str, Any]]) -> list[Function]:
    """The functions among a request's tools.

    A function without parameters takes none.  One that says ``strict: false``
    takes any.
    """
    found = list(tools)
    Tools(found)  # raises where a declaration has no name
    budget = Budget()
    out: list[Function] = []
    for tool in found:
        body = tool_function(tool)
        if tool.get("type") not in (None, "function") and tool.get("input_schema") is None:
            continue
        schema = body.get("parameters")
        schema = body.get("input_schema") if schema is None else schema
        strict = body.get("strict") is not False
        out.append(Function(body["name"], _arguments(schema, budget) if strict else ANY_ARGUMENTS))
    return out


def _arguments(schema: object, budget: Budget) -> Mapping[str, Any]:
    budget.measure(schema)
    if not isinstance(schema, Mapping) or not schema:
        return NO_ARGUMENTS
    clean = self_contained(schema, budget=budget)
    if isinstance(clean, bool):
        return ANY_ARGUMENTS if clean else NO_ARGUMENTS
    # Arguments are an object, whatever else their schema says.
    if "$ref" not in clean:
        return {**clean, "type": "object"}
    if ValueType(clean).types == {"object"}:
        return clean
    said = {key: value for key, value in clean.items() if key != "$defs"}
    return {"type": "object", "allOf": [said], "$defs": clean.get("$defs", {})}


def chosen(tools: Iterable[Mapping[str, Any]], choice: Choice) -> tuple[list[Function], bool]:
    """The functions that may be called, and whether one of them is named."""
    offered = functions(tools)
    if not offered:
        raise UsageError("there is no function among the tools, so there is nothing to constrain")
    if choice in ("auto", "required"):
        return offered, False
    name = tool_name(choice) if isinstance(choice, Mapping) else None
    if not isinstance(name, str):
        raise UsageError(f'choice is "auto", "required" or {{"name": "..."}}, got {choice!r}')
    found = [function for function in offered if function.name == name]
    if not found:
        names = ", ".join(function.name for function in offered)
        raise UsageError(f"choice names the tool {name!r}, which is not offered; there are: {names}")
    return found[:1], True


# --- one schema


def self_contained(
    schema: Schema, root: Schema | None = None, prefix: str = "", budget: Budget | None = None
) -> Schema:
    """A copy whose references all point into its own ``$defs``.

    Types are spelt as JSON schema wants them, and what the reader of values
    understands as well (``str``, ``nullable``) is rewritten.  ``root``: the
    document that references point into, if not the schema itself; ``prefix``:
    put before the names of definitions.

    >>> self_contained({"items": {"$ref": "#/definitions/A"}, "definitions": {"A": {"type": "int"}}})
    {'items': {'$ref': '#/$defs/A'}, '$defs': {'A': {'type': 'integer'}}}
    """
    copy = _Copy(schema if root is None else root, prefix, budget or Budget())
    out = copy.schema(schema)
    copy.settle()
    return {**out, "$defs": copy.definitions} if copy.definitions and isinstance(out, dict) else out


class _Copy:
    """Copies schemas out of one document."""

    def __init__(self, root: Schema, prefix: str, budget: Budget) -> None:
        self.root = root
        self.prefix = prefix
        self.budget = budget
        self.definitions: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._last: dict[str, int] = {}  # by the word that names are made of, the last number
        self._put_off: list[tuple[str, str]] = []

    def settle(self) -> None:
        """Copy the definitions that were referred to: a chain of them may be longer than the stack is."""
        while self._put_off:
            name, pointer = self._put_off.pop()
            self.definitions[name] = self.schema(self._resolve(pointer))

    def schema(self, schema: object) -> Any:
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
                out[key] = {name: self.schema(inner) for name, inner in value.items()}
            elif key in _LIST and isinstance(value, (list, tuple)):
                given = _alternatives(value) if key in _UNIONS else value
                if given:
                    out["prefixItems" if key == "items" else key] = [self.schema(inner) for inner in given]
            elif key in _ONE and isinstance(value, (bool, Mapping)):
                out[key] = self.schema(value)
            elif key not in _NAMED and key not in _LIST and key not in _ONE:
                out[key] = value
        return out

    def _reference(self, reference: object) -> str:
        pointer = unquote(reference) if isinstance(reference, str) else ""
        if pointer not in self._names:
            word = re.sub(r"[^A-Za-z0-9_.-]+", "_", pointer.rsplit("/", 1)[-1]).strip("_") or "root"
            base = name = f"{self.prefix}{word}"
            while name in self.definitions:
                self._last[base] = self._last.get(base, 1) + 1
                name = f"{base}_{self._last[base]}"
            self._names[pointer] = name
            self.definitions[name] = True
            self._put_off.append((name, pointer))
        return f"#/$defs/{self._names[pointer]}"

    def _resolve(self, pointer: str) -> object:
        """The target of a pointer; without one, a schema that says nothing."""
        if not f"{pointer}/".startswith("#/"):
            return True
        target: object = self.root
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, (list, tuple)):
                index = int(key) if len(key) < 9 and key.isdecimal() else len(target)
                target = target[index] if index < len(target) else True
            elif isinstance(target, Mapping) and key in target:
                target = target[key]
            else:
                return True
        return target


def _alternatives(given: Iterable[object]) -> list[object]:
    """Without what is no schema: reading gives it no types, either."""
    return [schema for schema in given if isinstance(schema, (bool, Mapping))]


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
    """The schema of a list of calls, for backends that constrain JSON only.

    A named function is called once.  ``bare``: for a named function, the schema
    of its arguments alone, without name; who reads it must know the function.
    """
    offered, named = chosen(tools, choice)
    if choice == "auto":
        raise UsageError(
            'guided JSON forces a call, which choice="auto" must not; use a structural tag or GBNF'
        )
    if bare:
        if not named:
            raise UsageError("bare arguments say nothing about the function, so choice must name it")
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
    if named or not parallel:
        schema["maxItems"] = 1
    schema["items"] = calls[0] if len(calls) == 1 else {"anyOf": calls}
    if definitions:
        schema["$defs"] = definitions
    return schema


def _hoist(function: Function, definitions: dict[str, Any]) -> dict[str, Any]:
    """The function's schema without its definitions, which are added to the others."""
    own: Mapping[str, Any] = function.parameters
    inner = own.get("$defs", {})
    if any(name in definitions and definitions[name] != inner[name] for name in inner):
        renamed = self_contained(own, prefix=f"{function.name}.")
        own = renamed if isinstance(renamed, Mapping) else own
        inner = own.get("$defs", {})
    definitions.update(inner)
    return {key: value for key, value in own.items() if key != "$defs"}
