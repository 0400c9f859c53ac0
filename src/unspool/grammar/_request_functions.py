"""Functions that the model may call: all functions among a request's tools, or one named function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from .._core.schema.tools import Tools, ValueType, tool_function, tool_name
from ..errors import UsageError
from ._self_contained_schema import self_contained
from ._size_limit import Budget

Choice: TypeAlias = Literal["auto", "required"] | Mapping[str, Any]
"""The ``tool_choice`` of a request; a mapping names the function."""

NO_ARGUMENTS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}
ANY_ARGUMENTS: Final[Mapping[str, Any]] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the model may call."""

    name: str
    parameters: Mapping[str, Any]
    """The schema of the arguments; its references point into its own ``$defs``."""


def read_functions(tools: Iterable[Mapping[str, Any]]) -> list[Function]:
    """Return the functions among the tools of a request.

    A function that declares no parameters accepts no arguments.  A function with
    ``strict: false`` accepts arbitrary parameters.
    """
    declared = list(tools)
    Tools(declared)  # only to raise an error if a tool has no name
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
    """Return the functions that the model may call, and whether ``choice`` names one function."""
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
