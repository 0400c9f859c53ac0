"""Reasoning options that clients send to every model, even to models that do not support them.

In some APIs, clients send reasoning options without knowing what the model supports.  Such options are listed
in ``GenerationRequest.optional_fields``.  If the model does not support the requested effort, the
gateway chooses the nearest supported effort.  Other unsupported options are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...planning.reasoning_options import near_efforts
from ..http.failure import Failure
from .prepare_request import PreparedRequest
from .request import GenerationRequest

PrepareRequest = Callable[[Mapping[str, Any]], PreparedRequest]


def prepare_with_reasoning_options(
    prepare: PrepareRequest, request: GenerationRequest
) -> tuple[PreparedRequest, list[str]]:
    """Prepare a request with only those optional fields that the model supports.

    Planning fails on a field that the model does not support, so the fields are added one by one.

    :returns: the prepared request, and a log entry for each ignored field.
    """
    chat = {key: value for key, value in request.chat.items() if key not in request.optional_fields}
    prepared: PreparedRequest | None = None
    ignored: list[str] = []
    for key in request.optional_fields:
        if key not in request.chat:
            continue
        value = request.chat[key]
        reason = ""
        # If the model does not support this effort, use the nearest one that it supports.
        for candidate in (value, *(near_efforts(value) if key == "reasoning_effort" else ())):
            try:
                prepared = prepare({**chat, key: candidate})
            except Failure as failure:
                if failure.kind != "invalid_request":
                    raise
                reason = reason or failure.message
                continue
            chat[key] = candidate
            break
        if reason:
            ignored.append(f"{reason} (replaced by {chat[key]})" if key in chat else reason)
    return prepared or prepare(chat), ignored
