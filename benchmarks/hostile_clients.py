"""Attackers of ``benchmarks/hostile.py``, in a process of their own at the lowest priority.

    python benchmarks/hostile_clients.py PORT FLOOD SECONDS [NAME ...]

Every attack, or each named one, repeats until the time is over; a client that is refused or
cut off starts again. At the end, the program prints the number of tries and their outcomes for
each attack. On the port FLOOD, the program also runs an engine that writes much faster than a
model, for the attack in which clients do not read the answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
CONVERSATIONS: Final = "/v1/conversations"
ASK: Final = {"messages": [{"role": "user", "content": "Hi"}]}
FLOOD: Final = {"model": "flood", **ASK}
FLOODED: Final = 2_000_000
"""Length of an answer that is never read, in characters."""
PIECE: Final = 40_000
SPEED: Final = 400_000
"""Speed of an answer that is never read, in characters per second: a hundred times that of a model."""
BOMB: Final = 31_000_000
"""Size of a body in bytes, slightly below the gateway's default limit."""
VALUES: Final = 200_000
"""Default limit of the gateway for values in a body."""
LOOP: Final = (
    "{% set r = range(99999) %}{% for i in r %}{% for j in r %}{% set x = i %}{% endfor %}{% endfor %}"
)
SCHEMA: Final = {
    "type": "object",
    "properties": {f"property_{number}": {"type": "string"} for number in range(600)},
}
ITEM: Final = {"role": "user", "content": [{"type": "input_text", "text": "x"}] * 97}
TOOL: Final = {"type": "function", "function": {"name": "f", "strict": True, "parameters": SCHEMA}}


def post_request(path: str, body: bytes, length: int | None = None) -> bytes:
    """Return a POST request."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


def call_body(arguments: str) -> bytes:
    """Return the body of a conversation with a call."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ]
    return json.dumps({**FLOOD, "max_tokens": 1, "messages": [*ASK["messages"], *messages]}).encode()


def deep_schema(depth: int) -> bytes:
    """Return a tool whose parameters are nested objects."""
    inner = b'{"type":"object","properties":{"a":' * depth + b"{}" + b"}}" * depth
    return b'{"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":' + (
        b'{"name":"f","parameters":%b}}]}' % inner
    )


class Attack:
    """Hostile client."""

    def __init__(self, port: int, until: float, only: Sequence[str]) -> None:
        self.port = port
        self.only = only
        self.until = until
        self.outcomes: dict[str, Counter[str]] = {}
        """Outcomes of each attack."""

    def over(self) -> bool:
        return time.monotonic() > self.until

    async def connect(self, window: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection; ``window`` limits the bytes that the connection accepts before they are read."""
        client = socket.socket()
        client.setblocking(False)
        if window:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self.port))
        return await asyncio.open_connection(sock=client, limit=max(window, 1 << 12))

    async def repeat(self, name: str, attempt: Callable[[], Awaitable[str]], pause: float = 0.0) -> None:
        """Repeat an attack until the time is over."""
        if self.only and name not in self.only:
            return
        outcomes = self.outcomes.setdefault(name, Counter())
        while not self.over():
            try:
                async with asyncio.timeout(max(0.1, self.until - time.monotonic())):
                    outcomes[await attempt()] += 1
            except TimeoutError:
                outcomes["still connected at the end"] += 1
            except OSError:
                outcomes["cut off"] += 1
            await asyncio.sleep(pause)

    async def answer(self, reader: asyncio.StreamReader, start: bytearray | None = None) -> str:
        """Return the status of an answer, and append the start of the rest to ``start``."""
        line = await reader.readline()
        rest = await reader.read(1 << 16)
        if start is not None:
            start += rest
        return line.split(b" ")[1].decode() if line.count(b" ") >= 2 else "cut off"

    async def send(self, data: bytes) -> str:
        """Send everything and return the status of the answer."""
        reader, writer = await self.connect()
        try:
            with suppress(ConnectionError):  # the server may have answered before it closed
                writer.write(data)
                await writer.drain()
            return await self.answer(reader)
        finally:
            writer.transport.abort()

    async def send_to_conversation(self, method: str, items: Sequence[object], more: Sequence[object]) -> str:
        """Store a conversation of ``items``, then read it or add items to it until the time is over."""
        reader, writer = await self.connect()
        try:
            writer.write(post_request(CONVERSATIONS, json.dumps({"items": items}).encode()))
            status = await self.answer(reader, id := bytearray())
        finally:
            writer.transport.abort()
        found = re.search(rb'"id":"(conv_\w+)"', id)
        if found is None:
            return f"{status}, not stored"
        path = f"{CONVERSATIONS}/{found[1].decode()}"
        request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
        if method == "POST":
            request = post_request(f"{path}/items", json.dumps({"items": more}).encode())
        for _ in range(20):
            status = await self.send(request)
        return status

    async def wait(self, data: bytes) -> str:
        """Send the data and then nothing more."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            return await self.answer(reader)
        finally:
            writer.transport.abort()

    async def drip(self, head: bytes, drop: bytes, pause: float) -> str:
        """Send the data in small pieces."""
        reader, writer = await self.connect()
        try:
            writer.write(head)
            answer = asyncio.ensure_future(self.answer(reader))
            try:
                while not answer.done():
                    writer.write(drop)
                    await writer.drain()
                    await asyncio.wait([answer], timeout=pause)
            except ConnectionError:
                pass  # the server may have answered before it closed
            return await answer
        finally:
            writer.transport.abort()

    async def never_read(self, data: bytes) -> str:
        """Send a request and never read the answer."""
        reader, writer = await self.connect(4096)
        try:
            writer.write(data)
            # The reader's buffer is full immediately, but the end of the connection is still noticed.
            while not self.over():
                await asyncio.sleep(0.5)
                writer.write(b"\r\n")
                await writer.drain()
                if reader.exception() is not None or writer.transport.is_closing():
                    return "cut off"
            return "still connected at the end"
        finally:
            writer.transport.abort()

    def all(self) -> Iterator[Awaitable[None]]:
        """Yield all attacks."""
        head = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
        values = b'{"messages":[' + b"1," * (BOMB // 2) + b"1]}"
        nested = b'{"messages":' + b"[" * (BOMB // 2)
        text = b'{"messages":[{"role":"user","content":"' + b"\\n" * (BOMB // 2) + b'"}]}'
        floats = b'{"messages":[' + b"1e300," * (VALUES - 10) + b"1]}"
        digits = b'{"messages":[' + (b"7" * 4000 + b",") * (BOMB // 4001) + b"1]}"
        chunks = json.dumps({"chunks": ["a"] * 200_000}).encode()
        template = json.dumps({"text": "x", "dialect": "auto", "chat_template": LOOP}).encode()
        schema = json.dumps({**FLOOD, "max_tokens": 1, "tools": [TOOL], "tool_choice": "required"}).encode()
        assistant = {"role": "assistant", "content": "z" * 480}
        responses = {"model": "flood", "max_output_tokens": 1}
        turns = json.dumps({**responses, "input": [assistant] * (BOMB // 520)}).encode()
        references = json.dumps({**responses, "input": [{"type": "item_reference", "id": "large"}] * 600})
        tools = [{"type": "function", "function": {"name": f"f{number}"}} for number in range(30_000)]
        choices = json.dumps({**FLOOD, "max_tokens": 1, "n": 128, "tools": tools}).encode()
        stored = json.dumps({"items": [{**ASK["messages"][0], "id": "large", "content": "x" * 20_000_000}]})
        streamed, whole = (json.dumps({**FLOOD, "stream": stream}).encode() for stream in (True, False))
        for _ in range(250):
            yield self.repeat("silent connections", lambda: self.wait(b""))
            yield self.repeat("half a head", lambda: self.wait(head))
        for _ in range(4):
            yield self.repeat("endless headers", lambda: self.drip(head + b"x: ", b"y" * 65536, 0))
        for _ in range(20):
            yield self.repeat("slow heads", lambda: self.drip(head + b"x: ", b"y", 0.5))
            yield self.repeat("slow bodies", lambda: self.drip(post_request(CHAT, b"{", 1 << 20), b" ", 0.5))
            yield self.repeat("unread streams", lambda: self.never_read(post_request(CHAT, streamed)))
            yield self.repeat("unread answers", lambda: self.never_read(post_request(CHAT, whole)))
        for name, path, body in (
            ("31 MB of numbers", CHAT, values),
            ("31 MB of brackets", CHAT, nested),
            ("31 MB of escapes", CHAT, text),
            ("31 MB of digits", CHAT, digits),
            ("numbers with exponents", CHAT, floats),
            ("31 MB of numbers in arguments", CHAT, call_body('{"a":[' + "1," * (BOMB // 2) + "1]}")),
            ("31 MB of a string in arguments", CHAT, call_body('{"a":"' + "x" * BOMB)),
            ("a schema 300 deep", CHAT, deep_schema(300)),
            ("600 optional properties", CHAT, schema),
            ("200,000 chunks to parse", "/v1/parse", chunks),
            ("a template that loops", "/v1/parse", template),
            ("31 MB of assistant items", RESPONSES, turns),
            ("an item of 20 MB to store", CONVERSATIONS, stored.encode()),
            ("600 references to an item", RESPONSES, references.encode()),
            ("128 choices with 30,000 tools", CHAT, choices),
        ):
            yield self.repeat(name, lambda path=path, body=body: self.send(post_request(path, body)), 0.05)  # type: ignore[misc]
        for name, method in (("items to read", "GET"), ("items to add", "POST")):
            yield self.repeat(name, partial(self.send_to_conversation, method, [ITEM] * 500, [ITEM]))


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with more data than any client reads."""
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        body = await reader.readexactly(int(length[1])) if length else b""
        if head.startswith(b"GET"):
            answer = b'{"data": [{"id": "flood", "owned_by": "vllm"}]}'
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
            writer.write(head + b"content-length: %d\r\n\r\n%b" % (len(answer), answer))
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            piece = json.dumps({"choices": [{"index": 0, "text": "x" * PIECE}]}).encode()
            for _ in range(0 if b'"max_tokens":1' in body else FLOODED // PIECE):
                writer.write(b"data: %b\n\n" % piece)
                await writer.drain()
                await asyncio.sleep(PIECE / SPEED)
            last = b'{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}'
            writer.write(b"data: %b\n\ndata: [DONE]\n\n" % last)
        await writer.drain()
    writer.close()


async def main() -> None:
    """Run the attacks."""
    port, own, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    engine = await asyncio.start_server(flood, "127.0.0.1", own)
    attack = Attack(port, time.monotonic() + seconds, sys.argv[4:])
    await asyncio.gather(*attack.all())
    engine.close()
    print(json.dumps(attack.outcomes))


if __name__ == "__main__":
    os.nice(19)
    asyncio.run(main())
