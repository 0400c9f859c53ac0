"""The published Python clients against a gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

import openai

from gateways import HOLD, EngineProcess, GatewayThread, serving, template_file

anthropic = pytest.importorskip("anthropic")

TOOL = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
OUTPUT = [
    "<think>\nI should ",
    "look.\n</think>\n\n",
    "One moment.",
    "\n<tool_call>\n",
    '{"name": "get_weather", ',
    '"arguments": {"city": "Par',
    'is"}}\n</tool_call>\n<tool_call>\n{"name": "get_weather", "arguments": ',
    '{"city": "Zürich"}}',
    "\n</tool_call>",
]
CALLS = [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Zürich"})]


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("template"))
    with serving(
        upstream="completions",
        url=engine.url,
        template=template,
        model="m",
        api_keys=("sk-test",),
    ) as server:
        yield server


@pytest.fixture
def client(gateway: GatewayThread) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-test", max_retries=0) as openai_client:
        yield openai_client


# -- openai, chat completions


def chat_tools() -> Any:
    return [{"type": "function", "function": {**TOOL, "strict": True}}]


def test_openai_chat_streams(client: openai.OpenAI, engine: EngineProcess) -> None:
    engine.script(*OUTPUT)
    with client.chat.completions.stream(
        model="m",
        messages=[{"role": "user", "content": "How is it?"}],
        tools=chat_tools(),
        stream_options={"include_usage": True},
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "One moment."
    assert message.role == "assistant"
    assert message.model_extra is not None
    assert message.model_extra["reasoning_content"] == "I should look."
    assert [(c.function.name, c.function.parsed_arguments) for c in message.tool_calls or ()] == CALLS
    assert final.choices[0].finish_reason == "tool_calls"
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert final.usage is not None
    assert final.usage.total_tokens == 12


def test_openai_chat_returns_whole_responses(client: openai.OpenAI, engine: EngineProcess) -> None:
    engine.script(*OUTPUT)
    answer = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "How is it?"}], tools=chat_tools()
    )
    calls: list[Any] = list(answer.choices[0].message.tool_calls or ())
    assert [(c.function.name, json.loads(c.function.arguments)) for c in calls] == CALLS
    assert answer.choices[0].finish_reason == "tool_calls"


def test_openai_lists_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["m"]
    assert client.models.retrieve("m").id == "m"


def test_openai_raises_errors(client: openai.OpenAI, engine: EngineProcess) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="m", messages=[], temperature=0)
    assert bad.value.param == "messages"
    engine.script("Hello", die=True)
    stream = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    with pytest.raises(openai.APIError, match="broke"):
        list(stream)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()


# -- openai, responses


def response_tools() -> Any:
    return [{"type": "function", "strict": True, **TOOL}]


def test_openai_responses_stream(client: openai.OpenAI, engine: EngineProcess) -> None:
    engine.script(*OUTPUT)
    with client.responses.stream(
        model="m",
        input="How is it?",
        instructions="Be brief.",
        tools=response_tools(),
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    reasoning, message, *calls = final.output
    assert reasoning.type == "reasoning"
    assert reasoning.content is not None
    assert reasoning.content[0].text == reasoning.summary[0].text == "I should look."
    assert message.type == "message"
    assert final.output_text == "One moment."
    assert [(c.name, json.loads(c.arguments)) for c in calls if c.type == "function_call"] == CALLS
    assert len({c.call_id for c in calls if c.type == "function_call"}) == 2
    assert final.usage is not None
    assert (final.usage.input_tokens, final.usage.output_tokens) == (7, 5)
    assert final.instructions == "Be brief."


def test_openai_responses_continue_a_conversation(client: openai.OpenAI, engine: EngineProcess) -> None:
    """The output of one response is sent back with the results of its calls."""
    engine.script(*OUTPUT)
    first = client.responses.create(model="m", input="How is it?", tools=response_tools())
    history: list[Any] = [{"role": "user", "content": "How is it?"}]
    history += [item.model_dump(exclude_none=True) for item in first.output]
    for item in first.output:
        if item.type == "function_call":
            history.append({"type": "function_call_output", "call_id": item.call_id, "output": "sunny"})
    engine.script("Fine.")
    second = client.responses.create(model="m", input=history, tools=response_tools(), max_output_tokens=99)
    assert second.output_text == "Fine."
    prompt = engine.last()["prompt"]
    assert prompt.count("<|im_start|>assistant") == 2  # the previous turn and the generation prompt
    assert prompt.count("<tool_call>") == 2
    assert prompt.count("sunny") == 2
    assert "I should look." in prompt
    assert engine.last()["max_tokens"] == 99


@pytest.mark.parametrize("stream", [True, False])
def test_openai_responses_refer_to_previous_items(
    client: openai.OpenAI, engine: EngineProcess, stream: bool
) -> None:
    engine.script(*OUTPUT)
    body: Any = {"model": "m", "input": "How is it?", "instructions": "Be brief.", "tools": response_tools()}
    if stream:
        with client.responses.stream(**body) as events:
            first = events.get_final_response()
    else:
        first = client.responses.create(**body)
    results: list[Any] = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "sunny"}
        for item in first.output
        if item.type == "function_call"
    ]
    engine.script("Fine.")
    second = client.responses.create(model="m", input=results, previous_response_id=first.id)
    assert second.previous_response_id == first.id
    prompt = engine.last()["prompt"]
    assert prompt.count("How is it?") == 1
    assert prompt.count("sunny") == prompt.count("<tool_call>") == 2
    assert "I should look." in prompt
    assert "Be brief." not in prompt  # instructions apply to a single response
    engine.script("Bye.")
    client.responses.create(model="m", input="Thanks!", previous_response_id=second.id)
    prompt = engine.last()["prompt"]
    assert prompt.index("sunny") < prompt.index("Fine.") < prompt.index("Thanks!")


def test_openai_unstored_responses_cannot_be_referred_to(
    client: openai.OpenAI, engine: EngineProcess
) -> None:
    engine.script("Hello.")
    first = client.responses.create(model="m", input="Hi", store=False)
    for id in (first.id, "resp_none"):
        with pytest.raises(openai.BadRequestError, match="whole conversation") as bad:
            client.responses.create(model="m", input="And?", previous_response_id=id)
        assert (bad.value.param, bad.value.code) == ("previous_response_id", "previous_response_not_found")


def test_openai_responses_call_custom_tools(client: openai.OpenAI, engine: EngineProcess) -> None:
    output = [
        '<tool_call>\n{"name": "run", "arguments": {"input": "print(',
        HOLD,
        '\\"hé',
        'llo\\")\\n',
        '"}}\n</tool_call>',
    ]
    engine.script(*output)
    tools: Any = [{"type": "custom", "name": "run", "description": "Run Python."}]
    with client.responses.stream(model="m", input="Go", tools=tools, tool_choice="required") as stream:
        pieces: list[str] = []
        for event in stream:
            if event.type == "response.custom_tool_call_input.delta":
                if not pieces:
                    engine.release()
                pieces.append(event.delta)
        final = stream.get_final_response()
    call = final.output[0]
    assert call.type == "custom_tool_call"
    assert call.input == 'print("héllo")\n'
    assert "".join(pieces) == call.input
    assert len(pieces) > 1
    history: list[Any] = [
        {"role": "user", "content": "Go"},
        call.model_dump(exclude_none=True),
        {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "héllo"},
    ]
    engine.script("Done.")
    client.responses.create(model="m", input=history, tools=tools)
    assert '{"input": "print(\\"héllo\\")\\n"}' in engine.last()["prompt"]


def test_openai_responses_parse_structured_output(client: openai.OpenAI, engine: EngineProcess) -> None:
    from pydantic import BaseModel

    class Answer(BaseModel):
        city: str

    engine.script('{"city": ', '"Rome"}')
    answer = client.responses.parse(model="m", input="Where?", text_format=Answer)
    assert answer.output_parsed == Answer(city="Rome")
    assert "city" in engine.last()["structured_outputs"]["json"]["properties"]


def test_openai_responses_return_logprobs(client: openai.OpenAI, engine: EngineProcess) -> None:
    pieces = [
        {
            "text": text,
            "logprobs": {"tokens": [text], "token_logprobs": [-1.0], "top_logprobs": [{text: -1.0}]},
        }
        for text in ("<think>", "hm", "</think>", "Hel", "lo")
    ]
    engine.script(*pieces)
    answer = client.responses.create(
        model="m", input="Hi", include=["message.output_text.logprobs"], top_logprobs=1
    )
    message = answer.output[1]
    assert message.type == "message"
    content = message.content[0]
    assert content.type == "output_text"
    assert [entry.token for entry in content.logprobs or ()] == ["Hel", "lo"]


def test_openai_cut_responses_are_incomplete(client: openai.OpenAI, engine: EngineProcess) -> None:
    engine.script(*OUTPUT[:6], finish="length")
    answer = client.responses.create(model="m", input="Hi", tools=response_tools())
    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"


def test_openai_responses_report_failure(gateway: GatewayThread, engine: EngineProcess) -> None:
    engine.script("Hello", silent=True)
    settings: dict[str, Any] = {"upstream": "completions", "url": engine.url, "model": "m"}
    with (
        serving(**settings, template=gateway._settings.template, idle_timeout=0.5) as hasty,
        openai.OpenAI(base_url=f"{hasty.url}/v1", api_key="any", max_retries=0) as client,
    ):
        received = list(client.responses.create(model="m", input="Hi", stream=True))
    assert received[-1].type == "response.failed"
    assert received[-1].response.error is not None
    assert "no output" in received[-1].response.error.message


# -- anthropic


@pytest.fixture
def claude(gateway: GatewayThread) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=gateway.url, api_key="sk-test", max_retries=0) as client_:
        yield client_


MESSAGES_TOOL = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}


def test_anthropic_streams(claude: Any, engine: EngineProcess) -> None:
    engine.script(*OUTPUT)
    with claude.messages.stream(
        model="m",
        max_tokens=100,
        system="Be brief.",
        messages=[{"role": "user", "content": "How is it?"}],
        tools=[MESSAGES_TOOL],
        thinking={"type": "enabled", "budget_tokens": 2000},
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    thinking, text, *calls = final.content
    assert (thinking.type, thinking.thinking, bool(thinking.signature)) == (
        "thinking",
        "I should look.",
        True,
    )
    assert (text.type, text.text) == ("text", "One moment.")
    assert [(block.name, block.input) for block in calls] == CALLS
    assert final.stop_reason == "tool_use"
    assert (final.usage.input_tokens, final.usage.output_tokens) == (7, 5)
    assert kinds[-1] == "message_stop"


def test_anthropic_continues_a_conversation(claude: Any, engine: EngineProcess) -> None:
    engine.script(*OUTPUT)
    question = {"role": "user", "content": "How is it?"}
    first = claude.messages.create(model="m", max_tokens=100, messages=[question], tools=[MESSAGES_TOOL])
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": [{"type": "text", "text": "sunny"}]}
        for block in first.content
        if block.type == "tool_use"
    ]
    history = [
        question,
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]},
        {"role": "user", "content": [*results, {"type": "text", "text": "And now?"}]},
    ]
    engine.script("Fine.")
    second = claude.messages.create(
        model="m", max_tokens=100, messages=history, tools=[MESSAGES_TOOL], stop_sequences=["END"]
    )
    assert second.content[0].text == "Fine."
    assert second.stop_reason == "end_turn"
    prompt = engine.last()["prompt"]
    assert prompt.count("sunny") == 2
    assert prompt.index("sunny") < prompt.index("And now?")
    assert "I should look." in prompt
    assert engine.last()["stop"] == ["END"]


@pytest.mark.parametrize(
    ("choice", "forced"),
    [
        ({"type": "auto"}, False),
        ({"type": "any"}, True),
        ({"type": "tool", "name": "get_weather"}, True),
        ({"type": "any", "disable_parallel_tool_use": True}, True),
    ],
)
def test_anthropic_tool_choice_is_enforced(
    claude: Any, engine: EngineProcess, choice: dict[str, Any], forced: bool
) -> None:
    engine.script(*OUTPUT[3:])
    answer = claude.messages.create(
        model="m",
        max_tokens=100,
        messages=[{"role": "user", "content": "Go"}],
        tools=[MESSAGES_TOOL],
        tool_choice=choice,
    )
    assert ("structured_outputs" in engine.last()) == forced
    assert len(answer.content) == (1 if "disable_parallel_tool_use" in choice else 2)


def test_anthropic_stop_sequence_and_prefill_work(claude: Any, engine: EngineProcess) -> None:
    engine.script("1, 2, 3", last={"stop_reason": "END"})
    answer = claude.messages.create(
        model="m",
        max_tokens=100,
        messages=[{"role": "user", "content": "Count"}, {"role": "assistant", "content": "Numbers: "}],
        stop_sequences=["END"],
    )
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "END")
    assert engine.last()["prompt"].endswith("<|im_start|>assistant\nNumbers: ")


def test_anthropic_counts_tokens(claude: Any, engine: EngineProcess) -> None:
    count = claude.messages.count_tokens(
        model="m",
        messages=[{"role": "user", "content": "How is it?"}],
        system="Be brief.",
        tools=[MESSAGES_TOOL],
    )
    request = engine.seen()[-1]
    assert request["path"] == "/tokenize"
    # The fake engine counts words as tokens.
    assert count.input_tokens == len(request["body"]["prompt"].split())
    assert "get_weather" in request["body"]["prompt"]
    assert request["body"]["add_special_tokens"] is False
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        claude.messages.count_tokens(model="m", messages=[])


def test_anthropic_raises_errors(claude: Any, engine: EngineProcess) -> None:
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        claude.messages.create(model="m", max_tokens=0, messages=[{"role": "user", "content": "Hi"}])
    engine.script("Hello", die=True)
    with (
        pytest.raises(anthropic.APIStatusError, match="broke"),
        claude.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        ) as stream,
    ):
        stream.until_done()
    assert [model.id for model in claude.models.list()] == ["m"]


# -- langchain


def test_langchain_chat_works(gateway: GatewayThread, engine: EngineProcess) -> None:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="m", base_url=f"{gateway.url}/v1", api_key="sk-test", max_retries=0)  # type: ignore[arg-type]
    bound = model.bind_tools([chat_tools()[0]])
    engine.script(*OUTPUT)
    chunks = list(bound.stream("How is it?"))
    whole: Any = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == CALLS
    assert whole.content == "One moment."
    assert whole.response_metadata["finish_reason"] == "tool_calls"
    engine.script(*OUTPUT)
    answer = bound.invoke("How is it?")
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == CALLS


def test_langchain_responses_work(gateway: GatewayThread, engine: EngineProcess) -> None:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        model="m",
        base_url=f"{gateway.url}/v1",
        api_key="sk-test",  # type: ignore[arg-type]
        max_retries=0,
        use_responses_api=True,
    )
    bound = model.bind_tools([chat_tools()[0]])
    engine.script(*OUTPUT)
    chunks = list(bound.stream("How is it?"))
    whole: Any = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == CALLS


# -- pydantic-ai


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_pydantic_ai_runs_an_agent(gateway: GatewayThread, engine: EngineProcess, api: str) -> None:
    pytest.importorskip("pydantic_ai")
    engine.script(*OUTPUT[:2], *OUTPUT[3:])  # this client treats text before a call as the result
    engine.script("It is ", "fine.")
    assert asyncio.run(_pydantic_agent(gateway, api)) == ("It is fine.", ["Paris", "Zürich"])


async def _pydantic_agent(gateway: GatewayThread, api: str) -> tuple[str, list[str]]:
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    model: Any
    if api == "messages":
        claude = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="sk-test", max_retries=0)
        model = AnthropicModel("m", provider=AnthropicProvider(anthropic_client=claude))
    else:
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="sk-test", max_retries=0)
        kind = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
        model = kind("m", provider=OpenAIProvider(openai_client=client))
    agent: Any = Agent(model)
    cities: list[str] = []

    @agent.tool_plain  # type: ignore[untyped-decorator]
    def get_weather(city: str) -> str:
        cities.append(city)
        return "sunny"

    async with agent.run_stream("How is it?") as run:
        output = await run.get_output()
    await (claude if api == "messages" else client).close()
    return str(output), sorted(cities)  # the tools run concurrently
