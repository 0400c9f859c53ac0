"""Filter that removes formatting whitespace, such as a blank line before a call, from a stream of events.

Theory of operation
-------------------

The machine emits all whitespace as the model wrote it.  Some of it belongs to the format of calls, such as a
blank line before a call, and must be removed.  Only the input after the whitespace shows whether it
belongs to the format.  This stage therefore holds back whitespace, and passes on the machine's events with
the following changes:

* Whitespace before a call, between calls and after the last call is removed.
* After reasoning or a call, whitespace at the very beginning of the content is removed.  Newlines around
  reasoning are removed as well.
* If an output has two messages of the same channel, a newline is inserted between the texts of the messages.

Under the policy ``whitespace_around_calls="text"``, whitespace between text and a call belongs to the
text.  Whitespace without text next to it is still removed.

The trailing whitespace of each channel is held back until the next event shows whether to remove it.  Content
without any calls or reasoning is passed on unchanged.

Message builders and all API encoders read the events of this stage.  This stage therefore also implements the
rules that must be the same in all results: the policy ``after_calls`` (text after the first call), the policy
``truncated_call="text"``, and the finish reason (``finish_reason.py``).
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
    channel_after,
)
from ..finish_reason import FinishRule
from ..mypyc_types import Unchecked

if TYPE_CHECKING:
    from ...parser import Parser

_NEWLINES: Final = "\r\n"


class _Channel:
    """State of one channel, including the whitespace that is held back."""

    __slots__ = ("blanks", "join", "lead", "name", "only_breaks", "shown", "start", "sure")

    def __init__(self, name: Channel) -> None:
        self.name: Channel = name
        self.shown = False
        """True if some text has been passed on."""
        self.blanks: list[str] = []
        """Whitespace that is held back, as a list of strings."""
        self.only_breaks = True
        """True if ``blanks`` contains only newlines."""
        self.start = 0
        """Offset of the first string in ``blanks``."""
        self.sure: int | None = None
        """Number of strings in ``blanks`` to show if no text follows; None: all of them."""
        self.lead = ""
        """Characters to remove from the beginning of the next text."""
        self.join = ""
        """Text to insert between the previous text and the next text."""

    def keep(self, blanks: str) -> None:
        """Hold back more whitespace."""
        self.blanks.append(blanks)
        self.only_breaks = self.only_breaks and not blanks.strip(_NEWLINES)

    def forget(self) -> None:
        """Discard the whitespace that is held back."""
        self.blanks.clear()
        self.only_breaks = True

    def feed(self, event: Text) -> Text | None:
        """Take a text event; return the text that can be shown now, without trailing whitespace."""
        text = event.text
        # Most text needs no processing: nothing is held back, and the text ends in a visible character.
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
        # `body` can be shown now, but the whitespace after `body` must be held back.
        body = text.rstrip()
        start = max(event.end - len(text), event.start)
        if not body:
            if not self.blanks:
                self.start = start
            self.keep(text)
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
            self.keep(text[len(body) :])
            self.start -= len(text) - len(body)
        self.shown = True
        return Text(self.name, shown, start, self.start)

    def end_here(self) -> None:
        """Treat whitespace from here on as part of the format, unless text follows."""
        if self.sure is None:
            self.sure = len(self.blanks)

    def flush(self, end: int) -> Text | None:
        """Return a text event with the whitespace that is held back.  The event ends at offset ``end``."""
        if not self.blanks:
            return None
        blanks = "".join(self.blanks[: self.sure])
        self.forget()
        if not blanks:
            return None
        self.shown = True
        return Text(self.name, blanks, self.start, end)


class WhitespaceFilter:
    """Filter that removes formatting whitespace from the events of a parser.

    Create one with ``parser.tidy()``.  The method ``feed`` accepts lists of any length.
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
            dialect, policies = parser.dialect, parser.policies
        except AttributeError:
            raise UsageError(
                f"expected the parser that the events come from, got {type(parser).__name__}: "
                "use parser.tidy() or parser.fold()"
            ) from None
        self._content = _Channel("content")
        self._reasoning = _Channel("reasoning")
        self._reasoning.lead = _NEWLINES
        self._keep_blanks = dialect.keep_whitespace
        self._keep_around = policies.whitespace_around_calls == "text"
        self._drop = policies.after_calls == "drop"
        self._cut_is_text = policies.truncated_call == "text"
        self._called = False
        self._framed = False
        self._rule = FinishRule(reports_malformed=policies.malformed_call == "call")
        self.channel: Channel = parser.start_channel
        """Channel after the events so far."""
        self.contexts: dict[int, tuple[Channel, str]] = {}
        """Map from a call's index to the channel around the call and the whitespace removed before
        the call."""

    @property
    def finish_reason(self) -> FinishReason:
        """Finish reason of the events so far.

        The reason is ``length`` if a call was cut off, and ``tool_calls`` if there is a complete call.
        Otherwise it is the reason passed to ``Parser.finish``, by default ``stop``.
        """
        return self._rule.reason()

    def feed(self, events: "Iterable[Event]") -> "list[Event]":
        """Take further events, and return the events that can be passed on now."""
        out: list[Event] = []
        for raw_event in events:
            event = raw_event
            if self._cut_is_text and isinstance(event, Markup) and event.kind == "cut":
                event = Text("content", event.text, event.start, event.end)
            if isinstance(event, Text):
                self.channel = event.channel
                if event.channel == "reasoning":
                    shown = self._reasoning.feed(event)
                else:
                    shown = None if self._called and self._drop else self._content.feed(event)
                if shown is not None:
                    out.append(shown)
                continue
            if isinstance(event, CallArgs):
                pass
            elif isinstance(event, Markup):
                before = self.channel
                self.channel = channel_after(event, before)
                self._read_markup(event, before, out)
            elif isinstance(event, CallStart):
                # A call in reasoning is not part of the answer.
                self._called = self._called or self.channel == "content"
                self.contexts[event.index] = (self.channel, self._before_call(out))
            else:
                self._rule.feed(event)
                if isinstance(event, Finish) and (self._keep_around or not self._framed):
                    self._append(out, self._content.flush(event.start))
            out.append(event)
        return out

    def _append(self, out: list[Event], event: Event | None) -> None:
        if event is not None:
            out.append(event)

    def _before_call(self, out: list[Event]) -> str:
        """Show or remove the whitespace before a call, and return the removed whitespace."""
        content = self._content
        blanks = "".join((content if self.channel == "content" else self._reasoning).blanks)
        if self._keep_around:
            shown = content.flush(content.start + len("".join(content.blanks))) if content.shown else None
            if shown is not None:
                out.append(shown)
                blanks = ""
            content.sure = 0  # remove whitespace until text follows
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

    def _read_markup(self, event: Markup, before: Channel, out: list[Event]) -> None:
        """Show or remove the whitespace around markup.

        :param before: the channel before the markup.
        """
        kind = event.kind
        content, reasoning = self._content, self._reasoning
        if kind in ("call", "cut"):
            self._before_call(out)
        elif kind == "separator":
            if event.text.isspace() and not content.lead:
                content.keep(event.text)
        elif kind == "reasoning_open" and before == "reasoning":
            pass  # a repeated opening marker has no effect
        elif kind in ("reasoning_open", "reasoning_close"):
            reasoning.forget()
            reasoning.join = "\n"
            reasoning.lead = _NEWLINES
            if not content.shown:
                content.forget()
                content.lead = _NEWLINES
            elif kind == "reasoning_open" and content.only_breaks:
                content.sure = 0  # remove newlines before the opening marker, unless more content follows
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
            reasoning.lead = _NEWLINES
