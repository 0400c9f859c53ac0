"""Anthropic Messages, streamed and whole.

Blocks come strictly one after another: a block is closed before the next one
opens, its index is never used again, and a delta is always of its block's own
type, because clients lose or reject anything else.  What is sent as
``partial_json`` is at any time the beginning of a JSON value, unless a call that was
announced turns out malformed or is cut off: then it is spoilt (``broken.py``).  Not
streamed, a block's ``input`` is an object, which cannot be spoilt: a call that was
cut off is left out, and one that is malformed makes the whole response an error.
Whoever encodes the response may take that object as the text that the model wrote
(``load_arguments``), because numbers and duplicate keys do not survive Python's values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

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
from ..message import BrokenCall, Message, TextPart, ToolCall
from ..parser import Parser
from ._chat import Chunk, tidy_of
from ._poisoned_calls import SentCalls, as_object, cannot_say

STOP_REASONS: Final = {
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "stop": "end_turn",
    "content_filter": "refusal",
}
"""Finish reasons in this API's words."""
SIGNATURE: Final = "unspool"
"""Clients send a thinking block's signature back; it means nothing to us."""

_MESSAGE_ID: Final = IdFormat("msg_{random}")
_BLOCKS: Final[dict[str, Chunk]] = {
    "content": {"type": "text", "text": ""},
    "reasoning": {"type": "thinking", "thinking": "", "signature": ""},
}


class MessagesStream:
    """Turns the events of a parser into the events of a Messages stream."""

    def __init__(
        self,
        parser: Parser,
        *,
        model: str = "",
        id: str | None = None,
        input_tokens: int = 0,
        load_arguments: Callable[[str], object] = json.loads,
    ) -> None:
        """Prepare a stream.

        :param load_arguments: makes a block's ``input`` of arguments, which are the text of a JSON object.
        """
        self.model = model
        """The model's name, as the client is to see it."""
        self.id = id or _MESSAGE_ID.new("", 0)
        """Id of the message."""
        self.input_tokens = input_tokens
        """Length of the prompt; if it is known only later, set it before the last events."""
        self.stop_sequence: str | None = None
        """Set it if one of the request's stop sequences ended the output."""
        self.output_tokens = 0
        """Set it before the last events are encoded."""
        self._load_arguments = load_arguments
        self._tidy = tidy_of(parser)
        self._calls = SentCalls(parser)
        self.failed = False
        """The policies call the output an error; the stream has ended with it."""
        self._block = -1
        self._open = ""
        self._started = False
        self._finished = False

    @property
    def finish_reason(self) -> FinishReason:
        """How the output ended, as far as it has come, in the words of Chat Completions."""
        return self._calls.reason(self._tidy.finish_reason)

    def encode(self, events: Iterable[Event]) -> list[Chunk]:
        """The stream's events for these events of the parser; the first call opens the stream."""
        out: list[Chunk] = []
        if not self._started:
            self._started = True
            out.append({"type": "message_start", "message": self._message()})
        for event in self._tidy.push(events):
            if self.failed:
                break
            if self._finished:
                raise UsageError(f"{event!r} after Finish: every output needs a MessagesStream of its own")
            if isinstance(event, Text):
                if event.text:
                    self._text(event, out)
            elif isinstance(event, CallArgs):
                piece = self._calls.add(event.json) if event.json else ""
                if piece:
                    out.append(self._input(piece))
            elif isinstance(event, CallStart):
                self._calls.begin(event)
                self._begin(f"call {event.index}", _tool_use(event.id, event.name, {}), out)
            elif isinstance(event, Diagnostic):
                self._calls.note(event)
            elif isinstance(event, (CallEnd, Finish)):
                self._ends(event, out)
        return out

    def _ends(self, event: CallEnd | Finish, out: list[Chunk]) -> None:
        """A call is over, or the output is."""
        error = self._calls.error(event)
        if error is not None:
            self.failed = True
            out.append(error_event(str(error)))
        elif isinstance(event, Finish):
            self._finish(out)
        else:
            rest = self._calls.rest()
            ending = self._calls.ending(event.status)
            if event.status != "complete":
                rest += ending
            if rest:
                out.append(self._input(rest))
            self._end(out)

    def _input(self, text: str) -> Chunk:
        return self._delta({"type": "input_json_delta", "partial_json": text})

    def response(self, message: Message) -> Chunk:
        """The response that is not streamed.

        Raises ``MalformedOutput`` if a call is malformed: nothing in this response could tell.
        """
        out = self._message()
        for part in message.in_order():
            if isinstance(part, BrokenCall) and part.status == "malformed":
                raise cannot_say(part.name, part.raw)
        out["content"] = [
            self._whole_block(part)
            for part in message.in_order()
            if isinstance(part, ToolCall) or (isinstance(part, TextPart) and part.text)
        ]
        out |= self._stop(message.finish_reason)
        out["usage"] = self._usage()
        return out

    def _whole_block(self, part: TextPart | ToolCall) -> Chunk:
        if isinstance(part, ToolCall):
            value = as_object(part.name, part.arguments, self._load_arguments)
            return _tool_use(part.id, part.name, value)
        if part.channel == "reasoning":
            return {"type": "thinking", "thinking": part.text, "signature": SIGNATURE}
        return {"type": "text", "text": part.text}

    def _message(self) -> Chunk:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": self.input_tokens, "output_tokens": 0},
        }

    def _stop(self, reason: FinishReason) -> Chunk:
        """Why the message ended."""
        return {
            "stop_reason": STOP_REASONS[reason] if self.stop_sequence is None else "stop_sequence",
            "stop_sequence": self.stop_sequence,
        }

    def _usage(self) -> Chunk:
        return {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}

    def _text(self, event: Text, out: list[Chunk]) -> None:
        if self._open != event.channel:
            self._begin(event.channel, dict(_BLOCKS[event.channel]), out)
        if event.channel == "content":
            out.append(self._delta({"type": "text_delta", "text": event.text}))
        else:
            out.append(self._delta({"type": "thinking_delta", "thinking": event.text}))

    def _begin(self, kind: str, block: Chunk, out: list[Chunk]) -> None:
        self._end(out)
        self._open = kind
        self._block += 1
        out.append({"type": "content_block_start", "index": self._block, "content_block": block})

    def _delta(self, delta: Chunk) -> Chunk:
        return {"type": "content_block_delta", "index": self._block, "delta": delta}

    def _end(self, out: list[Chunk]) -> None:
        if not self._open:
            return
        if self._open == "reasoning":
            out.append(self._delta({"type": "signature_delta", "signature": SIGNATURE}))
        out.append({"type": "content_block_stop", "index": self._block})
        self._open = ""

    def _finish(self, out: list[Chunk]) -> None:
        self._end(out)
        self._finished = True
        out.append({"type": "message_delta", "delta": self._stop(self.finish_reason), "usage": self._usage()})
        out.append({"type": "message_stop"})


def messages_sse(chunk: Mapping[str, object]) -> str:
    r"""A stream event as a server-sent event; clients need its name on a line of its own.

    >>> messages_sse({"type": "message_stop"})
    'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    """
    return f"event: {chunk['type']}\ndata: {json.dumps(chunk, separators=(',', ':'))}\n\n"


def error_event(
    message: str, *, kind: str = "api_error", details: Mapping[str, object] | None = None
) -> Chunk:
    """An error as this API spells it."""
    error: Chunk = {"type": kind, "message": message}
    if details is not None:
        error["details"] = dict(details)
    return {"type": "error", "error": error}


def _tool_use(id: str, name: str, value: object) -> Chunk:
    return {"type": "tool_use", "id": id, "name": name, "input": value}
