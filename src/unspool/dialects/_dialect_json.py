"""Conversion of dialects to and from JSON, and a JSON Schema, for programs in other languages.

The code reads the dataclasses of a declaration and their type hints, so a new field needs no change here.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from importlib.resources import files
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import UsageError
from ._declaration import Dialect

FORM_VERSION: Final = 1
"""Version of the JSON form.  It increases with each change that older readers cannot read."""
_PLAIN: Final[Mapping[object, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
}
"""Mapping from Python types to the names of JSON Schema types."""


def dialect_to_json(dialect: Dialect) -> dict[str, Any]:
    """Return a dialect as a dictionary of JSON values that contains every field, and ``version``.

    >>> dialect_to_json(Dialect("mine", call=("<call>{envelope}</call>",)))["call"]
    ['<call>{envelope}</call>']
    """
    return {"version": FORM_VERSION, **_to_json(dialect)}


def dialect_from_json(value: Mapping[str, Any]) -> Dialect:
    """Build a dialect from JSON values; a missing field has its default value.

    :raises UsageError: if a value does not have the form that :func:`dialect_schema` describes.
    :raises SpecError: if the declaration contradicts itself.

    >>> dialect_from_json({"version": 1, "name": "mine", "call": ["<call>{envelope}</call>"]}).call
    ('<call>{envelope}</call>',)
    """
    if not isinstance(value, Mapping):
        raise UsageError(f"dialect: expected an object, got {value!r}")
    version = value.get("version", FORM_VERSION)
    if version != FORM_VERSION or isinstance(version, bool):
        raise UsageError(
            f"dialect.version: expected {FORM_VERSION}, got {version!r}: "
            f"export the dialect with a version of unspool that writes version {FORM_VERSION}"
        )
    members = {name: member for name, member in value.items() if name != "version"}
    dialect: Dialect = _read(Dialect, members, "dialect")
    return dialect


def dialect_schema() -> dict[str, Any]:
    """Return the JSON Schema of a list of dialects, as printed by ``unspool export dialects``."""
    definitions: dict[str, Any] = {}
    item = _schema(Dialect, definitions)
    definitions["Dialect"]["properties"]["version"] = {
        "const": FORM_VERSION,
        "default": FORM_VERSION,
        "description": "Version of this form.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Dialects of unspool, version {FORM_VERSION} of the form",
        "type": "array",
        "items": item,
        "$defs": definitions,
    }


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value):
        return {each.name: _to_json(getattr(value, each.name)) for each in fields(value)}
    return value


# -- reading


def _read(hint: Any, value: Any, where: str) -> Any:
    """Convert a JSON value to the type that a type hint describes.

    :param where: the path of the value, for error messages.
    """
    if is_dataclass(hint) and isinstance(hint, type):
        return _read_dataclass(hint, value, where)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        matching = [each for each in arguments if _fits(each, value)]
        if not matching:
            raise UsageError(f"{where}: expected {_type_name(hint)}, got {value!r}")
        return _read(matching[0], value, where)
    if not _fits(hint, value):
        raise UsageError(f"{where}: expected {_type_name(hint)}, got {value!r}")
    if origin is tuple:
        hints = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(hints) != len(value):
            raise UsageError(f"{where}: expected {len(hints)} items, got {len(value)}")
        return tuple(
            _read(each, item, f"{where}[{i}]")
            for i, (each, item) in enumerate(zip(hints, value, strict=True))
        )
    return dict(value) if isinstance(value, Mapping) else value


def _read_dataclass(cls: type, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: expected an object, got {value!r}")
    hints, known = get_type_hints(cls), _fields(cls)
    if unknown := sorted(set(value) - set(known)):
        raise UsageError(f"{where}: unknown field {unknown[0]}")
    if missing := [name for name in _required(cls) if name not in value]:
        raise UsageError(f"{where}: missing field {missing[0]}")
    return cls(
        **{name: _read(hints[name], value[name], f"{where}.{name}") for name in known if name in value}
    )


def _fits(hint: Any, value: Any) -> bool:
    """Return whether a JSON value can be converted to a type, without checking its members."""
    origin = get_origin(hint)
    if origin is Literal:
        return value in get_args(hint)
    if origin is tuple:
        return isinstance(value, Sequence) and not isinstance(value, str)
    if is_dataclass(hint):
        return isinstance(value, Mapping)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _type_name(hint: Any) -> str:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(map(_type_name, get_args(hint)))
    if origin is tuple:
        return "an array"
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if origin is Mapping or is_dataclass(hint):
        return "an object"
    return _PLAIN[hint]


# -- the schema


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type, and add the schema of every dataclass to the definitions."""
    if is_dataclass(hint) and isinstance(hint, type):
        if hint.__name__ not in definitions:
            # Add the class before its fields are visited, because a dataclass may refer to itself.
            definitions[hint.__name__] = {}
            definitions[hint.__name__] = _object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, UnionType):
        return {"anyOf": [_schema(each, definitions) for each in arguments]}
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is tuple:
        return {
            "type": "array",
            "prefixItems": [_schema(each, definitions) for each in arguments],
            "minItems": len(arguments),
            "maxItems": len(arguments),
        }
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    return {"type": _PLAIN[hint]}


def _object(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(cls)
    properties: dict[str, Any] = {}
    for name, each in _fields(cls).items():
        properties[name] = {**_schema(hints[name], definitions), **_description(cls, name)}
        if each.default is not MISSING:
            properties[name] |= {"default": _to_json(each.default)}
    return {
        "type": "object",
        "properties": properties,
        "required": _required(cls),
        **_description(cls, ""),
        "additionalProperties": False,
    }


def _fields(cls: type) -> dict[str, Field[Any]]:
    return {each.name: each for each in fields(cls)}


def _required(cls: type) -> list[str]:
    return [each.name for each in fields(cls) if each.default is MISSING]


_SOURCES: Final = ("_declaration.py", "_placed_templates.py", "_family_request_facts.py", "_id_format.py")
"""The modules of ``unspool.dialects`` that declare the dataclasses."""


def _description(cls: type, field: str) -> dict[str, str]:
    """Return the description of a field, or of the class if ``field`` is empty."""
    text = _docstrings().get((cls.__name__, field))
    return {"description": text} if text else {}


@cache
def _docstrings() -> dict[tuple[str, str], str]:
    """Return all docstrings of classes and fields, keyed by class name and field name.

    The docstrings are read from the source files, because Python does not keep docstrings of fields.
    """
    docstrings: dict[tuple[str, str], str] = {}
    for name in _SOURCES:
        source = files("unspool.dialects").joinpath(name)
        if not source.is_file():  # an installation without source files has no descriptions
            continue
        for cls in ast.parse(source.read_text(encoding="utf-8")).body:
            if isinstance(cls, ast.ClassDef):
                docstrings[cls.name, ""] = (
                    (ast.get_docstring(cls) or "").partition("\n\n")[0].replace("\n", " ")
                )
                for before, after in zip(cls.body, cls.body[1:], strict=False):
                    if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
                        docstrings[cls.name, before.target.id] = _text(after)
    return docstrings


def _text(statement: ast.stmt) -> str:
    """Return the text of a docstring on one line; return an empty string for any other statement."""
    match statement:
        case ast.Expr(ast.Constant(str(text))):
            return " ".join(text.split())
        case _:
            return ""
