"""Reading upstream streams: events, lines, chunks, timeouts, and what clients see of failures."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

import aiohttp
from aiohttp.base_protocol import BaseProtocol
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import ProtocolError
from unspool.gateway.http.failure import Failure
from unspool.gateway.upstreams.failures import (
    connect_failure,
    connection_failure,
    error_object_failure,
    message_of,
    redact,
    redirect_failure,
    status_failure,
)
from unspool.gateway.upstreams.http_client import Connection, Events, ForwardedResponse
from unspool.wire import EventReader, LineReader

# -- events and lines


def events_of(data: bytes, size: int, limit: int = 10_000) -> list[bytes]:
    reader = EventReader(limit)
    events = [event for at in range(0, len(data), size) for event in reader.feed(data[at : at + size])]
    return events + reader.finish()


PIECES = st.sampled_from(
    [b"data:", b"data: x", b"\r", b"\n", b"\r\n", b": note", b" ", b"id: 1", b"\xff", b"\0"]
)


@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_events_may_be_split_anywhere(data: bytes) -> None:
    whole = events_of(data, max(len(data), 1))
    for size in (1, 2, 3, 5):
        assert events_of(data, size) == whole


def test_line_endings_and_byte_order_mark_are_handled() -> None:
    expected = [b"1", b"2\n3", b"4"]
    for end in (b"\n", b"\r\n", b"\r"):
        lines = [b"data: 1", b"", b"data: 2", b"data:3", b"", b": note", b"", b"data: 4", b""]
        data = b"\xef\xbb\xbf" + end.join(lines) + end
        for size in range(1, len(data) + 1):
            assert events_of(data, size) == expected
    reader = LineReader(100)
    assert reader.feed(b"\xef\xbb\xbf{}\r\n\n{}\n") == [b"{}\r", b"{}"]


def test_carriage_return_ends_an_event_at_once() -> None:
    assert EventReader(100).feed(b"data: 1\r\r") == [b"1"]


ENDLESS: dict[str, tuple[Callable[[int], EventReader | LineReader], bytes]] = {
    "an event": (EventReader, b"data: xxxx"),
    "lines of an event": (EventReader, b"data: x\n"),
    "empty lines of an event": (EventReader, b"data:\n"),
    "a comment": (EventReader, b":xxxxx"),
    "a name of a field": (EventReader, b"x"),
    "a line": (LineReader, b"x"),
    "spaces": (LineReader, b" "),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_stream_parts_are_bounded(what: str) -> None:
    made, piece = ENDLESS[what]
    reader = made(1000)

    def read() -> None:
        for _ in range(1002):
            reader.feed(piece)

    with pytest.raises(ProtocolError, match="over the size limit"):
        read()


def test_complete_events_precede_an_error() -> None:
    reader = EventReader(10)
    assert reader.feed(b"data: 1\n\ndata: " + b"x" * 100) == [b"1"]
    with pytest.raises(ProtocolError, match="over the size limit"):
        reader.feed(b"x")


def count_lines(work: Callable[[], object]) -> int:
    """Count the executed lines of Python."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


class Bytes(bytes):
    """Counts the bytes that concatenation copies."""

    copied = 0

    def __radd__(self, other: bytes) -> bytes:
        Bytes.copied += len(other) + len(self)
        return Bytes(bytes(other) + bytes(self))

    def split(self, *how: Any) -> list[bytes]:
        Bytes.copied += len(self)
        return super().split(*how)


@pytest.mark.parametrize("made", [EventReader, LineReader])
@pytest.mark.parametrize("line", [b"data: xxxxxxxx", b"data:\n"])
def test_small_reads_are_linear(made: Callable[[int], EventReader | LineReader], line: bytes) -> None:
    """Sixteen times the bytes, one at a time, take sixteen times the steps and copies."""

    def read(count: int) -> tuple[int, int]:
        Bytes.copied = 0
        reader = made(1 << 20)
        pieces = [Bytes(bytes([one])) for one in line * count]
        return count_lines(lambda: [reader.feed(piece) for piece in pieces]), Bytes.copied

    small, large = read(100), read(1600)
    assert large[0] < small[0] * 17
    assert large[1] < small[1] * 17


# -- forwarded streams


class Content:
    """A response whose reads return prepared data with delays."""

    def __init__(
        self, portions: Sequence[bytes], *, seconds: float = 0.0, kind: str = "text/event-stream"
    ) -> None:
        self.content = self
        self.content_type = kind
        self.status = 200
        self.headers: dict[str, str] = {}
        self.now = 0.0
        self._portions = iter(portions)
        self._seconds = seconds

    async def readany(self) -> bytes:
        self.now += self._seconds
        return next(self._portions, b"")


def all_events(content: Content, *, idle: float = 300.0) -> list[list[bytes]]:
    async def read() -> list[list[bytes]]:
        events = Events(content, 10_000, idle, lambda: content.now)  # type: ignore[arg-type]
        out = []
        while (response := await events.read()) is not None:
            out.append(response)
        return out

    return asyncio.run(read())


@pytest.mark.parametrize("portion", [b": still here\n\n", b"\n", b"x", b"event: a\n\n"])
def test_comments_do_not_reset_the_idle_timer(portion: bytes) -> None:
    with pytest.raises(Failure) as caught:
        all_events(Content([portion] * 1000, seconds=200.0))
    assert caught.value.code == "upstream_timeout"


def test_whole_response_has_a_timeout() -> None:
    with pytest.raises(Failure, match="no output for too long"):
        all_events(Content([b"x"] * 1000, seconds=200.0, kind="application/json"))


def test_data_received_before_a_disconnect_is_read() -> None:
    async def read() -> list[bytes]:
        loop = asyncio.get_running_loop()
        content = aiohttp.StreamReader(BaseProtocol(loop), 1 << 16, loop=loop)
        content.feed_data(b"data: 1\n\n")
        content.set_exception(aiohttp.ClientPayloadError("gone"))
        response = Content([])
        response.content = content  # type: ignore[assignment]
        events = Events(response, 10_000, 300.0)  # type: ignore[arg-type]
        forwarded = await events.read()
        with pytest.raises(Failure, match="broke"):
            await events.read()
        return forwarded or []

    assert asyncio.run(read()) == [b"1"]


def forward(portions: Sequence[bytes]) -> list[bytes]:
    async def read() -> list[bytes]:
        response = ForwardedResponse(Content(portions), 10_000, 300.0)  # type: ignore[arg-type]
        out = []
        while portion := await response.read():
            out.append(portion)
        return out

    return asyncio.run(read())


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_passed_on_whole(end: bytes) -> None:
    """A client that reads half of an event and then an error can read neither."""
    data = end.join([b": hello", b"", b'data: {"a":', b"data: 1}", b"", b"data: [DONE]", b"", b""])
    expected = [b'data: {"a":\ndata: 1}\n\n', b"data: [DONE]\n\n"]
    for size in range(1, len(data) + 1):
        forwarded = forward([data[at : at + size] for at in range(0, len(data), size)])
        assert forwarded in (expected, [b"".join(expected)])
    assert forward([b"data: [DONE]"]) == [b"data: [DONE]\n\n"]  # some servers omit the last empty line


@pytest.mark.parametrize(
    "broken", [b'data: {"a', b"data: \xff\n\n", b'data: "\xff"\n\n', b"data: {\n\n", b"data:\n\n"]
)
def test_comments_are_not_passed_on(broken: bytes) -> None:
    async def read() -> bytes:
        response = ForwardedResponse(Content([b"data: 1\n\n" + broken]), 10_000, 300.0)  # type: ignore[arg-type]
        first = await response.read()
        with pytest.raises(Failure, match="not JSON"):
            await response.read()
        return first

    assert asyncio.run(read()) == b"data: 1\n\n"


# -- error messages for clients


PLACES = {
    "http://10.1.2.3:8000/v1 is down": "... is down",
    "cannot open /models/private/a.gguf": "cannot open ...",
    "cannot open C:\\models\\a.gguf": "cannot open ...",
    'File "/usr/lib/python3/site.py", line 3': 'File "...", line 3',
    "host gpu7.internal.example:8000 refused": "host ... refused",
    "connect ECONNREFUSED 127.0.0.1:8000": "connect ECONNREFUSED ...",
    "connect to [::1]:8000": "connect to ...",
    "localhost:8000 and Bearer abc": "... and ...",
    "Incorrect API key provided: sk-abc***xyz": "Incorrect API key provided: ...",
    "redis://:pw@cache:6379/0 failed": "... failed",
}
KEPT = (
    "This model's maximum context length is 8192 tokens (8000 in the messages, 1000 in the completion).",
    "there is nothing at /v1/completions, 3/4 and/or 1.5.2",
    "schema: /properties/city/type: 'x' is not one of ...",
    "unexpected </think> at line 3:14",
)


def test_clients_do_not_see_upstream_addresses() -> None:
    for text, expected in PLACES.items():
        assert redact(text) == expected
    for text in KEPT:
        assert redact(text) == text
    assert len(redact("x " * 10**6)) == 500
    assert count_lines(lambda: redact("a." * 10**6)) < 100


KEY = "s3cret/+key"


@pytest.mark.parametrize(
    "quoted", [KEY, "s3cret\\/+key", "s3cret%2F%2Bkey", f"Bearer {KEY}", f"{'x' * 1995}{KEY}"]
)
def test_upstream_key_is_neither_shown_nor_logged(quoted: str) -> None:
    Connection("http://127.0.0.1:1", key=KEY, connect=1, idle=1, limit=1)
    message = f"the key {quoted} is wrong"
    failures = [
        *(
            status_failure(status, message, reason=message, retry_after=quoted)
            for status in (400, 401, 429, 500, 503)
        ),
        redirect_failure(302, f"http://127.0.0.1:2/?key={quoted}"),
        connect_failure(OSError(message)),
        connection_failure(ValueError(message)),
        error_object_failure({"error": {"message": message}}),
    ]
    for failure in failures:
        assert "s3cret" not in f"{failure.message} {failure.detail} {failure.retry_after}"
    assert all(failure.detail for failure in failures)


LATER = {
    "7": "7",
    "Wed, 21 Oct 2026 07:28:00 GMT": "Wed, 21 Oct 2026 07:28:00 GMT",
    "": "",
    "soon": "",
    "-1": "",
    "9" * 50: "",
    "٣": "",
    "Wed, 21 Oct 2026 07:28:00 GMT" + " " * 9000: "",
    "\udcff": "",
}


@pytest.mark.parametrize("later", LATER)
def test_retry_after_is_a_number_of_seconds(later: str) -> None:
    assert status_failure(429, "", reason="", retry_after=later).retry_after == LATER[later]


def test_errors_of_any_shape_are_errors() -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    values: list[Any] = [None, 5, [], {}, {"message": deep}, {"message": {"a": 1}}, {"type": "boom"}, "boom"]
    for value in values:
        assert "failed" in error_object_failure({"error": value}).message
    assert message_of({"detail": [{"msg": "bad field"}, 3, {"msg": deep}]}).startswith("bad field")
    assert "127.0.0.1" not in connect_failure(OSError(111, "Connect call failed ('127.0.0.1', 8000)")).message
    assert "refused" in connect_failure(OSError(111, "Connect call failed ('127.0.0.1', 8000)")).message
