"""Target: requests to a complete gateway without a network. Each gets one response, never an internal error.

The body is any JSON, the path is any that accepts a body, and the upstream generates the
input's output.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from typing import Any, Final

from fuzz.choices import Choices
from fuzz.forgiving import object_of
from fuzz.targets.bodies import EXAMPLES
from unspool.gateway import Gateway, Settings
from unspool.gateway.generation.model import Model
from unspool.gateway.generation.served_models import ServedModel
from unspool.gateway.http.failure import Failure
from unspool.gateway.telemetry.logs import LOGGER
from unspool.gateway.upstreams.base import Batch, Stream, UpstreamRequest, Usage
from unspool.gateway.upstreams.http_client import ForwardedResponse
from unspool.templates import ChatTemplate
from unspool.wire import Delta

GENERATING: Final = (
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
    "/api/chat",
    "/api/generate",
)
_OTHERS: Final = (
    "/v1/parse",
    "/v1/messages/count_tokens",
    "/v1/conversations",
    "/tokenize",
    "/detokenize",
    "/v1/completions",
    "/v1/embeddings",
    "/api/show",
    "/api/embed",
)
PATHS: Final = (*GENERATING, *_OTHERS)
_TEMPLATE: Final = (
    "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call | tojson }}</tool_call>{% endfor %}"
    "<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_INTERNAL: Final = 500
_PIECE: Final = 7
"""Characters per delta."""


class _Generator:
    """Upstream that generates a given output."""

    renders = False
    constraints = ("native", "json")

    def __init__(self) -> None:
        self.text = ""

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    async def ready(self) -> bool:
        return True

    async def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        return [int(special), len(text)]

    async def detokenize(self, tokens: Sequence[int]) -> str | None:
        return f"{len(tokens)} tokens"

    async def forward(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ForwardedResponse:
        raise Failure(
            "not_found", f"no {path} for {len(body)} fields, {len(headers)} headers", code="not_found"
        )

    async def open(self, task: UpstreamRequest) -> Stream:
        return _Stream(self.text, task.n)


class _Stream:
    def __init__(self, text: str, n: int) -> None:
        self._pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
        self._n = n

    async def next(self) -> Batch | None:
        if not self._pieces:
            return None
        piece = self._pieces.pop(0)
        last = None if self._pieces else "stop"
        usage = None if self._pieces else Usage(1, 2)
        return Batch([Delta(choice, piece, finish=last) for choice in range(self._n)], usage)  # type: ignore[arg-type]

    async def close(self) -> None:
        """Do nothing."""


@cache
def _gateway() -> tuple[Gateway, _Generator, asyncio.AbstractEventLoop]:
    LOGGER.setLevel(logging.CRITICAL)
    settings = Settings(upstream="completions", url="http://localhost", max_stored_bytes=1 << 16)
    upstream = _Generator()
    model = Model("m", "hermes", ChatTemplate(_TEMPLATE))
    loop = asyncio.new_event_loop()
    gateway = Gateway(settings, [ServedModel(settings, model, upstream)])
    loop.run_until_complete(gateway.store.start())
    return gateway, upstream, loop


HEAD: Final = 1
"""Number of bytes for choices in front of the JSON."""


def run(data: bytes) -> None:
    choices = Choices(data)
    path = choices.choose(PATHS)
    body_fields = object_of(choices.utf8_text())
    output, body = body_fields.get("output"), body_fields.get("body")
    gateway, upstream, loop = _gateway()
    upstream.text = (output if isinstance(output, str) else "") or "."
    sent = loop.run_until_complete(_send_request(gateway, path, json.dumps(body).encode()))
    _assert_answered(path, sent)


async def _send_request(gateway: Gateway, path: str, body: bytes) -> list[MutableMapping[str, Any]]:
    """Return the ASGI messages that the gateway sends for a request."""
    sent: list[MutableMapping[str, Any]] = []
    portions = [{"type": "http.request", "body": body, "more_body": False}]
    forever = asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        if not portions:
            await forever.wait()
        return portions.pop()

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    await gateway.app(scope, receive, send)
    return sent


def _assert_answered(path: str, sent: Sequence[Mapping[str, Any]]) -> None:
    kinds = [message["type"].removeprefix("http.response.") for message in sent]
    assert kinds == ["start", *["body"] * (len(sent) - 1)], (path, kinds)
    assert [message["more_body"] for message in sent[1:]] == [True] * (len(sent) - 2) + [False], path
    answer = b"".join(message["body"] for message in sent[1:])
    assert sent[0]["status"] != _INTERNAL, (path, answer)
    assert b"internal error" not in answer, (path, answer)
    kind = dict(sent[0]["headers"])[b"content-type"]
    if kind == b"application/json":
        json.loads(answer)
    elif kind == b"application/x-ndjson":
        for line in answer.splitlines():
            json.loads(line)
    else:
        for event in re.findall(rb"^data: (?!\[DONE\])(.*)$", answer, re.MULTILINE):
            json.loads(event)


def seeds() -> Iterator[bytes]:
    output = '<think>Hm.</think>So. <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    for number, bodies in enumerate(EXAMPLES):
        for body in bodies:
            yield bytes([number]) + json.dumps({"output": output, "body": body}).encode()
    others: tuple[dict[str, Any], ...] = (
        {
            "text": output,
            "policies": {"malformed_call": "repair"},
            "finish_reason": "stop",
            "prompt": "<think>",
        },
        {"messages": [{"role": "user", "content": "?"}]},
        {"items": [{"role": "user", "content": "?"}], "metadata": {"a": "b"}},
        {"prompt": "?"},
        {"tokens": [1, 2]},
        {"prompt": "?", "max_tokens": 3},
        {"input": ["?"]},
        {"model": "m"},
        {"input": "?"},
    )
    for number, body in enumerate(others):
        yield bytes([len(GENERATING) + number]) + json.dumps({"output": "So.", "body": body}).encode()
