"""Optional fields: thinking options that clients send to every model, whether it supports them or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...planning._thinking import near_efforts
from ..apis.chat.request import Job
from ..http.errors import Failure
from .model import Prepared

PrepareRequest = Callable[[Mapping[str, Any]], Prepared]


def prepare_without_unsupported(prepare: PrepareRequest, job: Job) -> tuple[Prepared, list[str]]:
    """Prepare a request with those optional fields that the model supports.

    :returns: the prepared request, and a log entry for each ignored field.
    """
    request = {key: value for key, value in job.request.items() if key not in job.optional_fields}
    prepared: Prepared | None = None
    ignored: list[str] = []
    for key in job.optional_fields:
        if key not in job.request:
            continue
        value = job.request[key]
        reason = ""
        # If the model does not know an effort, the nearest one it knows is better than none.
        for candidate in (value, *(near_efforts(value) if key == "reasoning_effort" else ())):
            try:
                prepared = prepare({**request, key: candidate})
            except Failure as failure:
                if failure.kind != "invalid_request":
                    raise
                reason = reason or failure.message
                continue
            request[key] = candidate
            break
        if reason:
            ignored.append(f"{reason} (replaced by {request[key]})" if key in request else reason)
    return prepared or prepare(request), ignored
