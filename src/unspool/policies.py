"""Policies: named choices where users disagree, the same for every dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, Literal, get_args, get_type_hints

from .errors import UsageError


@dataclass(frozen=True, slots=True)
class Policies:
    """Choices where there is no single right answer.

    >>> Policies(malformed_call="repair").malformed_call
    'repair'
    >>> Policies(malformed_call="ignore")
    Traceback (most recent call last):
    ...
    unspool.UsageError: malformed_call='ignore': choose one of text, repair, keep, drop, error
    """

    calls_in_reasoning: Literal["call", "text"] = "call"
    """A well-formed call inside reasoning: ``call`` reports it, ``text`` leaves it in the reasoning."""
    unknown_tool: Literal["forward", "text"] = "forward"
    """A call to a tool that was not declared: ``forward`` reports it, ``text`` leaves it as text."""
    malformed_call: Literal["text", "repair", "keep", "drop", "error"] = "text"
    """A call that is not well-formed: ``text`` puts its raw text back into the content; ``repair``
    repairs it if possible, and treats it as text otherwise; ``keep`` keeps it among the calls; ``drop``
    removes it; ``error`` raises ``MalformedOutput``."""
    truncated_call: Literal["drop", "text", "keep", "error"] = "drop"
    """A call that the output ended in: ``drop`` mentions it in ``diagnostics`` only; ``text``, ``keep`` and
    ``error`` are as for a malformed call."""
    commit: Literal["name", "call"] = "name"
    """When to report a call: ``name`` as soon as its name is known, so that arguments stream; ``call`` only
    once it is complete and valid."""
    arguments: Literal["verbatim", "canonical"] = "verbatim"
    """Arguments of a message: ``verbatim`` as the model wrote them, if the dialect uses JSON; ``canonical``
    serialised again."""
    after_calls: Literal["content", "drop"] = "content"
    """Text after the first call: ``content`` keeps it, ``drop`` removes it."""
    whitespace_around_calls: Literal["framing", "keep"] = "framing"
    """Whitespace between text and a call: ``framing`` removes it as part of the format, ``keep`` keeps it as
    part of the text.  Whitespace between two calls is always framing."""
    close_in_value: Literal["confirmed", "first"] = "confirmed"
    """A closing tag inside a value between tags: ``confirmed`` lets it count only if something follows that
    may follow a value; ``first`` always lets it count."""
    no_tools: Literal["verbatim", "strip"] = "verbatim"
    """Calls although the request offered no tools: ``verbatim`` leaves the text, ``strip`` removes it."""
    schemaless_value: Literal["string", "json"] = "string"
    """A value between tags without a schema: ``string`` always makes it a string, ``json`` reads it as JSON
    if it is JSON."""
    reasoning_field: Literal["both", "reasoning_content", "reasoning"] = "both"
    """Names of the reasoning field in Chat Completions."""
    forced_finish_reason: Literal["tool_calls", "stop"] = "tool_calls"
    """Finish reason of a response with a call that the request forced."""
    call_ids: Literal["native", "generated"] = "native"
    """Ids of calls: ``native`` uses those that the model wrote, if they are usable; ``generated`` never."""

    @staticmethod
    def preset(name: str, **changes: str) -> Policies:
        """Return the policies that come closest to what another engine does, with changes of your own.

        The remaining differences are documented in "Coming from another engine".

        >>> Policies.preset("vllm").after_calls
        'drop'
        >>> Policies.preset("vllm", after_calls="content").after_calls
        'content'

        :param name: vllm, sglang, dynamo, llamacpp or ollama.
        """
        return Policies.from_mapping({"preset": name, **changes})

    @staticmethod
    def from_mapping(choices: Mapping[str, str]) -> Policies:
        """Return policies from a mapping, such as a setting; the key ``preset`` names a set to start from."""
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
        """Return the policy for calls that end malformed or truncated."""
        return self.malformed_call if status == "malformed" else self.truncated_call

    def __post_init__(self) -> None:
        for name, allowed in policy_choices().items():
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(f"{name}={value!r}: choose one of {', '.join(allowed)}")


@cache
def policy_choices() -> dict[str, tuple[str, ...]]:
    """Return the values that each policy allows."""
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
"""Policies of other engines that differ from our defaults; ``tools/coming_from.py`` checks them."""

ENGINES: Final = tuple(_PRESETS)
"""Names of the presets."""

DEFAULTS = Policies()
"""Default policies."""
STRICT = Policies(malformed_call="error", truncated_call="error")
"""Policies that raise on malformed and truncated calls; ``strict=True`` is short for them."""
