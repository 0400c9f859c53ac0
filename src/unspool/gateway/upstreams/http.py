"""Upstreams behind HTTP: one client session, streams of events, errors as failures."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import aiohttp
import msgspec

from ..failure import Failure, Kind
from .sse import EventReader, LineReader

_DONE: Final = b"[DONE]"
_DRAIN: Final = 0.2
"""Seconds to wait for the end of a response behind its last event, to use the connection again."""
_ATTEMPTS: Final = 3
_SHOWN: Final = 500
"""Characters of an upstream's error that are passed on."""


class Connection:
    """The way to an upstream."""

    def __init__(self, url: str, *, key: str, connect: float, idle: float, limit: int) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        """Its address, without the version."""
        self._key = key
        self._limit = limit
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=idle)
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the session; needs the running loop."""
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._session = aiohttp.ClientSession(
            # Servers drop idle connections after five seconds (uvicorn): be first.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=4),
            timeout=self._timeout,
            headers=headers,
            json_serialize=lambda value: json.dumps(value, ensure_ascii=False),
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
        return await self._json("POST", path, json=body)

    async def _json(self, method: str, path: str, **more: Any) -> Any:
        if self._session is None:
            return None
        timeout = aiohttp.ClientTimeout(total=5)
        try:
            async with self._session.request(method, self.url + path, timeout=timeout, **more) as response:
                if response.status != 200:
                    return None
                return msgspec.json.decode(await Events(response, self._limit).all())
        except (Failure, aiohttp.ClientError, TimeoutError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    async def reachable(self) -> bool:
        """Whether anything answers there."""
        if self._session is None:
            return False
        try:
            async with self._session.get(
                f"{self.url}/health", timeout=aiohttp.ClientTimeout(total=2)
            ) as response:
                return response.status < 500
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def post(self, path: str, body: Mapping[str, Any]) -> Events:
        """Begin a stream."""
        return Events(await self._begin(path, body, "text/event-stream"), self._limit)

    async def forward(self, path: str, body: Mapping[str, Any]) -> Passed:
        """Begin whatever the body asks for."""
        return Passed(await self._begin(path, body, "*/*"), self._limit)

    async def _begin(self, path: str, body: Mapping[str, Any], accept: str) -> aiohttp.ClientResponse:
        if self._session is None:
            raise Failure("overloaded", "the gateway is not ready", code="not_ready")
        data = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", "Accept": accept}
        for attempt in range(_ATTEMPTS):
            try:
                response = await self._session.post(self.url + path, data=data, headers=headers)
                break
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                # Its own words have the address in them, which is nobody's business.
                number = getattr(error, "errno", None)
                told = os.strerror(number) if number else "no connection in time"
                raise Failure(
                    "upstream", f"cannot reach the upstream: {told}", code="upstream_refused"
                ) from error
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                # As a rule it was a pooled connection that the upstream had just given up.
                if attempt == _ATTEMPTS - 1:
                    raise lost(error) from error
            except TimeoutError as error:
                raise silent() from error
            except aiohttp.ClientError as error:
                raise lost(error) from error
        if response.status != 200:
            try:
                raise await self._refusal(response)
            finally:
                response.close()
        return response

    async def _refusal(self, response: aiohttp.ClientResponse) -> Failure:
        """What the upstream says is wrong."""
        try:
            text = (await response.content.read(1 << 16)).decode("utf-8", "replace")
        except (aiohttp.ClientError, TimeoutError):
            text = ""
        try:
            found = message_of(json.loads(text)) or text
        except ValueError:
            found = text
        told = " ".join(found.split())[:_SHOWN] or response.reason or "no reason given"
        match response.status:
            case 400 | 413 | 422:
                # It read the request and did not like it: so will it for every other client.
                return Failure(
                    "invalid_request", f"the upstream rejects this: {told}", code="upstream_rejected"
                )
            case 429:
                kind: Kind = "rate_limit"
            case 503:
                kind = "overloaded"
            case status:
                return Failure("upstream", f"the upstream answers {status}: {told}", code="upstream_error")
        later = response.headers.get("retry-after", "")
        return Failure(kind, f"the upstream is busy: {told}", code="upstream_busy", retry_after=later)


def lost(error: Exception) -> Failure:
    """The connection broke."""
    told = str(error).partition("\n")[0] or type(error).__name__
    return Failure("upstream", f"the connection to the upstream broke: {told}", code="upstream_lost")


def silent() -> Failure:
    """Nothing came for too long."""
    return Failure("timeout", "the upstream was silent for too long", code="upstream_timeout")


def message_of(value: object) -> str:
    """The message of an error object, in any of the forms that engines send; empty: it is none."""
    if not isinstance(value, Mapping):
        return ""
    error = value.get("error", value if value.get("object") == "error" else None)
    if isinstance(error, str):
        return error or "unknown error"
    if isinstance(error, Mapping):
        return str(error.get("message") or error.get("detail") or error.get("type") or "unknown error")
    return str(value["detail"]) if "detail" in value else ""


class Passed:
    """A response that is handed on as it is."""

    def __init__(self, response: aiohttp.ClientResponse, limit: int) -> None:
        self._response = response
        self._left = limit
        self.content_type = response.headers.get("content-type", "application/json")
        self.closed: Callable[[], None] | None = None
        """Called when it is over."""

    async def read(self) -> bytes:
        """What has come in since; empty: there is no more."""
        portion = await portion_of(self._response)
        self._left -= len(portion)
        if self._left < 0:
            raise Failure("upstream", "the upstream's response is too large", code="output_too_large")
        return portion

    async def all(self) -> bytes:
        """The whole of it."""
        portions: list[bytes] = []
        while portion := await self.read():
            portions.append(portion)
        return b"".join(portions)

    async def close(self) -> None:
        """Let go of the connection; back into the pool if the response is over."""
        if self.closed is not None:
            self.closed()
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


async def portion_of(response: aiohttp.ClientResponse) -> bytes:
    """What a read brings."""
    try:
        return await response.content.readany()
    except TimeoutError as error:
        raise silent() from error
    except aiohttp.ClientError as error:
        raise lost(error) from error


class Events:
    """The events of one response."""

    def __init__(self, response: aiohttp.ClientResponse, limit: int) -> None:
        self._response = response
        self._limit = limit
        lines = response.content_type == "application/x-ndjson"
        self._reader = LineReader(limit) if lines else EventReader(limit)
        self._over = False
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
            return [await self.all()]
        while True:
            portion = await portion_of(self._response)
            events = self._reader.feed(portion) if portion else self._reader.finish()
            if not portion:
                self._over = True
            if _DONE in events:
                self._over = self.told_end = True
                events = events[: events.index(_DONE)]
            if events or self._over:
                return events

    async def all(self) -> bytes:
        """The whole of a response that is not a stream."""
        portions: list[bytes] = []
        while portion := await portion_of(self._response):
            portions.append(portion)
            if sum(map(len, portions)) > self._limit:
                raise Failure("upstream", "the upstream's response is too large", code="upstream_protocol")
        return b"".join(portions)

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
