"""Encoder for OpenAI Chat Completions, streamed and not streamed.

The encoder follows rules that make every tested client read the stream correctly:

- The first chunk has the role and empty content.  No later chunk has a role.
- The first delta of a call has an index, id, type, name and empty arguments.  Later deltas have only
  the index and more arguments, because some clients concatenate repeated values.
- No value in a delta is null.
- The last chunk has an empty delta and the finish reason.

A chunk cannot be retracted after it was sent.  If a call turns out to be malformed or truncated, the encoder
*poisons* its arguments, so that no client runs the call (see
``_core/conversions/make_broken_arguments_unparsable.py``).  A response that is not streamed contains the same
poisoned call.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from .._core.conversions.chat import message_to_chat, reason_of
from ..dialects import IdFormat
from ..errors import MalformedOutput
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
from ..message import BrokenCall, Message
from ..parser import Parser
from ._base_encoder import DONE, Chunk, StreamEncoder
from ._compatibility_options import WireChoice
from ._poison_broken_calls import SentCalls
from ._usage import AnyUsage, as_usage

_COMPLETION_ID: Final = IdFormat("chatcmpl-{random}")


class ChatStream(StreamEncoder):
    """Encoder that turns the events of a parser into ``chat.completion.chunk`` objects.

    A request with n > 1 needs one encoder per choice, all with the same ``id`` and ``created`` and each
    with its own ``index``.

    >>> parser = Parser("hermes")
    >>> stream = ChatStream(parser, model="m", id="chatcmpl-1", created=0)
    >>> for chunk in stream.feed(parser.feed("Hi") + parser.finish("stop")):
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
        options: WireChoice | None = None,
        id: str | None = None,
        created: int | None = None,
        index: int = 0,
        include_usage: bool | None = None,
    ) -> None:
        """Create an encoder.

        :param include_usage: whether the stream ends with a chunk of token counts.  None, the default, sends
            this chunk if ``usage`` is passed to ``feed`` or ``sse``.  True also adds ``"usage": null`` to
            all other chunks, as OpenAI does for requests with ``stream_options.include_usage``.
        """
        super().__init__(parser, model, options)
        self.id = id or _COMPLETION_ID.new("", 0)
        """Id of the completion, equal in all chunks."""
        self.created = int(time.time()) if created is None else created
        """Unix time of the completion, equal in all chunks."""
        self.index = index
        """Index of the choice."""
        self.include_usage = include_usage
        """Whether to send the chunk of token counts; None to send it if there are counts."""
        self._parser = parser
        field = self.options.reasoning_field
        self._reasoning_fields = ("reasoning_content", "reasoning") if field == "both" else (field,)
        self._started = False
        self._finished = False
        self._usage_sent = False

    def sse(self, events: Iterable[Event], *, usage: AnyUsage | None = None) -> str:
        """Return the text to send for further events: server-sent events, with ``[DONE]`` as the last.

        With more than one choice, use ``feed``, encode its chunks, and send ``DONE`` after all choices.
        """
        ended = self._closed
        text = super().sse(events, usage=usage)
        return text if ended or not self._closed else text + DONE

    def feed(self, events: Iterable[Event], *, usage: AnyUsage | None = None) -> list[Chunk]:
        """Return the shortest list of chunks that represents these events in order.

        The first call also returns the chunk with the role, even without events.

        :param usage: token counts.  They are sent in a separate chunk after ``Finish``, unless
            ``include_usage`` is False.  With more than one choice, pass them only after the last choice has
            finished.
        """
        self._count(usage)
        chunks: list[Chunk] = []
        if not self._started:
            self._started = True
            chunks.append(self._chunk({"role": "assistant", "content": ""}))
        # Adjacent texts for the same target (a channel or a call's index) become one chunk.
        target: str | int = ""
        next_target: str | int
        buffer: list[str] = []
        for event in self._filter.feed(events):
            if self._closed and self._skips(event):
                break
            if isinstance(event, Text):
                next_target, text = event.channel, event.text
            elif isinstance(event, CallArgs):
                next_target, text = event.index, event.json
            else:
                if isinstance(event, Diagnostic):
                    error = self._calls.record_diagnostic(event)
                    if error is None:
                        continue
                    if buffer:
                        chunks += self._encode_text(target, buffer)
                        buffer = []
                    chunks.append(self._fail(error))
                elif isinstance(event, (CallStart, CallEnd, Finish)):
                    if buffer:
                        chunks += self._encode_text(target, buffer)
                        buffer = []
                    chunks += self._encode_boundary(event)
                continue
            if text:
                if buffer and next_target != target:
                    chunks += self._encode_text(target, buffer)
                    buffer = []
                target = next_target
                buffer.append(text)
        if buffer:
            chunks += self._encode_text(target, buffer)
        return chunks + self._usage_chunk() if self._finished else chunks

    def _encode_text(self, target: str | int, buffer: list[str]) -> list[Chunk]:
        """Return the chunks for text of a channel or a call."""
        text = "".join(buffer)
        if isinstance(target, int):
            text = self._calls.add_arguments(text)
            return [self._arguments_chunk(target, text)] if text else []
        return [self._chunk({"content": text} if target == "content" else self._reasoning(text))]

    def _encode_boundary(self, event: CallStart | CallEnd | Finish) -> list[Chunk]:
        """Return the chunks for the start or end of a call, or for the end of the output."""
        if isinstance(event, CallStart):
            self._calls.open_call(event)
            return [self._chunk({"tool_calls": [{"index": event.index, **_call(event.id, event.name, "")}]})]
        error = self._calls.policy_error(event)
        if error is not None:
            return [self._fail(error)]
        if isinstance(event, CallEnd):
            ending = self._calls.flush() + self._calls.close_call(event.status)
            return [self._arguments_chunk(event.index, ending)] if ending else []
        self._finished = self._closed = True
        return [self._chunk({}, self.finish_reason)]

    def _fail(self, error: MalformedOutput) -> Chunk:
        """Close the stream, and return the chunk with the error."""
        self.failed = self._closed = True
        return error_chunk(str(error), code=error.kind)

    def _usage_chunk(self) -> list[Chunk]:
        """Return a list with the chunk of token counts if it must be sent now; otherwise an empty list."""
        usage = self.usage
        if usage is None or self._usage_sent or not self._finished or self.include_usage is False:
            return []
        self._usage_sent = True
        head = _head(self.id, "chat.completion.chunk", self.created, self.model)
        return [{**head, "choices": [], "usage": usage.to_chat()}]

    def _arguments_chunk(self, index: int, text: str) -> Chunk:
        return self._chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})

    def _chunk(self, delta: Chunk, reason: FinishReason | None = None) -> Chunk:
        chunk = _head(self.id, "chat.completion.chunk", self.created, self.model)
        # ``finish_reason`` must be null here: OpenAI's schema requires the field, and simple clients treat
        # any other value as the end.
        chunk["choices"] = [{"index": self.index, "delta": delta, "finish_reason": reason}]
        if self.include_usage:
            chunk["usage"] = None  # as in OpenAI's streams: null in all chunks except the last
        return chunk

    def _reasoning(self, text: str) -> Chunk:
        return dict.fromkeys(self._reasoning_fields, text)

    def response(self, message: Message, *more: Message, usage: AnyUsage | None = None) -> Chunk:
        """Return a response that is not streamed, with one choice for each message."""
        choices = [self._choice(index, choice) for index, choice in enumerate((message, *more))]
        out = _head(self.id, "chat.completion", self.created, self.model)
        out["choices"] = choices
        if usage is not None:
            out["usage"] = as_usage(usage).to_chat()
        return out

    def _choice(self, index: int, message: Message) -> Chunk:
        sent = SentCalls(self._parser)
        sent.malformed = any(
            isinstance(part, BrokenCall) and part.status == "malformed" for part in message.parts
        )
        field = self.options.reasoning_field
        body = message_to_chat(message, broken="poison", reasoning_field=field)
        reason = self._reported(sent.finish_reason(reason_of(message)))
        return {"index": index, "message": body, "finish_reason": reason}


def error_chunk(
    message: str, *, kind: str = "server_error", param: str | None = None, code: str | None = None
) -> Chunk:
    """Return an error object in the format of OpenAI's APIs."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _head(id: str, kind: str, created: int, model: str) -> Chunk:
    return {"id": id, "object": kind, "created": created, "model": model}


def _call(id: str, name: str, arguments: str) -> Chunk:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
