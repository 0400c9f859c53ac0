"""What clients are told of an upstream's failures: why, and never where it runs.

Addresses, hosts and paths of files in what an upstream says are for the log
(:attr:`Failure.detail <unspool.gateway.http.errors.Failure.detail>`); its key is for nobody.
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

from ..http.errors import Failure, Kind

_SHOWN: Final = 500
"""Characters of an upstream's error that are passed on."""
_READ: Final = 4 * _SHOWN
"""Characters of it that are looked at."""
_PLACES: Final = re.compile(
    r"""
    \b [a-zA-Z][a-zA-Z0-9+.-]{1,20} :// [^\s"'<>)\]}]+      # addresses
  | \b (?: \d{1,3} \. ){3} \d{1,3} (?: : \d+ )? \b          # numbers of hosts
  | \[ [0-9a-fA-F]* : [0-9a-fA-F:.]+ \] (?: : \d+ )?
  | \b (?: localhost | [\w-]+ (?: \. [\w-]+ )+ ) : \d{2,5} \b   # names of hosts, with a port
  | (?<! [\w/.#$<] ) (?! /(?: v\d | api | properties | items | \$defs | definitions )\b )
    (?: ~ | \b[A-Za-z]: )? (?: [/\\] [\w.@+~-]+ ){2,} [/\\]?    # paths of files
  | (?i: \b bearer \s+ ) \S+                                    # keys
  | \b sk-[\w*-]+
    """,
    re.VERBOSE,
)


_HIDDEN: Final = "..."
_keys: Final[set[str]] = set()
"""The keys of all upstreams, as an answer may spell them."""


def hide_key(key: str) -> None:
    """Remove a key from everything that upstreams say from now on, whichever of them says it."""
    if key:
        in_json = json.dumps(key)[1:-1]
        _keys.update((key, in_json, in_json.replace("/", "\\/"), quote(key), quote(key, safe="")))


def without_keys(text: str) -> str:
    """A text of an upstream, as the log may have it."""
    for key in sorted(_keys, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(key, _HIDDEN)
    return text


def without_places(text: str) -> str:
    """One line of a text, as clients may see it.

    >>> without_places("no model at /models/a.gguf on http://10.0.0.1:8000/v1")
    'no model at ... on ...'
    """
    text = " ".join(without_keys(text)[:_READ].split())
    return _PLACES.sub(_HIDDEN, text)[:_SHOWN]


def _detail(text: str) -> str:
    """As much of a text as the log has."""
    return without_keys(text)[:_READ]


def refused(status: int, said: str, *, reason: str, later: str) -> Failure:
    """The upstream does not take a request.

    :param said: the body of its answer, as far as it was read.
    :param later: its ``Retry-After``.
    """
    shown = without_places(said) or without_places(reason) or "no reason given"
    detail = _detail(said)
    match status:
        case 400 | 413 | 422:
            # It read the request and did not like it: so will it for every other client.
            told = f"the upstream rejects this: {shown}"
            return Failure("invalid_request", told, code="upstream_rejected", detail=detail)
        case 401 | 403:
            # What it says may name the key.
            told = f"the upstream does not admit the gateway ({status})"
            return Failure("upstream", told, code="upstream_error", detail=detail)
        case 429:
            kind: Kind = "rate_limit"
        case 503:
            kind = "overloaded"
        case _:
            told = f"the upstream answers {status}: {shown}"
            return Failure("upstream", told, code="upstream_error", detail=detail)
    told = f"the upstream is busy: {shown}"
    return Failure(kind, told, code="upstream_busy", detail=detail, retry_after=_moment(later))


def _moment(later: str) -> str:
    """A ``Retry-After`` that is one: seconds, or a date; else empty."""
    if without_keys(later) != later and not later.isdecimal():
        return ""
    if later.isascii() and later.isdecimal() and len(later) <= 6:
        return later
    try:
        parsedate_to_datetime(later)
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""
    return later if later.isascii() and later.isprintable() and len(later) <= 40 else ""


def redirected(status: int, location: str) -> Failure:
    """The upstream points elsewhere; nobody follows, because the request is for this one alone."""
    told = f"the upstream answers {status} and points elsewhere, where requests are not sent"
    return Failure("upstream", told, code="upstream_redirect", detail=_detail(location))


def unreachable(error: Exception) -> Failure:
    """There was no connection."""
    number = getattr(error, "errno", None) or 0
    why = os.strerror(number) if number in errno.errorcode else "no connection"
    if isinstance(error, TimeoutError):
        why = "it did not answer in time"
    told = f"cannot reach the upstream: {why}"
    return Failure("upstream", told, code="upstream_refused", detail=_detail(str(error)))


def lost(error: Exception) -> Failure:
    """The connection broke."""
    detail = _detail(f"{type(error).__name__}: {error}")
    if isinstance(error, aiohttp.ClientResponseError):
        told = "the upstream sent what is no HTTP response"
        return Failure("upstream", told, code="upstream_protocol", detail=detail)
    return Failure("upstream", "the connection to the upstream broke", code="upstream_lost", detail=detail)


def silent() -> Failure:
    """Nothing came for too long."""
    return Failure("timeout", "the upstream was silent for too long", code="upstream_timeout")


def too_large() -> Failure:
    """More came than anybody asked for."""
    return Failure("upstream", "the upstream's response is too large", code="output_too_large")


def failed(value: object) -> Failure:
    """The error that the upstream sent in the stream."""
    said = message_of(value)
    told = f"the upstream failed: {without_places(said)}"
    return Failure("upstream", told, code="upstream_error", detail=_detail(said))


def message_of(value: object) -> str:
    """The message of an error object, in any of the forms that engines send; empty: it is none."""
    if not isinstance(value, Mapping):
        return ""
    error = value.get("error", value if value.get("object") == "error" else None)
    if isinstance(error, str):
        return error or "unknown error"
    if isinstance(error, Mapping):
        said = (_said(error.get(name)) for name in ("message", "detail", "type"))
        return next(filter(None, said), "unknown error")
    return _said(value.get("detail"))


def _said(value: object) -> str:
    """The text of a message; FastAPI lists what is wrong with a request."""
    if isinstance(value, list):
        return "; ".join(_said(one.get("msg")) for one in value[:10] if isinstance(one, Mapping))
    return value if isinstance(value, str) else ""
