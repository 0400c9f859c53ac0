"""Lying upstreams: whatever they send ends as a failure in the API's own form."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

import unspool
from gateways import MINIMAL_REQUESTS, GatewayThread, fetch, log_of_the_gateway, send, serving, until
from lying_upstream import STAY, WAIT, LyingServer, Reply, http, lying, response_head
from unspool import UsageError
from unspool.gateway import Settings
from unspool.gateway.http.failure import Failure
from unspool.gateway.telemetry.logs import _JsonFormatter, _TextFormatter
from unspool.gateway.upstreams.base import UpstreamRequest
from unspool.gateway.upstreams.completions import CompletionsUpstream
from unspool.gateway.upstreams.embedded_llamacpp import EmbeddedUpstream
from unspool.gateway.upstreams.http_client import Connection
from unspool.models.sources.running_server import from_server

ASK = [{"role": "user", "content": "Hi"}]
PRIVATE = "/srv/models/secret.gguf"
FAILED = {
    "chat": b'{"error":',
    "responses": b"event: response.failed",
    "messages": b"event: error",
    "ollama": b'{"error":',
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "completions": ("/v1/completions", {"upstream": "completions", "engine": "vllm"}),
    "chat": ("/v1/chat/completions", {"upstream": "chat", "engine": "openai", "dialect": "hermes"}),
    "ollama": ("/api/generate", {"upstream": "completions", "engine": "ollama"}),
}


@pytest.fixture(scope="module")
def liar() -> Iterator[LyingServer]:
    with lying({}) as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def gateway(request: pytest.FixtureRequest, liar: LyingServer, template: str) -> Iterator[GatewayThread]:
    path, settings = KINDS[request.param]
    liar.path = path  # type: ignore[attr-defined]
    with serving(
        **settings,
        url=liar.url,
        template=template,
        upstream_model="m",
        upstream_key="s3cret",
        idle_timeout=0.3,
        max_output_bytes=100_000,
    ) as server:
        yield server


def text_chunk(path: str, text: str, *, finished: bool = False) -> bytes:
    """Return a chunk with a text."""
    if path == "/api/generate":
        return json.dumps({"response": text, "done": finished}).encode() + b"\n"
    choice: dict[str, Any] = {"index": 0, "text": text, "delta": {"content": text}}
    if finished:
        choice["finish_reason"] = "stop"
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def kind_of(path: str) -> str:
    return "application/x-ndjson" if path == "/api/generate" else "text/event-stream"


def valid_reply(path: str, text: str) -> bytes:
    """Return a valid response with its length."""
    return http(text_chunk(path, text) + text_chunk(path, "", finished=True), kind=kind_of(path))


CRLF = "\r\n"
WIRES: dict[str, Reply] = {
    "nothing": [b""],
    "no HTTP": [b"\x00\xff hello\r\n\r\n"],
    "half a head": [b"HTTP/1.1 200 OK\r\ncontent-ty"],
    "a head without end": [b"HTTP/1.1 200 OK\r\n", *[b"x-header: 1\r\n" * 1000] * 50],
    "a header without end": [b"HTTP/1.1 200 OK\r\nx-header: ", *[b"x" * 65536] * 20],
    "no end of a head": [b"HTTP/1.1 200 OK\r\n", STAY],
    "another version": [b"HTTP/9.9 200 OK\r\n\r\n"],
    "no status": [b"HTTP/1.1 999999 OK\r\n\r\n"],
    "a negative length": [b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nx"],
    "two lengths": [b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx"],
    "less than promised": [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99\r\n\r\nx"
    ],
    "more than promised": [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1\r\n\r\nxxx"
    ],
    "no chunk": [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n"],
    "a huge chunk": [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nx"],
    "endless provisional responses": [b"HTTP/1.1 100 Continue\r\n\r\n"] * 200,
    "another protocol": [
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello"
    ],
    "no content": [b"HTTP/1.1 204 No Content\r\n\r\n"],
    "a part": [http(b"data: x\n\n", status="206 Partial Content")],
    "packed": [http(gzip.compress(b"x" * 10**6), headers=f"content-encoding: gzip{CRLF}")],
    "packed otherwise": [http(b"x", headers=f"content-encoding: br{CRLF}")],
    "a refusal, packed": [
        http(gzip.compress(b"x"), status="400 No", headers=f"content-encoding: gzip{CRLF}")
    ],
    "a web page": [http(b"<html>" + PRIVATE.encode(), kind="text/html")],
    "a kind of rubbish": [http(b"x", kind="\xff\xfe; ;;=")],
    "UTF-16": [http("data: {}\n\n".encode("utf-16"), kind="text/event-stream")],
    "zeros": [response_head() + b"data: \0\n\n" + b"\0" * 1000],
    "an event over the size limit": [response_head() + b"data: ", *[b"x" * 60_000] * 3],
    "empty lines without end": [response_head(), *[b"data:\n" * 30_000] * 4],
    "silence": [response_head(), STAY],
    "comments, then silence": [response_head() + b": hello\n\n", STAY],
    "half an event": [response_head() + b'data: {"choices"'],
    "a number": [http(b"5")],
    "a list": [http(b"[1]")],
    "a deep value": [http(b"[" * 90_000)],
    "a large value": [response_head("application/json"), *[b" " * 60_000] * 3],
    "an error": [http(json.dumps({"error": f"no {PRIVATE} at http://127.0.0.1:1/"}).encode())],
    "it fails": [http(f"no {PRIVATE} s3cret".encode(), status="500 Oops")],
    "it fails at length": [http(b"x" * 10**6, status="500 Oops")],
    "endless failures": [b"HTTP/1.1 500 Oops\r\n\r\n", *[b"x" * 60_000] * 20],
    "it fails and stays": [b"HTTP/1.1 500 Oops\r\n\r\nx", STAY],
    "it does not admit us": [http(b'{"error": "bad key s3cret"}', status="401 No")],
    "it is busy": [http(b"{}", status="429 No", headers=f"retry-after: \xff\xfe{CRLF}")],
    "a deep refusal": [http(b"[" * 60_000, status="400 No")],
    "elsewhere": [http(b"", status="307 There", headers=f"location: http://127.0.0.1:1{PRIVATE}{CRLF}")],
    "nowhere": [http(b"", status="302 There")],
}


@pytest.mark.parametrize("case", WIRES)
def test_arbitrary_bytes_end_in_a_valid_error(gateway: GatewayThread, liar: LyingServer, case: str) -> None:
    liar.replies[liar.path] = WIRES[case]  # type: ignore[attr-defined]
    for number, (api, (path, body)) in enumerate(MINIMAL_REQUESTS.items()):
        for stream in (True, False):
            if number and (STAY in WIRES[case] or liar.path != "/v1/completions"):  # type: ignore[attr-defined]
                continue  # one API is enough for these cases
            if STAY in WIRES[case] and not stream:
                continue  # this case waits for a timeout
            status, data, _ = send(gateway.url + path, {**body, "stream": stream})
            assert status in ((200,) if stream else ()) + (400, 429, 502, 504), data
            if status == 200:
                assert data.count(FAILED[api]) == 1
            else:
                assert "error" in json.loads(data)
            for secret in (PRIVATE, "s3cret", "127.0.0.1", "internal"):
                assert secret.encode() not in data
    # The gateway still works afterwards, though a busy machine may not keep its short timeout at once.
    liar.replies[liar.path] = [valid_reply(liar.path, "Hello")]  # type: ignore[attr-defined]
    path, body = MINIMAL_REQUESTS["chat"]
    until(lambda: b'"Hello"' in send(gateway.url + path, body)[1])


# -- the upstream's key

QUOTED = "the key s3cret is wrong"
ERROR = json.dumps({"error": {"message": QUOTED}}).encode()
QUOTES: dict[str, Reply] = {
    **{
        str(status): [http(ERROR, status=f"{status} {QUOTED}")]
        for status in (400, 401, 403, 404, 429, 500, 503)
    },
    "plain": [http(QUOTED.encode(), status="400 No")],
    "retry": [http(b"{}", status="429 No", headers=f"retry-after: s3cret{CRLF}")],
    "location": [http(b"", status="302 There", headers=f"location: http://127.0.0.1:1/s3cret{CRLF}")],
    "type": [http(b"x", kind="text/s3cret")],
    "head": [f"HTTP/1.1 s3cret {QUOTED}{CRLF}{CRLF}".encode()],
    "header": [f"HTTP/1.1 200 OK{CRLF}{QUOTED}{CRLF}{CRLF}".encode()],
    "chunk": [f"HTTP/1.1 200 OK{CRLF}transfer-encoding: chunked{CRLF}{CRLF}{QUOTED}{CRLF}".encode()],
    "whole": [http(ERROR)],
    "event": [http(b"data: " + ERROR + b"\n\n", kind="text/event-stream")],
    "line": [http(ERROR + b"\n", kind="application/x-ndjson")],
    "reason": [
        http(b'data: {"choices": [{"index": 0, "finish_reason": "s3cret"}]}\n\n', kind="text/event-stream")
    ],
}


@pytest.mark.parametrize("case", QUOTES)
def test_key_quoted_by_an_upstream_is_removed_everywhere(
    gateway: GatewayThread, liar: LyingServer, case: str
) -> None:
    handler = logging.StreamHandler(log := io.StringIO())
    handler.setFormatter(_JsonFormatter())
    logger = logging.getLogger("unspool.gateway")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel("DEBUG")
    requests = {**MINIMAL_REQUESTS, "completions": ("/v1/completions", {"prompt": "x"})}
    requests["embeddings"] = ("/v1/embeddings", {"input": "x"})
    if case == "reason":  # this upstream response succeeds, so it is forwarded unchanged
        requests = MINIMAL_REQUESTS
    try:
        for path in (liar.path, "/v1/completions", "/v1/embeddings"):  # type: ignore[attr-defined]
            liar.replies[path] = QUOTES[case]
        for path, body in requests.values():
            for stream in (True, False):
                _, data, headers = send(gateway.url + path, {**body, "stream": stream})
                assert b"s3cret" not in data
                assert "s3cret" not in str(headers)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        for path in ("/v1/completions", "/v1/embeddings"):
            liar.replies.pop(path, None)
    assert "request" in log.getvalue()
    for seen in (
        log.getvalue(),
        *(fetch(f"{gateway.url}/{path}")[1] for path in ("metrics", "playground/requests")),
    ):
        assert "s3cret" not in str(seen)


@pytest.mark.parametrize(
    "answer",
    [
        http(b"", status="302 There", headers=f"location: http://127.0.0.1:1/s3cret{CRLF}"),
        f"HTTP/1.1 s3cret {QUOTED}{CRLF}{CRLF}".encode(),
    ],
)
def test_key_quoted_by_a_server_is_removed_from_errors(answer: bytes) -> None:
    with (
        lying({path: [answer] for path in ("/props", "/api/version", "/model_info", "/v1/models")}) as server,
        pytest.raises(UsageError) as refused,
    ):
        from_server(server.url, key="s3cret")
    assert "s3cret" not in str(refused.value)
    assert "..." in str(refused.value)


def test_log_for_people_has_no_control_characters_and_no_forged_lines() -> None:
    record = logging.LogRecord("unspool.gateway", logging.WARNING, "", 0, "request", None, None)
    record.__dict__["fields"] = {"detail": "gone\x1b[2J\u202e\n12:00:00 info    all is well"}
    line = _TextFormatter().format(record)
    assert line.endswith(r" detail=gone\u001b[2J\u202e\u000a12:00:00 info    all is well")
    assert json.loads(_JsonFormatter().format(record))["detail"] == record.__dict__["fields"]["detail"]
    assert "\u202e" not in _JsonFormatter().format(record)


# -- A11: redirects are not followed


def test_redirect_is_not_followed(template: str) -> None:
    paths = (
        "/v1/completions",
        "/v1/embeddings",
        "/tokenize",
        "/v1/models",
        "/health",
        "/api/version",
        "/props",
    )
    with lying({}) as elsewhere, lying({}) as liar, log_of_the_gateway() as logged:
        settings: dict[str, Any] = {"upstream": "completions", "engine": "vllm", "url": liar.url}
        with serving(**settings, template=template) as gateway:
            for status in (301, 302, 303, 307, 308):
                there = http(b"{}", status=f"{status} There", headers=f"location: {elsewhere.url}/x{CRLF}")
                liar.replies = {path: [there] for path in paths}
                for path, body, expected in (
                    (*MINIMAL_REQUESTS["chat"], 502),
                    ("/v1/completions", {"prompt": "x"}, 502),
                    ("/v1/embeddings", {"input": "x"}, 502),
                    ("/tokenize", {"prompt": "x"}, 404),
                ):
                    received, data, _ = send(gateway.url + path, body)
                    assert received == expected
                    assert elsewhere.url.encode() not in data
                with pytest.raises(UsageError, match="redirects to"):
                    from_server(liar.url)
            assert fetch(f"{gateway.url}/ready")[0] == 503
        assert {path for path, _, _ in liar.seen} >= set(paths)
        assert elsewhere.seen == []
    assert any(elsewhere.url in str(fields) for _, fields in logged)


def test_cookies_are_not_kept_and_proxies_are_not_used(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cookies of an upstream, proxies of the environment, and compression are not used."""
    cookie = http(
        text_chunk("/v1/completions", "", finished=True),
        kind="text/event-stream",
        headers=f"set-cookie: a=1{CRLF}",
    )
    with lying({}) as proxy, lying({"/v1/completions": [cookie]}) as liar:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        upstream: dict[str, Any] = {"upstream": "completions", "engine": "vllm", "url": liar.url}
        with serving(**upstream, template=template) as gateway:
            monkeypatch.setenv("no_proxy", "*")  # for the client in this test
            path, body = MINIMAL_REQUESTS["chat"]
            assert [send(gateway.url + path, body)[0] for _ in range(2)] == [200, 200]
        monkeypatch.delenv("no_proxy")
        with pytest.raises(UsageError):
            from_server(liar.url)
        assert proxy.seen == []
        heads = [head.lower() for path, head, _ in liar.seen if path == "/v1/completions"]
    assert len(heads) == 2
    for head in heads:
        assert b"cookie" not in head
        assert b"accept-encoding: identity" in head


def test_unsolicited_upstream_response_is_discarded(template: str) -> None:
    """A second response on a connection that waits for another client's request."""
    path = "/v1/completions"
    late: Reply = [valid_reply(path, "one"), WAIT, valid_reply(path, "somebody else's")]
    with lying({f"{path} 1": late, path: [valid_reply(path, "two")]}) as liar:
        upstream: dict[str, Any] = {"upstream": "completions", "engine": "vllm", "url": liar.url}
        with serving(**upstream, template=template) as gateway:
            url, body = MINIMAL_REQUESTS["chat"]
            assert b'"one"' in send(gateway.url + url, body)[1]
            liar.resume()
            assert b'"two"' in send(gateway.url + url, body)[1]


# -- forwarded responses


PASSED: dict[str, Reply] = {
    "a web page": [http(b"<html>", kind="text/html")],
    "packed": [http(b"x", headers=f"content-encoding: gzip{CRLF}")],
    "too much": [http(b" " * 200_000)],
    "less than promised": [
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\nx"
    ],
    "it fails": [http(PRIVATE.encode(), status="500 No")],
}


@pytest.fixture(scope="module")
def passing(liar: LyingServer, template: str) -> Iterator[GatewayThread]:
    settings: dict[str, Any] = {"upstream": "completions", "engine": "vllm", "url": liar.url}
    with serving(**settings, template=template, max_output_bytes=100_000) as server:
        yield server


@pytest.mark.parametrize("case", PASSED)
def test_passed_on_response_is_complete_and_not_html(
    passing: GatewayThread, liar: LyingServer, case: str
) -> None:
    liar.replies["/v1/embeddings"] = PASSED[case]
    status, data, _ = send(f"{passing.url}/v1/embeddings", {"input": "x"})
    assert (status, "error" in json.loads(data)) == (502, True)
    assert PRIVATE.encode() not in data


def test_broken_stream_is_passed_on_up_to_its_last_event(passing: GatewayThread, liar: LyingServer) -> None:
    one = b'data: {"choices": [{"text": "a"}]}\n\n'
    liar.replies["/v1/completions"] = [response_head() + one + b'data: {"choi']
    status, data, _ = send(f"{passing.url}/v1/completions", {"prompt": "x", "stream": True})
    assert status == 200
    first, second, last = data.decode().rstrip("\n").split("\n\n")
    assert first == one.decode().rstrip("\n")
    assert json.loads(second.removeprefix("data: "))["error"]["code"] == "upstream_protocol"
    assert last == "data: [DONE]"


VECTORS = (
    '{"data": []}',
    '{"data": [{"embedding": []}, {"embedding": []}]}',
    '{"data": [{"embedding": "AAAA"}]}',
    '{"data": [{"embedding": [1], "index": "0"}]}',
    '{"data": [{"embedding": [1]}], "usage": {"prompt_tokens": -1}}',
    '{"data": {"embedding": [1]}}',
    "[" * 50_000,
    "",
)


@pytest.mark.parametrize("body_text", VECTORS)
def test_invalid_embeddings_are_an_error(passing: GatewayThread, liar: LyingServer, body_text: str) -> None:
    liar.replies["/v1/embeddings"] = [http(body_text.encode())]
    for path, body in (("/api/embed", {"input": "x"}), ("/api/embeddings", {"prompt": "x"})):
        status, data, _ = send(passing.url + path, body)
        assert (status, "embeddings" in json.loads(data)["error"]) == (502, True)


ANSWERS = ("", "5", "[]", '{"tokens": 5}', '{"tokens": {}}', "[" * 50_000, '{"tokens"', " " * 200_000)


@pytest.mark.parametrize("body_text", ANSWERS)
def test_invalid_token_lists_are_an_error(passing: GatewayThread, liar: LyingServer, body_text: str) -> None:
    liar.replies["/tokenize"] = liar.replies["/detokenize"] = [http(body_text.encode())]
    assert send(f"{passing.url}/tokenize", {"prompt": "x"})[0] == 404
    assert send(f"{passing.url}/detokenize", {"tokens": [1]})[0] == 404


MODELS = (
    "5",
    "[]",
    '{"data": 5}',
    '{"data": [5]}',
    '{"data": [{"id": 5, "owned_by": []}]}',
    '{"data": [{"id": {}, "owned_by": "llamacpp"}]}',
    '{"data": {"id": "x"}}',
    "[" * 50_000,
    "{",
)


def test_invalid_model_lists_are_ignored() -> None:
    async def request(url: str) -> str:
        upstream = CompletionsUpstream(Connection(url, key="", connect=5, idle=5, limit=100_000))
        await upstream.start()
        assert await upstream.tokenizer_config() is None or upstream.engine.name == "llamacpp"
        await upstream.stop()
        return upstream.model

    with lying({}) as liar:
        for body_text in MODELS:
            paths = ("/v1/models", "/info", "/props", "/api/show", "/api/version", "/api/tags")
            liar.replies = {path: [http(body_text.encode())] for path in paths}
            assert asyncio.run(request(liar.url)) == ""
            with suppress(UsageError):
                assert from_server(liar.url).name == ""


SERVERS: dict[str, Reply] = {
    "no HTTP": [b"\0\xff\r\n\r\n"],
    "a head without end": [b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000],
    "an invalid chunk": [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"],
    "less than promised": [b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"],
    "packed": [http(gzip.compress(b"{}"), headers=f"content-encoding: gzip{CRLF}")],
    "deep": [http(b"[" * 10**6)],
}


@pytest.mark.parametrize("case", SERVERS)
def test_server_probe_survives_invalid_replies(case: str) -> None:
    paths = ("/props", "/api/version", "/model_info", "/get_model_info", "/v1/models")
    with lying(dict.fromkeys(paths, SERVERS[case])) as liar, pytest.raises(UsageError):
        from_server(liar.url)


def test_credentials_in_a_url_go_only_to_that_server() -> None:
    with lying({}) as liar:
        with pytest.raises(UsageError) as caught:
            from_server(liar.url.replace("//", "//me:s%40cret@"))
        assert b"authorization: basic bwu6c0bjcmv0" in liar.seen[0][1].lower()
    assert "cret" not in str(caught.value)
    with pytest.raises(UsageError):
        from_server("http://127.0.0.1:port")


# -- the embedded engine


@pytest.mark.parametrize("name", ["grammar", "grammar_lazy", "grammar_triggers", "json_schema", "n_probs"])
def test_requests_that_could_crash_the_process_are_refused(tmp_path: Path, name: str) -> None:
    """A grammar of 100,000 parentheses overflows the stack of llama.cpp, which runs in our process."""
    file = tmp_path / "model.gguf"
    file.touch()
    upstream = EmbeddedUpstream(Settings(file=str(file)))
    fields = {name: "root ::= " + "(" * 100_000}
    plan = unspool.plan("hermes", {"messages": ASK})
    for request in (
        upstream.open(UpstreamRequest("x", {"messages": ASK}, plan, "", sampling=fields)),
        upstream.forward("/v1/completions", {"prompt": "x", **fields}, {}),
    ):
        with pytest.raises(Failure, match=name) as caught:
            asyncio.run(request)
        assert (caught.value.param, caught.value.status) == (name, 400)
