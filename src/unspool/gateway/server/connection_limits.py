"""HTTP protocol for client connections, with limits on the resources that a client can use.

uvicorn's parser has no limits of its own.  This subclass of uvicorn's protocol adds these limits:

- Request head (the request line and the headers): its size, its number of headers, and the time until it is
  complete.
- Data that arrives after the response (the rest of the request body, or the head of the next request): the
  time until the data is complete, with the same limit as for a request head.  The rest of a body is read
  slowly and discarded, because many clients send the whole body before they read the response.
- Idle time between requests: ``keep_alive_timeout``.  After this time, the connection is closed, even if the
  client has not yet read the end of its last response.
- Number of connections: ``max_connections``, or fewer if the process has too few file
  descriptors.  At the limit, the connection that has been idle for the longest time is closed.
  If no connection is idle, the new connection is refused with status 503.

From the end of the head to the end of the response, ``http/exchange.py`` enforces timeouts and may
close the connection.  No code in this module runs when a delta is sent.

uvicorn does not document the attributes of its protocol, so ``pyproject.toml`` limits its version to releases
whose attributes a test has checked.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..http.exchange import ABORT
from ..settings import Settings
from ..telemetry.logs import log

MAX_HEAD_BYTES: Final = 1 << 16
"""Maximum size in bytes of the request line and all headers, and of the trailers after a body."""
MAX_HEAD_FIELDS: Final = 100
_BODY_CHUNKS: Final = 4096
_BYTES_PER_CHUNK: Final = 256
"""Number of body bytes for which one more chunk is allowed, in addition to ``_BODY_CHUNKS`` chunks."""
_MAX_PIPELINED: Final = 8
"""Maximum number of waiting requests per connection; a request waits until all earlier ones are answered."""
_READ_PAUSE: Final = 0.01
"""Seconds between two reads of a body that is discarded; limits reading to 25 MB per second."""
_RESERVED_FILES: Final = 128
"""Number of file descriptors for purposes other than connections to clients and upstreams."""


class ConnectionLimits:
    """Limits and state that all connections of a server share."""

    def __init__(self, settings: Settings, count: Callable[[str], None]) -> None:
        """Read the limits from the settings.

        :param count: called with the reason when a connection is refused or dropped.
        """
        self.count = count
        self.idle: dict[GatewayProtocol, None] = {}
        """Connections without a request; the first one has been idle for the longest time."""
        self.change(settings)

    def change(self, settings: Settings) -> None:
        """Read the limits from new settings; they apply from the next request on."""
        self.head_timeout = settings.header_timeout
        self.client_timeout = settings.client_timeout
        self.max_connections = settings.max_connections
        files = _max_file_descriptors()
        if files is not None:
            # A request needs two file descriptors: one for its client and one for its upstream.
            self.max_connections = min(self.max_connections, max(1, (files - _RESERVED_FILES) // 2))

    def random_head_timeout(self) -> float:
        """Return a timeout for a request head, in seconds: between 60 and 100 % of ``header_timeout``.

        If all timeouts were equal, many connections could be dropped at the same time, and their clients
        would reconnect at the same time.
        """
        return self.head_timeout * random.uniform(0.6, 1.0)  # noqa: S311 - the timeout is not a secret

    def make_room(self, open_connections: int) -> bool:
        """Return whether a new connection may stay; drop an idle connection if there are too many."""
        if open_connections <= self.max_connections:
            return True
        for oldest in self.idle:
            self.count("made_room")
            oldest.drop()
            return True
        return False


class GatewayProtocol(HttpToolsProtocol):
    """Protocol for one connection from a client."""

    def __init__(self, limits: ConnectionLimits, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._limits = limits
        self._bytes = 0
        """Number of bytes received since the last part of a body or the end of the last request."""
        self._head_bytes = 0
        self._fields = 0
        self._chunks = 0
        """Number of chunks in which the body has arrived so far."""
        self._body_bytes = 0
        self._body_incomplete = False
        self._deadline: asyncio.TimerHandle | None = None
        """Timer that drops the connection if the client does not send or read the expected data in time."""
        self._pause: asyncio.TimerHandle | None = None
        """Timer that resumes reading after a pause."""
        self._refusal: tuple[int, str, str] = (400, "bad_request", "the request is not valid HTTP")
        """Status, code and message for a request that the parser rejects."""

    # -- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._limits.make_room(len(self.connections)):
            self._refuse(503, "too_many_connections", "too many connections; retry later")
            return
        self._limits.idle[self] = None
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.idle.pop(self, None)
        self._stop_deadline()
        if self._pause is not None:
            self._pause.cancel()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once and discard buffered data."""
        self._limits.idle.pop(self, None)
        self._stop_deadline()
        self.transport.abort()

    @property
    def _is_responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    # -- received data

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # upgrades are not supported, so the request is answered without an upgrade
        except httptools.HttpParserError:
            self._refuse(*self._refusal)
            return
        if self._bytes > MAX_HEAD_BYTES:
            self._refuse(*_HEAD_TOO_LARGE)
        elif self._deadline is None and not self._is_responding:
            # The data is the start of a request, or the rest of a body whose request has already been
            # answered.
            self._start_deadline()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = self._fields = self._chunks = self._body_bytes = 0
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        self._head_bytes += len(name) + len(value)
        if self._fields > MAX_HEAD_FIELDS or self._head_bytes + len(self.url) > MAX_HEAD_BYTES:
            self._stop_parser(*_HEAD_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _MAX_PIPELINED:
            self._stop_parser(400, "bad_request", "too many requests before the first response")
        if not self.url.startswith((b"/", b"*")):
            authority = self.url.partition(b"://")[2].partition(b"/")[0].lower()
            if any(name == b"host" and value.lower() != authority for name, value in self.headers):
                self._stop_parser(
                    400, "bad_request", "the request line and the Host header name different hosts"
                )
        super().on_headers_complete()
        self._body_incomplete = True
        self._limits.idle.pop(self, None)
        self._stop_deadline()

    def on_body(self, body: bytes) -> None:
        self._bytes = 0
        self._chunks += 1
        self._body_bytes += len(body)
        if self._chunks > _BODY_CHUNKS + self._body_bytes // _BYTES_PER_CHUNK:
            self._stop_parser(400, "bad_request", "the body arrives in too many chunks")
        super().on_body(body)
        if not self._is_responding:
            self._pause_reading()

    def on_message_complete(self) -> None:
        self._bytes = 0
        self._body_incomplete = False
        super().on_message_complete()

    # -- sent data

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            # A closing connection stays open until its buffered data is sent, so limit the time that a client
            # has to read the data.
            self._stop_deadline()
            self._deadline = self.loop.call_later(self._limits.client_timeout, self.drop)
        elif self._body_incomplete:
            self._start_deadline()
        elif not self._is_responding:
            self._limits.idle[self] = None

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self._limits.count("does_not_read")
            self.drop()
        else:
            super().timeout_keep_alive_handler()

    # -- timers

    def _start_deadline(self) -> None:
        self._stop_deadline()
        self._deadline = self.loop.call_later(self._limits.random_head_timeout(), self._on_deadline)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        self._deadline = None
        if self._is_responding:
            return
        if self._bytes and not self._body_incomplete:
            self._refuse(408, "request_timeout", "the request did not arrive in time")
        else:
            self._limits.count("request_timeout")
            self.drop()

    def _pause_reading(self) -> None:
        if self._pause is None:
            self.flow.pause_reading()
            self._pause = self.loop.call_later(_READ_PAUSE, self._resume_reading)

    def _resume_reading(self) -> None:
        self._pause = None
        if not self.transport.is_closing():
            self.flow.resume_reading()

    # -- refusals

    def _stop_parser(self, status: int, code: str, message: str) -> None:
        """Make the parser fail in ``data_received()``, which sends the refusal."""
        self._refusal = (status, code, message)
        raise _ParserStopped

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Send an error and close the connection."""
        self._limits.count(code)
        log(logging.DEBUG, "connection_refused", status=status, error=code)
        if self._is_responding:
            # An error response would end up in the middle of the response that is being sent.
            self.drop()
            return
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
        body = msgspec.json.encode({"error": error})
        later = b"retry-after: 1\r\n" if status == 503 else b""
        head = b"content-type: application/json\r\ncontent-length: %d\r\n%bconnection: close\r\n\r\n"
        line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
        self.transport.write(line + head % (len(body), later) + body)
        self.transport.close()
        self._stop_deadline()
        self._deadline = self.loop.call_later(self._limits.head_timeout, self.drop)


class _ParserStopped(Exception):
    """Error that stops the parser when a request exceeds a limit."""


_HEAD_TOO_LARGE: Final = (
    431,
    "head_too_large",
    f"the request's head is larger than {MAX_HEAD_BYTES} bytes or {MAX_HEAD_FIELDS} fields",
)


def _max_file_descriptors() -> int | None:
    """Raise this process's limit on file descriptors; return the new limit, or None if there is none."""
    try:
        import resource
    except ImportError:  # Windows has no such module
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return None if soft == resource.RLIM_INFINITY else soft
