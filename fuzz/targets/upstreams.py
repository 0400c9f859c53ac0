"""Target: upstream responses in any portions.

They give the same deltas or the same failure, and never raise another error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any, Final

from fuzz.choices import Choices
from unspool import plan
from unspool.gateway.http.failure import Failure
from unspool.gateway.upstreams.base import Batch, UpstreamRequest
from unspool.gateway.upstreams.chat import ChatCompletionStream
from unspool.gateway.upstreams.completions import CompletionStream
from unspool.gateway.upstreams.http_client import Events
from unspool.gateway.upstreams.ollama import OllamaStream

_STREAMS: Final = (CompletionStream, ChatCompletionStream, OllamaStream)
_KINDS: Final = ("text/event-stream", "application/x-ndjson", "application/json")
_LIMIT: Final = 1 << 12
_PATIENCE: Final = 1e9
_REQUEST: Final = {"messages": [{"role": "user", "content": "?"}]}
_TASK: Final = UpstreamRequest("1", _REQUEST, plan("hermes", _REQUEST), "?", n=2, logprobs=1)


class _Content:
    """Body of a response, in portions."""

    def __init__(self, portions: list[bytes]) -> None:
        self._portions = portions

    async def readany(self) -> bytes:
        """Return the next portion."""
        return self._portions.pop(0) if self._portions else b""

    def at_eof(self) -> bool:
        """Return whether the body has ended."""
        return not self._portions


class _Response:
    """Subset of a response that the reader uses."""

    status = 200

    def __init__(self, kind: str, portions: list[bytes]) -> None:
        self.content_type = kind
        self.headers = {"content-type": kind}
        self.content = _Content(portions)

    def release(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def run(data: bytes) -> None:
    choices = Choices(data)
    stream, kind, finish_optional = choices.choose(_STREAMS), choices.choose(_KINDS), bool(choices.byte() & 1)
    number = choices.byte()
    sent = choices.rest()
    whole = _read(stream, kind, [sent] if sent else [], finish_optional=finish_optional)
    parts = _read(stream, kind, _portions(sent, number), finish_optional=finish_optional)
    assert whole == parts, f"\n  at once:     {whole}\n  in portions: {parts}"


def _portions(sent: bytes, number: int) -> list[bytes]:
    if not number:
        return [sent[at : at + 1] for at in range(len(sent))]
    rng = Random(number)  # noqa: S311 - reproducible, not secret
    cuts = [0]
    while cuts[-1] < len(sent):
        cuts.append(min(len(sent), cuts[-1] + rng.randint(1, rng.choice((3, 20, 200)))))
    return [sent[a:b] for a, b in pairwise(cuts)]


def _read(stream: Any, kind: str, portions: list[bytes], *, finish_optional: bool) -> dict[int | str, Any]:
    """Return the deltas of each choice, and how the response ended."""
    events = Events(_Response(kind, portions), _LIMIT, _PATIENCE)  # type: ignore[arg-type]
    return _loop().run_until_complete(_followed(stream(events, _TASK, finish_optional=finish_optional)))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


async def _followed(stream: CompletionStream) -> dict[int | str, Any]:
    out: dict[int | str, Any] = {"ended": "well"}
    try:
        while (batch := await stream.next()) is not None:
            _add(out, batch)
    except Failure as failure:
        out["ended"] = failure.code
    await stream.close()
    return out


def _add(out: dict[int | str, Any], batch: Batch) -> None:
    for delta in batch.deltas:
        result = out.setdefault(delta.choice, {"text": "", "reasoning": "", "calls": {}, "finish": None})
        result["text"] += delta.text
        result["reasoning"] += delta.reasoning
        for call in delta.calls:
            name, arguments = result["calls"].get(call.index, ("", ""))
            result["calls"][call.index] = (name + call.name, arguments + call.arguments)
        result["finish"] = delta.finish or result["finish"]
    if batch.usage is not None:
        out["usage"] = batch.usage


def seeds() -> Iterator[bytes]:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    logprobs = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"a": -0.5}]}
    call = {"index": 0, "id": "1", "function": {"name": "f", "arguments": '{"a":'}}
    completions: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "text": "So \ud83d"}]},
        {"choices": [{"index": 0, "text": "\ude42", "logprobs": logprobs, "token_ids": [1]}]},
        {
            "choices": [
                {"index": 1, "text": "x", "finish_reason": "stop"},
                {"index": 0, "finish_reason": "length"},
            ]
        },
        {"choices": [], "usage": usage},
    ]
    chat: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "Hm", "content": ""}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}, {"index": 1, "delta": {"content": "x"}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}], "usage": usage},
    ]
    ollama: list[dict[str, Any]] = [
        {"response": "So", "done": False},
        {"response": "", "done": True, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 2},
    ]
    for number, chunks in enumerate((completions, chat, ollama)):
        lines = [json.dumps(chunk) for chunk in chunks]
        events = "".join(f"data: {line}\n\n" for line in lines)
        for number_of_cuts in (0, 1, 2):
            head = bytes([number, 0, 0, number_of_cuts])
            yield head + events.encode() + b"data: [DONE]\n\n"
            yield bytes([number, 1, 1, number_of_cuts]) + "\n".join(lines).encode()
        yield bytes([number, 0, 0, 3]) + b": ping\r\n\r\n" + events.replace("\n", "\r\n").encode()
        yield bytes([number, 0, 1, 3]) + events.encode() + b'data: {"error": {"message": "no"}}\n\n'
        yield bytes([number, 2, 0, 3]) + lines[0].encode()
