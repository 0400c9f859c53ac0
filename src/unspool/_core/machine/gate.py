"""The gate of ``commit=call``: only complete, valid calls get through, and whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..values.events import CallArgs, CallEnd, CallStart, Event, Markup, Note, Text

if TYPE_CHECKING:
    from ..values.policies import Policies
    from .machine import Machine


class Gate:
    """Holds the events of the open call; one that fails never shows as a call."""

    __slots__ = ("_given", "_held", "_machine", "_policies")

    def __init__(self, machine: Machine, policies: Policies) -> None:
        self._machine = machine
        self._policies = policies
        self._held: list[Event] = []
        self._given = 0

    @property
    def held(self) -> int:
        """Characters that the events held account for."""
        return self._held[-1].end - self._held[0].start if self._held else 0

    def push(self, events: list[Event]) -> list[Event]:
        """What may pass of these events and of those held."""
        out: list[Event] = []
        held = self._held
        for event in events:
            if held or isinstance(event, CallStart):
                held.append(event)
                if isinstance(event, CallEnd):
                    out += self._release(event)
                    self._held = held = []
            else:
                out.append(event)
        return out

    def _release(self, end: CallEnd) -> list[Event]:
        start = self._held[0]
        assert isinstance(start, CallStart)  # noqa: S101 - a held call begins with it
        notes: list[Event] = [
            event for event in self._held if isinstance(event, Note) and event.kind != "late_id"
        ]
        if end.status != "complete":
            return self._fail(start, end, notes)
        late = [event.detail for event in self._held if isinstance(event, Note) and event.kind == "late_id"]
        native = self._machine.usable_id(late[-1]) if late else ""
        index = end.index + self._given
        arguments = "".join(event.json for event in self._held if isinstance(event, CallArgs))
        return [
            CallStart(index, start.name, native or start.id, start.start, start.end),
            CallArgs(index, arguments, start.end, end.start),
            *notes,
            CallEnd(index, "complete", "", end.start, end.end),
        ]

    def _fail(self, start: CallStart, end: CallEnd, notes: list[Event]) -> list[Event]:
        policies = self._policies
        policy = policies.malformed_call if end.status == "malformed" else policies.truncated_call
        if policy in ("keep", "error"):
            return self._held
        # Indices stay dense: this one is given to the next call.
        self._given -= 1
        for note in notes:
            if isinstance(note, Note) and note.kind == f"{end.status}_call":
                note.raw = end.raw
        if policy == "drop":
            return [*notes, Markup("cut", end.raw, start.start, end.end)]
        return [*notes, Text("content", end.raw, start.start, end.end)]
