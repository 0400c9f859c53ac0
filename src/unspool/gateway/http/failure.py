"""Failures of requests, independent of the API that reports them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
"""Default HTTP status for each kind of failure."""


class Failure(Exception):
    """Failure of a request, reported to the client as an error response or at the end of a stream."""

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
        is_final: bool = False,
        detail: str = "",
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        message = clip(message)
        super().__init__(message)
        self.kind: Kind = kind
        """Kind of failure, which each API converts to one of its own error types."""
        self.message = message
        """Human-readable error message."""
        self.param = param
        """Path of the invalid field in the request, such as ``messages[0].role``."""
        self.code = code or kind
        """Machine-readable error code."""
        self.status = status or STATUS[kind]
        """HTTP status; it is not sent if the response has already started."""
        self.details = details
        """Additional fields of an error in the Messages API, for clients that read vendor-specific codes."""
        self.retry_after = retry_after
        """Value of the ``Retry-After`` header; empty for no header."""
        self.is_final = is_final
        """True if clients should not repeat the request, although the status suggests that they can."""
        self.detail = detail
        """Information for the log only, such as addresses and the upstream's complete message."""
        self.headers = tuple(headers)
        """Additional headers of the error response."""


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> Failure:
    """Return a failure for an invalid request."""
    return Failure("invalid_request", message, param=param, code=code)
