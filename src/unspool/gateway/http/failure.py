"""Failures of requests, independent of the API that reports them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from ..telemetry.logs import clip

Kind: TypeAlias = Literal[
    "invalid_request",
    "authentication",
    "not_found",
    "too_large",
    "rate_limit",
    "overloaded",
    "timeout",
    "upstream",
    "internal",
]

STATUS: Final[dict[Kind, int]] = {
    "invalid_request": 400,
    "authentication": 401,
    "not_found": 404,
    "too_large": 413,
    "rate_limit": 429,
    "overloaded": 503,
    "timeout": 504,
    "upstream": 502,
    "internal": 500,
}
"""HTTP status for each kind of failure, if the response has not started."""


class Failure(Exception):
    """A request that gets an error instead of an answer, or in the middle of one."""

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        status: int | None = None,
        details: Mapping[str, object] | None = None,
        retry_after: str = "",
        detail: str = "",
    ) -> None:
        message = clip(message)
        super().__init__(message)
        self.kind: Kind = kind
        """The sort of failure, from which each API derives its error type."""
        self.message = message
        """The message for people."""
        self.param = param
        """The path of the wrong field in the request: ``messages[0].role``."""
        self.code = code or kind
        """The code for programs."""
        self.status = status or STATUS[kind]
        """The HTTP status, if the response has not started."""
        self.details = details
        """Further fields of the error, for clients that know the vendor's own codes (Messages)."""
        self.retry_after = retry_after
        """The value of the ``Retry-After`` header."""
        self.detail = detail
        """Text for the log alone, such as addresses and an upstream's whole message."""


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> Failure:
    """Return the failure of a request that is not valid."""
    return Failure("invalid_request", message, param=param, code=code)
