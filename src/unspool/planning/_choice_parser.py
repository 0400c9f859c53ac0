"""The parser of one choice: what only the request can know, around the parser of the dialect.

Everything here is a stage like the others, events in and events out in portions
of any size, except the one question that comes before parsing: whether an output
that should begin inside reasoning begins with JSON instead.

=================  ============================================================
Shape              holds the first characters until it is known whether they
                   are JSON; then the parser starts inside reasoning or outside
LeadStrip          takes a marker off the beginning of the content (PRE.6)
OneCall            keeps the first call (``parallel_tool_calls=false``)
ReasoningAsAnswer  makes reasoning the answer where no answer follows
                   (``force_nonempty_content``)
NoReasoning        keeps reasoning to itself (``include_reasoning=false``)
=================  ============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from .._core.token_ids.detokenizer import Detokenizer
from .._core.token_ids.tokenizers import AnyTokenizer, as_tokenizer
from ..dialects._declaration import Dialect
from ..events import (
    CallArgs,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    Markup,
    Text,
)
from ..parser import Parser, ToolList
from ..policies import Policies

NewId: TypeAlias = Callable[[str, int], str]
"""Gives a call its id, from its name and number."""

_BOUND: Final = 1024
"""White space beyond this is not the beginning of a JSON document any more, nor before a marker."""


class Stage(Protocol):
    """Events in, events out."""

    pending: int
    """Characters of the input that wait in here."""

    def push(self, events: list[Event]) -> list[Event]:
        """What these events come to."""
        ...


class LeadStrip:
    """Takes a marker, and what closes it, off the beginning of the content.

    White space before the marker goes with it, white space after it stays; beyond a bound it is an answer.
    """

    __slots__ = ("_closer", "_decided", "_events", "_marker", "pending")

    def __init__(self, marker: str) -> None:
        self.pending = 0
        self._marker = marker
        self._closer = "" if marker.startswith("</") else "</" + marker[1:]
        self._events: list[Text] = []
        self._decided = False

    def push(self, events: Iterable[Event]) -> list[Event]:
        if self._decided:
            return list(events)
        out: list[Event] = []
        for event in events:
            if self._decided:
                out.append(event)
            elif isinstance(event, Text) and event.channel == "content":
                self._events.append(event)
                cut = self._look(final=False)
                if cut is not None:
                    out += self._release(cut)
            else:
                out += self._release(self._look(final=True) or 0)
                out.append(event)
        self.pending = sum(len(event.text) for event in self._events)
        return out

    def _look(self, *, final: bool) -> int | None:
        """How many characters to take off; None: that is not decided."""
        text = "".join(event.text for event in self._events)
        lead = len(text) - len(text.lstrip())
        if lead > _BOUND:
            return 0
        if not text.startswith(self._marker, lead):
            waits = self._marker.startswith(text[lead:])
            return None if waits and not final else 0
        end = lead + len(self._marker)
        if not self._closer:
            return end
        rest = text[end:].lstrip()
        if len(text) - end - len(rest) > _BOUND:
            return end
        if rest.startswith(self._closer):
            return len(text) - len(rest) + len(self._closer)
        return None if self._closer.startswith(rest) and not final else end

    def _release(self, cut: int) -> list[Event]:
        """The held events, the first ``cut`` characters of them as markup."""
        self._decided = True
        out: list[Event] = []
        for event in self._events:
            taken = min(cut, len(event.text))
            cut -= taken
            if taken:
                out.append(Markup("dropped", event.text[:taken], event.start, event.start + taken))
            if taken < len(event.text):
                out.append(Text("content", event.text[taken:], event.start + taken, event.end))
        self._events = []
        return out


class OneCall:
    """Keeps the first call; what follows of others is markup, with a note of their names."""

    __slots__ = ("_at", "_pieces", "pending")

    def __init__(self) -> None:
        self.pending = 0
        self._pieces: list[str] = []
        """What has come in since the last event ..."""
        self._at = 0
        """... and where that was."""

    def see(self, text: str) -> None:
        """Raw output, before its events: the markup of a call is in none of them."""
        self._pieces.append(text)

    def push(self, events: list[Event]) -> list[Event]:
        if not events:
            return events
        out: list[Event] = []
        text = "".join(self._pieces)
        end = self._at
        for event in events:
            end = max(end, event.end)
            if not isinstance(event, (CallStart, CallArgs, CallEnd)) or event.index == 0:
                out.append(event)
                continue
            if isinstance(event, CallStart):
                out.append(Diagnostic("extra_call", event.name, event.start, event.start))
            raw = text[event.start - self._at : event.end - self._at]
            out.append(Markup("call", raw, event.start, event.end))
        self._pieces = [text[end - self._at :]]
        self._at = end
        return out


class ReasoningAsAnswer:
    """Reasoning that no answer follows is the answer.

    Holds reasoning until an answer or a call begins, then hands it on as what it
    is; where none does, hands it on as content.
    """

    __slots__ = ("_closed", "_events", "_open", "_strict", "pending")

    def __init__(self, *, strict: bool) -> None:
        self.pending = 0
        self._strict = strict
        """White space behind the end of reasoning is an answer, too."""
        self._events: list[Event] = []
        self._open = True
        self._closed = False

    def push(self, events: Iterable[Event]) -> list[Event]:
        if not self._open:
            return list(events)
        out: list[Event] = []
        for event in events:
            if not self._open:
                out.append(event)
                continue
            if isinstance(event, Markup) and event.kind == "reasoning_close":
                self._closed = True
            if self._answers(event):
                out += self._release(swap=False)
                out.append(event)
            elif isinstance(event, Finish):
                out += self._release(swap=True)
                out.append(event)
            else:
                self._events.append(event)
                self.pending += event.end - event.start
        return out

    def _answers(self, event: Event) -> bool:
        if isinstance(event, Text) and event.channel == "content":
            return (self._strict and self._closed) or not event.text.isspace()
        return isinstance(event, CallStart)

    def _release(self, *, swap: bool) -> list[Event]:
        out, self._events = self._events, []
        self._open = False
        self.pending = 0
        if not swap:
            return out
        return [
            Text("content", event.text, event.start, event.end)
            if isinstance(event, Text) and event.channel == "reasoning"
            else Markup("dropped", event.text, event.start, event.end)
            if isinstance(event, Text) or (isinstance(event, Markup) and event.kind.startswith("reasoning"))
            else event
            for event in out
        ]


class NoReasoning:
    """Keeps reasoning to itself."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending = 0

    def push(self, events: Iterable[Event]) -> list[Event]:
        return [
            Markup("dropped", event.text, event.start, event.end)
            if isinstance(event, Text) and event.channel == "reasoning"
            else event
            for event in events
        ]


class PlannedParser(Parser):
    """The parser of one choice, as its plan says.  ``Plan.parser`` makes them."""

    def __init__(
        self,
        dialect: Dialect,
        *,
        tools: ToolList,
        prompt: str | None,
        continues: bool,
        tokenizer: AnyTokenizer | None,
        policies: Policies,
        forced: bool,
        new_id: NewId | None,
        shape: Sequence[str] | None,
        stages: Sequence[Stage],
    ) -> None:
        """Prepare to read one choice.

        :param shape: if JSON may come where reasoning should: the openers of reasoning.
        :param stages: what the events go through.
        """
        super().__init__(
            dialect,
            tools=tools,
            prompt=prompt,
            continues=continues,
            tokenizer=tokenizer,
            policies=policies,
            forced=forced,
            new_id=new_id,
        )
        self._tokenizer = tokenizer
        self._new_id = new_id
        self._openers = shape
        self._first = ""
        self._ids: list[int] = []
        self._shown: str | None = None  # of what waits, the text that an engine decoded, if it does
        self._stages = stages
        self._seers = [stage for stage in stages if isinstance(stage, OneCall)]
        needs_text = shape is not None or self._seers
        self._decoder = Detokenizer(as_tokenizer(tokenizer), {}) if tokenizer and needs_text else None

    @property
    def pending(self) -> int:
        """Characters that came in and are not accounted for by an event yet."""
        return super().pending + len(self._first) + sum(stage.pending for stage in self._stages)

    @property
    def max_pending(self) -> int | None:
        """No more than this many characters are held now; None: until the answer begins."""
        max_pending = super().max_pending
        if max_pending is None or any(stage.pending for stage in self._stages):
            return None
        return max(max_pending, 2 * _BOUND) if self._openers is not None else max_pending

    def feed(self, text: str) -> list[Event]:
        """Take the next piece of output, of any length; returns what it decides."""
        if not isinstance(text, str) or self._tokenizer is not None or self._finished:
            return super().feed(text)  # which says what is wrong
        self._see(text)
        if self._openers is not None:
            self._first += text
            if not self._shape(self._first):
                return []
            text, self._first = self._first, ""
        return self._through(super().feed(text))

    def feed_tokens(self, ids: Iterable[int]) -> list[Event]:
        """Take the next tokens.  Needs ``tokenizer``; spans are in the decoded text."""
        found = self._looked_at(ids)
        return [] if found is None else self._through(super().feed_tokens(found))

    def feed_decoded(self, text: str, ids: Iterable[int]) -> list[Event]:
        """Take the next text as an engine decoded it, and its ids; see :meth:`Parser.feed_decoded`."""
        text = (self._shown or "") + text
        self._shown = text
        found = self._looked_at(ids)
        if found is None:
            return []
        self._shown = ""
        return self._through(super().feed_decoded(text, found))

    def _looked_at(self, ids: Iterable[int]) -> Iterable[int] | None:
        """The ids to read now; None: not before it is known how the output begins."""
        if self._decoder is None or self._finished:
            return ids
        found = list(ids)
        text = self._decoder.feed(found)
        self._see(text)
        if self._openers is not None:
            self._first += text
            self._ids += found
            if not self._shape(self._first):
                return None
            found, self._ids, self._first = self._ids, [], ""
        return found

    def finish(self, reason: FinishReason | None = None) -> list[Event]:
        """No more output follows; see :meth:`Parser.finish`."""
        events: list[Event] = []
        if self._openers is not None and not self._finished:
            self._openers = None
            if self._decoder is None:
                events = super().feed(self._first)
            elif self._shown is not None:
                events = super().feed_decoded(self._shown, self._ids)
            else:
                events = super().feed_tokens(self._ids)
            self._first = ""
        if self._decoder is not None and not self._finished:
            self._see(self._decoder.finish())
        return self._through(events + super().finish(reason))

    def _see(self, text: str) -> None:
        for stage in self._seers:
            stage.see(text)

    def _through(self, events: list[Event]) -> list[Event]:
        for stage in self._stages:
            events = stage.push(events)
        return events

    def _shape(self, text: str) -> bool:
        """Whether it is known how the output begins; if as JSON, start over outside of reasoning."""
        first = text.lstrip()
        openers = self._openers
        assert openers is not None  # noqa: S101 - the callers ask
        if not first:
            if len(text) > _BOUND:
                self._openers = None
            return self._openers is None
        if any(opener.startswith(first) and opener != first for opener in openers):
            return False
        self._openers = None
        if first[0] in "[{" and not first.startswith(tuple(openers)):
            super().__init__(
                self.dialect,
                tools=self._tools,
                prompt="",
                tokenizer=self._tokenizer,
                policies=self.policies,
                forced=self.forced,
                new_id=self._new_id,
            )
        return True
