"""The gate of ``commit=call``: only complete, valid calls get through, and whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._events import CallArgs, CallEnd, CallStart, Event, Note, Text

if TYPE_CHECKING:
    from ._machine import Machine


class Gate:
    """Holds the events of the open call; a call that fails becomes text."""

    __slots__ = ("_given", "_held", "_machine")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._held: list[Event] = []
        self._given = 0

    def push(self, events: Iterable[Event]) -> list[Event]:
        """What may pass of these events and of those held."""
        out: list[Event] = []
        for event in events:
            if isinstance(event, CallStart) or self._held:
                self._held.append(event)
                if isinstance(event, CallEnd):
                    out += self._release(event)
                    self._held = []
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
            # Indices stay dense: this one is given to the next call.
            self._given -= 1
            return [*notes, Text("content", end.raw, start.start, end.end)]
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
