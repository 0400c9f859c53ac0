"""Conversion of parser events to the deltas that an engine's server sends.

A server sends one delta per step and cannot retract a delta.  Therefore, as in ``unspool.wire``:

* whitespace that is part of the output format is left out;
* if a call that the client has already seen turns out to be malformed or truncated, an invalid ending is
  added to its arguments (``_core/conversions/make_broken_arguments_unparsable.py``), so that no client runs
  the call.

The encoder can also encode a whole answer in one step, for answers that are not streamed.
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
from ..wire import SentCalls


@dataclass(slots=True)
class CallDelta:
    """The part of one call that a step adds."""

    index: int
    """Index of the call in the output: 0 for the first call, 1 for the second, and so on."""
    id: str | None
    """The id of the call in the call's first delta; None in later deltas."""
    name: str | None
    """The name of the function in the call's first delta; None in later deltas."""
    arguments: str
    """The next fragment of the arguments' JSON text."""


@dataclass(slots=True)
class Delta:
    """The text and the parts of calls that a step adds."""

    reasoning: str = ""
    content: str = ""
    calls: list[CallDelta] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.reasoning or self.content or self.calls)


class DeltaEncoder:
    """Encoder for the events of one parser."""

    __slots__ = ("_calls", "_whitespace", "diagnostics", "has_calls")

    def __init__(self, parser: Parser) -> None:
        self._whitespace = parser.tidy()
        self._calls = SentCalls(parser)
        self.has_calls = False
        """True if the output has had at least one call so far."""
        self.diagnostics: list[Diagnostic] = []
        """The diagnostics of the output so far."""

    @property
    def finish_reason(self) -> FinishReason:
        """The finish reason of the output so far."""
        return self._calls.finish_reason(self._whitespace.finish_reason)

    def feed(self, events: Sequence[Event]) -> Delta:
        """Encode the next events, and return them as one delta."""
        # Fast path: in long outputs, nearly every step has only one event, with a part of a call's arguments.
        if len(events) == 1:
            (event,) = events
            if isinstance(event, CallArgs) and event.json:
                self._calls.add_arguments(event.json)
                return Delta("", "", [CallDelta(event.index, None, None, event.json)])
        delta = Delta()
        for event in self._whitespace.feed(events):
            if isinstance(event, Text):
                if event.channel == "content":
                    delta.content += event.text
                else:
                    delta.reasoning += event.text
            elif isinstance(event, CallArgs):
                if event.json:
                    self._calls.add_arguments(event.json)
                    _append_arguments(delta, event.index, event.json)
            elif isinstance(event, CallStart):
                self.has_calls = True
                self._calls.open_call(event)
                delta.calls.append(CallDelta(event.index, event.id, event.name, ""))
            elif isinstance(event, Diagnostic):
                self._calls.record_diagnostic(event)
                self.diagnostics.append(event)
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
                _append_arguments(delta, event.index, ending)


def _append_arguments(delta: Delta, index: int, text: str) -> None:
    if delta.calls and delta.calls[-1].index == index:
        delta.calls[-1].arguments += text
    else:
        delta.calls.append(CallDelta(index, None, None, text))
