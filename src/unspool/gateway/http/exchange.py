"""One request and its answer, in terms of ASGI."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qsl

from .errors import Failure, invalid
from .json_decoding import FEW, SMALL

if TYPE_CHECKING:
    from ..page.request_log import RequestRecord

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
"""The extension of a server's scope that tears the connection down (``door.py``)."""
_PORTION: Final = 1 << 20
"""Bytes that a client must take within its time: what a whole answer is sent in."""


class ClientGone(Exception):
    """Nobody reads the answer any more."""


class Exchange:
    """One request and its answer."""

    def __init__(self, id: str, scope: Scope, receive: Receive, send: Send) -> None:
        self.id = id
        self.began = time.monotonic()
        self.begun = False
        """The answer's headers are out ..."""
        self.over = False
        """... and so is its end."""
        self.sent_at = self.began
        """When the client was last sent something."""
        self.sending_since: float | None = None
        """Since when the client has not taken what we send."""
        self.gone: str = ""
        """Why nobody reads the answer any more."""
        self.status = 0
        self.method = str(scope["method"])
        self.path = str(scope["path"])
        self.owner = ""
        """Whose request it is: what is kept for another owner it does not find."""
        self.size = 0
        """Bytes of the request's body, and of what it refers back to."""
        self.values = 0
        """Values of a small body, at most, and of what it refers back to."""
        self.fields: dict[str, Any] = {}
        """More for the log."""
        self.ping = b""
        """What shows that a stream lives; empty: this is no stream."""
        self.failing: Callable[[Failure], bytes] | None = None
        """How to end an answer that has begun and cannot go on."""
        self.note: RequestRecord | None = None
        """What is remembered of it for the page."""
        self._scope = scope
        self.receive = receive
        self._send = send
        self._task = asyncio.current_task()
        self._patience: asyncio.Timeout | None = None
        """Until when a part of the body may take to come, while one is waited for."""
        self._displaced = False
        self._watch: asyncio.Task[None] | None = None

    @property
    def large(self) -> bool:
        """Whether it takes time to go through the request, so that it is not done on the event loop."""
        return self.size > SMALL or self.values > FEW

    @property
    def whose(self) -> str:
        """Who takes turns with others: the owner, else the address."""
        client = self._scope.get("client")
        return self.owner or (str(client[0]) if client else "")

    @property
    def listener(self) -> str:
        """The address that the client has reached us at; empty if the server does not tell."""
        server = self._scope.get("server")
        return str(server[0]) if server else ""

    def header(self, name: bytes) -> str:
        """A header of the request; empty if it is not there."""
        return next(iter(self.headers(name)), "")

    def headers(self, name: bytes) -> list[str]:
        """All headers of this name."""
        return [str(value, "latin-1") for key, value in self._scope["headers"] if key == name]

    def part(self, name: str) -> str:
        """A part of the path."""
        return str(self._scope["path_params"][name])

    def query(self) -> dict[str, str]:
        """What the address asks for behind the path."""
        return dict(parse_qsl(self._scope.get("query_string", b"").decode("latin-1")))

    def extension(self, name: str) -> Any:
        """What the server, or whoever hands the request on, has added to it; None: nothing."""
        return (self._scope.get("extensions") or {}).get(name)

    def inner_scope(self, path: str, name: str, value: object) -> Scope:
        """The scope of a request that comes in the body of this one, with an extension."""
        return {
            **self._scope,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [one for one in self._scope["headers"] if one[0] != b"content-length"],
            "extensions": {**(self._scope.get("extensions") or {}), name: value},
        }

    async def body(
        self, limit: int, seconds: float, grown: Callable[[bytearray], Awaitable[None]]
    ) -> bytearray:
        """The request's body, if it is not too large and comes in time.

        :param grown: shown what has come, whenever that has grown; the client waits, and its time does, too.
        """
        try:
            return await self._body(limit, seconds, grown)
        except TimeoutError as error:
            if self._displaced:
                told = "too many requests are being received, and this one came the slowest; try again"
                raise Failure("overloaded", told, code="overloaded", retry_after="1") from error
            told = f"the request did not arrive within {seconds:g} seconds"
            raise Failure("timeout", told, code="request_timeout", status=408) from error

    async def _body(
        self, limit: int, seconds: float, grown: Callable[[bytearray], Awaitable[None]]
    ) -> bytearray:
        kind = self.header(b"content-type").partition(";")[0].strip().lower()
        # A web page can send anything else without asking the browser for leave.
        if kind != "application/json" and not kind.endswith("+json"):
            raise _unsupported(f"the content type is {kind or 'missing'}; send application/json")
        encoding = self.header(b"content-encoding").strip().lower()
        if encoding not in ("", "identity"):
            raise _unsupported(f"the content encoding is {encoding}; send the body as it is")
        length = self.header(b"content-length")
        if length.isdecimal() and int(length) > limit:
            raise too_large(limit)
        data = bytearray()  # a list of portions would cost more than the portions, if they are small
        while True:
            began = time.monotonic()
            async with asyncio.timeout(0 if self._displaced else seconds) as self._patience:
                message = await self.receive()
            self._patience = None
            seconds -= time.monotonic() - began
            if message["type"] == "http.disconnect":
                raise ClientGone
            data += message.get("body", b"")
            self.size = len(data)
            if self.size > limit:
                raise too_large(limit)
            await grown(data)
            if not message.get("more_body"):
                break
        if not data:
            raise invalid("the body is empty", code="invalid_json")
        return data

    def displace(self) -> None:
        """Wait no longer for the body: others have a better use for its place."""
        self._displaced = True
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(0)

    def watch(self) -> None:
        """From now on, stop working if the client leaves."""
        self._watch = asyncio.create_task(self._until_gone())

    async def _until_gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        # After the end the server reports that the client is gone, whether it is or not.
        if not self.over:
            self.leave("gone")

    def leave(self, why: str) -> None:
        """Stop working: nobody reads the answer."""
        if not self.gone and self._task is not None:
            self.gone = why
            self._task.cancel()

    def give_up(self) -> None:
        """The client does not read: let go of it, and of what waits to be sent to it."""
        abort = self.extension(ABORT)
        if abort is not None:
            abort()
        self.leave("does not read")

    def unwatch(self) -> None:
        """The answer is over."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def start(self, status: int, headers: Headers) -> None:
        """Send the answer's headers."""
        self.begun = True
        self.status = status
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*headers, (b"x-request-id", self.id.encode())],
            }
        )

    async def send(self, data: bytes, *, more: bool = True) -> None:
        """Send a part of the answer; waits until the client has taken what was sent before."""
        self.sending_since = time.monotonic()
        self.over = not more
        await self._send({"type": "http.response.body", "body": data, "more_body": more})
        self.sending_since = None
        self.sent_at = time.monotonic()

    async def show_life(self, interval: float) -> None:
        """Send a ping if the client has not heard of us for that long."""
        idle = not self.over and self.sending_since is None
        if idle and time.monotonic() - self.sent_at >= interval:
            await self.send(self.ping)

    async def respond(self, status: int, data: bytes, headers: Headers = JSON) -> None:
        """Send the whole answer."""
        await self.start(status, (*headers, (b"content-length", str(len(data)).encode())))
        at = 0
        while len(data) - at > _PORTION:
            await self.send(data[at : at + _PORTION])
            at += _PORTION
        await self.send(data[at:] if at else data, more=False)


def _unsupported(told: str) -> Failure:
    return Failure("invalid_request", told, code="unsupported_media_type", status=415)


def too_large(limit: int) -> Failure:
    """The request is too large."""
    return Failure("too_large", f"the request is larger than {limit} bytes", code="request_too_large")
