"""``/v1/chat/completions`` of a server that leaves markup in the text: we repair its output.

The server renders the prompt.  Whatever it has told apart by itself, reasoning or
calls, is passed on; the text is parsed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ..failure import Failure
from .base import Batch, Call, Delta, Stream, Task
from .completions import (
    CompletionsUpstream,
    _Usage,
    decoded,
    finish_of,
    logprobs_of,
    one_of,
    told,
    usage_of,
)
from .http import Events
from .many import Many

_NOT_SENT: Final = frozenset(
    (
        "messages",
        "model",
        "tools",
        "tool_choice",
        "stream",
        "stream_options",
        "n",
        "stop",
        "logprobs",
        "top_logprobs",
        "max_tokens",
        "max_completion_tokens",
        "include_reasoning",
        "separate_reasoning",
        "chat_template_args",
        "thinking",
        "enable_thinking",
        "thinking_mode",
        "reasoning",
        "return_token_ids",
    )
)
"""Fields that are ours, or that are sent in another form."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    matched_stop: str | int | None = None
    logprobs: dict[str, Any] | None = None
    token_ids: list[int] | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: str = ""
    message: str = ""


_decode: Final = msgspec.json.Decoder(_Chunk).decode


class ChatUpstream(CompletionsUpstream):
    """A server with an OpenAI-compatible chat endpoint."""

    renders = True

    async def open(self, task: Task) -> Stream:
        """Begin to generate."""
        if self._detect or not self.model:
            await self.look()
        if task.n > 1 and not self.engine.many:
            return await Many.open(task.n, lambda number: self._chat(one_of(task, number)))
        return await self._chat(task)

    async def _chat(self, task: Task) -> Stream:
        body: dict[str, Any] = {key: value for key, value in task.request.items() if key not in _NOT_SENT}
        body |= task.sampling
        body |= {
            "messages": task.request["messages"],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.model:
            body["model"] = self.model
        if task.tools:
            body["tools"] = list(task.tools)
            body["tool_choice"] = self._choice(task)
        if task.max_tokens is not None:
            body["max_tokens"] = task.max_tokens
        if task.stop:
            body["stop"] = list(task.stop)
        if task.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": task.logprobs}
        if task.n > 1:
            body["n"] = task.n
        if task.plan.chat_template_kwargs:
            body["chat_template_kwargs"] = dict(task.plan.chat_template_kwargs)
        body |= self.engine.chat(task)
        return ChatStream(await self.connection.post("/v1/chat/completions", body), task.n, task.logprobs)

    def _choice(self, task: Task) -> object:
        """What to say: vLLM shows the tools and leaves the text alone if told that there is no choice."""
        if self.engine.name == "vllm":
            return "none"
        return task.request.get("tool_choice") or "auto"


class ChatStream:
    """The chunks of one chat completion."""

    def __init__(self, events: Events, n: int, logprobs: int | None) -> None:
        self._events = events
        self._open = set(range(n))
        self._top = logprobs

    async def next(self) -> Batch | None:
        """What the next read brings."""
        payloads = await self._events.read()
        if payloads is None:
            if self._open:
                raise Failure(
                    "upstream",
                    "the upstream ended the stream before the output was over",
                    code="upstream_lost",
                )
            return None
        batch = Batch([])
        for payload in payloads:
            self._take(decoded(payload, _decode), batch)
        return batch

    def _take(self, chunk: _Chunk, batch: Batch) -> None:
        if chunk.error is not None or chunk.object == "error":
            raise told({"error": chunk.error if chunk.error is not None else {"message": chunk.message}})
        for choice in chunk.choices or ():
            delta = choice.delta or choice.message
            if delta is None or choice.index not in self._open:
                continue
            reason = finish_of(choice.finish_reason)
            if reason is not None:
                self._open.discard(choice.index)
            stopped = choice.stop_reason if choice.stop_reason is not None else choice.matched_stop
            batch.deltas.append(
                Delta(
                    choice.index,
                    delta.content or "",
                    finish=reason,
                    stopped_by=stopped if isinstance(stopped, str) else None,
                    logprobs=logprobs_of(choice.logprobs, self._top),
                    token_ids=choice.token_ids,
                    reasoning=delta.reasoning_content or delta.reasoning or "",
                    calls=_calls(delta.tool_calls or ()),
                )
            )
        if chunk.usage is not None:
            batch.usage = usage_of(chunk.usage)

    async def close(self) -> None:
        """Stop generating."""
        await self._events.close()


def _calls(given: Sequence[_ToolCall]) -> list[Call]:
    out: list[Call] = []
    for place, call in enumerate(given):
        function = call.function or _Function()
        arguments = function.arguments
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        index = place if call.index is None else call.index
        out.append(Call(index, call.id or "", function.name or "", arguments))
    return out
