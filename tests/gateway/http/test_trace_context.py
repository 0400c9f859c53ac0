"""Request ids and trace context: what is kept, what is replaced, and what the upstream gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import (
    HOLD,
    MINIMAL_REQUESTS,
    EngineProcess,
    GatewayThread,
    fetch,
    log_of_the_gateway,
    once,
    send,
    serving,
    until,
)
from unspool.gateway.http.trace_context import MAX_ID, RequestIds, trace_headers, trace_id

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
STATE = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"


@pytest.fixture(params=["completions", "chat"])
def gateway(engine: EngineProcess, template: str, request: pytest.FixtureRequest) -> Iterator[GatewayThread]:
    with serving(upstream=request.param, url=engine.url, template=template) as server:
        yield server


@pytest.mark.parametrize("api", MINIMAL_REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
def test_request_id_and_trace_reach_log_response_and_upstream(
    engine: EngineProcess, gateway: GatewayThread, api: str, *, stream: bool
) -> None:
    path, body = MINIMAL_REQUESTS[api]
    headers = {"x-request-id": f"agent-{api}/1", "traceparent": PARENT, "tracestate": STATE}
    with log_of_the_gateway("INFO") as lines:
        _, _, received = send(gateway.url + path, {**body, "stream": stream}, headers)
        until(lambda: any(event == "request" for event, _ in lines))
    assert received["x-request-id"] == f"agent-{api}/1"
    sent = engine.seen()[-1]["headers"]
    assert {name: sent[name] for name in headers} == headers
    (line,) = (fields for event, fields in lines if event == "request")
    assert (line["id"], line["trace_id"]) == (f"agent-{api}/1", TRACE)


def test_embeddings_and_completions_get_the_id(engine: EngineProcess, gateway: GatewayThread) -> None:
    for path, body in (("/v1/embeddings", {"input": "a"}), ("/v1/completions", {"prompt": "a"})):
        send(gateway.url + path, {**body, "stream": True}, {"x-request-id": path, "traceparent": PARENT})
        sent = engine.seen()[-1]["headers"]
        assert (sent["x-request-id"], sent["traceparent"]) == (path, PARENT)


def test_request_without_an_id_gets_one(engine: EngineProcess, gateway: GatewayThread) -> None:
    path, body = MINIMAL_REQUESTS["chat"]
    received = send(gateway.url + path, body)[2]
    sent = engine.seen()[-1]["headers"]
    assert received["x-request-id"].startswith("req_")
    assert sent["x-request-id"] == received["x-request-id"]
    assert "traceparent" not in sent
    assert "tracestate" not in sent


def test_error_has_the_id_of_the_client(gateway: GatewayThread) -> None:
    assert send(gateway.url + "/nowhere", {}, {"x-request-id": "mine"})[2]["x-request-id"] == "mine"


def test_id_of_a_running_request_is_replaced(engine: EngineProcess, gateway: GatewayThread) -> None:
    path, body = MINIMAL_REQUESTS["chat"]
    headers = {"x-request-id": "twice"}
    seen: list[dict[str, Any]] = []

    def send_again() -> None:
        seen.append(send(gateway.url + path, body, headers)[2])
        engine.release()

    engine.script("Hello", HOLD, " there.")
    _, _, first = send(gateway.url + path, {**body, "stream": True}, headers, once(b"Hello", send_again))
    assert first["x-request-id"] == "twice"
    assert seen[0]["x-request-id"].startswith("req_")
    until(lambda: len(gateway.gateway.active) == 0)
    assert send(gateway.url + path, body, headers)[2]["x-request-id"] == "twice"


def test_upstream_requests_for_several_choices_have_different_ids(template: str) -> None:
    engine = EngineProcess("llamacpp")
    try:
        with serving(upstream="completions", url=engine.url, template=template) as gateway:
            path, body = MINIMAL_REQUESTS["chat"]
            send(gateway.url + path, {**body, "n": 3}, {"x-request-id": "many"})
            ids = {one["headers"]["x-request-id"] for one in engine.seen() if "headers" in one}
    finally:
        engine.stop()
    assert ids == {"many-0", "many-1", "many-2"}


@pytest.mark.parametrize(
    ("id", "accepted"),
    [
        ("a", True),
        ("req_1.2:3/4+5=6@7-8", True),
        ("x" * MAX_ID, True),
        ("x" * (MAX_ID + 1), False),
        ("", False),
        ("a b", False),
        ("a\x00", False),
        ("a\n", False),
        ("ä", False),
        ('"', False),
    ],
)
def test_request_id_is_bounded_and_checked(id: str, *, accepted: bool) -> None:
    ids = RequestIds()
    assert ids.claim(id) is accepted
    assert not ids.claim(id)
    ids.release(id)
    assert ids.claim(id) is accepted


@pytest.mark.parametrize(
    ("parent", "state", "expected"),
    [
        (PARENT, "", {"traceparent": PARENT}),
        (PARENT, STATE, {"traceparent": PARENT, "tracestate": STATE}),
        (PARENT, "x" * 513, {"traceparent": PARENT}),
        (PARENT, "a=\x01", {"traceparent": PARENT}),
        (f"cc{PARENT[2:]}-more", "", {"traceparent": f"cc{PARENT[2:]}-more"}),
        (f"{PARENT}-more", STATE, {}),
        (f"ff{PARENT[2:]}", STATE, {}),
        (PARENT.upper(), STATE, {}),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", STATE, {}),
        (f"00-{TRACE}-{'0' * 16}-01", STATE, {}),
        ("", STATE, {}),
    ],
)
def test_only_valid_trace_context_is_passed_on(parent: str, state: str, expected: dict[str, str]) -> None:
    assert trace_headers(parent, state) == expected
    assert trace_id(parent) == (TRACE if expected else "")


def test_invalid_id_is_replaced_in_the_response(gateway: GatewayThread) -> None:
    assert fetch(f"{gateway.url}/health")[2]["x-request-id"].startswith("req_")
    path, body = MINIMAL_REQUESTS["chat"]
    for id in ("a b", "x" * 500):
        assert send(gateway.url + path, body, {"x-request-id": id})[2]["x-request-id"].startswith("req_")
