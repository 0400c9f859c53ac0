"""Clients of a soak test: published libraries, and sockets that send what no library would send.

Each method sends one request, and reports a :class:`RequestResult`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anthropic
import ollama
import openai

from lab.soak.script import TOOLS

SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
}
CHAT_TOOLS: Final[list[Any]] = [
    {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in TOOLS
]
RESPONSE_TOOLS: Final[list[Any]] = [
    {"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in TOOLS
]
MESSAGE_TOOLS: Final[list[Any]] = [{"name": name, "input_schema": SCHEMA} for name in TOOLS]


@dataclass
class RequestResult:
    """Result of a request."""

    ended: str = "broken"
    """``answered``; ``error``, in the API's own form; ``hung``; or ``broken`` for anything else."""
    status: int = 0
    text: str = ""
    reasoning: str | None = None
    """Reasoning; None if this API does not send it in one piece."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    id: str = ""
    """Identifier of a stored response."""
    problem: str = ""
    """Error message of the client."""


class Client:
    """Clients of one gateway."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self.openai = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self.anthropic = anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)
        self.ollama = ollama.AsyncClient(host=url, timeout=60)

    async def close(self) -> None:
        """Close all connections."""
        await self.openai.close()
        await self.anthropic.close()
        await self.ollama._client.aclose()  # noqa: SLF001 - it has no public way to close

    # -- libraries

    async def ask(self, way: str, model: str, question: str, result: RequestResult, **more: Any) -> None:
        """Send a request with a library; ``result`` also gets the part received before a failure."""
        try:
            await getattr(self, way)(model, question, result, **more)
            result.ended = "answered"
        except (openai.APIStatusError, anthropic.APIStatusError) as error:
            result.status = error.status_code
            result.problem = str(error)
            result.ended = "error" if _in_form(error.body) else "broken"
        except (openai.APIConnectionError, anthropic.APIConnectionError) as error:
            result.problem = f"{type(error).__name__}: {error} {error.__cause__!r}"
        except (openai.APIError, anthropic.APIError) as error:
            result.problem = str(error)
            result.ended = "error" if _in_form(error.body) else "broken"
        except ollama.ResponseError as error:
            result.status = error.status_code
            result.problem = error.error
            result.ended = "error" if error.error else "broken"
        except ConnectionError as error:
            result.problem = str(error)
        except _Failed as error:
            result.problem = str(error)
            result.ended = "error"
        except Exception as error:
            if not type(error).__module__.startswith(("httpx", "httpcore")):
                raise
            result.problem = (
                f"{type(error).__name__}: {error}"  # exceptions of the libraries for a broken connection
            )

    async def openai_chat(self, model: str, question: str, result: RequestResult) -> None:
        """Use Chat Completions, streamed."""
        stream = await self.openai.chat.completions.create(
            model=model, messages=[{"role": "user", "content": question}], tools=CHAT_TOOLS, stream=True
        )
        result.reasoning = ""
        arguments: dict[int, list[str]] = {}
        async for chunk in stream:
            for choice in chunk.choices:
                result.text += choice.delta.content or ""
                result.reasoning += getattr(choice.delta, "reasoning_content", None) or ""
                for call in choice.delta.tool_calls or ():
                    piece = call.function
                    if piece is not None:
                        name, sofar = arguments.setdefault(call.index, [piece.name or "", ""])
                        arguments[call.index] = [name, sofar + (piece.arguments or "")]
                if choice.finish_reason is not None:
                    result.calls = [(name, json.loads(text)) for name, text in arguments.values()]

    async def openai_whole(self, model: str, question: str, result: RequestResult) -> None:
        """Use Chat Completions, not streamed."""
        answer = await self.openai.chat.completions.create(
            model=model, messages=[{"role": "user", "content": question}], tools=CHAT_TOOLS
        )
        message: Any = answer.choices[0].message
        result.text = message.content or ""
        result.reasoning = getattr(message, "reasoning_content", None) or ""
        result.calls = [
            (call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()
        ]

    async def openai_responses(self, model: str, question: str, result: RequestResult, **more: Any) -> None:
        """Use Responses, streamed."""
        stream: AsyncIterator[Any] = await self.openai.responses.create(
            model=model, input=question, tools=RESPONSE_TOOLS, stream=True, **more
        )
        async for event in stream:
            if event.type == "response.output_text.delta":
                result.text += event.delta
            elif event.type == "response.failed":
                raise _Failed(event.response.error.message)
            elif event.type == "response.completed":
                result.id = event.response.id
                result.calls = [
                    (item.name, json.loads(item.arguments))
                    for item in event.response.output
                    if item.type == "function_call"
                ]

    async def openai_completions(self, model: str, question: str, result: RequestResult) -> None:
        """Use Completions, streamed and passed through."""
        stream = await self.openai.completions.create(model=model, prompt=question, stream=True)
        async for chunk in stream:
            result.text += "".join(choice.text for choice in chunk.choices)

    async def anthropic_messages(self, model: str, question: str, result: RequestResult) -> None:
        """Use Messages, streamed."""
        async with self.anthropic.messages.stream(
            model=model, max_tokens=500, messages=[{"role": "user", "content": question}], tools=MESSAGE_TOOLS
        ) as stream:
            async for event in stream:
                if event.type == "text":
                    result.text += event.text
            message = await stream.get_final_message()
        result.calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]

    async def anthropic_whole(self, model: str, question: str, result: RequestResult) -> None:
        """Use Messages, not streamed."""
        message = await self.anthropic.messages.create(
            model=model, max_tokens=500, messages=[{"role": "user", "content": question}], tools=MESSAGE_TOOLS
        )
        result.text = "".join(block.text for block in message.content if block.type == "text")
        result.calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]

    async def ollama_chat(self, model: str, question: str, result: RequestResult) -> None:
        """Use Ollama's chat, streamed."""
        stream = await self.ollama.chat(
            model=model, messages=[{"role": "user", "content": question}], tools=CHAT_TOOLS, stream=True
        )
        result.reasoning = ""
        async for part in stream:
            result.text += part.message.content or ""
            result.reasoning += part.message.thinking or ""
            result.calls += [
                (call.function.name, dict(call.function.arguments)) for call in part.message.tool_calls or ()
            ]

    # -- sockets

    async def send(self, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection and send the data."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 22)
        writer.write(data)
        return reader, writer

    async def json(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request and return the status and the JSON value; status 0 means a broken connection."""
        try:
            reader, writer = await self.send(request(path, body, method))
            try:
                status, data = await response(reader)
            finally:
                writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            return 0, None
        return status, json.loads(data)


class _Failed(Exception):
    """Error response in the API's form."""


def _in_form(body: object) -> bool:
    """Return whether an error has the form of the API's errors."""
    inner = body.get("error", body) if isinstance(body, dict) else None
    return isinstance(inner, dict) and bool(inner.get("message"))


def request(path: str, body: object, method: str = "POST") -> bytes:
    """Return the bytes of a request."""
    data = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
    kind = "content-type: application/json\r\n" if data else ""
    return (
        f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{kind}content-length: {len(data)}\r\n\r\n".encode()
        + data
    )


async def response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read the next response of a connection and return its status and body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(head.split(" ")[1])
    if "transfer-encoding: chunked" not in head:
        length = next(
            int(line.partition(":")[2]) for line in head.split("\r\n") if line.startswith("content-length")
        )
        return status, await reader.readexactly(length)
    data = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        data += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return status, bytes(data)


def read_chat(status: int, data: bytes, result: RequestResult) -> None:
    """Interpret the bytes of a chat completion, streamed or not."""
    result.status = status
    values: Sequence[Any]
    if data.startswith((b"data:", b":")):
        lines = [line.removeprefix(b"data: ") for line in data.split(b"\n") if line.startswith(b"data: ")]
        if lines[-1] != b"[DONE]":
            result.problem = "the stream has no end marker"
            return
        values = [json.loads(line) for line in lines[:-1]]
    else:
        values = [json.loads(data)]
    failed = [value for value in values if "error" in value]
    if failed:
        result.problem = str(failed[0]["error"].get("message"))
        result.ended = "error" if result.problem and failed[0] is values[-1] else "broken"
    arguments: dict[int, list[str]] = {}
    result.reasoning = ""
    for choice in (choice for value in values for choice in value.get("choices", ())):
        delta = choice.get("delta") or choice.get("message") or {}
        result.text += delta.get("content") or ""
        result.reasoning += delta.get("reasoning_content") or ""
        for at, call in enumerate(delta.get("tool_calls") or ()):
            piece = arguments.setdefault(call.get("index", at), ["", ""])
            piece[0] += call["function"].get("name") or ""
            piece[1] += call["function"].get("arguments") or ""
        if choice.get("finish_reason"):
            result.calls = [(name, json.loads(text)) for name, text in arguments.values()]
            result.ended = "answered"
