"""The ledger: what has come in, and the events that account for it.

Only this file moves the buffer, and every character leaves it through a method
that makes exactly one event for what it takes.  That the spans of what the machine
gives tile its input is therefore a property of this file alone;
``tests/core/test_ledger.py`` holds it to that.

``buf`` is what is not accounted for; ``pos`` how far it is while the machine
reads, and 0 between two feeds.  What an envelope has consumed before the name of
its call is known leaves the buffer without an event: it is laid aside, and either
taken back or accounted for with the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..events import (
    CallArgs,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    Markup,
    Text,
)
from .mypyc_types import i64
from .scan.markers import MarkerSet

if TYPE_CHECKING:
    from ..events import Channel, FinishReason, MarkupKind, Status
    from .compiler.codec import Codec
    from .compiler.text_states import TextState
    from .machine import Machine


_NOTHING: Final = MarkerSet(())
BLOCK: Final = 16_384
"""So many characters of a call's text, or more, are joined into one piece."""


class Ledger:
    """Buffer, position, and events."""

    __slots__ = (
        "_args_end",
        "_args_start",
        "_aside",
        "_aside_length",
        "_base",
        "_blocks",
        "_called",
        "_channel",
        "_join_at",
        "_keep_raw",
        "_last",
        "_notes",
        "_out",
        "_raw",
        "_sign",
        "_source",
        "_watch",
        "buf",
        "cut_short",
        "index",
        "pos",
        "shown_in",
        "silent",
    )

    def __init__(self, *, base: int, keep_raw: bool) -> None:
        """``base``: offset of the first character that will come in; below 0 it is the prompt's."""
        self.buf = ""
        """What has come in and is in no event yet, but for what lies before ``pos``."""
        self.pos: i64 = 0
        """Everything before it is accounted for."""
        self.cut_short = False
        """The input is over because generation was stopped, not because the model had ended."""
        self._base: i64 = base  # offset of the buffer's first character in the output
        self._out: list[Event] = []
        # What goes on: text of a channel up to one of these literals, or what a codec reads.
        self._channel: Channel | None = None
        self._watch = _NOTHING
        self._sign = ""
        self._source: Codec | None = None
        self._last = ""  # the text that ends at the current position, or nothing behind markup
        self._aside: list[str] = []
        self._aside_length: i64 = 0  # of all of it: who asks what is held asks after every piece of input
        # Calls.
        self.index: i64 = -1
        """Number of the last call."""
        self.shown_in: Channel | None = None
        """Where the text of a silent call goes, if it is to be seen."""
        self.silent = False
        """The open call means 'no call': what it is made of is markup."""
        self._args_start: i64 = -1  # of the open call, if they have begun,
        self._args_end: i64 = -1  # ... and if they have ended
        self._called: list[str] = []  # the pieces of the last call
        self._keep_raw: Final = keep_raw
        self._raw: list[str] = []  # of the open call, in pieces as they came,
        self._blocks: list[str] = []  # ... and those before them, joined,
        self._join_at: i64 = BLOCK  # ... which is done when the output reaches this offset
        self._notes: list[Event] = []

    # -- what comes in, and what goes out

    def feed(self, text: str, machine: Machine) -> list[Event]:
        """The next piece of input: the events that account for what it decides.

        Most pieces of most outputs are plain text or the middle of an argument.  These are
        accounted for at once; for all others the machine, which this is the ledger of, decides.
        These are short cuts: without the one prose takes 3.1 times as long in the interpreter,
        without the other a long argument 2.1 times (``benchmarks/shortcuts.py``).
        """
        if not text:
            return []
        if self.buf:
            text = self.buf + text
            self.buf = ""
        channel = self._channel
        if channel is not None:
            # Where markers begin in several ways the sign is empty, and so is in every text.
            if self._sign in text:
                reach = self._watch.reach(text)
                if reach < 0:
                    return self._ask(machine, text)
                if reach < len(text):
                    self.buf = text[reach:]
                    if not reach:
                        return []
                    text = text[:reach]
            start = self._base
            self._base = end = start + len(text)
            self._last = text
            return [Text(channel, text, start, end)]
        source = self._source
        if source is None:
            return self._ask(machine, text)
        reach = source.step(text, 0, False)
        if source.done or source.error or source.notes:
            self.take(text)
            machine.resume(reach)
            return self.give()
        if reach < len(text):
            self.buf = text[reach:]
            if not reach and not source.text:
                return []
            text = text[:reach]
        start = self._base
        self._base = end = start + len(text)
        if self._keep_raw:
            self._raw.append(text)
            if end >= self._join_at:
                self._join_raw(end)
        return [CallArgs(self.index, source.text, start, end)]

    def _ask(self, machine: Machine, text: str) -> list[Event]:
        self.take(text)
        machine.read(final=False)
        return self.give()

    def let_flow(self, state: TextState | None, source: Codec | None) -> None:
        """What goes on from here, if nothing has to be decided first: text of a state, or arguments."""
        self._channel = None
        if state is not None:
            self._channel = state.channel
            self._watch = state.watch
            self._sign = state.watch.sign
        self._source = source

    def take(self, text: str) -> None:
        """``text`` is what was in the buffer and has come in; events from here on are new."""
        self._out = []
        self.buf = text

    def end_input(self, reason: FinishReason | None) -> None:
        """No more comes in, for this reason."""
        self.take(self.buf)
        self.cut_short = reason in ("length", "content_filter")

    def give(self) -> list[Event]:
        """The new events; what they account for leaves the buffer."""
        if self.pos:
            self._base += self.pos
            self.buf = self.buf[self.pos :]
            self.pos = 0
        return self._out

    @property
    def pending(self) -> int:
        """How many characters have come in that no event accounts for yet."""
        return self._base + len(self.buf) - max(self.accounted, 0)

    @property
    def called(self) -> str:
        """The last call as it was written, if that is kept; of a long one the beginning."""
        return "".join(self._called)

    @property
    def accounted(self) -> int:
        """Everything before this offset is in the span of some event."""
        return self._base + self.pos - self._aside_length

    @property
    def in_output(self) -> bool:
        """Whether what comes next is of the output, not of the prompt."""
        return self._base + self.pos >= 0

    @property
    def before(self) -> str:
        """The character of text before the current position; nothing behind markup."""
        return self._last[-1:]

    def stand(self, pending: str, before: str) -> None:
        """Begin as if a prompt had been read that ends with what is held."""
        self.buf = pending
        self._base = -len(pending)
        self._last = before

    # -- what is not decided

    def lay_aside(self, length: int) -> None:
        """Take this much out of the buffer, without an event."""
        end = self.pos + length
        self._aside.append(self.buf[self.pos : end])
        self._aside_length += length
        self._base += end
        self.buf = self.buf[end:]
        self.pos = 0

    def take_back(self) -> None:
        """Put what was laid aside in front of the buffer."""
        text = "".join(self._aside)
        self._aside.clear()
        self._aside_length = 0
        self._base += self.pos - len(text)
        self.buf = text + self.buf[self.pos :]
        self.pos = 0

    # -- events

    def text(self, channel: Channel | None, end: int) -> str:
        """Text from the current position up to ``end``; without a channel it is dropped."""
        pos = self.pos
        text = self.buf if pos == 0 and end == len(self.buf) else self.buf[pos:end]
        self.pos = end
        start = self._base + pos
        if channel is None:
            self._out.append(Markup("dropped", text, start, self._base + end))
        else:
            self._last = text
            self._out.append(Text(channel, text, start, self._base + end))
        return text

    def markup(self, kind: MarkupKind, length: int) -> None:
        """What only frames."""
        if not length:
            return
        start = self._base + self.pos
        text = self.buf[self.pos : self.pos + length]
        self.pos += length
        self._last = ""
        self._out.append(Markup(kind, text, start, start + length))

    def begin_call(self, name: str, id: str, length: int, name_from: int, name_to: int) -> None:
        """The commit point; ``length``: of the call's head, in which the name has its place.

        A silent call has no event of its own.
        """
        start = self._base + self.pos
        raw = self.buf[self.pos : self.pos + length]
        self.pos += length
        self._last = ""
        self._raw = [raw if start >= 0 else raw[-start:]]  # without what the prompt holds
        self._join_at = start + length + BLOCK
        self._args_start = self._args_end = -1
        if self.silent:
            self._pass_over(raw, start)
        else:
            self.index += 1
            self._out.append(
                CallStart(self.index, name, id, start, start + length, start + name_from, start + name_to)
            )

    def _pass_over(self, raw: str, start: int) -> None:
        """A part of a silent call: markup, or text."""
        if self.shown_in is None:
            self._out.append(Markup("call", raw, start, start + len(raw)))
        elif raw:
            self._last = raw
            self._out.append(Text(self.shown_in, raw, start, start + len(raw)))

    def count_from(self, last: int) -> None:
        """What came before was the prompt: this is the number of the last call."""
        self.index = last

    def args(self, json: str, length: int) -> None:
        """So much of the input belongs to the arguments, and comes to this JSON."""
        if not length and not json:
            return
        start = self._base + self.pos
        pos, self.pos = self.pos, self.pos + length
        if self._keep_raw or self.silent:
            raw = self.buf[pos : self.pos]
            if self.silent:
                self._pass_over(raw, start)
                return
            self._raw.append(raw if start >= 0 else raw[-start:])  # without what the prompt holds
            if start + length >= self._join_at:
                self._join_raw(start + length)
        self._out.append(CallArgs(self.index, json, start, start + length))

    def begin_arguments(self, at: int) -> None:
        """The arguments begin at this place of the buffer."""
        self._args_start = max(self._base + at, 0)  # without what the prompt holds

    def end_arguments(self, at: int) -> None:
        """They end before this place of the buffer, if they have not yet."""
        if self._args_end < 0:
            self._args_end = max(self._base + at, 0)

    def _join_raw(self, end: int) -> None:
        """What the open call is made of, in one piece: small strings cost many times their text."""
        self._join_at = end + BLOCK
        self._blocks.append("".join(self._raw))
        self._raw.clear()

    def end_call(self, status: Status, length: int) -> None:
        """The call is over; ``length``: of what closes it."""
        pos, self.pos = self.pos, self.pos + length
        start = self._base + pos
        if self._notes:
            self._out += self._notes
            self._notes = []
        if self.silent:
            self._pass_over(self.buf[pos : self.pos], start)
            self.shown_in = None
        else:
            whole = ""
            if status != "complete" and self._keep_raw:
                raw = self.buf[pos : self.pos]
                self._raw.append(raw if start >= 0 else raw[-start:])
                whole = "".join(self._blocks) + "".join(self._raw)
            args_end = self._args_end if self._args_end >= 0 else max(start, 0)
            args_start = self._args_start if self._args_start >= 0 else args_end
            self._out.append(CallEnd(self.index, status, whole, start, start + length, args_start, args_end))
        self._called = self._blocks[:1] if self._blocks else self._raw
        self._raw = []
        if self._blocks:
            self._blocks.clear()

    # -- notes, which account for nothing

    def note(self, kind: str, detail: str, ahead: int = 0) -> None:
        """Something is odd, so many characters ahead of the current position; of mere text nothing is."""
        if self.shown_in is None:
            at = max(self._base + self.pos + ahead, 0)
            self._out.append(Diagnostic(kind, detail, at, at))

    def note_with_end(self, kind: str, detail: str, at: int) -> None:
        """Something is odd at this place of the buffer.

        The note comes with the end of the call, so that it cuts nothing apart.
        """
        if self.shown_in is None:
            at = max(self._base + at, 0)
            self._notes.append(Diagnostic(kind, detail, at, at))

    def take_notes(self, codec: Codec) -> None:
        """What a codec has noted, with the end of the call; a place before the current one is this one."""
        for kind, detail, at in codec.notes:
            self.note_with_end(kind, detail, max(at, self.pos))
        codec.notes.clear()

    def finish(self, reason: FinishReason | None) -> None:
        """The stream is over."""
        self._out.append(Finish(reason, self._base + self.pos))
