"""Conversion of deltas to vLLM's classes."""

from __future__ import annotations

from typing import Any

from .._deltas import Delta
from . import _compat as compat


def to_delta_message(delta: Delta) -> Any:
    """Convert a delta to vLLM's ``DeltaMessage``; return None if the delta is empty.

    Fields without a value are left unset, because vLLM sends only fields that are set.
    """
    if not delta:
        return None
    fields: dict[str, Any] = {}
    if delta.reasoning:
        fields["reasoning"] = delta.reasoning
    if delta.content:
        fields["content"] = delta.content
    if delta.calls:
        fields["tool_calls"] = [
            compat.DeltaToolCall(
                index=call.index, function=compat.DeltaFunctionCall(arguments=call.arguments)
            )
            if call.name is None
            else compat.DeltaToolCall(
                index=call.index,
                id=call.id,
                type="function",
                function=compat.DeltaFunctionCall(name=call.name, arguments=call.arguments),
            )
            for call in delta.calls
        ]
    return compat.DeltaMessage(**fields)
