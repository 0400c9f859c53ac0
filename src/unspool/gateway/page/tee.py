"""An answer, together with the raw text that it is made from, as both come.

The request is one like any other: it goes to the endpoint that it is for, with the same
checks, metrics and errors.  What that endpoint sends is put into events, between those of
what the upstream wrote:

========  =====================================================================
plan      what was decided, and what the upstream was told
raw       what one read of the upstream's stream brought, before it is parsed
head      the status of the answer, and the id of the request
wire      bytes of the answer, as text
end       the whole of it, as the list of the last requests has it
error     what went wrong with the watching itself
========  =====================================================================
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from ..apis.answers import encode
from ..http.errors import Failure, invalid
from ..http.exchange import EVENTS, Exchange, Receive
from ..upstreams.base import Batch, Delta
from .request_json import line, planned
from .request_log import WATCHER, RequestRecord
from .static_files import SAFE

if TYPE_CHECKING:
    from ..app import Gateway

PATHS: Final = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
"""Which APIs can be watched, and where they are."""


class Watcher:
    """Somebody who looks on while a request is answered."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self.note: RequestRecord | None = None
        """Of the request, once that has been let in."""

    async def event(self, name: str, value: object) -> None:
        """Tell something."""
        await self._exchange.send(b"event: %b\ndata: %b\n\n" % (name.encode(), encode(value)))

    async def planned(self) -> None:
        """The upstream has taken the request."""
        if self.note is not None and self.note.plan is not None:
            await self.event("plan", {**line(self.note), "plan": planned(self.note)})

    async def raw(self, batch: Batch) -> None:
        """The upstream wrote this."""
        if batch.deltas:
            await self.event("raw", [_shown(delta) for delta in batch.deltas])

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """What the endpoint sends, in events."""
        if message["type"] == "http.response.start":
            headers = {key.decode(): value.decode("latin-1") for key, value in message["headers"]}
            await self.event("head", {"status": message["status"], "headers": headers})
        elif message.get("body"):
            await self.event("wire", self._decode(message["body"]))


def _shown(delta: Delta) -> dict[str, Any]:
    """A delta without what it does not have."""
    out: dict[str, Any] = {"choice": delta.choice, "text": delta.text}
    if delta.reasoning:
        out["reasoning"] = delta.reasoning
    if delta.calls:
        out["calls"] = [{"name": call.name, "arguments": call.arguments} for call in delta.calls]
    if delta.finish is not None:
        out["finish"] = delta.finish
    return out


async def watched(gateway: Gateway, exchange: Exchange, given: Mapping[str, Any]) -> Watcher:
    """Answer a request of one of the APIs, and tell how that goes.

    :param given: ``api``, and the ``body`` of a request.
    """
    path, body = PATHS.get(str(given.get("api"))), given.get("body")
    if path is None:
        raise invalid(f"api: one of {', '.join(PATHS)}", "api")
    if not isinstance(body, Mapping):
        raise invalid("body: the request, as its API has it", "body")
    watcher = Watcher(exchange)
    exchange.failing = _failing
    await exchange.start(200, (*SAFE, *EVENTS))
    scope = exchange.inner_scope(path, WATCHER, watcher)
    # From here on it is one request, that of the API.
    gateway.exit(exchange)
    try:
        await gateway.router(scope, _body_first(encode(body), exchange.receive), watcher.send)
    finally:
        gateway.enter(exchange)
    return watcher


def _failing(failure: Failure) -> bytes:
    return b"event: error\ndata: %b\n\n" % encode({"message": failure.message, "code": failure.code})


def _body_first(data: bytes, rest: Receive) -> Receive:
    """Receives a body, and then what the client says."""
    waiting = [{"type": "http.request", "body": data, "more_body": False}]

    async def receive() -> MutableMapping[str, Any]:
        return waiting.pop() if waiting else await rest()

    return receive
