"""Every dialect through a completions upstream: clients receive what ``parse`` finds in the text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

import standard_scenarios
from corpus_cases import CORPUS, Vector
from gateways import EngineProcess, GatewayThread, events, post, serving
from unspool import Message, get_dialect, parse
from unspool.message import BrokenCall, TextPart
from unspool.wire import ChatStreamDecoder

TOOLS = json.loads((CORPUS / "tools.json").read_text("utf-8"))
OUTPUTS = {
    dialect.name: standard_scenarios.vectors_of(dialect.name) for dialect in standard_scenarios.callers()
}
SILENT = ("deepseek_v3", "deepseek_v3_1", "gigachat35", "hy_v3", "hy_v3:opensource", "poolside_v1")
"""Families that reason only on request."""
KINDS = ("hermes", "mistral", "qwen3_coder", "minimax_m3", "gemma4", "pythonic", "deepseek_v3_2", "harmony")
"""One dialect of each kind; the others are in the slow tests, and all of them in the wire tests."""
through_the_gateway = pytest.mark.parametrize(
    ("gateway", "name"),
    [pytest.param(name, name, marks=() if name in KINDS else pytest.mark.slow) for name in OUTPUTS],
    indirect=["gateway"],
)
SIZE = 5
"""Characters per delta, so that nearly all markers are split."""


@pytest.fixture
def gateway(request: pytest.FixtureRequest, engine: EngineProcess, tmp_path: Path) -> Iterator[GatewayThread]:
    template = tmp_path / "plain.jinja"
    # The prompt already contains whatever begins a turn.
    start = json.dumps(get_dialect(request.param).prompt.start)
    template.write_text(f"{{{{ messages[0].content }}}}\n{{{{ {start} }}}}", encoding="utf-8")
    with serving(
        upstream="completions", url=engine.url, template=str(template), dialect=request.param
    ) as server:
        yield server


def script_output(engine: EngineProcess, vector: Vector) -> str:
    """Let the engine write the text."""
    raw = vector.raw.removeprefix(get_dialect(vector.dialect).prompt.start)
    engine.script(*(raw[at : at + SIZE] for at in range(0, len(raw), SIZE)), finish=vector.finish or "stop")
    return raw


def parse_output(engine: EngineProcess, vector: Vector, raw: str) -> Message:
    """Parse the text after the prompt that the engine received."""
    finish: Any = vector.finish or "stop"
    return parse(raw, vector.dialect, tools=TOOLS, prompt=engine.last()["prompt"], finish_reason=finish)


def calls_of(message: Message) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in message.tool_calls]


def broken_of(message: Message) -> list[tuple[str, str]]:
    return [(part.name, part.status) for part in message.parts if isinstance(part, BrokenCall)]


def ask_streamed(gateway: GatewayThread, body: dict[str, Any]) -> Message:
    """Return what a streaming client accumulates."""
    client = ChatStreamDecoder()
    for chunk in events(f"{gateway.url}/v1/chat/completions", body)[:-1]:
        assert isinstance(chunk, dict)
        client.feed(chunk)
    return client.finish()


def ask_whole(gateway: GatewayThread, body: dict[str, Any]) -> Message:
    """Return what a client receives without streaming."""
    choice = post(f"{gateway.url}/v1/chat/completions", body)["choices"][0]
    return replace(Message.from_chat(choice["message"]), finish_reason=choice["finish_reason"])


@through_the_gateway
def test_response_equals_parse(engine: EngineProcess, gateway: GatewayThread, name: str) -> None:
    ask = {"messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS}
    if name in SILENT:
        ask["reasoning_effort"] = "high"
    for vector in OUTPUTS[name]:
        raw = script_output(engine, vector)
        got = ask_streamed(gateway, ask)
        expected = parse_output(engine, vector, raw)
        script_output(engine, vector)
        assert comparable(ask_whole(gateway, ask)) == comparable(got), vector
        # A broken call has been announced by the time it breaks, so it stays in the response, but no client
        # may run it.
        broken = broken_of(expected)
        assert ("broken" in vector.title) == any(status == "malformed" for _, status in broken)
        assert (got.content or "", got.reasoning or "") == (
            text_of(expected, "content"),
            text_of(expected, "reasoning"),
        ), vector
        assert calls_of(got) == calls_of(expected), vector
        assert broken_of(got) == broken, vector
        assert expected.tool_calls or broken or not vector.calls


def text_of(message: Message, channel: str) -> str:
    parts = [part for part in message.parts if isinstance(part, TextPart)]
    return "".join(part.text for part in parts if part.channel == channel)


def comparable(message: Message) -> tuple[object, ...]:
    return message.content, message.reasoning, calls_of(message), broken_of(message), message.finish_reason


@through_the_gateway
def test_every_api_returns_the_same(engine: EngineProcess, gateway: GatewayThread, name: str) -> None:
    vector = max(
        OUTPUTS[name], key=lambda one: (not one.finish and "broken" not in one.title, len(one.calls))
    )
    ask: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
    raw = script_output(engine, vector)
    chat = post(f"{gateway.url}/v1/chat/completions", {**ask, "tools": TOOLS})["choices"][0]["message"]
    expected = parse_output(engine, vector, raw)
    assert chat["content"] == expected.content
    assert chat.get("reasoning_content") == expected.reasoning
    got = [(call["function"]["name"], call["function"]["arguments"]) for call in chat["tool_calls"]]
    assert got == calls_of(expected)

    script_output(engine, vector)
    tools: list[Any] = [{"type": "function", **tool["function"]} for tool in TOOLS]
    done = events(f"{gateway.url}/v1/responses", {"input": "Hi", "tools": tools})[-1]
    assert isinstance(done, dict)
    items = [item for item in done["response"]["output"] if item["type"] == "function_call"]
    assert [(item["name"], item["arguments"]) for item in items] == calls_of(expected)

    script_output(engine, vector)
    tools = [
        {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in TOOLS
    ]
    whole = post(f"{gateway.url}/v1/messages", {**ask, "max_tokens": 99, "tools": tools})
    used = [block for block in whole["content"] if block["type"] == "tool_use"]
    assert [(block["name"], block["input"]) for block in used] == [
        (name, json.loads(arguments)) for name, arguments in calls_of(expected)
    ]
