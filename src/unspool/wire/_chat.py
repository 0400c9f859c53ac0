"""OpenAI Chat Completions, streamed and whole.

The shape is the one that every client we measured reads correctly:

- The first chunk has the role and empty content; the role never comes again.
- A call's opener has index, id, type and name, and empty arguments; what follows
  has index and arguments and nothing else, because clients concatenate the rest.
- No key of a delta is ever null.
- One terminal chunk with an empty delta and the finish reason.

What was sent cannot be taken back: a call that turns out malformed or was cut off
stays on the wire, spoilt, so that no client runs it (``broken.py``); the response
that is not streamed has the same call.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from .._core.stages.whitespace_filter import WhitespaceFilter
from ..dialects._id_format import IdFormat
from ..errors import UsageError
from ..events import (
    CallArgs,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    Text,
)
from ..message import BrokenCall, Message, ToolCall
from ..parser import Parser
from ._poisoned_calls import SentCalls

Chunk: TypeAlias = dict[str, object]
"""A JSON object of the wire."""

DONE: Final = "data: [DONE]\n\n"
"""What ends a stream of server-sent events, after the last chunk."""

_COMPLETION_ID: Final = IdFormat("chatcmpl-{random}")


class ChatStream:
    """Turns the events of one parser, which reads one choice, into ``chat.completion.chunk`` objects.

    The streams of a request with n > 1 are independent of each other; give them
    the same ``id`` and ``created`` and an ``index`` each.

    >>> parser = Parser("hermes")
    >>> stream = ChatStream(parser, model="m", id="chatcmpl-1", created=0)
    >>> for chunk in stream.encode(parser.feed("Hi") + parser.finish("stop")):
    ...     print(chunk["choices"])
    [{'index': 0, 'delta': {'role': 'assistant', 'content': ''}, 'finish_reason': None}]
    [{'index': 0, 'delta': {'content': 'Hi'}, 'finish_reason': None}]
    [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]
    """

    def __init__(
        self,
        parser: Parser,
        *,
        model: str = "",
        id: str | None = None,
        created: int | None = None,
        index: int = 0,
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
        self._tidy = tidy_of(parser)
        self._parser = parser
        self._calls = SentCalls(parser)
        field = parser.policies.reasoning_field
        self._reasoning_fields = ("reasoning_content", "reasoning") if field == "both" else (field,)
        self._opened = False
        self._finished = False
        self.failed = False
        """The policies call the output an error; the stream has ended with it."""

    @property
    def finish_reason(self) -> FinishReason:
        """How the output ended, as far as it has come."""
        return self._calls.reason(self._tidy.finish_reason)

    def encode(self, events: Iterable[Event]) -> list[Chunk]:
        """The chunks for these events of the parser, as few as keep their order.

        The first call opens the stream, also if there are no events yet.
        """
        chunks: list[Chunk] = []
        if not self._opened:
            self._opened = True
            chunks.append(self._chunk({"role": "assistant", "content": ""}))
        place: str | int = ""  # where the pieces go: a channel, or the number of a call
        to: str | int
        pieces: list[str] = []
        for event in self._tidy.push(events):
            if self.failed:
                break
            if self._finished:
                raise UsageError(f"{event!r} after Finish: every output needs a ChatStream of its own")
            if isinstance(event, Text):
                to, text = event.channel, event.text
            elif isinstance(event, CallArgs):
                to, text = event.index, event.json
            else:
                if isinstance(event, Diagnostic):
                    self._calls.note(event)
                elif isinstance(event, (CallStart, CallEnd, Finish)):
                    if pieces:
                        chunks += self._run(place, pieces)
                        pieces = []
                    chunks += self._border(event)
                continue
            if text:
                if pieces and to != place:
                    chunks += self._run(place, pieces)
                    pieces = []
                place = to
                pieces.append(text)
        if pieces:
            chunks += self._run(place, pieces)
        return chunks

    def _run(self, place: str | int, pieces: list[str]) -> list[Chunk]:
        """Text that goes to one place."""
        text = "".join(pieces)
        if isinstance(place, int):
            text = self._calls.add(text)
            return [self._arguments(place, text)] if text else []
        return [self._chunk({"content": text} if place == "content" else self._reasoning(text))]

    def _border(self, event: CallStart | CallEnd | Finish) -> list[Chunk]:
        """Where a call begins or ends, or the output does."""
        if isinstance(event, CallStart):
            self._calls.begin(event)
            return [self._chunk({"tool_calls": [{"index": event.index, **_call(event.id, event.name, "")}]})]
        error = self._calls.error(event)
        if error is not None:
            self.failed = True
            return [error_chunk(str(error), code=error.kind)]
        if isinstance(event, CallEnd):
            ending = self._calls.rest() + self._calls.ending(event.status)
            return [self._arguments(event.index, ending)] if ending else []
        self._finished = True
        return [self._chunk({}, self.finish_reason)]

    def usage_chunk(self, usage: Mapping[str, object]) -> list[Chunk]:
        """The chunk with the token counts, after the last one of every choice.

        The list is empty if the client did not ask: some cannot read this chunk.
        """
        if not self._finished:
            raise UsageError("usage_chunk before Finish: encode all events first")
        head = _head(self.id, "chat.completion.chunk", self.created, self.model)
        return [{**head, "choices": [], "usage": dict(usage)}] if self.include_usage else []

    def _arguments(self, index: int, text: str) -> Chunk:
        return self._chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})

    def _chunk(self, delta: Chunk, reason: FinishReason | None = None) -> Chunk:
        chunk = _head(self.id, "chat.completion.chunk", self.created, self.model)
        # The one null on this wire: OpenAI's schema requires the key, and scripts
        # read "not null" as the end.
        chunk["choices"] = [{"index": self.index, "delta": delta, "finish_reason": reason}]
        if self.include_usage:
            chunk["usage"] = None  # as OpenAI has it in all chunks but the last
        return chunk

    def _reasoning(self, text: str) -> Chunk:
        return dict.fromkeys(self._reasoning_fields, text)

    def response(self, message: Message, *more: Message, usage: Mapping[str, object] | None = None) -> Chunk:
        """The response that is not streamed; for n > 1, of several messages."""
        choices = [self._choice(index, choice) for index, choice in enumerate((message, *more))]
        out = _head(self.id, "chat.completion", self.created, self.model)
        out["choices"] = choices
        if usage is not None:
            out["usage"] = dict(usage)
        return out

    def message(self, message: Message) -> Chunk:
        """A message as it stands in a response that is not streamed."""
        shown: Any = self._choice(0, message)
        return dict(shown["message"])

    def _choice(self, index: int, message: Message) -> Chunk:
        sent = SentCalls(self._parser)
        calls: list[Chunk] = []
        content: list[str] = []
        reasoning: list[str] = []
        for part in message.in_order():
            if isinstance(part, ToolCall):
                calls.append(_call(part.id, part.name, part.arguments or "{}"))
            elif isinstance(part, BrokenCall):
                calls.append(_call(part.id, part.name, sent.whole(part)))
            else:
                (content if part.channel == "content" else reasoning).append(part.text)
        # Null is what OpenAI sends beside calls; without any, clients expect a string.
        out: Chunk = {"role": "assistant", "content": "".join(content) or (None if calls else "")}
        if any(reasoning):
            out |= self._reasoning("".join(reasoning))
        if calls:
            out["tool_calls"] = calls
        return {"index": index, "message": out, "finish_reason": sent.reason(message.finish_reason)}


def error_chunk(
    message: str, *, kind: str = "server_error", param: str | None = None, code: str | None = None
) -> Chunk:
    """An error as OpenAI's APIs spell it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def sse(chunk: Mapping[str, object]) -> str:
    r"""A chunk as a server-sent event.

    >>> sse({"choices": []})
    'data: {"choices":[]}\n\n'
    """
    # ASCII, because some line readers also break at U+2028 and U+0085, and
    # because a lone surrogate from a model has no UTF-8.
    return f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n"


def tidy_of(parser: Parser) -> WhitespaceFilter:
    """What a wire sees the events of a parser through."""
    if not isinstance(parser, Parser):
        raise UsageError(
            f"a wire is made from the parser whose events it will get, got {type(parser).__name__}: "
            "ChatStream(parser, model=...)"
        )
    return parser.tidy()


def _head(id: str, kind: str, created: int, model: str) -> Chunk:
    return {"id": id, "object": kind, "created": created, "model": model}


def _call(id: str, name: str, arguments: str) -> Chunk:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
