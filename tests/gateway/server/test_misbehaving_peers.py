"""The gateway with a misbehaving upstream, client or operator."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import (
    HOLD,
    EngineProcess,
    GatewayThread,
    OnData,
    begin_request,
    events,
    fetch,
    free_port,
    get,
    once,
    post,
    send,
    serving,
    until,
)
from unspool.gateway.http.exchange import Exchange

ASK = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": ASK}),
    "responses": ("/v1/responses", {"input": "Hi"}),
    "messages": ("/v1/messages", {"messages": ASK, "max_tokens": 50}),
}
APIS = list(BODIES)


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(
        upstream="completions",
        url=engine.url,
        template=template,
        connect_timeout=2,
        max_output_bytes=20_000,
        max_request_bytes=50_000,
    ) as server:
        yield server


@pytest.fixture(scope="module")
def hasty(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    """Start a gateway with short upstream timeouts; the default is for slow machines."""
    with serving(upstream="completions", url=engine.url, template=template, idle_timeout=0.5) as server:
        yield server


def ask_whole(gateway: GatewayThread, api: str, **more: Any) -> tuple[int, dict[str, Any]]:
    path, body = BODIES[api]
    status, data, _ = send(gateway.url + path, {**body, **more})
    return status, json.loads(data)


def ask_streamed(gateway: GatewayThread, api: str, watch: OnData | None = None) -> list[Any]:
    path, body = BODIES[api]
    return list(events(gateway.url + path, body, watch))


def error_of(api: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the error object in the form of the API."""
    if api == "messages":
        assert body["type"] == "error"
        assert body["request_id"].startswith("req_")
    error: dict[str, Any] = body["error"]
    assert error["message"]
    assert error["type"]
    return error


def check_failed_stream(api: str, received: list[Any], text: str) -> str:
    """Assert that the stream ends with an error in the API's form after its text; return the message."""
    if api == "chat":
        assert received.pop() == "[DONE]"
        error = received.pop()["error"]
        assert all(choice["finish_reason"] is None for chunk in received for choice in chunk["choices"])
        assert (
            "".join(choice["delta"].get("content", "") for chunk in received for choice in chunk["choices"])
            == text
        )
        return str(error["message"])
    if api == "responses":
        assert [event["sequence_number"] for event in received] == list(range(len(received)))
        assert [event["type"] for event in received].count("response.completed") == 0
        last = received[-1]
        assert last["type"] == "response.failed"
        assert last["response"]["status"] == "failed"
        assert last["response"]["id"] == received[0]["response"]["id"]
        received_text = "".join(
            event["delta"] for event in received if event["type"] == "response.output_text.delta"
        )
        assert received_text == text
        return str(last["response"]["error"]["message"])
    assert not any(event["type"] in ("message_delta", "message_stop") for event in received)
    received_text = "".join(e["delta"]["text"] for e in received if e["type"] == "content_block_delta")
    assert received_text == text
    assert received[-1]["type"] == "error"
    return str(received[-1]["error"]["message"])


def hexed(*texts: str | bytes) -> list[str]:
    return [(text.encode() if isinstance(text, str) else text).hex() for text in texts]


MIDWAY: dict[str, tuple[dict[str, Any], str]] = {
    "it dies": ({"chunks": ["Hello"], "die": True}, "broke"),
    "it ends without a word": ({"chunks": ["Hello"], "finish": None}, "before the output was complete"),
    "it ends without finish reason or end": (
        {"chunks": ["Hello"], "finish": None, "no_done": True},
        "before the output was complete",
    ),
    "it falls silent": ({"chunks": ["Hello"], "silent": True}, "no output"),
    "an error object": (
        {
            "chunks": ["Hello"],
            "raw_after": hexed('data: {"error": {"message": "out of memory"}}\n\n'),
            "finish": None,
        },
        "out of memory",
    ),
    "an error of vLLM": (
        {
            "chunks": ["Hello"],
            "raw_after": hexed('data: {"object": "error", "message": "engine dead", "code": 500}\n\n'),
            "finish": None,
        },
        "engine dead",
    ),
    "an error as text": (
        {"chunks": ["Hello"], "raw_after": hexed('data: {"error": "boom"}\n\n'), "finish": None},
        "boom",
    ),
    "JSON that is none": (
        {"chunks": ["Hello"], "raw_after": hexed('data: {"choices": [{"text": \n\n'), "finish": None},
        "not a chunk",
    ),
    "a chunk of the wrong shape": (
        {"chunks": ["Hello"], "raw_after": hexed('data: {"choices": 5}\n\n'), "finish": None},
        "not a chunk",
    ),
    "bytes that are not UTF-8": (
        {
            "chunks": ["Hello"],
            "raw_after": hexed(b'data: {"choices": [{"text": "\xff\xfe"}]}\n\n'),
            "finish": None,
        },
        "not UTF-8",
    ),
    "a finish reason that means failure": ({"chunks": ["Hello"], "finish": "abort"}, "abort"),
    "a choice that does not exist": (
        {"chunks": ["Hello", {"index": 3, "text": "x"}]},
        "choice 3",
    ),
    "an event over the size limit": (
        {"chunks": ["Hello"], "raw_after": hexed("data: " + "x" * 30_000), "finish": None, "silent": True},
        "over the size limit",
    ),
    "too much": ({"chunks": ["Hello"], "forever": "x" * 1000}, "larger than 20000 bytes"),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("case", MIDWAY)
def test_upstream_failure_in_a_stream_is_an_error_event(
    engine: EngineProcess, gateway: GatewayThread, hasty: GatewayThread, api: str, case: str
) -> None:
    script, expected = MIDWAY[case]
    if expected == "no output":
        gateway = hasty
    # The failure comes after the client has received the first text.
    first, *others = script["chunks"]
    script = {key: value for key, value in script.items() if key != "chunks"}
    engine.script(first, HOLD, *others, **script)
    received = ask_streamed(gateway, api, once(b"Hello", engine.release))
    if case == "too much":
        text = json.dumps(received)
        assert expected in text
    else:
        assert expected in check_failed_stream(api, received, "Hello")
    # A small delay lets the error message arrive before the connection closes.
    engine.script(first, *others, **{"delay": 0.001, **script})
    status, body = ask_whole(gateway, api)
    assert status in (502, 504)
    assert expected in error_of(api, body)["message"]


BEFORE: dict[str, tuple[dict[str, Any], int]] = {
    "it rejects the request": ({"status": 400, "error": {"message": "too long", "object": "error"}}, 400),
    "it cannot process it": ({"status": 422, "error": {"detail": "what?"}}, 400),
    "it wants a key": ({"status": 401, "error": {"error": {"message": "no key"}}}, 502),
    "it knows no such path": ({"status": 404, "error": {}}, 502),
    "it is busy": ({"status": 429, "error": {"error": "slow down"}}, 429),
    "it fails": ({"status": 500, "error": {"error": {"message": "oops"}}}, 502),
    "it is overloaded": ({"status": 503, "error": {}}, 503),
    "it never answers": ({"wait": 3600}, 504),
    "it sends a web page": (
        {"type": "text/html", "raw": hexed("<html>hello</html>\n\n"), "finish": None, "whole": True},
        502,
    ),
    "it sends something else": (
        {"type": "application/json", "raw": hexed('{"hello": 1}'), "whole": True},
        502,
    ),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("case", BEFORE)
def test_upstream_failure_at_once_is_a_status(
    engine: EngineProcess, gateway: GatewayThread, hasty: GatewayThread, api: str, case: str
) -> None:
    script, expected = BEFORE[case]
    if "wait" in script:
        gateway = hasty
    engine.script(**script)
    status, body = ask_whole(gateway, api)
    assert status == expected
    error_of(api, body)
    engine.script(**script)
    path, request = BODIES[api]
    status, data, _ = send(gateway.url + path, {**request, "stream": True})
    if "status" in script or "wait" in script:
        assert status == expected  # no headers had been sent, so the status can report the failure
        error_of(api, json.loads(data))
    else:
        assert b"error" in data


def test_unreachable_upstream_is_a_bad_gateway(template: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with serving(upstream="completions", url=url, template=template) as gateway:
        for api in APIS:
            status, body = ask_whole(gateway, api)
            assert status == 502
            assert "cannot reach" in error_of(api, body)["message"]
        status, data, _ = send(f"{gateway.url}/v1/models", b"{}")  # this path accepts only GET
        assert (status, json.loads(data)["error"]["code"]) == (405, "method_not_allowed")
        assert get(f"{gateway.url}/health") == {"status": "ok"}
        assert fetch(f"{gateway.url}/ready")[0] == 503


def test_upstream_may_start_later(template: str, engine: EngineProcess) -> None:
    """The upstream is identified when it becomes available."""
    with serving(upstream="completions", url=engine.url, template=template) as gateway:
        upstream: Any = gateway.gateway.upstream
        upstream.model, upstream._detect = "", True
        engine.script("Hi")
        assert ask_whole(gateway, "chat")[0] == 200
        assert upstream.model == "engine-model"


# -- clients


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", APIS)
def test_disconnect_stops_the_upstream(
    engine: EngineProcess, gateway: GatewayThread, api: str, stream: bool
) -> None:
    before = len(engine.seen())
    engine.script(forever="x", delay=0.05)
    client = begin_request(gateway, api, stream=stream)
    until(lambda: len(engine.seen()) > before and engine.seen()[-1]["sent"] > 2)
    assert not engine.seen()[-1]["gone"]
    client.close()
    until(lambda: engine.seen()[-1]["gone"])


def test_disconnect_before_the_first_byte_stops_the_upstream(
    engine: EngineProcess, gateway: GatewayThread
) -> None:
    before = len(engine.seen())
    engine.script(wait=3600)
    with serving(upstream="completions", url=engine.url, template=gateway._settings.template) as patient:
        client = begin_request(patient, "chat")
        until(lambda: len(engine.seen()) > before)
        client.close()
        until(lambda: engine.seen()[-1]["gone"])
        until(lambda: patient.gateway.metrics.clients_gone.value() == 1)
        assert len(patient.gateway.active) == 0


def test_slow_reader_is_not_buffered_without_limit(engine: EngineProcess, template: str) -> None:
    with serving(
        upstream="completions",
        url=engine.url,
        template=template,
        client_timeout=1.0,
        max_output_bytes=1 << 30,
    ) as gateway:
        before = len(engine.seen())
        engine.script(forever="x" * 4096)
        client = begin_request(gateway, "chat")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        until(lambda: len(engine.seen()) > before)
        # The gateway first stops reading from the engine, then closes the connection.
        until(lambda: engine.seen()[-1]["gone"])
        until(lambda: gateway.gateway.metrics.clients_gone.value() == 1)
        client.close()


def test_request_size_is_limited(gateway: GatewayThread) -> None:
    for api in APIS:
        status, body = ask_whole(gateway, api, metadata={"x": "y" * 60_000})
        assert status == 413
        error_of(api, body)


def test_chunked_request_size_is_limited(gateway: GatewayThread) -> None:
    client = socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2])))
    client.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )
    try:
        for _ in range(100):
            client.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
    except ConnectionError:
        pass
    assert b" 413 " in client.recv(100)
    client.close()


def test_concurrent_requests_are_limited(engine: EngineProcess, template: str) -> None:
    with serving(upstream="completions", url=engine.url, template=template, max_concurrency=1) as gateway:
        before = len(engine.seen())
        engine.script(forever="x", delay=0.05)
        client = begin_request(gateway, "chat")
        until(lambda: len(engine.seen()) > before)
        status, body = ask_whole(gateway, "chat")
        assert (status, body["error"]["code"]) == (503, "overloaded")
        client.close()
        until(lambda: len(gateway.gateway.active) == 0)
        engine.script("Hi")
        assert ask_whole(gateway, "chat")[0] == 200


# -- access


def test_api_keys_are_checked(engine: EngineProcess, template: str) -> None:
    settings = {
        "upstream": "completions",
        "url": engine.url,
        "template": template,
        "api_keys": ("right", "other"),
    }
    with serving(**settings) as gateway:
        path, body = BODIES["chat"]
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "Basic right"},
            {"x-api-key": ""},
        ):
            status, data, _ = send(gateway.url + path, body, headers)
            assert status == 401
            assert json.loads(data)["error"]["code"] == "invalid_api_key"
        for headers in ({"authorization": "Bearer right"}, {"x-api-key": "other"}):
            engine.script("Hi")
            assert send(gateway.url + path, body, headers)[0] == 200
        assert get(f"{gateway.url}/health")
        assert send(f"{gateway.url}/v1/parse", {"text": "x"})[0] == 401


def test_cors_needs_permission(engine: EngineProcess, gateway: GatewayThread, template: str) -> None:
    path, body = BODIES["chat"]
    origin = {"origin": "https://chat.example"}
    engine.script("Hi")
    assert "access-control-allow-origin" not in send(gateway.url + path, body, origin)[2]
    assert send(gateway.url + path, body, {"content-type": "text/plain"})[0] == 415
    assert send(gateway.url + path, body, {"host": "evil.example"})[0] == 421
    settings = {"upstream": "completions", "url": engine.url, "template": template}
    with serving(**settings, cors_origins=("https://chat.example",)) as other:
        engine.script("Hi")
        headers = send(other.url + path, body, origin)[2]
        assert headers["access-control-allow-origin"] == "https://chat.example"


def test_gateway_listens_on_loopback_by_default(gateway: GatewayThread) -> None:
    assert gateway.url.startswith("http://127.0.0.1:")


# -- operators


@contextmanager
def process(
    engine: EngineProcess, template: str, tmp_path: Path, *, shutdown_timeout: int
) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    port = free_port()
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process_ = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "unspool",
                "serve",
                "--upstream",
                "completions",
                "--template",
                template,
            ],
            env=os.environ
            | {
                "UNSPOOL_URL": engine.url,
                "UNSPOOL_PORT": str(port),
                "UNSPOOL_SHUTDOWN_TIMEOUT": str(shutdown_timeout),
            },
            stderr=stderr,
        )
    try:
        until(lambda: b'"listening"' in log.read_bytes() and _open(port))
        yield process_, f"http://127.0.0.1:{port}", log
    finally:
        process_.kill()
        process_.wait()


def _open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def stop_during_stream(
    server: subprocess.Popen[bytes], url: str, then: Callable[[], object] = lambda: None
) -> bytes:
    """Return what a client receives if the server is stopped while it streams."""
    path, body = BODIES["chat"]
    data = json.dumps({**body, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
        client.sendall(
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(data)}\r\n\r\n".encode()
            + data
        )
        got = client.recv(10_000)
        server.send_signal(signal.SIGTERM)
        then()
        while portion := client.recv(10_000):
            got += portion
    return got


def test_shutdown_finishes_streams(engine: EngineProcess, template: str, tmp_path: Path) -> None:
    with process(engine, template, tmp_path, shutdown_timeout=300) as (server, url, log):
        engine.script("secret", HOLD, " words")
        got = stop_during_stream(server, url, engine.release)
        server.wait()
    assert b'"finish_reason":"stop"' in got
    assert b"data: [DONE]" in got
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["listening", "request"]
    assert lines[1]["completion_tokens"] == 5
    assert "secret" not in log.read_text()


def test_shutdown_ends_long_streams_with_a_valid_event(
    engine: EngineProcess, template: str, tmp_path: Path
) -> None:
    with process(engine, template, tmp_path, shutdown_timeout=2) as (server, url, log):
        engine.script(forever="x", delay=0.05)
        got = stop_during_stream(server, url)
        server.wait()
    assert b"shutting down" in got
    assert b'"finish_reason":"stop"' not in got
    assert "Traceback" not in log.read_text()


def test_slow_readers_do_not_block_shutdown(engine: EngineProcess, template: str, tmp_path: Path) -> None:
    with process(engine, template, tmp_path, shutdown_timeout=1) as (server, url, log):
        before = len(engine.seen())
        engine.script(forever="x" * 4096)
        path, body = BODIES["chat"]
        data = json.dumps({**body, "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
            head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            client.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
            until(lambda: len(engine.seen()) > before and engine.seen()[-1]["sent"] > 500)
            server.send_signal(signal.SIGTERM)
            server.wait()
    assert "Traceback" not in log.read_text()


def test_metrics_count_requests_and_tokens(engine: EngineProcess, template: str) -> None:
    with serving(upstream="completions", url=engine.url, template=template) as gateway:
        engine.script("<think>a", "b</think>c <tool", '_call>{"name": "f", "arguments": {}}</tool_call>')
        tool = {"type": "function", "function": {"name": "f"}}
        path, body = BODIES["chat"]
        post(gateway.url + path, {**body, "tools": [tool]})
        engine.script("x", die=True)
        ask_whole(gateway, "messages")
        status, data, _ = fetch(f"{gateway.url}/metrics")
    assert status == 200
    lines = data.decode().splitlines()
    for line in (
        'unspool_requests_total{api="chat",status="200"} 1',
        'unspool_requests_total{api="messages",status="502"} 1',
        'unspool_outputs_total{api="chat",finish_reason="tool_calls"} 1',
        'unspool_tokens_total{kind="prompt"} 7',
        'unspool_tokens_total{kind="reasoning"} 1',
        'unspool_parse_outcomes_total{dialect="hermes",outcome="complete"} 1',
        'unspool_upstream_errors_total{code="upstream_lost"} 1',
        'unspool_time_to_first_delta_seconds_count{api="chat"} 1',
    ):
        assert line in lines
    held = [line for line in lines if line.startswith("unspool_held_back_characters_sum")]
    assert float(held[0].rpartition(" ")[2]) >= 5
    for line in lines:
        assert line.startswith(("# HELP ", "# TYPE ", "unspool_"))


@pytest.mark.parametrize("api", APIS)
def test_stream_sends_pings(engine: EngineProcess, template: str, api: str) -> None:
    with serving(upstream="completions", url=engine.url, template=template, ping_interval=0.1) as gateway:
        engine.script("a", HOLD, "b")
        path, body = BODIES[api]
        ping = b": ping\n\n" if api != "messages" else b'event: ping\ndata: {"type":"ping"}\n\n'
        # The engine continues after the client has received two pings.
        watch = once(ping + ping, engine.release)
        _, data, _ = send(gateway.url + path, {**body, "stream": True}, watch=watch)
    assert data.count(ping) >= 2
    blocks = data.decode().split("\n\n")
    assert all(block == "" or block.startswith(("data: ", "event: ", ": ping")) for block in blocks)


def test_missing_body_times_out(engine: EngineProcess, template: str) -> None:
    with serving(upstream="completions", url=engine.url, template=template, client_timeout=0.3) as gateway:
        client = socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2])))
        client.sendall(
            b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: 100\r\n\r\n{"
        )
        assert b" 408 " in client.recv(1000)
        client.close()


# -- many clients at once


STREAMS = 200


async def receive_all(gateway: GatewayThread, api: str, began: asyncio.Event | None = None) -> bytes:
    """Return everything that a streaming client receives, up to the end of the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    path, body = BODIES[api]
    data = json.dumps({**body, "stream": True}).encode()
    writer.write(
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(data)}\r\n\r\n".encode()
        + data
    )
    got = b""
    while not got.endswith(b"0\r\n\r\n"):
        portion = await reader.read(1 << 16)
        assert portion, "the connection ended before the response did"
        got += portion
        if began is not None and b"xyz" in got:
            began.set()
    writer.close()
    await writer.wait_closed()
    return got


async def kill_upstream(gateway: GatewayThread, engine: EngineProcess) -> list[bytes]:
    """Return what clients receive if their upstream is killed while it answers all of them."""
    began = [asyncio.Event() for _ in range(STREAMS)]
    clients = [
        asyncio.create_task(receive_all(gateway, APIS[number % len(APIS)], event))
        for number, event in enumerate(began)
    ]
    for event in began:
        await event.wait()
    engine.stop()
    return await asyncio.gather(*clients)


def gateway_tasks(gateway: GatewayThread) -> int:
    """Return the gateway's tasks."""
    return len(asyncio.all_tasks(gateway.loop))


def test_killed_upstream_fails_all_its_streams(template: str) -> None:
    port = free_port()
    engine = EngineProcess("vllm", port)
    with serving(upstream="completions", url=engine.url, template=template) as gateway:
        engine.script("Hi")
        ask_whole(gateway, "chat")
        tasks = gateway_tasks(gateway)
        for _ in range(STREAMS):
            engine.script(forever="xyz ", delay=0.05)
        answers = asyncio.run(kill_upstream(gateway, engine))
        assert len(answers) == STREAMS
        for number, answer in enumerate(answers):
            assert answer.startswith(b"HTTP/1.1 200 ")
            api = APIS[number % len(APIS)]
            end = {
                "chat": b'{"error":',
                "responses": b"event: response.failed",
                "messages": b"event: error",
            }
            assert answer.count(end[api]) == 1
            assert b"broke" in answer
            assert (b"data: [DONE]\n\n" in answer) == (api == "chat")
        until(lambda: gateway_tasks(gateway) <= tasks)
        until(lambda: not gateway._server.server_state.connections)
        assert len(gateway.gateway.active) == 0
        gc.collect()
        assert not [one for one in gc.get_objects() if type(one) is Exchange]
        engine = EngineProcess("vllm", port)
        try:
            # The pool has dropped the connections, so the next request reaches the new engine.
            engine.script("Hello", " again")
            status, body = ask_whole(gateway, "chat")
            assert (status, body["choices"][0]["message"]["content"]) == (200, "Hello again")
        finally:
            engine.stop()
