"""Test engine and gateways, shared by the tests of the gateway.

The engine is a separate process on a loopback port.  A test posts a script to ``/script``, and the next
generation follows it, whatever it does.  ``/seen`` returns the requests so far, how much the engine has sent,
and whether its client has disconnected.  Tests do not sleep: at ``HOLD`` in a script, the engine waits for
``/release``.

Run as a program, this file is the engine.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOLD = None
"""Chunk of a script at which the engine waits for ``EngineProcess.release``."""

# -- the engine


class Engine:
    """Small HTTP server that follows scripts."""

    def __init__(self) -> None:
        self.scripts: deque[dict[str, Any]] = deque()
        self.seen: list[dict[str, Any]] = []
        self.released = asyncio.Semaphore(0)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self.request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        line = await reader.readline()
        if not line:
            return False
        method, path, _ = line.decode().split(" ")
        length = 0
        headers: dict[str, str] = {}
        while (header := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
            if name.lower() == "content-length":
                length = int(value)
        body = await reader.readexactly(length) if length else b""
        if method == "POST" and path == "/script":
            self.scripts.append(json.loads(body))
            return await self.answer(writer, {})
        if path == "/clear":
            self.scripts.clear()
            return await self.answer(writer, {})
        if path == "/release":
            self.released.release()
            return await self.answer(writer, {})
        if path == "/seen":
            answer = {"seen": self.seen}
            if method == "POST":
                self.seen = []
            return await self.answer(writer, answer)
        if path == "/v1/models":
            return await self.answer(writer, {"data": [{"id": "engine-model", "owned_by": OWNER}]})
        if path == "/tokenize":
            self.seen.append({"path": path, "body": json.loads(body), "gone": False})
            body_ = self.seen[-1]["body"]
            return await self.answer(writer, {"tokens": body_.get("prompt", body_.get("content")).split()})
        if path == "/detokenize":
            body_ = json.loads(body)
            return await self.answer(writer, {"prompt": " ".join(map(str, body_["tokens"]))})
        if path == "/v1/embeddings":
            self.seen.append({"path": path, "body": json.loads(body), "gone": False, "headers": headers})
            texts = self.seen[-1]["body"]["input"]
            listed = [
                {"object": "embedding", "index": number, "embedding": [float(len(text)), 0.5]}
                for number, text in enumerate([texts] if isinstance(texts, str) else texts)
            ]
            usage = {"prompt_tokens": 3, "total_tokens": 3}
            made = {"object": "list", "data": listed[::-1], "model": "engine-model", "usage": usage}
            return await self.answer(writer, made)
        if path == "/health":
            return await self.answer(writer, {})
        if method == "POST" and path in ("/v1/completions", "/v1/chat/completions"):
            script = self.scripts.popleft() if self.scripts else {"chunks": ["Hello", "!"]}
            note: dict[str, Any] = {"path": path, "body": json.loads(body), "gone": False, "sent": 0}
            note["headers"] = headers
            self.seen.append(note)
            watch = asyncio.create_task(self.watch(reader, note))
            try:
                await self.generate(writer, script, chat="chat" in path, note=note)
            finally:
                watch.cancel()
            return False
        return await self.answer(writer, {"error": "not here"}, 404)

    async def watch(self, reader: asyncio.StreamReader, note: dict[str, Any]) -> None:
        try:
            while await reader.read(1):
                pass
        except ConnectionError:
            pass
        note["gone"] = True

    async def answer(
        self, writer: asyncio.StreamWriter, value: object, status: int = 200, headers: str = ""
    ) -> bool:
        data = json.dumps(value).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n"
        writer.write(f"{head}{headers}\r\n".encode() + data)
        await writer.drain()
        return True

    async def generate(
        self, writer: asyncio.StreamWriter, script: dict[str, Any], *, chat: bool, note: dict[str, Any]
    ) -> None:
        await asyncio.sleep(script.get("wait", 0))
        if "status" in script:
            error = script.get("error", {"error": {"message": "no"}})
            await self.answer(writer, error, script["status"], script.get("headers", ""))
            return
        kind = script.get("type", "text/event-stream")
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        await writer.drain()
        for raw in script.get("raw", ()):
            await self.portion(writer, bytes.fromhex(raw), script)
        if script.get("whole"):
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return
        many = range(note["body"].get("n") or 1)
        for piece in script.get("chunks", ()):
            if piece is HOLD:
                await self.released.acquire()
                continue
            for choice in many:
                await self.event(writer, self.chunk(piece, choice, chat), script)
        for raw in script.get("raw_after", ()):
            await self.portion(writer, bytes.fromhex(raw), script)
        if script.get("silent"):
            await asyncio.sleep(3600)
        if script.get("die"):
            writer.transport.abort()
            return
        if script.get("forever"):
            while True:
                await self.event(writer, self.chunk(script["forever"], 0, chat), script)
                note["sent"] += 1
        if script.get("finish", "stop"):
            for choice in many:
                last = self.chunk("", choice, chat) | {"finish_reason": script.get("finish", "stop")}
                last |= script.get("last", {})
                await self.event(writer, last, script)
        usage = script.get("usage", {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12})
        await self.portion(
            writer, b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n", script
        )
        if not script.get("no_done"):
            await self.portion(writer, b"data: [DONE]\n\n", script)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def chunk(self, piece: Any, choice: int, chat: bool) -> dict[str, Any]:
        """Return a choice of a chunk; a dict replaces its fields."""
        if isinstance(piece, dict):
            return {"index": choice, **piece}
        return {"index": choice, **({"delta": {"content": piece}} if chat else {"text": piece})}

    async def event(
        self, writer: asyncio.StreamWriter, choice: dict[str, Any], script: dict[str, Any]
    ) -> None:
        payload = json.dumps({"id": "x", "choices": [choice]}, ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )
        await self.portion(writer, b"data: " + payload + b"\n\n", script)

    async def portion(self, writer: asyncio.StreamWriter, data: bytes, script: dict[str, Any]) -> None:
        size = script.get("portion", len(data))
        for at in range(0, len(data), size):
            part = data[at : at + size]
            writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            await writer.drain()
        await asyncio.sleep(script.get("delay", 0))


OWNER = os.environ.get("ENGINE_OWNER", "vllm")


async def engine_main() -> None:
    port = int(os.environ.get("ENGINE_PORT", "0"))
    server = await asyncio.start_server(Engine().connected, "127.0.0.1", port, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


class EngineProcess:
    """Client for the engine process."""

    def __init__(self, owner: str, port: int = 0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdout=subprocess.PIPE,
            env=os.environ | {"ENGINE_OWNER": owner, "ENGINE_PORT": str(port)},
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def script(self, *chunks: Any, **script: Any) -> None:
        """Set the next generation."""
        post(f"{self.url}/script", {"chunks": list(chunks), **script})

    def clear(self) -> None:
        """Remove unused scripts."""
        post(f"{self.url}/clear", {})

    def release(self) -> None:
        """Let the engine continue after the next ``HOLD``."""
        post(f"{self.url}/release", {})

    def seen(self) -> list[dict[str, Any]]:
        """Return the requests so far."""
        requests: list[dict[str, Any]] = get(f"{self.url}/seen")["seen"]
        return requests

    def last(self) -> dict[str, Any]:
        """Return the body of the last request."""
        body: dict[str, Any] = self.seen()[-1]["body"]
        return body

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


# -- gateways


CHATML = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if loop.first and tools %}{{ tools | tojson }}
{% endif -%}
{%- if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif -%}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{% endif -%}
"""
"""Template like Qwen3's."""


class GatewayThread:
    """Gateway on a loopback port, in a thread of this process."""

    def __init__(self, **settings: Any) -> None:
        from unspool.gateway import Settings

        self._settings = Settings(**{"port": 0, "log_level": "error", **settings})
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(60)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        from unspool.gateway.server.run import loop_factory

        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._main())
        except BaseException as error:
            if self._ready.is_set():
                raise
            self._error = error  # __init__ raises it
            self._ready.set()

    async def _main(self) -> None:
        from unspool.gateway import build
        from unspool.gateway.server.run import make_server
        from unspool.gateway.server.sockets import bind, duplicate, url_of

        with bind(self._settings) as listener:
            try:
                self.gateway = await build(self._settings)
            except BaseException as error:  # noqa: BLE001 - __init__ raises it
                self._error = error
                self._ready.set()
                return
            listener.listen()
            self.url = url_of(listener)
            self.loop = asyncio.get_running_loop()
            self._server = make_server(self.gateway)
            self._ready.set()
            # serve() would install signal handlers, which only the main thread may do.
            await self._server._serve(duplicate(listener))

    def stop(self) -> None:
        """Stop the gateway and wait for its thread."""
        self._server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive()


_HELLO = [{"role": "user", "content": "Hi"}]
MINIMAL_REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": _HELLO}),
    "responses": ("/v1/responses", {"input": "Hi"}),
    "messages": ("/v1/messages", {"messages": _HELLO, "max_tokens": 50}),
    "ollama": ("/api/chat", {"messages": _HELLO}),
}
"""Minimal request for each API: path and body."""


class _LogCollector(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.getMessage(), getattr(record, "fields", {})))


@contextmanager
def log_of_the_gateway(least: str = "WARNING") -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Collect the log lines of all gateways in this process."""
    logger = logging.getLogger("unspool.gateway")
    collector, level = _LogCollector(), logger.level
    logger.addHandler(collector)
    logger.setLevel(least)
    try:
        yield collector.lines
    finally:
        logger.removeHandler(collector)
        logger.setLevel(level)


@contextmanager
def serving(**settings: Any) -> Iterator[GatewayThread]:
    """Run a gateway for the duration of the block."""
    gateway = GatewayThread(**settings)
    try:
        yield gateway
    finally:
        gateway.stop()


def template_file(directory: Path) -> str:
    path = directory / "chatml.jinja"
    path.write_text(CHATML, encoding="utf-8")
    return str(path)


# -- scenarios for every client library


@dataclass(frozen=True)
class Seen:
    """Content of a response as a client library reports it, in common terms."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    ended: str = "stop"
    """stop, calls, length or error."""


@dataclass(frozen=True)
class Scenario:
    """Output of the engine and the result that a client must see."""

    chunks: tuple[str, ...]
    seen: Seen
    forced: bool = False
    """The request demands a call."""
    script: Mapping[str, Any] = field(default_factory=dict)
    """Script options of the engine, for misbehaviour."""


def call_text(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>\n'


def _cut(text: str, size: int = 7) -> tuple[str, ...]:
    return tuple(text[at : at + size] for at in range(0, len(text), size))


_PARIS = ("get_weather", {"city": "Paris"})
SCENARIOS: dict[str, Scenario] = {
    "text": Scenario(_cut("Hello, Zürich!"), Seen("Hello, Zürich!")),
    "reasoning": Scenario(_cut("<think>\nHmm.\n</think>\n\nHello!"), Seen("Hello!", "Hmm.")),
    "one call": Scenario(
        _cut("One moment.\n" + call_text("get_weather", '{"city": "Paris"}')),
        Seen("One moment.", "", (_PARIS,), "calls"),
    ),
    "three calls": Scenario(
        _cut(
            "<think>\nThree.\n</think>\n\n"
            + "".join(
                call_text("get_weather", f'{{"city": "{city}"}}') for city in ("Paris", "Zürich", "Rome")
            )
        ),
        Seen(
            "",
            "Three.",
            (_PARIS, ("get_weather", {"city": "Zürich"}), ("get_weather", {"city": "Rome"})),
            "calls",
        ),
    ),
    "no arguments": Scenario(_cut(call_text("now", "{}")), Seen("", "", (("now", {}),), "calls")),
    "forced call": Scenario(
        _cut(call_text("get_weather", '{"city": "Paris"}')), Seen("", "", (_PARIS,), "calls"), forced=True
    ),
    "truncated call": Scenario(
        _cut(call_text("get_weather", '{"city": "Pa')[:-16]),
        Seen(ended="length"),
        script={"finish": "length"},
    ),
    "error": Scenario(("Hello",), Seen(ended="error"), script={"die": True, "delay": 0.04}),
}
TOOLS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
}
"""Schemas of the tools in every scenario, by name."""


# -- plain HTTP


def get(url: str) -> Any:
    """Return the JSON at a URL."""
    return json.loads(fetch(url)[1])


def fetch(url: str) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers of a GET request, also for errors."""
    return _answer(urllib.request.Request(url))  # noqa: S310 - a loopback address


def post(url: str, body: object, headers: dict[str, str] | None = None) -> Any:
    return json.loads(send(url, body, headers)[1])


def begin_request(gateway: GatewayThread, api: str, *, stream: bool = True) -> socket.socket:
    """Return a client that has sent its request."""
    path, body = MINIMAL_REQUESTS[api]
    data = json.dumps({**body, "stream": stream}).encode()
    client = socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2])))
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(data)}\r\n\r\n"
    )
    client.sendall(head.encode() + data)
    return client


OnData = Callable[[bytes], object]
"""Callback for each read, with all data so far."""


def send(
    url: str, body: object, headers: dict[str, str] | None = None, watch: OnData | None = None
) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers of a POST request, also for errors."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json", **(headers or {})}
    return _answer(urllib.request.Request(url, data, headers), watch)  # noqa: S310 - a loopback address


def _answer(
    request: urllib.request.Request, watch: OnData | None = None
) -> tuple[int, bytes, dict[str, str]]:
    try:
        with urllib.request.urlopen(request) as response:  # noqa: S310
            data = b""
            while portion := response.read1():
                data += portion
                if watch is not None:
                    watch(data)
            return response.status, data, dict(response.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def once(awaited: bytes, then: Callable[[], object]) -> OnData:
    """Return a callback that calls ``then`` once, as soon as the data contains ``awaited``."""
    done = False

    def watch(data: bytes) -> None:
        nonlocal done
        if not done and awaited in data:
            done = True
            then()

    return watch


def events(url: str, body: dict[str, Any], watch: OnData | None = None) -> list[dict[str, Any] | str]:
    """Return the data of all events of a stream except pings."""
    status, data, headers = send(url, {**body, "stream": True}, watch=watch)
    assert status == 200, data
    assert headers["content-type"].startswith("text/event-stream")
    out: list[dict[str, Any] | str] = []
    text = data.decode()
    assert text.endswith("\n\n")
    for block in text[:-2].split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        if not fields or fields.get("event") == "ping":
            continue
        if fields["data"] == "[DONE]":
            out.append("[DONE]")
            continue
        value = json.loads(fields["data"])
        if "event" in fields:
            assert fields["event"] == value["type"]
        out.append(value)
    return out


def until(check: Callable[[], bool]) -> None:
    """Wait for another process; the time limit of the test ends the wait if it never happens."""
    while not check():
        time.sleep(0.02)


def free_port() -> int:
    """Return a port that no server uses.

    It is below those of outgoing connections, of which one might take it before the server of the test does.
    """
    while True:
        port = random.randrange(10_000, 32_000)  # noqa: S311 - not secret
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


if __name__ == "__main__":
    asyncio.run(engine_main())
