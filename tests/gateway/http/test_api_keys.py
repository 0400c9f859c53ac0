"""API keys with names, model lists and limits, and the file that contains them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import (
    HOLD,
    MINIMAL_REQUESTS,
    EngineProcess,
    GatewayThread,
    fetch,
    log_of_the_gateway,
    send,
    serving,
    until,
)
from unspool import UsageError
from unspool.gateway import Settings
from unspool.gateway.http.api_keys import ApiKey, digest_of, load_api_keys
from unspool.gateway.http.failure import Failure
from unspool.gateway.http.rate_limits import KeyUsage, Window

CHAT, CHAT_BODY = MINIMAL_REQUESTS["chat"]


def hashed(key: str) -> str:
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def write(folder: Path, text: str) -> str:
    path = folder / "keys.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return str(path)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


# -- the file


def test_keys_have_names_models_and_limits(tmp_path: Path) -> None:
    text = f"""
    [alice]
    key = "a"
    models = ["m"]
    max_concurrency = 1
    requests_per_minute = 2
    tokens_per_minute = 3
    [bob]
    hash = "{hashed("b")}"
    """
    keys = load_api_keys(Settings(api_keys=("c", hashed("d")), api_keys_file=write(tmp_path, text)))
    assert keys == (
        ApiKey("api_keys[0]", digest_of("c")),
        ApiKey("api_keys[1]", digest_of("d")),
        ApiKey("alice", digest_of("a"), frozenset({"m"}), 1, 2, 3),
        ApiKey("bob", digest_of("b")),
    )
    assert [key.is_limited for key in keys] == [False, False, True, False]


MISTAKES = {
    "no keys": ("", "contains no keys"),
    "not TOML": ("[", "is not TOML"),
    "not a table": ('alice = "x"', r"alice: expected a table: \[alice\]"),
    "no key": ("[alice]", "alice: expected either key or hash"),
    "key and hash": ('[alice]\nkey = "secret"\nhash = "secret"', "alice: expected either key or hash"),
    "empty key": ('[alice]\nkey = " "', "alice: key: expected a string"),
    "key of another type": ("[alice]\nkey = 1", "alice: key: expected a string"),
    "hash that is too short": ('[alice]\nhash = "sha256:12"', "alice: hash: expected sha256:"),
    "misspelt field": (
        '[alice]\nkey = "secret"\nmodel = ["m"]',
        "alice: unknown field 'model': did you mean 'm",
    ),
    "models as text": ('[alice]\nkey = "secret"\nmodels = "m"', "alice: models: expected a list"),
    "negative limit": (
        '[alice]\nkey = "secret"\nmax_concurrency = -1',
        "alice: max_concurrency: expected a wh",
    ),
    "limit as text": (
        '[alice]\nkey = "secret"\ntokens_per_minute = "1"',
        "alice: tokens_per_minute: expected",
    ),
    "limit as truth value": (
        '[alice]\nkey = "secret"\nrequests_per_minute = true',
        "requests_per_minute: exp",
    ),
    "name that is not one word": ('["a b"]\nkey = "secret"', "a b: expected a name"),
    "two equal keys": (
        '[alice]\nkey = "secret"\n[bob]\nkey = "secret"',
        "alice and bob are the same API key",
    ),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_in_the_file_is_reported_without_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        load_api_keys(Settings(api_keys_file=write(tmp_path, text)))
    assert "secret" not in str(error.value)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"api_keys_file: cannot read .*missing\.toml: No such file"):
        load_api_keys(Settings(api_keys_file=str(tmp_path / "missing.toml")))


def test_file_that_everybody_can_read_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path, '[alice]\nkey = "a"')
    for mode, warnings in ((0o600, 0), (0o640, 0), (0o644, 1)):
        Path(path).chmod(mode)
        with log_of_the_gateway("WARNING") as lines:
            load_api_keys(Settings(api_keys_file=path))
        assert [event for event, _ in lines] == ["api_keys_file_readable"] * warnings


def test_public_address_may_have_only_a_file_of_keys() -> None:
    assert Settings(host="192.0.2.1", api_keys_file="keys.toml").needs_key


# -- windows of one minute


@given(
    st.lists(st.tuples(st.floats(0, 40), st.integers(1, 5)), max_size=30), st.integers(1, 8), st.floats(0, 90)
)
def test_window_never_admits_more_than_the_limit(
    steps: list[tuple[float, int]], limit: int, last: float
) -> None:
    window, now, admitted = Window(), 1000.0, list[tuple[float, int]]()
    for pause, amount in [*steps, (last, 1)]:
        now += pause
        window.expire(now)
        recent = sum(one for at, one in admitted if now - at < 60)
        assert window.total >= recent
        assert window.total <= sum(one for at, one in admitted if now - at < 62)
        if window.total < limit:
            window.add(now, amount)
            admitted.append((now, amount))
        else:
            wait = window.seconds_until(now, limit)
            assert 0 < wait <= 61
            later = Window()
            later.total, later._steps = window.total, window._steps.copy()
            later.expire(now + wait + 1e-6)
            assert later.total < limit
    window.expire(now + window.seconds_until_empty(now) + 1e-6)
    assert window.total == 0


class Clock:
    def __init__(self) -> None:
        self.now = 100.5

    def __call__(self) -> float:
        return self.now


def headers_of(headers: list[tuple[bytes, bytes]] | tuple[tuple[bytes, bytes], ...]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in headers}


def test_limit_of_requests_per_minute() -> None:
    clock, key = Clock(), ApiKey("alice", b"", requests_per_minute=2)
    usage = KeyUsage(clock)
    assert headers_of(usage.admit(key)) == {
        "x-ratelimit-limit-requests": "2",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "60.500s",
    }
    usage.finish(0)
    clock.now += 10
    assert headers_of(usage.admit(key))["x-ratelimit-remaining-requests"] == "0"
    with pytest.raises(Failure, match="the API key alice is limited to 2 requests per minute") as refused:
        usage.admit(key)
    failure = refused.value
    assert (failure.status, failure.code, failure.retry_after) == (429, "rate_limit_exceeded", "51")
    assert headers_of(failure.headers)["x-ratelimit-remaining-requests"] == "0"
    clock.now += 51
    usage.admit(key)


def test_limit_of_tokens_per_minute_counts_finished_requests() -> None:
    clock, key = Clock(), ApiKey("alice", b"", tokens_per_minute=10)
    usage = KeyUsage(clock)
    assert headers_of(usage.admit(key))["x-ratelimit-remaining-tokens"] == "10"
    usage.admit(key)
    usage.finish(9)
    assert headers_of(usage.admit(key))["x-ratelimit-remaining-tokens"] == "1"
    usage.finish(9)
    with pytest.raises(Failure, match="10 tokens per minute") as refused:
        usage.admit(key)
    assert headers_of(refused.value.headers)["x-ratelimit-remaining-tokens"] == "0"
    clock.now += 61
    usage.admit(key)


def test_limit_of_concurrent_requests() -> None:
    key, usage = ApiKey("alice", b"", max_concurrency=1), KeyUsage(Clock())
    assert usage.admit(key) == []
    with pytest.raises(Failure, match="1 concurrent requests; retry in 1 seconds"):
        usage.admit(key)
    usage.finish(0)
    usage.admit(key)


# -- the gateway


@pytest.fixture
def gateway(engine: EngineProcess, template: str, tmp_path: Path) -> Iterator[GatewayThread]:
    model = {"upstream": "completions", "url": engine.url, "template": template}
    text = f"""
    [alice]
    key = "a"
    models = ["second"]
    [bob]
    hash = "{hashed("b")}"
    [carol]
    key = "c"
    models = ["elsewhere"]
    [dave]
    key = "d"
    requests_per_minute = 2
    tokens_per_minute = 1000
    [erin]
    key = "e"
    tokens_per_minute = 12
    """
    with serving(
        models={"first": model, "second": model},
        api_keys=("plain",),
        api_keys_file=write(tmp_path, text),
    ) as server:
        yield server


@pytest.mark.parametrize(
    ("key", "name"),
    [("plain", "api_keys[0]"), ("a", "alice"), ("b", "bob"), ("wrong", None), (hashed("b"), None)],
)
def test_log_names_the_key(gateway: GatewayThread, key: str, name: str | None) -> None:
    with log_of_the_gateway("INFO") as lines:
        status = send(gateway.url + CHAT, CHAT_BODY, bearer(key))[0]
        until(lambda: any(event == "request" for event, _ in lines))
    assert status == (401 if name is None else 200)
    (line,) = (fields for event, fields in lines if event == "request")
    assert line.get("key") == name


@pytest.mark.parametrize(
    ("key", "names"),
    [("a", ["second"]), ("b", ["first", "second"]), ("c", []), ("plain", ["first", "second"])],
)
def test_key_sees_only_its_models(gateway: GatewayThread, key: str, names: list[str]) -> None:
    def ask(path: str) -> Any:
        request = Request(gateway.url + path, headers=bearer(key))  # noqa: S310 - a loopback address
        with urlopen(request) as response:  # noqa: S310
            return json.load(response)

    assert [one["id"] for one in ask("/v1/models")["data"]] == names
    assert [one["name"].partition(":")[0] for one in ask("/api/tags")["models"]] == names
    assert [one["name"].partition(":")[0] for one in ask("/api/ps")["models"]] == names
    assert [one["name"] for one in ask("/playground/about")["models"]] == names


REQUESTS: dict[str, dict[str, Any]] = {
    **dict(MINIMAL_REQUESTS.values()),
    "/v1/messages/count_tokens": {"messages": CHAT_BODY["messages"]},
    "/v1/completions": {"prompt": "a"},
    "/v1/embeddings": {"input": "a"},
    "/tokenize": {"prompt": "a"},
    "/detokenize": {"tokens": [1]},
    "/api/generate": {"prompt": "a"},
    "/api/embed": {"input": "a"},
    "/api/show": {},
    "/v1/parse": {"text": "a"},
}


@pytest.mark.parametrize("path", REQUESTS)
def test_key_uses_only_its_models(gateway: GatewayThread, path: str) -> None:
    body = REQUESTS[path]
    status, data, _ = send(gateway.url + path, {**body, "model": "first"}, bearer("a"))
    assert (status, b"'first'" in data, b"'second'" in data) == (404, True, True)
    for key, model in (("a", "second"), ("a", ""), ("b", "first")):
        assert send(gateway.url + path, {**body, "model": model}, bearer(key))[0] == 200
    assert send(gateway.url + path, {**body, "model": ""}, bearer("c"))[0] == 404


def test_default_model_is_the_first_that_the_key_may_use(gateway: GatewayThread) -> None:
    for key, model in (("a", "second"), ("b", "first")):
        assert json.loads(send(gateway.url + CHAT, CHAT_BODY, bearer(key))[1])["model"] == model


def test_openai_client_reads_the_limits(gateway: GatewayThread) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="d", max_retries=0)
    for left in (1, 0):
        raw = client.chat.completions.with_raw_response.create(**CHAT_BODY, model="first")
        assert raw.headers["x-ratelimit-limit-requests"] == "2"
        assert raw.headers["x-ratelimit-remaining-requests"] == str(left)
        assert raw.headers["x-ratelimit-limit-tokens"] == "1000"
    with pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(**CHAT_BODY, model="first")
    assert 1 <= int(refused.value.response.headers["retry-after"]) <= 61
    assert refused.value.response.headers["x-ratelimit-remaining-requests"] == "0"
    assert refused.value.code == "rate_limit_exceeded"


@pytest.mark.parametrize("api", MINIMAL_REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
def test_tokens_are_counted_in_every_api(gateway: GatewayThread, api: str, *, stream: bool) -> None:
    path, body = MINIMAL_REQUESTS[api]
    assert send(gateway.url + path, {**body, "stream": stream}, bearer("e"))[0] == 200
    until(lambda: len(gateway.gateway.active) == 0)
    status, data, headers = send(gateway.url + path, {**body, "stream": stream}, bearer("e"))
    assert (status, headers["x-ratelimit-remaining-tokens"]) == (429, "0")
    assert b"rate_limit" in data or api == "ollama"


@pytest.mark.parametrize("stream", [False, True])
def test_tokens_of_forwarded_requests_are_counted(
    engine: EngineProcess, gateway: GatewayThread, *, stream: bool
) -> None:
    path, body = "/v1/completions", {"prompt": "a", "stream": stream}
    if not stream:
        usage = b'{"choices": [], "usage": {"total_tokens": 12}}'
        engine.script(type="application/json", raw=[usage.hex()], whole=True)
    assert send(gateway.url + path, body, bearer("e"))[0] == 200
    until(lambda: len(gateway.gateway.active) == 0)
    assert send(gateway.url + path, body, bearer("e"))[0] == 429


def test_limits_hold_exactly_for_many_clients(engine: EngineProcess, template: str, tmp_path: Path) -> None:
    clients, keys = 100, 5
    text = "".join(f'[k{n}]\nkey = "key{n}"\nrequests_per_minute = {n + 5}\n' for n in range(keys))
    with (
        serving(
            upstream="completions", url=engine.url, template=template, api_keys_file=write(tmp_path, text)
        ) as gateway,
        ThreadPoolExecutor(clients) as pool,
    ):
        statuses = pool.map(
            lambda n: (n % keys, send(gateway.url + CHAT, CHAT_BODY, bearer(f"key{n % keys}"))[0]),
            range(clients),
        )
        counts = Counter(statuses)
    expected = {(n, 200): n + 5 for n in range(keys)} | {(n, 429): 20 - n - 5 for n in range(keys)}
    assert counts == expected


def test_concurrent_requests_of_a_key_are_limited(
    engine: EngineProcess, template: str, tmp_path: Path
) -> None:
    text = '[alice]\nkey = "a"\nmax_concurrency = 2\n[bob]\nkey = "b"\n'
    settings = {"upstream": "completions", "url": engine.url, "template": template}
    with (
        serving(**settings, api_keys_file=write(tmp_path, text)) as gateway,
        ThreadPoolExecutor(2) as pool,
    ):
        seen = len(engine.seen())
        for _ in range(2):
            engine.script(HOLD, "x")
        running = [pool.submit(send, gateway.url + CHAT, CHAT_BODY, bearer("a")) for _ in range(2)]
        until(lambda: len(engine.seen()) == seen + 2)
        refused = send(gateway.url + CHAT, CHAT_BODY, bearer("a"))
        other = send(gateway.url + CHAT, CHAT_BODY, bearer("b"))
        for _ in range(2):
            engine.release()
        assert [answer.result()[0] for answer in running] == [200] * 2
        until(lambda: len(gateway.gateway.active) == 0)
        assert send(gateway.url + CHAT, CHAT_BODY, bearer("a"))[0] == 200
    assert (refused[0], refused[2]["retry-after"], other[0]) == (429, "1", 200)


def test_page_needs_a_key_from_the_file(gateway: GatewayThread) -> None:
    assert json.loads(fetch(f"{gateway.url}/playground/about")[1]) == {"keys": True, "admitted": False}
