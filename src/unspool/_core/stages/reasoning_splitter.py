"""Reasoning apart from the rest, for hosts that have one parser for each.

Both halves come from one dialect.  The reasoning half hands on whatever is not
reasoning as it was written, markup and all; the tool half is a ``Parser`` that
begins in ``content`` and reads that.
"""

from dataclasses import replace
from typing import NamedTuple

from ...dialects._declaration import Dialect
from ...events import CallArgs, Channel, Diagnostic, Event, FinishReason, Markup, Text
from ...parser import Parser, ToolList
from ...policies import DEFAULTS, Policies


class ReasoningSplit(NamedTuple):
    """What a piece of output adds to each half."""

    reasoning: str
    rest: str


class ReasoningSplitter:
    """Takes the reasoning out of an output, and leaves the rest as it is.

    >>> half = ReasoningSplitter("hermes", start_channel="reasoning")
    >>> half.feed('It is late.</think><tool_call>{"name": "now"')
    ReasoningSplit(reasoning='It is late.', rest='<tool_call>{"name": "now"')
    """

    def __init__(
        self,
        dialect: str | Dialect,
        *,
        tools: ToolList | None = None,
        prompt: str | None = None,
        continues: bool = False,
        start_channel: Channel | None = None,
        policies: Policies | None = None,
    ) -> None:
        """The options are those of ``Parser``."""
        at_once = replace(policies or DEFAULTS, commit="name")
        self.parser = Parser(
            dialect,
            tools=tools,
            prompt=prompt,
            continues=continues,
            start_channel=start_channel,
            policies=at_once,
            keep_raw=False,
        )
        """What tells the halves apart."""
        self._tidy = self.parser.tidy()
        self._raw: list[str] = []  # what came in and is in no event yet, if there is any
        self._base = 0  # its offset

    def feed(self, text: str) -> ReasoningSplit:
        """The next piece of output."""
        events = self.parser.feed(text)
        if len(events) == 1 and not self._raw:  # the next piece of an argument, all of it
            (event,) = events
            if isinstance(event, CallArgs) and event.end - event.start == len(text):
                self._base = event.end
                return ReasoningSplit("", text)
        self._raw.append(text)
        return self._split(events)

    def finish(self, reason: FinishReason | None = None) -> ReasoningSplit:
        """No more output follows, for this reason."""
        return self._split(self.parser.finish(reason))

    def _split(self, events: list[Event]) -> ReasoningSplit:
        if not events:
            return ReasoningSplit("", "")
        raw = "".join(self._raw)
        base = end = self._base
        rest: list[str] = []
        for event in events:
            if isinstance(event, Diagnostic):
                continue
            end = max(end, event.end)
            if not _is_reasoning(event):
                rest.append(raw[event.start - base : event.end - base])
        self._raw = [raw[end - base :]] if end - base < len(raw) else []
        self._base = end
        shown = self._tidy.push(events)
        reasoning = "".join([e.text for e in shown if isinstance(e, Text) and e.channel == "reasoning"])
        return ReasoningSplit(reasoning, "".join(rest))


def _is_reasoning(event: Event) -> bool:
    if isinstance(event, Text):
        return event.channel == "reasoning"
    return isinstance(event, Markup) and event.kind in ("reasoning_open", "reasoning_close")
