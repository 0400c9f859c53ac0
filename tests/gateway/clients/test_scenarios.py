"""Every scenario through every published Python client, streamed and whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

import openai

from gateways import (
    SCENARIOS,
    TOOLS,
    EngineProcess,
    GatewayThread,
    Seen,
    serving,
    template_file,
)

anthropic = pytest.importorskip("anthropic")

ASK: Any = [{"role": "user", "content": "How is it?"}]
CHAT_TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": schema, "strict": True}}
    for name, schema in TOOLS.items()
]
CHAT_ENDS = {"stop": "stop", "tool_calls": "calls", "length": "length"}


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("template"))
    with serving(upstream="completions", url=engine.url, template=template, model="m") as server:
        yield server


# -- clients: each sends a request and reports what it received; errors are raised


def openai_chat(url: str, *, forced: bool, stream: bool) -> Seen:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        body: Any = {
            "model": "m",
            "messages": ASK,
            "tools": CHAT_TOOLS,
            "tool_choice": "required" if forced else "auto",
        }
        if stream:
            try:
                with client.chat.completions.stream(**body) as events:
                    choice: Any = events.get_final_completion().choices[0]
            except openai.LengthFinishReasonError:  # the client raises this when tools are strict
                return Seen(ended="length")
        else:
            choice = client.chat.completions.create(**body).choices[0]
    message = choice.message
    return Seen(
        message.content or "",
        (message.model_extra or {}).get("reasoning_content", ""),
        ()
        if choice.finish_reason == "length"
        else tuple((c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()),
        CHAT_ENDS[choice.finish_reason],
    )


def openai_responses(url: str, *, forced: bool, stream: bool) -> Seen:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        tools = [{"type": "function", **tool["function"]} for tool in CHAT_TOOLS]
        body: Any = {
            "model": "m",
            "input": "How is it?",
            "tools": tools,
            "tool_choice": "required" if forced else "auto",
        }
        if not stream:
            return _response(client.responses.create(**body))
        with client.responses.stream(**body) as events:
            last: Any = list(events)[-1]
    if last.type == "response.failed":
        raise RuntimeError(last.response.error.message)
    return _response(last.response)


def _response(response: Any) -> Seen:
    reasoning = [item.content[0].text for item in response.output if item.type == "reasoning"]
    calls = tuple(
        (item.name, json.loads(item.arguments))
        for item in response.output
        if item.type == "function_call" and item.status == "completed"
    )
    if response.status == "incomplete":
        assert response.incomplete_details.reason == "max_output_tokens"
        return Seen(response.output_text, "".join(reasoning), calls, "length")
    assert response.status == "completed"
    return Seen(response.output_text, "".join(reasoning), calls, "calls" if calls else "stop")


def anthropic_messages(url: str, *, forced: bool, stream: bool) -> Seen:
    with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0) as client:
        tools = [{"name": name, "input_schema": schema} for name, schema in TOOLS.items()]
        body: Any = {"model": "m", "max_tokens": 99, "messages": ASK, "tools": tools}
        if forced:
            body["tool_choice"] = {"type": "any"}
        if stream:
            with client.messages.stream(**body) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**body)
    blocks = message.content
    ends = {"end_turn": "stop", "tool_use": "calls", "max_tokens": "length"}
    return Seen(
        "".join(block.text for block in blocks if block.type == "text"),
        "".join(block.thinking for block in blocks if block.type == "thinking"),
        tuple((block.name, block.input) for block in blocks if block.type == "tool_use"),
        ends[message.stop_reason],
    )


def langchain(url: str, *, forced: bool, stream: bool, responses: bool = False) -> Seen:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        model="m",
        base_url=f"{url}/v1",
        api_key="x",  # type: ignore[arg-type]
        max_retries=0,
        use_responses_api=responses,
    )
    bound = model.bind_tools(CHAT_TOOLS, tool_choice="required" if forced else "auto")
    answer: Any
    if stream:
        answer, *others = list(bound.stream("How is it?"))
        for chunk in others:
            answer = answer + chunk
    else:
        answer = bound.invoke("How is it?")
    metadata = answer.response_metadata
    calls = tuple((call["name"], call["args"]) for call in answer.tool_calls)
    blocks = answer.content_blocks
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    reasoning = "".join(block.get("reasoning", "") for block in blocks if block["type"] == "reasoning")
    if responses:
        ended = {"completed": "calls" if calls else "stop", "incomplete": "length"}[metadata["status"]]
    else:
        ended = CHAT_ENDS[metadata["finish_reason"]]
    return Seen(text, reasoning, calls, ended)


def langchain_responses(url: str, *, forced: bool, stream: bool) -> Seen:
    return langchain(url, forced=forced, stream=stream, responses=True)


def pydantic_ai(api: str) -> Callable[..., Seen]:
    def ask(url: str, *, forced: bool, stream: bool) -> Seen:
        return asyncio.run(_pydantic_ai(url, api, forced=forced, stream=stream))

    return ask


async def _pydantic_ai(url: str, api: str, *, forced: bool, stream: bool) -> Seen:
    from pydantic_ai import ModelRequest
    from pydantic_ai.direct import model_request, model_request_stream
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.tools import ToolDefinition

    model: Any
    client: Any
    if api == "messages":
        client = anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0)
        model = AnthropicModel("m", provider=AnthropicProvider(anthropic_client=client))
    else:
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
        kind = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
        model = kind("m", provider=OpenAIProvider(openai_client=client))
    tools = [ToolDefinition(name=name, parameters_json_schema=schema) for name, schema in TOOLS.items()]
    parameters = ModelRequestParameters(function_tools=tools, allow_text_output=not forced)
    history: Any = [ModelRequest.user_text_prompt("How is it?")]
    async with client:
        if stream:
            async with model_request_stream(model, history, model_request_parameters=parameters) as events:
                async for _ in events:
                    pass
                answer = events.get()
        else:
            answer = await model_request(model, history, model_request_parameters=parameters)
    if answer.finish_reason == "error":
        raise RuntimeError("the response failed")
    calls = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    ended = {"stop": "stop", "tool_call": "calls", "length": "length"}[answer.finish_reason or ""]
    return Seen(
        "".join(part.content for part in answer.parts if isinstance(part, TextPart)),
        "".join(part.content for part in answer.parts if isinstance(part, ThinkingPart)),
        tuple((part.tool_name, part.args_as_dict()) for part in calls),
        "calls" if calls and ended == "stop" else ended,
    )


CLIENTS: dict[str, Callable[..., Seen]] = {
    "openai chat": openai_chat,
    "openai responses": openai_responses,
    "anthropic": anthropic_messages,
    "langchain chat": langchain,
    "langchain responses": langchain_responses,
    "pydantic-ai chat": pydantic_ai("chat"),
    "pydantic-ai responses": pydantic_ai("responses"),
    "pydantic-ai messages": pydantic_ai("messages"),
}
WITHOUT_REASONING = ("langchain chat",)
"""Clients without a field for reasoning."""


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_receives_the_model_output(
    engine: EngineProcess, gateway: GatewayThread, client: str, name: str, stream: bool
) -> None:
    scenario = SCENARIOS[name]
    engine.script(*scenario.chunks, **scenario.script)
    if scenario.seen.ended == "error":
        with pytest.raises(Exception, match=r"broke|failed"):
            CLIENTS[client](gateway.url, forced=False, stream=stream)
        return
    seen = CLIENTS[client](gateway.url, forced=scenario.forced, stream=stream)
    if scenario.forced:
        assert '"at_least_one":true' in engine.last()["structured_outputs"]["structural_tag"]
    expected = scenario.seen
    assert (seen.text, seen.ended) == (expected.text, expected.ended)
    assert seen.reasoning == ("" if client in WITHOUT_REASONING else expected.reasoning)
    if expected.ended == "length":
        return  # the call is present but cannot be parsed, and clients handle this differently
    assert seen.calls == expected.calls
