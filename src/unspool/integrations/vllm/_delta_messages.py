"""Conversion of deltas to vLLM's classes, and a patch for broken calls in the Messages API."""

from __future__ import annotations

from functools import wraps
from http import HTTPStatus
from typing import Any

from ...wire import (
    is_poisoned,
    is_poisoned_as_malformed,
    remove_poison,
    unsendable_call,
)
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


def patch_messages_server() -> None:
    """Patch vLLM's Messages server to handle broken calls in answers that are not streamed.

    In the Messages API, the input of a call is an object.  So the server decodes all arguments as JSON, and
    fails if the call is malformed or truncated.  With the patch, the server leaves out a truncated call and
    sends the stop reason ``max_tokens``.  A malformed call results in an error response.
    """
    serving = compat.anthropic_serving()
    convert = getattr(serving, "messages_full_converter", None)
    if convert is None or getattr(convert, "by_unspool", False):
        return

    @wraps(convert)
    def converted(self: Any, generator: Any, *args: Any, **kwargs: Any) -> Any:
        for choice in generator.choices:
            calls = choice.message.tool_calls or []
            for call in calls:
                if is_poisoned_as_malformed(call.function.arguments):
                    error = unsendable_call(call.function.name, remove_poison(call.function.arguments))
                    return self.create_error_response(
                        str(error),
                        err_type="InternalServerError",
                        status_code=HTTPStatus.INTERNAL_SERVER_ERROR,
                    )
            choice.message.tool_calls = [call for call in calls if not is_poisoned(call.function.arguments)]
        return convert(self, generator, *args, **kwargs)

    converted.by_unspool = True  # type: ignore[attr-defined]
    serving.messages_full_converter = converted
