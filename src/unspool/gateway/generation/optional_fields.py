"""Switches that clients send to every model, and a model that has no ear for some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...planning._thinking import near_efforts
from ..generation.request import GenerationRequest
from ..http.errors import Failure
from .model import Prepared

Prepare = Callable[[Mapping[str, Any]], Prepared]


def prepare_with_optional_fields(prepare: Prepare, job: GenerationRequest) -> tuple[Prepared, list[str]]:
    """The request with as many of its switches as the model heeds, and why the others are left out."""
    request = {key: value for key, value in job.request.items() if key not in job.soft}
    prepared: Prepared | None = None
    ignored: list[str] = []
    for key in job.soft:
        if key not in job.request:
            continue
        wanted = job.request[key]
        reason = ""
        # An effort that the family does not know is nearly one that it knows.
        for value in (wanted, *(near_efforts(wanted) if key == "reasoning_effort" else ())):
            try:
                prepared = prepare({**request, key: value})
            except Failure as failure:
                if failure.kind != "invalid_request":
                    raise
                reason = reason or failure.message
                continue
            request[key] = value
            break
        if reason:
            ignored.append(f"{reason} (taken as {request[key]})" if key in request else reason)
    return prepared or prepare(request), ignored
