"""Law: if a grammar can express a dialect's calls, the grammar can be built and written."""

from __future__ import annotations

from ..dialects import Dialect, find
from ..errors import UsageError
from ..grammar import grammar_for

_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "units": {"enum": ["metric", "imperial"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "near": {"type": "object", "properties": {"km": {"type": "number"}}},
                },
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "now"}},
]


def assert_grammar(dialect: str | Dialect) -> None:
    """Build the grammars of a dialect; a ``UsageError`` is allowed, because not every dialect has one."""
    spec = find(dialect)
    for tools in (_TOOLS, _TOOLS[1:]):
        for required in (False, True):
            try:
                grammar = grammar_for(spec, tools, choice="required" if required else "auto")
            except UsageError:
                continue
            if not grammar.gbnf():
                raise AssertionError(f"dialect {spec.name!r} has an empty grammar")
