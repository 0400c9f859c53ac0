"""Encoder options for format details on which clients and servers differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from ..errors import UsageError, suggestion
from ..events import FinishReason
from ..policies import PRESETS

ReasoningField: TypeAlias = Literal["both", "reasoning_content", "reasoning"]
ForcedFinishReason: TypeAlias = Literal["tool_calls", "stop"]


@dataclass(frozen=True, slots=True)
class WireOptions:
    """Options of an encoder.

    The parameter ``options`` of the encoders accepts a ``WireOptions`` object, the name of a preset, or a
    mapping.  The presets have the same names as those of ``Policies``.

    >>> WireOptions.preset("vllm").reasoning_field
    'reasoning'
    """

    reasoning_field: ReasoningField = "both"
    """Name of the field for reasoning in Chat Completions; ``both`` writes two fields."""
    forced_finish_reason: ForcedFinishReason = "tool_calls"
    """Finish reason of a response with a tool call, if the request forced this call."""

    @staticmethod
    def preset(name: str, **changes: str) -> WireOptions:
        """Return the options of a preset; a preset follows an engine's behaviour as closely as possible."""
        return WireOptions.from_mapping({"preset": name, **changes})

    @staticmethod
    def from_mapping(choices: Mapping[str, str]) -> WireOptions:
        """Return options from a mapping of names to values; the key ``preset`` selects a preset."""
        changes: dict[str, Any] = dict(choices)
        preset = changes.pop("preset", None)
        if preset is not None and preset not in PRESETS:
            raise UsageError(f"preset={preset!r}: choose one of {', '.join(PRESETS)}")
        for name in changes:
            if name not in OPTION_VALUES:
                raise UsageError(f"there is no wire option {name!r}{suggestion(name, OPTION_VALUES)}")
        return WireOptions(**{**_PRESETS.get(preset, {}), **changes})

    def finish_reason(self, reason: FinishReason, *, forced: bool) -> FinishReason:
        """Return the finish reason to report.

        :param forced: whether the request forced a call.
        """
        return self.forced_finish_reason if forced and reason == "tool_calls" else reason

    def __post_init__(self) -> None:
        for name, allowed in OPTION_VALUES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(f"{name}={value!r}: choose one of {', '.join(allowed)}")


OPTION_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "reasoning_field": get_args(ReasoningField),
    "forced_finish_reason": get_args(ForcedFinishReason),
}
"""Allowed values of each option."""

_PRESETS: Final[Mapping[object, Mapping[str, str]]] = {
    "vllm": {"reasoning_field": "reasoning"},
    "sglang": {"reasoning_field": "reasoning_content"},
    "dynamo": {"reasoning_field": "reasoning_content"},
    "llamacpp": {"reasoning_field": "reasoning_content"},
    "ollama": {"reasoning_field": "reasoning"},
}
"""The options of each preset that differ from the defaults."""

WireChoice: TypeAlias = WireOptions | str | Mapping[str, str]
"""Options of an encoder, the name of a preset, or a mapping as for :meth:`WireOptions.from_mapping`."""


def as_options(choice: WireChoice | None) -> WireOptions:
    """Convert a caller's choice to ``WireOptions``; None selects the defaults."""
    if choice is None:
        return WireOptions()
    if isinstance(choice, WireOptions):
        return choice
    if isinstance(choice, str):
        return WireOptions.preset(choice)
    return WireOptions.from_mapping(choice)
