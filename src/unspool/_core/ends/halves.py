"""Reasoning apart from the rest, for hosts that have one parser for each.

Both halves come from one dialect.  The reasoning half hands on whatever is not
reasoning as it was written, markup and all; the tool half is a ``Parser`` that
begins in ``content`` and reads that.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..values.events import Channel, Event, FinishReason, Markup, Note, Text
from ..values.policies import DEFAULTS, Policies
from ..words.dialect import Dialect
from .parser import Parser, ToolList

_AROUND_REASONING = ("reasoning_open", "reasoning_close")


@dataclass(frozen=True, slots=True)
class Halves:
    """What a piece of output adds to each half."""

    reasoning: str
    rest: str


class ReasoningHalf:
    """Takes the reasoning out of an output, and leaves the rest as it is.

    >>> half = ReasoningHalf("hermes", begins_in="reasoning")
    >>> half.feed('It is late.</think><tool_call>{"name": "now"')
    Halves(reasoning='It is late.', rest='<tool_call>{"name": "now"')
    """

    def __init__(
        self,
        dialect: str | Dialect,
        *,
        tools: ToolList | None = None,
        prompt: str | None = None,
        begins_in: Channel | None = None,
        policies: Policies | None = None,
    ) -> None:
        """The options are those of ``Parser``."""
        at_once = replace(policies or DEFAULTS, commit="name")
        self.parser = Parser(
            dialect, tools=tools, prompt=prompt, begins_in=begins_in, policies=at_once, keep_raw=False
        )
        """What tells the halves apart."""
        self._tidy = self.parser.tidy()
        self._raw = ""  # what came in and is in no event yet
        self._base = 0  # its offset

    def feed(self, text: str) -> Halves:
        """The next piece of output."""
        self._raw += text
        return self._split(self.parser.feed(text))

    def finish(self, reason: FinishReason | None = None) -> Halves:
        """No more output follows, for this reason."""
        return self._split(self.parser.finish(reason))

    def _split(self, events: Iterable[Event]) -> Halves:
        events = list(events)
        rest: list[str] = []
        end = self._base
        for event in events:
            if isinstance(event, Note):
                continue
            end = max(end, event.end)
            if isinstance(event, Text) and event.channel == "reasoning":
                continue
            if isinstance(event, Markup) and event.role in _AROUND_REASONING:
                continue
            rest.append(self._raw[event.start - self._base : event.end - self._base])
        self._raw = self._raw[end - self._base :]
        self._base = end
        tidy = self._tidy.push(events)
        reasoning = [e.text for e in tidy if isinstance(e, Text) and e.channel == "reasoning"]
        return Halves("".join(reasoning), "".join(rest))
