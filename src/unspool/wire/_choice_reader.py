"""Reader that turns an upstream's deltas for one choice into events.

The gateway and the transports for httpx share this reader.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..events import CallEnd, CallStart, Diagnostic, Event, Finish, FinishReason, Text
from ..parser import Parser
from ._output_delta import Delta
from ._upstream_tool_calls import UpstreamCalls


class DeltaTokens:
    """Token data of one delta, kept until the parser has returned events for the delta's text."""

    __slots__ = ("logprobs", "start", "tokens")

    def __init__(self, start: int, tokens: int, logprobs: Sequence[dict[str, Any]]) -> None:
        self.start = start
        """Offset of the delta's text in the output."""
        self.tokens = tokens
        self.logprobs = logprobs


class ChoiceReader:
    """Reader that turns the deltas of one choice into events.

    A parser reads the text.  The reader adds events for the calls and the reasoning that the upstream has
    parsed itself, and counts tokens.
    """

    def __init__(
        self,
        parser: Parser,
        content_parser: Callable[[], Parser],
        *,
        include_reasoning: bool = True,
        ids: bool = False,
    ) -> None:
        """Create a reader.

        :param parser: parser of the whole output.
        :param content_parser: function that returns a new parser for text from which the upstream has
            already removed the reasoning.
        :param include_reasoning: whether to pass on the reasoning that the upstream has parsed.
        :param ids: whether to parse token ids instead of text.
        """
        self.planned = parser
        """Parser of the whole output.

        Encoders take their settings from this parser, even if another parser reads the text.
        """
        self.finished = False
        self.stopped_by: str | None = None
        """Stop string that ended the output."""
        self.size = 0
        """Size of the output so far, in bytes."""
        self.tokens = 0
        """Number of output tokens so far; estimated if the upstream sends no token data."""
        self.reasoning_tokens = 0
        self.peak_held = 0
        """Largest number of characters that the parser has held back so far."""
        self.outcomes: Counter[str] = Counter()
        """Number of calls with each status, and number of diagnostics of each kind."""
        self.logprobs: list[dict[str, Any]] = []
        """Log probabilities not yet sent to the client."""
        self.content_logprobs: list[dict[str, Any]] = []
        """Log probabilities of content tokens, not yet sent to the client."""
        self.token_ids: list[int] = []
        """Token ids not yet sent to the client."""
        self._ids = ids
        self._parser: Parser | None = None
        self._upstream_splits_reasoning = False
        self._create_content_parser = content_parser
        self._include_reasoning = include_reasoning
        self._offset = 0
        self._parser_start = 0
        """Offset in the whole output at which the current parser's text starts."""
        self._pending_tokens: deque[DeltaTokens] = deque()
        self._upstream_calls = UpstreamCalls()
        self._call_count = 0
        """Number of calls that parsers have found so far."""
        self._call_is_open = False
        """True while the current parser is inside a call."""

    @property
    def parser(self) -> Parser:
        """Current parser; chosen when the first text arrives."""
        if self._parser is None:
            self._parser = self._create_content_parser() if self._upstream_splits_reasoning else self.planned
        return self._parser

    def feed(self, delta: Delta) -> list[Event]:
        """Return the events for a delta."""
        if delta.text_only and delta.text and not self._pending_tokens and not self._upstream_calls.used:
            # Fast path: nearly every delta becomes one text event of the same length.
            text = delta.text
            events = (self._parser or self.parser).feed(text)
            end = self._offset + len(text)
            if len(events) == 1 and isinstance(event := events[0], Text) and event.end == end:
                self._offset = end
                self.size += len(text) if text.isascii() else _bytes(text)
                self.tokens += 1
                if event.channel == "reasoning":
                    self.reasoning_tokens += 1
                return events
            self._track_calls(events)
            self._count(delta)
            self._offset += len(delta.text)
        else:
            events = self._read(delta)
        if self._parser is not None and self._parser.pending > self.peak_held:
            self.peak_held = self._parser.pending
        self.stopped_by = delta.stopped_by or self.stopped_by
        if delta.finish is not None:
            events += self._finish(delta.finish)
        self._match_tokens(events)
        return events

    def _read(self, delta: Delta) -> list[Event]:
        """Return the events for a delta that has fields other than text, or that follows such a delta."""
        events: list[Event] = []
        if delta.reasoning:
            self._upstream_splits_reasoning = self._upstream_splits_reasoning or self._parser is None
            if self._include_reasoning:
                events.append(Text("reasoning", delta.reasoning, self._offset, self._offset))
        self._count(delta)
        if self._ids and delta.token_ids is not None:
            events += self._shift(self.parser.feed_tokens(delta.token_ids))
        elif delta.text:
            events += self._shift(self.parser.feed(delta.text))
        self._track_calls(events)
        self._offset += len(delta.text)
        if delta.calls:
            events += self._finish_parser()
        events = self._upstream_calls.follow(events, self._offset)
        if delta.calls:
            events += self._upstream_calls.add(delta.calls, self._offset, self._call_count)
        return events

    def _track_calls(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, CallStart):
                self._call_count += 1
                self._call_is_open = True
            elif isinstance(event, CallEnd):
                self._call_is_open = False

    def _finish_parser(self) -> list[Event]:
        """Finish the parser, because a call from the upstream follows, and return the parser's last events.

        A new parser reads the text after the call.
        """
        if self._parser is None or not (self._parser.pending or self._call_is_open):
            return []
        self._call_is_open = False
        events = self._shift(self._parser.finish("stop"))
        self._parser, self._parser_start = self._create_content_parser(), self._offset
        return [event for event in events if not isinstance(event, Finish)]

    def _shift(self, events: list[Event]) -> list[Event]:
        """Convert the offsets in events of the current parser to offsets in the whole output."""
        if self._parser_start:
            for event in events:
                event.start += self._parser_start
                event.end += self._parser_start
        return events

    def _finish(self, reason: FinishReason) -> list[Event]:
        self.finished = True
        events = self._shift(self.parser.finish(reason))
        return self._upstream_calls.finish(reason, events, self._offset)

    def _count(self, delta: Delta) -> None:
        """Add a delta to the sizes and token counts."""
        text = delta.text
        # Empty deltas count as one byte, so that an endless stream of them reaches the size limit.
        self.size += _bytes(text) or 1
        if delta.reasoning or delta.calls:
            parsed = delta.reasoning + "".join(call.name + call.arguments for call in delta.calls)
            self.size += _bytes(parsed)
        ids, logprobs = delta.token_ids or (), delta.logprobs or ()
        tokens = len(ids) or len(logprobs) or (1 if text or delta.reasoning or delta.calls else 0)
        self.tokens += tokens
        if delta.reasoning:
            self.reasoning_tokens += tokens
        if ids:
            self.token_ids += ids
        if logprobs:
            self.logprobs += logprobs
        if text:
            self._pending_tokens.append(DeltaTokens(self._offset, tokens, logprobs))

    def _match_tokens(self, events: Iterable[Event]) -> None:
        """Match pending token data with the events for the same text; count calls and diagnostics."""
        pending = self._pending_tokens
        # The parser may hold text back, so events can cover the text of several earlier deltas.
        for event in events:
            if isinstance(event, CallEnd):
                self.outcomes[event.status] += 1
            elif isinstance(event, Diagnostic):
                self.outcomes[event.kind] += 1
            while pending and pending[0].start < event.end:
                tokens = pending.popleft()
                if isinstance(event, Text):
                    if event.channel == "reasoning":
                        self.reasoning_tokens += tokens.tokens
                    elif tokens.logprobs:
                        self.content_logprobs += tokens.logprobs

    def take_logprobs(self) -> list[dict[str, Any]]:
        """Return and clear the unsent log probabilities."""
        logprobs, self.logprobs = self.logprobs, []
        return logprobs

    def take_content_logprobs(self) -> list[dict[str, Any]]:
        """Return and clear the unsent log probabilities of content tokens."""
        logprobs, self.content_logprobs = self.content_logprobs, []
        return logprobs

    def take_token_ids(self) -> list[int]:
        """Return and clear the unsent token ids."""
        ids, self.token_ids = self.token_ids, []
        return ids


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
