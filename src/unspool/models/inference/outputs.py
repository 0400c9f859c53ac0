"""Raw outputs of a model, with the tools that their requests offered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..._core.schema.tools import Tools, as_tools
from ...errors import UsageError
from ...parser import ToolList

OutputLike: TypeAlias = str | Mapping[str, Any]
"""An output: its text, or a mapping with ``text`` and, optionally, ``tools`` and ``prompt``."""


@dataclass(frozen=True, slots=True)
class Output:
    """One raw output, and what is known about its request."""

    text: str
    """Text that the model wrote."""
    tools: Tools
    """Tools that the request offered."""
    prompt: str | None = None
    """End of the prompt; None if it is unknown."""
    types: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    """The JSON type of every parameter of every tool; the type is empty if the schema has none."""

    def names(self) -> Iterator[re.Match[str]]:
        """Yield the places at which the text has the name of a tool as a whole word."""
        if self.types:
            words = "|".join(map(re.escape, sorted(self.types, key=len, reverse=True)))
            yield from re.finditer(rf"(?<![\w-])(?:{words})(?![\w-])", self.text)


def to_outputs(outputs: Iterable[OutputLike], tools: ToolList | None) -> tuple[Output, ...]:
    """Return outputs with the types of their tools' parameters.

    :param tools: tools of the outputs that have none of their own.
    """
    found: list[Output] = []
    shared = as_tools(tools)
    known: dict[str, Tools] = {}
    for number, each in enumerate(outputs, 1):
        row: Mapping[str, Any] = {"text": each} if isinstance(each, str) else each
        if not isinstance(row, Mapping) or not isinstance(row.get("text"), str):
            raise UsageError(
                f"output {number} has no text: pass the text, or a mapping with 'text' and optionally "
                "'tools' and 'prompt'"
            )
        own = row.get("tools")
        try:
            offered = shared if own is None else known.setdefault(repr(own), as_tools(own))
        except UsageError as error:
            raise UsageError(f"output {number}: {error}") from error
        prompt = row.get("prompt")
        found.append(
            Output(row["text"], offered, prompt if isinstance(prompt, str) else None, types_of(offered))
        )
    if not found:
        raise UsageError("there are no outputs: pass a few dozen, with and without calls")
    if not any(output.types for output in found):
        raise UsageError(
            "no output has tools, so calls cannot be found: pass tools=[...], or 'tools' with each output"
        )
    return tuple(found)


def outputs_from_json_lines(text: str, source: str) -> list[OutputLike]:
    """Return the outputs in JSON lines.

    :param source: name of the file, for error messages.
    """
    found: list[OutputLike] = []
    for number, line in enumerate(text.rstrip().split("\n") if text.strip() else (), 1):
        if not line.strip():
            raise UsageError(f"{source}, line {number}, is empty: remove it")
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{source}, line {number}, is not JSON: {error}") from error
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise UsageError(
                f'{source}, line {number}, has no text: write {{"text": "...", "tools": [...]}} on every line'
            )
        found.append(row)
    return found


def types_of(tools: Iterable[object]) -> dict[str, dict[str, str]]:
    """Return the JSON type of every parameter, by the name of the tool and of the parameter."""
    found: dict[str, dict[str, str]] = {}
    for tool in tools:
        if not isinstance(tool, Mapping):
            continue
        function = tool.get("function", tool)
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            continue
        schema = function.get("parameters") or function.get("input_schema")
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        parameters = found.setdefault(function["name"], {})
        for key, value in properties.items() if isinstance(properties, Mapping) else ():
            kind = value.get("type") if isinstance(value, Mapping) else None
            kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
            parameters[key] = next((each for each in kinds if each != "null"), "")
    return found
