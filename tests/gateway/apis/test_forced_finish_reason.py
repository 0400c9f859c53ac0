"""A forced call has the same finish reason on every API, streamed or not, and in the log."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from unspool import plan
from unspool.events import FinishReason
from unspool.gateway.apis.chat.encoder import ChatEncoder
from unspool.gateway.apis.messages.encoder import MessagesEncoder
from unspool.gateway.apis.ollama.encoder import OllamaEncoder
from unspool.gateway.apis.responses.encoder import ResponsesEncoder
from unspool.gateway.generation.planned_choice_reader import Reader
from unspool.gateway.generation.request import ApiName, GenerationRequest
from unspool.gateway.generation.response_encoder import ResponseEncoder
from unspool.planning import Plan
from unspool.wire import CallDelta, Delta, WireOptions
from unspool.wire._messages_encoder import STOP_REASONS

TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
GOOD = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
OUTPUTS = {
    "a call": [Delta(0, GOOD)],
    "a call that is cut off": [Delta(0, GOOD[:40])],
    "text": [Delta(0, "Hi.")],
    "a call that the upstream took apart": [Delta(0, "", calls=(CallDelta(0, "call_1", "now", "{}"),))],
}
APIS: tuple[ApiName, ...] = get_args(ApiName)
ANSWERS: dict[ApiName, type[ResponseEncoder]] = {
    "chat": ChatEncoder,
    "responses": ResponsesEncoder,
    "messages": MessagesEncoder,
    "ollama": OllamaEncoder,
    "ollama_generate": OllamaEncoder,
}


def make_plan(choice: str) -> Plan:
    request = {"messages": [{"role": "user", "content": "?"}], "tools": [TOOL], "tool_choice": choice}
    return plan("hermes", request, prompt="")


def finish_reason_of(api: ApiName, body: Any) -> str:
    """Return the finish reason of a response or a last event, in Chat Completions' terms."""
    if api == "chat":
        return str(body["choices"][0]["finish_reason"])
    if api == "messages":
        (reason,) = (ours for ours, theirs in STOP_REASONS.items() if theirs == body["stop_reason"])
        return reason
    if api == "responses":
        return "length" if body["status"] == "incomplete" else "completed"
    return "length" if body["done_reason"] == "length" else "completed"


def answer_streamed(
    api: ApiName, decided: Plan, deltas: list[Delta], reason: FinishReason, options: WireOptions
) -> tuple[str, list[str]]:
    reader = Reader(decided)
    answer = ANSWERS[api](GenerationRequest(api, {}, stream=True), "m", [reader], options)
    sent = answer.opening()
    for delta in (*deltas, Delta(0, "", finish=reason)):
        sent += answer.feed(0, reader.feed(delta))
    sent += answer.closing()
    lines = [line.removeprefix(b"data: ") for line in sent.split(b"\n")]
    events: list[Any] = [json.loads(line) for line in lines if line.startswith(b"{")]
    if api in ("chat", "ollama", "ollama_generate"):
        last = events[-1]
    elif api == "messages":
        (last,) = (event["delta"] for event in events if event["type"] == "message_delta")
    else:
        last = events[-1]["response"]
    return finish_reason_of(api, last), list(answer.finish_reasons())


def answer_whole(
    api: ApiName, decided: Plan, deltas: list[Delta], reason: FinishReason, options: WireOptions
) -> tuple[str, list[str]]:
    reader = Reader(decided)
    answer = ANSWERS[api](GenerationRequest(api, {}), "m", [reader], options)
    builder = reader.planned.fold()
    for delta in (*deltas, Delta(0, "", finish=reason)):
        builder.feed(reader.feed(delta))
    return finish_reason_of(api, answer.response([builder.message])), [
        options.finish_reason(builder.finish_reason or "stop", forced=reader.planned.forced)
    ]


@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("policy", ["tool_calls", "stop"])
@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("title", OUTPUTS)
def test_every_api_reports_the_same_finish_reason(
    title: str, choice: str, policy: str, finish: FinishReason
) -> None:
    decided = make_plan(choice)
    options = WireOptions.from_mapping({"forced_finish_reason": policy})
    if title == "text":
        expected: str = finish
    elif title == "a call that is cut off":
        expected = "length"
    else:
        expected = policy if choice == "required" else "tool_calls"
    for api in APIS:
        for answered in (answer_streamed, answer_whole):
            reason, logged = answered(api, decided, OUTPUTS[title], finish, options)
            assert logged == [expected], (api, answered.__name__)
            plain = "length" if expected == "length" else "completed"
            assert reason == (expected if api in ("chat", "messages") else plain), (api, answered.__name__)
