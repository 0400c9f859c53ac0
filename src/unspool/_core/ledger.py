"""Ledger: the input buffer, and the events whose spans cover the input.

Theory of operation
-------------------

The ledger is passive.  ``Machine`` and ``OpenCall`` read ``buffer`` from ``position`` on, decide what a piece
of the input is (text, markup, arguments), and call one ledger method for each piece.  To *account for* a
piece of input is to emit an event whose span is this piece.  The ledger does not depend on dialects and never
calls the machine.

A *silent* call is not reported as a call: its input becomes markup or text.  Depending on the policies, a
call is silent if the request did not offer the called tool, or offered no tools at all.  ``null_calls``
contains names that a model uses to call nothing; a call to such a name is always silent.

====================  ==================================================================
``_base``             output offset of ``buffer[0]``; negative inside the prompt
``buffer``            input; events already account for the part before ``position``
``position``          index of the next input to account for; 0 between two feeds
``_events``           events since ``begin_feed``
``_set_aside``        input that was taken out of the buffer without an event; see
                      the method ``set_aside``
====================  ==================================================================

One feed is ``begin_feed``, then any number of ``emit_*``, ``start_call`` and ``end_call``,
then ``end_feed``.  If a whole piece of input is plain text or the middle of an argument, a single call of
``account_text`` or ``account_arguments`` replaces this sequence.

Invariants, which ``tests/core/test_ledger.py`` checks, in part by reading syntax trees:

* Only this module assigns ``buffer`` and ``position``, and only this module creates the
  events that account for input.
* Each method that moves ``position`` creates one event, whose span is exactly the consumed input.  The spans
  of all events of an output therefore tile the output.
"""

from __future__ import annotations

from functools import partial
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
from .mypyc_types import i64, mypyc_attr
from .scan.character_runs import COMPILED

if TYPE_CHECKING:
    from ..events import Channel, FinishReason, MarkupKind, Status

BLOCK: Final = 16_384
"""Number of characters after which pieces of a call's raw text are joined into one string."""
TEXT_BLOCK: Final = 4096
"""Number of characters after which pieces of text are searched for unread calls."""
CONTEXT: Final = 1024
"""Number of characters in front of a text that show whether the text is quoted."""
_new_text: Final = partial(object.__new__, Text)


@mypyc_attr(allow_interpreted_subclasses=True)
class TextObserver:
    """Receiver of the text of an output, which the ledger passes on in large pieces."""

    __slots__ = ("is_waiting",)

    def __init__(self) -> None:
        self.is_waiting: bool = False
        """True if every text is needed.

        If false, the ledger may leave out text without brackets and code fences, except its last characters.
        """

    def feed(self, channel: Channel, text: str, start: int) -> None:
        """Take more text of a channel, which begins at offset ``start`` of the output."""
        raise NotImplementedError

    def finish(self, *, has_answer: bool) -> list[Event]:
        """End the output, and return diagnostics about its text.

        :param has_answer: true if the output has content or calls.
        """
        raise NotImplementedError


class Ledger:
    """Input buffer, read position and new events of one output."""

    __slots__ = (
        "_args_end",
        "_args_start",
        "_base",
        "_blocks",
        "_deferred",
        "_events",
        "_has_content",
        "_join_at",
        "_keep_raw",
        "_last_call",
        "_last_text",
        "_raw",
        "_reports_late_ids",
        "_search_at",
        "_set_aside",
        "_set_aside_length",
        "_texts",
        "_unread_calls",
        "buffer",
        "call_is_silent",
        "cut_short",
        "index",
        "position",
        "silent_channel",
        "text_channel",
    )

    def __init__(
        self,
        *,
        base: int,
        keep_raw: bool,
        reports_late_ids: bool = True,
        unread_calls: TextObserver | None = None,
    ) -> None:
        """Create an empty ledger.

        :param base: the offset of the first input character; below 0 if it belongs to the prompt.
        :param keep_raw: keep the raw text of the open call, for ``CallEnd.raw``.
        :param reports_late_ids: emit a diagnostic if the id of a call follows the arguments.
        :param unread_calls: a detector that gets all text.
        """
        self.buffer = ""
        """Input that was read.  Events already account for the part before ``position``."""
        self.position: i64 = 0
        """Index in ``buffer`` of the first character that is not in the span of any event yet."""
        self.cut_short = False
        """True once the input has ended because generation was stopped, not because the model finished."""
        self._base: i64 = base
        self._reports_late_ids: Final = reports_late_ids
        self._events: list[Event] = []
        # Text directly in front of `position`: the pieces not yet searched for unread calls, and the
        # last piece that was.  Both are empty after markup.  Nothing else is done for each piece of text.
        self._texts: list[str] = []
        self._last_text = ""
        self._search_at: i64 = TEXT_BLOCK  # output offset at which the pieces are searched
        self.text_channel: Channel = "content"
        """Channel of the next text."""
        self._unread_calls: Final = unread_calls
        self._has_content = False  # true if content other than whitespace was searched
        self._set_aside: list[str] = []
        self._set_aside_length: i64 = 0  # stored because `pending` needs it after every feed
        # Calls.
        self.index: i64 = -1
        """Index of the last call; -1 before the first call."""
        self.silent_channel: Channel | None = None
        """Channel in which a call that is not reported is shown as text; None if such calls become markup."""
        self.call_is_silent = False
        """True while the open call is not reported as a call: its input becomes markup or text."""
        self._args_start: i64 = -1  # offset at which the open call's arguments start; -1: not known yet
        self._args_end: i64 = -1
        self._last_call: list[str] = []  # pieces of the last call's raw text
        # Raw text of the open call, in short pieces.  A short Python string takes many times the memory of
        # its characters, so the pieces are joined into a block after every BLOCK characters.
        self._keep_raw: Final = keep_raw
        self._raw: list[str] = []
        self._blocks: list[str] = []
        self._join_at: i64 = BLOCK  # output offset at which the next block is full
        self._deferred: list[Event] = []  # diagnostics that are emitted when the call ends

    # -- input and output

    def begin_feed(self, text: str) -> None:
        """Start a new list of events.  ``text`` is the old buffer followed by the new input."""
        self._events = []
        self.buffer = text

    def end_input(self, reason: FinishReason | None) -> None:
        """Start the last list of events, after the end of the input."""
        self.begin_feed(self.buffer)
        self.cut_short = reason in ("length", "content_filter")

    def end_feed(self) -> list[Event]:
        """Remove the input before ``position`` from the buffer, and return the new events."""
        if self.position:
            self._base += self.position
            self.buffer = self.buffer[self.position :]
            self.position = 0
        return self._events

    def take_buffer(self) -> str:
        """Return the buffer and empty it, so that new input can be appended."""
        text = self.buffer
        self.buffer = ""
        return text

    def hold(self, text: str) -> None:
        """Set the buffer to ``text``, the undecided end of the input."""
        self.buffer = text

    def account_text(self, channel: Channel, text: str) -> list[Event]:
        """Account for ``text``, which precedes the buffer, as text of a channel.

        This method does the work of a whole feed, for input in which no marker starts.
        """
        start = self._base
        self._base = end = start + len(text)
        self._texts.append(text)
        if end >= self._search_at:
            self._search_texts(end, is_end=False)
        if COMPILED:
            return [Text(channel, text, start, end)]
        # The interpreter takes a third longer for a class with an `__init__` method.
        event: Text = _new_text()
        event.channel = channel
        event.text = text
        event.start = start
        event.end = end
        return [event]

    def account_arguments(self, json: str, text: str) -> list[Event]:
        """Account for ``text``, which precedes the buffer, as arguments.

        This method does the work of a whole feed, for input from the middle of the arguments.

        :param json: the JSON text to which the codec has converted ``text``.
        """
        start = self._base
        self._base = end = start + len(text)
        if self._keep_raw:
            self._raw.append(text)
            if end >= self._join_at:
                self._join_raw(end)
        return [CallArgs(self.index, json, start, end)]

    @property
    def pending(self) -> int:
        """Number of input characters that are not part of any event yet."""
        return self._base + len(self.buffer) - max(self.accounted_to, 0)

    @property
    def accounted_to(self) -> int:
        """Output offset up to which every character is in the span of an event."""
        return self._base + self.position - self._set_aside_length

    @property
    def in_output(self) -> bool:
        """True if the next character belongs to the output, False if it belongs to the prompt."""
        return self._base + self.position >= 0

    @property
    def last_character(self) -> str:
        """Last character of the text directly before the current position; empty after markup."""
        return (self._texts[-1] if self._texts else self._last_text)[-1:]

    @property
    def last_call_text(self) -> str:
        """Raw text of the last call, if raw text is kept; only the first block of a long call."""
        return "".join(self._last_call)

    def continue_after_prompt(self, pending: str, last_character: str) -> None:
        """Start in the state after a prompt, without reading the prompt.

        :param pending: the undecided end of the prompt.
        :param last_character: the last text character before ``pending``.
        """
        self.buffer = pending
        self._base = -len(pending)
        self._last_text = last_character

    # -- undecided input

    def set_aside(self, length: int) -> None:
        """Take the next ``length`` characters out of the buffer without an event.

        A JSON object may contain megabytes of arguments before the function's name.  If the buffer grew until
        the name is found, feeding would take quadratic time.
        """
        end = self.position + length
        self._set_aside.append(self.buffer[self.position : end])
        self._set_aside_length += length
        self._base += end
        self.buffer = self.buffer[end:]
        self.position = 0

    def restore(self) -> None:
        """Put the input that was set aside back at the start of the buffer."""
        text = "".join(self._set_aside)
        self._set_aside.clear()
        self._set_aside_length = 0
        self._base += self.position - len(text)
        self.buffer = text + self.buffer[self.position :]
        self.position = 0

    # -- text and markup

    def emit_text(self, channel: Channel | None, end: int) -> str:
        """Account for the buffer up to index ``end`` as text, and return this text.

        Without a channel, the text becomes dropped markup.
        """
        position = self.position
        text = self.buffer if position == 0 and end == len(self.buffer) else self.buffer[position:end]
        self.position = end
        start = self._base + position
        if channel is None:
            self._end_text(start)
            self._events.append(Markup("dropped", text, start, self._base + end))
        else:
            if channel != self.text_channel:
                self._end_text(start)
                self.text_channel = channel
            self._texts.append(text)
            if self._base + end >= self._search_at:
                self._search_texts(self._base + end, is_end=False)
            self._events.append(Text(channel, text, start, self._base + end))
        return text

    def emit_markup(self, kind: MarkupKind, length: int) -> None:
        """Account for the next ``length`` characters as markup."""
        if not length:
            return
        start = self._base + self.position
        text = self.buffer[self.position : self.position + length]
        self.position += length
        self._end_text(start)
        self._events.append(Markup(kind, text, start, start + length))

    # -- unread calls

    def change_text_channel(self, channel: Channel) -> None:
        """Set the channel of the next text."""
        if channel != self.text_channel:
            self._end_text(self._base + self.position)
            self.text_channel = channel

    def _end_text(self, end: i64) -> None:
        """End the text, because something else begins at offset ``end``."""
        if self._texts:
            self._search_texts(end, is_end=True)
        self._last_text = ""

    def _search_texts(self, end: i64, *, is_end: bool) -> None:
        """Search the pieces of text, which end at offset ``end``, for unread calls.

        :param is_end: true if other text does not follow directly.
        """
        texts = self._texts
        self._texts = []
        self._last_text = texts[-1]
        self._search_at = end + TEXT_BLOCK
        unread_calls = self._unread_calls
        if unread_calls is None:
            return
        text = "".join(texts)
        start = end - len(text)
        if start < 0:  # the text begins in the prompt
            text = _in_output(text, start)
            start = 0
        if not self._has_content and self.text_channel == "content":
            self._has_content = not text.isspace()
        # Most text ends here, because no call could begin in it.  Only its end may be needed later.
        if not unread_calls.is_waiting and not _may_have_calls(text):
            if not is_end:
                self._texts.append(text[-CONTEXT:])
            return
        unread_calls.feed(self.text_channel, text, start)

    def _report_unread_calls(self) -> None:
        """Emit a diagnostic for each unread call in the output."""
        self._end_text(self._base + self.position)
        if self._unread_calls is not None:
            self._events += self._unread_calls.finish(has_answer=self._has_content or self.index >= 0)

    # -- calls

    def start_call(self, name: str, id: str, length: int, name_start: int, name_end: int) -> None:
        """Start a call; the next ``length`` characters are its text up to the commit point.

        :param name_start: index of the name in the head.
        :param name_end: index just past the name in the head.
        """
        start = self._base + self.position
        raw = self.buffer[self.position : self.position + length]
        self.position += length
        self._end_text(start)
        self._raw = [_in_output(raw, start)]
        self._join_at = start + length + BLOCK
        self._args_start = self._args_end = -1
        if self.call_is_silent:
            self._emit_silently(raw, start)
        else:
            self.index += 1
            self._events.append(
                CallStart(self.index, name, id, start, start + length, start + name_start, start + name_end)
            )

    def _emit_silently(self, raw: str, start: int) -> None:
        """Account for part of a silent call, as markup or as text."""
        if self.silent_channel is None:
            self._events.append(Markup("call", raw, start, start + len(raw)))
        elif raw:
            self._last_text = raw
            self._events.append(Text(self.silent_channel, raw, start, start + len(raw)))

    def set_last_index(self, index: int) -> None:
        """Set the index of the last call.

        The machine calls this method at the end of the prompt, so that calls in the prompt are not counted.
        """
        self.index = index

    def emit_arguments(self, json: str, length: int) -> None:
        """Account for the next ``length`` characters as arguments.

        :param json: the JSON text to which the codec has converted these characters.
        """
        if not length and not json:
            return
        start = self._base + self.position
        position, self.position = self.position, self.position + length
        if self._keep_raw or self.call_is_silent:
            raw = self.buffer[position : self.position]
            if self.call_is_silent:
                self._emit_silently(raw, start)
                return
            self._raw.append(raw if start >= 0 else _in_output(raw, start))
            if start + length >= self._join_at:
                self._join_raw(start + length)
        self._events.append(CallArgs(self.index, json, start, start + length))

    def mark_arguments_start(self, at: int) -> None:
        """Record that the arguments start at index ``at`` of the buffer."""
        self._args_start = max(self._base + at, 0)  # 0 if the arguments start in the prompt

    def mark_arguments_end(self, at: int) -> None:
        """Record that the arguments end before index ``at`` of the buffer.

        If their end is already known, do nothing.
        """
        if self._args_end < 0:
            self._args_end = max(self._base + at, 0)

    def _join_raw(self, end: int) -> None:
        """Join the pieces of the call's raw text into one block."""
        self._join_at = end + BLOCK
        self._blocks.append("".join(self._raw))
        self._raw.clear()

    def end_call(self, status: Status, length: int) -> None:
        """End the call, and account for the next ``length`` characters as its closing markers."""
        position, self.position = self.position, self.position + length
        start = self._base + position
        if self._deferred:
            self._events += self._deferred
            self._deferred = []
        if self.call_is_silent:
            self._emit_silently(self.buffer[position : self.position], start)
            self.silent_channel = None
        else:
            whole = ""
            if status != "complete" and self._keep_raw:
                self._raw.append(_in_output(self.buffer[position : self.position], start))
                whole = "".join(self._blocks) + "".join(self._raw)
            args_end = self._args_end if self._args_end >= 0 else max(start, 0)
            args_start = self._args_start if self._args_start >= 0 else args_end
            self._events.append(
                CallEnd(self.index, status, whole, start, start + length, args_start, args_end)
            )
        self._last_call = self._blocks[:1] if self._blocks else self._raw
        self._raw = []
        if self._blocks:
            self._blocks.clear()

    # -- diagnostics, which account for no input

    def diagnose(self, kind: str, detail: str, ahead: int = 0) -> None:
        """Emit a diagnostic at the offset that is ``ahead`` characters after the current position.

        Emit nothing inside a call that is shown as text.
        """
        if self.silent_channel is None:
            at = max(self._base + self.position + ahead, 0)
            self._events.append(Diagnostic(kind, detail, at, at))

    def defer_diagnostic(self, kind: str, detail: str, at: int) -> None:
        """Store a diagnostic for index ``at`` of the buffer, to emit it when the call ends.

        A diagnostic in the middle of the arguments would prevent ``normalise`` from joining the arguments.
        """
        if self.silent_channel is None and (self._reports_late_ids or kind != "late_id"):
            at = max(self._base + at, 0)
            self._deferred.append(Diagnostic(kind, detail, at, at))

    def defer_diagnostics(self, diagnostics: list[tuple[str, str, int]]) -> None:
        """Store the diagnostics of a codec until the call ends, and empty ``diagnostics``.

        Each element is a tuple of a diagnostic's kind, its detail and an index in the buffer.
        """
        for kind, detail, at in diagnostics:
            self.defer_diagnostic(kind, detail, max(at, self.position))
        diagnostics.clear()

    def emit_finish(self, reason: FinishReason | None) -> None:
        """Emit the last event of the stream."""
        self._report_unread_calls()
        self._events.append(Finish(reason, self._base + self.position))


def _may_have_calls(text: str) -> bool:
    """Return whether text may contain the beginning of an unread call or of a block of code."""
    return "<" in text or "[" in text or "{" in text or "]" in text or "```" in text or "~~~" in text


def _in_output(raw: str, start: i64) -> str:
    """Return the part of ``raw`` that belongs to the output.  ``raw`` starts at offset ``start``."""
    return raw if start >= 0 else raw[-start:]
