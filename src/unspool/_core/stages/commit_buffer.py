"""Buffer for the policy ``commit="call"``: it passes on only complete and valid calls, each as a whole."""

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
    channel_after,
)

if TYPE_CHECKING:
    from ...events import Channel
    from ...policies import Policies
    from ..machine import Machine


class CommitBuffer:
    """Buffer for the events of the open call."""

    __slots__ = ("_channel", "_held", "_machine", "_policies", "_replaced")

    def __init__(self, machine: Machine, policies: Policies, channel: Channel) -> None:
        self._machine = machine
        self._policies = policies
        self._channel: Channel = channel  # of the text around the call
        self._held: list[Event] = []
        self._replaced = 0  # number of calls that were not passed on

    @property
    def pending(self) -> int:
        """Number of characters that the events in the buffer account for."""
        return self._held[-1].end - self._held[0].start if self._held else 0

    def push(self, events: list[Event]) -> list[Event]:
        """Take further events and return those that can be passed on now."""
        out: list[Event] = []
        held = self._held
        for event in events:
            if held or isinstance(event, CallStart):
                held.append(event)
                if isinstance(event, CallEnd):
                    out += self._release(event)
                    self._held = held = []
            else:
                self._channel = channel_after(event, self._channel)
                out.append(event)
        return out

    def _release(self, end: CallEnd) -> list[Event]:
        """Return the events of a call that has ended: as a call, as text or as removed markup."""
        start = self._held[0]
        assert isinstance(start, CallStart)  # noqa: S101 - every call starts with it
        notes: list[Event] = [
            event for event in self._held if isinstance(event, Diagnostic) and event.kind != "late_id"
        ]
        if end.status != "complete":
            policy = self._policies.for_broken(end.status)
            if policy not in ("keep", "error"):
                return self._replace(start, end, notes, as_text=policy != "drop")
        late = [
            event.detail for event in self._held if isinstance(event, Diagnostic) and event.kind == "late_id"
        ]
        native = self._machine.use_native_id(late[-1]) if late else ""
        # Clients expect consecutive indices, so skip the calls that were not passed on.
        index = end.index - self._replaced
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

    def _replace(self, start: CallStart, end: CallEnd, notes: list[Event], *, as_text: bool) -> list[Event]:
        """Return text or removed markup in place of a call."""
        self._replaced += 1
        for note in notes:
            if isinstance(note, Diagnostic) and note.kind == f"{end.status}_call":
                note.raw = end.raw
        if as_text:
            return [*notes, Text(self._channel, end.raw, start.start, end.end)]
        return [*notes, Markup("cut", end.raw, start.start, end.end)]
