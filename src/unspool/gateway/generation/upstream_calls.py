"""Calls that an upstream has told apart by itself, in one numbering with ours.

Servers do it in many ways: they repeat id and name with every piece, number every
call 0, or write several calls at once.  What comes out is one call after the other.
A call streams while it is the first that is not over; what belongs behind it waits.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from ...dialects._id_format import OPENAI_ID
from ...events import (
    CallArgs,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    Text,
)
from ..http.errors import Failure
from ..http.json_decoding import is_object
from ..upstreams.base import CallDelta


class ForeignCalls:
    """The calls of one choice."""

    def __init__(self) -> None:
        self.used = False
        self._count = 0
        self._open: _Call | None = None
        self._calls: dict[int, _Call] = {}
        """By the upstream's number, the last call of that number."""
        self._waiting: deque[_Call | Event] = deque()
        """Calls and events of the parser that come behind the open call."""
        self._ours: dict[int, int] = {}
        self._over = False

    def take(self, pieces: Sequence[CallDelta], at: int, ours: int = 0) -> list[Event]:
        """Events for pieces of calls.

        :param ours: how many calls the parser has found before the first of these.
        """
        if not self.used:
            self.used = True
            self._count = ours
        out: list[Event] = []
        for piece in pieces:
            call = self._calls.get(piece.index)
            if call is None or call.is_another(piece):
                call = self._calls[piece.index] = _Call(piece)
                self._waiting.append(call)
            if call.ended and piece.arguments.strip():
                told = "the upstream went on with a call that was over"
                raise Failure("upstream", told, code="upstream_protocol")
            if piece.arguments and not call.ended:
                call.add(piece.arguments)
                if call is self._open:
                    out.append(CallArgs(call.number, piece.arguments, at, at))
            self._advance(out, at)
        return out

    def follow(self, events: list[Event], at: int) -> list[Event]:
        """Events of the parser, behind or between these calls, and their calls with the next numbers."""
        if not self.used:
            return events
        self._waiting += events
        out: list[Event] = []
        self._advance(out, at)
        return out

    def finish(self, reason: FinishReason, events: list[Event], at: int) -> list[Event]:
        """No more pieces follow; the last events of the parser."""
        if not self.used:
            return events
        self._over = True
        out: list[Event] = []
        self._advance(out, at, reason)
        self._waiting += events
        self._advance(out, at, reason)
        return out

    def _advance(self, out: list[Event], at: int, reason: FinishReason = "stop") -> None:
        while True:
            open_ = self._open
            may_end = open_ is None or self._over or (self._waiting and open_.may_end(self._waiting[0]))
            if not may_end:
                return
            if open_ is not None:
                out.append(open_.end(at, cut_off=reason == "length"))
                self._open = None
            if not self._waiting:
                return
            first = self._waiting.popleft()
            if isinstance(first, _Call):
                self._begin(first, out, at)
            else:
                out.append(self._numbered(first))

    def _begin(self, call: _Call, out: list[Event], at: int) -> None:
        call.number = self._count
        self._count += 1
        self._open = call
        out.append(CallStart(call.number, call.name, call.id or OPENAI_ID.new("", 0), at, at))
        if call.pieces:
            out.append(CallArgs(call.number, "".join(call.pieces), at, at))

    def _numbered(self, event: Event) -> Event:
        if isinstance(event, CallStart):
            self._ours[event.index] = self._count
            self._count += 1
        if isinstance(event, (CallStart, CallArgs, CallEnd)):
            event.index = self._ours[event.index]
        return event


class _Call:
    """One of them."""

    def __init__(self, first: CallDelta) -> None:
        if not first.name:
            told = "the upstream sent a call without a name"
            raise Failure("upstream", told, code="upstream_protocol")
        self.name = first.name
        self.id = first.id
        self.number = 0
        self.pieces: list[str] = []
        self.ended = False
        self._object = _Object()

    def is_another(self, piece: CallDelta) -> bool:
        """Whether a piece of the same number begins another call."""
        if not piece.name:
            return False  # it says nothing but more arguments
        if piece.name != self.name:
            return True
        over = self.ended or self._object.complete
        if piece.id and self.id:
            # Some make up a new id for every piece.
            return piece.id != self.id and (over or not self.pieces)
        return over and bool(piece.arguments.strip())

    def add(self, arguments: str) -> None:
        """More of its arguments."""
        self.pieces.append(arguments)
        self._object.feed(arguments)

    def may_end(self, follower: _Call | Event) -> bool:
        """Whether it is over, now that this follows it."""
        if isinstance(follower, (Diagnostic, Finish)):
            return False  # they say nothing of where they stand
        if self._object.complete:
            return True
        blank = isinstance(follower, Text) and not follower.text.strip()
        return not self.pieces and not blank and not isinstance(follower, _Call)

    def end(self, at: int, *, cut_off: bool) -> CallEnd:
        """It is over."""
        self.ended = True
        text = "".join(self.pieces)
        if (text and is_object(text)) or (not text and not cut_off):
            return CallEnd(self.number, "complete", "", at, at)
        return CallEnd(self.number, "truncated" if cut_off else "malformed", text, at, at)


_TOKEN: Final = re.compile(r'[{}\[\]]|"')
_STRING_END: Final = re.compile(r'\\|"')


class _Object:
    """Where a JSON object ends, as its text comes in: every character is looked at once."""

    def __init__(self) -> None:
        self.complete = False
        self._depth = 0
        self._inside = False
        """Inside a string."""
        self._escaped = False
        """Behind a backslash."""

    def feed(self, text: str) -> None:
        """More of the text."""
        at = 0
        while at < len(text):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_STRING_END if self._inside else _TOKEN).search(text, at)
            if found is None:
                return
            at = found.end()
            if self._inside:
                self._escaped = found[0] == "\\"
                self._inside = self._escaped
            elif found[0] == '"':
                self._inside = True
            else:
                self._depth += 1 if found[0] in "{[" else -1
                self.complete = self._depth <= 0
