"""Templates in requests: refused unless allowed, and they never delay other clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import CHATML, EngineProcess, GatewayThread, post, send, serving
from unspool.gateway import load_settings
from unspool.gateway.generation.model import Model
from unspool.gateway.generation.prepare_request import prepare_request
from unspool.gateway.http.failure import Failure
from unspool.models.detection import template_probe as probe
from unspool.templates import ChatTemplate, NoRenderer

LOOP = "{% set r = range(99999) %}{% for i in r %}{% for j in r %}{% set x = i %}{% endfor %}{% endfor %}"
LATE = "{{ messages[0].content }}{% if messages | length > 1 %}" + LOOP + "{% endif %}"
ONE_COMPARISON = (
    "{% set n = namespace(a=[], b=[]) %}"
    "{% for i in range(99) %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}{{ n.a == n.b }}"
)
HUGE = "{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}"


@pytest.fixture
def gateway(engine: EngineProcess, template: str) -> Iterator[GatewayThread]:
    settings = {"upstream": "completions", "url": engine.url, "template": template, "dialect": "hermes"}
    with serving(**settings, model="m", request_templates=True) as server:
        yield server


def parse(gateway: GatewayThread, **body: Any) -> tuple[int, dict[str, Any]]:
    status, data, _ = send(f"{gateway.url}/v1/parse", {"text": "<think>a</think>b", **body})
    return status, json.loads(data)


def test_request_template_is_refused_unless_allowed() -> None:
    assert not load_settings(environment={}).request_templates
    assert load_settings(environment={"UNSPOOL_REQUEST_TEMPLATES": "true"}).request_templates


def test_allowed_request_template_selects_the_dialect(gateway: GatewayThread) -> None:
    status, answer = parse(gateway, chat_template=CHATML)
    assert status == 200
    assert (answer["message"]["reasoning_content"], answer["message"]["content"]) == ("a", "b")
    assert answer["evidence"]


@pytest.mark.parametrize(
    "body", [{"chat_template": "no template"}, {"chat_template": CHATML, "dialect": "hermes"}]
)
def test_template_without_a_dialect_is_refused(gateway: GatewayThread, body: dict[str, Any]) -> None:
    status, answer = parse(gateway, **body)
    assert status == 400
    assert answer["error"]["param"] == "chat_template"


def test_template_bomb_does_not_delay_other_clients(
    engine: EngineProcess, gateway: GatewayThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_RENDER_TIMEOUT", 0.2)
    engine.script("Hello.")
    with ThreadPoolExecutor(6) as attackers:
        bombs = [
            attackers.submit(parse, gateway, chat_template=bomb)
            for bomb in (LOOP, LATE, ONE_COMPARISON, HUGE) * 2
        ]
        chat = {"messages": [{"role": "user", "content": "Hi"}]}
        answer = post(f"{gateway.url}/v1/chat/completions", chat)
        ends = [bomb.result() for bomb in bombs]
    assert answer["choices"][0]["message"]["content"] == "Hello."
    assert {status for status, _ in ends} <= {400, 503}
    messages = [body_["error"]["message"] for status, body_ in ends if status == 400]
    assert messages
    assert all("longer than 0.2 seconds" in one or "megabytes" in one for one in messages)


def test_unavailable_renderer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("m", "hermes", template=ChatTemplate(CHATML))

    def busy(*_: object, **__: object) -> str:
        raise NoRenderer("cannot start /opt/python")

    assert model.template is not None
    _ = model.template.capabilities
    monkeypatch.setattr(ChatTemplate, "render", busy)
    with pytest.raises(Failure) as caught:
        prepare_request(
            model, {"messages": [{"role": "user", "content": "Hi"}]}, constraints=(), renders=False
        )
    assert (caught.value.status, caught.value.retry_after) == (503, "1")
    assert "/opt" not in caught.value.message


def test_conversation_over_the_template_limit_is_too_large() -> None:
    model = Model("m", "hermes", template=ChatTemplate(CHATML, max_length=1000))
    with pytest.raises(Failure, match="max_length") as caught:
        prepare_request(
            model, {"messages": [{"role": "user", "content": "x" * 1000}]}, constraints=(), renders=False
        )
    assert caught.value.status == 413


@pytest.mark.parametrize(
    "name", ["messages", "tools", "add_generation_prompt", "continue_final_message", "self"]
)
def test_template_variable_cannot_replace_the_conversation(
    engine: EngineProcess, gateway: GatewayThread, name: str
) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs": {name: []}}
    engine.script("Hello.")
    status, data, _ = send(f"{gateway.url}/v1/chat/completions", body)
    assert status == 400, data
    assert name in json.loads(data)["error"]["message"]
