"""The HTTP protocol: limits on what unauthenticated and misbehaving clients can cost."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import HOLD, EngineProcess, GatewayThread, get, serving, until
from unspool.gateway.server.connection_limits import MAX_HEAD_BYTES, MAX_HEAD_FIELDS, GatewayProtocol

CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
START = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(upstream="completions", url=engine.url, template=template) as server:
        yield server


@pytest.fixture(scope="module")
def hasty(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    """Start a gateway with short client timeouts."""
    with serving(
        upstream="completions",
        url=engine.url,
        template=template,
        header_timeout=0.2,
        keep_alive_timeout=0.2,
        client_timeout=0.5,
    ) as server:
        yield server


def connect(gateway: GatewayThread, *, window: int = 0) -> socket.socket:
    """Connect a client, optionally with a receive window that limits unread data."""
    client = socket.socket()
    if window:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    client.connect(("127.0.0.1", int(gateway.url.rpartition(":")[2])))
    return client


def format_post(path: str, body: bytes, *more: bytes, length: int | None = None) -> bytes:
    fields = b"".join(b"%b\r\n" % field for field in more)
    return (
        b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n%b"
        b"content-length: %d\r\n\r\n%b"
        % (path.encode(), fields, len(body) if length is None else length, body)
    )


def read_all(client: socket.socket) -> bytes:
    """Return what arrives until the other side closes the connection."""
    data = b""
    try:
        while portion := client.recv(1 << 16):
            data += portion
    except ConnectionError:
        pass
    return data


def fill_buffers(client: socket.socket, data: bytes) -> None:
    """Send repeatedly until nothing is accepted any more."""
    for _ in range(100_000_000 // len(data)):
        try:
            client.sendall(data)
        except ConnectionError:
            return
    raise AssertionError("the server accepts data without end")


def refused(gateway: GatewayThread, why: str) -> float:
    return gateway.gateway.metrics.connections_refused.value(why)


def connections(gateway: GatewayThread) -> int:
    return len(gateway._server.server_state.connections)


# -- before authentication


@pytest.mark.parametrize(
    "endless", [b"GET /" + b"x" * 4096, START + b"x: " + b"y" * 4096, START + b"x" * 4096]
)
def test_endless_head_is_refused(gateway: GatewayThread, endless: bytes) -> None:
    before = refused(gateway, "head_too_large")
    with closing(connect(gateway)) as client:
        client.sendall(endless)
        fill_buffers(client, b"z" * 4096)
    assert refused(gateway, "head_too_large") == before + 1
    until(lambda: connections(gateway) == 0)


def test_oversized_head_gets_a_valid_error(gateway: GatewayThread) -> None:
    for head in (
        START + b"".join(b"x-%d: y\r\n" % number for number in range(MAX_HEAD_FIELDS + 1)),
        START + b"x: " + b"y" * MAX_HEAD_BYTES + b"\r\n",
        b"GET /" + b"x" * MAX_HEAD_BYTES + b" HTTP/1.1\r\nhost: localhost\r\n",
    ):
        with closing(connect(gateway)) as client:
            client.sendall(head + b"\r\n")
            answer = read_all(client)
            assert answer.startswith(b"HTTP/1.1 431 "), answer
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "head_too_large"


def test_usual_head_is_accepted(gateway: GatewayThread) -> None:
    with closing(connect(gateway)) as client:
        client.sendall(START + b"cookie: " + b"y" * 8000 + b"\r\nconnection: close\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 200 ")


def test_responses_do_not_name_the_server_software(gateway: GatewayThread) -> None:
    with closing(connect(gateway)) as client:
        client.sendall(START + b"connection: close\r\n\r\n")
        head, _, _ = read_all(client).partition(b"\r\n\r\n")
    names = {line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]}
    assert b"date" in names
    assert b"server" not in names


@pytest.mark.parametrize("tail", [b"x: y\r\n", b"x" * 100])
def test_trailers_have_the_same_limits(gateway: GatewayThread, tail: bytes) -> None:
    with closing(connect(gateway)) as client:
        head = format_post(CHAT, b"").replace(b"content-length: 0", b"transfer-encoding: chunked")
        client.sendall(head + b"1\r\n{\r\n0\r\n")
        fill_buffers(client, tail * 100)
        assert read_all(client) == b""
    until(lambda: connections(gateway) == 0)


def test_body_in_tiny_chunks_is_refused(gateway: GatewayThread) -> None:
    before = refused(gateway, "bad_request")
    with closing(connect(gateway)) as client:
        head = format_post(CHAT, b"").replace(b"content-length: 0", b"transfer-encoding: chunked")
        client.sendall(head)
        fill_buffers(client, b"1\r\nx\r\n" * 1000)
    until(lambda: refused(gateway, "bad_request") > before)


def test_partial_request_times_out(hasty: GatewayThread) -> None:
    with closing(connect(hasty)) as client:
        client.sendall(START)
        assert read_all(client).startswith(b"HTTP/1.1 408 ")


def test_silent_client_times_out(hasty: GatewayThread) -> None:
    with closing(connect(hasty)) as client:
        assert read_all(client) == b""


@pytest.mark.parametrize("afterwards", [b"", b"\r\n", b"GET /hea"])
def test_idle_keep_alive_connection_is_closed(hasty: GatewayThread, afterwards: bytes) -> None:
    with closing(connect(hasty)) as client:
        client.sendall(START + b"\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        client.sendall(afterwards)
        assert b" 200 " not in read_all(client)


def test_refused_client_has_limited_time_for_its_body(engine: EngineProcess, template: str) -> None:
    with (
        serving(
            upstream="completions", url=engine.url, template=template, api_keys=("k",), header_timeout=0.2
        ) as gateway,
        closing(connect(gateway)) as client,
    ):
        client.sendall(format_post(CHAT, b"{", length=1 << 20))
        assert read_all(client).startswith(b"HTTP/1.1 401 ")


def test_unread_body_is_drained_slowly(gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[bool] = []
    before = GatewayProtocol._resume_reading

    def read_on(self: GatewayProtocol) -> None:
        rests.append(self.flow.read_paused)
        before(self)

    monkeypatch.setattr(GatewayProtocol, "_resume_reading", read_on)
    with closing(connect(gateway)) as client:
        body = b" " * (1 << 20)
        client.sendall(format_post("/nowhere", b"", length=len(body)))
        assert b" 404 " in client.recv(1 << 16)
        client.sendall(body)
        client.sendall(START + b"connection: close\r\n\r\n")
        assert b" 200 " in read_all(client)
    assert len(rests) > 1
    assert all(rests)


def test_idle_connections_make_room_and_active_ones_stay(engine: EngineProcess, template: str) -> None:
    with serving(upstream="completions", url=engine.url, template=template, max_connections=2) as gateway:
        idle = [connect(gateway) for _ in range(2)]
        until(lambda: connections(gateway) == 2)
        engine.script("a", HOLD, "b")
        streams = [connect(gateway)]
        streams[0].sendall(format_post(CHAT, json.dumps({**BODY, "stream": True}).encode()))
        assert idle[0].recv(1) == b"", "the oldest entry must make room"
        assert b"HTTP/1.1 200 " in streams[0].recv(1 << 16)
        engine.script("a", HOLD, "b")
        streams.append(connect(gateway))
        streams[1].sendall(format_post(CHAT, json.dumps({**BODY, "stream": True}).encode()))
        assert b"HTTP/1.1 200 " in streams[1].recv(1 << 16)
        with closing(connect(gateway)) as late:
            answer = read_all(late)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nretry-after: 1\r\n" in answer
        engine.release()
        engine.release()
        for client in streams:
            data = b""
            while b"[DONE]" not in data:
                data += client.recv(1 << 16)
        assert get(f"{gateway.url}/health") == {"status": "ok"}, "idle connections must not count as busy"
        for client in (*idle, *streams):
            client.close()


def test_burst_of_connections_is_accepted(gateway: GatewayThread) -> None:
    """uvloop accepts one connection per turn of a listener, so that a burst would delay later clients."""
    until(lambda: connections(gateway) == 0)
    held, turns, crowd = threading.Event(), 0, 64

    def turn() -> None:
        nonlocal turns
        turns += 1
        if connections(gateway) < crowd:
            gateway.loop.call_soon(turn)

    gateway.loop.call_soon_threadsafe(held.wait)
    clients = [connect(gateway) for _ in range(crowd)]
    gateway.loop.call_soon_threadsafe(turn)
    held.set()
    until(lambda: connections(gateway) == crowd)
    for client in clients:
        client.close()
    assert turns < crowd / 2


def test_tcp_keep_alive_detects_dead_clients(gateway: GatewayThread) -> None:
    with closing(connect(gateway)):
        until(lambda: connections(gateway) == 1)
        (one,) = gateway._server.server_state.connections
        socket_: Any = one.transport.get_extra_info("socket")
        assert socket_.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def test_pipelined_bytes_never_reach_the_response(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("Hello", HOLD, " again")
    with closing(connect(gateway)) as client:
        client.sendall(format_post(CHAT, json.dumps({**BODY, "stream": True}).encode()))
        data = b""
        while b"Hello" not in data:
            data += client.recv(1 << 16)
        client.sendall(b"\0\0\0 this is not HTTP\r\n\r\n")
        assert b"400" not in read_all(client)
    engine.release()


# -- the Host header


def test_request_line_and_host_must_agree(gateway: GatewayThread) -> None:
    for line, host, status in (
        (b"/health", b"localhost", b"200"),
        (b"http://localhost/health", b"localhost", b"200"),
        (b"http://LOCALHOST:80/health", b"localhost:80", b"200"),
        (b"http://evil.example/health", b"localhost", b"400"),
        (b"http://localhost@evil.example/health", b"localhost", b"400"),
        (b"/health", b"localhost\r\nhost: evil.example", b"400"),
        (b"/health", b"localhost\r\nhost: localhost", b"400"),
    ):
        with closing(connect(gateway)) as client:
            client.sendall(b"GET %b HTTP/1.1\r\nhost: %b\r\nconnection: close\r\n\r\n" % (line, host))
            assert read_all(client).startswith(b"HTTP/1.1 " + status), (line, host)


# -- slow clients


def test_client_that_does_not_read_a_whole_response_is_dropped(
    engine: EngineProcess, hasty: GatewayThread
) -> None:
    before = hasty.gateway.metrics.clients_gone.value()
    engine.script(*["x" * 100_000] * 120)
    with closing(connect(hasty, window=4096)) as client:
        client.sendall(format_post(CHAT, json.dumps(BODY).encode()))
        until(lambda: hasty.gateway.metrics.clients_gone.value() > before)
        until(lambda: connections(hasty) == 0)


def test_client_that_does_not_read_a_failed_stream_is_dropped(
    engine: EngineProcess, hasty: GatewayThread
) -> None:
    before = hasty.gateway.metrics.clients_gone.value()
    engine.script("x" * 10_000_000, die=True)
    with closing(connect(hasty, window=4096)) as client:
        client.sendall(format_post(CHAT, json.dumps({**BODY, "stream": True}).encode()))
        until(lambda: hasty.gateway.metrics.clients_gone.value() > before)
        until(lambda: connections(hasty) == 0)
        assert len(hasty.gateway.active) == 0


def test_dropped_stream_closes_its_connection(engine: EngineProcess, hasty: GatewayThread) -> None:
    engine.script(forever="x" * 4096)
    with closing(connect(hasty, window=4096)) as client:
        client.sendall(format_post(CHAT, json.dumps({**BODY, "stream": True}).encode()))
        until(lambda: connections(hasty) == 1)
        until(lambda: connections(hasty) == 0)


def test_client_that_pipelines_without_reading_is_dropped(hasty: GatewayThread) -> None:
    with closing(connect(hasty, window=4096)) as client:
        client.settimeout(0.3)
        wanted = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"
        try:
            while True:
                client.sendall(wanted)
        except (TimeoutError, ConnectionError):
            pass
        until(lambda: connections(hasty) == 0)
    assert get(f"{hasty.url}/health") == {"status": "ok"}
