"""One choice being read: deltas of the upstream in, events out."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

from .._core.ends.parser import Parser
from .._core.values.errors import UsageError
from .._core.values.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Finish,
    FinishReason,
    Note,
    Status,
    Text,
)
from .._core.values.ids import OPENAI_ID
from .._request import Plan
from .failure import Failure
from .upstreams.base import CallPiece, Delta


class DeltaTokens:
    """What the upstream told about the tokens of one delta."""

    __slots__ = ("logprobs", "start", "tokens")

    def __init__(self, start: int, tokens: int, logprobs: Sequence[dict[str, Any]]) -> None:
        self.start = start
        """Offset of its text in the output."""
        self.tokens = tokens
        self.logprobs = logprobs


class Reader:
    """Reads one choice.

    The parser does the work.  What is added here: calls and reasoning that an
    upstream has told apart by itself, and the bookkeeping of tokens.
    """

    def __init__(self, plan: Plan, *, ids: bool = False) -> None:
        """Prepare to read.

        :param ids: token ids are read, not text.
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
        self._offset = 0
        self._steps: deque[DeltaTokens] = deque()
        self._foreign = _Foreign()

    @property
    def parser(self) -> Parser:
        """The parser in use, chosen when the first text comes."""
        if self._parser is None:
            self._parser = self._split_parser() if self._split else self.planned
        return self._parser

    def _split_parser(self) -> Parser:
        """For an upstream that takes reasoning out of the text: what is left does not begin in it."""
        try:
            return self.plan.with_prompt("").parser()
        except UsageError:  # It reads messages with headers, and will not send us any.
            return Parser("passthrough", tools=())

    def feed(self, delta: Delta) -> list[Event]:
        """What this delta comes to."""
        if delta.plain and delta.text and not self._steps and not self._foreign.used:
            events = self.parser.feed(delta.text)
            if self._all_told(events, delta.text):
                return events
            self._account(delta)
            self._offset += len(delta.text)
        else:
            events = self._read(delta)
        if self._parser is not None and self._parser.held > self.peak_held:
            self.peak_held = self._parser.held
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
            events += self.parser.feed_tokens(delta.token_ids)
        elif delta.text:
            events += self.parser.feed(delta.text)
        self._offset += len(delta.text)
        if delta.calls:
            events += self._foreign.take(delta.calls, self._offset)
        elif self._foreign.used:
            events = self._foreign.renumber(events, self._offset)
        return events

    def _finish(self, reason: FinishReason) -> list[Event]:
        self.finished = True
        events = self._foreign.finish(reason, self._offset)
        return events + self._foreign.renumber(self.parser.finish(reason), self._offset)

    def _account(self, delta: Delta) -> None:
        text = delta.text
        self.size += _bytes(text)
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
            elif isinstance(event, Note):
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


class _Foreign:
    """Calls that the upstream has told apart, in one numbering with ours."""

    def __init__(self) -> None:
        self.used = False
        self._count = 0
        self._open: int | None = None
        self._keys: dict[int, int] = {}
        self._ours: dict[int, int] = {}
        self._arguments: list[str] = []

    def take(self, calls: Sequence[CallPiece], at: int) -> list[Event]:
        """Events for pieces of calls."""
        self.used = True
        out: list[Event] = []
        for call in calls:
            # Some servers number every call 0: a name tells that another one begins.
            if call.index not in self._keys or call.name:
                out += self.end("complete", at)
                if not call.name:
                    raise Failure(
                        "upstream", "the upstream sent a call without a name", code="upstream_protocol"
                    )
                self._keys[call.index] = self._open = self._count
                self._count += 1
                out.append(CallStart(self._open, call.name, call.id or OPENAI_ID.new("", 0), at, at))
            if self._keys[call.index] != self._open:
                raise Failure(
                    "upstream", "the upstream went on with a call that was over", code="upstream_protocol"
                )
            if call.arguments:
                self._arguments.append(call.arguments)
                out.append(CallArgs(self._open, call.arguments, at, at))
        return out

    def end(self, status: Status, at: int) -> list[Event]:
        """Close the open call, if there is one."""
        if self._open is None:
            return []
        index, self._open = self._open, None
        text, self._arguments = "".join(self._arguments), []
        if text and not _is_object(text):
            status = "truncated" if status == "truncated" else "malformed"
        elif text:
            status = "complete"
        return [CallEnd(index, status, "" if status == "complete" else text, at, at)]

    def finish(self, reason: FinishReason, at: int) -> list[Event]:
        """No more calls follow."""
        return self.end("truncated" if reason == "length" else "complete", at)

    def renumber(self, events: list[Event], at: int) -> list[Event]:
        """Give the calls of the parser the next numbers."""
        if not self.used:
            return events
        out: list[Event] = []
        for event in events:
            if isinstance(event, CallStart):
                self._ours[event.index] = self._count
                self._count += 1
            if isinstance(event, (CallStart, CallArgs, CallEnd)):
                event.index = self._ours[event.index]
            if not isinstance(event, (Note, Finish)):
                out += self.end("complete", at)
            out.append(event)
        return out


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
