"""Authentication and request limits: keys fail closed, strangers see little, bodies are bounded."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import EngineProcess, GatewayThread, get, post, send, serving, until
from unspool import UsageError
from unspool.events import normalise
from unspool.gateway import Settings, create_app, load_settings
from unspool.gateway.apis import parse_endpoint as parsing
from unspool.gateway.generation import check_converted_size
from unspool.gateway.http import json_limits as limits
from unspool.gateway.http import request_body as intake
from unspool.gateway.http.exchange import Exchange
from unspool.gateway.http.failure import Failure
from unspool.gateway.http.json_limits import MOST_DEPTH, MOST_DIGITS, SMALL, Bounds, is_deeper
from unspool.gateway.http.request_body import decode
from unspool.gateway.telemetry.logs import MAX_MESSAGE
from unspool.gateway.upstreams.engines import Vllm
from unspool.parser import Parser
from unspool.planning import Plan
from unspool.testing._linear_time_law import count_lines

CHAT = "/v1/chat/completions"
ASK = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": ASK}),
    "responses": ("/v1/responses", {"input": "Hi"}),
    "messages": ("/v1/messages", {"messages": ASK, "max_tokens": 50}),
    "ollama": ("/api/chat", {"messages": ASK}),
}


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(
        upstream="completions",
        url=engine.url,
        template=template,
        max_request_bytes=400_000,
        max_request_values=20_000,
        max_pending_bytes=400_000,
        max_output_bytes=400_000,
    ) as server:
        yield server


def error_of(data: bytes) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(data)["error"]
    return error


# -- API keys fail closed


@pytest.mark.parametrize("keys", [("",), ("k", ""), (" ",), ("\t\n",)])
def test_empty_key_is_an_error(keys: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="api_keys contains an empty key"):
        Settings(api_keys=keys)


@pytest.mark.parametrize("text", ["", " ", ",", "k,", ",k", "a,,b"])
def test_empty_key_from_the_environment_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="UNSPOOL_API_KEYS contains an empty key"):
        load_settings(environment={"UNSPOOL_API_KEYS": text})


def test_empty_key_from_a_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('api_keys = [""]\n', encoding="utf-8")
    with pytest.raises(UsageError, match="empty key"):
        load_settings(environment={}, config=str(file))


@pytest.mark.parametrize("host", ["::", "192.0.2.1", "gateway.example", "", "::ffff:192.0.2.1"])
def test_public_address_without_keys_is_refused_unless_allowed(host: str) -> None:
    with pytest.raises(UsageError, match="allow_no_keys=true"):
        Settings(host=host)
    assert Settings(host=host, api_keys=("k",)).host == host
    assert Settings(host=host, allow_no_keys=True).host == host


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.10", "::1", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]
)
def test_loopback_clients_need_no_keys(host: str) -> None:
    assert Settings(host=host).api_keys == ()


async def status_from(settings: Settings, server: str) -> int:
    """Return the status of a request for this server address."""
    sent: list[Any] = []
    app = create_app(settings)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/models",
        "headers": [(b"host", b"localhost")],
        "server": (server, 80),
        "client": ("192.0.2.7", 1),
    }
    await app(scope, receive, send)
    return int(sent[0]["status"])


def test_other_asgi_server_uses_the_connection_address(tmp_path: Path) -> None:
    file = tmp_path / "streams.jsonl"
    file.write_text('{"chunks": ["Hi"]}\n', encoding="utf-8")
    settings = {"upstream": "replay", "file": str(file), "dialect": "hermes", "log_level": "error"}
    for server, more, status in (
        ("127.0.0.1", {}, 200),
        ("192.0.2.1", {}, 403),
        ("192.0.2.1", {"allow_no_keys": True}, 200),
        ("192.0.2.1", {"api_keys": ("k",)}, 401),
    ):
        assert asyncio.run(status_from(Settings(**settings, **more), server)) == status  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings", [{"url": "http://user:pw@u"}, {"urls": ("http://pw@v",), "url": "http://u"}]
)
@pytest.mark.parametrize("key", ["", "k"])
def test_passwords_in_urls_are_refused_and_not_repeated(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(UsageError, match="upstream_key") as refused:
        Settings(upstream="chat", dialect="hermes", upstream_key=key, **settings)
    assert "pw" not in str(refused.value)
    assert Settings(upstream="chat", url="http://u/path@x", dialect="hermes").url


# -- public information


def post_raw(gateway: GatewayThread, path: str, *fields: str) -> dict[str, Any]:
    with closing(socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2])))) as client:
        head = "\r\n".join((f"GET {path} HTTP/1.0", "host: localhost", *fields))
        client.sendall(f"{head}\r\n\r\n".encode())
        data = b""
        while portion := client.recv(1 << 16):
            data += portion
    answer: dict[str, Any] = json.loads(data.partition(b"\r\n\r\n")[2])
    return answer


def test_readiness_without_a_key_shows_no_details(engine: EngineProcess, template: str) -> None:
    with serving(upstream="completions", url=engine.url, template=template, api_keys=("k",)) as gateway:
        assert post_raw(gateway, "/ready") == {"status": "ready"}
        assert post_raw(gateway, "/ready", "x-api-key: wrong") == {"status": "ready"}
        assert post_raw(gateway, "/ready", "x-api-key: k")["models"] == {"engine-model": True}


def test_readiness_checks_the_upstream_at_intervals(gateway: GatewayThread) -> None:
    upstream: Any = gateway.gateway.upstream
    before, checks = upstream.ready, 0

    async def counted() -> bool:
        nonlocal checks
        checks += 1
        return bool(await before())

    upstream.ready = counted
    try:
        gateway.gateway.status._checked = None
        for _ in range(20):
            get(f"{gateway.url}/ready")
    finally:
        upstream.ready = before
    assert 1 <= checks < 10


def test_error_messages_are_bounded() -> None:
    assert len(Failure("not_found", "x" * 1_000_000).message) < MAX_MESSAGE + 100


def test_upstream_addresses_are_hidden(template: str) -> None:
    # This address is reserved for documentation, so nothing answers there.
    with serving(
        upstream="completions", url="http://192.0.2.1:8000", template=template, connect_timeout=0.2
    ) as gateway:
        for path, body in BODIES.values():
            status, data, _ = send(gateway.url + path, body)
            assert status in (502, 504)
            assert b"192.0.2.1" not in data


# -- limits of request bodies


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a"\\,[]{}:\n', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('a",\\[', max_size=3), inner, max_size=4)
    ),
    max_leaves=30,
)


def count_values(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(count_values, value.values()))
    return 1 + sum(map(count_values, value)) if isinstance(value, list) else 1


def fits_limit(data: bytes, most: int) -> bool:
    try:
        Bounds(most).check(data)
    except Failure:
        return True
    return False


@given(value=JSON, most=st.integers(0, 40), window=st.integers(2, 40))
def test_values_are_counted_without_decoding(value: Any, most: int, window: int) -> None:
    """The number of separators is at most the number of values, and at least half of it."""
    data = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_WINDOW", window)
        if fits_limit(data, most):
            assert count_values(value) > most / 2
        else:
            assert count_values(value) <= 2 * most + 2


@given(value=JSON, most=st.integers(0, 40), cuts=st.lists(st.integers(0, 200)))
def test_values_are_counted_while_receiving(value: Any, most: int, cuts: list[int]) -> None:
    data = json.dumps(value).encode()
    bounds = Bounds(most)
    try:
        for cut in (*sorted(cuts), len(data)):
            bounds.check(data[:cut])
    except Failure:
        assert fits_limit(data, most)
    else:
        assert not fits_limit(data, most)


@pytest.mark.parametrize("unit", ['"a",', '"",', '"', '\\"', "\\\\", "[", "1,"])
def test_counting_is_not_per_string_in_python(unit: str) -> None:
    size = 200_000
    plain = count_lines(lambda: fits_limit(b'["' + b"x" * size, size - 1))
    assert count_lines(lambda: fits_limit(b"[" + unit.encode() * (size // len(unit)), size - 1)) <= 2 * plain


def test_unbalanced_quotes_count_as_too_many_values() -> None:
    assert fits_limit(b'{"a":' + b'""' * 50_000, 20_000)


@given(value=JSON, most=st.integers(1, 6))
def test_depth_counts_containers(value: Any, most: int) -> None:
    def depth(one: object) -> int:
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    if isinstance(value, (dict, list)):
        assert is_deeper(value, most) == (depth(value) > most)


def test_strings_are_not_counted_as_values() -> None:
    data = json.dumps({"messages": ['[{,"\\' * 50_000]}).encode()
    assert decode(data, Bounds(10))["messages"]


@pytest.mark.parametrize("number", [b"1e300", b"1.5", b"-1." + b"7" * 100 + b"e-300"])
def test_decoding_numbers_yields_to_other_threads(number: bytes) -> None:
    """Decoding in one step would block other threads for 8 us per number."""
    one, many = (
        count_lines(lambda count=count: decode(b'{"a":[' + b",".join([number] * count) + b"]}", Bounds(2000)))  # type: ignore[misc]
        for count in (1, 501)
    )
    assert many - one >= 500


def test_oversized_numbers_are_refused() -> None:
    assert decode(b'{"a":[-1.5e3,1E-400,12345678901234567890]}', Bounds(10)) == {
        "a": [-1500.0, 0.0, 12345678901234567890]
    }
    with pytest.raises(Failure, match="out of range"):
        decode(b'{"a":1e400}', Bounds(10))


def test_digits_count_only_in_numbers() -> None:
    digits = b"7" * 4000
    numbers = b",".join([digits] * (MOST_DIGITS // 4000 + 1))
    assert fits_limit(b"[" + numbers + b"]", MOST_DIGITS)
    assert not fits_limit(b"[" + numbers.replace(digits, digits[2000:]) + b"]", MOST_DIGITS)
    assert not fits_limit(b'["' + numbers + b'"]', MOST_DIGITS)


@pytest.mark.parametrize(
    ("data", "cost"),
    [
        (b'{"a":[1,2,3]}', 4),
        (b"[" + b"7" * 100 + b"]", 11),
        (b'["' + b"7" * 100 + b'"]', 1),
        (b'["' + b"\\n" * 1000 + b'"]', 1 + 1000 // limits._ESCAPES),
    ],
)
def test_digits_and_escapes_add_to_the_cost_of_decoding(data: bytes, cost: int) -> None:
    assert limits.count_values(data) == cost


@given(values=st.lists(JSON, max_size=4), most=st.integers(0, 40))
def test_json_strings_are_counted_together(values: list[Any], most: int) -> None:
    texts = ['"[,', *map(json.dumps, values)]  # the unclosed string does not hide the others
    try:
        Bounds(most).check_texts(texts)
    except Failure:
        assert sum(map(count_values, values)) + 2 > most / 2
    else:
        assert sum(map(count_values, values)) <= 2 * most + 2 * len(texts)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_arguments_with_many_values_are_refused(gateway: GatewayThread, api: str) -> None:
    """The arguments are JSON in a string, and are decoded later."""
    path, body = BODIES[api]
    call = {"name": "f", "arguments": json.dumps({"a": [1] * 30_000})}
    bodies: dict[str, dict[str, Any]] = {
        "chat": {
            "messages": [
                *ASK,
                {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": call}]},
                {"role": "tool", "tool_call_id": "c", "content": "x"},
            ]
        },
        "responses": {
            "input": [
                {"type": "function_call", "call_id": "c", **call},
                {"type": "function_call_output", "call_id": "c", "output": "x"},
            ]
        },
    }
    status, data, _ = send(gateway.url + path, {**body, **bodies[api]})
    assert status == 413
    assert b"values" in data


def test_json_strings_have_a_length_limit(gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_converted_size, "MAX_WRITTEN", 1000)
    long = "x" * 1000
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": long})}}
    tool = {"name": "f", "description": long, "parameters": {"type": "object"}}
    schema = {"name": "s", "schema": {"type": "object", "description": long}}
    for what, fields in (
        ("arguments", {"messages": [*ASK, {"role": "assistant", "tool_calls": [call]}, *ASK]}),
        ("tools", {"tools": [{"type": "function", "function": tool}]}),
        ("schema", {"response_format": {"type": "json_schema", "json_schema": schema}}),
    ):
        status, data, _ = send(gateway.url + CHAT, {"messages": ASK, **fields})
        assert status == 413
        assert what in error_of(data)["message"]
    post(gateway.url + CHAT, {"messages": [{"role": "user", "content": long}]})


@pytest.mark.parametrize("api", BODIES)
def test_body_with_many_values_is_refused(gateway: GatewayThread, api: str) -> None:
    path, body = BODIES[api]
    status, data, _ = send(gateway.url + path, {**body, "metadata": [1] * 30_000})
    assert status == 413
    assert b"values" in data


def test_body_is_refused_as_soon_as_it_passes_a_limit(
    gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway does not wait for the rest of the body."""
    monkeypatch.setattr(intake, "_COUNT_INTERVAL", SMALL)
    port = int(gateway.url.rpartition(":")[2])
    with closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as client:
        head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        client.sendall(f"{head}content-length: 300000\r\n\r\n".encode() + b'{"messages":[' + b"1," * 50_000)
        assert b" 413 " in client.recv(100)


def test_checking_a_body_does_not_use_the_client_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running: list[float] = []
    left: list[float] = []

    @asynccontextmanager
    async def timeout(seconds: float) -> AsyncIterator[None]:
        running.append(seconds)
        left.append(seconds)
        yield
        running.clear()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b" ", "more_body": len(left) < 3}

    async def grown(_: bytearray) -> None:
        assert not running

    async def send(_: object) -> None: ...

    async def take() -> bytearray:
        headers = [(b"content-type", b"application/json")]
        exchange = Exchange("", {"method": "POST", "path": "/", "headers": headers}, receive, send)
        return await exchange.read_body(10, 5.0, grown)

    monkeypatch.setattr(asyncio, "timeout", timeout)
    assert asyncio.run(take()) == b"   "
    assert left == sorted(left, reverse=True), "each read must reduce the time left"


def nested_schema(depth: int) -> Any:
    schema: Any = {}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize("depth", [MOST_DEPTH // 2, 300, 5000])
@pytest.mark.parametrize("api", BODIES)
def test_schema_of_any_depth_is_a_bad_request(gateway: GatewayThread, api: str, depth: int) -> None:
    path, body = BODIES[api]
    text = '{"type":"object","properties":{"a":' * depth + "{}" + "}}" * depth
    function = f'{{"name":"f","description":"d","strict":true,"parameters":{text}}}'
    tool = {
        "responses": f'{{"type":"function",{function[1:]}',
        "messages": f'{{"name":"f","input_schema":{text}}}',
    }.get(api, f'{{"type":"function","function":{function}}}')
    status, data, _ = send(gateway.url + path, f'{json.dumps(body)[:-1]},"tools":[{tool}]}}'.encode())
    assert status == 400, data


def test_arguments_of_any_depth_are_not_a_server_error(gateway: GatewayThread) -> None:
    for depth in (300, 5000, 100_000):
        call = {
            "type": "function",
            "id": "c",
            "function": {"name": "f", "arguments": "[" * depth + "]" * depth},
        }
        messages = [*ASK, {"role": "assistant", "content": "", "tool_calls": [call]}]
        messages.append({"role": "tool", "tool_call_id": "c", "content": "x"})
        status, data, _ = send(gateway.url + CHAT, {"messages": messages})
        assert status in (200, 400, 413), data


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip"])
def test_compressed_body_is_refused_by_name(gateway: GatewayThread, encoding: str) -> None:
    data = gzip.compress(json.dumps({"messages": ASK}).encode())
    status, answer, _ = send(gateway.url + CHAT, data, {"content-encoding": encoding})
    assert status == 415
    assert encoding in error_of(answer)["message"]


def test_large_bodies_are_decoded_in_a_pool(gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    before = intake.decode

    def watched(data: bytes, bounds: Bounds) -> dict[str, Any]:
        seen.append(threading.current_thread().name)
        return before(data, bounds)

    monkeypatch.setattr(intake, "decode", watched)
    for size in (10, SMALL + 1):
        post(gateway.url + CHAT, {"messages": [{"role": "user", "content": "x" * size}]})
    assert not seen[0].startswith("unspool-")
    assert seen[1].startswith("unspool-")


def test_grammars_and_parsers_are_built_in_a_pool(
    gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, str] = {}

    def watched(place: Any, name: str) -> None:
        before = getattr(place, name)

        def called(*args: Any, **more: Any) -> Any:
            seen[name] = threading.current_thread().name
            return before(*args, **more)

        monkeypatch.setattr(place, name, called)

    watched(Vllm, "build_constraint")
    watched(Plan, "parser")
    tool = {"type": "function", "function": {"name": "f", "parameters": nested_schema(2)}}
    post(gateway.url + CHAT, {"messages": ASK, "tools": [tool], "tool_choice": "required"})
    assert set(seen) == {"build_constraint", "parser"}
    assert all(name.startswith("unspool-preparing") for name in seen.values()), seen


def test_large_bodies_share_a_limit(gateway: GatewayThread) -> None:
    large = json.dumps({"messages": [{"role": "user", "content": "x" * 300_000}]}).encode()
    port = int(gateway.url.rpartition(":")[2])
    with closing(socket.create_connection(("127.0.0.1", port))) as client:
        head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        client.sendall(f"{head}content-length: {len(large)}\r\n\r\n".encode() + large[:-1])
        until(lambda: gateway.gateway.bodies._free_bytes < 150_000)
        status, data, headers = send(gateway.url + CHAT, large)
        assert (status, error_of(data)["code"], headers["retry-after"]) == (503, "overloaded", "1")
        assert send(gateway.url + CHAT, {"messages": ASK})[0] == 200, "small bodies must not count"
        client.sendall(large[-1:])
        assert b" 200 " in client.recv(100)
    until(lambda: gateway.gateway.bodies._free_bytes == 400_000)
    assert send(gateway.url + CHAT, large)[0] == 200


def send_part(gateway: GatewayThread, body: bytes, length: int) -> socket.socket:
    """Return a client that has sent part of a body."""
    client = socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2])), timeout=30)
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    client.sendall(f"{head}content-length: {length}\r\n\r\n".encode() + body)
    return client


def test_concurrency_counts_requests_with_complete_bodies(engine: EngineProcess, template: str) -> None:
    whole = json.dumps({"messages": ASK}).encode()
    with (
        serving(upstream="completions", url=engine.url, template=template, max_concurrency=1) as gateway,
        ExitStack() as clients,
    ):
        slow = [clients.enter_context(closing(send_part(gateway, whole[:-1], len(whole)))) for _ in range(5)]
        until(lambda: len(gateway.gateway.active) == 5)
        assert send(gateway.url + CHAT, whole)[0] == 200
        for client in slow:
            until(lambda: not gateway.gateway.active._admitted)
            client.sendall(whole[-1:])
            assert b" 200 " in client.recv(100)


def test_slowest_body_makes_room(engine: EngineProcess, template: str) -> None:
    whole = json.dumps({"messages": ASK}).encode()
    settings = {"upstream": "completions", "url": engine.url, "template": template}
    with serving(**settings, max_pending_requests=2) as gateway, ExitStack() as clients:
        coming = gateway.gateway.bodies._arriving
        first = clients.enter_context(closing(send_part(gateway, whole[:1], len(whole))))
        until(lambda: len(coming) == 1)
        second = clients.enter_context(closing(send_part(gateway, whole[:1], len(whole))))
        until(lambda: len(coming) == 2)
        before = list(coming)
        first.sendall(whole[1:2])
        until(lambda: list(coming) == before[::-1])
        assert send(gateway.url + CHAT, whole)[0] == 200
        data = second.recv(1 << 16)
        assert b" 503 " in data
        assert b"retry-after: 1" in data
        first.sendall(whole[2:])
        assert b" 200 " in first.recv(100)


def test_refused_body_is_released_at_once(gateway: GatewayThread) -> None:
    """Memory is freed without garbage collection; otherwise a hundred bodies would fill the memory."""
    bodies: dict[str, Any] = {
        "too many values": {"messages": ASK, "metadata": [1] * 30_000},
        "not for us": {"messages": [{"role": "nobody", "content": "x" * 100_000}]},
        "not JSON": b"{" + b" " * 100_000,
        "too large": b" " * 500_000,
        "too deep": b'{"messages":' + b"[" * 200 + b" " * 100_000 + b"]" * 200 + b"}",
    }
    send(gateway.url + CHAT, b"{")
    gc.collect()
    gc.disable()
    try:
        for name, body in bodies.items():
            assert send(gateway.url + CHAT, body)[0] in (400, 413), name
            until(lambda: not any(type(one) is Exchange for one in gc.get_objects()))
    finally:
        gc.enable()


# -- /v1/parse


def test_parse_endpoint_has_limits(gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in ({"text": "x" * 110_000}, {"chunks": ["x"] * 2000}, {"chunks": ["x" * 60_000] * 2}):
        status, data, _ = send(f"{gateway.url}/v1/parse", {"dialect": "hermes", **body})
        assert (status, error_of(data)["code"]) == (413, "parse_too_large"), data
    monkeypatch.setattr(parsing, "_TIMEOUT", 0.0)
    status, data, _ = send(f"{gateway.url}/v1/parse", {"dialect": "hermes", "text": "x"})
    assert status == 413
    assert "seconds" in error_of(data)["message"]


def test_long_text_parses_like_a_short_one(gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "<think>a</think>" + 'b <tool_call>{"name": "f", "arguments": {"x": "y"}}</tool_call>' * 20
    monkeypatch.setattr(parsing, "_MAX_FEED", 7)
    message = post(f"{gateway.url}/v1/parse", {"text": text, "dialect": "hermes"})
    parser = Parser("hermes")
    events = normalise(parser.feed(text)) + parser.finish()
    assert [(one["event"], one["start"], one["end"]) for one in message["events"]] == [
        (type(one).__name__, one.start, one.end) for one in events
    ]
