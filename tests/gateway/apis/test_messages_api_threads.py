"""Threads in the Messages API: a client sends one turn, and the model sees the whole conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import EngineProcess, GatewayThread, call_text, events, post, send, serving

ADD = {"name": "add", "input_schema": {"type": "object"}}
THOUGHT = "<think>\nAdding.\n</think>\n\n"
CALL = THOUGHT + call_text("add", '{"a": 1, "b": 2}')


@pytest.fixture
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(
        upstream="completions", url=engine.url, template=template, dialect="hermes", model="m"
    ) as server:
        yield server


def ask(url: str, thread: Any, content: Any, *, stream: bool = False, **more: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": 9, "thread": thread, **more}
    if not stream:
        answer: dict[str, Any] = post(f"{url}/v1/messages", body)
        return answer
    first, *_ = events(f"{url}/v1/messages", body)
    assert isinstance(first, dict)
    return dict(first["message"])


@pytest.mark.parametrize("stream", [True, False])
def test_thread_turn_includes_all_earlier_turns(
    engine: EngineProcess, gateway: GatewayThread, *, stream: bool
) -> None:
    url = gateway.url
    engine.script(CALL)
    first = ask(url, {"type": "create"}, "One and two?", stream=stream, system="Be kind.", tools=[ADD])
    for turn, answer in (("3", "Three."), ("No more.", "Bye.")):
        engine.script(answer)
        result = [{"type": "tool_result", "tool_use_id": "c", "content": turn}] if turn == "3" else turn
        thread = {"type": "continue", "previous_message_id": first["id"]}
        first = ask(url, thread, result, stream=stream)
    prompt = engine.last()["prompt"]
    parts = [
        '"name": "add"',
        "Be kind.",
        "One and two?",
        "Adding.",
        '"a": 1',
        "tool\n3",
        "Three.",
        "No more.",
    ]
    places = [prompt.index(part) for part in parts]
    assert places[1:] == sorted(places[1:])
    assert prompt.count("One and two?") == 1


def test_token_count_covers_the_whole_thread(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("Two.")
    first = ask(gateway.url, {"type": "create"}, "One word and another")
    thread = {"type": "continue", "previous_message_id": first["id"]}
    body = {"messages": [{"role": "user", "content": "More"}], "thread": thread}
    post(f"{gateway.url}/v1/messages/count_tokens", body)
    assert "One word and another" in engine.last()["prompt"]


# -- the client library


@anthropic.beta_tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def run(url: str) -> str:
    with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model="m", max_tokens=99, messages=[{"role": "user", "content": "One and two?"}], tools=[add]
        )
        return str(runner.until_done().content[0].text)  # type: ignore[union-attr]


def test_sdk_tool_runner_keeps_question_and_tools(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script(CALL)
    engine.script("Three.")
    assert run(gateway.url) == "Three."
    for part in ("One and two?", '"name": "add"', "<|im_start|>tool\n3"):
        assert part in engine.last()["prompt"]


@pytest.mark.parametrize("room", [0, 100])
def test_unstored_thread_makes_the_client_send_everything(
    engine: EngineProcess, template: str, room: int
) -> None:
    engine.clear()
    settings = {"upstream": "completions", "url": engine.url, "template": template, "dialect": "hermes"}
    with serving(**settings, model="m", max_stored_bytes=room) as gateway:
        engine.script(CALL)
        engine.script("Three.")
        assert run(gateway.url) == "Three."
    for part in ("One and two?", '"name": "add"', "<|im_start|>tool\n3"):
        assert part in engine.last()["prompt"]


def test_missing_thread_is_not_continued_without_its_beginning(gateway: GatewayThread) -> None:
    thread = {"type": "continue", "previous_message_id": "msg_1"}
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5, "thread": thread}
    status, data, _ = send(f"{gateway.url}/v1/messages", body)
    assert status == 404
    assert json.loads(data)["error"]["details"] == {"error_code": "thread_not_found"}


def test_thread_belongs_to_its_key(engine: EngineProcess, template: str) -> None:
    settings = {"upstream": "completions", "url": engine.url, "template": template, "dialect": "hermes"}
    with serving(**settings, model="m", api_keys=("mine", "yours")) as gateway:
        engine.script("Hello.")
        url, mine, yours = f"{gateway.url}/v1/messages", {"x-api-key": "mine"}, {"x-api-key": "yours"}
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}
        first = post(url, {**body, "thread": {"type": "create"}}, mine)
        thread = {"type": "continue", "previous_message_id": first["id"]}
        assert send(url, {**body, "thread": thread}, yours)[0] == 404
        engine.script("Again.")
        assert send(url, {**body, "thread": thread}, mine)[0] == 200


@pytest.mark.parametrize(
    ("thread", "param"),
    [
        ({"type": "fork"}, "thread.type"),
        ("msg_1", "thread.type"),
        ({"type": "continue"}, "thread.previous_message_id"),
    ],
)
def test_invalid_thread_is_refused(gateway: GatewayThread, thread: Any, param: str) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5, "thread": thread}
    status, data, _ = send(f"{gateway.url}/v1/messages", body)
    assert status == 400
    assert param in json.loads(data)["error"]["message"]
