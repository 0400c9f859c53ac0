"""Size limits for generation requests, checked after an API has converted the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec

import msgspec

from ..conversation.broken_calls_in_history import list_arguments
from ..http.exchange import Exchange
from ..http.failure import Failure
from ..http.json_limits import Bounds
from ..http.request_body import BodyReader
from .request import GenerationRequest

Params = ParamSpec("Params")

MAX_WRITTEN: Final = 1 << 22
"""Maximum size of each of these parts: a call's arguments (in characters), all tools together (in bytes of
JSON) and the JSON schema (in bytes).

The gateway processes these parts of a request several times, and no model accepts larger prompts.
"""
MAX_LOGGED_FIELDS: Final = 20
"""Maximum number of ignored fields that are logged per request."""


async def convert_within_limits(
    bodies: BodyReader,
    exchange: Exchange,
    convert: Callable[Params, GenerationRequest],
    *args: Params.args,
    **kwargs: Params.kwargs,
) -> GenerationRequest:
    """Convert a request body, in a thread if it is large, and check the result against the limits.

    :param convert: conversion function of the API.
    """

    def convert_and_check() -> GenerationRequest:
        request = convert(*args, **kwargs)
        _check(exchange, request, bodies.max_values)
        return request

    return await bodies.run(exchange, convert_and_check)


def _check(exchange: Exchange, request: GenerationRequest, max_values: int) -> None:
    arguments = list_arguments(request.chat["messages"])
    if exchange.size > MAX_WRITTEN:
        _check_size("arguments of a call", max(map(len, arguments), default=0))
        _check_size("tools", len(msgspec.json.encode(request.chat.get("tools"))))
        _check_size("JSON schema", len(msgspec.json.encode(request.schema)))
    # A call's arguments are JSON inside a string, so counting the body's values leaves out their values.
    if arguments:
        Bounds(max_values).check_texts(arguments)
    # The event loop writes these log entries, so there must not be many of them.
    request.ignored = list(dict.fromkeys(request.ignored))[:MAX_LOGGED_FIELDS]


def _check_size(name: str, size: int) -> None:
    if size > MAX_WRITTEN:
        message = f"{name}: more than {MAX_WRITTEN} characters; send less"
        raise Failure("too_large", message, code="request_too_large")
