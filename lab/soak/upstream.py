"""Upstreams of a soak test, as separate programs: each writes the output for a mark, with a fault.

``python -m lab.soak.upstream KIND PORT``, where KIND is ``vllm``, ``llamacpp``, ``chat`` or ``ollama``.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from lab.soak.script import output_of, parse_question

HUGE: Final = 400_000
_ELSEWHERE: Final = "http://127.0.0.1:9/"
_STATUS: Final = {"refuse_429": 429, "refuse_503": 503, "refuse_500": 500, "reject_400": 400}


class Upstream:
    """Server of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle the requests of a connection."""
        try:
            while await self.request(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Handle one request; return whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        path = head.split(" ")[1]
        length = 0
        for line in head.split("\r\n"):
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                length = int(value)
        body = json.loads(await reader.readexactly(length)) if length else {}
        answer_simple = self.answer_simple(path, body)
        if answer_simple is not None:
            return await _whole(writer, answer_simple)
        if path in ("/v1/completions", "/v1/chat/completions", "/api/generate"):
            return await Generation(self.kind, path, body, reader, writer).run()
        return await _whole(writer, {"error": "not here"}, 404)

    def answer_simple(self, path: str, body: dict[str, Any]) -> object:
        """Return the answer to a simple request, or None for other requests."""
        name = f"soak-{self.kind}"
        owner = {"vllm": "vllm", "llamacpp": "llamacpp"}.get(self.kind, "somebody")
        text = str(body.get("prompt") or body.get("content") or "")
        texts = body.get("input")
        answers: dict[str, Any] = {
            "/v1/models": {"data": [{"id": name, "owned_by": owner}]},
            "/health": {},
            "/tokenize": {"tokens": list(text.encode())},
            "/detokenize": {
                "prompt": bytes(one for one in body.get("tokens", ()) if one < 256).decode("utf-8", "replace")
            },
            "/api/show": {"model_info": {"tokenizer.ggml.model": "gpt2"}},
            "/v1/embeddings": {
                "data": [
                    {"index": at, "embedding": [float(len(one)), 0.5]}
                    for at, one in enumerate([texts] if isinstance(texts, str) else texts or ())
                ],
                "usage": {"prompt_tokens": 3},
            },
        }
        return answers.get(path)


async def _whole(writer: asyncio.StreamWriter, value: object, status: int = 200, headers: str = "") -> bool:
    data = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n"
    writer.write(f"{head}{headers}\r\n".encode() + data)
    await writer.drain()
    return True


class Generation:
    """Generation of one output."""

    def __init__(
        self,
        kind: str,
        path: str,
        body: dict[str, Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.path = path
        self.body = body
        self.reader = reader
        self.writer = writer
        prompt_field = body.get("prompt")
        prompt = (
            prompt_field
            if isinstance(prompt_field, str)
            else json.dumps(body.get("messages"), ensure_ascii=False)
        )
        self.mark, self.fault = parse_question(prompt)
        self.output = output_of(self.mark)
        # For every second mark, act as a server that parses tool calls itself.
        self.native = kind == "chat" and self.mark[-2:-1] in "13579" and bool(self.mark)

    async def run(self) -> bool:
        """Write the output with its fault; return whether the connection can be reused."""
        fault, write = self.fault, self.writer.write
        if fault in _STATUS:
            error = {"error": {"message": f"{fault}, as asked"}}
            return await _whole(self.writer, error, _STATUS[fault], "retry-after: 1\r\n")
        if fault == "redirect":
            return await _whole(self.writer, {}, 307, f"location: {_ELSEWHERE}\r\n")
        if fault == "no_http":
            write(b"\x00\x01 nonsense\r\n\r\n")
            return False
        if fault in ("web_page", "packed"):
            page, packed = b"<html>hello</html>", ""
            if fault == "packed":
                page, packed = gzip.compress(page * 10_000), "content-encoding: gzip\r\n"
            head = (
                f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n{packed}content-length: {len(page)}\r\n\r\n"
            )
            write(head.encode() + page)
            return True
        if not self.body.get("stream"):
            return await _whole(
                self.writer, {"choices": [{"index": 0, "text": self.output.raw, "finish_reason": "stop"}]}
            )
        return await self.stream()

    async def stream(self) -> bool:
        """Write the chunks in order; return whether the connection can be reused."""
        lines = self.path == "/api/generate"
        kind = "application/x-ndjson" if lines else "text/event-stream"
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        self.writer.write(head)
        chunks = list(self.chunks())
        # Apply the fault outside calls, because some clients raise an exception for incomplete arguments.
        place = 0 if self.fault == "huge" else len(chunks) // 2
        for number, chunk in enumerate(chunks):
            if number == place and not await self.apply_fault(chunk):
                return False
            await self.send(chunk)
            await asyncio.sleep(0.02 if self.fault == "slow" else 0)
        if not lines:
            await self.send(b"data: [DONE]\n\n")
        end = b"0\r\n\r\n"
        if self.fault == "second_answer":
            # Send both in one write: bytes that arrive after the next request would look like its answer.
            second = self.chunk("q99999999q")
            end += (
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
                % len(second)
                + second
            )
        self.writer.write(end)
        await self.writer.drain()
        return True

    async def send(self, data: bytes) -> None:
        """Write a portion of the response."""
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self.writer.drain()

    async def apply_fault(self, chunk: bytes) -> bool:
        """Apply a fault in the middle; return whether to continue."""
        match self.fault:
            case "die":
                self.writer.transport.abort()
            case "half_close":
                self.writer.write_eof()
            case "garbage":
                await self.send(b"data: {\xff\xfe]\n\n\x00{}\n")
            case "broken_event":
                await self.send(chunk + b"data: {\n\n{\n")
            case "huge":
                for _ in range(100):
                    await self.send(self.chunk("x" * (HUGE // 100)))
            case "silent":
                await self.reader.read(1)
            case "comments":
                while not self.reader.at_eof():
                    await self.send(b"\n" if self.path == "/api/generate" else b": here\n\n")
                    await asyncio.sleep(0.1)
            case _:
                return True
        return False

    def chunks(self) -> Iterator[bytes]:
        """Yield the whole output in chunks."""
        if self.native:
            yield from self.native_chunks()
            return
        for piece in self.output.pieces:
            yield self.chunk(piece)
        yield self.last("stop")

    def native_chunks(self) -> Iterator[bytes]:
        output = self.output
        if output.reasoning:
            yield self.delta({"reasoning_content": output.reasoning})
        for at in range(0, len(output.text), 9):
            yield self.delta({"content": output.text[at : at + 9]})
        for number, (name, arguments) in enumerate(output.calls):
            text = json.dumps(arguments, ensure_ascii=False)
            function = {"name": name, "arguments": ""}
            yield self.delta({"tool_calls": [{"index": number, "id": f"c{number}", "function": function}]})
            for at in range(0, len(text), 7):
                yield self.delta(
                    {"tool_calls": [{"index": number, "function": {"arguments": text[at : at + 7]}}]}
                )
        yield self.last("tool_calls" if output.calls else "stop")

    def delta(self, delta: dict[str, Any], **more: Any) -> bytes:
        """Return a chunk of a chat completion."""
        return _event({"choices": [{"index": 0, "delta": delta, **more}]})

    def chunk(self, text: str) -> bytes:
        """Return a chunk with text."""
        if self.path == "/api/generate":
            return json.dumps({"response": text, "done": False}).encode() + b"\n"
        if self.path == "/v1/completions":
            return _event({"choices": [{"index": 0, "text": text}]})
        return self.delta({"content": text})

    def last(self, reason: str) -> bytes:
        """Return the last chunk."""
        counts = {"prompt_tokens": 7, "completion_tokens": 5}
        if self.path == "/api/generate":
            return (
                json.dumps({"response": "", "done": True, "done_reason": "stop", "eval_count": 5}).encode()
                + b"\n"
            )
        if self.path == "/v1/completions":
            return _event({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}], "usage": counts})
        return _event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": counts})


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


async def main(kind: str, port: int) -> None:
    """Serve until killed."""
    server = await asyncio.start_server(
        Upstream(kind).connected, "127.0.0.1", port, backlog=1000, limit=1 << 20
    )
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
