"""Upstreams behind HTTP: one client session, streams of events, errors as failures.

An upstream is trusted with the request that it is sent, and with nothing else.  It is not
followed elsewhere, remembers nothing here (cookies), unpacks nothing here (compression was
not asked for), and what it says is bounded in size and in time: headers, events, the whole.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import aiohttp
import msgspec

from ..http.errors import Failure
from ..http.json_decoding import VALUES
from .errors import (
    failed,
    hide_key,
    lost,
    message_of,
    redirected,
    refused,
    silent,
    too_large,
    unreachable,
    without_keys,
)
from .sse import EventReader, LineReader

_DONE: Final = b"[DONE]"
_DRAIN: Final = 0.2
"""Seconds to wait for the end of a response behind its last event, to use the connection again."""
_ATTEMPTS: Final = 3
_ASKED: Final = 5.0
"""Seconds for an answer to a question ..."""
_ALIVE: Final = 2.0
"""... to that for its health ..."""
_REFUSAL: Final = 1 << 16
"""... and how many bytes of a refusal are read."""
_JSON: Final = {"Content-Type": "application/json"}
_TYPES: Final = ("application/json", "text/event-stream", "application/x-ndjson", "application/octet-stream")
"""What responses that are handed on may be: no web pages in our name."""


class _Connector(aiohttp.TCPConnector):
    """Connections that are used again only if nothing came on them in the meantime.

    An upstream that answers twice would otherwise answer the next request, of somebody else.
    """

    async def _get(self, *arguments: Any) -> Any:
        while (found := await super()._get(*arguments)) is not None:
            protocol = found.protocol
            if protocol is not None and not protocol.should_close:
                return found
            found.close()
        return None


class Connection:
    """The way to an upstream."""

    def __init__(self, url: str, *, key: str, connect: float, idle: float, limit: int) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        """Its address, without the version."""
        self._key = key
        hide_key(key)
        self._limit = limit
        self._idle = idle
        self._begin_by = connect + idle
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=idle)
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the session; needs the running loop."""
        headers = {"Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._session = aiohttp.ClientSession(
            # Servers drop idle connections after five seconds (uvicorn): be first.
            connector=_Connector(limit=0, keepalive_timeout=4),
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
        """The JSON at a path; None if there is none."""
        return await self._json("GET", path)

    async def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that is the answer to some other JSON; None if there is none."""
        return await self._json("POST", path, body)

    async def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            more = {} if body is None else {"data": msgspec.json.encode(body), "headers": _JSON}
            async with asyncio.timeout(_ASKED):
                passed = Passed(await self._send(method, path, **more), self._limit, self._idle)
                try:
                    data = await passed.all() if passed.is_answer else b""
                finally:
                    await passed.close()
            return VALUES.decode(data) if data else None
        except (Failure, aiohttp.ClientError, OSError, msgspec.MsgspecError, ValueError, RecursionError):
            return None

    async def reachable(self) -> bool:
        """Whether anything answers there."""
        try:
            async with asyncio.timeout(_ALIVE):
                response = await self._send("GET", "/health")
                response.release()
                return response.status < 500 and not _points_elsewhere(response)
        except (Failure, aiohttp.ClientError, OSError):
            return False

    async def _send(self, method: str, path: str, **more: Any) -> aiohttp.ClientResponse:
        """Send a request; redirects are answers like any other."""
        if self._session is None:
            raise Failure("overloaded", "the gateway is not ready", code="not_ready")
        return await self._session.request(method, self.url + path, allow_redirects=False, **more)

    async def post(self, path: str, body: Mapping[str, Any]) -> Events:
        """Begin a stream."""
        return Events(await self._begin(path, body, "text/event-stream"), self._limit, self._idle)

    async def forward(self, path: str, body: Mapping[str, Any]) -> Passed:
        """Begin whatever the body asks for."""
        response = await self._begin(path, body, "*/*")
        if response.content_type not in _TYPES:
            response.close()
            told = "the upstream sent something else than was asked for"
            raise Failure(
                "upstream", told, code="upstream_protocol", detail=without_keys(response.content_type)
            )
        return Passed(response, self._limit, self._idle)

    async def _begin(self, path: str, body: Mapping[str, Any], accept: str) -> aiohttp.ClientResponse:
        data = msgspec.json.encode(body)
        headers = {**_JSON, "Accept": accept}
        try:
            async with asyncio.timeout(self._begin_by):
                response = await self._attempted(path, data=data, headers=headers)
                if response.status == 200 and not _is_encoded(response):
                    return response
                try:
                    raise await self._refusal(response)
                finally:
                    response.close()
        except TimeoutError as error:
            raise silent() from error

    async def _attempted(self, path: str, **more: Any) -> aiohttp.ClientResponse:
        for attempt in range(_ATTEMPTS):
            try:
                return await self._send("POST", path, **more)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                raise unreachable(error) from error
            except TimeoutError as error:
                raise silent() from error
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                # As a rule it was a pooled connection that the upstream had just given up.
                if attempt == _ATTEMPTS - 1:
                    raise lost(error) from error
            except aiohttp.ClientError as error:
                raise lost(error) from error
        raise AssertionError  # the last attempt has raised

    async def _refusal(self, response: aiohttp.ClientResponse) -> Failure:
        """What the upstream says is wrong."""
        if _points_elsewhere(response):
            return redirected(response.status, response.headers.get("location", ""))
        if _is_encoded(response):
            told = "the upstream compresses its answer, which nobody asked for"
            return Failure("upstream", told, code="upstream_protocol")
        text = b""
        try:
            while len(text) < _REFUSAL and (portion := await response.content.read(_REFUSAL)):
                text += portion
        except aiohttp.ClientError:
            pass
        said = text.decode("utf-8", "replace")
        with suppress(ValueError, RecursionError):
            said = message_of(json.loads(said)) or said
        later = response.headers.get("retry-after", "")
        return refused(response.status, said, reason=response.reason or "", later=later)


def _raise_error(payload: bytes | bytearray) -> None:
    """Raise the error that something handed on is instead: in its own words it may name places and keys."""
    if len(payload) > _REFUSAL or b'"error"' not in payload:
        return
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return
    if message_of(found):
        raise failed(found)


def _points_elsewhere(response: aiohttp.ClientResponse) -> bool:
    return 300 <= response.status < 400


def _is_encoded(response: aiohttp.ClientResponse) -> bool:
    return response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")


class _Portions:
    """What the reads of a response bring, each a portion, before the failure that ends it."""

    __slots__ = ("content", "failure")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.content = response.content
        self.failure: Failure | None = None
        """The failure to raise at the next read."""

    async def read(self) -> bytes:
        """Return the next portion; empty at the end."""
        if self.failure is not None:
            raise self.failure
        try:
            return await self.content.readany()
        except (TimeoutError, aiohttp.ClientError) as error:
            return self.last_portion(error)

    def last_portion(self, error: Exception) -> bytes:
        """Return what arrived before a read failed, and fail at the next read; fail now if there is none."""
        if isinstance(error, TimeoutError):
            self.failure = silent()
            raise self.failure from error
        self.failure = lost(error)
        # What arrived before the connection broke is still in the buffer of aiohttp.
        portion = self.content._read_nowait(-1)  # noqa: SLF001
        if not portion:
            raise self.failure from error
        return portion


class Patience:
    """How long an upstream may go on without saying anything that counts.

    Bytes keep a connection alive; only what they amount to is progress.  Looked at
    where a read brought none, so that it costs nothing where it did.
    """

    __slots__ = ("_clock", "_seconds", "since")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self.since: float | None = None
        """When the first read brought nothing; None: the last one did bring something."""

    def tried(self) -> None:
        """Another read has brought nothing; a failure if that has gone on for too long."""
        now = self._clock()
        if self.since is None:
            self.since = now
        elif now - self.since > self._seconds:
            raise silent()


class Passed:
    """A response that is handed on as it is; of a stream the events, each when it is whole."""

    def __init__(self, response: aiohttp.ClientResponse, limit: int, idle: float) -> None:
        self._response = response
        self._portions = _Portions(response)
        self._left = limit
        self._patience = Patience(idle)
        self._failure: Failure | None = None
        """What the last read brought behind its events."""
        self.is_answer = response.status == 200 and not _is_encoded(response)
        """There is something to be read."""
        self.content_type = response.content_type
        self.closed: Callable[[], None] | None = None
        """Called when it is over."""
        self._events = EventReader(limit) if self.streams else None

    @property
    def streams(self) -> bool:
        """Whether it is a stream of events."""
        return self.content_type == "text/event-stream"

    async def read(self) -> bytes:
        """What has come in since; empty: there is no more."""
        if self._failure is not None:
            raise self._failure
        while portion := await self._portions.read():
            self._left -= len(portion)
            if self._left < 0:
                raise too_large()
            if self._events is None:
                self._patience.tried()
                return portion
            if whole := self._whole(self._events.feed(portion)):
                self._patience.since = None
                return whole
            self._patience.tried()
        return b"" if self._events is None else self._whole(self._events.finish())

    def _whole(self, events: list[bytes]) -> bytes:
        """Events as they are sent: half of one, or one that is none, nobody could read."""
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
                told = "the upstream sent an event that is not JSON"
                self._failure = Failure("upstream", told, code="upstream_protocol")
                if not out:
                    raise self._failure from error
                break
            out.append(b"data: %b\n\n" % payload.replace(b"\n", b"\ndata: "))
        return b"".join(out)

    async def all(self) -> bytes:
        """The whole of it."""
        data = bytearray()
        while portion := await self.read():
            data += portion
        _raise_error(data)
        return bytes(data)

    async def close(self) -> None:
        """Let go of the connection; back into the pool if the response is over."""
        if self.closed is not None:
            self.closed()
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


class Events:
    """The events of one response."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        limit: int,
        idle: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._response = response
        self._portions = _Portions(response)
        self._limit = limit
        lines = response.content_type == "application/x-ndjson"
        self._reader = LineReader(limit) if lines else EventReader(limit)
        self._over = False
        self.patience = Patience(idle, clock)
        """Whoever reads the events says which of them count."""
        self.told_end = False
        """The upstream said that this was all."""
        self.whole = response.content_type == "application/json"
        """It is not a stream: there is one event, the whole response."""

    async def read(self) -> list[bytes] | None:
        """The data of the events that one read brought; None: the end."""
        if self._over:
            return None
        if self.whole:
            self._over = self.told_end = True
            return [await self._all()]
        portions = self._portions
        while True:
            # As in portions.read(), without one more coroutine for every read of every stream.
            if portions.failure is not None:
                raise portions.failure
            try:
                portion = await portions.content.readany()
            except (TimeoutError, aiohttp.ClientError) as error:
                portion = portions.last_portion(error)
            events = self._reader.feed(portion) if portion else self._reader.finish()
            if not portion:
                self._over = True
            if _DONE in events:
                self._over = self.told_end = True
                events = events[: events.index(_DONE)]
            if events or self._over:
                return events
            self.patience.tried()

    async def _all(self) -> bytes:
        """The whole of a response that is not a stream."""
        data = bytearray()
        while portion := await self._portions.read():
            data += portion
            if len(data) > self._limit:
                raise too_large()
            self.patience.tried()
        return bytes(data)

    async def close(self) -> None:
        """Let go of the connection; back into the pool if the response is over."""
        content = self._response.content
        if self.told_end and not content.at_eof():
            try:
                async with asyncio.timeout(_DRAIN):
                    await content.readany()
            except (TimeoutError, aiohttp.ClientError):
                pass
        if content.at_eof():
            self._response.release()
        else:
            self._response.close()
