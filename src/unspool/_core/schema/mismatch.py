"""Comparison of a call's arguments with the declared schema of the tool."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .tools import Tools, json_type


def find_mismatch(tools: Tools, function: str, arguments: str) -> str:
    """Return a description of the first argument that does not fit its schema; empty if all fit."""
    return next(find_mismatches(tools, function, arguments), "")


def find_mismatches(tools: Tools, function: str, arguments: str) -> Iterator[str]:
    """Yield a description of each argument that does not fit its schema.

    To save time, this function checks only that required arguments are present and that types fit.  A full
    validation would report all of these mismatches, too.

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
        if not expected.types or expected.is_any:
            continue
        found = json_type(value)
        if found in expected.types or (
            "number" in expected.types
            if found == "integer"
            else found == "number" and "integer" in expected.types and value == value // 1
        ):
            continue
        wanted = " or ".join(_with_article(name) for name in sorted(expected.types))
        yield f"argument {key!r} is {_with_article(found)}, expected {wanted}"


def _with_article(name: str) -> str:
    if name == "null":
        return name
    return f"an {name}" if name[0] in "aio" else f"a {name}"
