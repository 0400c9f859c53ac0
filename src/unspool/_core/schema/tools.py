"""The tools of a request: which functions there are, and the types of their parameters.

No schema, however malformed, raises: what it does not say in a way that is
understood, it does not say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeGuard
from urllib.parse import unquote

from ...errors import UsageError

_NAME: Final = re.compile(r"[\w.:/-]{1,256}")
"""What some API would accept as a function's name.  Letters of any script: local engines take them."""
_NOTHING: Final[frozenset[str]] = frozenset()
_EVERYTHING: Final = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_ONE: Final = {name: frozenset({name}) for name in _EVERYTHING}
_COMPOUND: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf", "nullable"})
"""Keywords that add to what a schema says of itself."""
CONTAINERS: Final = frozenset({"array", "object"})

_NAMES: Final = {
    **{name: name for name in _EVERYTHING},
    **dict.fromkeys(("str", "text", "varchar", "char", "enum"), "string"),
    **dict.fromkeys(("int", "int32", "int64", "long", "short", "unsigned"), "integer"),
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("bool", "binary"), "boolean"),
    **dict.fromkeys(("list", "arr", "sequence"), "array"),
    **dict.fromkeys(("dict", "map"), "object"),
}
"""Type names found in the wild."""
_PREFIXES: Final = {"uint": "integer", "num": "number"}
_SHAPES: Final = {
    "properties": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
}
"""Keywords that give the type away where none is named."""
_TELLING: Final = _COMPOUND.union(_SHAPES)
"""Keywords that make a schema say more than its ``type``."""
_DEEPEST: Final = 100
"""Schemas nested deeper in unions and references than this say nothing."""


class Tools:
    """The tools a request offers, and the types of their parameters.

    >>> tools = Tools([{"name": "f", "input_schema": {"properties": {"n": {"type": "integer"}}}}])
    >>> tools.value_type("f", "n")
    ValueType(integer)
    """

    __slots__ = ("_functions", "_parameters", "declared", "known", "refused")

    def __init__(self, tools: Iterable[Mapping[str, object]] | None) -> None:
        self._functions: dict[str, Mapping[str, object]] = {}
        self._parameters: dict[str, ValueType] = {}
        for index, tool in enumerate(_listed(tools)):
            if not _is_mapping(tool):
                raise UsageError(f"tools[{index}] is a {type(tool).__name__}; {_TOOLS_USAGE}")
            kind = _of(tool, "type")  # Pydantic dumps absent fields as None.
            is_function = kind is None or (isinstance(kind, str) and kind == "function")
            if not is_function and _of(tool, "input_schema") is None:
                continue
            function = _of(tool, "function")
            body = tool if function is None else function
            if not _is_mapping(body):
                raise UsageError(f"tools[{index}] is a function without a name; {_TOOLS_USAGE}")
            name = _of(body, "name")
            if not isinstance(name, str):
                raise UsageError(f"tools[{index}] is a function without a name; {_TOOLS_USAGE}")
            self._functions[name] = body
        self.known: bool = tools is not None
        """Whether the caller said which tools there are."""
        self.declared: bool = bool(self._functions)
        """Whether there are some."""
        self.refused: bool = self.known and not self.declared
        """Whether the caller said that there are none."""

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        """The functions, so that this is a list of tools like any other."""
        return iter(self._functions.values())

    @property
    def names(self) -> AbstractSet[str]:
        """The functions offered; other kinds of tools do not count."""
        return self._functions.keys()

    def declares(self, name: str) -> bool:
        """Whether a function of that name is offered."""
        return name in self._functions

    def could_be(self, name: str) -> bool:
        """Whether a tool may have that name, offered or not."""
        return name in self._functions or _NAME.fullmatch(name) is not None

    def could_become(self, prefix: str) -> bool:
        """Whether some function's name may begin so; always, where none are known."""
        return not self.known or any(name.startswith(prefix) for name in self._functions)

    def parameters(self, function: str) -> ValueType:
        """The type of a function's arguments."""
        if function not in self._parameters:
            # Not before somebody asks: most requests offer more tools than the model calls.
            body = self._functions.get(function)
            self._parameters[function] = UNKNOWN if body is None else ValueType(_schema(body))
        return self._parameters[function]

    def value_type(self, function: str, key: str) -> ValueType:
        """The type of one parameter."""
        return self.parameters(function).member(key)

    def keys(self, function: str) -> tuple[str, ...] | None:
        """The parameters a function declares, in order; ``None`` if that is not known."""
        return self.parameters(function).keys()

    def fitting(self, keys: tuple[str, ...]) -> str:
        """The only function that arguments with these keys can be for, if there is one."""
        names = list(self._functions)
        if len(names) > 1:
            declared = [(name, self.keys(name)) for name in names]
            names = [name for name, known in declared if known is None or set(keys).issubset(known)]
        return names[0] if len(names) == 1 else ""

    def required(self, function: str) -> frozenset[str]:
        """The parameters that no call of a function may lack, as far as its schema says so."""
        return self.parameters(function).required()


def as_tools(tools: Iterable[Mapping[str, object]] | None) -> Tools:
    """The tools of a request, read here unless they have been: what many outputs share is read once."""
    return tools if isinstance(tools, Tools) else Tools(tools)


_TOOLS_USAGE: Final = (
    'pass the request\'s list of tools, such as [{"type": "function", "function": '
    '{"name": "f", "parameters": {...}}}], [] for no tools, or None if they are not known'
)


def _is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, dict) or isinstance(value, Mapping)  # noqa: SIM101 - the latter alone is slow


def _of(mapping: Mapping[str, object], key: str) -> object:
    """A member, or None; most mappings are dictionaries, and the compiler knows these."""
    if isinstance(mapping, dict):
        found: object = mapping.get(key)
        return found
    return mapping.get(key)


def _listed(tools: object) -> list[object]:
    if isinstance(tools, list):
        return tools
    if tools is None:
        return []
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise UsageError(f"tools is a {type(tools).__name__}; {_TOOLS_USAGE}")
    return list(tools)


def tool_function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object that holds the name and the schema of a tool, or of a tool choice.

    Chat Completions and Ollama nest it under ``function``.  In Responses and Messages it is the tool itself.
    """
    function = tool.get("function")
    return function if isinstance(function, Mapping) else tool


def tool_name(tool: Mapping[str, Any]) -> Any:
    """Return the name of a tool, or of the tool that a tool choice names; None if it has none."""
    return tool_function(tool).get("name")


def _schema(function: Mapping[str, object]) -> object:
    """The schema of a function's arguments, wherever the API has it."""
    parameters = function.get("parameters")
    return function.get("input_schema") if parameters is None else parameters


class ValueType:
    """Which JSON types a schema allows, and the same of its members."""

    __slots__ = (
        "_declared",
        "_keys",
        "_known_items",
        "_known_parts",
        "_members",
        "_others",
        "_root",
        "_schema",
        "is_any",
        "is_string",
        "types",
    )

    def __init__(self, schema: object, root: object = None) -> None:
        """``root``: the document that references point into, if not ``schema`` itself."""
        self._schema = schema
        self._root = schema if root is None else root
        # Not before somebody asks: a schema may contain itself, and most of it is never needed.
        self._known_parts: list[Mapping[str, object]] | None = None
        self._declared: dict[str, list[object]] | None = None
        self._keys: tuple[str, ...] | None = None
        self._members: dict[str, ValueType] = {}
        self._others: ValueType | None = None
        self._known_items: _Items | None = None
        types = _types(schema, self._root, {}, 0)
        self.types: frozenset[str] = types
        """Names of JSON types.  All of them: the schema says nothing; none of
        them: there is no schema."""
        self.is_any: bool = types == _EVERYTHING
        """JSON where the text is JSON, else a string."""
        self.is_string: bool = types <= _ONE["string"]
        """The text is the value, whatever it looks like, so that it can stream."""

    def __repr__(self) -> str:
        return f"ValueType({' | '.join(sorted(self.types))})"

    def member(self, key: str) -> ValueType:
        """The type of an object's property."""
        found = self._members.get(key)
        if found is None:
            found = self._look_for(key)
            if found is not UNKNOWN:  # what the model makes up is not remembered
                self._members[key] = found
        return found

    def items(self, index: int = 0) -> ValueType:
        """The type of an array's items; ``index`` matters where each has its own."""
        if self._known_items is None:
            self._known_items = _Items(self._parts(), self._root)
        items = self._known_items
        return items.prefix[index] if index < len(items.prefix) else items.rest

    def keys(self) -> tuple[str, ...] | None:
        """The properties an object declares, in order; ``None`` if it does not say."""
        self._properties()
        return self._keys

    def required(self) -> frozenset[str]:
        """The properties that an object must have, whichever of its alternatives it is."""
        found: list[object] = []
        todo: list[object] = [self._schema]
        for part in todo:
            if isinstance(part, (dict, Mapping)) and len(todo) <= _DEEPEST:
                found += _list(part.get("required"))
                todo += _list(part.get("allOf"))
                if "$ref" in part:
                    todo.append(_resolve(part["$ref"], self._root))
        return frozenset(key for key in found if isinstance(key, str))

    def _look_for(self, key: str) -> ValueType:
        properties = self._properties()
        if key in properties:
            return _either(properties[key], self._root)
        if self._others is None:
            others = [part.get("additionalProperties") for part in self._parts()]
            self._others = _either(
                [schema for schema in others if isinstance(schema, (dict, Mapping))], self._root
            )
        return self._others

    def _properties(self) -> dict[str, list[object]]:
        """By key, what each part says of a property."""
        if self._declared is None:
            declared: dict[str, list[object]] = {}
            told = False
            for part in self._parts():
                properties = part.get("properties")
                if isinstance(properties, (dict, Mapping)):
                    told = True
                    for key, schema in properties.items():
                        declared.setdefault(key, []).append(schema)
            self._keys = tuple(declared) if told else None
            self._declared = declared
        return self._declared

    def _parts(self) -> list[Mapping[str, object]]:
        if self._known_parts is None:
            self._known_parts = _parts(self._schema, self._root)
        return self._known_parts


class _Items:
    """Types of an array's items."""

    __slots__ = ("prefix", "rest")

    def __init__(self, parts: list[Mapping[str, object]], root: object) -> None:
        prefix: list[list[object]] = []
        rest: list[object] = []
        for part in parts:
            items = part.get("items")
            leading = _list(part.get("prefixItems")) or _list(items)
            for index, value in enumerate(leading):
                if index == len(prefix):
                    prefix.append([])
                prefix[index].append(value)
            if isinstance(items, (bool, dict, Mapping)):
                rest.append(items)
        self.prefix: list[ValueType] = [_either(values, root) for values in prefix]
        self.rest: ValueType = _either(rest, root)


def _either(schemas: list[object], root: object) -> ValueType:
    if not schemas:
        return UNKNOWN
    if len(schemas) > 1:
        return ValueType({"anyOf": schemas}, root)
    schema = schemas[0]
    if isinstance(schema, dict):
        name = schema.get("type")
        if isinstance(name, str) and name in SCALARS and _TELLING.isdisjoint(schema):
            return SCALARS[name]
    return ValueType(schema, root)


def _types(schema: object, root: object, seen: dict[int, frozenset[str]], depth: int) -> frozenset[str]:
    """The types that ``schema`` allows: all those named by the keywords that name any."""
    if schema is True or depth > _DEEPEST:
        return _EVERYTHING
    if not isinstance(schema, (dict, Mapping)):
        return _NOTHING
    if _COMPOUND.isdisjoint(schema):
        return _own_types(schema)
    if id(schema) in seen:
        return seen[id(schema)]
    seen[id(schema)] = _NOTHING  # what a cycle adds to itself
    named = [_own_types(schema)]
    if "$ref" in schema:
        named.append(_types(_resolve(schema["$ref"], root), root, seen, depth + 1))
    named += [_types(branch, root, seen, depth + 1) for branch in _list(schema.get("allOf"))]
    for keyword in ("anyOf", "oneOf"):
        branches = [_types(b, root, seen, depth + 1) for b in _list(schema.get(keyword))]
        if branches:
            named.append(_NOTHING.union(*branches))
    telling = [types for types in named if types != _EVERYTHING]
    types = _NOTHING.union(*telling) if telling else _EVERYTHING
    if schema.get("nullable") is True:
        types |= {"null"}
    seen[id(schema)] = types
    return types


def _own_types(schema: Mapping[str, object]) -> frozenset[str]:
    """By name, else by the values, else by the shape."""
    declared = schema.get("type")
    if isinstance(declared, str) and declared in _ONE:
        return _ONE[declared]
    names = [declared] if isinstance(declared, str) else _list(declared)
    types = {_type_named(name.lower()) for name in names if isinstance(name, str)}
    types.discard("")
    if not types:
        values = _list(schema.get("enum")) + ([schema["const"]] if "const" in schema else [])
        types = {_type_of(value) for value in values}
    if not types:
        types = {shape for keyword, shape in _SHAPES.items() if keyword in schema}
    return frozenset(types) or _EVERYTHING


def _type_named(name: str) -> str:
    for prefix, type_ in _PREFIXES.items():
        if name.startswith(prefix):
            return type_
    return _NAMES.get(name, "")


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, Mapping):
        return "object"
    return "array" if isinstance(value, (list, tuple)) else "string"


def _parts(schema: object, root: object) -> list[Mapping[str, object]]:
    """``schema`` and all that it refers to and is made of."""
    if isinstance(schema, (dict, Mapping)) and _COMPOUND.isdisjoint(schema):
        return [schema]
    todo: list[object] = [schema]
    seen: set[int] = set()
    parts: list[Mapping[str, object]] = []
    for part in todo:
        if isinstance(part, (dict, Mapping)) and id(part) not in seen:
            seen.add(id(part))
            parts.append(part)
            if "$ref" in part:
                todo.append(_resolve(part["$ref"], root))
            for keyword in ("allOf", "anyOf", "oneOf"):
                todo.extend(_list(part.get(keyword)))
    return parts


def _resolve(reference: object, root: object) -> object:
    """The target of a JSON pointer into ``root``; without one, a schema that says nothing."""
    if not isinstance(reference, str) or not f"{reference}/".startswith("#/"):
        return True
    target = root
    for step in unquote(reference).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, (list, tuple)):
            index = int(key) if len(key) < 9 and key.isdecimal() else len(target)
            target = target[index] if index < len(target) else True
        elif isinstance(target, Mapping) and key in target:
            target = target[key]
        else:
            return True
    return target


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []


ANY: Final = ValueType(schema=True)
"""Of a schema that says nothing."""
UNKNOWN: Final = ValueType(schema=False)
"""Of a value without a schema."""
SCALARS: Final = {name: ValueType({"type": name}) for name in sorted(_EVERYTHING - CONTAINERS)}
"""Of values that have no members, by the name of their type."""
