"""Deltas: the events of one output as an engine's server sends them on.

A server asks for one delta per step and takes nothing back, so the rules are
those of the wires: white space that is framing is left out, and a call that was
announced and turns out malformed or cut ends with poison (``wire/broken.py``),
so that no client runs it.  The whole answer is the same, pushed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
from ..parser import Parser
from ..wire._poisoned_calls import SentCalls


@dataclass(slots=True)
class CallDelta:
    """What a step brought of one call."""

    index: int
    """Its number among the calls of the output."""
    id: str | None
    """Its id and its name, in the delta that announces it."""
    name: str | None
    arguments: str
    """The next piece of its arguments."""


@dataclass(slots=True)
class Delta:
    """What a step brought."""

    reasoning: str = ""
    content: str = ""
    calls: list[CallDelta] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.reasoning or self.content or self.calls)


class Deltas:
    """Turns the events of one parser into deltas."""

    __slots__ = ("_calls", "_tidy", "called", "notes")

    def __init__(self, parser: Parser) -> None:
        self._tidy = parser.tidy()
        self._calls = SentCalls(parser)
        self.called = False
        """Whether there was a call so far."""
        self.notes: list[Diagnostic] = []
        """What was odd so far."""

    @property
    def finish_reason(self) -> FinishReason:
        """How the output ended, as far as it has come."""
        return self._calls.finish_reason(self._tidy.finish_reason)

    def push(self, events: Sequence[Event]) -> Delta:
        """What these events of the parser come to."""
        if len(events) == 1:  # the next piece of an argument, as nearly always where outputs are long
            (event,) = events
            if isinstance(event, CallArgs) and event.json:
                self._calls.add_arguments(event.json)
                return Delta("", "", [CallDelta(event.index, None, None, event.json)])
        delta = Delta()
        for event in self._tidy.push(events):
            if isinstance(event, Text):
                if event.channel == "content":
                    delta.content += event.text
                else:
                    delta.reasoning += event.text
            elif isinstance(event, CallArgs):
                if event.json:
                    self._calls.add_arguments(event.json)
                    _arguments(delta, event.index, event.json)
            elif isinstance(event, CallStart):
                self.called = True
                self._calls.open_call(event)
                delta.calls.append(CallDelta(event.index, event.id, event.name, ""))
            elif isinstance(event, Diagnostic):
                self._calls.record_diagnostic(event)
                self.notes.append(event)
            elif isinstance(event, (CallEnd, Finish)):
                self._end(event, delta)
        return delta

    def _end(self, event: CallEnd | Finish, delta: Delta) -> None:
        error = self._calls.policy_error(event)
        if error is not None:
            raise error
        if isinstance(event, CallEnd):
            ending = self._calls.close_call(event.status)
            if ending:
                _arguments(delta, event.index, ending)


def _arguments(delta: Delta, index: int, text: str) -> None:
    if delta.calls and delta.calls[-1].index == index:
        delta.calls[-1].arguments += text
    else:
        delta.calls.append(CallDelta(index, None, None, text))
