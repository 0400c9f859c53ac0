"""Event stream for the page's chat: an API's answer, and the raw output that the answer is parsed from.

The body of a request from the page's chat contains an inner request to one of the APIs.  The API's
endpoint answers the inner request, with the same checks, metrics and errors as for any other request.
The response to the outer request is a stream of these events:

========  =====================================================================
plan      the plan for the inner request, and the body sent to the upstream
raw       unparsed deltas from one read of the upstream's stream
head      the status and headers of the API's response
wire      a part of the body of the API's response, as text
end       the complete record of the inner request
error     a failure of the outer request
========  =====================================================================
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from starlette.types import ASGIApp

from ...wire import Delta
from ..http.active_requests import ActiveRequests
from ..http.exchange import EVENTS, Exchange, Receive
from ..http.failure import Failure, invalid
from ..http.json_encoding import encode_line
from ..upstreams.base import Batch
from .request_log import LISTENER, RequestRecord
from .request_record_json import plan_to_dict, summarize
from .static_files import SECURITY_HEADERS

PATHS: Final = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
"""The paths of the APIs that the page's chat can use."""


class Tee:
    """Listener that sends the events of the outer response while the inner request is answered."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self.record: RequestRecord | None = None
        """The record of the inner request; None until the request has been admitted."""

    async def send_event(self, name: str, value: object) -> None:
        """Send one event."""
        await self._exchange.send(b"event: %b\ndata: %b\n\n" % (name.encode(), encode_line(value)))

    async def on_open(self) -> None:
        """Send the plan, after the upstream has accepted the request."""
        if self.record is not None and self.record.plan is not None:
            await self.send_event("plan", {**summarize(self.record), "plan": plan_to_dict(self.record)})

    async def on_batch(self, batch: Batch) -> None:
        """Send the deltas from one read of the upstream's stream."""
        if batch.deltas:
            await self.send_event("raw", [_delta_to_dict(delta) for delta in batch.deltas])

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send an event for an ASGI message from the inner request's endpoint."""
        if message["type"] == "http.response.start":
            headers = {key.decode(): value.decode("latin-1") for key, value in message["headers"]}
            await self.send_event("head", {"status": message["status"], "headers": headers})
        elif message.get("body"):
            await self.send_event("wire", self._decode(message["body"]))


def _delta_to_dict(delta: Delta) -> dict[str, Any]:
    """Convert a delta to a dictionary; leave out empty fields."""
    out: dict[str, Any] = {"choice": delta.choice, "text": delta.text}
    if delta.reasoning:
        out["reasoning"] = delta.reasoning
    if delta.calls:
        out["calls"] = [{"name": call.name, "arguments": call.arguments} for call in delta.calls]
    if delta.finish is not None:
        out["finish"] = delta.finish
    return out


async def answer_with_events(
    dispatch: ASGIApp, active: ActiveRequests, exchange: Exchange, body: Mapping[str, Any]
) -> Tee:
    """Answer the inner request with events; the caller must send the last event.

    :param dispatch: ASGI application with the APIs' endpoints.
    :param body: body of the outer request, with the API's name in ``api`` and the inner request in ``body``.
    """
    path, inner = PATHS.get(str(body.get("api"))), body.get("body")
    if path is None:
        raise invalid(f"api: choose one of {', '.join(PATHS)}", "api")
    if not isinstance(inner, Mapping):
        raise invalid("body: expected a request for this API", "body")
    tee = Tee(exchange)
    exchange.failing = _end_with_error
    await exchange.start(200, (*SECURITY_HEADERS, *EVENTS))
    scope = exchange.inner_scope(path, LISTENER, tee)
    # Only the inner request counts as active while it runs.
    active.exit(exchange)
    try:
        await dispatch(scope, _receive_body_first(encode_line(inner), exchange.receive), tee.send)
    finally:
        active.enter(exchange)
    return tee


def _end_with_error(failure: Failure) -> bytes:
    return b"event: error\ndata: %b\n\n" % encode_line({"message": failure.message, "code": failure.code})


def _receive_body_first(data: bytes, rest: Receive) -> Receive:
    """Return an ASGI receive function that returns a body first, then the messages from ``rest``."""
    pending = [{"type": "http.request", "body": data, "more_body": False}]

    async def receive() -> MutableMapping[str, Any]:
        return pending.pop() if pending else await rest()

    return receive
