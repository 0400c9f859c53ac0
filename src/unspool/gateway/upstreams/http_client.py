"""HTTP client for upstreams, with connections, event streams, and conversion of errors to failures.

The client trusts an upstream as little as possible: it follows no redirects, stores no cookies, accepts
no compressed responses, and limits the size and duration of headers, events and whole responses.

Two methods of aiohttp that are used here are private, ``BaseConnector._get()`` and
``StreamReader._read_nowait()``, because no public method does the same.  So ``pyproject.toml`` limits its
version to releases in which a test has checked them.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import aiohttp
import msgspec

from ...errors import ProtocolError, UsageError
from ...wire import EventReader, LineReader
from ..http.failure import Failure
from ..http.json_decoding import VALUES
from .failures import (
    connect_failure,
    connection_failure,
    error_object_failure,
    hide_key,
    message_of,
    protocol_failure,
    redact_keys,
    redirect_failure,
    size_failure,
    status_failure,
    timeout_failure,
)

_DONE: Final = b"[DONE]"
_DRAIN_TIMEOUT: Final = 0.2
"""Seconds to wait for the end of a response after its last event, so that the connection can be reused."""
_ATTEMPTS: Final = 3
_JSON_TIMEOUT: Final = 5.0
"""Timeout in seconds for a small JSON request, such as ``/v1/models``."""
_HEALTH_TIMEOUT: Final = 2.0
"""Timeout in seconds for a health check."""
_MAX_ERROR_BODY: Final = 1 << 16
"""Maximum number of bytes to read from an error response."""
_JSON: Final = {"Content-Type": "application/json"}
_FORWARDED_TYPES: Final = (
    "application/json",
    "text/event-stream",
    "application/x-ndjson",
    "application/octet-stream",
)
"""Content types that may be forwarded.

HTML is excluded, because browsers would run its scripts with the gateway's origin.
"""


class _Connector(aiohttp.TCPConnector):
    """Connection pool that reuses a connection only if it has no unread data.

    If an upstream sends more than one response, the surplus response could otherwise become the answer to
    the next request on the same connection, possibly from another client.
    """

    async def _get(self, *arguments: Any) -> Any:
        while (connection := await super()._get(*arguments)) is not None:
            protocol = connection.protocol
            # ``should_close`` is also true if the connection has received data that no request has read.
            if protocol is not None and not protocol.should_close:
                return connection
            connection.close()
        return None


class Connection:
    """HTTP connections to one upstream."""

    def __init__(
        self, url: str, *, key: str, connect: float, idle: float, limit: int, ca: str = "", proxy: str = ""
    ) -> None:
        """Create connections; call :meth:`start` before the first request.

        :param ca: PEM file with the certificates that the upstream's certificate is checked against; by
            default, those of the system.
        :param proxy: URL of an HTTP proxy.
        """
        self.url = url.rstrip("/").removesuffix("/v1")
        """Base URL without ``/v1``."""
        self._key = key
        hide_key(key)
        self._ssl = _load_ca(ca) if ca else True
        self._proxy = proxy or None
        if "@" in proxy:
            user_info = proxy.partition("://")[2].rpartition("@")[0]
            hide_key(user_info)
            hide_key(user_info.partition(":")[2])
        self._limit = limit
        self._idle = idle
        self._start_timeout = connect + idle
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=idle)
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Create the client session; requires a running event loop."""
        headers = {"Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._session = aiohttp.ClientSession(
            # uvicorn closes idle connections after five seconds, so close them before that.
            connector=_Connector(limit=0, keepalive_timeout=4, ssl=self._ssl),
            timeout=self._timeout,
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )

    async def stop(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str) -> Any:
        """Send a GET request; return the JSON response, or None if the request fails."""
        return await self._json("GET", path)

    async def post_json(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a POST request with JSON; return the JSON response, or None if the request fails."""
        return await self._json("POST", path, body)

    async def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            options = {} if body is None else {"data": msgspec.json.encode(body), "headers": _JSON}
            async with asyncio.timeout(_JSON_TIMEOUT):
                response = ForwardedResponse(
                    await self._send(method, path, **options), self._limit, self._idle
                )
                try:
                    data = await response.read_all() if response.ok else b""
                finally:
                    await response.close()
            return VALUES.decode(data) if data else None
        except (Failure, aiohttp.ClientError, OSError, msgspec.MsgspecError, ValueError, RecursionError):
            return None

    async def reachable(self) -> bool:
        """Return whether the upstream answers a health check, with a status below 500 and no redirect."""
        try:
            async with asyncio.timeout(_HEALTH_TIMEOUT):
                response = await self._send("GET", "/health")
                response.release()
                return response.status < 500 and not _is_redirect(response)
        except (Failure, aiohttp.ClientError, OSError):
            return False

    async def _send(self, method: str, path: str, **options: Any) -> aiohttp.ClientResponse:
        """Send a request without following redirects."""
        if self._session is None:
            raise Failure("overloaded", "the gateway is not ready", code="not_ready")
        return await self._session.request(
            method, self.url + path, allow_redirects=False, proxy=self._proxy, **options
        )

    async def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Events:
        """Post a generation request and return its event stream."""
        headers = {**headers, "Accept": "text/event-stream"}
        return Events(await self._start(path, body, headers), self._limit, self._idle)

    async def forward(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ForwardedResponse:
        """Post a request and return its response, which may be a stream."""
        response = await self._start(path, body, {**headers, "Accept": "*/*"})
        if response.content_type not in _FORWARDED_TYPES:
            response.close()
            message = "the upstream sent an unexpected content type"
            detail = redact_keys(response.content_type)
            raise Failure("upstream", message, code="upstream_protocol", detail=detail)
        return ForwardedResponse(response, self._limit, self._idle)

    async def _start(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """Post a request; return the response if its status is 200, otherwise raise a failure."""
        data = msgspec.json.encode(body)
        headers = {**_JSON, **headers}
        try:
            async with asyncio.timeout(self._start_timeout):
                response = await self._post_with_retries(path, data=data, headers=headers)
                if response.status == 200 and not _is_compressed(response):
                    return response
                try:
                    raise await self._read_failure(response)
                finally:
                    response.close()
        except TimeoutError as error:
            raise timeout_failure() from error

    async def _post_with_retries(self, path: str, **options: Any) -> aiohttp.ClientResponse:
        for attempt in range(_ATTEMPTS):
            try:
                return await self._send("POST", path, **options)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                raise connect_failure(error) from error
            except TimeoutError as error:
                raise timeout_failure() from error
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                # The upstream has probably just closed an idle connection from the pool, so try again.
                if attempt == _ATTEMPTS - 1:
                    raise connection_failure(error) from error
            except aiohttp.ClientError as error:
                raise connection_failure(error) from error
        raise AssertionError  # the last attempt returns or raises

    async def _read_failure(self, response: aiohttp.ClientResponse) -> Failure:
        """Return the failure that an error response describes."""
        if _is_redirect(response):
            return redirect_failure(response.status, response.headers.get("location", ""))
        if _is_compressed(response):
            message = "the upstream sent a compressed response, which the gateway does not accept"
            return Failure("upstream", message, code="upstream_protocol")
        data = b""
        try:
            while len(data) < _MAX_ERROR_BODY and (portion := await response.content.read(_MAX_ERROR_BODY)):
                data += portion
        except aiohttp.ClientError:
            pass
        text = data.decode("utf-8", "replace")
        with suppress(ValueError, RecursionError):
            text = message_of(json.loads(text)) or text
        retry_after = response.headers.get("retry-after", "")
        return status_failure(response.status, text, reason=response.reason or "", retry_after=retry_after)


def _load_ca(path: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path)
    except ssl.SSLError as error:
        raise UsageError(f"upstream_ca={path}: not a file with certificates in PEM format") from error
    except OSError as error:
        raise UsageError(f"upstream_ca: cannot read {path}: {error.strerror}") from error


def _raise_error(payload: bytes | bytearray) -> None:
    """Raise a failure if a payload is an error object, whose message may contain addresses or keys."""
    if len(payload) > _MAX_ERROR_BODY or b'"error"' not in payload:
        return
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return
    if message_of(value):
        raise error_object_failure(value)


def _is_redirect(response: aiohttp.ClientResponse) -> bool:
    return 300 <= response.status < 400


def _is_compressed(response: aiohttp.ClientResponse) -> bool:
    return response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")


class _BodyReader:
    """Reader of a response body that returns all received data before it raises a failure."""

    __slots__ = ("content", "failure")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.content = response.content
        self.failure: Failure | None = None
        """Failure that the next call to :meth:`read` raises."""

    async def read(self) -> bytes:
        """Return the data from the next read, or empty bytes at the end of the stream."""
        if self.failure is not None:
            raise self.failure
        try:
            return await self.content.readany()
        except (TimeoutError, aiohttp.ClientError) as error:
            return self.read_rest(error)

    def read_rest(self, error: Exception) -> bytes:
        """Return the data that arrived before a read failed; the next read raises the failure.

        If there is no such data, raise the failure at once.
        """
        if isinstance(error, TimeoutError):
            self.failure = timeout_failure()
            raise self.failure from error
        self.failure = connection_failure(error)
        # After a connection has broken, aiohttp's public methods no longer return data that arrived earlier.
        data = self.content._read_nowait(-1)  # noqa: SLF001
        if not data:
            raise self.failure from error
        return data


class IdleTimer:
    """Timer that limits how long an upstream may send bytes without any output.

    The socket timeout only applies if no bytes arrive.  Comments and partial events reset the socket
    timeout, but not this timer.  The timer reads the clock only after reads without output, so normal
    reads cost nothing.
    """

    __slots__ = ("_clock", "_timeout", "started")

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout = timeout
        self._clock = clock
        self.started: float | None = None
        """Time of the first read without output; None if the last read had output."""

    def reset(self) -> None:
        """Record a read with output."""
        self.started = None

    def check(self) -> None:
        """Record a read without output; raise a failure if there has been no output for too long."""
        now = self._clock()
        if self.started is None:
            self.started = now
        elif now - self.started > self._timeout:
            raise timeout_failure()


class ForwardedResponse:
    """Response that is passed on unchanged, as raw data or as complete events of a stream."""

    def __init__(self, response: aiohttp.ClientResponse, limit: int, idle: float) -> None:
        self._response = response
        self._body = _BodyReader(response)
        self._remaining = limit
        self._idle_timer = IdleTimer(idle)
        self._failure: Failure | None = None
        """Failure that followed events in the same network read; the next call to :meth:`read` raises it."""
        self.ok = response.status == 200 and not _is_compressed(response)
        """True if the status is 200 and the body is not compressed."""
        self.content_type = response.content_type
        self.on_close: Callable[[], None] | None = None
        """Function that is called when the response is closed."""
        self._events = EventReader(limit) if self.streams else None

    @property
    def streams(self) -> bool:
        """True if the response is a stream of server-sent events."""
        return self.content_type == "text/event-stream"

    async def read(self) -> bytes:
        """Return the next part of the response, or empty bytes at the end."""
        if self._failure is not None:
            raise self._failure
        while portion := await self._body.read():
            self._remaining -= len(portion)
            if self._remaining < 0:
                raise size_failure()
            if self._events is None:
                self._idle_timer.check()
                return portion
            try:
                events = self._events.feed(portion)
            except ProtocolError as error:
                raise protocol_failure(error) from error
            if data := self._encode_events(events):
                self._idle_timer.reset()
                return data
            self._idle_timer.check()
        return b"" if self._events is None else self._encode_events(self._events.finish())

    def _encode_events(self, events: list[bytes]) -> bytes:
        """Encode parsed events as server-sent events; raise failures for invalid JSON and error objects.

        If valid events precede the failure, return them; the next read then raises the failure.
        """
        out: list[bytes] = []
        for payload in events:
            try:
                if payload != _DONE:
                    msgspec.json.decode(payload, type=msgspec.Raw)
                    payload.decode()
                    _raise_error(payload)
            except Failure as failure:
                self._failure = failure
                if not out:
                    raise
                break
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                message = "the upstream sent an event that is not JSON"
                self._failure = Failure("upstream", message, code="upstream_protocol")
                if not out:
                    raise self._failure from error
                break
            out.append(b"data: %b\n\n" % payload.replace(b"\n", b"\ndata: "))
        return b"".join(out)

    async def read_all(self) -> bytes:
        """Return the whole body."""
        data = bytearray()
        while portion := await self.read():
            data += portion
        _raise_error(data)
        return bytes(data)

    async def close(self) -> None:
        """Release the connection, which can be reused if the response is complete."""
        if self.on_close is not None:
            self.on_close()
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


class Events:
    """Events of one response: server-sent events, JSON lines, or one JSON body."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        limit: int,
        idle: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._response = response
        self._body = _BodyReader(response)
        self._limit = limit
        lines = response.content_type == "application/x-ndjson"
        self._reader = LineReader(limit) if lines else EventReader(limit)
        self._finished = False
        self.idle_timer = IdleTimer(idle, clock)
        """Timer that the caller must reset whenever an event has output."""
        self.end_marked = False
        """True once the upstream has marked the end of the stream."""
        self.is_json = response.content_type == "application/json"
        """True if the response is one JSON body and not a stream; the body is then read as one event."""

    async def read(self) -> list[bytes] | None:
        """Return the data of all events in the next read, or None at the end."""
        if self._finished:
            return None
        if self.is_json:
            self._finished = self.end_marked = True
            return [await self._read_all()]
        body = self._body
        while True:
            # This code duplicates body.read(), because another coroutine per read would slow all streams.
            if body.failure is not None:
                raise body.failure
            try:
                portion = await body.content.readany()
            except (TimeoutError, aiohttp.ClientError) as error:
                portion = body.read_rest(error)
            try:
                events = self._reader.feed(portion) if portion else self._reader.finish()
            except ProtocolError as error:
                raise protocol_failure(error) from error
            if not portion:
                self._finished = True
            if _DONE in events:  # ignore everything after the end marker
                self._finished = self.end_marked = True
                events = events[: events.index(_DONE)]
            if events or self._finished:
                return events
            self.idle_timer.check()

    async def _read_all(self) -> bytes:
        """Return the whole body."""
        data = bytearray()
        while portion := await self._body.read():
            data += portion
            if len(data) > self._limit:
                raise size_failure()
            self.idle_timer.check()
        return bytes(data)

    async def close(self) -> None:
        """Release the connection, which can be reused if the response is complete."""
        content = self._response.content
        if self.end_marked and not content.at_eof():
            try:
                async with asyncio.timeout(_DRAIN_TIMEOUT):
                    await content.readany()
            except (TimeoutError, aiohttp.ClientError):
                pass
        if content.at_eof():
            self._response.release()
        else:
            self._response.close()
