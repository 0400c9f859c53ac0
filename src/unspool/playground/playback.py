"""An output played as a stream: all that there is to see at one position.

A position is a number of pieces that came in; behind the last one is the end.
Since chunks do not matter, whatever came in long ago is fed at once, and only the
last pieces one by one: what is seen is the same as if all of them had been, and a
step costs the same at the end of a long output as at its beginning, but for one
quick reading.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from .._core.token_ids.labels import BROKEN, KIND, Label, Stretch, stretches
from ..dialects._registry import ends_of_turn
from ..errors import MalformedOutput, UsageError, caret
from ..events import (
    DIAGNOSTIC_KINDS,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    event_fields,
    normalise,
)
from ..message import BrokenCall, Message, TextPart
from ..parser import Parser
from ..sample_outputs import pieces
from ..wire import ChatStream, MessagesStream, ResponsesStream
from .options import Setup, given

_WINDOW: Final = 48
"""Pieces that are fed one by one, if the request does not say."""
_KINDS: Final = [label.name.lower() for label in Label]
_MODEL: Final = "playground"
_WIRES: Final[Mapping[str, Callable[[Parser], ChatStream | MessagesStream | ResponsesStream]]] = {
    "chat": lambda parser: ChatStream(parser, model=_MODEL, id="chatcmpl-0", created=0),
    "messages": lambda parser: MessagesStream(parser, model=_MODEL, id="msg_0"),
    "responses": lambda parser: ResponsesStream(parser, model=_MODEL, id="resp_0", created=0),
}
"""The three APIs; what is random or of the moment is the same each time."""


def play(request: Mapping[str, Any]) -> dict[str, Any]:
    """What there is to see of an output at a position.

    Of the request, beside what ``Setup`` reads: ``chunk``, the length of a piece (0: pieces like tokens);
    ``position``, how many came in (null: those up to the character ``at``, or all, and the end);
    ``window``, how many of them are fed one by one (null: as many as are quickly done); ``apis``,
    whose chunks are wanted (null: all).
    """
    setup = Setup.of(request)
    ends = _ends(setup.text, given(request, "chunk", int, 0))
    steps = len(ends)
    at = given(request, "at", int, -1)
    usual = steps + 1 if at < 0 else bisect_left(ends, at) + (at > 0)
    position = max(0, min(given(request, "position", int, usual), steps + 1))
    came = min(position, steps)
    first = max(0, came - max(0, given(request, "window", int, _WINDOW)))
    stage = _Stage(setup, given(request, "apis", list, [*_WIRES]))
    stage.skip(ends[first - 1] if first else 0)
    for step in range(first, came):
        stage.feed(ends[step - 1] if step else 0, ends[step], step + 1)
    if position > steps:
        stage.finish(steps + 1)
    return {"steps": steps, "position": position, "earlier": first, **stage.seen()}


@lru_cache(maxsize=2)
def _ends(text: str, length: int) -> Sequence[int]:
    """Where the pieces end; each step asks for the same ones."""
    if length < 0:
        raise UsageError(f"chunk={length}: give the length of a piece, or 0 for pieces like tokens")
    if length:
        return [*range(length, len(text), length), *([len(text)] if text else [])]
    return list(accumulate(map(len, pieces(text))))


class _Stage:
    """A parser, and everyone who follows it."""

    def __init__(self, setup: Setup, apis: list[Any]) -> None:
        self._setup = setup
        parser = self._parser = setup.parser()
        self._fold = parser.fold(source=setup.text)
        self._wires = {api: wire(parser) for api, wire in _WIRES.items() if api in apis}
        self._chunks: dict[str, list[dict[str, Any]]] = {api: [] for api in self._wires}
        self._events: list[Event] = []
        self._listed: list[dict[str, Any]] = []
        self._shown: list[Event] = []
        self._error: MalformedOutput | None = None
        self._fed = 0
        self._finished = False

    def skip(self, end: int) -> None:
        """Feed what came in long ago, at once."""
        if end:
            events = normalise(self._parser.feed(self._setup.text[:end]))
            self._take(events, end)
            self._listed += [{**event_fields(event), "step": 0} for event in events]

    def feed(self, start: int, end: int, step: int) -> None:
        """Feed a piece."""
        self._follow(self._parser.feed(self._setup.text[start:end]), end, step)

    def finish(self, step: int) -> None:
        """Nothing follows."""
        self._follow(self._parser.finish(self._setup.finish_reason), self._fed, step)
        self._finished = True

    def _follow(self, events: list[Event], end: int, step: int) -> None:
        for api, chunks in self._take(events, end).items():
            self._chunks[api] += [{"step": step, "chunk": chunk} for chunk in chunks]
        self._listed += [{**event_fields(event), "step": step} for event in events]

    def _take(self, events: list[Event], end: int) -> dict[str, Any]:
        self._fed = end
        self._events += events
        if self._error is None:
            try:
                self._shown += self._fold.push(events)
            except MalformedOutput as error:
                self._error = error
                self._shown = self._parser.tidy().push(self._events)  # the fold has lost count
        else:
            self._shown += events
        return {api: wire.encode(events) for api, wire in self._wires.items()}

    def seen(self) -> dict[str, Any]:
        """All that there is to see."""
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
            "events": self._listed,
            "message": None if message is None else self._told(message),
            "diagnostics": self._diagnostics(message),
            "chunks": self._chunks,
        }

    def _message(self) -> Message | None:
        try:
            return None if self._error is not None else self._fold.message()
        except MalformedOutput as error:
            self._error = error
            return None

    def _told(self, message: Message) -> dict[str, Any]:
        states = self._states()
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

    def _states(self) -> Iterator[str]:
        """How the calls ended, those that have begun."""
        states: dict[int, str] = {}
        for event in self._shown:
            if isinstance(event, CallStart):
                states[event.index] = "open"
            elif isinstance(event, CallEnd):
                states[event.index] = event.status
        return iter(states.values())

    def _diagnostics(self, message: Message | None) -> list[dict[str, Any]]:
        found = () if message is None else message.diagnostics
        told = [self._diagnostic(diagnostic, self._place(diagnostic)) for diagnostic in found]
        error = self._error
        if error is not None:
            diagnostic = Diagnostic(error.kind, error.detail, error.start, error.end, error.raw)
            told.append({**self._diagnostic(diagnostic, error.at), "error": str(error)})
        return told

    def _place(self, diagnostic: Diagnostic) -> int:
        """Where it went wrong: of a broken call the problem has all of it, the note the place."""
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

    def _spans(self, decided: int) -> list[tuple[int, int, str, bool]]:
        """What the text is as far as that is decided: spans that tile it."""
        ends = ends_of_turn(self._parser.dialect)
        return _joined(stretches([*self._events, *self._open_call(decided)], self._shown, ends))

    def _open_call(self, decided: int) -> list[Event]:
        """An end for a call that has none yet, so that it is seen what there is of it."""
        for event in reversed(self._events):
            if isinstance(event, CallEnd):
                break
            if isinstance(event, CallStart):
                return [CallEnd(event.index, "complete", "", decided, decided, event.end, decided)]
        return []


def _joined(found: Iterable[Stretch]) -> list[tuple[int, int, str, bool]]:
    """Stretches as spans, neighbours of one kind as one."""
    spans: list[tuple[int, int, str, bool]] = []
    start = 0
    for end, label in found:
        if end <= start:
            continue
        kind, broken = _KINDS[label & KIND], bool(label & BROKEN)
        if spans and spans[-1][2:] == (kind, broken):
            spans[-1] = (spans[-1][0], end, kind, broken)
        else:
            spans.append((start, end, kind, broken))
        start = end
    return spans
