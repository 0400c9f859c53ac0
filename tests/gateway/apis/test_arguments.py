"""Arguments on every API: clients receive what the model wrote, or a call that they cannot run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")
pytest.importorskip("anthropic")
pytest.importorskip("ollama")

import anthropic
import msgspec
import ollama
import openai

from gateways import EngineProcess, GatewayThread, call_text, post, send, serving
from unspool.gateway.conversation.broken_calls_in_history import with_json_arguments
from unspool.gateway.http.json_encoding import encode_json, raw_json
from unspool.gateway.state import messages_api_conversations as threads
from unspool.gateway.state.store import MemoryStore, decoded

KEPT = {
    "30 digits": '{"n": 123456789012345678901234567890}',
    "most digits": '{"n": -%s}' % ("9" * 4300),
    "2**70": '{"n": [1180591620717411303424]}',
    "spelling": '{"n": [1.10, 1e2, 0.1000, 1E+05, 12345678901234567890.5]}',
    "minus zero": '{"n": -0, "m": -0.0}',
    "duplicate keys": '{"n": 1, "m": {"k": 1, "k": [2]}, "n": 2}',
    "deep": '{"n": ' + "[" * 200 + "]" * 200 + "}",
    "lines": '{\n  "n": 1,\r\n  "m": "\\n"\n}',
    "Unicode": '{"ключ": "é\\u00e9😀\\ud83d\\ude00\u2028"}',
    "half a character": '{"n": 1.10, "s": "\\ud800"}',
    "none": "{}",
}
"""Arguments that every client can parse."""
REFUSED = {
    "1e999": '{"n": 1e999}',
    "1E400": '{"n": [0, -1E400]}',
    "float": '{"n": %s.5}' % ("9" * 400),
    "5,000 digits": '{"n": %s}' % ("7" * 5000),
    "NaN": '{"n": NaN}',
}
"""Arguments with numbers that some clients read as a different value."""

ASK: Any = [{"role": "user", "content": "Hi"}]
FUNCTION: Any = {"name": "f", "parameters": {"type": "object"}}
TOOL: Any = {"type": "function", "function": FUNCTION}
BLOCK_TOOL: Any = {"name": "f", "input_schema": {"type": "object"}}

kept = pytest.mark.parametrize("arguments", KEPT.values(), ids=KEPT)
refused = pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
streamed = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(
        upstream="completions", url=engine.url, template=template, dialect="hermes", model="m"
    ) as server:
        yield server


@pytest.fixture(scope="module")
def openai_client(gateway: GatewayThread) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def anthropic_client(gateway: GatewayThread) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=gateway.url, api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def ollama_client(gateway: GatewayThread) -> Iterator[Any]:
    client = ollama.Client(host=gateway.url)
    yield client
    client._client.close()


# -- responses


def chat_arguments(client: openai.OpenAI, *, stream: bool) -> list[str]:
    if not stream:
        answer = client.chat.completions.create(model="m", messages=ASK, tools=[TOOL])
        calls: Any = answer.choices[0].message.tool_calls or ()
        return [call.function.arguments for call in calls]
    pieces: dict[int, str] = {}
    for chunk in client.chat.completions.create(model="m", messages=ASK, tools=[TOOL], stream=True):
        for call in chunk.choices[0].delta.tool_calls or ():
            assert call.function is not None
            pieces[call.index] = pieces.get(call.index, "") + (call.function.arguments or "")
    return list(pieces.values())


def response_items(client: openai.OpenAI, *, stream: bool) -> list[tuple[str, str]]:
    tools: Any = [{"type": "function", "strict": False, **FUNCTION}]
    if stream:
        with client.responses.stream(model="m", input="Hi", tools=tools) as events_:
            response: Any = events_.get_final_response()
    else:
        response = client.responses.create(model="m", input="Hi", tools=tools)
    return [(item.arguments, item.status) for item in response.output]


def message_inputs(client: Any, *, stream: bool) -> list[Any]:
    request: Any = {"model": "m", "max_tokens": 99, "messages": ASK, "tools": [BLOCK_TOOL]}
    if stream:
        with client.messages.stream(**request) as events_:
            message = events_.get_final_message()
    else:
        message = client.messages.create(**request)
    return [block.input for block in message.content if block.type == "tool_use"]


def ollama_arguments(client: Any, *, stream: bool) -> list[Any]:
    lines = client.chat(model="m", messages=ASK, tools=[TOOL], stream=stream)
    return [
        call.function.arguments
        for line in (lines if stream else [lines])
        for call in line.message.tool_calls or ()
    ]


@streamed
@kept
def test_clients_get_the_arguments_that_the_model_wrote(
    engine: EngineProcess,
    openai_client: openai.OpenAI,
    anthropic_client: Any,
    ollama_client: Any,
    arguments: str,
    *,
    stream: bool,
) -> None:
    engine.clear()
    for _ in range(4):
        engine.script(call_text("f", arguments))
    value = json.loads(arguments)
    assert chat_arguments(openai_client, stream=stream) == [arguments]
    assert response_items(openai_client, stream=stream) == [(arguments, "completed")]
    assert ollama_arguments(ollama_client, stream=stream) == [value]
    if not (stream and "ud800" in arguments):  # this client fails on half a surrogate pair
        assert message_inputs(anthropic_client, stream=stream) == [value]


@streamed
@refused
def test_arguments_with_a_number_out_of_range_are_not_run(
    engine: EngineProcess,
    openai_client: openai.OpenAI,
    anthropic_client: Any,
    ollama_client: Any,
    arguments: str,
    *,
    stream: bool,
) -> None:
    engine.clear()
    engine.script(call_text("f", arguments))
    (poisoned,) = chat_arguments(openai_client, stream=stream)
    with pytest.raises(json.JSONDecodeError):
        json.loads(poisoned, parse_int=str)
    engine.script(call_text("f", arguments))
    assert response_items(openai_client, stream=stream) == [(poisoned, "incomplete")]
    engine.script(call_text("f", arguments))
    with pytest.raises(ValueError if stream else anthropic.InternalServerError):
        message_inputs(anthropic_client, stream=stream)
    engine.script(call_text("f", arguments))
    assert ollama_arguments(ollama_client, stream=stream) == []


# -- bytes of object-valued arguments


def number_spellings(data: bytes) -> Any:
    return json.loads(data, parse_int=str, parse_float=str, object_pairs_hook=list)


@kept
def test_object_arguments_keep_the_spelling_of_the_model(
    engine: EngineProcess, gateway: GatewayThread, arguments: str
) -> None:
    written = number_spellings(arguments.encode())
    request: Any = {"messages": ASK, "tools": [BLOCK_TOOL], "max_tokens": 9}
    engine.script(call_text("f", arguments))
    status, data, _ = send(f"{gateway.url}/v1/messages", request)
    assert status == 200
    assert dict(dict(number_spellings(data))["content"][0])["input"] == written
    for stream in (True, False):
        engine.script(call_text("f", arguments))
        _, data, _ = send(f"{gateway.url}/api/chat", {"messages": ASK, "tools": [TOOL], "stream": stream})
        messages = [dict(dict(number_spellings(line))["message"]) for line in data.splitlines()]
        (call,) = next(message["tool_calls"] for message in messages if "tool_calls" in message)
        assert dict(dict(call)["function"])["arguments"] == written


def test_lone_surrogate_beside_raw_json_is_escaped() -> None:
    value = {"a": ["\ud800", raw_json('{"n": 1.10,\r\n"s": "\ud800é"}')], "\udfff": (1, None, "é")}
    data = encode_json(value)
    assert (
        data
        == rb'{"a":["\ud800",{"n": 1.10,  "s": "\ud800' + "é".encode() + rb'"}],"\udfff":[1,null,"\u00e9"]}'
    )
    assert msgspec.json.decode(encode_json({"a": raw_json("[1e2]")})) == {"a": [100.0]}


# -- history


@refused
def test_numbers_out_of_range_in_a_conversation_are_malformed(
    engine: EngineProcess, gateway: GatewayThread, arguments: str
) -> None:
    call = {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": arguments}}
    history = [
        *ASK,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "content": "no"},
    ]
    engine.script("Sorry.")
    post(f"{gateway.url}/v1/chat/completions", {"messages": history, "tools": [TOOL]})
    assert "malformed_arguments" in engine.last()["prompt"]
    (_, assistant, _) = with_json_arguments(history)
    sent = assistant["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"malformed_arguments": arguments}


def test_stored_thread_keeps_the_spelling_of_arguments() -> None:
    async def kept_message() -> Any:
        store = MemoryStore(1 << 16)
        answer = {"id": "msg_0", "content": [{"type": "tool_use", "input": raw_json(KEPT["spelling"])}]}

        async def at_once(work: Callable[[], Any]) -> Any:
            return work()

        await threads.keep_turn(store, "owner", answer, threads.MessageThread([], {}), at_once)
        (row,) = await store.rows("owner", "msg_0")
        return decoded(row.data)["message"]

    assert asyncio.run(kept_message())["content"][0]["input"] == KEPT["spelling"]


# -- duplicate keys


def test_parse_reports_duplicate_keys(gateway: GatewayThread) -> None:
    text = call_text("f", '{"n": 1, "n": 2}')
    answer = post(f"{gateway.url}/v1/parse", {"text": text, "dialect": "hermes"})
    (diagnostic,) = answer["diagnostics"]
    assert (diagnostic["kind"], diagnostic["detail"], text[: diagnostic["start"]][-3:]) == (
        "duplicate_argument",
        "n",
        '"n"',
    )
