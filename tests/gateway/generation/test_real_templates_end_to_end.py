"""Real chat templates: a call of each model through the gateway's pipeline."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from paths import TEMPLATES, real
from unspool import Message, ToolCall, render
from unspool.gateway import Settings
from unspool.gateway.apis.chat.encoder import ChatEncoder
from unspool.gateway.apis.chat.request import read_chat_request
from unspool.gateway.generation.load_model import load_model
from unspool.gateway.generation.model import Model
from unspool.gateway.generation.planned_choice_reader import Reader
from unspool.gateway.generation.prepare_request import prepare_request
from unspool.gateway.http.failure import Failure
from unspool.gateway.upstreams.base import UpstreamRequest
from unspool.gateway.upstreams.engines import ENGINES
from unspool.message import TextPart
from unspool.wire import ChatStreamDecoder, Delta, WireOptions

NO_CALLS = ("google-gemma-2-2b-it", "llama-cpp-rwkv-world", "microsoft-Phi-3.5-mini-instruct")
OWN_VARIABLES = (
    "fireworks-ai-llama-3-firefunction-v2",  # reads `functions` in place of `tools`
    "llama-cpp-deepseek-r1",  # written for another implementation of Jinja
)
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
ARGUMENTS = {"city": 'Rom"e', "days": 3}

pytestmark = real


@cache
def model(name: str) -> Model:
    return load_model(Settings(upstream="replay", file="-", template=str(TEMPLATES[name])))


@pytest.mark.parametrize("name", NO_CALLS)
def test_tools_are_refused_by_a_template_without_tools(name: str) -> None:
    """Gemma 2 has no system message and needs alternating turns; the others drop what they do not know."""
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
    }
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Rain in Oslo?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "No rain."},
    ]
    job = read_chat_request({"messages": messages, "tools": [WEATHER]})
    prompt = prepare_request(model(name), job.chat, constraints=(), renders=False).prompt
    assert prompt is not None
    failures = [
        prompt.index(part)
        for part in (
            "Be kind.",
            '"name": "get_weather", "parameters"',
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "...", "days": "..."}}\n</tool_call>',
            "Rain in Oslo?",
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
            "<tool_response>\nNo rain.\n</tool_response>",
        )
    ]
    assert failures == sorted(failures)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_call_arrives_with_every_template(name: str, choice: str) -> None:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "tools": [WEATHER]}
    job = read_chat_request({**body, "tool_choice": choice, "stream": True})
    if name in OWN_VARIABLES:
        with pytest.raises(Failure, match=r"chat template \(line \d+\)") as failed:
            prepare_request(model(name), job.chat, constraints=("native",), renders=False)
        assert failed.value.status == 400
        return
    prepared = prepare_request(model(name), job.chat, constraints=("native",), renders=False)
    plan = prepared.plan
    assert prepared.prompt is not None
    assert "get_weather" in prepared.prompt
    task = UpstreamRequest("x", job.chat, plan, prepared.prompt, prepared.tools)
    for engine in ENGINES.values():
        json.dumps(engine.completion_fields(task, 100))

    text = ""
    if plan.start == "reasoning":
        thinking = Message(parts=(TextPart("reasoning", "Hmm."), TextPart("content", "z")))
        text = "Hmm." + render(thinking, plan.dialect).split("Hmm.", 1)[1].rsplit("z", 1)[0]
    called = ToolCall("callid001", "get_weather", json.dumps(ARGUMENTS))
    text += render(Message(parts=(called,)), plan.dialect).removeprefix(plan.dialect.prompt.start)

    reader = Reader(plan)
    answer = ChatEncoder(job, "m", [reader], WireOptions())
    sent = answer.opening()
    for at in range(0, len(text), 3):
        sent += answer.feed(0, reader.feed(Delta(0, text[at : at + 3])))
    sent += answer.feed(0, reader.feed(Delta(0, "", finish="stop"))) + answer.closing()
    client = ChatStreamDecoder()
    for event in sent.split(b"\n\n")[:-2]:
        client.feed(json.loads(event.removeprefix(b"data: ")))
    message = client.finish()
    assert [(one.name, json.loads(one.arguments)) for one in message.tool_calls] == [
        ("get_weather", ARGUMENTS)
    ]
    assert not message.content
    assert bool(message.reasoning) == (plan.start == "reasoning")
    assert message.finish_reason == "tool_calls"
