"""Transports for httpx and for other HTTP clients with its interface.

The libraries httpx and httpx2 have the same interface, but each one accepts only its own classes.  So
``httpx.py`` and ``httpx2.py`` combine the classes in this module with those of one library.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar, Generic, TypeVar

from ..dialects import Dialect
from ..errors import UsageError
from ..policies import Policies, PolicyChoice, as_policies
from ._http_exchange import EngineName, Exchange, Reading, StreamRepair, api_of, error_body

Wrapped = TypeVar("Wrapped")
"""The HTTP library's type for transports."""


class RepairedStream:
    """Body of a streamed response, repaired while it arrives."""

    def __init__(self, response: Any, repair: StreamRepair) -> None:
        self._response = response
        self._repair = repair

    def __iter__(self) -> Iterator[bytes]:
        for data in self._response.iter_bytes():
            if repaired := self._repair.feed(data):
                yield repaired
            if self._repair.failed:
                break
        if last := self._repair.finish():
            yield last

    def close(self) -> None:
        """Close the server's response."""
        self._response.close()


class AsyncRepairedStream:
    """Body of a streamed response for asynchronous clients."""

    def __init__(self, response: Any, repair: StreamRepair) -> None:
        self._response = response
        self._repair = repair

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._response.aiter_bytes():
            if repaired := self._repair.feed(data):
                yield repaired
            if self._repair.failed:
                break
        if last := self._repair.finish():
            yield last

    async def aclose(self) -> None:
        """Close the server's response."""
        await self._response.aclose()


def _with_bare_calls(choice: PolicyChoice | None) -> Policies:
    """Return policies; a mapping or the name of a preset that says nothing of bare calls accepts them.

    The server may have removed the markers of a call that begins the answer.
    """
    if isinstance(choice, Policies):
        return choice
    named = {"preset": choice} if isinstance(choice, str) else choice or {}
    return as_policies({"bare_calls": "alone", **named})


class BaseRepairingTransport(Generic[Wrapped]):
    """Settings of a transport, and the steps that need no input or output."""

    _library: ClassVar[Any]
    """The HTTP library."""
    _default: ClassVar[Any]
    """Function that returns the default transport to wrap."""

    def __init__(
        self,
        dialect: str | Dialect,
        wrap: Wrapped | None = None,
        *,
        template: str | None = None,
        engine: EngineName | None = None,
        policies: PolicyChoice | None = None,
    ) -> None:
        """Create a transport.

        :param dialect: the model's dialect, or ``"auto"`` to find it from the model's name in each request.
        :param wrap: the transport that sends the requests; by default, a new transport of the HTTP library.
        :param template: the model's chat template, from which the dialect is detected; only with ``"auto"``.
        :param engine: the engine of the server: ``vllm``, ``sglang`` or ``llamacpp``.  The transport then
            adds the request fields that make the engine leave all markup in the text; without an engine,
            the transport does not change requests.
        :param policies: the policies for the parsers.  The default of ``bare_calls`` is ``alone``.
        """
        self._reading = Reading.create(dialect, template, engine, _with_bare_calls(policies))
        self._inner: Any = self._default() if wrap is None else wrap

    def _open(self, request: Any, body: bytes) -> Exchange | Any | None:
        """Return a request's exchange, a response that rejects the request, or None to change nothing."""
        api = api_of(request.method, request.url.path)
        assert api is not None  # noqa: S101 - the caller has checked it
        try:
            return self._reading.open(api, body)
        except UsageError as error:
            headers = {"content-type": "application/json"}
            return self._library.Response(400, headers=headers, content=error_body(api, error))

    def _request(self, request: Any, exchange: Exchange) -> Any:
        """Return the request to send to the server."""
        headers = request.headers.copy()
        for name in ("content-length", "transfer-encoding"):
            headers.pop(name, None)
        headers["accept-encoding"] = "identity"
        return self._library.Request(
            request.method,
            request.url,
            headers=headers,
            content=exchange.request_body,
            extensions=request.extensions,
        )

    def _respond(self, response: Any, status: int = 200, **body: Any) -> Any:
        """Return the response for the client."""
        headers = response.headers.copy()
        for name in ("content-length", "content-encoding", "transfer-encoding"):
            headers.pop(name, None)
        if status != 200:
            headers["x-should-retry"] = "false"  # the SDKs would ask the model again, up to three times
        return self._library.Response(status, headers=headers, extensions=response.extensions, **body)


class RepairingTransport(BaseRepairingTransport[Wrapped]):
    """Transport for synchronous clients."""

    _stream: ClassVar[type[RepairedStream]]

    def handle_request(self, request: Any) -> Any:
        """Send a request, and return the response; repair the response if it contains a model's output."""
        if api_of(request.method, request.url.path) is None:
            return self._inner.handle_request(request)
        exchange = self._open(request, request.read())
        if exchange is None:
            return self._inner.handle_request(request)
        if not isinstance(exchange, Exchange):
            return exchange
        response = self._inner.handle_request(self._request(request, exchange))
        kind = _media_type(response)
        if kind == "text/event-stream":
            return self._respond(response, stream=self._stream(response, exchange.stream()))
        if kind == "application/json":
            try:
                data = response.read()
            finally:
                response.close()
            status, data = exchange.read_whole(data)
            return self._respond(response, status, content=data)
        return response

    def close(self) -> None:
        """Close the wrapped transport."""
        self._inner.close()


class AsyncRepairingTransport(BaseRepairingTransport[Wrapped]):
    """Transport for asynchronous clients."""

    _stream: ClassVar[type[AsyncRepairedStream]]

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request, and return the response; repair the response if it contains a model's output."""
        if api_of(request.method, request.url.path) is None:
            return await self._inner.handle_async_request(request)
        exchange = self._open(request, await request.aread())
        if exchange is None:
            return await self._inner.handle_async_request(request)
        if not isinstance(exchange, Exchange):
            return exchange
        response = await self._inner.handle_async_request(self._request(request, exchange))
        kind = _media_type(response)
        if kind == "text/event-stream":
            return self._respond(response, stream=self._stream(response, exchange.stream()))
        if kind == "application/json":
            try:
                data = await response.aread()
            finally:
                await response.aclose()
            status, data = exchange.read_whole(data)
            return self._respond(response, status, content=data)
        return response

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._inner.aclose()


def _media_type(response: Any) -> str:
    """Return the media type of a response that may be repaired; an empty string for any other response."""
    if response.status_code != 200:
        return ""
    value: str = response.headers.get("content-type", "")
    return value.partition(";")[0].strip().lower()
