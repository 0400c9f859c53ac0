"""Request ids and trace context that clients send, checked before they are logged and sent upstream.

A request keeps the client's ``x-request-id`` if it is short and has only harmless characters.  The trace
context is ``traceparent`` and ``tracestate`` of the W3C recommendation; both are passed on unchanged.
"""

from __future__ import annotations

import re
from typing import Final

MAX_ID: Final = 128
"""Maximum length of a client's request id, in characters."""
_ID: Final = re.compile(rf"[A-Za-z0-9._:/+=@-]{{1,{MAX_ID}}}")
_TRACE_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[!-~]{0,200})?"
)
_TRACE_STATE: Final = re.compile(r"[ -~]{1,512}")


class RequestIds:
    """Request ids of clients that are in use.

    Some engines reject a request whose id is the id of a running request, so an id is used for only one
    request at a time.
    """

    def __init__(self) -> None:
        self._used: set[str] = set()

    def claim(self, id: str) -> bool:
        """Return whether a request may use the id that its client has sent; if so, reserve the id."""
        if id in self._used or not _ID.fullmatch(id):
            return False
        self._used.add(id)
        return True

    def release(self, id: str) -> None:
        """Make an id available again."""
        self._used.discard(id)


def trace_id(parent: str) -> str:
    """Return the trace id in a ``traceparent`` header, or an empty string if the header is not valid.

    >>> trace_id("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    '4bf92f3577b34da6a3ce929d0e0e4736'
    """
    match = _TRACE_PARENT.fullmatch(parent)
    if match is None or not match[1].strip("0") or not match[2].strip("0"):
        return ""
    if parent.startswith("00") and match[3] is not None:
        return ""  # version 00 has exactly four fields
    return match[1]


def trace_headers(parent: str, state: str) -> dict[str, str]:
    """Return the trace context for the request to the upstream; empty if the client's is not valid."""
    if not trace_id(parent):
        return {}
    return {"traceparent": parent} | ({"tracestate": state} if _TRACE_STATE.fullmatch(state) else {})
