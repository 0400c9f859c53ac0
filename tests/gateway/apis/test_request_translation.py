"""Requests of agents and client libraries keep their meaning, and none ends a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import EngineProcess, GatewayThread, call_text, post, serving, template_file
from unspool.gateway.apis.messages.request import read_messages_request

USER = {"role": "user", "content": "Hi"}
HARMONY = """\
{%- for message in messages -%}<|start|>{{ message.role }}<|message|>{{ message.content }}<|end|>{% endfor -%}
effort={{ reasoning_effort | default("unset") }} {{ tools | tojson if tools }}<|start|>assistant"""


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = template_file(tmp_path_factory.mktemp("meaning"))
    with serving(
        upstream="completions", url=engine.url, template=template, dialect="hermes", model="m"
    ) as server:
        yield server


@pytest.fixture(scope="module")
def harmony(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    path = tmp_path_factory.mktemp("harmony") / "template.jinja"
    path.write_text(HARMONY)
    with serving(
        upstream="completions", url=engine.url, template=str(path), dialect="harmony", model="m"
    ) as server:
        yield server


# -- options for every model


@pytest.mark.parametrize(
    ("switches", "effort"),
    [
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, "high"),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}, "low"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 99}, "output_config": {"effort": "max"}},
            "high",
        ),
        ({"output_config": {"effort": "enormous"}}, "unset"),
    ],
)
def test_unknown_thinking_option_leaves_others_in_place(
    engine: EngineProcess, harmony: GatewayThread, switches: dict[str, Any], effort: str
) -> None:
    engine.script("<|channel|>final<|message|>Hello.")
    post(f"{harmony.url}/v1/messages", {"messages": [USER], "max_tokens": 9, **switches})
    assert f"effort={effort} " in engine.last()["prompt"]


def test_unknown_effort_maps_to_the_nearest(engine: EngineProcess, harmony: GatewayThread) -> None:
    engine.script("<|channel|>final<|message|>Hello.")
    post(f"{harmony.url}/v1/responses", {"input": "Hi", "reasoning": {"effort": "minimal"}})
    assert "effort=low " in engine.last()["prompt"]


# -- the billing line of a vendor's client


@pytest.mark.parametrize(
    ("system", "left"),
    [
        (
            [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.7; cc_entrypoint=cli;"},
                {"type": "text", "text": "You are an agent."},
            ],
            [{"role": "system", "content": "You are an agent."}],
        ),
        ("x-anthropic-billing-header: a=b;\nBe kind.", [{"role": "system", "content": "Be kind."}]),
        ([{"type": "text", "text": "x-anthropic-billing-header: a=b;"}], []),
        ("No x-anthropic-billing-header: here", None),
    ],
)
def test_session_header_does_not_begin_the_prompt(system: Any, left: Any) -> None:
    job = read_messages_request({"messages": [USER], "max_tokens": 5, "system": system})
    expected = [{"role": "system", "content": system}] if left is None else left
    assert job.chat["messages"] == [*expected, USER]


# -- forced calls with a JSON response format


@pytest.mark.parametrize("engine_kind", ["completions", "chat"])
def test_forced_call_wins_over_a_response_format(
    engine: EngineProcess, gateway: GatewayThread, engine_kind: str
) -> None:
    """instructor's RESPONSES_TOOLS mode sends such a request."""
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    engine.script(call_text("User", '{"age": 5}'))
    body: Any = {
        "model": "m",
        "input": "Five.",
        "tools": [{"type": "function", "name": "User", "parameters": schema, "strict": True}],
        "tool_choice": {"type": "function", "name": "User"},
        "text": {"format": {"type": "json_schema", "name": "User", "schema": schema}},
    }
    settings = {"upstream": "chat", "url": engine.url, "dialect": "hermes", "model": "m"}
    with serving(**settings) as chat:
        url = gateway.url if engine_kind == "completions" else chat.url
        with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
            (call,) = client.responses.create(**body).output
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"age": 5}
    assert "response_format" not in engine.last()
    assert "json" not in engine.last()["structured_outputs"]
