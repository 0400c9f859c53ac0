"""Bodies of error responses, in the format of each API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...wire import error_chunk, error_event, ollama_error
from ..http.failure import Failure, Kind

_OPENAI_TYPES: Final[Mapping[Kind, str]] = {
    "invalid_request": "invalid_request_error",
    "authentication": "authentication_error",
    "not_found": "invalid_request_error",
    "too_large": "invalid_request_error",
    "rate_limit": "rate_limit_error",
    "overloaded": "server_error",
    "timeout": "server_error",
    "upstream": "server_error",
    "internal": "server_error",
}
"""OpenAI's ``error.type`` for each kind of failure."""

_ANTHROPIC_TYPES: Final[Mapping[Kind, str]] = {
    "invalid_request": "invalid_request_error",
    "authentication": "authentication_error",
    "not_found": "not_found_error",
    "too_large": "request_too_large",
    "rate_limit": "rate_limit_error",
    "overloaded": "overloaded_error",
    "timeout": "timeout_error",
    "upstream": "api_error",
    "internal": "api_error",
}
"""Anthropic's ``error.type`` for each kind of failure."""


def openai_error(failure: Failure, request_id: str | None = None) -> dict[str, Any]:  # noqa: ARG001 - the id is sent in a header
    """Return an error body in the format of OpenAI's APIs."""
    return error_chunk(
        failure.message, kind=_OPENAI_TYPES[failure.kind], param=failure.param, code=failure.code
    )


def anthropic_error(failure: Failure, request_id: str | None = None) -> dict[str, Any]:
    """Return an error body in the format of Anthropic's Messages API."""
    body = error_event(failure.message, kind=_ANTHROPIC_TYPES[failure.kind], details=failure.details)
    return body if request_id is None else {**body, "request_id": request_id}


def ollama_api_error(failure: Failure, request_id: str | None = None) -> dict[str, Any]:  # noqa: ARG001 - the id is sent in a header
    """Return an error body in the format of Ollama's API."""
    return ollama_error(failure.message)
