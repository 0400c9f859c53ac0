"""Parser of one choice of a planned request.

``PlannedParser`` sends the events of the dialect's parser through the stages of the plan.  It also handles
one difference between backends.  If the prompt has opened reasoning and a schema constrains the output, some
backends let the model reason first, but others make the output begin with JSON.  So the parser holds back the
first characters until it is clear whether they are JSON.  If they are, the parser starts outside reasoning;
otherwise it starts inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from .._core.token_ids.detokenizer import Detokenizer
from .._core.token_ids.tokenizer_adapters import AnyTokenizer, as_tokenizer
from ..dialects import Dialect
from ..events import Event, FinishReason
from ..parser import Parser, ToolList
from ..policies import Policies
from .request_stages import MAX_WHITESPACE, OneCall, Stage

NewId: TypeAlias = Callable[[str, int], str]
"""Function that makes a call id from the call's name and number."""


class PlannedParser(Parser):
    """Parser of one choice, made by ``Plan.parser``."""

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
        reasoning_openers: Sequence[str] | None,
        stages: Sequence[Stage],
    ) -> None:
        """Create a parser for one choice.

        :param reasoning_openers: the opening markers of reasoning if the output may begin with JSON
            instead of reasoning; otherwise None.
        :param stages: the stages through which the events pass, in order.
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
        # The next four attributes are used until it is clear whether the output begins with JSON.  From then
        # on, ``_openers`` is None.
        self._openers = reasoning_openers
        self._first = ""
        """The first characters of the output, which are held back."""
        self._ids: list[int] = []
        """The token ids of ``_first``."""
        self._engine_text: str | None = None
        """The text that the engine decoded from ``_ids``; None before ``feed_decoded`` is called."""
        self._stages = stages
        self._raw_stages = [stage for stage in stages if isinstance(stage, OneCall)]
        needs_text = reasoning_openers is not None or self._raw_stages
        self._decoder = Detokenizer(as_tokenizer(tokenizer), {}) if tokenizer and needs_text else None

    @property
    def pending(self) -> int:
        """Number of characters that were fed but that no returned event covers yet."""
        return super().pending + len(self._first) + sum(stage.pending for stage in self._stages)

    @property
    def max_pending(self) -> int | None:
        """Limit of ``pending`` in the current state; None if a stage may hold back any number of events."""
        max_pending = super().max_pending
        if max_pending is None or any(stage.pending for stage in self._stages):
            return None
        return max(max_pending, 2 * MAX_WHITESPACE) if self._openers is not None else max_pending

    def feed(self, text: str) -> list[Event]:
        """Feed the next chunk of output, of any length, and return the new events."""
        if not isinstance(text, str) or self._tokenizer is not None or self._finished:
            return super().feed(text)  # this call raises a suitable error
        self._add_raw(text)
        if self._openers is not None:
            self._first += text
            if not self._beginning_is_clear(self._first):
                return []
            text, self._first = self._first, ""
        return self._pass_on(super().feed(text))

    def feed_tokens(self, ids: Iterable[int]) -> list[Event]:
        """Feed the next tokens, and return the new events.

        Needs ``tokenizer``; spans are offsets in the decoded text.
        """
        ready = self._ready_ids(ids)
        return [] if ready is None else self._pass_on(super().feed_tokens(ready))

    def feed_decoded(self, text: str, ids: Iterable[int]) -> list[Event]:
        """Feed the next tokens with their text from the engine; see :meth:`Parser.feed_decoded`."""
        text = (self._engine_text or "") + text
        self._engine_text = text
        ready = self._ready_ids(ids)
        if ready is None:
            return []
        self._engine_text = ""
        return self._pass_on(super().feed_decoded(text, ready))

    def _ready_ids(self, ids: Iterable[int]) -> Iterable[int] | None:
        """Return the ids to parse now; None if it is still unclear whether the output begins with JSON."""
        if self._decoder is None or self._finished:
            return ids
        ready = list(ids)
        text = self._decoder.feed(ready)
        self._add_raw(text)
        if self._openers is not None:
            self._first += text
            self._ids += ready
            if not self._beginning_is_clear(self._first):
                return None
            ready, self._ids, self._first = self._ids, [], ""
        return ready

    def finish(self, reason: FinishReason | None = None) -> list[Event]:
        """End the output, and return the remaining events; see :meth:`Parser.finish`."""
        events: list[Event] = []
        if self._openers is not None and not self._finished:
            self._openers = None
            if self._decoder is None:
                events = super().feed(self._first)
            elif self._engine_text is not None:
                events = super().feed_decoded(self._engine_text, self._ids)
            else:
                events = super().feed_tokens(self._ids)
            self._first = ""
        if self._decoder is not None and not self._finished:
            self._add_raw(self._decoder.finish())
        return self._pass_on(events + super().finish(reason))

    def _add_raw(self, text: str) -> None:
        for stage in self._raw_stages:
            stage.add_raw(text)

    def _pass_on(self, events: list[Event]) -> list[Event]:
        for stage in self._stages:
            events = stage.feed(events)
        return events

    def _beginning_is_clear(self, text: str) -> bool:
        """Return whether the beginning can be classified; if it is JSON, start outside reasoning."""
        first = text.lstrip()
        openers = self._openers
        assert openers is not None  # noqa: S101 - the callers check it
        if not first:
            if len(text) > MAX_WHITESPACE:
                self._openers = None
            return self._openers is None
        if any(opener.startswith(first) and opener != first for opener in openers):
            return False
        self._openers = None
        if first[0] in "[{" and not first.startswith(tuple(openers)):
            # The parser has not been fed yet.  Initialize it again with an empty prompt, so that it starts
            # outside reasoning.
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
