"""Tool calls that the upstream has parsed itself, merged with the parser's own calls.

Servers stream calls in different ways: some repeat the id and name in every delta, some give every call the
index 0, and some interleave the deltas of several calls.  In the output, one call follows another, and all
calls are numbered in one sequence.  Only one open call is streamed at a time; later calls and events wait in
a queue until it ends.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from .._core.arguments.json_value import json_kind
from ..dialects import OPENAI_ID
from ..errors import ProtocolError
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
from ._output_delta import CallDelta


class UpstreamCalls:
    """Calls of one choice that the upstream has parsed."""

    def __init__(self) -> None:
        self.used = False
        """True once the upstream has sent a call."""
        self._count = 0
        self._open: _Call | None = None
        self._calls: dict[int, _Call] = {}
        """Latest call for each index that the upstream uses."""
        self._queue: deque[_Call | Event] = deque()
        """Upstream calls and parser events that follow the open call."""
        self._parser_indices: dict[int, int] = {}
        """Output index of each call that the parser has found, keyed by the parser's own index."""
        self._finished = False

    def add(self, deltas: Sequence[CallDelta], at: int, parser_calls: int = 0) -> list[Event]:
        """Return events for the upstream's call deltas.

        :param at: offset in the output.
        :param parser_calls: number of calls that the parser found before the upstream's first call.
        """
        if not self.used:
            self.used = True
            self._count = parser_calls
        out: list[Event] = []
        for delta in deltas:
            call = self._calls.get(delta.index)
            if call is None or call.is_new_call(delta):
                call = self._calls[delta.index] = _Call(delta)
                self._queue.append(call)
            if call.ended and delta.arguments.strip():
                raise ProtocolError("the upstream sent more arguments for a call that had ended")
            if delta.arguments and not call.ended:
                call.add(delta.arguments)
                if call is self._open:
                    out.append(CallArgs(call.number, delta.arguments, at, at))
            self._advance(out, at)
        return out

    def follow(self, events: list[Event], at: int) -> list[Event]:
        """Queue the parser's events after the upstream's calls; return all events that can be sent now."""
        if not self.used:
            return events
        self._queue += events
        out: list[Event] = []
        self._advance(out, at)
        return out

    def finish(self, reason: FinishReason, events: list[Event], at: int) -> list[Event]:
        """End the output, and return the queued events, followed by the parser's last events."""
        if not self.used:
            return events
        self._finished = True
        out: list[Event] = []
        self._advance(out, at, reason)
        self._queue += events
        self._advance(out, at, reason)
        return out

    def _advance(self, out: list[Event], at: int, reason: FinishReason = "stop") -> None:
        """Append the queued calls and events to ``out``, up to a call that may receive more arguments."""
        # Each iteration ends the open call, if possible, and then handles the first entry of the queue.
        while True:
            call = self._open
            may_end = call is None or self._finished or (self._queue and call.may_end(self._queue[0]))
            if not may_end:
                return
            if call is not None:
                out.append(call.end(at, cut_off=reason == "length"))
                self._open = None
            if not self._queue:
                return
            first = self._queue.popleft()
            if isinstance(first, _Call):
                self._start(first, out, at)
            else:
                out.append(self._renumber(first))

    def _start(self, call: _Call, out: list[Event], at: int) -> None:
        call.number = self._count
        self._count += 1
        self._open = call
        out.append(CallStart(call.number, call.name, call.id or OPENAI_ID.new("", 0), at, at))
        if call.pieces:
            out.append(CallArgs(call.number, "".join(call.pieces), at, at))

    def _renumber(self, event: Event) -> Event:
        """Replace the parser's index of a call with the index in the output."""
        if isinstance(event, CallStart):
            self._parser_indices[event.index] = self._count
            self._count += 1
        if isinstance(event, (CallStart, CallArgs, CallEnd)):
            event.index = self._parser_indices[event.index]
        return event


class _Call:
    """Call that the upstream has parsed."""

    def __init__(self, first: CallDelta) -> None:
        if not first.name:
            raise ProtocolError("the upstream sent a call without a name")
        self.name = first.name
        self.id = first.id
        self.number = 0
        self.pieces: list[str] = []
        self.ended = False
        self._object = _Object()

    def is_new_call(self, delta: CallDelta) -> bool:
        """Return whether a delta with the same index starts another call."""
        if not delta.name:
            return False  # a delta without a name continues the same call
        if delta.name != self.name:
            return True
        is_complete = self.ended or self._object.complete
        if delta.id and self.id:
            # Some servers send a new id with every delta, so a new id alone does not start a call.
            return delta.id != self.id and (is_complete or not self.pieces)
        return is_complete and bool(delta.arguments.strip())

    def add(self, arguments: str) -> None:
        """Append a fragment of the arguments' JSON text."""
        self.pieces.append(arguments)
        self._object.feed(arguments)

    def may_end(self, follower: _Call | Event) -> bool:
        """Return whether this call may end before ``follower``, a call or an event, is sent."""
        if isinstance(follower, (Diagnostic, Finish)):
            return False  # these events may also occur inside a call
        if self._object.complete:
            return True
        # A call without arguments ends when the parser finds text or a call.  Whitespace and other upstream
        # calls do not end this call, because its arguments may still arrive.
        is_blank = isinstance(follower, Text) and not follower.text.strip()
        return not self.pieces and not is_blank and not isinstance(follower, _Call)

    def end(self, at: int, *, cut_off: bool) -> CallEnd:
        """End the call, and return its last event."""
        self.ended = True
        text = "".join(self.pieces)
        if (text and json_kind(text) == "{") or (not text and not cut_off):
            return CallEnd(self.number, "complete", "", at, at)
        return CallEnd(self.number, "truncated" if cut_off else "malformed", text, at, at)


_BRACKET_OR_QUOTE: Final = re.compile(r'[{}\[\]]|"')
_STRING_END: Final = re.compile(r'\\|"')


class _Object:
    """Incremental scanner that finds the end of a JSON object and reads every character only once."""

    def __init__(self) -> None:
        self.complete = False
        self._depth = 0
        self._in_string = False
        self._escaped = False
        """True after a backslash in a string."""

    def feed(self, text: str) -> None:
        """Scan more text."""
        at = 0
        while at < len(text):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            match = (_STRING_END if self._in_string else _BRACKET_OR_QUOTE).search(text, at)
            if match is None:
                return
            at = match.end()
            if self._in_string:
                self._escaped = match[0] == "\\"
                self._in_string = self._escaped
            elif match[0] == '"':
                self._in_string = True
            else:
                self._depth += 1 if match[0] in "{[" else -1
                self.complete = self._depth <= 0
