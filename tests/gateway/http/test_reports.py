"""Metrics page, log lines and token counts, each compared as a whole."""

from __future__ import annotations

import json
import re
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
    begin_request,
    call_text,
    events,
    fetch,
    log_of_the_gateway,
    send,
    serving,
    until,
)
from unspool.gateway.telemetry.metrics import Histogram

CHAT, CHAT_BODY = MINIMAL_REQUESTS["chat"]
WEATHER = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


@pytest.fixture
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(upstream="completions", url=engine.url, template=template) as server:
        yield server


# -- metrics


def test_histogram_counts_a_value_at_a_bound_in_that_bucket() -> None:
    histogram = Histogram("size", "Sizes.", (1.0, 8.0), ("kind",))
    for value in (0.5, 1.0, 1.5, 8.0, 8.5):
        histogram.observe(value, "a")
    assert list(histogram.lines()) == [
        'size_bucket{kind="a",le="1"} 2',
        'size_bucket{kind="a",le="8"} 4',
        'size_bucket{kind="a",le="+Inf"} 5',
        'size_sum{kind="a"} 19.5',
        'size_count{kind="a"} 5',
    ]


METRICS = """\
# HELP unspool_requests_total Requests by API and HTTP status.
# TYPE unspool_requests_total counter
unspool_requests_total{api="chat",status="200"} 1
unspool_requests_total{api="messages",status="502"} 1
unspool_requests_total{api="chat",status="400"} 1
unspool_requests_total{api="chat",status="499"} 1
# HELP unspool_outputs_total Finished outputs by API and finish reason.
# TYPE unspool_outputs_total counter
unspool_outputs_total{api="chat",finish_reason="tool_calls"} 1
# HELP unspool_requests_active Generations in progress.
# TYPE unspool_requests_active gauge
unspool_requests_active 0
# HELP unspool_tokens_total Tokens by kind: prompt, completion or reasoning.
# TYPE unspool_tokens_total counter
unspool_tokens_total{kind="prompt"} 7
unspool_tokens_total{kind="completion"} 6
unspool_tokens_total{kind="reasoning"} 1
# HELP unspool_time_to_first_delta_seconds Time from the request to the first text or tool call.
# TYPE unspool_time_to_first_delta_seconds histogram
unspool_time_to_first_delta_seconds_count{api="chat"} 1
unspool_time_to_first_delta_seconds_count{api="messages"} 1
# HELP unspool_request_seconds Time from the request to the end of the response.
# TYPE unspool_request_seconds histogram
unspool_request_seconds_count{api="chat"} 3
unspool_request_seconds_count{api="messages"} 1
# HELP unspool_parse_outcomes_total Tool calls by status, and diagnostics by kind.
# TYPE unspool_parse_outcomes_total counter
unspool_parse_outcomes_total{dialect="hermes",outcome="complete"} 1
# HELP unspool_unread_calls_total Texts that look like tool calls, but are not calls.
# TYPE unspool_unread_calls_total counter
# HELP unspool_held_back_characters Largest number of characters that the parser held back in one output.
# TYPE unspool_held_back_characters histogram
unspool_held_back_characters_count{dialect="hermes"} 3
# HELP unspool_upstream_up 1 if this upstream gets requests, 0 if it is paused; only for models with several upstreams.
# TYPE unspool_upstream_up gauge
# HELP unspool_upstream_errors_total Upstream failures by error code.
# TYPE unspool_upstream_errors_total counter
unspool_upstream_errors_total{code="upstream_lost"} 1
# HELP unspool_connections_refused_total Connections refused or dropped, by reason.
# TYPE unspool_connections_refused_total counter
# HELP unspool_clients_gone_total Clients that disconnected before the end of the response.
# TYPE unspool_clients_gone_total counter
unspool_clients_gone_total 1
"""  # noqa: E501 - help texts are one line
"""Metrics after the requests of the test, without the buckets and sums of histograms."""


def test_metrics_page_lists_every_metric(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("<think>", "a", "</think>", call_text("get_weather", "{}"))
    assert send(gateway.url + CHAT, {**CHAT_BODY, "tools": WEATHER})[0] == 200
    engine.script("x", die=True)
    path, body = MINIMAL_REQUESTS["messages"]
    assert send(gateway.url + path, body)[0] == 502
    assert send(gateway.url + CHAT, {**CHAT_BODY, "n": 0})[0] == 400
    _leave_before_the_response(engine, gateway)
    page = fetch(f"{gateway.url}/metrics")[1].decode()
    assert re.sub(r"^\S+_(?:bucket|sum)[{ ].*\n", "", page, flags=re.MULTILINE) == METRICS


@pytest.mark.parametrize("api", MINIMAL_REQUESTS)
def test_active_requests_are_only_generations(
    engine: EngineProcess, gateway: GatewayThread, api: str
) -> None:
    idle = _active_requests(gateway)
    seen = len(engine.seen())
    engine.script(HOLD, "x")
    with begin_request(gateway, api):
        until(lambda: len(engine.seen()) > seen)
        running = _active_requests(gateway)
        engine.release()
    until(lambda: _active_requests(gateway) == 0)
    assert (idle, running) == (0, 1)


def _active_requests(gateway: GatewayThread) -> int:
    """Return the number of active requests that a scrape reports after a health check."""
    fetch(f"{gateway.url}/health")
    page = fetch(f"{gateway.url}/metrics")[1].decode()
    return int(re.findall(r"^unspool_requests_active (\d+)$", page, re.MULTILINE)[0])


def _leave_before_the_response(engine: EngineProcess, gateway: GatewayThread) -> None:
    """Send a request, and disconnect before the engine answers."""
    seen = len(engine.seen())
    engine.script(HOLD)
    client = begin_request(gateway, "chat", stream=False)
    until(lambda: len(engine.seen()) > seen)
    client.close()
    until(lambda: gateway.gateway.metrics.clients_gone.value() == 1)
    engine.release()


# -- log lines

REQUEST = {"api": "chat", "path": CHAT, "address": "127.0.0.1", "status": 200, "seconds": 0.0}
USUAL = {**REQUEST, "first_delta": 0.0}
RESULT = {"model": "engine-model", "dialect": "hermes", "prompt_tokens": 7, "completion_tokens": 5}


def logged(lines: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the fields of the lines about requests, without times and ids."""
    found = [fields.copy() for event, fields in lines if event == "request"]
    for fields in found:
        assert str(fields.pop("id")).startswith("req_")
        for name in {"seconds", "first_delta"} & fields.keys():
            assert fields[name] >= 0
            fields[name] = 0.0
    return found


def test_log_line_of_an_answer_has_its_result(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("Well. ", call_text("get_weather", "{}"))
    with log_of_the_gateway("INFO") as lines:
        send(gateway.url + CHAT, {**CHAT_BODY, "tools": WEATHER})
        until(lambda: bool(logged(lines)))
    result = {"stream": False, "finish_reasons": ["tool_calls"], "outcomes": {"complete": 1}}
    assert logged(lines) == [{**USUAL, **RESULT, **result}]


def test_text_that_looks_like_a_call_is_counted(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("Well. ", '[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}')
    with log_of_the_gateway("INFO") as lines:
        send(gateway.url + CHAT, {**CHAT_BODY, "tools": WEATHER})
        until(lambda: bool(logged(lines)))
    assert logged(lines)[0]["outcomes"] == {"unread_call": 1}
    page = fetch(f"{gateway.url}/metrics")[1].decode()
    assert 'unspool_unread_calls_total{model="engine-model"} 1\n' in page


def test_log_line_of_a_stream_has_its_result(engine: EngineProcess, gateway: GatewayThread) -> None:
    with log_of_the_gateway("INFO") as lines:
        events(gateway.url + CHAT, CHAT_BODY)
        until(lambda: bool(logged(lines)))
    result = {"stream": True, "finish_reasons": ["stop"], "outcomes": {}}
    assert logged(lines) == [{**USUAL, **RESULT, **result}]


def test_log_line_of_a_bad_request_names_the_parameter(gateway: GatewayThread) -> None:
    with log_of_the_gateway("INFO") as lines:
        send(gateway.url + CHAT, {**CHAT_BODY, "n": 0})
        until(lambda: bool(logged(lines)))
    error = {"error": "invalid_type", "param": "n"}
    assert logged(lines) == [{**REQUEST, "status": 400, "model": "engine-model", **error}]


def test_log_line_of_an_upstream_failure_has_its_reason(
    engine: EngineProcess, gateway: GatewayThread
) -> None:
    engine.script(status=500)
    with log_of_the_gateway("INFO") as lines:
        send(gateway.url + CHAT, CHAT_BODY)
        until(lambda: bool(logged(lines)))
    (fields,) = logged(lines)
    assert fields.keys() >= {"error", "param", "reason"}
    assert (fields["status"], fields["error"], fields["param"]) == (502, "upstream_error", None)


def test_log_line_of_a_lost_client_has_status_499(engine: EngineProcess, gateway: GatewayThread) -> None:
    with log_of_the_gateway("INFO") as lines:
        _leave_before_the_response(engine, gateway)
        until(lambda: bool(logged(lines)))
    (fields,) = logged(lines)
    assert (fields["status"], fields["client"]) == (499, "gone")
    assert "error" not in fields


# -- token counts

COUNTED = {
    "prompt_tokens": 70,
    "completion_tokens": 50,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 30},
}
"""Token counts of the upstream."""
USAGE: dict[str, dict[str, Any]] = {
    "chat": {
        "prompt_tokens": 70,
        "completion_tokens": 50,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 2},
    },
    "responses": {
        "input_tokens": 70,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 0},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 120,
    },
    "messages": {"input_tokens": 70, "output_tokens": 50},
    "ollama": {"prompt_eval_count": 70, "eval_count": 50},
}
"""Token counts for clients, by API."""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", USAGE)
def test_usage_is_passed_on_completely(
    engine: EngineProcess, gateway: GatewayThread, api: str, *, stream: bool
) -> None:
    engine.script("<think>", "a", "b", "</think>", "c", usage=COUNTED)
    path, body = MINIMAL_REQUESTS[api]
    options = {"stream_options": {"include_usage": True}} if api == "chat" and stream else {}
    data = send(gateway.url + path, {**body, **options, "stream": stream})[1].decode()
    assert _usage(api, data, stream=stream) == USAGE[api]


@pytest.mark.parametrize("stream", [False, True])
def test_usage_counts_deltas_if_the_upstream_counts_nothing(
    engine: EngineProcess, gateway: GatewayThread, *, stream: bool
) -> None:
    # A call and a marker of reasoning take the slow path of the reader, plain text its fast path.
    engine.script("<think>", "a", "</think>", "b", "c", call_text("f", "{}"), usage=None)
    options = {"stream_options": {"include_usage": True}} if stream else {}
    data = send(gateway.url + CHAT, {**CHAT_BODY, **options, "tools": WEATHER, "stream": stream})[1].decode()
    usage = _usage("chat", data, stream=stream)
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (0, 6, 6)
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 1}


def _usage(api: str, data: str, *, stream: bool) -> dict[str, Any]:
    if api == "ollama":
        last = json.loads(data.splitlines()[-1])
        return {name: value for name, value in last.items() if name.endswith("eval_count")}
    chunks = re.findall(r"^data: ({.*)$", data, re.MULTILINE) if stream else [data]
    found: dict[str, Any] = {}
    for chunk in map(json.loads, chunks):
        inner = chunk.get("response") or chunk.get("message") or {}
        found |= chunk.get("usage") or inner.get("usage") or {}
    return found
