"""The attackers of ``benchmarks/hostile.py``: a process of its own, at the lowest priority.

    python benchmarks/hostile_clients.py PORT FLOOD SECONDS [NAME ...]

Every attack, or those of the names, goes on until the time is over: who is refused or cut off
begins again.  At the end it prints, for each attack, how often it was tried and what came of it.
The engine whose answers nobody reads is here, too, at the port FLOOD: it writes as no model does.
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
from typing import Final

CHAT: Final = "/v1/chat/completions"
ASK: Final = {"messages": [{"role": "user", "content": "Hi"}]}
FLOOD: Final = {"model": "flood", **ASK}
FLOODED: Final = 2_000_000
"""Characters of an answer that nobody reads, ..."""
PIECE: Final = 40_000
SPEED: Final = 400_000
"""... and how many of them come in a second: a hundred times as many as from a model."""
BOMB: Final = 31_000_000
"""Bytes of a body, a little less than a gateway takes by default."""
VALUES: Final = 200_000
"""So many values a gateway takes by default."""
LOOP: Final = (
    "{% set r = range(99999) %}{% for i in r %}{% for j in r %}{% set x = i %}{% endfor %}{% endfor %}"
)
SCHEMA: Final = {
    "type": "object",
    "properties": {f"property_{number}": {"type": "string"} for number in range(600)},
}
TOOL: Final = {"type": "function", "function": {"name": "f", "strict": True, "parameters": SCHEMA}}


def posted(path: str, body: bytes, length: int | None = None) -> bytes:
    """A request."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


def called(arguments: str) -> bytes:
    """A conversation with a call."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    said = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": ""}]
    return json.dumps({**FLOOD, "max_tokens": 1, "messages": [*ASK["messages"], *said]}).encode()


def deep_schema(depth: int) -> bytes:
    """A tool whose parameters are objects in objects."""
    inner = b'{"type":"object","properties":{"a":' * depth + b"{}" + b"}}" * depth
    return b'{"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":' + (
        b'{"name":"f","parameters":%b}}]}' % inner
    )


class Attack:
    """A client that means harm."""

    def __init__(self, port: int, until: float, only: Sequence[str]) -> None:
        self.port = port
        self.only = only
        self.until = until
        self.came: dict[str, Counter[str]] = {}
        """What came of each attack."""

    def over(self) -> bool:
        return time.monotonic() > self.until

    async def connect(self, window: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection; with a window, one that takes no more than that before it reads."""
        client = socket.socket()
        client.setblocking(False)
        if window:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self.port))
        return await asyncio.open_connection(sock=client, limit=max(window, 1 << 12))

    async def again(self, name: str, once: Callable[[], Awaitable[str]], pause: float = 0.0) -> None:
        """Attack until the time is over."""
        if self.only and name not in self.only:
            return
        came = self.came.setdefault(name, Counter())
        while not self.over():
            try:
                async with asyncio.timeout(max(0.1, self.until - time.monotonic())):
                    came[await once()] += 1
            except TimeoutError:
                came["still there at the end"] += 1
            except OSError:
                came["cut off"] += 1
            await asyncio.sleep(pause)

    async def answer(self, reader: asyncio.StreamReader) -> str:
        """The status of an answer."""
        line = await reader.readline()
        await reader.read(1 << 16)
        return line.split(b" ")[1].decode() if line.count(b" ") >= 2 else "cut off"

    async def say(self, data: bytes) -> str:
        """Send all of it, and read the answer."""
        reader, writer = await self.connect()
        try:
            with suppress(ConnectionError):  # there may be an answer all the same
                writer.write(data)
                await writer.drain()
            return await self.answer(reader)
        finally:
            writer.transport.abort()

    async def wait(self, data: bytes) -> str:
        """Send this, and then nothing."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            return await self.answer(reader)
        finally:
            writer.transport.abort()

    async def drip(self, head: bytes, drop: bytes, pause: float) -> str:
        """Send a little, and a little, and a little."""
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
                pass  # there may be an answer all the same
            return await answer
        finally:
            writer.transport.abort()

    async def never_read(self, data: bytes) -> str:
        """Ask, and do not read the answer."""
        reader, writer = await self.connect(4096)
        try:
            writer.write(data)
            # The reader is full at once, and takes no more; that the connection ends is still noticed.
            while not self.over():
                await asyncio.sleep(0.5)
                writer.write(b"\r\n")
                await writer.drain()
                if reader.exception() is not None or writer.transport.is_closing():
                    return "cut off"
            return "still there at the end"
        finally:
            writer.transport.abort()

    def all(self) -> Iterator[Awaitable[None]]:
        """All attacks at once."""
        head = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
        values = b'{"messages":[' + b"1," * (BOMB // 2) + b"1]}"
        nested = b'{"messages":' + b"[" * (BOMB // 2)
        text = b'{"messages":[{"role":"user","content":"' + b"\\n" * (BOMB // 2) + b'"}]}'
        floats = b'{"messages":[' + b"1e300," * (VALUES - 10) + b"1]}"
        digits = b'{"messages":[' + (b"7" * 4000 + b",") * (BOMB // 4001) + b"1]}"
        chunks = json.dumps({"chunks": ["a"] * 200_000}).encode()
        template = json.dumps({"text": "x", "dialect": "auto", "chat_template": LOOP}).encode()
        schema = json.dumps({**FLOOD, "max_tokens": 1, "tools": [TOOL], "tool_choice": "required"}).encode()
        streamed, whole = (json.dumps({**FLOOD, "stream": stream}).encode() for stream in (True, False))
        for _ in range(250):
            yield self.again("connections that say nothing", lambda: self.wait(b""))
            yield self.again("half a head", lambda: self.wait(head))
        for _ in range(4):
            yield self.again("a head without end", lambda: self.drip(head + b"x: ", b"y" * 65536, 0))
        for _ in range(20):
            yield self.again("slow heads", lambda: self.drip(head + b"x: ", b"y", 0.5))
            yield self.again("slow bodies", lambda: self.drip(posted(CHAT, b"{", 1 << 20), b" ", 0.5))
            yield self.again("streams that nobody reads", lambda: self.never_read(posted(CHAT, streamed)))
            yield self.again("answers that nobody reads", lambda: self.never_read(posted(CHAT, whole)))
        for name, path, body in (
            ("31 MB of numbers", CHAT, values),
            ("31 MB of brackets", CHAT, nested),
            ("31 MB of escapes", CHAT, text),
            ("31 MB of digits", CHAT, digits),
            ("numbers with exponents", CHAT, floats),
            ("31 MB of numbers in arguments", CHAT, called('{"a":[' + "1," * (BOMB // 2) + "1]}")),
            ("31 MB of a string in arguments", CHAT, called('{"a":"' + "x" * BOMB)),
            ("a schema 300 deep", CHAT, deep_schema(300)),
            ("600 optional properties", CHAT, schema),
            ("200,000 chunks to parse", "/v1/parse", chunks),
            ("a template that loops", "/v1/parse", template),
        ):
            yield self.again(name, lambda path=path, body=body: self.say(posted(path, body)), 0.05)  # type: ignore[misc]


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with more than anybody reads."""
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        body = await reader.readexactly(int(length[1])) if length else b""
        if head.startswith(b"GET"):
            answer = b'{"data": [{"id": "flood", "owned_by": "vllm"}]}'
            told = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
            writer.write(told + b"content-length: %d\r\n\r\n%b" % (len(answer), answer))
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
    """Attack."""
    port, own, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    engine = await asyncio.start_server(flood, "127.0.0.1", own)
    attack = Attack(port, time.monotonic() + seconds, sys.argv[4:])
    await asyncio.gather(*attack.all())
    engine.close()
    print(json.dumps(attack.came))


if __name__ == "__main__":
    os.nice(19)
    asyncio.run(main())
