"""Requests of real agents, as ``lab.agents`` recorded them: nothing is refused or silently lost.

Texts in a recording are unique placeholders (``words-7``), so that a text which does not reach the engine
is noticed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import EngineProcess, GatewayThread, post, send, serving
from unspool.gateway.generation import generator

FOLDER = Path(__file__).parent.parent / "recorded"
AGENTS = sorted(path.stem for path in FOLDER.glob("*.json"))
TEMPLATE = """{{ tools | tojson }}
{% for message in messages %}{{ message | tojson }}
{% endfor %}"""
"""Prints everything that a template receives."""
BILLING = "x-anthropic-billing-header: "
UNSEEN = {"signature", "encrypted_content", "data", "cache_control"}
"""Fields of blocks and items for the gateway only, not for the model."""
CODEX = [
    # Encrypted with the key of the gateway that was recorded.
    "encrypted_content: encrypted with another key or for another user",
    "the tool web_search: only its vendor can run it",
]
LEFT_OUT = {
    "claude-code": ["context_management: this gateway does not know this field"],
    "codex": CODEX,
    "codex-with-mcp": CODEX,
}
"""Expected log lines per agent; other agents log nothing."""


@cache
def load_recording(agent: str) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads((FOLDER / f"{agent}.json").read_text(encoding="utf-8"))
    return recording


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    template = tmp_path_factory.mktemp("template") / "all.jinja"
    template.write_text(TEMPLATE, encoding="utf-8")
    with serving(upstream="completions", url=engine.url, template=str(template), dialect="hermes") as server:
        yield server


def iter_texts(value: Any, field: str = "") -> set[str]:
    """Return the placeholders meant for the model: messages, instructions, and tool descriptions."""
    if isinstance(value, dict):
        return set().union(*(iter_texts(inner, key) for key, inner in value.items() if key not in UNSEEN))
    if isinstance(value, list):
        return set().union(*(iter_texts(inner, field) for inner in value))
    if not isinstance(value, str) or value.startswith(BILLING):
        return set()
    return set(re.findall(r"words-\d+", value))


def model_texts(body: dict[str, Any]) -> set[str]:
    shown = ("messages", "input", "instructions", "system", "tools")
    return set().union(*(iter_texts(body.get(name)) for name in shown))


def runnable_tools(body: dict[str, Any]) -> Iterator[str]:
    """Return the tools that the client can run."""
    for tool in body.get("tools", ()):
        if tool.get("type") == "namespace":
            yield from (f"{tool['name']}__{inner['name']}" for inner in tool["tools"])
        elif name := tool.get("function", tool).get("name"):
            yield name


def with_real_references(body: dict[str, Any], url: str) -> dict[str, Any]:
    """Replace recorded references by items that the gateway has sent before."""
    references = [item for item in body.get("input", ()) if item.get("type") == "item_reference"]
    for item in references:
        item["id"] = post(f"{url}/v1/responses", {"input": "Hi"})["output"][0]["id"]
    return body


def test_every_api_has_recorded_agents() -> None:
    paths = {request["path"] for agent in AGENTS for request in load_recording(agent)["requests"]}
    assert paths == {"/v1/chat/completions", "/v1/responses", "/v1/messages"}


@pytest.mark.parametrize("agent", AGENTS)
def test_recorded_request_fields_are_handled_or_logged(
    agent: str, engine: EngineProcess, gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(generator, "log_once", lambda _, reason: notes.append(reason))
    for request in load_recording(agent)["requests"]:
        body = with_real_references(json.loads(json.dumps(request["body"])), gateway.url)
        status, answer, _ = send(f"{gateway.url}{request['path']}", body)
        assert status == 200, answer
        assert b'"error":{' not in answer
        prompt = engine.last()["prompt"]
        assert model_texts(body)
        assert model_texts(body) - set(re.findall(r"words-\d+", prompt)) == set()
        assert [name for name in runnable_tools(body) if f'"name": "{name}"' not in prompt] == []
        assert BILLING not in prompt
    assert sorted(set(notes)) == LEFT_OUT.get(agent, [])
