"""Stages that process the events of the parser for one choice; each stage takes and returns events.

The dialect describes how a model writes, and the parser implements it.  Rules that depend on the request are
implemented by stages:

=================  ==============================================================
LeadStrip          strips a marker from the beginning of the content (PRE.6)
OneCall            keeps only the first call (``parallel_tool_calls=false``)
ReasoningAsAnswer  turns reasoning into content if no answer follows
                   (``force_nonempty_content``)
NoReasoning        hides reasoning (``include_reasoning=false``)
=================  ==============================================================

A stage never loses a span.  Text that a stage removes becomes ``Markup`` events,
so the events still cover the whole output.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

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

MAX_WHITESPACE: Final = 1024
"""Maximum length of whitespace before a marker or a JSON document; longer whitespace is content."""


class Stage(Protocol):
    """Step through which the events of a parser pass."""

    pending: int
    """Number of input characters in the events that the stage holds back."""

    def feed(self, events: list[Event]) -> list[Event]:
        """Take more events, and return those that are ready, including events that were held back earlier."""
        ...


class LeadStrip:
    """Stage that strips a reasoning marker from the beginning of the content.

    A closing marker that follows an opening marker is stripped, too.

    Up to ``MAX_WHITESPACE`` characters of whitespace before a marker are also stripped.  Whitespace after the
    last stripped marker is content.
    """

    __slots__ = ("_closer", "_decided", "_held", "_marker", "pending")

    def __init__(self, marker: str) -> None:
        self.pending = 0
        self._marker = marker
        self._closer = "" if marker.startswith("</") else "</" + marker[1:]
        self._held: list[Text] = []
        self._decided = False

    def feed(self, events: Iterable[Event]) -> list[Event]:
        if self._decided:
            return list(events)
        out: list[Event] = []
        for event in events:
            if self._decided:
                out.append(event)
            elif isinstance(event, Text) and event.channel == "content":
                self._held.append(event)
                length = self._strip_length(final=False)
                if length is not None:
                    out += self._release(length)
            else:
                out += self._release(self._strip_length(final=True) or 0)
                out.append(event)
        self.pending = sum(len(event.text) for event in self._held)
        return out

    def _strip_length(self, *, final: bool) -> int | None:
        """Return the number of characters to strip; None if it depends on text that has not arrived yet."""
        text = "".join(event.text for event in self._held)
        lead = len(text) - len(text.lstrip())
        if lead > MAX_WHITESPACE:
            return 0
        if not text.startswith(self._marker, lead):
            may_follow = self._marker.startswith(text[lead:])
            return None if may_follow and not final else 0
        end = lead + len(self._marker)
        if not self._closer:
            return end
        rest = text[end:].lstrip()
        if len(text) - end - len(rest) > MAX_WHITESPACE:
            return end
        if rest.startswith(self._closer):
            return len(text) - len(rest) + len(self._closer)
        return None if self._closer.startswith(rest) and not final else end

    def _release(self, strip_length: int) -> list[Event]:
        """Return the events held back, after turning their first ``strip_length`` characters into markup."""
        self._decided = True
        out: list[Event] = []
        for event in self._held:
            stripped = min(strip_length, len(event.text))
            strip_length -= stripped
            if stripped:
                out.append(Markup("dropped", event.text[:stripped], event.start, event.start + stripped))
            if stripped < len(event.text):
                out.append(Text("content", event.text[stripped:], event.start + stripped, event.end))
        self._held = []
        return out


class OneCall:
    """Stage that keeps only the first call.

    Each further call becomes markup and a diagnostic, which contains the name of the call.
    """

    __slots__ = ("_offset", "_raw", "pending")

    def __init__(self) -> None:
        self.pending = 0
        self._raw: list[str] = []
        """Raw output that no event covers yet."""
        self._offset = 0
        """Offset of ``_raw`` in the output."""

    def add_raw(self, text: str) -> None:
        """Store raw output before its events are pushed, because call events do not contain raw text."""
        self._raw.append(text)

    def feed(self, events: list[Event]) -> list[Event]:
        if not events:
            return events
        out: list[Event] = []
        text = "".join(self._raw)
        end = self._offset
        for event in events:
            end = max(end, event.end)
            if not isinstance(event, (CallStart, CallArgs, CallEnd)) or event.index == 0:
                out.append(event)
                continue
            if isinstance(event, CallStart):
                out.append(Diagnostic("extra_call", event.name, event.start, event.start))
            raw = text[event.start - self._offset : event.end - self._offset]
            out.append(Markup("call", raw, event.start, event.end))
        self._raw = [text[end - self._offset :]]
        self._offset = end
        return out


class ReasoningAsAnswer:
    """Stage that turns reasoning into content if no answer follows.

    The stage holds back reasoning until an answer or a call begins, and then passes the
    reasoning on unchanged.  If the output ends first, the reasoning is passed on as content.
    """

    __slots__ = ("_held", "_holding", "_reasoning_closed", "_strict", "pending")

    def __init__(self, *, strict: bool) -> None:
        self.pending = 0
        self._strict = strict
        """True if any text after reasoning counts as an answer, even whitespace."""
        self._held: list[Event] = []
        self._holding = True
        self._reasoning_closed = False

    def feed(self, events: Iterable[Event]) -> list[Event]:
        if not self._holding:
            return list(events)
        out: list[Event] = []
        for event in events:
            if not self._holding:
                out.append(event)
                continue
            if isinstance(event, Markup) and event.kind == "reasoning_close":
                self._reasoning_closed = True
            if self._begins_answer(event):
                out += self._release(as_content=False)
                out.append(event)
            elif isinstance(event, Finish):
                out += self._release(as_content=True)
                out.append(event)
            else:
                self._held.append(event)
                self.pending += event.end - event.start
        return out

    def _begins_answer(self, event: Event) -> bool:
        if isinstance(event, Text) and event.channel == "content":
            return (self._strict and self._reasoning_closed) or not event.text.isspace()
        return isinstance(event, CallStart)

    def _release(self, *, as_content: bool) -> list[Event]:
        out, self._held = self._held, []
        self._holding = False
        self.pending = 0
        if not as_content:
            return out
        # Reasoning becomes content.  Reasoning markers, and whitespace outside reasoning, become markup.
        return [
            Text("content", event.text, event.start, event.end)
            if isinstance(event, Text) and event.channel == "reasoning"
            else Markup("dropped", event.text, event.start, event.end)
            if isinstance(event, Text) or (isinstance(event, Markup) and event.kind.startswith("reasoning"))
            else event
            for event in out
        ]


class NoReasoning:
    """Stage that hides reasoning by turning it into markup."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending = 0

    def feed(self, events: Iterable[Event]) -> list[Event]:
        return [
            Markup("dropped", event.text, event.start, event.end)
            if isinstance(event, Text) and event.channel == "reasoning"
            else event
            for event in events
        ]
