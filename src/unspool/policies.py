"""Policies: a named choice wherever users disagree, the same for every dialect and mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, Literal, get_args, get_type_hints

from .errors import UsageError


@dataclass(frozen=True, slots=True)
class Policies:
    """What to do where there is no single right answer.

    >>> Policies(malformed_call="repair").malformed_call
    'repair'
    >>> Policies(malformed_call="ignore")
    Traceback (most recent call last):
    ...
    unspool.UsageError: malformed_call='ignore': choose one of text, repair, keep, drop, error
    """

    calls_in_reasoning: Literal["call", "text"] = "call"
    """A well-formed call inside reasoning is a call, or stays reasoning text."""
    unknown_tool: Literal["forward", "text"] = "forward"
    """A call to a tool that the request did not declare."""
    malformed_call: Literal["text", "repair", "keep", "drop", "error"] = "text"
    """A call that closed but is not well-formed: its raw text goes back to
    content; repair what can be repaired (the rest is text); keep it among the
    calls; drop it; raise ``MalformedOutput``."""
    truncated_call: Literal["drop", "text", "keep", "error"] = "drop"
    """A call the input ended in: only in ``diagnostics``; raw text in content;
    kept among the calls; raise."""
    commit: Literal["name", "call"] = "name"
    """Announce a call when its name is known, so that arguments stream, or
    only when it is complete and valid."""
    arguments: Literal["verbatim", "canonical"] = "verbatim"
    """Arguments as the model wrote them, if the dialect carries JSON, or
    re-serialised (in the folded message)."""
    after_calls: Literal["dialect", "content", "drop"] = "dialect"
    """Text after the first call: as the dialect's models need it, kept, or dropped."""
    whitespace_around_calls: Literal["framing", "keep"] = "framing"
    """White space between text and a call: of the format, or of the text.  On its own,
    between two calls say, it is always framing."""
    close_in_value: Literal["confirmed", "first"] = "confirmed"
    """A closing tag inside a tagged value counts only where what may follow it
    does follow, or always."""
    no_tools: Literal["verbatim", "strip"] = "verbatim"
    """Calls although the request offered no tools: plain text, or removed."""
    schemaless_value: Literal["string", "json"] = "string"
    """A tagged value without a schema: always a string, or JSON if it is JSON."""
    reasoning_field: Literal["both", "reasoning_content", "reasoning"] = "both"
    """Name of the reasoning field on the wire."""
    forced_finish_reason: Literal["tool_calls", "stop"] = "tool_calls"
    """Finish reason of a call that the request forced."""
    call_ids: Literal["native", "generated"] = "native"
    """Use the model's own call ids where it gives usable ones, or never."""

    @staticmethod
    def preset(name: str, **changes: str) -> Policies:
        """The policies that come closest to what another engine does, with changes of your own.

        The page on coming from another engine says where that is not the same.

        >>> Policies.preset("vllm").after_calls
        'drop'
        >>> Policies.preset("vllm", after_calls="content").after_calls
        'content'

        :param name: vllm, sglang, dynamo, llamacpp or ollama.
        """
        return Policies.from_mapping({"preset": name, **changes})

    @staticmethod
    def from_mapping(choices: Mapping[str, str]) -> Policies:
        """Policies by name, as settings and requests have them; ``preset`` names a set to begin with."""
        given: dict[str, Any] = dict(choices)
        preset = given.pop("preset", None)
        if preset is not None and preset not in _PRESETS:
            raise UsageError(f"preset={preset!r}: choose one of {', '.join(_PRESETS)}")
        unknown = sorted(given.keys() - policy_choices())
        if unknown:
            known = ", ".join(sorted([*policy_choices(), "preset"]))
            raise UsageError(f"policies has no {unknown[0]!r}: choose from {known}")
        return Policies(**{**_PRESETS.get(preset, {}), **given})

    def for_broken(self, status: Literal["malformed", "truncated"]) -> str:
        """What becomes of a call that ended like this."""
        return self.malformed_call if status == "malformed" else self.truncated_call

    def __post_init__(self) -> None:
        for name, allowed in policy_choices().items():
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(f"{name}={value!r}: choose one of {', '.join(allowed)}")


@cache
def policy_choices() -> dict[str, tuple[str, ...]]:
    """The values that each policy allows."""
    hints = get_type_hints(Policies)
    return {field.name: get_args(hints[field.name]) for field in fields(Policies)}


_PRESETS: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {
        "after_calls": "drop",
        "whitespace_around_calls": "keep",
        "malformed_call": "keep",
        "reasoning_field": "reasoning",
        "truncated_call": "keep",
    },
    "sglang": {
        "after_calls": "content",
        "whitespace_around_calls": "keep",
        "calls_in_reasoning": "text",
        "reasoning_field": "reasoning_content",
        "unknown_tool": "text",
    },
    "dynamo": {
        "after_calls": "content",
        "whitespace_around_calls": "keep",
        "calls_in_reasoning": "text",
        "commit": "call",
        "reasoning_field": "reasoning_content",
    },
    "llamacpp": {
        "after_calls": "content",
        "reasoning_field": "reasoning_content",
        "truncated_call": "keep",
    },
    "ollama": {
        "commit": "call",
        "reasoning_field": "reasoning",
    },
}
"""What engines do most often, as far as our defaults differ; ``tools/coming_from.py`` asks those it can."""

ENGINES: Final = tuple(_PRESETS)
"""Those that ``like`` knows."""

DEFAULTS = Policies()
"""The policies where nothing is said."""
STRICT = Policies(malformed_call="error", truncated_call="error")
"""The set that fails loudly; ``strict=True`` is short for it."""
