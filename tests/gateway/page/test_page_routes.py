"""The page at ``/``: access control, the request log, and the raw stream next to the parsed one."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import (
    SCENARIOS,
    TOOLS,
    EngineProcess,
    GatewayThread,
    _answer,
    call_text,
    events,
    get,
    post,
    send,
    serving,
)
from unspool import plan
from unspool.gateway import Settings
from unspool.gateway.http.exchange import Exchange
from unspool.gateway.page import request_log as notes_module
from unspool.gateway.page.request_log import MAX_FIELD, MAX_OUTPUT, MAX_PROMPT, RequestLog, RequestRecord
from unspool.gateway.page.request_record_json import parse_again
from unspool.gateway.page.static_files import load_static_files
from unspool.gateway.upstreams.base import Batch
from unspool.wire import CallDelta, Delta

CHAT = "/v1/chat/completions"
ASK = [{"role": "user", "content": "Hi"}]
OFFERED = [
    {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in TOOLS.items()
]
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"messages": ASK, "tools": OFFERED},
    "messages": {
        "messages": ASK,
        "max_tokens": 50,
        "tools": [{"name": name, "input_schema": schema} for name, schema in TOOLS.items()],
    },
    "responses": {
        "input": "Hi",
        "tools": [
            {"type": "function", "name": name, "parameters": schema, "strict": False}
            for name, schema in TOOLS.items()
        ],
    },
}
KEYS = ("first-key", "second-key")


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(upstream="completions", url=engine.url, template=template, last_requests=5) as server:
        yield server


@pytest.fixture(scope="module")
def locked(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(upstream="completions", url=engine.url, template=template, api_keys=KEYS) as server:
        yield server


@pytest.fixture(autouse=True)
def _no_script_is_left(engine: EngineProcess) -> Iterator[None]:
    yield
    engine.clear()


def fetch(url: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers; underscores in header names stand for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return _answer(urllib.request.Request(url, headers=named, method=method))  # noqa: S310 - loopback


def list_records(gateway: GatewayThread, **headers: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(fetch(f"{gateway.url}/playground/requests", **headers)[1])[
        "requests"
    ]
    return records


def last_record(gateway: GatewayThread) -> dict[str, Any]:
    record: dict[str, Any] = get(f"{gateway.url}/playground/requests/{list_records(gateway)[0]['id']}")
    return record


def watch(gateway: GatewayThread, api: str, body: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the events of a watched request."""
    status, data, headers = send(f"{gateway.url}/playground/chat", {"api": api, "body": body})
    assert status == 200, data
    assert headers["content-type"].startswith("text/event-stream")
    out = []
    for block in data.decode().removesuffix("\n\n").split("\n\n"):
        name, _, value = block.partition("\n")
        out.append((name.removeprefix("event: "), json.loads(value.removeprefix("data: "))))
    return out


# -- the page itself


def test_browsers_get_the_page_and_clients_the_plain_reply(gateway: GatewayThread) -> None:
    status, data, headers = fetch(gateway.url, accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert b"<html data-served" in data
    for accept in ("*/*", "application/json"):
        status, data, headers = fetch(gateway.url, accept=accept)
        assert (status, data) == (200, b"unspool is running\n")
        assert headers["vary"] == "accept"


def test_page_files_have_safe_headers(gateway: GatewayThread) -> None:
    files = load_static_files()
    assert {"index.html", "served.js", "served.css"} <= files.keys()
    for path, file in files.items():
        status, data, headers = fetch(f"{gateway.url}/{path}")
        assert (status, data, headers["content-type"]) == (200, file.data, file.media_type)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert fetch(f"{gateway.url}/{path}", if_none_match=f'"other", {headers["etag"]}')[:2] == (304, b"")


@pytest.mark.parametrize("path", ["/../settings.py", "/%2e%2e/desk.py", "/desk.py", "//etc/passwd", "/page/"])
def test_only_page_files_are_served(gateway: GatewayThread, path: str) -> None:
    assert fetch(gateway.url + path)[0] == 404


def test_page_can_be_disabled(engine: EngineProcess, template: str) -> None:
    with serving(upstream="completions", url=engine.url, template=template, page=False) as gateway:
        assert fetch(gateway.url, accept="text/html")[1] == b"unspool is running\n"
        post(gateway.url + CHAT, {"messages": ASK})
        for path in ("/served.js", "/playground/about", "/playground/requests"):
            assert fetch(gateway.url + path)[0] == 404
        assert send(f"{gateway.url}/playground/answer", {"ask": "dialects"})[0] == 404
        assert list(gateway.gateway.page.log.records("")) == []


def test_only_clipped_output_is_marked_as_cut(gateway: GatewayThread) -> None:
    post(gateway.url + CHAT, {"messages": ASK})
    assert last_record(gateway)["cut"] is False


def test_startup_message_has_the_page_address() -> None:
    from unspool.gateway.command_line import describe_addresses

    url = "http://127.0.0.1:9000"
    assert describe_addresses(Settings(), url).endswith("latest requests.")
    assert "browser" not in describe_addresses(Settings(page=False), url)


# -- access


def test_without_a_key_only_public_data_is_shown(locked: GatewayThread) -> None:
    assert fetch(locked.url, accept="text/html")[0] == 200
    assert get(f"{locked.url}/playground/about") == {"keys": True, "admitted": False}
    about = json.loads(fetch(f"{locked.url}/playground/about", authorization=f"Bearer {KEYS[0]}")[1])
    assert about["admitted"]
    assert [model["name"] for model in about["models"]] == ["engine-model"]
    for key in ({}, {"authorization": "Bearer other"}):
        for path in ("requests", "requests/req_1", "models/engine-model"):
            assert fetch(f"{locked.url}/playground/{path}", **key)[0] == 401
        assert fetch(f"{locked.url}/playground/requests", "DELETE", **key)[0] == 401
        assert send(f"{locked.url}/playground/answer", {"ask": "dialects"}, key)[0] == 401
        assert send(f"{locked.url}/playground/chat", {"api": "chat", "body": BODIES["chat"]}, key)[0] == 401


def test_key_sees_only_its_own_requests(locked: GatewayThread, engine: EngineProcess) -> None:
    first, second = ({"authorization": f"Bearer {key}"} for key in KEYS)
    engine.script("A secret of the first.")
    send(locked.url + CHAT, {"messages": ASK}, first)
    (note,) = list_records(locked, **first)
    assert list_records(locked, **second) == []
    assert fetch(f"{locked.url}/playground/requests/{note['id']}", **second)[0] == 404
    fetch(f"{locked.url}/playground/requests", "DELETE", **second)
    assert b"secret" in fetch(f"{locked.url}/playground/requests/{note['id']}", **first)[1]
    fetch(f"{locked.url}/playground/requests", "DELETE", **first)
    assert list_records(locked, **first) == []


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "origin": "http://127.0.0.1:1"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
def test_other_origins_are_refused(
    engine: EngineProcess, template: str, headers: dict[str, str], gateway: GatewayThread
) -> None:
    for path in ("requests", "models/engine-model"):
        assert fetch(f"{gateway.url}/playground/{path}", **headers)[0] == 403
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    for path in ("answer", "chat"):
        assert send(f"{gateway.url}/playground/{path}", {"ask": "dialects"}, named)[0] == 403
    own = {"sec_fetch_site": "same-origin", "origin": gateway.url}
    assert fetch(f"{gateway.url}/playground/requests", **own)[0] == 200


def test_rebound_host_names_are_refused(gateway: GatewayThread) -> None:
    for path in ("/", "/served.js", "/playground/about", "/playground/requests"):
        assert fetch(gateway.url + path, host="evil.example")[0] == 421


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, True),
        ({"api_keys": KEYS, "host": "0.0.0.0"}, False),  # noqa: S104 - nothing listens
        ({"allow_no_keys": True, "host": "0.0.0.0"}, False),  # noqa: S104
        ({"hosts": ("*",)}, False),
        ({"hosts": ("chat.example",)}, False),
        ({"hosts": ("chat.example",), "api_keys": KEYS}, True),
        ({"last_requests": 0}, False),
        ({"page": False}, False),
        ({"page": True, "api_keys": KEYS, "host": "0.0.0.0"}, True),  # noqa: S104
    ],
)
def test_requests_are_logged_only_where_readers_are_known(
    engine: EngineProcess, template: str, settings: dict[str, Any], kept: bool
) -> None:
    from unspool.gateway.app import Gateway
    from unspool.gateway.generation.load_model import load_model
    from unspool.gateway.generation.served_models import ServedModel
    from unspool.gateway.upstreams.completions import CompletionsUpstream
    from unspool.gateway.upstreams.http_client import Connection

    chosen = Settings(upstream="completions", url=engine.url, template=template, **settings)
    upstream = CompletionsUpstream(Connection(engine.url, key="", connect=1, idle=1, limit=1))
    gateway = Gateway(chosen, [ServedModel(chosen, load_model(chosen), upstream)])
    assert bool(gateway.page.log.capacity) is kept
    gateway.page.close()
    gateway.pools.close()


# -- the request log


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.parametrize("stream", [True, False])
def test_request_log_has_request_and_response(
    gateway: GatewayThread, engine: EngineProcess, api: str, stream: bool
) -> None:
    scenario = SCENARIOS["three calls"]
    engine.script(*scenario.chunks)
    paths = {"chat": CHAT, "messages": "/v1/messages", "responses": "/v1/responses"}
    send(gateway.url + paths[api], {**BODIES[api], "stream": stream})
    record = last_record(gateway)
    assert (record["api"], record["status"], record["stream"], record["running"]) == (api, 200, stream, False)
    assert record["dialect"] == "hermes"
    (choice,) = record["choices"]
    assert choice["raw"] == "".join(scenario.chunks)
    assert choice["message"]["reasoning_content"] == scenario.seen.reasoning
    assert [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in choice["message"]["tool_calls"]
    ] == list(scenario.seen.calls)
    assert (choice["finish_reason"], choice["diagnostics"]) == ("tool_calls", [])
    assert record["deltas"] == len(scenario.chunks) + 1  # one for each chunk, and one for the end
    assert 0 <= record["first"] <= record["seconds"]
    plan_ = record["plan"]
    assert plan_["prompt"] == engine.last()["prompt"]
    assert plan_["told"]["skip_special_tokens"] == engine.last()["skip_special_tokens"]
    assert plan_["why"].keys() >= {"start", "eos", "tool_output"}
    assert [tool["function"]["name"] for tool in record["offered"]] == list(TOOLS)


def test_diagnostics_are_shown(gateway: GatewayThread, engine: EngineProcess) -> None:
    engine.script("Well. ", call_text("get_weather", "{'city': 'Oslo'}"))
    events(gateway.url + CHAT, BODIES["chat"])
    (choice,) = last_record(gateway)["choices"]
    assert [diagnostic["kind"] for diagnostic in choice["diagnostics"]] == ["malformed_call"]


def test_failed_requests_are_logged(gateway: GatewayThread, engine: EngineProcess) -> None:
    post(gateway.url + CHAT, {"messages": ASK, "temperature": 9})
    record = last_record(gateway)
    assert (record["status"], record["choices"], record["plan"]) == (400, [], None)
    assert "temperature" in record["error"]
    engine.script("Half an ", die=True)
    send(gateway.url + CHAT, {"messages": ASK, "stream": True})
    record = last_record(gateway)
    assert (record["code"], record["choices"][0]["raw"]) == ("upstream_lost", "Half an ")
    assert record["choices"][0]["message"]["content"] == "Half an "


def test_newest_requests_come_first_and_oldest_are_dropped(
    gateway: GatewayThread, engine: EngineProcess
) -> None:
    for number in range(7):
        engine.script(f"Answer {number}")
        post(gateway.url + CHAT, {"messages": ASK})
    ids = [note["id"] for note in list_records(gateway)]
    raws = [get(f"{gateway.url}/playground/requests/{id}")["choices"][0]["raw"] for id in ids]
    assert raws == [f"Answer {number}" for number in (6, 5, 4, 3, 2)]


def test_running_request_is_visible(gateway: GatewayThread, engine: EngineProcess) -> None:
    seen: list[dict[str, Any]] = []

    def look(_: bytes) -> None:
        if not seen:
            seen.append(last_record(gateway))
            engine.release()

    engine.script("Hello", None, " again")
    send(gateway.url + CHAT, {"messages": ASK, "stream": True}, watch=look)
    (record,) = seen
    assert record["running"]
    assert all("message" not in choice for choice in record["choices"])


def test_logged_request_has_bounded_memory(
    gateway: GatewayThread, engine: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "a word " * 40_000
    engine.script(long)
    tools = [
        {"type": "function", "function": {"name": f"tool_{number}", "description": "x" * 3_000}}
        for number in range(100)
    ]
    post(gateway.url + CHAT, {"messages": [{"role": "user", "content": long}], "tools": tools, "stop": ["#"]})
    record = last_record(gateway)
    assert len(record["choices"][0]["raw"]) == MAX_OUTPUT
    assert long.startswith(record["choices"][0]["raw"])
    assert len(record["plan"]["prompt"]) == MAX_PROMPT < record["plan"]["prompt_length"]
    assert record["offered"] == []
    assert len(record["left_out"]) == 3
    assert "message" not in record["choices"][0]
    assert all(len(str(value)) < 2 * MAX_FIELD for value in record["plan"]["told"].values())
    engine.script("Yes.")
    monkeypatch.setattr(notes_module, "LARGE_REQUEST", 1_000)
    post(gateway.url + CHAT, {"messages": [{"role": "user", "content": "x" * 1_100}]})
    record = last_record(gateway)
    assert (record["plan"]["prompt"], record["plan"]["told"]) == (None, None)
    assert record["choices"][0]["message"]["content"] == "Yes."


class _Scope:
    """A request without a server."""

    def __new__(cls, size: int = 0, extensions: Mapping[str, Any] | None = None) -> Exchange:  # type: ignore[misc]
        scope = {"method": "POST", "path": CHAT, "headers": [], "extensions": dict(extensions or {})}
        exchange = Exchange(f"req_{size}", scope, None, None)  # type: ignore[arg-type]
        exchange.size = size
        return exchange


def test_request_log_has_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    async def keep() -> RequestLog:
        notes = RequestLog(50)
        for number in range(40):
            exchange = _Scope(number)
            note = notes.begin(exchange)
            assert note is not None
            note.on_batch(Batch([Delta(0, "x" * 1_000)]))
            note.on_finish(exchange, None)
        return notes

    one = 1_000 + notes_module._RECORD_SIZE
    monkeypatch.setattr(notes_module, "MAX_LOG", 10 * one + 1)
    ids = [note.id for note in asyncio.run(keep()).records("")]
    assert ids == [f"req_{number}" for number in range(39, 29, -1)]
    monkeypatch.setattr(notes_module, "MAX_LOG", 1)
    assert [note.id for note in asyncio.run(keep()).records("")] == ["req_39"]


def test_logged_plan_leaves_out_large_parts() -> None:
    request = {"messages": ASK, "tools": OFFERED, "tool_choice": "required", "user": "somebody"}
    kept = plan("hermes", request).without_request()
    assert "weather" not in repr((kept.tools, kept.constraint.tools, kept._inputs.request))
    assert "Hi" not in repr(kept._inputs.request)
    assert kept.with_tools(OFFERED).tools == tuple(OFFERED)


# -- laws: the logged raw text is the upstream's text, and reparses to the same message

_CALLS = st.builds(
    lambda number, name, arguments: [CallDelta(number, f"id{number}", name, arguments)],
    st.integers(0, 2),
    st.sampled_from(["get_weather", "now"]),
    st.sampled_from(["{}", '{"city": "Oslo"}', '{"city": ']),
)
_TEXTS = st.sampled_from(
    [
        "<think>",
        "</think>",
        "Hm.",
        "\n",
        "<tool_call>",
        "</tool_call>",
        '{"name": "now", "arguments": {}}',
        "ü🎲",
    ]
)
_DELTAS = st.one_of(
    st.builds(lambda text: Delta(0, text), _TEXTS),
    st.builds(lambda text, reasoning: Delta(0, text, reasoning=reasoning), _TEXTS, _TEXTS),
    st.builds(lambda text, calls: Delta(0, text, calls=calls), st.just("") | _TEXTS, _CALLS),
)


@given(st.lists(st.lists(_DELTAS, max_size=4), max_size=6), st.sampled_from(["stop", "length", None]))
def test_logged_text_reparses_to_the_same_result(batches: list[list[Delta]], reason: Any) -> None:
    from unspool.errors import ProtocolError
    from unspool.gateway.generation.planned_choice_reader import Reader

    if reason is not None:
        batches = [*batches, [Delta(0, "", finish=reason)]]
    decided = plan("hermes", {"messages": ASK, "tools": OFFERED})
    reader = Reader(decided)
    fold = reader.planned.fold()
    note = _make_record()
    try:
        for batch in batches:
            note.on_batch(Batch(batch))
            for delta in batch:
                fold.feed(reader.feed(delta))
    except ProtocolError:
        return  # the upstream contradicts itself, and the client got an error
    text = "".join(delta.text for batch in batches for delta in batch)
    if not batches or not any(batches):
        return
    raw = note.outputs[0]
    assert raw.text() == text
    if reason is not None:
        again = decided.without_request().with_tools(OFFERED)
        message = fold.message
        reparsed = parse_again(raw, again, reads_ids=False)[1]
        assert (reparsed.content, reparsed.reasoning, reparsed.finish_reason) == (
            message.content,
            message.reasoning,
            message.finish_reason,
        )
        assert [(call.name, call.arguments) for call in reparsed.tool_calls] == [
            (call.name, call.arguments) for call in message.tool_calls
        ]


def _make_record() -> RequestRecord:
    import asyncio

    async def note() -> RequestRecord:
        return RequestRecord(_Scope(), None)

    return asyncio.run(note())


CUT = "<think>\nHm, Zürich 🎲.\n</think>\n\nOne moment.\n" + call_text("get_weather", '{"city": "Zürich"}')


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 1000])
@pytest.mark.parametrize("api", BODIES)
def test_raw_and_parsed_streams_agree_in_any_chunking(
    gateway: GatewayThread, engine: EngineProcess, api: str, size: int
) -> None:
    chunks = [CUT[at : at + size] for at in range(0, len(CUT), size)]
    engine.script(*chunks, portion=11)
    received = watch(gateway, api, {**BODIES[api], "stream": True})
    names = [name for name, _ in received]
    assert names[0] == "plan"
    assert names[1] == "head"
    assert names[-1] == "end"
    raws = [delta for name, value in received if name == "raw" for delta in value]
    assert [raw["text"] for raw in raws] == [*chunks, ""]
    assert raws[-1]["finish"] == "stop"
    wire = "".join(value for name, value in received if name == "wire")
    messages = _read_back(api, wire)
    assert messages == ("One moment.", [("get_weather", {"city": "Zürich"})])
    end = received[-1][1]
    assert end["choices"][0]["raw"] == CUT
    assert end["choices"][0]["message"]["content"] == "One moment."
    assert end["id"] == received[1][1]["headers"]["x-request-id"] == list_records(gateway)[0]["id"]


def _read_back(api: str, wire: str) -> tuple[str, list[tuple[str, Any]]]:
    """Decode a stream as a client does."""
    text = ""
    calls: list[list[str]] = []
    for block in wire.removesuffix("\n\n").split("\n\n"):
        data = next(line for line in block.split("\n") if line.startswith("data: "))[6:]
        if data == "[DONE]":
            continue
        event = json.loads(data)
        if api == "chat":
            for delta in (choice["delta"] for choice in event["choices"]):
                text += delta.get("content") or ""
                for call in delta.get("tool_calls", ()):
                    if "name" in call["function"]:
                        calls.append([call["function"]["name"], ""])
                    calls[-1][1] += call["function"]["arguments"]
        elif event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            calls.append([event["content_block"]["name"], ""])
        elif event["type"] == "content_block_delta":
            text += event["delta"].get("text", "")
            if "partial_json" in event["delta"]:
                calls[-1][1] += event["delta"]["partial_json"]
        elif event["type"] == "response.output_text.delta":
            text += event["delta"]
        elif event["type"] == "response.function_call_arguments.done":
            calls.append([event["name"], event["arguments"]])
    return text, [(name, json.loads(arguments)) for name, arguments in calls]


def test_raw_text_arrives_while_it_is_held_back(gateway: GatewayThread, engine: EngineProcess) -> None:
    """The client has received nothing yet, and the page already shows why."""
    engine.script("<tool_", None, "call> is a tag.")
    seen: list[bytes] = []

    def look(data: bytes) -> None:
        if not seen and b'"<tool_"' in data:
            seen.append(data)
            engine.release()

    body = {"api": "chat", "body": {**BODIES["chat"], "stream": True}}
    _, data, _ = send(f"{gateway.url}/playground/chat", body, watch=look)
    assert b'content\\":\\"<tool_' not in seen[0]
    assert b"is a tag" in data


def test_refused_chat_has_the_error_of_its_api(gateway: GatewayThread) -> None:
    received = dict(watch(gateway, "messages", {"messages": ASK}))
    assert received["head"]["status"] == 400
    assert json.loads(received["wire"])["error"]["type"] == "invalid_request_error"
    assert received["end"]["status"] == 400
    for body in ({}, {"api": "ollama", "body": {}}, {"api": "chat"}, {"api": "chat", "body": []}):
        status, data, _ = send(f"{gateway.url}/playground/chat", body)
        assert (status, json.loads(data)["error"]["param"]) == (
            400,
            "api" if body.get("api") != "chat" else "body",
        )


def test_page_chat_counts_once(engine: EngineProcess, template: str) -> None:
    with serving(
        upstream="completions", url=engine.url, template=template, max_concurrency=1, last_requests=0
    ) as gateway:
        received = dict(watch(gateway, "chat", {"messages": ASK}))
        assert received["head"]["status"] == 200
        assert received["end"]["choices"][0]["raw"] == "Hello!"
        assert list_records(gateway) == []
        assert get(f"{gateway.url}/playground/about")["why_no_requests"]
        assert len(gateway.gateway.active) == 0


def test_page_disconnect_stops_the_upstream(gateway: GatewayThread, engine: EngineProcess) -> None:
    from gateways import until

    engine.script("Word ", forever="word ")
    body = json.dumps({"api": "chat", "body": {"messages": ASK, "stream": True}}).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{gateway.url}/playground/chat", body, headers)  # noqa: S310
    with urllib.request.urlopen(request) as response:  # noqa: S310
        response.read(2_000)
    until(lambda: len(gateway.gateway.active) == 0)
    assert next(gateway.gateway.page.log.records("")).disconnected == "gone"


# -- playground requests and models


def test_playground_requests_are_answered(gateway: GatewayThread) -> None:
    request = {"ask": "play", "text": call_text("now", "{}"), "dialect": "hermes", "chunk": 4}
    answer = post(f"{gateway.url}/playground/answer", request)
    assert [call["name"] for call in answer["message"]["tool_calls"]] == ["now"]
    assert "error" in post(f"{gateway.url}/playground/answer", {"ask": "nothing"})
    request["text"] = "x" * 300_000
    assert send(f"{gateway.url}/playground/answer", request)[0] == 413


def test_playground_requests_run_off_the_loop(
    gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    from unspool import playground

    threads: list[str] = []

    def look(request: Mapping[str, Any]) -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        return {}

    monkeypatch.setattr(playground, "answer", look)
    post(f"{gateway.url}/playground/answer", {"ask": "dialects"})
    assert threads[0].startswith("unspool-answering the page")


def test_client_templates_run_only_where_allowed(
    gateway: GatewayThread, locked: GatewayThread, template: str, engine: EngineProcess
) -> None:
    request = {"ask": "detect", "text": Path(template).read_text(), "name": "chatml.jinja"}
    # The user on the gateway's own machine may use client templates.
    assert post(f"{gateway.url}/playground/answer", request)["dialect"] == "hermes"
    key = {"authorization": f"Bearer {KEYS[0]}"}
    status, data, _ = send(f"{locked.url}/playground/answer", request, key)
    assert status == 400
    assert b"request_templates" in data


def test_modelfile_does_not_read_gateway_files(gateway: GatewayThread, template: str) -> None:
    request = {"ask": "detect", "text": f"FROM {template}\nPARAMETER top_k 1\n", "name": "Modelfile"}
    assert "Modelfile" in post(f"{gateway.url}/playground/answer", request)["error"]


def test_policies_that_differ_from_defaults_are_shown(engine: EngineProcess, template: str) -> None:
    with serving(
        upstream="completions", url=engine.url, template=template, policies={"malformed_call": "repair"}
    ) as gateway:
        engine.script(call_text("get_weather", "{'city': 'Oslo'}"))
        post(gateway.url + CHAT, BODIES["chat"])
        record = last_record(gateway)
    assert record["plan"]["policies"] == {"malformed_call": "repair"}
    (call,) = record["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}


def test_model_report_is_cached_and_hides_paths(
    gateway: GatewayThread, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unspool.gateway.page import routes as desk

    report = get(f"{gateway.url}/playground/models/engine-model")
    assert (report["dialect"], report["chosen"]) == ("hermes", "by the chat template")
    doctor = report["doctor"]
    assert doctor["dialect"] == "hermes"
    assert doctor["evidence"]
    assert {finding["level"] for finding in doctor["findings"]} <= {"problem", "warning", "note"}
    assert str(Path(template).parent) not in json.dumps(report)
    monkeypatch.setattr(desk, "report_model", None)
    assert get(f"{gateway.url}/playground/models/engine-model") == report


def test_externally_rendered_prompt_is_explained(engine: EngineProcess) -> None:
    with serving(upstream="chat", url=engine.url, dialect="hermes") as gateway:
        report = get(f"{gateway.url}/playground/models/engine-model")
        assert (report["chosen"], report["doctor"]) == ("by the setting dialect", None)
        assert "template" in report["why_no_doctor"]
        engine.script({"delta": {"reasoning_content": "Hm."}}, "Hello.")
        end = dict(watch(gateway, "chat", {"messages": ASK}))["end"]
        assert end["choices"][0]["apart"][0]["reasoning"] == "Hm."
        assert end["choices"][0]["message"]["reasoning_content"] == "Hm."
        assert end["plan"]["prompt"] is None
