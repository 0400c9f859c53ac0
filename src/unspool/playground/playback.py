"""Playback of an output as a stream, which shows the complete state of the parser at any position.

The output is cut into pieces, which arrive one after another.  A position is the number of pieces that have
arrived; the position after the last piece stands for the end of the output.  Every request parses the output
again.  The events do not depend on how the output is cut, so all text except the last pieces is fed as one
chunk, which is fast even for long outputs.  Only the last pieces are fed to the parser one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from .._core.token_ids.labels import LABEL_MASK, Label, LabelFlag, Stretch, stretches
from ..dialects import ends_of_turn
from ..errors import MalformedOutput, UsageError, caret
from ..events import (
    DIAGNOSTIC_KINDS,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    normalise,
)
from ..message import BrokenCall, Message, TextPart
from ..parser import Parser
from ..sample_outputs import pieces
from ..wire import ChatStream, MessagesStream, ResponsesStream
from .request_fields import Setup, read_field

_WINDOW: Final = 48
"""Default number of the most recent pieces that are fed one by one."""
_KINDS: Final = [label.name.lower() for label in Label]
_MODEL: Final = "playground"
_WIRES: Final[Mapping[str, Callable[[Parser], ChatStream | MessagesStream | ResponsesStream]]] = {
    "chat": lambda parser: ChatStream(parser, model=_MODEL, id="chatcmpl-0", created=0),
    "messages": lambda parser: MessagesStream(parser, model=_MODEL, id="msg_0"),
    "responses": lambda parser: ResponsesStream(parser, model=_MODEL, id="resp_0", created=0),
}
"""Mapping from API names to functions that create the API's stream encoder, with fixed ids and times."""


def play(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of the parser, its events and its results at a position.

    The request has the fields of ``Setup``, and:

    * ``chunk``: the length of a piece in characters; 0 for pieces that are about as long as tokens.
    * ``position``: the number of pieces that have arrived; null for the end of the output.
    * ``at``: an alternative to ``position``: all pieces that begin before this offset have arrived.
    * ``window``: the number of the most recent pieces that are fed one by one; null for the default.
    * ``apis``: the APIs whose chunks are returned; null for all.
    """
    setup = Setup.of(request)
    ends = _ends(setup.text, read_field(request, "chunk", int, 0))
    steps = len(ends)
    at = read_field(request, "at", int, -1)
    default = steps + 1 if at < 0 else bisect_left(ends, at) + (at > 0)
    position = max(0, min(read_field(request, "position", int, default), steps + 1))
    arrived = min(position, steps)
    first = max(0, arrived - max(0, read_field(request, "window", int, _WINDOW)))
    playback = _Playback(setup, read_field(request, "apis", list, [*_WIRES]))
    playback.skip(ends[first - 1] if first else 0)
    for step in range(first, arrived):
        playback.feed(ends[step - 1] if step else 0, ends[step], step + 1)
    if position > steps:
        playback.finish(steps + 1)
    return {"steps": steps, "position": position, "earlier": first, **playback.state()}


@lru_cache(maxsize=2)
def _ends(text: str, length: int) -> Sequence[int]:
    """Return the offsets at which the pieces end; they are cached, because every request needs them."""
    if length < 0:
        raise UsageError(
            f"chunk={length}: pass the length of a piece, or 0 for pieces about as long as tokens"
        )
    if length:
        return [*range(length, len(text), length), *([len(text)] if text else [])]
    return list(accumulate(map(len, pieces(text))))


class _Playback:
    """Parser, together with the message builder and the API encoders that use the parser's events."""

    def __init__(self, setup: Setup, apis: list[Any]) -> None:
        self._setup = setup
        parser = self._parser = setup.parser()
        self._builder = parser.fold(source=setup.text)
        self._wires = {api: wire(parser) for api, wire in _WIRES.items() if api in apis}
        self._chunks: dict[str, list[dict[str, Any]]] = {api: [] for api in self._wires}
        self._events: list[Event] = []
        self._event_rows: list[dict[str, Any]] = []
        self._visible: list[Event] = []  # the events without formatting whitespace
        self._error: MalformedOutput | None = None
        self._fed = 0
        self._finished = False

    def skip(self, end: int) -> None:
        """Feed all text before the window as one chunk."""
        if end:
            events = normalise(self._parser.feed(self._setup.text[:end]))
            self._take(events, end)
            self._event_rows += [{**event.to_dict(), "step": 0} for event in events]

    def feed(self, start: int, end: int, step: int) -> None:
        """Feed one piece of the output."""
        self._record(self._parser.feed(self._setup.text[start:end]), end, step)

    def finish(self, step: int) -> None:
        """End the output."""
        self._record(self._parser.finish(self._setup.finish_reason), self._fed, step)
        self._finished = True

    def _record(self, events: list[Event], end: int, step: int) -> None:
        for api, chunks in self._take(events, end).items():
            self._chunks[api] += [{"step": step, "chunk": chunk} for chunk in chunks]
        self._event_rows += [{**event.to_dict(), "step": step} for event in events]

    def _take(self, events: list[Event], end: int) -> dict[str, Any]:
        self._fed = end
        self._events += events
        if self._error is None:
            try:
                self._visible += self._builder.feed(events)
            except MalformedOutput as error:
                self._error = error
                # The builder raised an error instead of returning the events without whitespace, so filter
                # all events again.
                self._visible = self._parser.tidy().feed(self._events)
        else:
            self._visible += events
        return {api: wire.feed(events) for api, wire in self._wires.items()}

    def state(self) -> dict[str, Any]:
        """Return the state of the parser and all results so far, as JSON."""
        decided = max((event.end for event in self._events), default=0)
        message = self._message()
        return {
            "fed": self._fed,
            "decided": decided,
            "pending": self._fed - decided,
            "max_pending": self._parser.max_pending,
            "mode": "finished" if self._finished else self._parser.mode,
            "start_channel": self._parser.start_channel,
            "dialect": self._parser.dialect.name,
            "spans": self._spans(decided),
            "events": self._event_rows,
            "message": None if message is None else self._message_fields(message),
            "diagnostics": self._diagnostics(message),
            "chunks": self._chunks,
        }

    def _message(self) -> Message | None:
        try:
            return None if self._error is not None else self._builder.message
        except MalformedOutput as error:
            self._error = error
            return None

    def _message_fields(self, message: Message) -> dict[str, Any]:
        states = self._call_states()
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                parts.append({"kind": part.channel, "text": part.text})
                continue
            call = {"kind": "call", "id": part.id, "name": part.name, "arguments": part.arguments}
            raw = part.raw if isinstance(part, BrokenCall) else ""
            parts.append({**call, "status": next(states, "complete"), "raw": raw})
        return {
            "reasoning": message.reasoning,
            "content": message.content,
            "tool_calls": [
                {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
            ],
            "finish_reason": message.finish_reason if self._finished else None,
            "parts": parts,
        }

    def _call_states(self) -> Iterator[str]:
        """Yield the status of each call so far, in order; the status of an unfinished call is ``open``."""
        states: dict[int, str] = {}
        for event in self._visible:
            if isinstance(event, CallStart):
                states[event.index] = "open"
            elif isinstance(event, CallEnd):
                states[event.index] = event.status
        return iter(states.values())

    def _diagnostics(self, message: Message | None) -> list[dict[str, Any]]:
        diagnostics = () if message is None else message.diagnostics
        rows = [self._diagnostic(diagnostic, self._error_offset(diagnostic)) for diagnostic in diagnostics]
        error = self._error
        if error is not None:
            diagnostic = Diagnostic(error.kind, error.detail, error.start, error.end, error.raw)
            rows.append({**self._diagnostic(diagnostic, error.at), "error": str(error)})
        return rows

    def _error_offset(self, diagnostic: Diagnostic) -> int:
        """Return the offset of the error that a diagnostic of the message describes.

        The diagnostic in the message has the span of the whole call.  The same diagnostic among the events
        starts at the error.
        """
        for event in reversed(self._events):
            if (
                isinstance(event, Diagnostic)
                and (event.kind, event.detail) == (diagnostic.kind, diagnostic.detail)
                and diagnostic.start <= event.start <= diagnostic.end
            ):
                return event.start
        return diagnostic.start

    def _diagnostic(self, diagnostic: Diagnostic, at: int) -> dict[str, Any]:
        return {
            "kind": diagnostic.kind,
            "means": DIAGNOSTIC_KINDS.get(diagnostic.kind, ""),
            "detail": diagnostic.detail,
            "start": diagnostic.start,
            "end": diagnostic.end,
            "at": at,
            "caret": caret(self._setup.text, at),
        }

    def _spans(self, end: int) -> list[tuple[int, int, str, bool]]:
        """Return the labelled spans of the text up to ``end``, without gaps between them."""
        ends = ends_of_turn(self._parser.dialect)
        return _join_spans(stretches([*self._events, *self._open_call(end)], self._visible, ends))

    def _open_call(self, end: int) -> list[Event]:
        """Return a ``CallEnd`` for the unfinished call, if any, so that the call's text gets a label."""
        for event in reversed(self._events):
            if isinstance(event, CallEnd):
                break
            if isinstance(event, CallStart):
                return [CallEnd(event.index, "complete", "", end, end, event.end, end)]
        return []


def _join_spans(items: Iterable[Stretch]) -> list[tuple[int, int, str, bool]]:
    """Return the spans as tuples; adjacent spans with equal labels are joined."""
    spans: list[tuple[int, int, str, bool]] = []
    start = 0
    for end, label in items:
        if end <= start:
            continue
        kind, broken = _KINDS[label & LABEL_MASK], bool(label & LabelFlag.BROKEN)
        if spans and spans[-1][2:] == (kind, broken):
            spans[-1] = (spans[-1][0], end, kind, broken)
        else:
            spans.append((start, end, kind, broken))
        start = end
    return spans
