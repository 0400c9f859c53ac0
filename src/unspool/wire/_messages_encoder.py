"""Encoder for Anthropic Messages, streamed and not streamed.

Clients lose or reject blocks that overlap, so the encoder closes a block before it opens the next, never
reuses an index, and sends only deltas of the block's own type.  At any time, the joined ``partial_json``
deltas of a block can be completed to valid JSON.  The exception is a call that turns out to be malformed or
truncated, because its JSON is poisoned (see ``_core/conversions/make_broken_arguments_unparsable.py``).

In a response that is not streamed, ``input`` is an object, which cannot be poisoned.  Such a response
therefore omits truncated calls, and a malformed call turns the whole response into an error.  A caller that
needs numbers and duplicate keys exactly as the model wrote them can pass a ``load_arguments`` function that
returns the original JSON text, for example as ``msgspec.Raw``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from .._core.conversions.chat import reason_of
from .._core.conversions.make_broken_arguments_unparsable import RESPONSE_ADVICE
from .._core.conversions.messages import SIGNATURE, message_to_blocks
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
from ..message import Message
from ..parser import Parser
from ._base_encoder import Chunk, StreamEncoder
from ._compatibility_options import WireChoice
from ._usage import AnyUsage, Usage

STOP_REASONS: Final = {
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "stop": "end_turn",
    "content_filter": "refusal",
}
"""The API's stop reason for each finish reason."""
_MESSAGE_ID: Final = IdFormat("msg_{random}")
_BLOCKS: Final[dict[str, Chunk]] = {
    "content": {"type": "text", "text": ""},
    "reasoning": {"type": "thinking", "thinking": "", "signature": ""},
}


class MessagesStream(StreamEncoder):
    """Encoder that turns the events of a parser into the events of a Messages stream."""

    def __init__(
        self,
        parser: Parser,
        *,
        model: str = "",
        options: WireChoice | None = None,
        id: str | None = None,
        load_arguments: Callable[[str], object] = json.loads,
    ) -> None:
        """Create an encoder.

        :param load_arguments: function that converts a call's arguments from JSON text to ``input``.
        """
        super().__init__(parser, model, options)
        self.id = id or _MESSAGE_ID.new("", 0)
        """Id of the message."""
        self.stop_sequence: str | None = None
        """Stop sequence that ended the output; set it before the last events are encoded."""
        self._load_arguments = load_arguments
        self._block_index = -1
        self._open = ""
        """Channel or call of the open block; empty if no block is open."""
        self._started = False

    def feed(self, events: Iterable[Event], *, usage: AnyUsage | None = None) -> list[Chunk]:
        """Return stream events for parser events; the first call also opens the stream."""
        self._count(usage)
        out: list[Chunk] = []
        if not self._started:
            self._started = True
            out.append({"type": "message_start", "message": self._message()})
        for event in self._filter.feed(events):
            if self._closed and self._skips(event):
                break
            if isinstance(event, Text):
                if event.text:
                    self._encode_text(event, out)
            elif isinstance(event, CallArgs):
                arguments = self._calls.add_arguments(event.json) if event.json else ""
                if arguments:
                    out.append(self._input_delta(arguments))
            elif isinstance(event, Diagnostic):
                self._fail_if(self._calls.record_diagnostic(event), out)
            elif isinstance(event, (CallStart, CallEnd, Finish)):
                self._encode_boundary(event, out)
        return out

    def _encode_boundary(self, event: CallStart | CallEnd | Finish, out: list[Chunk]) -> None:
        """Encode the start or end of a call, or the end of the output."""
        if isinstance(event, CallStart):
            self._calls.open_call(event)
            self._open_block(f"call {event.index}", _tool_use(event.id, event.name, {}), out)
        elif self._fail_if(self._calls.policy_error(event), out):
            pass
        elif isinstance(event, Finish):
            self._finish(out)
        else:
            rest = self._calls.flush()
            ending = self._calls.close_call(event.status)
            # A complete call without arguments needs no "{}", because the block starts with an empty object.
            if event.status != "complete":
                rest += ending
            if rest:
                out.append(self._input_delta(rest))
            self._close_block(out)

    def _fail_if(self, error: MalformedOutput | None, out: list[Chunk]) -> bool:
        """Close the stream with the error, if there is one; return whether there is one."""
        if error is None:
            return False
        self.failed = self._closed = True
        out.append(error_event(str(error)))
        return True

    def _input_delta(self, text: str) -> Chunk:
        return self._delta({"type": "input_json_delta", "partial_json": text})

    def keep_alive(self) -> Chunk:
        """Return a ping, which keeps the connection alive; clients ignore it."""
        return {"type": "ping"}

    def response(self, message: Message, *, usage: AnyUsage | None = None) -> Chunk:
        """Return a response that is not streamed.

        :raises MalformedOutput: if a call is malformed, because it cannot be expressed in this response.
        """
        self._count(usage)
        out = self._message()
        out["content"] = message_to_blocks(
            message, broken="poison", load_arguments=self._load_arguments, advice=RESPONSE_ADVICE
        )
        out |= self._stop_fields(self._reported(reason_of(message)))
        out["usage"] = self._usage()
        return out

    def _message(self) -> Chunk:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**self._usage(), "output_tokens": 0},
        }

    def _stop_fields(self, reason: FinishReason) -> Chunk:
        """Return the fields ``stop_reason`` and ``stop_sequence``, which say why the message ended."""
        return {
            "stop_reason": STOP_REASONS[reason] if self.stop_sequence is None else "stop_sequence",
            "stop_sequence": self.stop_sequence,
        }

    def _usage(self) -> Chunk:
        return (self.usage or Usage()).to_messages()

    def _encode_text(self, event: Text, out: list[Chunk]) -> None:
        if self._open != event.channel:
            self._open_block(event.channel, dict(_BLOCKS[event.channel]), out)
        if event.channel == "content":
            out.append(self._delta({"type": "text_delta", "text": event.text}))
        else:
            out.append(self._delta({"type": "thinking_delta", "thinking": event.text}))

    def _open_block(self, key: str, block: Chunk, out: list[Chunk]) -> None:
        self._close_block(out)
        self._open = key
        self._block_index += 1
        out.append({"type": "content_block_start", "index": self._block_index, "content_block": block})

    def _delta(self, delta: Chunk) -> Chunk:
        return {"type": "content_block_delta", "index": self._block_index, "delta": delta}

    def _close_block(self, out: list[Chunk]) -> None:
        if not self._open:
            return
        if self._open == "reasoning":
            out.append(self._delta({"type": "signature_delta", "signature": SIGNATURE}))
        out.append({"type": "content_block_stop", "index": self._block_index})
        self._open = ""

    def _finish(self, out: list[Chunk]) -> None:
        self._close_block(out)
        self._closed = True
        stop = self._stop_fields(self.finish_reason)
        out.append({"type": "message_delta", "delta": stop, "usage": self._usage()})
        out.append({"type": "message_stop"})


def error_event(
    message: str, *, kind: str = "api_error", details: Mapping[str, object] | None = None
) -> Chunk:
    """Return an error event in the format of the Messages API."""
    error: Chunk = {"type": kind, "message": message}
    if details is not None:
        error["details"] = dict(details)
    return {"type": "error", "error": error}


def _tool_use(id: str, name: str, value: object) -> Chunk:
    return {"type": "tool_use", "id": id, "name": name, "input": value}
