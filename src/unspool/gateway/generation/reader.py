"""One choice being read: deltas of the upstream in, events out."""

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
from .upstream_calls import ForeignCalls


class DeltaTokens:
    """What the upstream told about the tokens of one delta."""

    __slots__ = ("logprobs", "start", "tokens")

    def __init__(self, start: int, tokens: int, logprobs: Sequence[dict[str, Any]]) -> None:
        self.start = start
        """Offset of its text in the output."""
        self.tokens = tokens
        self.logprobs = logprobs


class SplitParsers:
    """Parsers for an upstream that takes reasoning out of the text: what is left does not begin in it.

    A request may have many choices, and a choice many calls that the upstream tells apart, each
    of which needs a parser. They are planned once.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._make: Callable[[], Parser] | None = None

    def __call__(self) -> Parser:
        """Return a parser."""
        if self._make is None:
            try:
                self._make = self._plan.with_prompt("").parser
            except UsageError:  # It reads messages with headers, and will not send us any.
                self._make = partial(Parser, "passthrough", tools=())
        return self._make()


class Reader:
    """Reads one choice.

    The parser does the work.  What is added here: calls and reasoning that an
    upstream has told apart by itself, and the bookkeeping of tokens.
    """

    def __init__(self, plan: Plan, *, ids: bool = False, split: SplitParsers | None = None) -> None:
        """Prepare to read.

        :param ids: token ids are read, not text.
        :param split: parsers for an upstream that splits its output, shared by all choices.
        """
        self.plan = plan
        self.planned = plan.parser(ids=ids)
        """The parser as planned: says how events are tidied, folded and sent."""
        self.finished = False
        self.stopped_by: str | None = None
        """The stop string that ended the output."""
        self.size = 0
        """Bytes of output so far."""
        self.tokens = 0
        """Tokens of output so far, as far as we can tell."""
        self.reasoning_tokens = 0
        self.peak_held = 0
        """The most characters that were held back at once."""
        self.outcomes: Counter[str] = Counter()
        """Calls by how they ended, and notes by their kind."""
        self.logprobs: list[dict[str, Any]] = []
        """Of tokens that no chunk has carried yet."""
        self.answer_logprobs: list[dict[str, Any]] = []
        """Likewise, of tokens of the answer only."""
        self.token_ids: list[int] = []
        """Ids that no chunk has carried yet."""
        self._ids = ids
        self._parser: Parser | None = None
        self._split = False
        self._split_parser = split or SplitParsers(plan)
        self._offset = 0
        self._began = 0
        """Where the text of the parser in use begins in the output."""
        self._steps: deque[DeltaTokens] = deque()
        self._foreign = ForeignCalls()
        self._calls = 0
        """How many calls the parser has found ..."""
        self._open = False
        """... and whether the last of them goes on."""

    @property
    def parser(self) -> Parser:
        """The parser in use, chosen when the first text comes."""
        if self._parser is None:
            self._parser = self._split_parser() if self._split else self.planned
        return self._parser

    def feed(self, delta: Delta) -> list[Event]:
        """What this delta comes to."""
        if delta.plain and delta.text and not self._steps and not self._foreign.used:
            events = self.parser.feed(delta.text)
            if self._all_told(events, delta.text):
                return events
            self._track(events)
            self._account(delta)
            self._offset += len(delta.text)
        else:
            events = self._read(delta)
        if self._parser is not None and self._parser.pending > self.peak_held:
            self.peak_held = self._parser.pending
        self.stopped_by = delta.stopped_by or self.stopped_by
        if delta.finish is not None:
            events += self._finish(delta.finish)
        self._see(events)
        return events

    def _all_told(self, events: Sequence[Event], text: str) -> bool:
        """Whether all of it is text of one channel, as nearly always: then this is all the bookkeeping."""
        end = self._offset + len(text)
        if len(events) != 1 or not isinstance(events[0], Text) or events[0].end != end:
            return False
        self._offset = end
        self.size += _bytes(text)
        self.tokens += 1
        if events[0].channel == "reasoning":
            self.reasoning_tokens += 1
        return True

    def _read(self, delta: Delta) -> list[Event]:
        """The events of a delta of any kind."""
        events: list[Event] = []
        if delta.reasoning:
            self._split = self._split or self._parser is None
            if self.plan.include_reasoning:
                events.append(Text("reasoning", delta.reasoning, self._offset, self._offset))
        self._account(delta)
        if self._ids and delta.token_ids is not None:
            events += self._placed(self.parser.feed_tokens(delta.token_ids))
        elif delta.text:
            events += self._placed(self.parser.feed(delta.text))
        self._track(events)
        self._offset += len(delta.text)
        if delta.calls:
            events += self._given_back()
        events = self._foreign.follow(events, self._offset)
        if delta.calls:
            events += self._foreign.take(delta.calls, self._offset, self._calls)
        return events

    def _track(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, CallStart):
                self._calls += 1
                self._open = True
            elif isinstance(event, CallEnd):
                self._open = False

    def _given_back(self) -> list[Event]:
        """What is held or open when a call of the upstream's follows: it stands before, and ends there."""
        if self._parser is None or not (self._parser.pending or self._open):
            return []
        self._open = False
        events = self._placed(self._parser.finish("stop"))
        self._parser, self._began = self._split_parser(), self._offset
        return [event for event in events if not isinstance(event, Finish)]

    def _placed(self, events: list[Event]) -> list[Event]:
        """Events of the parser, with their places in the whole output."""
        if self._began:
            for event in events:
                event.start += self._began
                event.end += self._began
        return events

    def _finish(self, reason: FinishReason) -> list[Event]:
        self.finished = True
        return self._foreign.finish(reason, self._placed(self.parser.finish(reason)), self._offset)

    def _account(self, delta: Delta) -> None:
        text = delta.text
        self.size += _bytes(text) or 1  # empty ones for ever are too much, too
        if delta.reasoning or delta.calls:
            told = delta.reasoning + "".join(call.name + call.arguments for call in delta.calls)
            self.size += _bytes(told)
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
            self._steps.append(DeltaTokens(self._offset, tokens, logprobs))

    def _see(self, events: Iterable[Event]) -> None:
        steps = self._steps
        for event in events:
            if isinstance(event, CallEnd):
                self.outcomes[event.status] += 1
            elif isinstance(event, Diagnostic):
                self.outcomes[event.kind] += 1
            while steps and steps[0].start < event.end:
                step = steps.popleft()
                if isinstance(event, Text):
                    if event.channel == "reasoning":
                        self.reasoning_tokens += step.tokens
                    elif step.logprobs:
                        self.answer_logprobs += step.logprobs

    def take_logprobs(self) -> list[dict[str, Any]]:
        """The log probabilities that no chunk has carried yet; now one will."""
        found, self.logprobs = self.logprobs, []
        return found

    def take_answer_logprobs(self) -> list[dict[str, Any]]:
        """Likewise, of the answer only."""
        found, self.answer_logprobs = self.answer_logprobs, []
        return found

    def take_token_ids(self) -> list[int]:
        """The ids that no chunk has carried yet; now one will."""
        found, self.token_ids = self.token_ids, []
        return found


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
