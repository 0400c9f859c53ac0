"""Comparison of a call's arguments with the declared schema of the tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from .tools import Tools, fits_types, json_type

_MAX_VALUES: Final = 20
"""Maximum number of allowed values in a description."""
_MAX_VALUE: Final = 60
"""Maximum length of each of these values, in characters."""


def find_mismatch(tools: Tools, function: str, arguments: str) -> str:
    """Return a description of the first argument that does not fit its schema; empty if all fit."""
    return next(find_mismatches(tools, function, arguments), "")


def find_mismatches(tools: Tools, function: str, arguments: str) -> Iterator[str]:
    """Yield a description of each argument that does not fit its schema.

    Only missing arguments, their types and their allowed values (``enum`` and ``const``) are checked, which
    takes little time.  A full validation would report all of these mismatches, too.

    >>> schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    >>> tools = Tools([{"name": "f", "parameters": schema}])
    >>> find_mismatch(tools, "f", '{"n": "3"}'), find_mismatch(tools, "f", "{}")
    ("argument 'n' is a string, expected an integer", "the required argument 'n' is missing")
    """
    if not tools.declares(function):
        return
    parameters = tools.parameters(function)
    required = parameters.required()
    if not required and not parameters.keys():
        return
    try:
        values = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return
    if not isinstance(values, dict):
        return
    for key in sorted(required):
        if key not in values:
            yield f"the required argument {key!r} is missing"
    for key, value in values.items():
        expected = parameters.member(key)
        if expected.types and not expected.is_any and not fits_types(value, expected.types):
            wanted = " or ".join(_with_article(name) for name in sorted(expected.types))
            yield f"argument {key!r} is {_with_article(json_type(value))}, expected {wanted}"
        elif expected.excludes(value):
            yield f"argument {key!r} is not {_listed(expected.allowed_values())}"


def _listed(values: list[object]) -> str:
    """Return the allowed values as text: ``one of 1, "a" or null``."""
    shown = [_shorten(json.dumps(value, ensure_ascii=False, default=str)) for value in values[:_MAX_VALUES]]
    if len(values) > _MAX_VALUES:
        return f"one of {', '.join(shown)} and {len(values) - _MAX_VALUES} other values"
    return shown[0] if len(shown) == 1 else f"one of {', '.join(shown[:-1])} or {shown[-1]}"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}..."


def _with_article(name: str) -> str:
    if name == "null":
        return name
    return f"an {name}" if name[0] in "aio" else f"a {name}"
