"""Passthrough of completions and embeddings, and token counting."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")
pytest.importorskip("openai")
pytest.importorskip("ollama")

import ollama
import openai

from gateways import (
    CHATML,
    HOLD,
    EngineProcess,
    GatewayThread,
    free_port,
    once,
    post,
    send,
    serving,
    until,
)
from unspool.gateway.upstreams.load_balancer import LoadBalancer


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(upstream="completions", url=engine.url, template=template, model="m") as server:
        yield server


@pytest.fixture
def client(gateway: GatewayThread) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0) as openai_client:
        yield openai_client


def test_completions_are_streamed_unchanged(gateway: GatewayThread, engine: EngineProcess) -> None:
    engine.script("<tool_call>", HOLD, " stays as it is")
    body = {"model": "any", "prompt": "once", "max_tokens": 5, "stream": True, "best_of": 2}
    watch = once(b'"<tool_call>"', engine.release)
    status, data, headers = send(f"{gateway.url}/v1/completions", body, watch=watch)
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert b"stays as it is" in data
    assert data.endswith(b"data: [DONE]\n\n")
    request = engine.last()
    assert request == {**body, "model": "engine-model"}


def test_whole_completion_is_passed_on(client: openai.OpenAI, engine: EngineProcess) -> None:
    whole = {
        "id": "x",
        "object": "text_completion",
        "created": 1,
        "model": "engine-model",
        "choices": [{"index": 0, "text": "upon a time", "finish_reason": "stop", "logprobs": None}],
    }
    engine.script(raw=[json.dumps(whole).encode().hex()], whole=True, type="application/json")
    answer = client.completions.create(model="m", prompt="once")
    assert answer.choices[0].text == "upon a time"


def test_upstream_errors_are_passed_on(
    client: openai.OpenAI, gateway: GatewayThread, engine: EngineProcess
) -> None:
    engine.script(status=400, error={"error": {"message": "too long"}})
    with pytest.raises(openai.BadRequestError, match="too long"):
        client.completions.create(model="m", prompt="once")
    engine.script("Hello", die=True, delay=0.04)
    data = send(f"{gateway.url}/v1/completions", {"prompt": "x", "stream": True})[1]
    assert b'"error":' in data
    assert data.endswith(b"data: [DONE]\n\n")
    assert send(f"{gateway.url}/v1/completions", b"{")[0] == 400


def test_disconnect_cancels_the_completion(gateway: GatewayThread, engine: EngineProcess) -> None:
    before = len(engine.seen())
    engine.script(forever="x", delay=0.02)
    data = json.dumps({"prompt": "x", "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2]))) as leaver:
        leaver.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            + f"content-length: {len(data)}\r\n\r\n".encode()
            + data
        )
        until(lambda: len(engine.seen()) > before and engine.seen()[-1]["sent"] > 2)
    until(lambda: engine.seen()[-1]["gone"])


def test_several_upstreams_are_balanced(engine: EngineProcess, template: str) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    with serving(upstream="completions", url=dead, urls=(engine.url,), template=template) as gateway:
        for number in range(10):
            status, data, _ = send(f"{gateway.url}/v1/completions", {"prompt": f"{number}", "stream": True})
            assert (status, b"Hello" in data) == (200, True)
        assert post(f"{gateway.url}/tokenize", {"prompt": "a b"})["count"] == 2
        upstream = gateway.gateway.upstream
        assert isinstance(upstream, LoadBalancer)
        assert [member.active for member in upstream.members] == [0, 0]


def test_embeddings_are_passed_on(
    client: openai.OpenAI, gateway: GatewayThread, engine: EngineProcess
) -> None:
    answer = client.embeddings.create(model="m", input=["a", "bc"], encoding_format="float")
    assert {one.index: one.embedding for one in answer.data} == {0: [1.0, 0.5], 1: [2.0, 0.5]}
    assert engine.last()["model"] == "engine-model"
    theirs = ollama.Client(host=gateway.url)
    response: Any = theirs.embed(model="m", input=["a", "bc"])
    assert (response.embeddings, response.prompt_eval_count) == ([[1.0, 0.5], [2.0, 0.5]], 3)
    assert theirs.embeddings(model="m", prompt="abc").embedding == [3.0, 0.5]
    theirs._client.close()
    assert send(f"{gateway.url}/api/embed", {})[0] == 400


def test_recorded_upstream_has_no_passthrough(tmp_path: Path) -> None:
    (tmp_path / "streams.jsonl").write_text('{"chunks": ["x"]}\n')
    with serving(upstream="replay", file=str(tmp_path / "streams.jsonl"), dialect="hermes") as gateway:
        for path in ("/v1/completions", "/v1/embeddings"):
            assert send(gateway.url + path, {"prompt": "x"})[0] == 404
        assert send(f"{gateway.url}/tokenize", {"prompt": "x"})[0] == 404
        assert send(f"{gateway.url}/detokenize", {"tokens": [1]})[0] == 404


def test_tokens_come_from_the_engine(gateway: GatewayThread, engine: EngineProcess) -> None:
    response = post(f"{gateway.url}/tokenize", {"prompt": "a b c"})
    assert response == {"tokens": ["a", "b", "c"], "count": 3}
    assert engine.last()["add_special_tokens"] is True
    post(f"{gateway.url}/tokenize", {"content": "a b c"})
    assert engine.last()["add_special"] is False
    post(f"{gateway.url}/tokenize", {"messages": [{"role": "user", "content": "Hi"}]})
    assert engine.last()["prompt"] == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert post(f"{gateway.url}/detokenize", {"tokens": [1, 2]})["prompt"] == "1 2"
    for body in ({}, {"prompt": "x", "messages": []}):
        assert send(f"{gateway.url}/tokenize", body)[0] == 400


def test_tokens_come_from_the_local_tokenizer(engine: EngineProcess, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    words = tokenizers.models.WordLevel({"<unk>": 0, "a": 1, "b": 2}, unk_token="<unk>")
    own = tokenizers.Tokenizer(words)
    own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    own.save(str(tmp_path / "tokenizer.json"))
    with serving(upstream="completions", url=engine.url, model_dir=str(tmp_path)) as gateway:
        assert post(f"{gateway.url}/tokenize", {"prompt": "a b a"}) == {"tokens": [1, 2, 1], "count": 3}
        assert post(f"{gateway.url}/detokenize", {"tokens": [2, 1]})["content"] == "b a"
