"""Splitter of an output into reasoning and the rest.

Some engines use one parser for reasoning and another one for tool calls.  The splitter serves as the
reasoning parser: it returns everything that is not reasoning exactly as the model wrote it, including markup.
The tool call parser is then a ``Parser`` with ``start_channel="content"``.

A tool call parser of an engine may know only the markup of calls.  For such a parser, the splitter removes
the markup around the content and control tokens, and adds text that belongs before the output.
"""

from dataclasses import replace
from typing import NamedTuple

from ...dialects._declaration import Dialect
from ...events import CallArgs, Channel, Diagnostic, Event, FinishReason, Markup, Text
from ...parser import Parser, ToolList
from ...policies import PolicyChoice, as_policies


class ReasoningSplit(NamedTuple):
    """Text that one call of ``feed`` has added to the reasoning and to the rest of the output."""

    reasoning: str
    rest: str


class ReasoningSplitter:
    """Incremental splitter of one output into reasoning and the rest.

    >>> splitter = ReasoningSplitter("hermes", start_channel="reasoning")
    >>> splitter.feed('It is late.</think><tool_call>{"name": "now"')
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
        policies: PolicyChoice | None = None,
        only_calls: bool = False,
    ) -> None:
        """Create a splitter for one output; most options are those of ``Parser``.

        :param only_calls: True to remove all markup but that of calls and messages from the rest.
        """
        immediate = replace(as_policies(policies), commit="name")
        self.parser = Parser(
            dialect,
            tools=tools,
            prompt=prompt,
            continues=continues,
            start_channel=start_channel,
            policies=immediate,
            keep_raw=False,
        )
        """Parser that recognises the reasoning."""
        self._only_calls = only_calls
        self._whitespace = self.parser.tidy()
        self._raw: list[str] = []  # input that is not part of any event yet
        self._base = 0  # offset at which `_raw` starts

    def feed(self, text: str) -> ReasoningSplit:
        """Split the next chunk of the output."""
        events = self.parser.feed(text)
        if len(events) == 1 and not self._raw:  # the chunk is the middle of an argument
            (event,) = events
            if isinstance(event, CallArgs) and event.end - event.start == len(text):
                self._base = event.end
                return ReasoningSplit("", text)
        self._raw.append(text)
        return self._split(events)

    def finish(self, reason: FinishReason | None = None) -> ReasoningSplit:
        """End the output and split the rest of it; ``reason`` is as for ``Parser.finish``."""
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
            if self._only_calls and isinstance(event, Text) and event.channel == "content":
                rest.append(event.text)
            elif not _is_reasoning(event) and not (self._only_calls and _is_content_markup(event)):
                rest.append(raw[event.start - base : event.end - base])
        self._raw = [raw[end - base :]] if end - base < len(raw) else []
        self._base = end
        shown = self._whitespace.feed(events)
        reasoning = "".join([e.text for e in shown if isinstance(e, Text) and e.channel == "reasoning"])
        return ReasoningSplit(reasoning, "".join(rest))


def _is_content_markup(event: Event) -> bool:
    return isinstance(event, Markup) and event.kind in ("content_open", "content_close", "dropped")


def _is_reasoning(event: Event) -> bool:
    if isinstance(event, Text):
        return event.channel == "reasoning"
    return isinstance(event, Markup) and event.kind in ("reasoning_open", "reasoning_close")
