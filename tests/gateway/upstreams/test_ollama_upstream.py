"""Ollama as upstream: our prompt, sufficient context, and no silent truncation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")
pytest.importorskip("gguf")

from test_settings_from_model import HERMES

from gateways import GatewayThread, events, post, send, serving
from gguf_files import write_gguf
from scripted_server import answering
from unspool.wire import ChatStreamDecoder, LineReader

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'


class Ollama:
    """A server that answers as Ollama's documentation says."""

    def __init__(self, weights: Path) -> None:
        self.seen: list[dict[str, Any]] = []
        self.lines: list[dict[str, Any]] = []
        self.answers = {
            "/api/version": {"version": "0.13.0"},
            "/api/tags": {"models": [{"name": "qwen3:8b", "model": "qwen3:8b"}]},
            "/api/show": {
                "modelfile": f"FROM {weights}\n",
                "template": "{{ .Prompt }}",
                "details": {"family": "qwen3"},
                "model_info": {"tokenizer.ggml.model": "gpt2"},
            },
            "/api/generate": self.generate,
        }

    def generate(self, body: dict[str, Any]) -> bytes:
        self.seen.append(body)
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def says(self, text: str, reason: str = "stop", size: int = 3) -> None:
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        self.lines = [{"model": "qwen3:8b", "response": piece, "done": False} for piece in pieces]
        counts = {"prompt_eval_count": 11, "eval_count": len(pieces)}
        self.lines.append({"response": "", "done": True, "done_reason": reason, **counts})


@pytest.fixture(scope="module")
def ollama(tmp_path_factory: pytest.TempPathFactory) -> Ollama:
    path = tmp_path_factory.mktemp("ollama") / "sha256-0"
    return Ollama(write_gguf(path, HERMES, context_length=8192))


@pytest.fixture(scope="module")
def gateway(ollama: Ollama) -> Iterator[GatewayThread]:
    with answering(ollama.answers) as url, serving(source=url) as server:
        yield server


def ask(**more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Weather?"}], **more}


def test_prompt_is_sent_raw(gateway: GatewayThread, ollama: Ollama) -> None:
    ollama.says("Hello.")
    answer = post(f"{gateway.url}/v1/chat/completions", ask(max_tokens=9, stop=["X"], temperature=0, top_k=3))
    assert answer["model"] == "qwen3:8b"
    assert answer["choices"][0]["message"]["content"] == "Hello."
    assert answer["usage"]["prompt_tokens"] == 11
    request = ollama.seen[-1]
    assert request["prompt"] == "<|im_start|>user\nWeather?<|im_end|>\n<|im_start|>assistant\n"
    assert (request["model"], request["raw"], request["truncate"], request["shift"]) == (
        "qwen3:8b",
        True,
        False,
        False,
    )
    assert request["options"] == {
        "temperature": 0,
        "top_k": 3,
        "num_predict": 9,
        "stop": ["X"],
        "num_ctx": 8192,
    }


def test_calls_are_parsed_by_the_gateway(gateway: GatewayThread, ollama: Ollama) -> None:
    for size in (1, 3, 1000):
        ollama.says(f"Let me look.\n{CALL}", size=size)
        reader = ChatStreamDecoder()
        for chunk in events(f"{gateway.url}/v1/chat/completions", ask(tools=[WEATHER]))[:-1]:
            assert isinstance(chunk, dict)
            reader.feed(chunk)
        message = reader.finish()
        assert message.content == "Let me look."
        assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [
            ("get_weather", {"city": "Zürich"})
        ]
        assert message.finish_reason == "tool_calls"


def test_forced_call_is_constrained_by_a_schema(gateway: GatewayThread, ollama: Ollama) -> None:
    ollama.says('[{"name": "get_weather", "parameters": {"city": "Bern"}}]')
    answer = post(f"{gateway.url}/v1/chat/completions", ask(tools=[WEATHER], tool_choice="required"))
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Bern"}
    assert "get_weather" in json.dumps(ollama.seen[-1]["format"])
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    ollama.says('{"n": 1}')
    post(f"{gateway.url}/v1/chat/completions", ask(response_format=form))
    assert ollama.seen[-1]["format"] == schema


def test_finish_reason_is_translated(gateway: GatewayThread, ollama: Ollama) -> None:
    ollama.says("Hel", reason="length")
    answer = post(f"{gateway.url}/v1/chat/completions", ask())
    assert answer["choices"][0]["finish_reason"] == "length"
    ollama.lines = [{"response": "Hel"}, {"error": "out of memory"}]
    status, data, _ = send(f"{gateway.url}/v1/chat/completions", ask())
    assert status == 502
    assert "out of memory" in json.loads(data)["error"]["message"]
    ollama.lines = [{"response": "Hel"}]
    status, data, _ = send(f"{gateway.url}/v1/chat/completions", ask())
    assert status == 502


def test_logprobs_are_translated(gateway: GatewayThread, ollama: Ollama) -> None:
    ollama.says("ab", size=1)
    for line in ollama.lines[:2]:
        line["logprobs"] = [{"token": line["response"], "logprob": -0.5, "top_logprobs": []}]
    answer = post(f"{gateway.url}/v1/chat/completions", ask(logprobs=True, top_logprobs=2))
    assert [one["token"] for one in answer["choices"][0]["logprobs"]["content"]] == ["a", "b"]
    assert (ollama.seen[-1]["logprobs"], ollama.seen[-1]["top_logprobs"]) == (True, 2)


def test_lines_may_be_split_anywhere() -> None:
    data = b'{"a": 1}\r\n\n{"b": "\xc3\xa9"}\n{"c": 3}'
    for size in range(1, len(data) + 1):
        reader = LineReader(100)
        lines = [line for at in range(0, len(data), size) for line in reader.feed(data[at : at + size])]
        assert [json.loads(line) for line in lines + reader.finish()] == [{"a": 1}, {"b": "é"}, {"c": 3}]
