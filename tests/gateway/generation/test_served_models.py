"""Several models at one address, and several upstreams for one model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import (
    EngineProcess,
    call_text,
    events,
    fetch,
    free_port,
    get,
    post,
    send,
    serving,
    until,
)
from unspool import UsageError
from unspool.gateway import Settings, load_settings
from unspool.gateway.upstreams.completions import CompletionsUpstream
from unspool.gateway.upstreams.http_client import Connection
from unspool.gateway.upstreams.load_balancer import LoadBalancer, Member

ASK = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def other() -> Iterator[EngineProcess]:
    process = EngineProcess("vllm")
    yield process
    process.stop()


def from_file(path: Path, text: str) -> dict[str, Any]:
    """Load the settings of a file for a gateway on a free port."""
    path.write_text(text, encoding="utf-8")
    return load_settings(environment={}, config=str(path)).shown()


# -- several models


def test_each_model_has_its_own_upstream_dialect_and_policies(
    engine: EngineProcess, other: EngineProcess, template: str, tmp_path: Path
) -> None:
    settings = from_file(
        tmp_path / "gateway.toml",
        f"""
        upstream = "completions"
        template = "elsewhere"

        [models.first]
        url = "{engine.url}"
        template = "{template}"

        [models."org/second"]
        upstream = "chat"
        url = "{other.url}"
        dialect = "qwen3_coder"
        aliases = ["two"]
        policies = {{ reasoning_field = "reasoning" }}
        """,
    )
    with serving(**settings) as gateway:
        url = gateway.url
        listed = get(f"{url}/v1/models")
        assert [one["id"] for one in listed["data"]] == ["first", "org/second"]
        assert get(f"{url}/v1/models/two")["id"] == "org/second"
        assert get(f"{url}/ready")["models"] == {"first": True, "org/second": True}

        engine.script(call_text("f", '{"a": 1}'))
        other.script("<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>")
        for name, model in (("first", "first"), ("two", "org/second")):
            body = {"model": name, "messages": ASK, "tools": TOOLS}
            answer = post(f"{url}/v1/chat/completions", body)
            assert answer["model"] == model
            assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "f"
        engine.script("Hello.")
        assert post(f"{url}/v1/chat/completions", {"messages": ASK})["model"] == "first"
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"):
            status, data, _ = send(url + path, {"model": "gpt-9", "messages": ASK, "max_tokens": 5})
            assert status == 404
            assert "'first', 'org/second'" in json.loads(data)["error"]["message"]
        assert fetch(f"{url}/v1/models/gpt-9")[0] == 404
        assert post(f"{url}/v1/parse", {"text": "x", "model": "two"})["dialect"] == "qwen3_coder"
        for script, name, field in (
            (engine, "first", {"reasoning", "reasoning_content"}),
            (other, "two", {"reasoning"}),
        ):
            script.script("<think>\nHm.\n</think>\n\nHello.")
            answer = post(f"{url}/v1/chat/completions", {"model": name, "messages": ASK})
            assert answer["choices"][0]["message"].keys() & {"reasoning", "reasoning_content"} == field


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[models.a]\nupstream = 'chat'", "models.a: upstream=chat needs the upstream's address"),
        ("[models.a]\nport = 1", "models.a: unknown setting 'port'"),
        ("[models]\na = 1", "models.a = 1: expected a table"),
        ("[models.a]\nurl = 5", "models.a: url = 5: expected a string"),
        ("[models.a]\npolicies = {malformed_call = 'x'}", "malformed_call"),
    ],
)
def test_mistake_in_a_model_table_is_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_file(tmp_path / "gateway.toml", text)


def test_several_models_need_a_settings_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--config"):
        load_settings(environment={"UNSPOOL_MODELS": "a=b"})
    settings = Settings(models={"a": {"upstream_key": "secret"}}, upstream_key="secret")
    assert "secret" not in str(settings.shown())
    assert settings.each()[0].upstream_key == "secret"
    assert Settings(models={"a": {}}, upstream_key="secret").each()[0].upstream_key == ""


def test_duplicate_model_name_is_refused(engine: EngineProcess, template: str) -> None:
    table = {"upstream": "completions", "url": engine.url, "template": template}
    with (
        pytest.raises(UsageError, match="two models have the name 'b'"),
        serving(models={"a": {**table, "aliases": ("b",)}, "b": table}),
    ):
        pass


# -- several upstreams


def seen(*engines: EngineProcess) -> int:
    return sum(len(engine.seen()) for engine in engines)


def ask(url: str, **more: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
    status, data, headers = send(f"{url}/v1/chat/completions", {"messages": ASK, **more})
    return status, json.loads(data), headers


@pytest.mark.parametrize(
    "failure",
    [
        {"status": 500},
        {"status": 503},
        {"status": 429},
        {"die": True},
        {"finish": None, "no_done": True},
    ],
)
def test_failure_before_the_first_byte_is_retried_elsewhere(
    engine: EngineProcess, other: EngineProcess, template: str, failure: dict[str, Any]
) -> None:
    with serving(upstream="completions", url=engine.url, urls=(other.url,), template=template) as gateway:
        before = len(engine.seen())
        assert ask(gateway.url)[0] == 200
        home, away = (engine, other) if len(engine.seen()) > before else (other, engine)
        for stream in (False, True):
            counts = len(home.seen()), len(away.seen())
            home.script(**failure)
            away.script("Hello there.")
            status, data, _ = send(f"{gateway.url}/v1/chat/completions", {"messages": ASK, "stream": stream})
            assert status == 200
            assert b"Hello there." in data
            assert b"error" not in data
            assert (len(home.seen()), len(away.seen())) == (counts[0] + 1, counts[1] + 1)


def test_started_stream_is_not_retried(engine: EngineProcess, other: EngineProcess, template: str) -> None:
    with serving(upstream="completions", url=engine.url, urls=(other.url,), template=template) as gateway:
        for one in (engine, other):
            one.script("Hello", die=True, delay=0.04)
        before = seen(engine, other)
        received = events(f"{gateway.url}/v1/chat/completions", {"messages": ASK})
        assert "error" in cast("dict[str, Any]", received[-2])
        assert seen(engine, other) == before + 1
        for one in (engine, other):
            one.clear()
            one.script(status=400)
        assert ask(gateway.url)[0] == 400
        assert seen(engine, other) == before + 2
        for one in (engine, other):
            one.clear()


def test_retry_after_is_passed_on(engine: EngineProcess, template: str) -> None:
    with serving(upstream="completions", url=engine.url, template=template) as gateway:
        engine.script(status=429, headers="Retry-After: 17\r\n")
        status, _, headers = ask(gateway.url)
        assert (status, headers["retry-after"]) == (429, "17")


def test_failing_upstream_rests_until_it_answers(engine: EngineProcess, template: str) -> None:
    port = free_port()
    dead = f"http://127.0.0.1:{port}"
    with serving(upstream="completions", url=dead, urls=(engine.url,), template=template) as gateway:

        def up() -> str:
            text = fetch(f"{gateway.url}/metrics")[1].decode()
            return next(
                line for line in text.splitlines() if line.startswith("unspool_upstream_up") and dead in line
            )

        assert up().endswith(" 1")
        for number in range(40):
            assert ask(gateway.url, messages=[{"role": "user", "content": str(number)}])[0] == 200
        assert up().endswith(" 0")
        revived = EngineProcess("vllm", port)
        try:
            until(lambda: up().endswith(" 1"))
            for number in range(40):
                assert ask(gateway.url, messages=[{"role": "user", "content": str(number)}])[0] == 200
            assert revived.seen()
        finally:
            revived.stop()


def test_failure_of_all_upstreams_is_reported(template: str) -> None:
    urls = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]
    with serving(upstream="completions", url=urls[0], urls=(urls[1],), template=template) as gateway:
        statuses = [ask(gateway.url) for _ in range(4)]
    assert [status for status, _, _ in statuses] == [502, 502, 502, 503]
    assert statuses[-1][2]["retry-after"] == "1"


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(2, 5))
def test_conversation_stays_on_its_upstream_unless_others_are_idle(topics: list[int], size: int) -> None:
    connections = [
        Connection(f"http://{number}", key="", connect=1, idle=1, limit=1) for number in range(size)
    ]
    balanced = LoadBalancer([CompletionsUpstream(connection) for connection in connections])

    def choose(topic: int) -> Member:
        request = {"messages": [{"role": "user", "content": str(topic)}, {}, {"n": object}]}
        member = balanced.choose(request, ())
        assert member is not None
        return member

    homes = {topic: choose(topic) for topic in topics}
    for topic in topics:
        least = min(member.active for member in balanced.members)
        chosen = choose(topic)
        if homes[topic].active <= least + 4:
            assert chosen is homes[topic]
        else:
            assert chosen.active == least
        chosen.active += 1
