"""What can go wrong with a request, once, in words that every API can spell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

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
"""The status of an answer that has not begun."""

LONGEST: Final = 4000
"""Characters of a message: a name that somebody sent may be longer than anybody wants to be told."""


class Failure(Exception):
    """A request that cannot be answered, or not to the end."""

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
        message = clipped(message)
        super().__init__(message)
        self.kind: Kind = kind
        """Whose fault it is, and of what sort."""
        self.message = message
        """For the reader of the client's log."""
        self.param = param
        """The field of the request that is wrong, as a path: ``messages[0].role``."""
        self.code = code or kind
        """For programs."""
        self.status = status or STATUS[kind]
        """The HTTP status, if the answer has not begun."""
        self.details = details
        """For programs that know the vendor's own codes (Messages)."""
        self.retry_after = retry_after
        """When to try again, as the header has it."""
        self.detail = detail
        """For the log alone: addresses, and what an upstream said in full."""


def clipped(text: str, longest: int = LONGEST) -> str:
    """A text, or its beginning and how much there is of it."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> Failure:
    """A bad request."""
    return Failure("invalid_request", message, param=param, code=code)
