"""Calls that break mid-stream: each API reports it, the conversation continues, and loops end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import EngineProcess, GatewayThread, events, post, send, serving, template_file

MALFORMED = '<tool_call>\n{"name": "wipe", "arguments": {\'target\': \'tmp\'}}\n</tool_call>'
POISONED = "{'target': 'tmp'}}\n,\"\\u<malformed>\"]"
CUT = '<tool_call>\n{"name": "wipe", "arguments": {"target": "/home/me/tmp'
WIPE = {
    "name": "wipe",
    "description": "Deletes what it is told to, or all.",
    "parameters": {"type": "object", "properties": {"target": {"type": "string"}}},
}
TOOLS = {
    "chat/completions": [{"type": "function", "function": WIPE}],
    "responses": [{"type": "function", **WIPE}],
    "messages": [{"name": "wipe", "input_schema": WIPE["parameters"]}],
}
ASK = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("template"))
    with serving(upstream="completions", url=engine.url, template=template) as server:
        yield server


@pytest.fixture(scope="module")
def strict(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("template"))
    policies = {"malformed_call": "error", "truncated_call": "error"}
    with serving(upstream="completions", url=engine.url, template=template, policies=policies) as server:
        yield server


def body(api: str, history: list[Any] | None = None) -> dict[str, Any]:
    messages = ASK if history is None else history
    return {
        "tools": TOOLS[api],
        **({"input": messages} if api == "responses" else {"messages": messages}),
        **({"max_tokens": 99} if api == "messages" else {}),
    }


def list_arguments(answer: dict[str, Any]) -> list[str]:
    return [call["function"]["arguments"] for call in answer["choices"][0]["message"].get("tool_calls", ())]


def test_chat_completions_mark_a_broken_call(engine: EngineProcess, gateway: GatewayThread) -> None:
    url = f"{gateway.url}/v1/chat/completions"
    engine.script(MALFORMED)
    streamed = events(url, body("chat/completions"))
    assert streamed.pop() == "[DONE]"
    last: Any = streamed[-1]
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    engine.script(MALFORMED)
    answer = post(url, body("chat/completions"))
    assert list_arguments(answer) == [POISONED]
    assert answer["choices"][0]["finish_reason"] == "tool_calls"


def test_responses_are_completed_with_an_incomplete_item(
    engine: EngineProcess, gateway: GatewayThread
) -> None:
    engine.script(MALFORMED)
    last: Any = events(f"{gateway.url}/v1/responses", body("responses"))[-1]
    engine.script(MALFORMED)
    whole = post(f"{gateway.url}/v1/responses", body("responses"))
    for response in (last["response"], whole):
        (item,) = response["output"]
        assert (response["status"], item["status"], item["arguments"]) == (
            "completed",
            "incomplete",
            POISONED,
        )


def test_whole_messages_response_is_an_error(engine: EngineProcess, gateway: GatewayThread) -> None:
    url = f"{gateway.url}/v1/messages"
    engine.script(MALFORMED)
    received: list[Any] = events(url, body("messages"))
    pieces = [event["delta"].get("partial_json", "") for event in received if "delta" in event]
    assert "".join(pieces) == POISONED
    engine.script(MALFORMED)
    status, data, headers = send(url, body("messages"))
    assert (status, json.loads(data)["error"]["type"]) == (502, "api_error")
    assert headers["x-should-retry"] == "false"
    engine.script(CUT, finish="length")
    cut = post(url, body("messages"))
    assert (cut["content"], cut["stop_reason"]) == ([], "max_tokens")


@pytest.mark.parametrize(("text", "reason"), [(MALFORMED, "stop"), (CUT, "length")])
def test_error_has_the_form_of_each_api(
    engine: EngineProcess, strict: GatewayThread, text: str, reason: str
) -> None:
    for api in TOOLS:
        engine.script("Hi. ", text, finish=reason)
        received: list[Any] = events(f"{strict.url}/v1/{api}", body(api))
        engine.script("Hi. ", text, finish=reason)
        status, _, _ = send(f"{strict.url}/v1/{api}", body(api))
        assert status == 502
        if api == "chat/completions":
            assert received.pop() == "[DONE]"
            assert received[-1]["error"]["type"] == "server_error"
            assert received[1]["choices"][0]["delta"] == {"content": "Hi."}
        elif api == "responses":
            assert received[-1]["type"] == "response.failed"
        else:
            assert (received[-1]["type"], received[-1]["error"]["type"]) == ("error", "api_error")


# -- history


def turn(number: int) -> list[dict[str, Any]]:
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "wipe", "arguments": POISONED}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": "these are not JSON"},
    ]


def test_model_reads_its_own_broken_call(engine: EngineProcess, gateway: GatewayThread) -> None:
    engine.script("Sorry.")
    post(f"{gateway.url}/v1/chat/completions", body("chat/completions", [*ASK, *turn(0)]))
    prompt = engine.last()["prompt"]
    assert "'target': 'tmp'" in prompt
    assert "<malformed>" not in prompt


def test_stored_response_with_a_broken_call_can_be_continued(
    engine: EngineProcess, gateway: GatewayThread
) -> None:
    engine.script(MALFORMED)
    first = post(f"{gateway.url}/v1/responses", body("responses"))
    result = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "no JSON"}
    engine.script("Sorry.")
    post(
        f"{gateway.url}/v1/responses",
        {"input": [result], "previous_response_id": first["id"], "tools": TOOLS["responses"]},
    )
    assert "'target': 'tmp'" in engine.last()["prompt"]


def test_model_that_keeps_failing_is_stopped(engine: EngineProcess, gateway: GatewayThread) -> None:
    url = f"{gateway.url}/v1/chat/completions"
    for count, ended in ((2, "tool_calls"), (3, None)):
        history = [*ASK, *(message for number in range(count) for message in turn(number))]
        engine.script(MALFORMED)
        received: list[Any] = events(url, body("chat/completions", history))[:-1]
        if ended is None:
            assert received[-1]["error"]["code"] == "malformed_call"
        else:
            assert received[-1]["choices"][0]["finish_reason"] == ended
        # A new user message starts a new series of attempts.
        engine.script(MALFORMED)
        answer = post(url, body("chat/completions", [*history, *ASK]))
        assert list_arguments(answer) == [POISONED]


def test_unreadable_tool_input_comes_back_as_text(engine: EngineProcess, gateway: GatewayThread) -> None:
    use = {"type": "tool_use", "id": "call_0", "name": "wipe", "input": POISONED}
    result = {"type": "tool_result", "tool_use_id": "call_0", "content": "no JSON", "is_error": True}
    history = [*ASK, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    engine.script("Sorry.")
    post(f"{gateway.url}/v1/messages", body("messages", history))
    assert "'target': 'tmp'" in engine.last()["prompt"]
