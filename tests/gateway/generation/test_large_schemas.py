"""Very large schemas in requests: a grammar is built in a pool, left out, or refused by name."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import EngineProcess, GatewayThread, post, send, serving
from unspool.gateway.upstreams import engines

CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    with serving(upstream="completions", url=engine.url, engine="llamacpp", template=template) as server:
        yield server


def body(schema: Any, **more: Any) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    messages = [{"role": "user", "content": "Go"}]
    return {"messages": messages, "tools": [tool], "tool_choice": "required", **more}


def nested_schema(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}])
def test_schema_nested_too_deep_is_refused_by_name(gateway: GatewayThread, choice: Any) -> None:
    request = body(nested_schema(55), tool_choice=choice)
    status, data, _ = send(f"{gateway.url}/v1/chat/completions", request)
    error = json.loads(data)["error"]
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", "tools")
    assert "100 levels deep" in error["message"]


def test_deep_schema_is_accepted_where_nothing_is_enforced(
    engine: EngineProcess, gateway: GatewayThread
) -> None:
    engine.script(CALL)
    answer = post(f"{gateway.url}/v1/chat/completions", body(nested_schema(55), tool_choice="auto"))
    assert answer["choices"][0]["finish_reason"] == "tool_calls"


def test_grammar_that_is_too_large_is_left_out(engine: EngineProcess, gateway: GatewayThread) -> None:
    """Forty definitions, each an alternative of two uses of the next."""
    union = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}", "required": [side]} for side in (f"a{n}", f"b{n}")]}
        for n in range(40)
    } | {"d40": {"type": "object"}}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": union}
    engine.script(CALL)
    answer = post(f"{gateway.url}/v1/chat/completions", body(schema))
    assert "grammar" not in engine.last()
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "f"


def test_grammar_is_built_once_off_the_event_loop(
    engine: EngineProcess, gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    made = engines.LlamaCpp.build_constraint

    def build_constraint(self: engines.LlamaCpp, task: Any) -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        return made(self, task)

    monkeypatch.setattr(engines.LlamaCpp, "build_constraint", build_constraint)
    for _ in range(3):
        engine.script(CALL)
    answer = post(f"{gateway.url}/v1/chat/completions", body({"type": "object"}, n=3))
    assert len(answer["choices"]) == 3
    assert engine.last()["grammar"].startswith("root ::=")
    (thread,) = threads
    assert thread.startswith("unspool-preparing prompts")
