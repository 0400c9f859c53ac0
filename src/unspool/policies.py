"""Policies: named choices of behaviour on which users disagree.  They apply to every dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, Literal, get_args, get_type_hints

from .errors import UsageError


@dataclass(frozen=True, slots=True)
class Policies:
    """Choices of behaviour where there is no single right answer.

    >>> Policies(malformed_call="repair").malformed_call
    'repair'
    >>> Policies(malformed_call="ignore")
    Traceback (most recent call last):
    ...
    unspool.UsageError: malformed_call='ignore': choose one of text, repair, keep, drop, error
    """

    calls_in_reasoning: Literal["call", "text"] = "call"
    """A well-formed call inside reasoning: ``call`` reports the call, ``text`` leaves it in the reasoning."""
    unknown_tool: Literal["forward", "text"] = "forward"
    """A call to a tool that was not declared: ``forward`` reports the call, ``text`` leaves it as text."""
    malformed_call: Literal["text", "repair", "keep", "drop", "error"] = "text"
    """A call that is not well-formed: ``text`` puts its raw text back into the content; ``repair``
    repairs it if possible, and treats it as text otherwise; ``keep`` keeps it among the calls; ``drop``
    removes it; ``error`` raises ``MalformedOutput``."""
    truncated_call: Literal["drop", "text", "keep", "error"] = "drop"
    """A call that the end of the output cuts off: ``drop`` removes it, with a diagnostic; ``text``, ``keep``
    and ``error`` do the same as for a malformed call."""
    commit: Literal["name", "call"] = "name"
    """Time at which a call is reported: ``name`` reports it as soon as its name is known, so that its
    arguments are streamed; ``call`` reports it once it is complete and valid."""
    arguments: Literal["verbatim", "canonical"] = "verbatim"
    """Arguments in a message: ``verbatim`` keeps them as the model wrote them, if the dialect uses JSON;
    ``canonical`` parses and serialises them again."""
    after_calls: Literal["content", "drop"] = "content"
    """Text after the first call: ``content`` keeps it, ``drop`` removes it."""
    whitespace_around_calls: Literal["framing", "keep"] = "framing"
    """Whitespace between text and a call: ``framing`` removes it as part of the format, ``keep`` keeps it as
    part of the text.  Whitespace between two calls is always removed."""
    close_in_value: Literal["confirmed", "first"] = "confirmed"
    """A closing tag, after which the value of an argument may or may not continue: ``confirmed`` ends the
    value at this tag only if the next text can follow a value; ``first`` always ends the value at this
    tag."""
    no_tools: Literal["verbatim", "strip"] = "verbatim"
    """Calls in the output of a request without tools: ``verbatim`` leaves them in the text, ``strip`` removes
    them."""
    schemaless_value: Literal["string", "json"] = "string"
    """A value between tags for which there is no schema: ``string`` always makes it a string; ``json`` parses
    it if it is valid JSON, and otherwise makes it a string."""
    reasoning_field: Literal["both", "reasoning_content", "reasoning"] = "both"
    """Name of the field for reasoning in Chat Completions; ``both`` writes two fields."""
    forced_finish_reason: Literal["tool_calls", "stop"] = "tool_calls"
    """Finish reason of a response with a tool call, if the request forced this call."""
    call_ids: Literal["native", "generated"] = "native"
    """Ids of calls: ``native`` uses those that the model wrote, if usable; ``generated`` ignores them."""

    @staticmethod
    def preset(name: str, **changes: str) -> Policies:
        """Return the policies that come closest to the behaviour of another engine.

        The remaining differences are documented in "Coming from another engine".

        >>> Policies.preset("vllm").after_calls
        'drop'
        >>> Policies.preset("vllm", after_calls="content").after_calls
        'content'

        :param name: vllm, sglang, dynamo, llamacpp or ollama.
        :param changes: policies that differ from the preset.
        """
        return Policies.from_mapping({"preset": name, **changes})

    @staticmethod
    def from_mapping(choices: Mapping[str, str]) -> Policies:
        """Return policies from a mapping of names to values; the key ``preset`` selects a preset."""
        changes: dict[str, Any] = dict(choices)
        preset = changes.pop("preset", None)
        if preset is not None and preset not in _PRESETS:
            raise UsageError(f"preset={preset!r}: choose one of {', '.join(_PRESETS)}")
        unknown = sorted(changes.keys() - policy_choices())
        if unknown:
            names = ", ".join(sorted([*policy_choices(), "preset"]))
            raise UsageError(f"unknown policy {unknown[0]!r}: choose from {names}")
        return Policies(**{**_PRESETS.get(preset, {}), **changes})

    def for_broken(self, status: Literal["malformed", "truncated"]) -> str:
        """Return the policy for calls that end with this status."""
        return self.malformed_call if status == "malformed" else self.truncated_call

    def __post_init__(self) -> None:
        for name, allowed in policy_choices().items():
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(f"{name}={value!r}: choose one of {', '.join(allowed)}")


@cache
def policy_choices() -> dict[str, tuple[str, ...]]:
    """Return the allowed values of each policy, by the name of the policy."""
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
        "whitespace_around_calls": "keep",
        "calls_in_reasoning": "text",
        "reasoning_field": "reasoning_content",
        "unknown_tool": "text",
    },
    "dynamo": {
        "whitespace_around_calls": "keep",
        "calls_in_reasoning": "text",
        "commit": "call",
        "reasoning_field": "reasoning_content",
    },
    "llamacpp": {
        "reasoning_field": "reasoning_content",
        "truncated_call": "keep",
    },
    "ollama": {
        "commit": "call",
        "reasoning_field": "reasoning",
    },
}
"""Policies of each engine, where they differ from the defaults; ``lab/coming_from.py`` checks them."""

ENGINES: Final = tuple(_PRESETS)
"""Names of the presets."""

DEFAULTS = Policies()
"""Default policies."""
STRICT = Policies(malformed_call="error", truncated_call="error")
"""Policies that raise an error for malformed and truncated calls; ``strict=True`` selects them."""
