"""Buffer for the policy ``commit="call"``, which holds back each call until it is complete."""

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
    """Buffer that holds back the events of a call until the call ends."""

    __slots__ = ("_channel", "_held", "_machine", "_policies", "_replaced")

    def __init__(self, machine: Machine, policies: Policies, channel: Channel) -> None:
        self._machine = machine
        self._policies = policies
        self._channel: Channel = channel  # channel of the text around the call
        self._held: list[Event] = []
        self._replaced = 0  # number of broken calls that were removed or replaced with text

    @property
    def pending(self) -> int:
        """Number of characters in the spans of the events that are held back."""
        return self._held[-1].end - self._held[0].start if self._held else 0

    def feed(self, events: list[Event]) -> list[Event]:
        """Take further events, and return the events that no longer need to be held back."""
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
        """Return the events of a call that has ended, or of the text or markup that replaces the call."""
        start = self._held[0]
        assert isinstance(start, CallStart)  # noqa: S101 - `feed` starts to hold back events at a `CallStart`
        diagnostics: list[Event] = [
            event for event in self._held if isinstance(event, Diagnostic) and event.kind != "late_id"
        ]
        if end.status != "complete":
            policy = self._policies.for_broken(end.status)
            if policy not in ("call", "error"):
                return self._replace(start, end, diagnostics, as_text=policy != "drop")
        # `CallStart` is still held back, so it can contain an id that the model wrote after the arguments.
        late = [
            event.detail for event in self._held if isinstance(event, Diagnostic) and event.kind == "late_id"
        ]
        native = self._machine.use_native_id(late[-1]) if late else ""
        # Clients expect consecutive indices, so do not count the calls that were replaced.
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
            *diagnostics,
            CallEnd(index, end.status, end.raw, end.start, end.end, end.args_start, end.args_end),
        ]

    def _replace(
        self, start: CallStart, end: CallEnd, diagnostics: list[Event], *, as_text: bool
    ) -> list[Event]:
        """Return text or removed markup in place of a call."""
        self._replaced += 1
        for note in diagnostics:
            if isinstance(note, Diagnostic) and note.kind == f"{end.status}_call":
                note.raw = end.raw
        if as_text:
            return [*diagnostics, Text(self._channel, end.raw, start.start, end.end)]
        return [*diagnostics, Markup("cut", end.raw, start.start, end.end)]
