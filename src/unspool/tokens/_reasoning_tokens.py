"""Detection of the end of reasoning in token ids, for use by engines before and during generation."""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain

from .._core.compile_cache import compiled_dialect
from .._core.read_prompt_end import begins_turn
from .._core.token_ids.detokenizer import PRIVATE, Detokenizer
from .._core.token_ids.reader import TokenReader
from .._core.token_ids.tokenizer_adapters import AnyTokenizer, as_tokenizer
from ..dialects import Dialect, find
from ..events import Channel, Event, Text
from ..parser import Parser

_WINDOW = 96
"""Number of earlier ids to read again, because a marker may begin in them and end in the newest ids."""


class ReasoningIds:
    """Detector of reasoning in the ids of prompts and outputs.

    Create one object for each dialect and vocabulary, and share it between threads and requests.
    """

    def __init__(self, dialect: str | Dialect, tokenizer: AnyTokenizer) -> None:
        self.dialect = find(dialect, tokenizer)
        """The dialect, or its variant for this vocabulary."""
        self._tokenizer = tokenizer
        self._compiled = compiled_dialect(self.dialect)
        self._reader = TokenReader(self.dialect, tokenizer)
        compiled = compiled_dialect(self._reader.dialect)
        states = (*compiled.states.inside.values(), *compiled.states.bodies.values())
        literals = chain.from_iterable(state.entries for state in states if state.channel == "reasoning")
        headers = (compiled.frame.sep,) if compiled.frame is not None else ()
        marker_starts = {literal[0] for literal in (*literals, *headers)}
        if not PRIVATE.sub("", "".join(marker_starts)).isascii():
            # If a token contains only some bytes of a non-ASCII character, its text is U+FFFD.
            marker_starts.add("\ufffd")
        self._marker_starts = frozenset(marker_starts)
        self._may_end: dict[int, bool] = {}
        """For each id, True if the token may begin a marker that ends reasoning."""

    def begins(self, prompt: Iterable[int]) -> bool:
        """Return whether an output that follows this prompt begins inside reasoning."""
        return self._parser(prompt).start_channel == "reasoning"

    def ended(self, ids: Iterable[int]) -> bool:
        """Return whether reasoning has ended in the last turn of ``ids`` (a prompt and the output so far)."""
        return self._parser(ids, continues=True).reasoning_ended

    def ended_by(self, ids: Sequence[int], delta: Sequence[int]) -> bool:
        """Return whether reasoning ends within ``delta``, which contains the last ids of ``ids``.

        The caller must ensure that reasoning has not ended before ``delta``.  The method is fast enough for
        each decoding step, because it usually reads only the last ids.
        """
        if not self._compiled.has_reasoning:
            return True
        window = ids[-(_WINDOW + len(delta)) :]
        # Fast path: without a token that may begin a marker, reasoning cannot have ended.
        if not any(map(self._may_end_reasoning, window)):
            return False
        before = window[: len(window) - len(delta)]
        if begins_turn(self._reader.spell(before), self._compiled):
            parser = self._parser(before, continues=True)
        else:
            parser = self._parser(start_channel="reasoning")
            parser.feed_tokens(before)
        parser.feed_tokens(delta)
        return parser.reasoning_ended

    def end(
        self, ids: Iterable[int], *, prompt: Iterable[int] | None = None, start_channel: Channel | None = None
    ) -> int | None:
        """Return the number of ids up to and including the one that ends reasoning, or None."""
        parser = self._parser(prompt, start_channel)
        if parser.reasoning_ended:
            return 0
        for number, id in enumerate(ids, 1):
            parser.feed_tokens([id])
            if parser.reasoning_ended:
                return number
        return None

    def count(
        self, ids: Iterable[int], *, prompt: Iterable[int] | None = None, start_channel: Channel | None = None
    ) -> int:
        """Return the number of reasoning tokens in an output, without the markers."""
        counter = self.counter(prompt=prompt, start_channel=start_channel)
        counter.feed(ids)
        return counter.finish()

    def counter(
        self, *, prompt: Iterable[int] | None = None, start_channel: Channel | None = None
    ) -> "ReasoningCounter":
        """Return a counter of reasoning tokens, for an output that is still being generated."""
        return ReasoningCounter(self._parser(prompt, start_channel), self._tokenizer)

    def _parser(
        self,
        prompt: Iterable[int] | None = None,
        start_channel: Channel | None = None,
        *,
        continues: bool = False,
    ) -> Parser:
        return Parser(
            self.dialect,
            prompt=prompt,
            continues=continues,
            start_channel=start_channel,
            tokenizer=self._tokenizer,
            keep_raw=False,
        )

    def _may_end_reasoning(self, id: int) -> bool:
        known = self._may_end.get(id)
        if known is None:
            known = self._may_end[id] = not self._marker_starts.isdisjoint(self._reader.text_of(id))
        return known


class ReasoningCounter:
    """Counter of the reasoning tokens in one output; ``ReasoningIds.counter`` returns it."""

    def __init__(self, parser: Parser, tokenizer: AnyTokenizer) -> None:
        self.total = 0
        """Number of tokens so far that the parser has classified as reasoning."""
        self.fed = 0
        """Number of tokens that have been fed."""
        self._parser = parser
        self._decoder = Detokenizer(as_tokenizer(tokenizer), {})
        self._tokens: deque[tuple[int, int]] = deque()  # Text spans of tokens that are not classified yet.
        self._spans: deque[tuple[int, int]] = deque()  # Spans of reasoning that may contain these tokens.
        self._end = 0

    def feed(self, ids: Iterable[int]) -> None:
        """Add the next tokens of the output."""
        found = list(ids)
        self.fed += len(found)
        for id in found:
            start, self._end = self._end, self._end + len(self._decoder.feed([id]))
            # Several tokens may together encode one character; each of them gets the span of the character.
            self._tokens.append((start, max(self._end, start + 1)))
        self._add_events(self._parser.feed_tokens(found))

    def finish(self) -> int:
        """End the output, and return the final number of reasoning tokens."""
        self._add_events(self._parser.finish())
        self._decide(self._end + 1)
        return self.total

    def _add_events(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Text) and event.channel == "reasoning":
                self._spans.append((event.start, event.end))
        if events:
            self._decide(events[-1].end)

    def _decide(self, offset: int) -> None:
        """Count the reasoning tokens that end at or before a text offset, and increase ``total``."""
        tokens, spans = self._tokens, self._spans
        while tokens and tokens[0][1] <= offset:
            start, end = tokens.popleft()
            while spans and spans[0][1] <= start:
                spans.popleft()
            self.total += bool(spans) and spans[0][0] < end
