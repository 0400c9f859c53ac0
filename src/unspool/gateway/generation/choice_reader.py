"""Reader of one choice: deltas of the upstream to events."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ...errors import UsageError
from ...events import CallEnd, CallStart, Diagnostic, Event, Finish, FinishReason, Text
from ...parser import Parser
from ...planning import Plan
from ..upstreams.base import Delta
from .upstream_calls import UpstreamCalls


class DeltaTokens:
    """Token data of one delta, kept until events cover the delta's text."""

    __slots__ = ("logprobs", "start", "tokens")

    def __init__(self, start: int, tokens: int, logprobs: Sequence[dict[str, Any]]) -> None:
        self.start = start
        """Offset of the delta's text in the output."""
        self.tokens = tokens
        self.logprobs = logprobs


class ContentParsers:
    """Factory of parsers for text without reasoning, which the upstream has removed.

    A request may have many choices, and a choice many calls that the upstream has parsed.  Each
    of them needs a parser, so all parsers come from one plan.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._create: Callable[[], Parser] | None = None

    def __call__(self) -> Parser:
        """Return a new parser."""
        if self._create is None:
            try:
                self._create = self._plan.with_prompt("").parser
            except UsageError:  # the dialect puts everything after headers, which this upstream removes, too
                self._create = partial(Parser, "passthrough", tools=())
        return self._create()


class Reader:
    """Reader of one choice.

    The parser reads the text.  The reader adds calls and reasoning that the upstream has parsed itself, and
    counts tokens.
    """

    def __init__(
        self, plan: Plan, *, ids: bool = False, content_parsers: ContentParsers | None = None
    ) -> None:
        """Create a reader.

        :param ids: read token ids instead of text.
        :param content_parsers: shared by all choices of a request.
        """
        self.plan = plan
        self.planned = plan.parser(ids=ids)
        """Parser of the plan; the encoders take their settings from it, even if another parser reads."""
        self.finished = False
        self.stopped_by: str | None = None
        """Stop string that ended the output."""
        self.size = 0
        """Size of the output so far, in bytes."""
        self.tokens = 0
        """Tokens of the output so far; estimated if the upstream sends no token data."""
        self.reasoning_tokens = 0
        self.peak_held = 0
        """Maximum number of characters that the parser held back."""
        self.outcomes: Counter[str] = Counter()
        """Number of calls by status, and of diagnostics by kind."""
        self.logprobs: list[dict[str, Any]] = []
        """Log probabilities that no chunk has carried yet."""
        self.content_logprobs: list[dict[str, Any]] = []
        """Log probabilities of content that no chunk has carried yet."""
        self.token_ids: list[int] = []
        """Token ids that no chunk has carried yet."""
        self._ids = ids
        self._parser: Parser | None = None
        self._upstream_splits_reasoning = False
        self._create_content_parser = content_parsers or ContentParsers(plan)
        self._offset = 0
        self._parser_start = 0
        """Offset in the output at which the text of the current parser starts."""
        self._pending_tokens: deque[DeltaTokens] = deque()
        self._upstream_calls = UpstreamCalls()
        self._call_count = 0
        """Number of calls that the parser has found."""
        self._call_is_open = False
        """True while the parser's last call is open."""

    @property
    def parser(self) -> Parser:
        """Parser in use, chosen at the first text."""
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
        """Return the events for a delta of any kind."""
        events: list[Event] = []
        if delta.reasoning:
            self._upstream_splits_reasoning = self._upstream_splits_reasoning or self._parser is None
            if self.plan.include_reasoning:
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
        """Flush the parser in front of a call of the upstream; a new parser reads the text after the call."""
        if self._parser is None or not (self._parser.pending or self._call_is_open):
            return []
        self._call_is_open = False
        events = self._shift(self._parser.finish("stop"))
        self._parser, self._parser_start = self._create_content_parser(), self._offset
        return [event for event in events if not isinstance(event, Finish)]

    def _shift(self, events: list[Event]) -> list[Event]:
        """Convert offsets of the current parser to offsets of the whole output."""
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
        self.size += _bytes(text) or 1  # even empty deltas must reach the size limit at some time
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
        """Assign pending token data to the events that cover its text, and count outcomes."""
        pending = self._pending_tokens
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
        """Remove and return the log probabilities that no chunk has carried yet."""
        logprobs, self.logprobs = self.logprobs, []
        return logprobs

    def take_content_logprobs(self) -> list[dict[str, Any]]:
        """Remove and return the log probabilities of content that no chunk has carried yet."""
        logprobs, self.content_logprobs = self.content_logprobs, []
        return logprobs

    def take_token_ids(self) -> list[int]:
        """Remove and return the token ids that no chunk has carried yet."""
        ids, self.token_ids = self.token_ids, []
        return ids


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
