"""Ollama's API, as Ollama's own client reads it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")
pytest.importorskip("ollama")

import ollama

from gateways import (
    HOLD,
    SCENARIOS,
    TOOLS,
    EngineProcess,
    GatewayThread,
    Seen,
    call_text,
    once,
    post,
    send,
    serving,
)

ASK = [{"role": "user", "content": "q"}]
OFFERED: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in TOOLS.items()
]


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(upstream="completions", url=engine.url, template=template, model="m") as server:
        yield server


@pytest.fixture(scope="module")
def client(gateway: GatewayThread) -> Iterator[Any]:
    with closing(gateway) as client_:
        yield client_


@contextmanager
def closing(gateway: GatewayThread) -> Iterator[Any]:
    client_ = ollama.Client(host=gateway.url)
    try:
        yield client_
    finally:
        client_._client.close()


def seen(lines: Any) -> Seen:
    """Return what the client received, streamed or whole."""
    text = reasoning = ended = ""
    calls: list[tuple[str, dict[str, Any]]] = []
    for line in lines:
        text += line.message.content or ""
        reasoning += line.message.thinking or ""
        calls += [(one.function.name, dict(one.function.arguments)) for one in line.message.tool_calls or ()]
        ended = line.done_reason or ended
    return Seen(text, reasoning, tuple(calls), "calls" if calls and ended == "stop" else ended)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", SCENARIOS)
def test_client_receives_the_model_output(
    client: Any, engine: EngineProcess, name: str, stream: bool
) -> None:
    scenario = SCENARIOS[name]
    engine.script(*scenario.chunks, **scenario.script)

    def ask() -> Seen:
        answer = client.chat(model="m", messages=ASK, tools=OFFERED, stream=stream)
        return seen(answer if stream else [answer])

    if scenario.seen.ended == "error":
        with pytest.raises(ollama.ResponseError, match="broke"):
            ask()
    else:
        assert ask() == scenario.seen


def test_text_and_thinking_stream(gateway: GatewayThread, engine: EngineProcess) -> None:
    engine.script("<think>\nSo", HOLD, " it is.\n</think>\n\nYes", HOLD, ".")
    thought, content = once(b'"thinking":"So"', engine.release), once(b'"content":"Yes"', engine.release)
    body = {"model": "m", "messages": ASK}
    status, data, headers = send(
        f"{gateway.url}/api/chat", body, watch=lambda got: (thought(got), content(got))
    )
    assert (status, headers["content-type"]) == (200, "application/x-ndjson")
    lines = [json.loads(line) for line in data.splitlines()]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert (lines[-1]["prompt_eval_count"], lines[-1]["eval_count"]) == (7, 5)


def test_conversation_with_tools_works(client: Any, engine: EngineProcess) -> None:
    engine.script(
        "<think>\nTwo.\n</think>\n\n" + call_text("get_weather", '{"city": "Paris"}') + call_text("now", "{}")
    )
    first = client.chat(model="m", messages=ASK, tools=OFFERED)
    results = [
        {"role": "tool", "content": "12:00", "tool_name": "now"},
        {"role": "tool", "content": "sunny", "tool_name": "get_weather"},
    ]
    engine.script("Sunny at noon.")
    second = client.chat(model="m", messages=[*ASK, first.message, *results], tools=OFFERED)
    assert second.message.content == "Sunny at noon."
    prompt = engine.last()["prompt"]
    assert '{"name": "get_weather", "arguments": {"city": "Paris"}}' in prompt
    assert "Two." in prompt
    assert prompt.index("12:00") < prompt.index("sunny")


def test_results_without_names_belong_to_calls_in_order(gateway: GatewayThread) -> None:
    calls = [{"function": {"name": "now", "arguments": {}}}]
    turns = [*ASK, {"role": "assistant", "content": "", "tool_calls": calls}]
    url, result = f"{gateway.url}/api/chat", {"role": "tool", "content": "12:00"}
    assert send(url, {"model": "m", "messages": [*turns, result]})[0] == 200
    status, data, _ = send(url, {"model": "m", "messages": [*turns, result, result]})
    assert (status, "messages[3]" in json.loads(data)["error"]) == (400, True)


def test_malformed_call_is_text(client: Any, engine: EngineProcess) -> None:
    broken = '<tool_call>\n{"name": "now", "arguments": {"a": }}\n</tool_call>'
    for stream in (False, True):
        engine.script(broken)
        answer = client.chat(model="m", messages=ASK, tools=OFFERED, stream=stream)
        assert seen(answer if stream else [answer]) == Seen(broken)


def test_request_options_reach_the_engine(client: Any, engine: EngineProcess) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    options = {
        "temperature": 0.5,
        "top_k": 7,
        "repeat_penalty": 1.2,
        "num_predict": 9,
        "stop": ["END"],
        "num_ctx": 99,
    }
    engine.script('{"a": 1}')
    client.chat(model="m", messages=ASK, format=schema, options=options, think=False, keep_alive="5m")
    request = engine.last()
    wanted = {"temperature": 0.5, "top_k": 7, "repetition_penalty": 1.2, "max_tokens": 9, "stop": ["END"]}
    assert {key: request[key] for key in wanted} == wanted
    assert request["structured_outputs"] == {"json": schema}
    assert "<think>\n\n</think>" in request["prompt"]
    assert "num_ctx" not in request


def test_generate_endpoint_answers(client: Any, engine: EngineProcess) -> None:
    for stream in (False, True):
        engine.script("<think>\nHm.\n</think>\n\nHello", " there.")
        answer = client.generate(model="m", prompt="Hi", system="Be brief.", stream=stream)
        lines = list(answer) if stream else [answer]
        assert "".join(line.response for line in lines) == "Hello there."
        assert "".join(line.thinking or "" for line in lines) == "Hm."
        assert lines[-1].done_reason == "stop"
        prompt = engine.last()["prompt"]
        assert prompt.index("Be brief.") < prompt.index("Hi")
    for name, value in (("raw", True), ("suffix", "x"), ("template", "x"), ("context", [1])):
        with pytest.raises(ollama.ResponseError, match=name):
            client.generate(model="m", prompt="Hi", **{name: value})


def test_load_request_is_acknowledged(client: Any) -> None:
    assert client.generate(model="m").done_reason == "load"
    assert client.chat(model="m", messages=[]).done_reason == "load"


def test_images_go_to_a_server_that_takes_them(engine: EngineProcess) -> None:
    picture = base64.b64encode(b"\x89PNG....").decode()
    with serving(upstream="chat", url=engine.url, dialect="hermes") as gateway:
        engine.script("A cat.")
        body = {"messages": [{**ASK[0], "images": [picture]}], "stream": False}
        assert post(f"{gateway.url}/api/chat", body)["message"]["content"] == "A cat."
    parts = engine.last()["messages"][0]["content"]
    assert parts[1]["image_url"]["url"] == f"data:image/png;base64,{picture}"


def test_root_reports_that_the_server_runs(gateway: GatewayThread) -> None:
    for method in ("GET", "HEAD"):
        with urlopen(Request(f"{gateway.url}/", method=method)) as answer:  # noqa: S310 - loopback
            assert answer.status == 200
            assert answer.read() == (b"unspool is running\n" if method == "GET" else b"")


def test_models_are_listed(client: Any, gateway: GatewayThread) -> None:
    assert [model.model for model in client.list().models] == ["m"]
    assert [model.model for model in client.ps().models] == ["m"]
    shown = client.show("m:latest")
    assert {"completion", "tools", "thinking"} <= set(shown.capabilities)
    assert "<|im_start|>" in shown.template
    with pytest.raises(ollama.ResponseError, match="set models in the gateway"):
        client.pull("other")


def test_model_names_select_among_several(engine: EngineProcess, template: str) -> None:
    table = {"upstream": "completions", "url": engine.url, "template": template}
    with serving(models={"a": table, "b": table}) as gateway, closing(gateway) as client:
        assert client.chat(model="b:latest", messages=ASK).model == "b"
        with pytest.raises(ollama.ResponseError, match="does not exist") as failed:
            client.chat(model="c", messages=ASK)
        assert failed.value.status_code == 404


def test_logprobs_are_returned(client: Any, engine: EngineProcess) -> None:
    for stream in (False, True):
        engine.script(
            {"text": "Hi", "logprobs": {"tokens": ["Hi"], "token_logprobs": [-0.5], "top_logprobs": None}}
        )
        answer = client.chat(model="m", messages=ASK, logprobs=True, stream=stream)
        lines = list(answer) if stream else [answer]
        logprobs = [one for line in lines for one in line.logprobs or ()]
        assert [(one.token, one.logprob) for one in logprobs] == [("Hi", -0.5)]
