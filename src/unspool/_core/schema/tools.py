"""Tools of a request: the functions that it offers, and the types of their parameters.

A malformed schema never raises an error.  Parts of a schema that cannot be understood are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeGuard

from ...errors import UsageError
from .json_pointer import resolve_reference

_NAME: Final = re.compile(r"[\w.:/-]{1,256}")
"""Pattern of function names that at least one API or local engine accepts, with letters of any script."""
_NOTHING: Final[frozenset[str]] = frozenset()
_EVERYTHING: Final = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_ONE: Final = {name: frozenset({name}) for name in _EVERYTHING}
_COMPOUND: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf", "nullable"})
"""Keywords that can allow types in addition to those in ``type``."""
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
"""Map from the type names that schemas use in practice to JSON types."""
_PREFIXES: Final = {"uint": "integer", "num": "number"}
_SHAPES: Final = {
    "properties": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
}
"""Map from keywords to the JSON types that they imply in a schema without ``type``."""
_INFORMATIVE: Final = _COMPOUND.union(_SHAPES, ("enum", "const"))
"""Keywords that describe a value in more detail than ``type``."""
_DEEPEST: Final = 100
"""Maximum nesting depth of unions and references; schemas at greater depth are ignored."""


class Tools:
    """Tools that a request offers, and the types of their parameters.

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
            kind = _get(tool, "type")  # Pydantic's model_dump() writes absent fields as None.
            is_function = kind is None or (isinstance(kind, str) and kind == "function")
            if not is_function and _get(tool, "input_schema") is None:
                continue
            function = _get(tool, "function")
            body = tool if function is None else function
            if not _is_mapping(body):
                raise UsageError(f"tools[{index}] is a function without a name; {_TOOLS_USAGE}")
            name = _get(body, "name")
            if not isinstance(name, str):
                raise UsageError(f"tools[{index}] is a function without a name; {_TOOLS_USAGE}")
            self._functions[name] = body
        self.known: bool = tools is not None
        """True if the caller passed a list of tools, which may be empty."""
        self.declared: bool = bool(self._functions)
        """True if the list of tools is not empty."""
        self.refused: bool = self.known and not self.declared
        """True if the caller passed an empty list, which means that the model has no tools."""

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        """Iterate over the function declarations, so that a ``Tools`` object can replace a list of tools."""
        return iter(self._functions.values())

    @property
    def names(self) -> AbstractSet[str]:
        """Names of the functions; tools that are not functions are not included."""
        return self._functions.keys()

    def declares(self, name: str) -> bool:
        """Return whether the request offers a function with this name."""
        return name in self._functions

    def could_be(self, name: str) -> bool:
        """Return whether ``name`` is a valid function name; the function need not be declared."""
        return name in self._functions or _NAME.fullmatch(name) is not None

    def could_become(self, prefix: str) -> bool:
        """Return whether a declared function's name begins with ``prefix``; True without a list of tools."""
        return not self.known or any(name.startswith(prefix) for name in self._functions)

    def parameters(self, function: str) -> ValueType:
        """Return the type of a function's arguments."""
        if function not in self._parameters:
            # Schemas are read on demand, because most requests offer more tools than the model calls.
            body = self._functions.get(function)
            self._parameters[function] = UNKNOWN if body is None else ValueType(_schema(body))
        return self._parameters[function]

    def value_type(self, function: str, key: str) -> ValueType:
        """Return the type of the parameter ``key`` of a function."""
        return self.parameters(function).member(key)

    def keys(self, function: str) -> tuple[str, ...] | None:
        """Return the names of a function's declared parameters, in order, or ``None`` if they are unknown."""
        return self.parameters(function).keys()

    def fitting(self, keys: tuple[str, ...]) -> str:
        """Return the function that accepts all of these keys; an empty string unless there is exactly one."""
        names = list(self._functions)
        if len(names) > 1:
            declared = [(name, self.keys(name)) for name in names]
            names = [name for name, known in declared if known is None or set(keys).issubset(known)]
        return names[0] if len(names) == 1 else ""

    def required(self, function: str) -> frozenset[str]:
        """Return the names of a function's required parameters."""
        return self.parameters(function).required()


def as_tools(tools: Iterable[Mapping[str, object]] | None) -> Tools:
    """Convert a list of tools to ``Tools``.

    Callers that parse many outputs can pass the result each time, so that the schemas are read only once.
    """
    return tools if isinstance(tools, Tools) else Tools(tools)


_TOOLS_USAGE: Final = (
    'pass the request\'s list of tools, such as [{"type": "function", "function": '
    '{"name": "f", "parameters": {...}}}], [] for no tools, or None if they are not known'
)


def _is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, dict) or isinstance(value, Mapping)  # noqa: SIM101 - the latter alone is slow


def _get(mapping: Mapping[str, object], key: str) -> object:
    """Return a member of a mapping, or None.  Dictionaries have a fast path, for compiled code."""
    if isinstance(mapping, dict):
        found: object = mapping.get(key)
        return found
    return mapping.get(key)


def _listed(tools: object) -> list[object]:
    """Return the tools as a list, or raise ``UsageError`` for a type that callers often pass by mistake."""
    if isinstance(tools, list):
        return tools
    if tools is None:
        return []
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise UsageError(f"tools is a {type(tools).__name__}; {_TOOLS_USAGE}")
    return list(tools)


def tool_function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object inside a tool or a tool choice that contains the function's name.

    In Chat Completions and Ollama this is the object under ``function``.  In Responses and Messages this
    object is ``tool`` itself.
    """
    function = tool.get("function")
    return function if isinstance(function, Mapping) else tool


def tool_name(tool: Mapping[str, Any]) -> Any:
    """Return the name in a tool or in a tool choice, or None if there is no name."""
    return tool_function(tool).get("name")


def _schema(function: Mapping[str, object]) -> object:
    """Return the schema of a function's arguments, which is under a different key in each API."""
    parameters = function.get("parameters")
    return function.get("input_schema") if parameters is None else parameters


class ValueType:
    """JSON types that a schema allows, for a value and its members."""

    __slots__ = (
        "_declared",
        "_keys",
        "_known_items",
        "_known_parts",
        "_members",
        "_others",
        "_required",
        "_root",
        "_schema",
        "is_any",
        "is_string",
        "types",
    )

    def __init__(self, schema: object, root: object = None) -> None:
        """Read a schema.

        :param root: the document that references in ``schema`` refer to; by default, ``schema`` itself.
        """
        self._schema = schema
        self._root = schema if root is None else root
        # The rest of the schema is read on demand, because most of it is never needed, and because a schema
        # may contain itself.
        self._known_parts: list[Mapping[str, object]] | None = None
        self._declared: dict[str, list[object]] | None = None
        self._keys: tuple[str, ...] | None = None
        self._required: frozenset[str] | None = None
        self._members: dict[str, ValueType] = {}
        self._others: ValueType | None = None
        self._known_items: _Items | None = None
        types = _types(schema, self._root, {}, 0)
        self.types: frozenset[str] = types
        """Names of the JSON types that are allowed; empty if there is no schema."""
        self.is_any: bool = types == _EVERYTHING
        """True if the schema allows any type.  Text is then a string unless it is valid JSON."""
        self.is_string: bool = types <= _ONE["string"]
        """True if the schema allows only strings.  Text can then be output as it arrives."""

    def __repr__(self) -> str:
        return f"ValueType({' | '.join(sorted(self.types))})"

    def member(self, key: str) -> ValueType:
        """Return the type of a property."""
        found = self._members.get(key)
        if found is None:
            found = self._look_for(key)
            if found is not UNKNOWN:  # not cached: a model may invent any number of keys
                self._members[key] = found
        return found

    def items(self, index: int = 0) -> ValueType:
        """Return the type of the item at ``index``.  Each of the first items may have its own schema."""
        if self._known_items is None:
            self._known_items = _Items(self._parts(), self._root)
        items = self._known_items
        return items.prefix[index] if index < len(items.prefix) else items.rest

    def keys(self) -> tuple[str, ...] | None:
        """Return the names of the declared properties, in order, or ``None`` if ``properties`` is missing."""
        self._properties()
        return self._keys

    def required(self) -> frozenset[str]:
        """Return the names of the properties that every value must have."""
        if self._required is None:
            self._required = self._find_required()
        return self._required

    def _find_required(self) -> frozenset[str]:
        found: list[object] = []
        todo: list[object] = [self._schema]
        # The loop also visits the schemas that it appends.  The limit ends the loop if schemas refer to each
        # other.
        for part in todo:
            if isinstance(part, (dict, Mapping)) and len(todo) <= _DEEPEST:
                found += _list(part.get("required"))
                todo += _list(part.get("allOf"))
                if "$ref" in part:
                    todo.append(resolve_reference(part["$ref"], self._root))
        return frozenset(key for key in found if isinstance(key, str))

    def excludes(self, value: object) -> bool:
        """Return whether ``enum`` or ``const`` certainly excludes a value."""
        return _excludes(self._schema, value, self._root, {}, 0)

    def allowed_values(self) -> list[object]:
        """Return the values in ``enum`` and ``const``, including those of all alternatives."""
        values: list[object] = []
        for part in self._parts():
            found = [part["const"]] if "const" in part else _list(part.get("enum"))
            values += [value for value in found if value not in values]
        return values

    def _look_for(self, key: str) -> ValueType:
        properties = self._properties()
        if key in properties:
            return _type_of_any(properties[key], self._root)
        if self._others is None:
            others = [part.get("additionalProperties") for part in self._parts()]
            self._others = _type_of_any(
                [schema for schema in others if isinstance(schema, (dict, Mapping))], self._root
            )
        return self._others

    def _properties(self) -> dict[str, list[object]]:
        """Return a map from each property's name to all schemas that are declared for it."""
        if self._declared is None:
            declared: dict[str, list[object]] = {}
            has_properties = False
            for part in self._parts():
                properties = part.get("properties")
                if isinstance(properties, (dict, Mapping)):
                    has_properties = True
                    for key, schema in properties.items():
                        declared.setdefault(key, []).append(schema)
            self._keys = tuple(declared) if has_properties else None
            self._declared = declared
        return self._declared

    def _parts(self) -> list[Mapping[str, object]]:
        if self._known_parts is None:
            self._known_parts = _parts(self._schema, self._root)
        return self._known_parts


class _Items:
    """Types of an array's items: one type for each of the first items, and one type for all other items."""

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
        self.prefix: list[ValueType] = [_type_of_any(values, root) for values in prefix]
        self.rest: ValueType = _type_of_any(rest, root)


def _type_of_any(schemas: list[object], root: object) -> ValueType:
    """Return the type of a value that has to satisfy at least one of these schemas."""
    if not schemas:
        return UNKNOWN
    if len(schemas) > 1:
        return ValueType({"anyOf": schemas}, root)
    schema = schemas[0]
    if isinstance(schema, dict):
        name = schema.get("type")
        if isinstance(name, str) and name in SCALARS and _INFORMATIVE.isdisjoint(schema):
            return SCALARS[name]
    return ValueType(schema, root)


def _types(schema: object, root: object, seen: dict[int, frozenset[str]], depth: int) -> frozenset[str]:
    """Return the JSON types that the keywords and references of ``schema`` allow."""
    if schema is True or depth > _DEEPEST:
        return _EVERYTHING
    if not isinstance(schema, (dict, Mapping)):
        return _NOTHING
    if _COMPOUND.isdisjoint(schema):
        return _own_types(schema)
    if id(schema) in seen:
        return seen[id(schema)]
    seen[id(schema)] = _NOTHING  # a schema that refers to itself adds no types
    named = [_own_types(schema)]
    if "$ref" in schema:
        named.append(_types(resolve_reference(schema["$ref"], root), root, seen, depth + 1))
    named += [_types(branch, root, seen, depth + 1) for branch in _list(schema.get("allOf"))]
    for keyword in ("anyOf", "oneOf"):
        branches = [_types(b, root, seen, depth + 1) for b in _list(schema.get(keyword))]
        if branches:
            named.append(_NOTHING.union(*branches))
    informative = [types for types in named if types != _EVERYTHING]
    types = _NOTHING.union(*informative) if informative else _EVERYTHING
    if schema.get("nullable") is True:
        types |= {"null"}
    seen[id(schema)] = types
    return types


def _own_types(schema: Mapping[str, object]) -> frozenset[str]:
    """Return the types from ``type``, else from the allowed values, else from other keywords."""
    declared = schema.get("type")
    if isinstance(declared, str) and declared in _ONE:
        return _ONE[declared]
    names = [declared] if isinstance(declared, str) else _list(declared)
    types = {_type_named(name.lower()) for name in names if isinstance(name, str)}
    types.discard("")
    if not types:
        values = _list(schema.get("enum")) + ([schema["const"]] if "const" in schema else [])
        types = {json_type(value) for value in values}
    if not types:
        types = {shape for keyword, shape in _SHAPES.items() if _is_valid_shape(keyword, schema.get(keyword))}
    return frozenset(types) or _EVERYTHING


def _excludes(schema: object, value: object, root: object, seen: dict[int, bool], depth: int) -> bool:
    """Return whether the types and the allowed values in ``schema`` certainly exclude a value."""
    if not isinstance(schema, (dict, Mapping)) or depth > _DEEPEST:
        return False
    if value is None and schema.get("nullable") is True:
        return False
    if "const" in schema and not _same(schema["const"], value):
        return True
    allowed = _list(schema.get("enum"))
    if allowed and not any(_same(one, value) for one in allowed):
        return True
    if depth and "type" in schema and not fits_types(value, _own_types(schema)):
        return True
    if _COMPOUND.isdisjoint(schema):
        return False
    if id(schema) in seen:
        return seen[id(schema)]
    seen[id(schema)] = False  # a schema that refers to itself excludes nothing
    found = "$ref" in schema and _excludes(
        resolve_reference(schema["$ref"], root), value, root, seen, depth + 1
    )
    for branch in _list(schema.get("allOf")):
        found = found or _excludes(branch, value, root, seen, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        branches = _list(schema.get(keyword))
        if branches and not found:
            found = all(_excludes(branch, value, root, seen, depth + 1) for branch in branches)
    seen[id(schema)] = found
    return found


def _same(allowed: object, value: object) -> bool:
    """Return whether two JSON values are equal; unlike in Python, true and 1 are not."""
    if isinstance(allowed, bool) or isinstance(value, bool):
        return allowed is value
    if isinstance(allowed, (list, tuple)) and isinstance(value, (list, tuple)):
        return len(allowed) == len(value) and all(map(_same, allowed, value))
    if isinstance(allowed, (dict, Mapping)) and isinstance(value, (dict, Mapping)):
        return allowed.keys() == value.keys() and all(_same(allowed[key], value[key]) for key in allowed)
    return allowed == value


def fits_types(value: object, types: frozenset[str]) -> bool:
    """Return whether a value has one of these JSON types; 1 is a number, and 1.0 is an integer."""
    found = json_type(value)
    if found in types:
        return True
    if found == "integer":
        return "number" in types
    return isinstance(value, float) and "integer" in types and value.is_integer()


def _is_valid_shape(keyword: str, value: object) -> bool:
    """Return whether ``value`` is valid for a keyword in ``_SHAPES``; grammars ignore other values, too."""
    if isinstance(value, (dict, Mapping)):
        return keyword != "prefixItems"
    if isinstance(value, bool):
        return keyword in ("items", "additionalProperties")
    return isinstance(value, (list, tuple)) and keyword in ("items", "prefixItems")


def _type_named(name: str) -> str:
    for prefix, type_ in _PREFIXES.items():
        if name.startswith(prefix):
            return type_
    return _NAMES.get(name, "")


def json_type(value: object) -> str:
    """Return the name of the JSON type of a value."""
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
    """Return ``schema``, its alternatives, and all schemas that these refer to."""
    if isinstance(schema, (dict, Mapping)) and _COMPOUND.isdisjoint(schema):
        return [schema]
    todo: list[object] = [schema]
    seen: set[int] = set()
    parts: list[Mapping[str, object]] = []
    # The loop also visits the schemas that it appends.  `seen` ends the loop if schemas refer to each other.
    for part in todo:
        if isinstance(part, (dict, Mapping)) and id(part) not in seen:
            seen.add(id(part))
            parts.append(part)
            if "$ref" in part:
                todo.append(resolve_reference(part["$ref"], root))
            for keyword in ("allOf", "anyOf", "oneOf"):
                todo.extend(_list(part.get(keyword)))
    return parts


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []


ANY: Final = ValueType(schema=True)
"""Type of a schema that allows everything."""
UNKNOWN: Final = ValueType(schema=False)
"""Type of a value without a schema."""
SCALARS: Final = {name: ValueType({"type": name}) for name in sorted(_EVERYTHING - CONTAINERS)}
"""Map from the name of each scalar JSON type to its ``ValueType``."""
