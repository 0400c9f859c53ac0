"""Where reasoning ends, by ids: what engines ask before and while they generate."""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain

from .._core.compile_cache import compiled_dialect
from .._core.start_state import begins_turn
from .._core.token_ids.detokenizer import PRIVATE, Detokenizer
from .._core.token_ids.reader import TokenReader
from .._core.token_ids.tokenizers import AnyTokenizer, as_tokenizer
from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ..events import Channel, Event, Text
from ..parser import Parser

_WINDOW = 96
"""How many ids before a step can belong to what ends reasoning in it: a closer, the head of a call."""


class ReasoningIds:
    """What the ids of a prompt and of an output say about reasoning.

    Make one for a dialect and a vocabulary, and keep it: nothing in it changes, so
    threads and requests share it.
    """

    def __init__(self, dialect: str | Dialect, tokenizer: AnyTokenizer) -> None:
        self.dialect = find(dialect, tokenizer)
        """The dialect, in the variant that the vocabulary calls for."""
        self._tokenizer = tokenizer
        self._compiled = compiled_dialect(self.dialect)
        self._reader = TokenReader(self.dialect, tokenizer)
        compiled = compiled_dialect(self._reader.dialect)
        states = (*compiled.states.inside.values(), *compiled.states.bodies.values())
        literals = chain.from_iterable(state.entries for state in states if state.channel == "reasoning")
        headers = (compiled.frame.sep,) if compiled.frame is not None else ()
        signs = {literal[0] for literal in (*literals, *headers)}
        if not PRIVATE.sub("", "".join(signs)).isascii():
            signs.add("\ufffd")  # half of a sign, perhaps
        self._signs = frozenset(signs)
        self._signals: dict[int, bool] = {}  # whether a token may begin what ends reasoning, as it is asked

    def begins(self, prompt: Iterable[int]) -> bool:
        """Whether the output behind this prompt begins inside reasoning."""
        return self._parser(prompt).start_channel == "reasoning"

    def ended(self, ids: Iterable[int]) -> bool:
        """Whether reasoning is over in the answer that these ids, of prompt and output, end with."""
        return self._parser(ids, continues=True).reasoning_ended

    def ended_by(self, ids: Sequence[int], delta: Sequence[int]) -> bool:
        """Whether reasoning, which was not over, is over with the ``delta`` that ``ids`` end with.

        Cheap enough for every decoding step: most look at the last ids and no further.
        """
        if not self._compiled.has_reasoning:
            return True
        window = ids[-(_WINDOW + len(delta)) :]
        if not any(map(self._signals_end, window)):
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
        """How many ids of an output there are up to where reasoning is over; None: it is not."""
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
        """How many ids of an output are reasoning, its markers aside."""
        counter = self.counter(prompt=prompt, start_channel=start_channel)
        counter.feed(ids)
        return counter.finish()

    def counter(
        self, *, prompt: Iterable[int] | None = None, start_channel: Channel | None = None
    ) -> "ReasoningCounter":
        """What counts an output while it is written."""
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

    def _signals_end(self, id: int) -> bool:
        known = self._signals.get(id)
        if known is None:
            known = self._signals[id] = not self._signs.isdisjoint(self._reader.text_of(id))
        return known


class ReasoningCounter:
    """Counts the tokens of reasoning in one output; ``ReasoningIds.counter`` makes them."""

    def __init__(self, parser: Parser, tokenizer: AnyTokenizer) -> None:
        self.total = 0
        """How many of the tokens are reasoning, as far as that is decided."""
        self.fed = 0
        """How many tokens there were."""
        self._parser = parser
        self._decoder = Detokenizer(as_tokenizer(tokenizer), {})
        self._tokens: deque[tuple[int, int]] = deque()  # the spans of those that are not decided
        self._spans: deque[tuple[int, int]] = deque()  # reasoning that such tokens may be part of
        self._end = 0

    def feed(self, ids: Iterable[int]) -> None:
        """Take the next tokens."""
        found = list(ids)
        self.fed += len(found)
        for id in found:
            start, self._end = self._end, self._end + len(self._decoder.feed([id]))
            # Half a character is where the whole of it will be.
            self._tokens.append((start, max(self._end, start + 1)))
        self._see(self._parser.feed_tokens(found))

    def finish(self) -> int:
        """No more tokens follow; how many of all were reasoning."""
        self._see(self._parser.finish())
        self._decide(self._end + 1)
        return self.total

    def _see(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Text) and event.channel == "reasoning":
                self._spans.append((event.start, event.end))
        if events:
            self._decide(events[-1].end)

    def _decide(self, read: int) -> None:
        """Whether tokens are reasoning, of those that end before this place."""
        tokens, spans = self._tokens, self._spans
        while tokens and tokens[0][1] <= read:
            start, end = tokens.popleft()
            while spans and spans[0][1] <= start:
                spans.popleft()
            self.total += bool(spans) and spans[0][0] < end
