"""Settings: secrets stay out of the log, limits hold at their bounds, and a reload keeps what it must."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import HOLD, MINIMAL_REQUESTS, EngineProcess, fetch, log_of_the_gateway, send, serving, until
from unspool import UsageError
from unspool.cli import main
from unspool.gateway import Settings, create_asgi_app, load_settings
from unspool.gateway.server import supervisor
from unspool.gateway.server.supervisor import Supervisor
from unspool.gateway.settings import unknown_variables
from unspool.gateway.telemetry.logs import warn_about_variables

CHAT, CHAT_BODY = MINIMAL_REQUESTS["chat"]
TYPES = get_type_hints(Settings)
SECRETS = [
    name
    for name, kind in TYPES.items()
    if kind in (str, tuple[str, ...])
    and any(word in name for word in ("key", "secret", "token", "password"))
    and not name.endswith("file")
]
"""Settings that hold a secret, by their names and types; a file with secrets may be named."""


def secret(name: str) -> Any:
    return "hidden-value" if TYPES[name] is str else ("hidden-value", "hidden-value-2")


# -- secrets


def test_settings_with_a_secret_are_found() -> None:
    assert set(SECRETS) == {"api_keys", "upstream_key", "seal_key"}


@pytest.mark.parametrize("name", SECRETS)
def test_secret_is_not_shown(name: str) -> None:
    settings = Settings(**{name: secret(name)})
    assert settings.shown() == {name: "set"}


def test_secret_of_one_model_is_not_shown() -> None:
    settings = Settings(models={"a": {"upstream": "chat", "url": "http://a", "upstream_key": "hidden-value"}})
    assert "hidden" not in str(settings.shown())


# -- mistakes

MISTAKES = {
    "misspelt setting": ('urll = "http://a"', "x.toml: unknown setting 'urll': did you mean 'url'?"),
    "misspelt setting of a model": (
        '[models.foo]\nurll = "http://a"',
        "x.toml: models.foo: unknown setting 'urll': did you mean 'url'?",
    ),
    "setting like no other": (
        "xyzzy = 1",
        "x.toml: unknown setting 'xyzzy'; `unspool serve --list-settings` lists all of them",
    ),
    "setting of the gateway in a model": (
        '[models.foo]\nurl = "http://a"\nport = 3',
        "x.toml: models.foo: unknown setting 'port': it applies to the whole gateway, so set it outside",
    ),
    "misspelt dialect": ('dialect = "hermess"', "x.toml: dialect: no dialect 'hermess': did you mean hermes"),
    "misspelt dialect of a model": (
        '[models.foo]\nurl = "http://a"\ndialect = "hermess"',
        "x.toml: models.foo: dialect: no dialect 'hermess': did you mean hermes",
    ),
    "table of models in the singular": (
        '[model.foo]\nurl = "http://a"',
        "x.toml: [model.foo]: did you mean [models.foo]?",
    ),
    "engine as the kind of upstream": (
        'upstream = "vllm"',
        "x.toml: upstream = 'vllm': choose one of embedded, completions, chat, replay; vllm is an engine",
    ),
    "misspelt engine": ('engine = "vlm"', "x.toml: engine = 'vlm': choose one of auto, vllm, sglang"),
    "misspelt policy": (
        '[policies]\nmalformed = "text"',
        "x.toml: policies: there is no policy 'malformed': did you mean 'malformed_call'?",
    ),
    "former value of a policy": (
        '[policies]\nmalformed_call = "keep"',
        "x.toml: policies: malformed_call='keep': choose one of text, repair, call, drop, error",
    ),
    "misspelt preset": ('[policies]\npreset = "vlm"', "x.toml: policies: preset='vlm': choose one of vllm"),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_in_a_file_is_answered_with_its_place_and_advice(
    tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        load_settings(environment={}, config="x.toml")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"UNSPOOL_DIALECT": "hermess"}, "UNSPOOL_DIALECT: no dialect 'hermess': did you mean hermes"),
        ({"UNSPOOL_UPSTREAM": "sglang"}, "UNSPOOL_UPSTREAM='sglang': choose one of .*; sglang is an engine"),
        ({"UNSPOOL_POLICIES": "comit=call"}, "UNSPOOL_POLICIES: there is no policy 'comit': did you mean 'c"),
    ],
)
def test_mistake_in_a_variable_names_the_variable(environment: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        load_settings(environment=environment)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--set", "idle_timout=5"],
            "--set idle_timout=5: unknown setting 'idle_timout': did you mean 'idle_",
        ),
        (["--set", "idle_timeout"], "--set idle_timeout: expected NAME=VALUE"),
        (["--set", "xyzzy=5"], "--set xyzzy=5: unknown setting 'xyzzy'; `unspool serve --list-settings`"),
        (["--set", "dialect=hermess"], "--set dialect: no dialect 'hermess': did you mean hermes"),
        (["--set", "upstream=ollama"], "--set upstream='ollama': choose one of .*; ollama is an engine"),
        (["ok.toml"], "ok.toml is a file with settings, not a model: use `unspool serve --config ok.toml`"),
        (["--dialect", "hermess"], "argument --dialect: no dialect 'hermess': did you mean hermes"),
        (["--upstream", "vllm"], "choose one of .*; vllm is an engine: set engine to vllm"),
    ],
)
def test_mistake_on_the_command_line_is_answered_with_advice(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(["serve", *arguments])
    except SystemExit as error:  # argparse exits by itself
        code = error.code
    assert code == 2
    shown = capsys.readouterr().err
    assert re.search(message, shown), shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("UNSPOOL_PROT", "there is no such setting: did you mean 'UNSPOOL_PORT'"),
        ("UNSPOOL_API_KEY", "there is no such setting: did you mean 'UNSPOOL_API_KEYS'"),
        ("UNSPOOL_XYZZY", "there is no such setting; `unspool serve --list-settings` lists all of them"),
    ],
)
def test_misspelt_variable_is_reported_with_advice(name: str, advice: str) -> None:
    with log_of_the_gateway() as lines:
        warn_about_variables({name: "1", "OTHER_PROT": "1"})
    ((event, fields_),) = lines
    assert (event, fields_["name"]) == ("variable_ignored", name)
    assert fields_["reason"].startswith(advice)


def test_variables_of_settings_are_not_reported() -> None:
    known = {f"UNSPOOL_{name.upper()}": "1" for name in TYPES}
    assert unknown_variables({**known, "UNSPOOL_CONFIG": "x.toml", "UNSPOOL_COMPILE": "1"}) == {}


def test_dialect_of_a_setting_may_be_any_name_of_a_dialect() -> None:
    for name in ("auto", "hermes", "qwen25", "qwen3_thinking", "qwen3_coder+qwen3_thinking", "Qwen/Qwen3-8B"):
        assert load_settings(environment={"UNSPOOL_DIALECT": name}).dialect == name


@pytest.mark.parametrize(
    ("chosen", "served"),
    [
        ({}, True),
        ({"host": "::1"}, True),
        ({"host": "localhost"}, True),
        ({"host": "0.0.0.0"}, False),  # noqa: S104 - nothing listens
        ({"host": "192.0.2.1"}, False),
        ({"host": "0.0.0.0", "page": True}, True),  # noqa: S104
        ({"page": False}, False),
    ],
)
def test_page_is_served_by_default_only_on_loopback(chosen: dict[str, Any], *, served: bool) -> None:
    assert Settings(allow_no_keys=True, **chosen).serves_page is served


@pytest.mark.parametrize(("text", "page"), [("true", True), ("0", False)])
def test_page_can_be_set_in_every_place(tmp_path: Path, text: str, *, page: bool) -> None:
    assert load_settings(environment={"UNSPOOL_PAGE": text}).page is page
    config = tmp_path / "x.toml"
    config.write_text(f"page = {str(page).lower()}")
    assert load_settings(environment={}, config=str(config)).page is page
    config.write_text("page = 3")
    with pytest.raises(UsageError, match="page = 3: expected true or false"):
        load_settings(environment={}, config=str(config))


@pytest.mark.parametrize("page", [None, True])
def test_factory_serves_the_page_only_if_it_is_set(
    monkeypatch: pytest.MonkeyPatch, page: bool | None
) -> None:
    monkeypatch.setattr(create_asgi_app, "set_up", lambda _: None)
    app = create_asgi_app.create_app(Settings(page=page))
    assert app._settings.serves_page is bool(page)  # type: ignore[attr-defined]


# -- reload


def test_reload_takes_everything_but_what_workers_share(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Settings(host="127.0.0.1", port=1, workers=2, store="old.db", seal_key="old", idle_timeout=1.0)
    new = replace(old, host="localhost", port=2, workers=3, store="new.db", seal_key="new", idle_timeout=2.0)
    monkeypatch.setattr(Supervisor, "_start", lambda *_: None)
    monkeypatch.setattr(supervisor, "set_up", lambda _: None)
    shared = replace(new, host=old.host, port=old.port, workers=old.workers, store=old.store)
    for reloaded, expected in ((new, shared), (replace(new, seal_key=""), replace(shared, seal_key="old"))):
        supervising = Supervisor(old, [], lambda *_: 0)
        supervising._start_generation(lambda settings=reloaded: settings)  # type: ignore[misc]
        assert supervising.settings == expected


# -- limits

LIMITS: dict[str, tuple[int, int]] = {
    "port": (8765, 0),
    "metrics_port": (0, 0),
    "workers": (1, 1),
    "threads": (0, 0),
    "context": (4096, 0),
    "slots": (2, 0),
    "last_requests": (50, 0),
    "shutdown_timeout": (30, 0),
    "max_request_bytes": (33_554_432, 1),
    "max_request_values": (200_000, 1),
    "max_pending_bytes": (268_435_456, 1),
    "max_pending_requests": (1024, 1),
    "max_connections": (4096, 1),
    "max_output_bytes": (16_777_216, 1),
    "max_concurrency": (0, 0),
    "max_stored_bytes": (67_108_864, 0),
    "max_tokens": (4096, 0),
    "malformed_retries": (3, 0),
}
"""Default and smallest value of each setting that is a whole number."""
SECONDS = {
    "replay_delay": 0.0,
    "connect_timeout": 10.0,
    "idle_timeout": 300.0,
    "client_timeout": 120.0,
    "header_timeout": 20.0,
    "keep_alive_timeout": 30.0,
    "ping_interval": 15.0,
}
"""Default of each setting in seconds."""
UNCHECKED = {"threads", "context", "slots", "shutdown_timeout", "max_tokens", "replay_delay"}
"""Settings for which any number is accepted."""


def test_every_number_has_its_default() -> None:
    numbers = {one.name: one.default for one in fields(Settings) if TYPES[one.name] in (int, float)}
    assert numbers == {name: default for name, (default, _) in LIMITS.items()} | SECONDS


@pytest.mark.parametrize("name", sorted(LIMITS.keys() - UNCHECKED))
def test_smallest_number_is_accepted_and_one_less_is_not(name: str) -> None:
    least = LIMITS[name][1]
    assert getattr(Settings(**{name: least}), name) == least  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"^{name}={least - 1}: expected at least {least}$"):
        Settings(**{name: least - 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(SECONDS.keys() - UNCHECKED))
def test_timeouts_are_above_zero(name: str) -> None:
    assert getattr(Settings(**{name: 0.001}), name) == 0.001  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"^{name}=0: expected a number of seconds above 0$"):
        Settings(**{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["port", "metrics_port"])
def test_largest_port_is_accepted_and_one_more_is_not(name: str) -> None:
    assert getattr(Settings(**{name: 65535}), name) == 65535  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"^{name}=65536: expected at most 65535$"):
        Settings(**{name: 65536})  # type: ignore[arg-type]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("size", "fits"), [(1000, True), (1001, False)])
def test_output_may_be_as_large_as_the_limit(
    engine: EngineProcess, template: str, size: int, *, fits: bool, stream: bool
) -> None:
    texts = ["x" * 100] * (size // 100 - 1) + ["x" * (100 + size % 100)]
    *first, last = texts
    engine.script(*first, {"text": last, "finish_reason": "stop"}, finish="")
    with serving(upstream="completions", url=engine.url, template=template, max_output_bytes=1000) as gateway:
        status, data, _ = send(gateway.url + CHAT, {**CHAT_BODY, "stream": stream})
    assert (b"output_too_large" not in data) is fits
    assert (status == 200) is (fits or stream)


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 413)])
def test_request_may_be_as_large_as_the_limit(
    engine: EngineProcess, template: str, more: int, status: int
) -> None:
    body = json.dumps(CHAT_BODY).encode()
    limit = len(body) + 10
    with serving(
        upstream="completions", url=engine.url, template=template, max_request_bytes=limit
    ) as gateway:
        assert send(gateway.url + CHAT, body + b" " * (10 + more))[0] == status


@pytest.mark.parametrize("most", [1, 2])
def test_as_many_requests_run_as_the_limit_says(engine: EngineProcess, template: str, most: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with (
        serving(upstream="completions", url=engine.url, template=template, max_concurrency=most) as gateway,
        ThreadPoolExecutor(most) as pool,
    ):
        seen = len(engine.seen())
        for _ in range(most):
            engine.script(HOLD, "x")
        running = [pool.submit(send, gateway.url + CHAT, CHAT_BODY) for _ in range(most)]
        until(lambda: len(engine.seen()) == seen + most)
        refused = send(gateway.url + CHAT, CHAT_BODY)[0]
        for _ in range(most):
            engine.release()
        assert [answer.result()[0] for answer in running] == [200] * most
    assert refused == 503


@pytest.mark.parametrize("most", [0, 1, 3])
def test_as_many_requests_are_kept_as_the_limit_says(engine: EngineProcess, template: str, most: int) -> None:
    with serving(upstream="completions", url=engine.url, template=template, last_requests=most) as gateway:
        for _ in range(4):
            send(gateway.url + CHAT, CHAT_BODY)
        kept = json.loads(fetch(f"{gateway.url}/playground/requests")[1])
    assert len(kept["requests"]) == most
