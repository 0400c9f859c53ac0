"""HTTP request and its response, based on ASGI."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

from .api_keys import ApiKey
from .failure import Failure, invalid
from .json_limits import FEW, SMALL
from .rate_limits import KeyUsage
from .trace_context import trace_headers, trace_id

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
"""Name of the ASGI scope extension that contains the function for closing the connection at once.

``server/connection_limits.py`` provides the function.
"""
_PORTION: Final = 1 << 20
"""Maximum number of response bytes per send; a client must read them within ``client_timeout``."""


class ClientGone(Exception):
    """Error for a client that disconnects before its whole request has arrived."""


class Exchange:
    """HTTP request and its response.

    A response starts with :meth:`start`, which sends the headers, and ends with a call to :meth:`send`
    with ``more=False``.  :meth:`respond` sends a whole response.
    """

    def __init__(self, id: str, scope: Scope, receive: Receive, send: Send) -> None:
        self.id = id
        self.started_at = time.monotonic()
        self.started = False
        """True once the headers of the response have been sent."""
        self.finished = False
        """True once the end of the response has been sent."""
        self.sent_at = self.started_at
        """The time when data was last sent to the client."""
        self.sending_since: float | None = None
        """The time when the current send started; None if the client has accepted all data so far."""
        self.disconnected = ""
        """The reason why the client no longer reads the response; empty while the client is connected."""
        self.status = 0
        """The HTTP status of the response; 0 before the response starts."""
        self.method = str(scope["method"])
        self.path = str(scope["path"])
        self.tenant = ""
        """The digest of the API key; empty if the gateway has no keys.  A tenant sees only its own data."""
        self.key: ApiKey | None = None
        """The API key; None if the gateway has no keys."""
        self.usage: KeyUsage | None = None
        """What the API key uses; None if the key has no limits."""
        self.tokens = 0
        """Number of tokens of the prompt and the output, as far as they are known."""
        self._limit_headers: Headers = ()
        """Headers of the response that show the limits of the API key."""
        address = scope.get("client")
        self.address = str(address[0]) if address else ""
        """The client's IP address; empty if the server does not provide it."""
        self.client = self.address
        """The client's key in the queues of worker pools: the tenant or, without API keys, the IP address."""
        self.size = 0
        """Size in bytes of the request's body and of the stored data that the request refers to."""
        self.values = 0
        """Number of JSON values in the stored data that the request refers to.  If the body is small, this
        number includes an upper bound for the values in the body.
        """
        self.log_fields: dict[str, Any] = {}
        """Additional fields for the request's log line."""
        self.ping = b""
        """Data that is sent when a stream is idle; empty if the response is not a stream."""
        self.failing: Callable[[Failure], bytes] | None = None
        """Function that encodes a failure as the last data of a response that has already started."""
        self.on_finish: Callable[[Exchange, Failure | None], None] | None = None
        """Function that is called when the request has ended.  Its arguments are the exchange and, if the
        request failed, the failure.
        """
        self._scope = scope
        self.receive = receive
        self._send = send
        self._task = asyncio.current_task()
        self._body_timeout: asyncio.Timeout | None = None
        """Timeout for the next part of the body."""
        self._displaced = False
        self._watcher: asyncio.Task[None] | None = None

    @property
    def is_large(self) -> bool:
        """True if the request is so large that processing it would block the event loop for too long."""
        return self.size > SMALL or self.values > FEW

    def set_key(self, key: ApiKey, usage: KeyUsage | None) -> None:
        """Set the API key after it has been checked.

        :param usage: what the key uses; None if the key has no limits.
        """
        self.key = key
        self.usage = usage
        self.tenant = self.client = key.digest.hex()

    @property
    def allowed_models(self) -> frozenset[str] | None:
        """Names of the models that the client may use; None for all models."""
        return None if self.key is None else self.key.models

    def admit(self) -> None:
        """Count the request towards the limits of its API key, or raise a failure if a limit is reached."""
        if self.usage is not None and self.key is not None:
            self._limit_headers = self.usage.admit(self.key)

    def finish(self) -> None:
        """Count the end of an admitted request and its tokens towards the limits of its API key."""
        if self.usage is not None:
            self.usage.finish(self.tokens)

    @property
    def trace_id(self) -> str:
        """The id of the client's trace; empty if the client sends none, or no valid one."""
        parent = self.header(b"traceparent")
        return trace_id(parent) if parent else ""

    def upstream_headers(self) -> dict[str, str]:
        """Return the headers with which the logs of the gateway and of the upstream can be joined."""
        # If there are several values, the header is not valid.
        parents, states = self.headers(b"traceparent"), self.headers(b"tracestate")
        trace = trace_headers(parents[0], ",".join(states)) if len(parents) == 1 else {}
        return {"X-Request-Id": self.id, **trace}

    @property
    def server_address(self) -> str:
        """The local address that the client is connected to; empty if the server does not provide it."""
        server = self._scope.get("server")
        return str(server[0]) if server else ""

    def header(self, name: bytes) -> str:
        """Return the first request header with the given name, or an empty string if there is none."""
        for key, value in self._scope["headers"]:
            if key == name:
                return str(value, "latin-1")
        return ""

    def headers(self, name: bytes) -> list[str]:
        """Return the values of all request headers with the given name."""
        return [str(value, "latin-1") for key, value in self._scope["headers"] if key == name]

    def path_param(self, name: str) -> str:
        """Return the value of a path parameter."""
        return str(self._scope["path_params"][name])

    def query(self) -> dict[str, str]:
        """Return the parameters of the query string."""
        return dict(parse_qsl(self._scope.get("query_string", b"").decode("latin-1")))

    def extension(self, name: str) -> Any:
        """Return the ASGI scope extension with the given name, or None if there is none."""
        return (self._scope.get("extensions") or {}).get(name)

    def inner_scope(self, path: str, name: str, value: object) -> Scope:
        """Return the ASGI scope for an inner request, which the body of this request contains.

        :param name: name of a scope extension to add.
        :param value: value of that extension.
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
        """Return the request's body; raise a failure if it is too large or does not arrive in time.

        :param limit: maximum size in bytes.
        :param seconds: timeout for the whole body.
        :param on_growth: called with the incomplete body whenever new data has arrived; the time of these
            calls does not count towards the timeout.
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
        # Accept only JSON.  A browser lets pages of other origins send JSON only after a CORS preflight
        # request, but it lets them send some other content types without a preflight request.
        if media_type != "application/json" and not media_type.endswith("+json"):
            raise _unsupported(f"the content type is {media_type or 'missing'}; send application/json")
        encoding = self.header(b"content-encoding").strip().lower()
        if encoding not in ("", "identity"):
            raise _unsupported(f"the content encoding is {encoding}; send the body uncompressed")
        length = self.header(b"content-length")
        if length.isdecimal() and int(length) > limit:
            raise too_large(limit)
        data = bytearray()  # a list of many small parts would need much more memory than one buffer
        while True:
            wait_started = time.monotonic()
            # If displace() was called while on_growth() ran, there was no timeout to shorten.  So end the
            # request now, with a timeout of 0.
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
        """Stop waiting for the body, because a new request takes the place of this one."""
        self._displaced = True
        if self._body_timeout is not None and not self._body_timeout.expired():
            self._body_timeout.reschedule(0)

    def watch_connection(self) -> None:
        """Start to watch the connection, and cancel the request if the client disconnects."""
        self._watcher = asyncio.create_task(self._wait_for_disconnect())

    async def _wait_for_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        # The server also reports a disconnect after a response has ended normally.
        if not self.finished:
            self._cancel("gone")

    def _cancel(self, reason: str) -> None:
        """Cancel the request, because the client no longer reads the response."""
        if not self.disconnected and self._task is not None:
            self.disconnected = reason
            self._task.cancel()

    def disconnect(self) -> None:
        """Close the connection to a client that does not read, and discard unsent data."""
        abort = self.extension(ABORT)
        if abort is not None:
            abort()
        self._cancel("does not read")

    def stop_watching(self) -> None:
        """Stop watching the connection; see :meth:`watch_connection`."""
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
                "headers": [*headers, *self._limit_headers, (b"x-request-id", self.id.encode())],
            }
        )

    async def send(self, data: bytes, *, more: bool = True) -> None:
        """Send a part of the response; if too much unsent data is buffered, wait for the client to read.

        :param more: True if more parts follow.
        """
        self.sending_since = time.monotonic()
        self.finished = not more
        await self._send({"type": "http.response.body", "body": data, "more_body": more})
        self.sending_since = None
        self.sent_at = time.monotonic()

    async def ping_if_idle(self, interval: float) -> None:
        """Send a ping if nothing has been sent for ``interval`` seconds."""
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
    """Return the failure for a request larger than ``limit`` bytes."""
    return Failure("too_large", f"the request is larger than {limit} bytes", code="request_too_large")
