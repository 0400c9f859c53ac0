"""Agent loops: a tool runs only if the model's call was complete.

The tool needs no argument: an agent that treats broken arguments as empty would delete everything.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import agents
import anthropic
import openai
import pydantic_ai
import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import EngineProcess, GatewayThread, serving, template_file
from unspool import get_dialect, parse

# LangChain leaves connections to the garbage collector, as do agents that give up.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Release this test's open resources before the next one."""
    yield
    gc.collect()


EVERYTHING = "EVERYTHING"
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"target": {"type": "string"}}}
TOOL: dict[str, Any] = {"name": "wipe", "description": "Wipe the target.", "parameters": PARAMETERS}
TURNS = 3
"""Maximum number of requests by an agent; the model does not repair its call and then answers."""

Ran = list[str]
Agent = Callable[[str, Ran], None]
"""Runs an agent against the gateway at an address, and records the tool's arguments."""


# -- agents, each with the loop of its library or of its documentation


def make_wipe_tool(ran: Ran) -> Callable[..., str]:
    def wipe(target: str = EVERYTHING) -> str:
        """Wipes the target."""
        ran.append(target)
        return "done"

    return wipe


def run_by_hand(run: Callable[..., str], arguments: str) -> str:
    """Parse arguments that arrive as text, as a hand-written loop does."""
    try:
        return run(**json.loads(arguments))
    except ValueError as error:
        return f"error: {error}"


def openai_chat(url: str, ran: Ran, *, stream: bool) -> None:
    history: list[Any] = [{"role": "user", "content": "Hi"}]
    tools: Any = [{"type": "function", "function": TOOL}]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        for _ in range(TURNS):
            body: dict[str, Any] = {"model": "m", "messages": history, "tools": tools}
            if stream:
                with client.chat.completions.stream(**body) as stream_:
                    message: Any = stream_.get_final_completion().choices[0].message
            else:
                message = client.chat.completions.create(**body).choices[0].message
            if not message.tool_calls:
                return
            history.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                result = run_by_hand(make_wipe_tool(ran), call.function.arguments)
                history.append({"role": "tool", "tool_call_id": call.id, "content": result})


def openai_responses(url: str, ran: Ran, *, stream: bool) -> None:
    history: list[Any] = [{"role": "user", "content": "Hi"}]
    tools: Any = [{"type": "function", **TOOL}]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        for _ in range(TURNS):
            body: dict[str, Any] = {"model": "m", "input": history, "tools": tools}
            if stream:
                with client.responses.stream(**body) as stream_:
                    output: list[Any] = list(stream_.get_final_response().output)
            else:
                output = list(client.responses.create(**body).output)
            calls = [item for item in output if item.type == "function_call"]
            if not calls:
                return
            history += [item.model_dump(exclude_none=True) for item in output]
            for call in calls:
                result = run_by_hand(make_wipe_tool(ran), call.arguments)
                history.append({"type": "function_call_output", "call_id": call.call_id, "output": result})


def anthropic_runner(url: str, ran: Ran, *, stream: bool) -> None:
    with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model="m",
            max_tokens=99,
            messages=[{"role": "user", "content": "Hi"}],
            tools=[anthropic.beta_tool(make_wipe_tool(ran))],
            max_iterations=TURNS,
            stream=stream,
        )
        for message in runner:
            if stream:
                for _ in message:
                    pass


def openai_agents(url: str, ran: Ran, *, stream: bool, responses: bool) -> None:
    agents.set_tracing_disabled(disabled=True)
    model = agents.OpenAIResponsesModel if responses else agents.OpenAIChatCompletionsModel

    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
            tool = agents.function_tool(make_wipe_tool(ran), strict_mode=False)
            agent = agents.Agent(name="a", tools=[tool], model=model("m", client))
            if stream:
                result = agents.Runner.run_streamed(agent, "Hi", max_turns=TURNS)
                async for _ in result.stream_events():
                    pass
            else:
                await agents.Runner.run(agent, "Hi", max_turns=TURNS)

    asyncio.run(run())


def pydantic(url: str, ran: Ran, *, stream: bool, api: str) -> None:
    async def run() -> None:
        if api == "messages":
            client: Any = anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0)
            model: Any = AnthropicModel("m", provider=AnthropicProvider(anthropic_client=client))
        else:
            client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
            kind: Any = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
            model = kind("m", provider=OpenAIProvider(openai_client=client))
        agent = pydantic_ai.Agent(model, tools=[make_wipe_tool(ran)])
        async with client:
            if stream:
                async with agent.run_stream("Hi") as result:
                    async for _ in result.stream_text():
                        pass
            else:
                await agent.run("Hi")

    asyncio.run(run())


def langchain(url: str, ran: Ran, *, stream: bool, api: str) -> None:
    model: Any
    if api == "messages":
        options: Any = {"model": "m", "base_url": url, "api_key": "x", "max_retries": 0}
        model = ChatAnthropic(**options, streaming=stream)
    else:
        model = ChatOpenAI(
            model="m",
            base_url=f"{url}/v1",
            api_key=lambda: "x",
            max_retries=0,
            streaming=stream,
            use_responses_api=api == "responses",
        )
    agent = create_agent(model, [langchain_tool(make_wipe_tool(ran))])
    request: Any = {"messages": [{"role": "user", "content": "Hi"}]}
    limits: Any = {"recursion_limit": 2 * TURNS}
    if stream:
        for _ in agent.stream(request, limits, stream_mode="messages"):
            pass
    else:
        agent.invoke(request, limits)


def run_both_ways(name: str, agent: Callable[..., None], **options: Any) -> Mapping[str, Agent]:
    """Run the agent streamed and whole."""
    return {
        f"{name}, streamed": lambda url, ran: agent(url, ran, stream=True, **options),
        f"{name}, whole": lambda url, ran: agent(url, ran, stream=False, **options),
    }


AGENTS: Mapping[str, Agent] = {
    **run_both_ways("openai chat", openai_chat),
    **run_both_ways("openai responses", openai_responses),
    **run_both_ways("anthropic", anthropic_runner),
    **run_both_ways("agents sdk chat", openai_agents, responses=False),
    **run_both_ways("agents sdk responses", openai_agents, responses=True),
    **run_both_ways("pydantic-ai chat", pydantic, api="chat"),
    **run_both_ways("pydantic-ai responses", pydantic, api="responses"),
    **run_both_ways("pydantic-ai messages", pydantic, api="messages"),
    **run_both_ways("langchain chat", langchain, api="chat"),
    **run_both_ways("langchain responses", langchain, api="responses"),
    **run_both_ways("langchain messages", langchain, api="messages"),
}

each_agent = pytest.mark.parametrize("name", AGENTS)

# -- model outputs

GOOD = {
    "hermes": '<tool_call>\n{"name": "wipe", "arguments": {"target": "tmp"}}\n</tool_call>',
    "qwen3_coder": "<tool_call>\n<function=wipe>\n<parameter=target>\ntmp\n</parameter>\n"
    "</function>\n</tool_call>",
}
BROKEN = {
    "hermes": [
        '<tool_call>\n{"name": "wipe", "arguments": {\'target\': \'tmp\'}}\n</tool_call>',
        '<tool_call>\n{"name": "wipe", "arguments": {"target": tmp}}\n</tool_call>',
        '<tool_call>\n{"name": "wipe", "arguments": ["tmp"]}\n</tool_call>',
    ],
    "qwen3_coder": [
        "<tool_call>\n<function=wipe>\n<paramter=target>\ntmp\n</paramter>\n</function>\n</tool_call>",
    ],
}


DIALECTS = ["hermes", pytest.param("qwen3_coder", marks=pytest.mark.slow)]


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def gateway(
    engine: EngineProcess, dialect: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("template"))
    with serving(
        upstream="completions", url=engine.url, template=template, dialect=dialect, model="m"
    ) as server:
        yield server


def allowed_arguments(text: str, dialect: str, reason: Any) -> Ran:
    """Return the arguments with which the tool may run."""
    tools = [{"type": "function", "function": TOOL}]
    message = parse(text, get_dialect(dialect), tools=tools, finish_reason=reason)
    return [json.loads(call.arguments).get("target", EVERYTHING) for call in message.tool_calls]


def run(name: str, engine: EngineProcess, gateway: GatewayThread, text: str, reason: str) -> Ran:
    """Return what an agent runs if the model writes this text and then answers."""
    engine.clear()
    engine.script(*(text[at : at + 7] for at in range(0, len(text), 7)), finish=reason)
    ran: Ran = []
    with suppress(Exception):  # giving up is also a way not to run the call
        AGENTS[name](gateway.url, ran)
    return ran


def assert_only_complete_calls_run(
    name: str, engine: EngineProcess, gateway: GatewayThread, dialect: str, *, step: int
) -> None:
    good = GOOD[dialect]
    assert run(name, engine, gateway, good, "stop") == ["tmp"]
    for broken in BROKEN[dialect]:
        assert run(name, engine, gateway, broken, "stop") == [], broken
        assert set(run(name, engine, gateway, f"{good}\n{broken}", "stop")) <= {"tmp"}, broken
    for cut in range(len(good) - 1, 12, -step):
        text = good[:cut]
        ran = run(name, engine, gateway, text, "length")
        assert not ran or ran == allowed_arguments(text, dialect, "length"), text
        two = f"{good}\n{text}"
        ran = run(name, engine, gateway, two, "length")
        assert not ran or ran in (["tmp"], allowed_arguments(two, dialect, "length")), two


@each_agent
def test_agents_run_only_calls_the_model_wrote(
    name: str, engine: EngineProcess, gateway: GatewayThread, dialect: str
) -> None:
    assert_only_complete_calls_run(name, engine, gateway, dialect, step=31)


@pytest.mark.slow
@each_agent
def test_agents_run_only_complete_calls_wherever_output_is_cut(
    name: str, engine: EngineProcess, gateway: GatewayThread, dialect: str
) -> None:
    assert_only_complete_calls_run(name, engine, gateway, dialect, step=1)
