"""The gate of ``commit=call``: only complete, valid calls get through, and whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...events import (
    CallArgs,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Markup,
    Text,
    channel_behind,
)

if TYPE_CHECKING:
    from ...events import Channel
    from ...policies import Policies
    from ..machine import Machine


class CommitBuffer:
    """Holds the events of the open call; one that fails never shows as a call, unless it is to be kept."""

    __slots__ = ("_channel", "_held", "_machine", "_policies", "_taken")

    def __init__(self, machine: Machine, policies: Policies, channel: Channel) -> None:
        self._machine = machine
        self._policies = policies
        self._channel: Channel = channel  # of what comes next
        self._held: list[Event] = []
        self._taken = 0  # calls that have not got through

    @property
    def pending(self) -> int:
        """Characters that the events held account for."""
        return self._held[-1].end - self._held[0].start if self._held else 0

    def push(self, events: list[Event]) -> list[Event]:
        """What may pass of these events and of those held."""
        out: list[Event] = []
        pending = self._held
        for event in events:
            if pending or isinstance(event, CallStart):
                pending.append(event)
                if isinstance(event, CallEnd):
                    out += self._release(event)
                    self._held = pending = []
            else:
                self._channel = channel_behind(event, self._channel)
                out.append(event)
        return out

    def _release(self, end: CallEnd) -> list[Event]:
        start = self._held[0]
        assert isinstance(start, CallStart)  # noqa: S101 - a held call begins with it
        notes: list[Event] = [
            event for event in self._held if isinstance(event, Diagnostic) and event.kind != "late_id"
        ]
        if end.status != "complete":
            policy = self._policies.for_broken(end.status)
            if policy not in ("keep", "error"):
                return self._take(start, end, notes, shown=policy != "drop")
        late = [
            event.detail for event in self._held if isinstance(event, Diagnostic) and event.kind == "late_id"
        ]
        native = self._machine.use_native_id(late[-1]) if late else ""
        # Indices stay dense: that of a call that was taken is the next one's.
        index = end.index - self._taken
        arguments = "".join(event.json for event in self._held if isinstance(event, CallArgs))
        return [
            CallStart(
                index,
                start.name,
                native or start.id,
                start.start,
                start.end,
                start.name_start,
                start.name_end,
            ),
            CallArgs(index, arguments, start.end, end.start),
            *notes,
            CallEnd(index, end.status, end.raw, end.start, end.end, end.args_start, end.args_end),
        ]

    def _take(self, start: CallStart, end: CallEnd, notes: list[Event], *, shown: bool) -> list[Event]:
        """The call is none."""
        self._taken += 1
        for note in notes:
            if isinstance(note, Diagnostic) and note.kind == f"{end.status}_call":
                note.raw = end.raw
        if shown:
            return [*notes, Text(self._channel, end.raw, start.start, end.end)]
        return [*notes, Markup("cut", end.raw, start.start, end.end)]
