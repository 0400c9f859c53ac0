"""Transports that repair the responses of a server, for httpx and httpx2."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("httpx")
pytest.importorskip("httpx2")

from markup_server import OUTPUT, chat_body, chat_chunks, message_body, message_events, sse
from unspool import Policies, UnknownDialect, UsageError, get_dialect
from unspool.wire import ChatStreamDecoder

URL = "http://server.invalid/v1"
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "Weather?"}]}
ASK = {**QUESTION, "tools": [TOOL]}
ASK_MESSAGES = {**QUESTION, "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}]}
ASKS = {"chat/completions": ASK, "messages": ASK_MESSAGES}
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}


class Library:
    """One of the two HTTP libraries, and our transports for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.http: Any = import_module(name)
        self.ours: Any = import_module(f"unspool.integrations.{name}")

    def answering(self, status: int = 200, dialect: Any = "hermes", options: Any = None, **body: Any) -> Any:
        """Return a client whose server always sends this response."""
        return self.client(lambda _: self.http.Response(status, **body), dialect, **(options or {}))

    def client(self, handler: Callable[[Any], Any], dialect: Any = "hermes", **options: Any) -> Any:
        transport = self.ours.Transport(dialect, self.http.MockTransport(handler), **options)
        return self.http.Client(transport=transport)


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Library:
    return Library(request.param)


HTTPX = Library("httpx")


def calls_in(message: dict[str, Any]) -> list[tuple[str, Any]]:
    functions = [call["function"] for call in message.get("tool_calls", ())]
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


def decoded(data: str) -> Any:
    """Return the message that a strict client reads from a stream."""
    decoder = ChatStreamDecoder()
    payloads = [line.removeprefix("data: ") for line in data.split("\n\n") if line]
    assert payloads.pop() == "[DONE]"
    for payload in payloads:
        decoder.feed(json.loads(payload))
    return decoder.finish()


# -- responses


def test_whole_chat_completion_is_repaired(library: Library) -> None:
    client = library.answering(json=chat_body())
    response = client.post(f"{URL}/chat/completions", json=ASK)
    choice = response.json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["reasoning_content"] == "I should look."
    assert choice["message"]["content"] == "One moment."
    assert calls_in(choice["message"]) == [("get_weather", {"city": "Oslo"})]
    assert response.json()["usage"] == chat_body()["usage"]
    assert int(response.headers["content-length"]) == len(response.content)


def test_streamed_chat_completion_is_repaired(library: Library) -> None:
    data = sse(*chat_chunks())
    headers = {**EVENTS, "content-length": str(len(data)), "x-request-id": "r1"}
    client = library.answering(headers=headers, content=data)
    response = client.post(f"{URL}/chat/completions", json={**ASK, "stream": True})
    assert ("content-length" in response.headers, response.headers["x-request-id"]) == (False, "r1")
    message = decoded(response.text)
    assert (message.reasoning, message.content) == ("I should look.", "One moment.")
    assert [(call.name, call.arguments) for call in message.tool_calls] == [
        ("get_weather", '{"city": "Oslo"}')
    ]


def test_whole_and_streamed_message_are_repaired(library: Library) -> None:
    def answer(request: Any) -> Any:
        if json.loads(request.content).get("stream"):
            events = sse(*message_events(), done=False, named=True)
            return library.http.Response(200, headers=EVENTS, content=events)
        return library.http.Response(200, json=message_body())

    client = library.client(answer)
    body = client.post(f"{URL}/messages", json=ASK_MESSAGES).json()
    assert [block["type"] for block in body["content"]] == ["thinking", "text", "tool_use"]
    assert (body["content"][2]["input"], body["stop_reason"]) == ({"city": "Oslo"}, "tool_use")
    text = client.post(f"{URL}/messages", json={**ASK_MESSAGES, "stream": True}).text
    assert "event: content_block_start\ndata: " in text
    events = [json.loads(part.partition("data: ")[2]) for part in text.split("\n\n") if part]
    starts = [event["content_block"]["type"] for event in events if "content_block" in event]
    assert starts == ["thinking", "text", "tool_use"]
    assert events[-1] == {"type": "message_stop"}


def test_async_transport_gives_what_the_sync_one_gives(library: Library) -> None:
    data = sse(*chat_chunks())

    def answer(request: Any) -> Any:
        if json.loads(request.content).get("stream"):
            return library.http.Response(200, headers=EVENTS, content=data)
        return library.http.Response(200, json=chat_body())

    async def ask() -> tuple[Any, str]:
        transport = library.ours.AsyncTransport("hermes", library.http.MockTransport(answer))
        async with library.http.AsyncClient(transport=transport) as client:
            whole = await client.post(f"{URL}/chat/completions", json=ASK)
            streamed = await client.post(f"{URL}/chat/completions", json={**ASK, "stream": True})
            other = await client.post(f"{URL}/embeddings", json={"stream": True})
            assert other.content == data
            return whole.json(), streamed.text

    whole, streamed = asyncio.run(ask())
    assert calls_in(whole["choices"][0]["message"]) == [("get_weather", {"city": "Oslo"})]
    assert decoded(streamed).content == "One moment."


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_bytes_of_a_stream_may_be_split_anywhere(data: st.DataObject) -> None:
    """Server-sent events have several forms; all give the same bytes for every split."""
    api = data.draw(st.sampled_from(["chat/completions", "messages"]))
    chat = api == "chat/completions"
    source = sse(*chat_chunks(size=9)) if chat else sse(*message_events(size=9), done=False, named=True)
    source = source.replace(b"\n", data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"])))
    source = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf", b": ping\n\n"])) + source
    cuts = data.draw(st.lists(st.integers(0, len(source)), max_size=20))
    ends = sorted({*cuts, len(source)})
    portions = [source[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    class Portions(HTTPX.http.SyncByteStream):  # type: ignore[name-defined, misc]
        def __iter__(self) -> Iterator[bytes]:
            yield from portions

    answers: Iterator[dict[str, Any]] = iter([{"stream": Portions()}, {"content": source}])
    client = HTTPX.answering(headers=EVENTS, **next(answers))
    ask = {**ASKS[api], "stream": True}
    first, second = (without_ids(client.post(f"{URL}/{api}", json=ask).text) for _ in range(2))
    assert first == second
    assert '"name":"get_weather"' in first


def without_ids(text: str) -> str:
    """Return events without the ids of calls, which are random."""
    return re.sub(r'"(?:call|toolu)_\w+"', '"id"', text)


def test_compressed_responses_are_read(library: Library) -> None:
    """The transport asks for no compression, but a proxy may compress anyway."""
    asked: list[str] = []

    def answer(request: Any) -> Any:
        asked.append(request.headers["accept-encoding"])
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        return library.http.Response(
            200, headers=headers, content=gzip.compress(json.dumps(chat_body()).encode())
        )

    response = library.client(answer).post(f"{URL}/chat/completions", json=ASK)
    assert calls_in(response.json()["choices"][0]["message"])
    assert "content-encoding" not in response.headers
    assert asked == ["identity"]


# -- what passes unchanged


def test_other_responses_pass(library: Library) -> None:
    markup = json.dumps(chat_body()).encode()
    json_type = {"content-type": "application/json"}
    for status, headers, data in (
        (500, json_type, markup),
        (429, json_type, b'{"error": {"message": "slow down"}}'),
        (200, {"content-type": "text/html"}, b"<html>"),
        (200, json_type, b"not JSON"),
        (200, json_type, b'{"object": "list", "choices": []}'),
        (
            200,
            json_type,
            b'{"object": "thread.message", "content": [{"type": "text", "text": {"value": "x"}}]}',
        ),
    ):
        client = library.answering(status, headers=headers, content=data)
        for path in ("chat/completions", "messages"):
            response = client.post(f"{URL}/{path}", json=ASKS[path])
            assert (response.status_code, response.content) == (status, data)


def test_other_requests_pass(library: Library) -> None:
    markup = json.dumps(chat_body()).encode()
    client = library.answering(json=chat_body(), headers={"x": "1"})
    for method, path, content in (
        ("GET", "chat/completions", b""),
        ("POST", "completions", json.dumps(ASK).encode()),
        ("POST", "embeddings", json.dumps(ASK).encode()),
        ("POST", "chat/completions", b"not JSON"),
        ("POST", "messages", b'{"thread": "x"}'),
    ):
        response = client.request(method, f"{URL}/{path}", content=content)
        assert json.loads(response.content) == json.loads(markup)


def test_requests_are_sent_unchanged_without_an_engine(library: Library) -> None:
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request)
        return library.http.Response(200, json=chat_body())

    content = json.dumps({**ASK, "unknown": 1.50}, indent=3).encode()
    headers = {"authorization": "Bearer k", "content-type": "application/json"}
    library.client(answer).post(
        f"{URL}/chat/completions?api-version=2", content=iter([content[:9], content[9:]]), headers=headers
    )
    (request,) = seen
    assert request.content == content
    assert str(request.url) == f"{URL}/chat/completions?api-version=2"
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["content-length"] == str(len(content))


def test_extensions_pass_in_both_directions(library: Library) -> None:
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request.extensions["timeout"])
        return library.http.Response(200, json=chat_body(), extensions={"http_version": b"HTTP/2"})

    response = library.client(answer).post(f"{URL}/chat/completions", json=ASK, timeout=7)
    assert response.http_version == "HTTP/2"
    assert seen[0]["read"] == 7


# -- errors and ends


class Interrupted(Exception):
    """Error of the wrapped transport."""


def test_errors_of_the_wrapped_transport_pass(library: Library) -> None:
    def refuse(_: Any) -> Any:
        raise Interrupted

    class Stream(library.http.SyncByteStream):  # type: ignore[name-defined, misc]
        def __iter__(self) -> Iterator[bytes]:
            yield sse(*chat_chunks()[:4], done=False)
            raise Interrupted

    with pytest.raises(Interrupted):
        library.client(refuse).post(f"{URL}/chat/completions", json=ASK)
    for kind in ("text/event-stream", "application/json"):
        client = library.answering(headers={"content-type": kind}, stream=Stream())
        with pytest.raises(Interrupted):
            client.post(f"{URL}/chat/completions", json=ASK)


def test_closing_early_closes_the_stream_of_the_server(library: Library) -> None:
    closed: list[str] = []

    class Stream(library.http.SyncByteStream):  # type: ignore[name-defined, misc]
        def __iter__(self) -> Iterator[bytes]:
            while True:
                yield sse(*chat_chunks()[:9], done=False)

        def close(self) -> None:
            closed.append("sync")

    class AsyncStream(library.http.AsyncByteStream):  # type: ignore[name-defined, misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield sse(*chat_chunks()[:9], done=False)

        async def aclose(self) -> None:
            closed.append("async")

    client = library.answering(headers=EVENTS, stream=Stream())
    with client.stream("POST", f"{URL}/chat/completions", json=ASK) as response:
        portions = response.iter_bytes()
        next(portions)
        assert closed == []
    assert closed == ["sync"]

    async def stop_early() -> None:
        inner = library.http.MockTransport(
            lambda _: library.http.Response(200, headers=EVENTS, stream=AsyncStream())
        )
        transport = library.ours.AsyncTransport("hermes", inner)
        async with (
            library.http.AsyncClient(transport=transport) as client,
            client.stream("POST", f"{URL}/chat/completions", json=ASK) as response,
        ):
            async for _ in response.aiter_bytes():
                break

    asyncio.run(stop_early())
    assert closed == ["sync", "async"]


def test_closing_the_transport_closes_the_wrapped_one(library: Library) -> None:
    closed: list[str] = []

    class Inner(library.http.MockTransport):  # type: ignore[name-defined, misc]
        def close(self) -> None:
            closed.append("sync")

        async def aclose(self) -> None:
            closed.append("async")

    inner = Inner(lambda _: library.http.Response(200))
    library.http.Client(transport=library.ours.Transport("hermes", inner)).close()
    asyncio.run(library.http.AsyncClient(transport=library.ours.AsyncTransport("hermes", inner)).aclose())
    assert closed == ["sync", "async"]


def test_error_in_a_stream_passes() -> None:
    error = {"error": {"message": "out of memory", "code": 500}}
    data = sse(*chat_chunks()[:4], error)
    client = HTTPX.answering(headers=EVENTS, content=data)
    text = client.post(f"{URL}/chat/completions", json=ASK).text
    assert f"data: {json.dumps(error, separators=(',', ':'))}\n\n" in text


def test_events_that_are_not_json_pass() -> None:
    data = b"data: hello\ndata: world\n\n" + sse(*chat_chunks())
    client = HTTPX.answering(headers=EVENTS, content=data)
    text = client.post(f"{URL}/chat/completions", json=ASK).text
    assert text.startswith("data: hello\ndata: world\n\ndata: {")


def test_protocol_violation_ends_the_stream_with_an_error(library: Library) -> None:
    call = {"index": 0, "id": "x", "function": {"arguments": "{}"}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}
    data = sse(chunk, *chat_chunks())
    client = library.answering(headers=EVENTS, content=data)
    text = client.post(f"{URL}/chat/completions", json=ASK).text
    events = [part for part in text.split("\n\n") if part]
    assert json.loads(events[0].removeprefix("data: "))["error"]["code"] == "upstream_protocol"
    assert events[1:] == ["data: [DONE]"]
    body = chat_body()
    body["choices"][0]["message"]["tool_calls"] = [call]
    client = library.answering(json=body)
    response = client.post(f"{URL}/chat/completions", json=ASK)
    assert (response.status_code, "without a name" in response.json()["error"]["message"]) == (502, True)


def test_malformed_call_is_an_error_under_this_policy() -> None:
    broken = OUTPUT.replace('"city":', "city:")
    policies = Policies(malformed_call="error")
    chat, messages = chat_body(broken), message_body(broken)
    for path, body, code in (("chat/completions", chat, "malformed_call"), ("messages", messages, None)):
        client = HTTPX.answering(json=body, options={"policies": policies})
        response = client.post(f"{URL}/{path}", json=ASKS[path])
        assert response.status_code == 502
        assert response.headers["x-should-retry"] == "false"
        assert response.json()["error"].get("code") == code
        assert response.json()["error"]["type"] == "api_error"


def test_lone_halves_of_a_character_in_two_chunks_are_joined() -> None:
    head = b'data: {"choices": [{"index": 0, "delta": {"content": "'
    tail = b'"}, "finish_reason": null}]}\n\n'
    data = head + b"Hi \\ud83d" + tail + head + b"\\ude00!" + tail + b"data: [DONE]\n\n"
    client = HTTPX.answering(headers=EVENTS, content=data)
    assert decoded(client.post(f"{URL}/chat/completions", json=ASK).text).content == "Hi \U0001f600!"


# -- settings


def test_auto_finds_the_dialect_by_the_name_of_the_model(library: Library) -> None:
    client = library.client(lambda _: library.http.Response(200, json=chat_body()), "auto")
    response = client.post(f"{URL}/chat/completions", json={**ASK, "model": "Qwen/Qwen3-8B"})
    assert calls_in(response.json()["choices"][0]["message"])


@pytest.mark.parametrize("path", ["chat/completions", "messages"])
def test_unknown_model_is_rejected_before_it_is_asked(library: Library, path: str) -> None:
    def answer(_: Any) -> Any:
        raise AssertionError

    response = library.client(answer, "auto").post(f"{URL}/{path}", json={**ASK, "model": "my-model"})
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "invalid_request_error")
    assert "'my-model'" in error["message"]


def test_contradictory_request_is_rejected() -> None:
    def answer(_: Any) -> Any:
        raise AssertionError

    response = HTTPX.client(answer).post(f"{URL}/chat/completions", json={**ASK, "functions": [TOOL]})
    assert (response.status_code, "use tools" in response.json()["error"]["message"]) == (400, True)


def test_dialect_may_be_an_object_or_be_detected_from_a_template() -> None:
    pytest.importorskip("jinja2")
    from importlib.resources import files

    template = files("unspool.gateway").joinpath("smollm2.jinja").read_text(encoding="utf-8")
    for options in ({"dialect": get_dialect("hermes")}, {"dialect": "auto", "template": template}):
        client = HTTPX.client(lambda _: HTTPX.http.Response(200, json=chat_body()), **options)
        message = client.post(f"{URL}/chat/completions", json=ASK).json()["choices"][0]["message"]
        assert calls_in(message)


def test_wrong_settings_are_rejected_at_once(library: Library) -> None:
    with pytest.raises(UnknownDialect):
        library.ours.Transport("no-such-dialect")
    with pytest.raises(UsageError, match="vllm, sglang, llamacpp"):
        library.ours.Transport("hermes", engine="tgi")
    with pytest.raises(UsageError, match="a template"):
        library.ours.AsyncTransport("hermes", template="{{ messages }}")


@pytest.mark.parametrize(
    ("engine", "dialect", "fields"),
    [
        ("vllm", "kimi_k2", {"skip_special_tokens": False, "tool_choice": "none"}),
        ("sglang", "kimi_k2", {"skip_special_tokens": False}),
        ("llamacpp", "kimi_k2", {"tool_choice": "auto"}),
    ],
)
def test_engine_sets_the_fields_that_keep_the_markup(
    engine: str, dialect: str, fields: dict[str, Any]
) -> None:
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        assert request.headers["content-length"] == str(len(request.content))
        seen.append(json.loads(request.content))
        return HTTPX.http.Response(200, json=chat_body())

    client = HTTPX.client(answer, dialect, engine=engine)
    ask = {**ASK, "tool_choice": "auto", "temperature": 0}
    client.post(f"{URL}/chat/completions", json=ask)
    client.post(f"{URL}/messages", json=ASK_MESSAGES)
    assert seen[0].items() >= {**ask, **fields}.items()
    assert ("preserved_tokens" in seen[0]) == (engine == "llamacpp")
    assert seen[1] == ASK_MESSAGES


def test_tools_of_a_messages_request_are_known_to_the_parser() -> None:
    """Values without quotes get the types that the tool declares."""
    text = "<tool_call>\n<function=get_weather>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
    client = HTTPX.client(lambda _: HTTPX.http.Response(200, json=message_body(text)), "qwen3_coder")
    for kind, value in (("integer", 3), ("string", "3")):
        schema = {"type": "object", "properties": {"days": {"type": kind}}}
        tools = [{"name": "get_weather", "input_schema": schema}]
        body = client.post(f"{URL}/messages", json={**ASK_MESSAGES, "tools": tools}).json()
        assert body["content"][-1]["input"] == {"days": value}
    choice = {"type": "none"}
    body = client.post(f"{URL}/messages", json={**ASK_MESSAGES, "tools": tools, "tool_choice": choice}).json()
    assert body["content"] == [{"type": "text", "text": text}]
