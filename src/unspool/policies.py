"""Policies: choices of behaviour, which apply to every dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, Literal, Self, TypeAlias, get_args, get_type_hints

from .errors import UsageError, suggestion

__all__ = [
    "ENGINES",
    "PRESETS",
    "Policies",
    "PolicyChoice",
    "policy_choices",
]


@dataclass(frozen=True, slots=True)
class Policies:
    """Choices of behaviour where there is no single right answer.

    In all policies, ``text`` treats the affected part of the output as text, ``drop`` removes this part,
    ``call`` reports it as a call, and ``error`` raises ``MalformedOutput``.  Functions with the parameter
    ``policies`` accept a ``Policies`` object, the name of a preset, or a mapping such as
    ``{"preset": "vllm", "commit": "call"}``.

    >>> Policies(malformed_call="repair").malformed_call
    'repair'
    >>> Policies(malformed_call="ignore")
    Traceback (most recent call last):
    ...
    unspool.UsageError: malformed_call='ignore': choose one of text, repair, call, drop, error
    """

    calls_in_reasoning: Literal["call", "text"] = "call"
    """A well-formed call inside reasoning: ``call`` reports the call, ``text`` leaves it in the reasoning."""
    unknown_tool: Literal["call", "text", "drop", "error"] = "call"
    """A call to a tool that was not declared: ``call`` reports the call, with a diagnostic; ``text`` leaves
    the call as text; ``drop`` removes it, with a diagnostic; ``error`` raises ``MalformedOutput``."""
    malformed_call: Literal["text", "repair", "call", "drop", "error"] = "text"
    """A call that is not well-formed: ``text`` puts its raw text back into the content; ``repair``
    repairs it if possible, and treats it as text otherwise; ``call`` keeps it among the calls; ``drop``
    removes it; ``error`` raises ``MalformedOutput``."""
    truncated_call: Literal["text", "call", "drop", "error"] = "drop"
    """A call that is incomplete at the end of the output: ``drop`` removes it, with a diagnostic; ``text``,
    ``call`` and ``error`` do the same as for a malformed call."""
    schema_mismatch: Literal["call", "error"] = "call"
    """A complete call in which an argument has the wrong type or value for the declared tool, or is missing:
    ``call`` reports the call, with a diagnostic; ``error`` raises ``MalformedOutput``."""
    commit: Literal["name", "call"] = "name"
    """Time at which a call is reported: ``name`` reports it as soon as its name is known, and then streams
    its arguments; ``call`` reports it once it is complete and valid."""
    arguments: Literal["verbatim", "canonical"] = "verbatim"
    """Arguments in a message: ``verbatim`` keeps them as the model wrote them, if the dialect uses JSON;
    ``canonical`` parses and serialises them again."""
    after_calls: Literal["text", "drop"] = "text"
    """Text after the first call: ``text`` keeps it, ``drop`` removes it."""
    whitespace_around_calls: Literal["drop", "text"] = "drop"
    """Whitespace between text and a call: ``drop`` removes it as part of the format, ``text`` keeps it as
    part of the text.  Whitespace between two calls is always removed."""
    close_in_value: Literal["confirmed", "first"] = "confirmed"
    """End of a value between tags, if the value contains the text of its closing tag: ``confirmed`` ends the
    value at a closing tag only if the text after the tag can follow a value; ``first`` ends the value at the
    first closing tag."""
    no_tools: Literal["text", "drop"] = "text"
    """Calls in the output of a request without tools: ``text`` leaves them in the text, ``drop`` removes
    them."""
    schemaless_value: Literal["string", "json"] = "string"
    """A value between tags for which there is no schema: ``string`` always makes it a string; ``json`` parses
    it if it is valid JSON, and otherwise makes it a string."""
    bare_calls: Literal["off", "alone", "declared"] = "off"
    """A call of a declared tool that is a JSON object without the dialect's markers, perhaps in a code fence:
    ``off`` treats it as text; ``alone`` accepts it at the beginning of the answer; ``declared`` accepts it at
    the beginning of any line.  Such a call is reported with a diagnostic."""
    call_ids: Literal["native", "generated"] = "native"
    """Ids of calls: ``native`` uses those that the model wrote, if usable; ``generated`` ignores them."""

    def __new__(cls, *values: object, **choices: object) -> Self:
        # Check names here, because the TypeError of the generated `__init__` would not suggest a name.
        if values and values[0] in PRESETS:
            raise UsageError(f"{values[0]!r} is the name of a preset: use Policies.preset({values[0]!r})")
        for name, value in choices.items():
            if name not in policy_choices():
                raise UsageError(_unknown(name, value))
        return object.__new__(cls)

    @staticmethod
    def preset(name: str, **changes: str) -> Policies:
        """Return the policies of a preset.

        ``strict`` raises an error for broken calls, for undeclared tools, and for arguments that do not fit
        their schema.  Each other preset imitates an engine.  The page "Coming from another engine" lists the
        differences that remain.

        >>> Policies.preset("vllm").after_calls
        'drop'
        >>> Policies.preset("vllm", after_calls="text").after_calls
        'text'

        :param name: strict, vllm, sglang, dynamo, llamacpp or ollama.
        :param changes: policies that differ from the preset.
        """
        return Policies.from_mapping({"preset": name, **changes})

    @staticmethod
    def from_mapping(choices: Mapping[str, str]) -> Policies:
        """Return policies from a mapping of names to values; the key ``preset`` selects a preset."""
        changes: dict[str, Any] = dict(choices)
        preset = changes.pop("preset", None)
        return Policies(**{**({} if preset is None else preset_choices(preset)), **changes})

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
    """Return a map from the name of each policy to its allowed values."""
    hints = get_type_hints(Policies)
    return {field.name: get_args(hints[field.name]) for field in fields(Policies)}


_PRESETS: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {
        "after_calls": "drop",
        "whitespace_around_calls": "text",
        "malformed_call": "call",
        "truncated_call": "call",
    },
    "sglang": {
        "whitespace_around_calls": "text",
        "calls_in_reasoning": "text",
        "unknown_tool": "text",
    },
    "dynamo": {
        "whitespace_around_calls": "text",
        "calls_in_reasoning": "text",
        "commit": "call",
    },
    "llamacpp": {"truncated_call": "call"},
    "ollama": {"commit": "call"},
    "strict": {
        "malformed_call": "error",
        "truncated_call": "error",
        "unknown_tool": "error",
        "schema_mismatch": "error",
    },
}
"""Map from each preset to its policies that differ from the defaults; ``lab/coming_from.py`` checks them."""

PRESETS: Final = tuple(_PRESETS)
"""Names of the presets: the engines and ``strict``."""
ENGINES: Final = tuple(name for name in PRESETS if name != "strict")
"""Names of the presets that imitate an engine."""

DEFAULTS = Policies()
"""Default policies."""

PolicyChoice: TypeAlias = Policies | str | Mapping[str, str]
"""Policies, the name of a preset, or a mapping as for :meth:`Policies.from_mapping`."""


def as_policies(choice: PolicyChoice | None) -> Policies:
    """Return the policies that a caller has chosen; None selects the defaults."""
    if choice is None:
        return DEFAULTS
    if isinstance(choice, Policies):
        return choice
    if isinstance(choice, str):
        return Policies.preset(choice)
    if isinstance(choice, Mapping):
        return Policies.from_mapping(choice)
    raise UsageError(
        f"policies must be a Policies object, the name of a preset or a mapping, not {type(choice).__name__}"
    )


def policies_from_text(text: str) -> Policies:
    """Read policies as on the command line: a preset, ``name=value`` pairs, or both, separated by commas.

    >>> policies_from_text("vllm,commit=call") == Policies.preset("vllm", commit="call")
    True
    """
    return Policies.from_mapping(choices_from_text(text))


def choices_from_text(text: str) -> dict[str, str]:
    """Return the choices in a text as a mapping for :meth:`Policies.from_mapping`, without checking them.

    >>> choices_from_text("vllm, commit=call")
    {'preset': 'vllm', 'commit': 'call'}
    """
    choices: dict[str, str] = {}
    for word in filter(None, map(str.strip, text.split(","))):
        name, equals, value = word.partition("=")
        choices |= {name.strip(): value.strip()} if equals else {"preset": name}
    return choices


def preset_choices(name: str) -> Mapping[str, str]:
    """Return the policies of a preset that differ from the defaults."""
    if name not in _PRESETS:
        raise UsageError(f"preset={name!r}: choose one of {', '.join(_PRESETS)}")
    return _PRESETS[name]


def _unknown(name: str, value: object) -> str:
    if name in ("reasoning_field", "forced_finish_reason"):
        return f"{name}={value} is not a policy of parsers, but an option of the encoders in unspool.wire"
    names = policy_choices()
    similar = suggestion(name, names)
    return f"there is no policy {name!r}{similar or ': choose from ' + ', '.join(sorted(names))}"
