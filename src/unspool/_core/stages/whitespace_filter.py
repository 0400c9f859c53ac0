"""Tidying: what a stream amounts to for those who read it.

White space that is framing leaves the text.  The machine accounts for every
character; whether the blank line before a call is content is not its business.
This stage decides, incrementally, and hands on the same events with the text
that a user should see, and only those:

* Blanks before a call, between calls and after the last one are framing.
* So are blanks at the very beginning of the content if reasoning or a call
  came before, and the line breaks around reasoning.
* Two messages of one channel are joined by a line break.

With the policy ``whitespace_around_calls="keep"`` blanks between text and a call are of
the text; those that no text is next to stay framing.

Blanks are held until what follows shows what they are; without calls and
reasoning, content is verbatim.

How the output ended is decided here, too, by ``FinishRule``: the fold and every
wire ask their tidy.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ...errors import UsageError
from ...events import (
    CallArgs,
    CallStart,
    Channel,
    Event,
    Finish,
    FinishReason,
    Markup,
    Text,
    channel_behind,
)
from ..finish_reason import FinishRule
from ..mypyc_types import Unchecked

if TYPE_CHECKING:
    from ...parser import Parser

_LINE_BREAKS: Final = "\r\n"


class _Channel:
    """The white space of one channel."""

    __slots__ = ("blanks", "join", "lead", "name", "only_breaks", "shown", "start", "sure")

    def __init__(self, name: Channel) -> None:
        self.name: Channel = name
        self.shown = False
        """Some text has been handed on."""
        self.blanks: list[str] = []
        """Pieces of white space that is not decided yet, ..."""
        self.only_breaks = True
        """... whether they are line breaks and nothing else, ..."""
        self.start = 0
        """... and where they began."""
        self.sure: int | None = None
        """How many of the pieces count if nothing follows; None: all."""
        self.lead = ""
        """Characters to drop until other text comes."""
        self.join = ""
        """What to put between this and the text before."""

    def wait(self, blanks: str) -> None:
        """More white space."""
        self.blanks.append(blanks)
        self.only_breaks = self.only_breaks and not blanks.strip(_LINE_BREAKS)

    def forget(self) -> None:
        """It is decided."""
        self.blanks.clear()
        self.only_breaks = True

    def text(self, event: Text) -> Text | None:
        text = event.text
        if not (self.blanks or self.lead or self.join or text[-1:].isspace()):
            self.shown = self.shown or bool(text)
            self.sure = None
            self.start = event.end
            return event
        if self.lead:
            text = text.lstrip(self.lead)
            if not text:
                return None
            self.lead = ""
        body = text.rstrip()
        start = max(event.end - len(text), event.start)
        if not body:
            if not self.blanks:
                self.start = start
            self.wait(text)
            return None
        self.lead = ""
        self.sure = None
        shown = body
        if self.blanks:
            shown = "".join(self.blanks) + body
            start = self.start
            self.forget()
        if self.join and self.shown:
            shown = self.join + shown
        self.join = ""
        self.start = event.end
        if len(body) < len(text):
            self.wait(text[len(body) :])
            self.start -= len(text) - len(body)
        self.shown = True
        return Text(self.name, shown, start, self.start)

    def end_here(self) -> None:
        """If nothing but blanks follows, those are not text."""
        if self.sure is None:
            self.sure = len(self.blanks)

    def flush(self, end: int) -> Text | None:
        """The blanks turned out to be text."""
        if not self.blanks:
            return None
        blanks = "".join(self.blanks[: self.sure])
        self.forget()
        if not blanks:
            return None
        self.shown = True
        return Text(self.name, blanks, self.start, end)


class WhitespaceFilter:
    """Events in, tidy events out, in as many portions as you like.  ``parser.tidy()`` makes one.

    The text is what a user should see, and ``finish_reason`` says how the output ended.
    """

    __slots__ = (
        "_called",
        "_content",
        "_cut_is_text",
        "_drop",
        "_framed",
        "_keep_around",
        "_keep_blanks",
        "_reasoning",
        "_rule",
        "channel",
        "contexts",
    )

    def __init__(self, parser: Unchecked["Parser"]) -> None:
        try:
            dialect, policies, forced = parser.dialect, parser.policies, parser.forced
        except AttributeError:
            raise UsageError(
                f"events are tidied and folded as their parser says, got {type(parser).__name__}: "
                "use parser.tidy(), parser.fold()"
            ) from None
        self._content = _Channel("content")
        self._reasoning = _Channel("reasoning")
        self._reasoning.lead = _LINE_BREAKS
        self._keep_blanks = dialect.keep_whitespace
        self._keep_around = policies.whitespace_around_calls == "keep"
        self._drop = (
            dialect.after_calls if policies.after_calls == "dialect" else policies.after_calls
        ) == "drop"
        self._cut_is_text = policies.truncated_call == "text"
        self._called = False
        self._framed = False
        self._rule = FinishRule(
            policies.forced_finish_reason if forced else "tool_calls", keep=policies.malformed_call == "keep"
        )
        self.channel: Channel = parser.start_channel
        """The channel of the text at hand."""
        self.contexts: dict[int, tuple[Channel, str]] = {}
        """For each call the channel around it, and the white space it took from the text before."""

    @property
    def finish_reason(self) -> FinishReason:
        """How the output ended, as far as it has come.

        A call that was cut off makes it ``length``, a complete one ``tool_calls``;
        else it is what ``Parser.finish`` was told, by default ``stop``.
        """
        return self._rule.reason()

    def push(self, events: "Iterable[Event]") -> "list[Event]":
        """What these events come to."""
        out: list[Event] = []
        for given in events:
            event = given
            if self._cut_is_text and isinstance(event, Markup) and event.kind == "cut":
                event = Text("content", event.text, event.start, event.end)
            if isinstance(event, Text):
                self.channel = event.channel
                if event.channel == "reasoning":
                    shown = self._reasoning.text(event)
                else:
                    shown = None if self._called and self._drop else self._content.text(event)
                if shown is not None:
                    out.append(shown)
                continue
            if isinstance(event, CallArgs):
                pass
            elif isinstance(event, Markup):
                before = self.channel
                self.channel = channel_behind(event, before)
                self._markup(event, before, out)
            elif isinstance(event, CallStart):
                self._called = self._called or self.channel == "content"  # one in reasoning is no answer
                self.contexts[event.index] = (self.channel, self._call(out))
            else:
                self._rule.see(event)
                if isinstance(event, Finish) and (self._keep_around or not self._framed):
                    self._append(out, self._content.flush(event.start))
            out.append(event)
        return out

    def _append(self, out: list[Event], event: Event | None) -> None:
        if event is not None:
            out.append(event)

    def _call(self, out: list[Event]) -> str:
        """A call, or what stands for one, comes next; returns the blanks that it costs."""
        content = self._content
        blanks = "".join((content if self.channel == "content" else self._reasoning).blanks)
        if self._keep_around:
            shown = content.flush(content.start + len("".join(content.blanks))) if content.shown else None
            if shown is not None:
                out.append(shown)
                blanks = ""
            content.sure = 0  # until there is text again
        elif self._keep_blanks and content.shown:
            self._append(out, content.flush(content.start + len(blanks)))
            blanks = ""
        content.forget()
        self._reasoning.forget()
        self._framed = True
        content.join = ""
        if not content.shown and not self._keep_around:
            content.lead = " \t\r\n"
        return blanks

    def _markup(self, event: Markup, before: Channel, out: list[Event]) -> None:
        kind = event.kind
        content, reasoning = self._content, self._reasoning
        if kind in ("call", "cut"):
            self._call(out)
        elif kind == "separator":
            if event.text.isspace() and not content.lead:
                content.wait(event.text)
        elif kind == "reasoning_open" and before == "reasoning":
            pass  # it was open, and goes on
        elif kind in ("reasoning_open", "reasoning_close"):
            reasoning.forget()
            reasoning.join = "\n"
            reasoning.lead = _LINE_BREAKS
            if not content.shown:
                content.forget()
                content.lead = _LINE_BREAKS
            elif kind == "reasoning_open" and content.only_breaks:
                content.sure = 0  # the line that the opener needs is its own, unless text follows
            else:
                content.end_here()
        elif kind == "dropped":
            content.end_here()
        elif kind == "content_open":
            if not content.shown:
                content.forget()
            reasoning.forget()
            content.lead = ""
        elif kind == "content_close":
            self._append(out, content.flush(event.start))
            content.end_here()
        elif kind == "message_boundary":
            self._append(out, content.flush(event.start))
            reasoning.forget()
            content.join = reasoning.join = "\n"
            reasoning.lead = _LINE_BREAKS
