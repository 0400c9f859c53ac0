"""The front door: what a connection may cost before anybody has shown a key.

uvicorn's parser has no limits of its own.  Here are those of a connection:

- The head of a request: its bytes, its fields, and the time until it is whole.
- What the client owes after its answer: the rest of a body that nobody reads, bytes
  that never become a request.  It has as long as for a head.  The rest of a body is
  taken, because many clients read no answer before they have sent all, but slowly.
- A connection that waits for its next request: ``keep_alive_timeout``.  One that does
  not take the end of its answer meanwhile is torn down, not closed politely.
- All of them: ``max_connections``, and no more than there are file descriptors for.
  Where that is reached, the connection that has been without a request the longest
  makes room; if all are being answered, the new one gets 503.

What happens between the head and the end of the answer is the matter of
``exchange.py``, which has leave to tear the connection down.  Nothing here runs when
a delta is sent.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any, Final

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ..http.exchange import ABORT
from ..settings import Settings
from ..telemetry.logs import log

HEAD_BYTES: Final = 1 << 16
"""Of the request line and all fields, and likewise of what follows a body."""
HEAD_FIELDS: Final = 100
_PIECES: Final = 4096
_PIECE_BYTES: Final = 256
"""A body may come in so many pieces, and one more for each of so many bytes."""
_PIPELINED: Final = 8
"""Requests that may wait for the answer to the one before them."""
_REST: Final = 0.01
"""Seconds between two reads of what nobody wants: 25 MB in a second, of a client that sends as much."""
_SPARE: Final = 128
"""File descriptors that are for other things than clients and upstreams."""


class ConnectionLimits:
    """What all connections of a server share."""

    def __init__(self, settings: Settings, count: Callable[[str], None]) -> None:
        """Prepare to let clients in.

        :param count: told why a connection was not let in, or given up.
        """
        self.head_timeout = settings.header_timeout
        self.client_timeout = settings.client_timeout
        self.most = settings.max_connections
        files = _file_descriptors()
        if files is not None:
            # Whoever is answered needs one for itself and one for the upstream.
            self.most = min(self.most, max(1, (files - _SPARE) // 2))
        self.count = count
        self.idle: dict[GatewayProtocol, None] = {}
        """Connections without a request, the longest idle first."""

    def patience(self) -> float:
        """Seconds that a client has for a head: most of ``header_timeout``, by chance.

        A crowd that came at once must not be let go at once, because it would come back at once.
        """
        return self.head_timeout * random.uniform(0.6, 1.0)  # noqa: S311 - it is no secret

    def make_room(self, taken: int) -> bool:
        """Whether there is room for one more."""
        if taken <= self.most:
            return True
        for oldest in self.idle:
            self.count("made_room")
            oldest.tear_down()
            return True
        return False


class GatewayProtocol(HttpToolsProtocol):
    """A client's connection."""

    def __init__(self, door: ConnectionLimits, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._door = door
        self._bytes = 0
        """That came since the last that were a body's, or ended a request."""
        self._head_bytes = 0
        self._fields = 0
        self._pieces = 0
        self._body_bytes = 0
        self._owes_body = False
        self._late: asyncio.TimerHandle | None = None
        """When we have waited long enough."""
        self._resting: asyncio.TimerHandle | None = None
        """When reading goes on."""
        self._wrong: tuple[int, str, str] = (400, "bad_request", "this is not HTTP")
        """The status, the code and the reason of a refusal."""

    # -- connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._door.make_room(len(self.connections)):
            self._refuse(503, "too_many_connections", "too many connections; try again")
            return
        self._door.idle[self] = None
        self._wait_for_client()

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.idle.pop(self, None)
        self._stop_waiting()
        if self._resting is not None:
            self._resting.cancel()
        super().connection_lost(exc)

    def tear_down(self) -> None:
        """Close the connection now, whatever was still to be sent."""
        self._door.idle.pop(self, None)
        self._stop_waiting()
        self.transport.abort()

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    # -- what comes in

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # to nothing that there is here: it is answered as the request that it also is
        except httptools.HttpParserError:
            self._refuse(*self._wrong)
            return
        if self._bytes > HEAD_BYTES:
            self._refuse(*_HEAD_TOO_LARGE)
        elif not self._answering and self._late is None:
            self._wait_for_client()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = self._fields = self._pieces = self._body_bytes = 0
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        self._head_bytes += len(name) + len(value)
        if self._fields > HEAD_FIELDS or self._head_bytes + len(self.url) > HEAD_BYTES:
            self._object(*_HEAD_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _PIPELINED:
            self._object(400, "bad_request", "too many requests before the first was answered")
        if not self.url.startswith((b"/", b"*")):
            authority = self.url.partition(b"://")[2].partition(b"/")[0].lower()
            if any(name == b"host" and value.lower() != authority for name, value in self.headers):
                self._object(400, "bad_request", "the request line names another host than the Host field")
        super().on_headers_complete()
        self._owes_body = True
        self._door.idle.pop(self, None)
        self._stop_waiting()

    def on_body(self, body: bytes) -> None:
        self._bytes = 0
        self._pieces += 1
        self._body_bytes += len(body)
        if self._pieces > _PIECES + self._body_bytes // _PIECE_BYTES:
            self._object(400, "bad_request", "the body comes in too many pieces")
        super().on_body(body)
        if not self._answering:
            self._rest()

    def on_message_complete(self) -> None:
        self._bytes = 0
        self._owes_body = False
        super().on_message_complete()

    # -- what goes out

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            # What waits to be sent keeps it open; a client that does not read must not.
            self._stop_waiting()
            self._late = self.loop.call_later(self._door.client_timeout, self.tear_down)
        elif self._owes_body:
            self._wait_for_client()
        elif not self._answering:
            self._door.idle[self] = None

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self._door.count("does_not_read")
            self.tear_down()
        else:
            super().timeout_keep_alive_handler()

    # -- patience

    def _wait_for_client(self) -> None:
        self._stop_waiting()
        self._late = self.loop.call_later(self._door.patience(), self._too_late)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        if self._answering:
            return
        if self._bytes and not self._owes_body:
            self._refuse(408, "request_timeout", "the request did not come in time")
        else:
            self._door.count("request_timeout")
            self.tear_down()

    def _rest(self) -> None:
        """Read no more for a moment."""
        if self._resting is None:
            self.flow.pause_reading()
            self._resting = self.loop.call_later(_REST, self._read_on)

    def _read_on(self) -> None:
        self._resting = None
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _object(self, status: int, code: str, told: str) -> None:
        """Stop the parser: it hands the refusal to whoever feeds it."""
        self._wrong = (status, code, told)
        raise _Objection

    def _refuse(self, status: int, code: str, told: str) -> None:
        self._door.count(code)
        log(logging.DEBUG, "connection refused", status=status, error=code)
        if self._answering:
            # Somebody's answer is on its way: these bytes must not get into it.
            self.tear_down()
            return
        error = {"message": told, "type": "invalid_request_error", "param": None, "code": code}
        body = msgspec.json.encode({"error": error})
        later = b"retry-after: 1\r\n" if status == 503 else b""
        head = b"content-type: application/json\r\ncontent-length: %d\r\n%bconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % (len(body), later) + body)
        self.transport.close()
        self._stop_waiting()
        self._late = self.loop.call_later(self._door.head_timeout, self.tear_down)


class _Objection(Exception):
    """What the client sends is not to be read on."""


_HEAD_TOO_LARGE: Final = (
    431,
    "head_too_large",
    f"the request's head is larger than {HEAD_BYTES} bytes or {HEAD_FIELDS} fields",
)


def _file_descriptors() -> int | None:
    """How many this process may have, once it has asked for all that it can get; None: that is not told."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return None if soft == resource.RLIM_INFINITY else soft
