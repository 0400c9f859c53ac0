"""JSON schema for guided decoding on backends that cannot constrain a dialect's markup.

With this schema, the model writes a list that the dialect ``generic_json`` can read::

    [{"name": "get_weather", "parameters": {"city": "Paris"}}]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import UsageError
from ._request_functions import Choice, Function, select_functions
from ._self_contained_schema import self_contained


def guided_schema(
    tools: Iterable[Mapping[str, Any]],
    *,
    choice: Choice = "required",
    parallel: bool = True,
    bare: bool = False,
) -> dict[str, Any]:
    """Return a JSON schema for a list of calls, for backends that can constrain only JSON.

    If ``choice`` names a function, the list has exactly one call.

    :param bare: if ``choice`` names a function, return only the schema of its arguments. The model's output
        then does not contain the function's name.
    """
    offered, is_named = select_functions(tools, choice)
    if choice == "auto":
        raise UsageError(
            'guided JSON always contains a call, but choice="auto" also allows an answer without a call; '
            "use a structural tag or GBNF"
        )
    if bare:
        if not is_named:
            raise UsageError(
                "bare=True returns a schema of arguments without the function's name, "
                'so choice must name one function: choice={"name": "..."}'
            )
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
    """Move the definitions in a function's schema to ``definitions``; return the rest of the schema."""
    own: Mapping[str, Any] = function.parameters
    inner = own.get("$defs", {})
    if any(name in definitions and definitions[name] != inner[name] for name in inner):
        renamed = self_contained(own, prefix=f"{function.name}.")
        own = renamed if isinstance(renamed, Mapping) else own
        inner = own.get("$defs", {})
    definitions.update(inner)
    return {key: value for key, value in own.items() if key != "$defs"}
