"""One request and its response, in terms of ASGI."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

from .failure import Failure, invalid
from .json_limits import FEW, SMALL

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

JSON: Final = ((b"content-type", b"application/json"),)
EVENTS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
LINES: Final = ((b"content-type", b"application/x-ndjson"), *EVENTS[1:])
ABORT: Final = "unspool.abort"
"""The key of a scope's extension that closes the connection at once (``server/http_protocol.py``)."""
_PORTION: Final = 1 << 20
"""Bytes of a whole response that are sent at once, and that a client must take within its timeout."""


class ClientGone(Exception):
    """The client closed the connection while its request was read."""


class Exchange:
    """One request and its response.

    The response starts with :meth:`start`, which sends the headers, and finishes with the call of
    :meth:`send` that has ``more=False``.  :meth:`respond` does both.
    """

    def __init__(self, id: str, scope: Scope, receive: Receive, send: Send) -> None:
        self.id = id
        self.started_at = time.monotonic()
        self.started = False
        """The headers of the response were sent."""
        self.finished = False
        """The end of the response was sent."""
        self.sent_at = self.started_at
        """The time of the last data sent to the client."""
        self.sending_since: float | None = None
        """The time since which the client has not taken the data sent."""
        self.disconnected = ""
        """The reason why nobody reads the response any more; empty: the client is connected."""
        self.status = 0
        """The HTTP status of the response; 0: it has not started."""
        self.method = str(scope["method"])
        self.path = str(scope["path"])
        self.tenant = ""
        """The digest of the API key, empty without keys; stored data is visible to its tenant only."""
        address = scope.get("client")
        self.client = str(address[0]) if address else ""
        """The tenant, or the client's address without API keys; clients share worker pools fairly."""
        self.size = 0
        """Bytes of the request's body, and of the stored data it refers to."""
        self.values = 0
        """Upper bound of the values in a small body and in the stored data it refers to."""
        self.log_fields: dict[str, Any] = {}
        """Further fields of the request's line in the log."""
        self.ping = b""
        """Data that keeps an idle stream open; empty: the response is not a stream."""
        self.failing: Callable[[Failure], bytes] | None = None
        """Returns the end of a started response that cannot continue."""
        self.on_finish: Callable[[Exchange, Failure | None], None] | None = None
        """Called when the response is finished or has failed."""
        self._scope = scope
        self.receive = receive
        self._send = send
        self._task = asyncio.current_task()
        self._body_timeout: asyncio.Timeout | None = None
        """The timeout of the part of the body that is being awaited."""
        self._displaced = False
        self._watcher: asyncio.Task[None] | None = None

    @property
    def is_large(self) -> bool:
        """True if a pass over the request takes long, so that it does not run on the event loop."""
        return self.size > SMALL or self.values > FEW

    def set_tenant(self, tenant: str) -> None:
        """Set the tenant, once the API key is checked."""
        self.tenant = tenant
        self.client = tenant or self.client

    @property
    def server_address(self) -> str:
        """The address that the client has connected to; empty if the server does not say."""
        server = self._scope.get("server")
        return str(server[0]) if server else ""

    def header(self, name: bytes) -> str:
        """Return a header of the request; an empty string if it is missing."""
        for key, value in self._scope["headers"]:
            if key == name:
                return str(value, "latin-1")
        return ""

    def headers(self, name: bytes) -> list[str]:
        """Return all headers of this name."""
        return [str(value, "latin-1") for key, value in self._scope["headers"] if key == name]

    def path_param(self, name: str) -> str:
        """Return a parameter of the path."""
        return str(self._scope["path_params"][name])

    def query(self) -> dict[str, str]:
        """Return the parameters of the query string."""
        return dict(parse_qsl(self._scope.get("query_string", b"").decode("latin-1")))

    def extension(self, name: str) -> Any:
        """Return an extension of the scope; None if there is none of this name."""
        return (self._scope.get("extensions") or {}).get(name)

    def inner_scope(self, path: str, name: str, value: object) -> Scope:
        """Return the scope of a request that is in the body of this one.

        :param name: the name of an extension to add.
        """
        return {
            **self._scope,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [one for one in self._scope["headers"] if one[0] != b"content-length"],
            "extensions": {**(self._scope.get("extensions") or {}), name: value},
        }

    async def read_body(
        self, limit: int, seconds: float, on_growth: Callable[[bytearray], Awaitable[None]]
    ) -> bytearray:
        """Return the request's body, if it is not too large and arrives in time.

        :param on_growth: called with the body so far, whenever that has grown; its time does not count.
        """
        try:
            return await self._read_body(limit, seconds, on_growth)
        except TimeoutError as error:
            if self._displaced:
                message = "too many requests are arriving, and this one is the slowest; retry later"
                raise Failure("overloaded", message, code="overloaded", retry_after="1") from error
            message = f"the request did not arrive within {seconds:g} seconds"
            raise Failure("timeout", message, code="request_timeout", status=408) from error

    async def _read_body(
        self, limit: int, seconds: float, on_growth: Callable[[bytearray], Awaitable[None]]
    ) -> bytearray:
        media_type = self.header(b"content-type").partition(";")[0].strip().lower()
        # A web page of another origin can send other types without the browser asking for permission.
        if media_type != "application/json" and not media_type.endswith("+json"):
            raise _unsupported(f"the content type is {media_type or 'missing'}; send application/json")
        encoding = self.header(b"content-encoding").strip().lower()
        if encoding not in ("", "identity"):
            raise _unsupported(f"the content encoding is {encoding}; send the body without one")
        length = self.header(b"content-length")
        if length.isdecimal() and int(length) > limit:
            raise too_large(limit)
        data = bytearray()  # a list of small portions would take more memory than the portions
        while True:
            wait_started = time.monotonic()
            async with asyncio.timeout(0 if self._displaced else seconds) as self._body_timeout:
                message = await self.receive()
            self._body_timeout = None
            seconds -= time.monotonic() - wait_started
            if message["type"] == "http.disconnect":
                raise ClientGone
            data += message.get("body", b"")
            self.size = len(data)
            if self.size > limit:
                raise too_large(limit)
            await on_growth(data)
            if not message.get("more_body"):
                break
        if not data:
            raise invalid("the body is empty", code="invalid_json")
        return data

    def displace(self) -> None:
        """Stop waiting for the body, because another request needs its place."""
        self._displaced = True
        if self._body_timeout is not None and not self._body_timeout.expired():
            self._body_timeout.reschedule(0)

    def watch_connection(self) -> None:
        """From now on, cancel the request if the client disconnects."""
        self._watcher = asyncio.create_task(self._wait_for_disconnect())

    async def _wait_for_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        # After the end of a response the server reports a disconnect in any case.
        if not self.finished:
            self._cancel("gone")

    def _cancel(self, reason: str) -> None:
        """Cancel the request, because nobody reads the response."""
        if not self.disconnected and self._task is not None:
            self.disconnected = reason
            self._task.cancel()

    def disconnect(self) -> None:
        """Close the connection to a client that takes no data, and drop the data for it."""
        abort = self.extension(ABORT)
        if abort is not None:
            abort()
        self._cancel("does not read")

    def stop_watching(self) -> None:
        """Undo :meth:`watch_connection`."""
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def start(self, status: int, headers: Headers) -> None:
        """Send the headers of the response."""
        self.started = True
        self.status = status
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*headers, (b"x-request-id", self.id.encode())],
            }
        )

    async def send(self, data: bytes, *, more: bool = True) -> None:
        """Send a part of the response; wait until the client has taken enough of the parts before.

        :param more: further parts follow.
        """
        self.sending_since = time.monotonic()
        self.finished = not more
        await self._send({"type": "http.response.body", "body": data, "more_body": more})
        self.sending_since = None
        self.sent_at = time.monotonic()

    async def ping_if_idle(self, interval: float) -> None:
        """Send a ping if nothing was sent for this many seconds."""
        idle = not self.finished and self.sending_since is None
        if idle and time.monotonic() - self.sent_at >= interval:
            await self.send(self.ping)

    async def respond(self, status: int, data: bytes, headers: Headers = JSON) -> None:
        """Send a whole response."""
        await self.start(status, (*headers, (b"content-length", str(len(data)).encode())))
        at = 0
        while len(data) - at > _PORTION:
            await self.send(data[at : at + _PORTION])
            at += _PORTION
        await self.send(data[at:] if at else data, more=False)


def _unsupported(message: str) -> Failure:
    return Failure("invalid_request", message, code="unsupported_media_type", status=415)


def too_large(limit: int) -> Failure:
    """Return the failure of a request that is too large."""
    return Failure("too_large", f"the request is larger than {limit} bytes", code="request_too_large")
