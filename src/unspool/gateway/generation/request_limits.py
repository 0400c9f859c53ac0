"""Limits of what a request brings into its prompt, checked after its API has converted it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec

import msgspec

from ..conversation.history_repair import arguments_of
from ..http.errors import Failure
from ..http.exchange import Exchange
from ..http.json_decoding import Bounds
from ..http.request_body import BodyReader
from .request import GenerationRequest

Params = ParamSpec("Params")

MAX_WRITTEN: Final = 1 << 22
"""Characters of one call's arguments, and bytes of all tools or of a schema, at most.

Each is written and read several times on the way to a prompt, and no model accepts as much.
"""
MAX_LOGGED_FIELDS: Final = 20
"""Ignored fields of a request that the log names, at most."""


async def convert_within_limits(
    bodies: BodyReader,
    exchange: Exchange,
    convert: Callable[Params, GenerationRequest],
    *args: Params.args,
    **kwargs: Params.kwargs,
) -> GenerationRequest:
    """Convert a body with an API's function, in a thread if it is large; refuse what exceeds a limit."""

    def convert_and_check() -> GenerationRequest:
        request = convert(*args, **kwargs)
        _check(exchange, request, bodies.max_values)
        return request

    return await bodies.run(exchange, convert_and_check)


def _check(exchange: Exchange, request: GenerationRequest, max_values: int) -> None:
    arguments = arguments_of(request.request["messages"])
    if exchange.size > MAX_WRITTEN:
        _check_size("arguments of a call", max(map(len, arguments), default=0))
        _check_size("tools", len(msgspec.json.encode(request.request.get("tools"))))
        _check_size("schema of the answer", len(msgspec.json.encode(request.schema)))
    # Arguments are JSON in a string, so the count of the body's values has not seen into them.
    if arguments:
        Bounds(max_values).check_texts(arguments)
    # These are logged on the event loop.
    request.left_out = list(dict.fromkeys(request.left_out))[:MAX_LOGGED_FIELDS]


def _check_size(name: str, size: int) -> None:
    if size > MAX_WRITTEN:
        message = f"the {name}: more than {MAX_WRITTEN} characters"
        raise Failure("too_large", message, code="request_too_large")
