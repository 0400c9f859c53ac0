"""Size limits of generation requests, checked after an API has converted the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec

import msgspec

from ..conversation.history_repair import list_arguments
from ..http.exchange import Exchange
from ..http.failure import Failure
from ..http.json_limits import Bounds
from ..http.request_body import BodyReader
from .request import GenerationRequest

Params = ParamSpec("Params")

MAX_WRITTEN: Final = 1 << 22
"""Maximum size of the arguments of one call, of all tools, or of the schema, in characters or bytes.

The gateway processes each of them several times, and no model accepts prompts of this size.
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
    """Convert a body with a function of its API, in a thread if it is large; refuse it over a limit."""

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
    # Arguments are JSON in a string, so the limit on values of the body has not covered them.
    if arguments:
        Bounds(max_values).check_texts(arguments)
    # Logging happens on the event loop, so the list must be short.
    request.ignored = list(dict.fromkeys(request.ignored))[:MAX_LOGGED_FIELDS]


def _check_size(name: str, size: int) -> None:
    if size > MAX_WRITTEN:
        message = f"{name}: more than {MAX_WRITTEN} characters; send less"
        raise Failure("too_large", message, code="request_too_large")
