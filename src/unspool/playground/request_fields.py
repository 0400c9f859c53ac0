"""Fields that most requests from the page contain: an output, and the options for parsing the output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from ..dialects import Dialect, dialect_from_json, get_dialect
from ..errors import UsageError
from ..events import FinishReason
from ..parser import Parser, seeded_ids
from ..policies import Policies

T = TypeVar("T")

_WORDS: Final = {str: "a string", int: "a number", list: "a list", dict: "an object", bool: "true or false"}


def read_field(request: Mapping[str, Any], name: str, kind: type[T], default: T) -> T:
    """Return the value of a request field, or the default if the field is missing or null."""
    value = request.get(name)
    if value is None:
        return default
    if type(value) is not kind:
        raise UsageError(f"{name} must be {_WORDS[kind]}, got {type(value).__name__}")
    return value


@dataclass(frozen=True, slots=True)
class Setup:
    """A model output with the options for parsing it."""

    text: str
    dialect: Dialect
    tools: list[Any] | None
    """The tools of the request that led to the output; None if unknown."""
    policies: Policies | None
    prompt: str | None
    finish_reason: FinishReason | None

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Setup:
        """Return the setup in a request, whose field ``dialect`` is a name, or a declaration as JSON."""
        dialect = request.get("dialect")
        policies = read_field(request, "policies", dict, {})
        prompt = request.get("prompt")
        reason: Any = request.get("finish_reason")
        tools = request.get("tools")
        return cls(
            text=read_field(request, "text", str, ""),
            dialect=dialect_from_json(dialect) if isinstance(dialect, dict) else _named(dialect),
            tools=None if tools is None else read_field(request, "tools", list, []),
            policies=Policies.from_mapping(policies) if policies else None,
            prompt=None if prompt is None else read_field(request, "prompt", str, ""),
            finish_reason=reason,
        )

    def parser(self, tokenizer: Any = None) -> Parser:
        """Return a parser for this setup; it generates the same call ids in every run."""
        return Parser(
            self.dialect,
            tools=self.tools,
            prompt=self.prompt,
            tokenizer=tokenizer,
            policies=self.policies,
            new_id=seeded_ids("playground", self.dialect),
        )

    def with_tools(self, tools: list[Any]) -> Setup:
        """Return a copy of the setup that has these tools and the default policies."""
        return replace(self, tools=tools, policies=None)


def _named(name: object) -> Dialect:
    if not isinstance(name, str):
        raise UsageError("dialect is missing: pass the name of a dialect, or a declaration as JSON")
    return get_dialect(name)
