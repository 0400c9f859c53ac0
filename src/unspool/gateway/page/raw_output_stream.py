"""The answer to a request, together with the raw output that it is parsed from, as one event stream.

The page's chat sends a request of one of the APIs in the body of its own request.  That inner
request goes through the API's endpoint, with the same checks, metrics and errors as any other.
These events carry what the endpoint sends and what the upstream wrote:

========  =====================================================================
plan      the decisions about the request, and the body that the upstream got
raw       deltas that one read of the upstream's stream brought, unparsed
head      the status and headers of the answer
wire      bytes of the answer, as text
end       the whole record, as in the list of the latest requests
error     a failure of the outer request
========  =====================================================================
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from starlette.types import ASGIApp

from ..http.active_requests import ActiveRequests
from ..http.exchange import EVENTS, Exchange, Receive
from ..http.failure import Failure, invalid
from ..http.json_encoding import encode_line
from ..upstreams.base import Batch, Delta
from .request_json import plan_to_dict, summarize
from .request_log import LISTENER, RequestRecord
from .static_files import SECURITY_HEADERS

PATHS: Final = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
"""The paths of the APIs that the page's chat can use."""


class Tee:
    """Sender of the events; listens to the record of the inner request."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self.record: RequestRecord | None = None
        """The record of the inner request, once that is admitted."""

    async def send_event(self, name: str, value: object) -> None:
        """Send one event."""
        await self._exchange.send(b"event: %b\ndata: %b\n\n" % (name.encode(), encode_line(value)))

    async def on_open(self) -> None:
        """Send the plan, after the upstream has accepted the request."""
        if self.record is not None and self.record.plan is not None:
            await self.send_event("plan", {**summarize(self.record), "plan": plan_to_dict(self.record)})

    async def on_batch(self, batch: Batch) -> None:
        """Send what one read of the upstream's stream brought."""
        if batch.deltas:
            await self.send_event("raw", [_delta_to_dict(delta) for delta in batch.deltas])

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send an ASGI message of the inner request's endpoint as an event."""
        if message["type"] == "http.response.start":
            headers = {key.decode(): value.decode("latin-1") for key, value in message["headers"]}
            await self.send_event("head", {"status": message["status"], "headers": headers})
        elif message.get("body"):
            await self.send_event("wire", self._decode(message["body"]))


def _delta_to_dict(delta: Delta) -> dict[str, Any]:
    """Return a delta without its empty fields."""
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
    """Answer the inner request with events; the caller sends the last one.

    :param dispatch: the application that has the APIs' endpoints.
    :param body: ``api``, and the ``body`` of the inner request.
    """
    path, inner = PATHS.get(str(body.get("api"))), body.get("body")
    if path is None:
        raise invalid(f"api: choose one of {', '.join(PATHS)}", "api")
    if not isinstance(inner, Mapping):
        raise invalid("body: expected a request of this API", "body")
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
    """Return an ASGI receive function that yields a body, then the messages of another function."""
    pending = [{"type": "http.request", "body": data, "more_body": False}]

    async def receive() -> MutableMapping[str, Any]:
        return pending.pop() if pending else await rest()

    return receive
