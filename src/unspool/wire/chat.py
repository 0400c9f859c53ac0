"""OpenAI Chat Completions, streamed and whole.

The shape is the one that every client we measured reads correctly:

- The first chunk has the role and empty content; the role never comes again.
- A call's opener has index, id, type and name, and empty arguments; what follows
  has index and arguments and nothing else, because clients concatenate the rest.
- No key of a delta is ever null.
- One terminal chunk with an empty delta and the finish reason.

What was sent cannot be taken back: a call that turns out malformed or truncated
stays on the wire as far as it got, and only the finish reason tells.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, TypeAlias

from unspool._errors import UsageError
from unspool._events import CallArgs, CallEnd, CallStart, Event, Finish, FinishReason, Text
from unspool._finish import FinishRule
from unspool._ids import IdFormat
from unspool._message import Message
from unspool._policies import Policies

Chunk: TypeAlias = dict[str, object]
"""A JSON object of the wire."""

DONE: Final = "data: [DONE]\n\n"
"""What ends a stream of server-sent events, after the last chunk."""

_DEFAULTS: Final = Policies()
_COMPLETION_ID: Final = IdFormat("chatcmpl-{random}")


class ChatStream:
    """Turns the tidied events of one choice into ``chat.completion.chunk`` objects.

    The streams of a request with n > 1 are independent of each other; give them
    the same ``id`` and ``created`` and an ``index`` each.

    >>> stream = ChatStream(model="m", id="chatcmpl-1", created=0)
    >>> for chunk in stream.encode([Text("content", "Hi", 0, 2), Finish("stop", 2)]):
    ...     print(chunk["choices"])
    [{'index': 0, 'delta': {'role': 'assistant', 'content': ''}, 'finish_reason': None}]
    [{'index': 0, 'delta': {'content': 'Hi'}, 'finish_reason': None}]
    [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]
    """

    def __init__(
        self,
        *,
        model: str = "",
        id: str | None = None,
        created: int | None = None,
        index: int = 0,
        policies: Policies = _DEFAULTS,
        forced: bool = False,
        include_usage: bool = False,
    ) -> None:
        self.model = model
        """The model's name, as the client is to see it."""
        self.id = id or _COMPLETION_ID.new("", 0)
        """Id of the completion; the same in every chunk."""
        self.created = int(time.time()) if created is None else created
        """Unix time; the same in every chunk."""
        self.index = index
        """Which choice this is."""
        self.include_usage = include_usage
        """Whether the client asked for a usage chunk."""
        self._policies = policies
        self._rule = FinishRule(forced=forced, policies=policies)
        self._opened = False
        self._finished = False
        self._without_arguments: set[int] = set()

    def encode(self, events: Iterable[Event]) -> list[Chunk]:
        """The chunks for these events, as few as keep their order.

        The first call opens the stream, also if there are no events yet.
        """
        chunks: list[Chunk] = []
        if not self._opened:
            self._opened = True
            chunks.append(self._chunk({"role": "assistant", "content": ""}))
        for _, group in groupby(self._telling(events), _place):
            run = list(group)
            event = run[0]
            if isinstance(event, Text):
                text = "".join(piece.text for piece in run if isinstance(piece, Text))
                if event.channel == "content":
                    chunks.append(self._chunk({"content": text}))
                else:
                    chunks.append(self._chunk(_reasoning(text, self._policies)))
            elif isinstance(event, CallArgs):
                self._without_arguments.discard(event.index)
                text = "".join(piece.json for piece in run if isinstance(piece, CallArgs))
                chunks.append(self._arguments(event.index, text))
            elif isinstance(event, CallStart):
                self._without_arguments.add(event.index)
                opener = {"index": event.index, **_call(event.id, event.name, "")}
                chunks.append(self._chunk({"tool_calls": [opener]}))
            elif isinstance(event, CallEnd):
                # Without this, half of the clients hand "" to json.loads.
                if event.status == "complete" and event.index in self._without_arguments:
                    chunks.append(self._arguments(event.index, "{}"))
            elif isinstance(event, Finish):
                self._finished = True
                chunks.append(self._chunk({}, self._rule.reason()))
        return chunks

    def usage_chunk(self, usage: Mapping[str, object]) -> list[Chunk]:
        """The chunk with the token counts, after the last one of every choice.

        The list is empty if the client did not ask: some cannot read this chunk.
        """
        if not self._finished:
            raise UsageError("usage_chunk before Finish: encode all events first")
        return [{**self._head(), "choices": [], "usage": dict(usage)}] if self.include_usage else []

    def _telling(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events that may show on the wire."""
        for event in events:
            if self._finished:
                raise UsageError(f"{event!r} after Finish: every output needs a ChatStream of its own")
            self._rule.see(event)
            if isinstance(event, Text):
                if event.text:
                    yield event
            elif isinstance(event, CallArgs):
                if event.json:
                    yield event
            elif isinstance(event, (CallStart, CallEnd, Finish)):
                yield event

    def _arguments(self, index: int, text: str) -> Chunk:
        return self._chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})

    def _chunk(self, delta: Chunk, reason: FinishReason | None = None) -> Chunk:
        # The one null on this wire: OpenAI's schema requires the key, and scripts
        # read "not null" as the end.
        choice: Chunk = {"index": self.index, "delta": delta, "finish_reason": reason}
        return {**self._head(), "choices": [choice]}

    def _head(self) -> Chunk:
        return _head(self.id, "chat.completion.chunk", self.created, self.model)


def sse(chunk: Mapping[str, object]) -> str:
    r"""A chunk as a server-sent event.

    >>> sse({"choices": []})
    'data: {"choices":[]}\n\n'
    """
    # ASCII, because some line readers also break at U+2028 and U+0085, and
    # because a lone surrogate from a model has no UTF-8.
    return f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n"


def chat_message(message: Message, policies: Policies = _DEFAULTS) -> Chunk:
    """A message as it stands in a response that is not streamed."""
    # Null is what OpenAI sends beside calls; without any, clients expect a string.
    out: Chunk = {
        "role": "assistant",
        "content": message.content or (None if message.tool_calls else ""),
    }
    if message.reasoning:
        out.update(_reasoning(message.reasoning, policies))
    if message.tool_calls:
        out["tool_calls"] = [_call(call.id, call.name, call.arguments) for call in message.tool_calls]
    return out


def chat_completion(
    message: Message,
    *more: Message,
    model: str = "",
    id: str | None = None,
    created: int | None = None,
    usage: Mapping[str, object] | None = None,
    policies: Policies = _DEFAULTS,
) -> Chunk:
    """A response that is not streamed; for n > 1, of several messages."""
    head = _head(
        id or _COMPLETION_ID.new("", 0),
        "chat.completion",
        int(time.time()) if created is None else created,
        model,
    )
    choices = [
        {
            "index": index,
            "message": chat_message(choice, policies),
            "finish_reason": choice.finish_reason,
        }
        for index, choice in enumerate((message, *more))
    ]
    out: Chunk = {**head, "choices": choices}
    if usage is not None:
        out["usage"] = dict(usage)
    return out


def _place(event: Event) -> object:
    """Where an event's text goes; neighbours that go to the same place are one delta."""
    if isinstance(event, Text):
        return event.channel
    if isinstance(event, CallArgs):
        return event.index
    return event


def _head(id: str, kind: str, created: int, model: str) -> Chunk:
    return {"id": id, "object": kind, "created": created, "model": model}


def _reasoning(text: str, policies: Policies) -> Chunk:
    if policies.reasoning_field == "both":
        return {"reasoning_content": text, "reasoning": text}
    return {policies.reasoning_field: text}


def _call(id: str, name: str, arguments: str) -> Chunk:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
