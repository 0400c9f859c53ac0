"""Failures of upstreams, in a form that clients may see.

An error message explains to the client why the request failed, but does not reveal where the upstream
runs.  Addresses, host names and file paths appear only in the log (:attr:`Failure.detail
<unspool.gateway.http.failure.Failure.detail>`).  API keys do not appear anywhere.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote

import aiohttp

from ...errors import ProtocolError
from ..http.failure import Failure, Kind

_MAX_SHOWN: Final = 500
"""Maximum number of characters of an upstream's error message to send to clients."""
_MAX_READ: Final = 4 * _MAX_SHOWN
"""Maximum number of characters of an upstream's error message to process."""
_LOCATIONS: Final = re.compile(
    r"""
    \b [a-zA-Z][a-zA-Z0-9+.-]{1,20} :// [^\s"'<>)\]}]+      # URLs
  | \b (?: \d{1,3} \. ){3} \d{1,3} (?: : \d+ )? \b          # IP addresses
  | \[ [0-9a-fA-F]* : [0-9a-fA-F:.]+ \] (?: : \d+ )?
  | \b (?: localhost | [\w-]+ (?: \. [\w-]+ )+ ) : \d{2,5} \b   # host names with a port
  | (?<! [\w/.#$<] ) (?! /(?: v\d | api | properties | items | \$defs | definitions )\b )
    (?: ~ | \b[A-Za-z]: )? (?: [/\\] [\w.@+~-]+ ){2,} [/\\]?    # file paths
  | (?i: \b bearer \s+ ) \S+                                    # API keys
  | \b sk-[\w*-]+
    """,
    re.VERBOSE,
)


_PLACEHOLDER: Final = "..."
_keys: Final[set[str]] = set()
"""API keys of all upstreams, in every encoding that an error message may use."""


def hide_key(key: str) -> None:
    """Register an API key that must not appear in any error message or log line about an upstream."""
    if key:
        in_json = json.dumps(key)[1:-1]
        _keys.update((key, in_json, in_json.replace("/", "\\/"), quote(key), quote(key, safe="")))


def redact_keys(text: str) -> str:
    """Return text with all registered API keys replaced."""
    for key in sorted(_keys, key=len, reverse=True):  # a short key may be the start of a long one
        text = text.replace(key, _PLACEHOLDER)
    return text


def redact(text: str) -> str:
    """Replace locations and keys in text, shorten the text, and return it on one line.

    >>> redact("no model at /models/a.gguf on http://10.0.0.1:8000/v1")
    'no model at ... on ...'
    """
    text = " ".join(redact_keys(text)[:_MAX_READ].split())
    return _LOCATIONS.sub(_PLACEHOLDER, text)[:_MAX_SHOWN]


def _detail(text: str) -> str:
    """Replace keys in text, shorten the text, and return it for the log."""
    return redact_keys(text)[:_MAX_READ]


def status_failure(status: int, body: str, *, reason: str, retry_after: str) -> Failure:
    """Return the failure for a response with an error status.

    :param body: the response's body, possibly truncated.
    :param reason: the response's reason phrase.
    :param retry_after: the response's ``Retry-After`` header.
    """
    shown = redact(body) or redact(reason) or "no reason given"
    detail = _detail(body)
    match status:
        case 400 | 413 | 422:
            # The request itself caused the error, so another upstream would refuse the request, too.
            message = f"the upstream rejected the request: {shown}"
            return Failure("invalid_request", message, code="upstream_rejected", detail=detail)
        case 401 | 403:
            # Hide the upstream's message, because it may contain the API key.
            message = f"the upstream refused the gateway's API key ({status})"
            return Failure("upstream", message, code="upstream_error", detail=detail)
        case 429:
            kind: Kind = "rate_limit"
        case 503:
            kind = "overloaded"
        case _:
            message = f"the upstream returned {status}: {shown}"
            return Failure("upstream", message, code="upstream_error", detail=detail)
    message = f"the upstream is busy: {shown}"
    return Failure(
        kind, message, code="upstream_busy", detail=detail, retry_after=_check_retry_after(retry_after)
    )


def _check_retry_after(value: str) -> str:
    """Return a ``Retry-After`` value if it is a valid number or date, otherwise an empty string."""
    if redact_keys(value) != value and not value.isdecimal():
        return ""
    if value.isascii() and value.isdecimal() and len(value) <= 6:
        return value
    try:
        parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""
    return value if value.isascii() and value.isprintable() and len(value) <= 40 else ""


def redirect_failure(status: int, location: str) -> Failure:
    """Return the failure for a redirect, which is not followed because it could leak the request."""
    message = f"the upstream returned a redirect ({status}), which the gateway does not follow"
    return Failure("upstream", message, code="upstream_redirect", detail=_detail(location))


def connect_failure(error: Exception) -> Failure:
    """Return the failure for a connection that could not be opened."""
    number = getattr(error, "errno", None) or 0
    reason = os.strerror(number) if number in errno.errorcode else "no connection"
    if isinstance(error, TimeoutError):
        reason = "it did not answer in time"
    message = f"cannot reach the upstream: {reason}"
    return Failure("upstream", message, code="upstream_refused", detail=_detail(str(error)))


def connection_failure(error: Exception) -> Failure:
    """Return the failure for a connection that broke."""
    detail = _detail(f"{type(error).__name__}: {error}")
    if isinstance(error, aiohttp.ClientResponseError):
        message = "the upstream sent an invalid HTTP response"
        return Failure("upstream", message, code="upstream_protocol", detail=detail)
    message = "the connection to the upstream broke"
    return Failure("upstream", message, code="upstream_lost", detail=detail)


def protocol_failure(error: ProtocolError) -> Failure:
    """Return the failure for an upstream that violates its protocol."""
    return Failure("upstream", str(error), code="upstream_protocol")


def timeout_failure() -> Failure:
    """Return the failure for an upstream that sends nothing for too long."""
    return Failure("timeout", "the upstream sent no output for too long", code="upstream_timeout")


def size_failure() -> Failure:
    """Return the failure for a response over the size limit."""
    return Failure("upstream", "the upstream's response is too large", code="output_too_large")


def error_object_failure(value: object) -> Failure:
    """Return the failure for an error object in a stream."""
    text = message_of(value)
    message = f"the upstream failed: {redact(text)}"
    return Failure("upstream", message, code="upstream_error", detail=_detail(text))


def message_of(value: object) -> str:
    """Return the message of an error object in any known format; empty if ``value`` is not an error."""
    if not isinstance(value, Mapping):
        return ""
    error = value.get("error", value if value.get("object") == "error" else None)
    if isinstance(error, str):
        return error or "unknown error"
    if isinstance(error, Mapping):
        messages = (_message_text(error.get(name)) for name in ("message", "detail", "type"))
        return next(filter(None, messages), "unknown error")
    return _message_text(value.get("detail"))


def _message_text(value: object) -> str:
    """Return an error message as text; FastAPI's messages are lists of validation errors."""
    if isinstance(value, list):
        return "; ".join(_message_text(one.get("msg")) for one in value[:10] if isinstance(one, Mapping))
    return value if isinstance(value, str) else ""
