"""Where reasoning ends, by ids: what engines ask before and while they generate."""

from collections.abc import Iterable, Sequence
from itertools import chain

from .._core.ends.parser import Parser
from .._core.machine.prompt import begins_turn
from .._core.payload.make import compile_syntax
from .._core.tokens.detokenizer import PRIVATE, Detokenizer
from .._core.tokens.mode import TokenReader
from .._core.tokens.tokens import AnyTokenizer, as_tokenizer
from .._core.values.events import Channel, Text
from .._core.words.dialect import Dialect
from ..dialects._registry import find

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
        self._syntax = compile_syntax(self.dialect)
        self._reader = TokenReader(self.dialect, tokenizer)
        syntax = compile_syntax(self._reader.dialect)
        states = (*syntax.inside.values(), *syntax.bodies.values())
        literals = chain.from_iterable(state.entries for state in states if state.channel == "reasoning")
        headers = (syntax.frame.sep,) if syntax.frame is not None else ()
        signs = {literal[0] for literal in (*literals, *headers)}
        if not PRIVATE.sub("", "".join(signs)).isascii():
            signs.add("\ufffd")  # half of a sign, perhaps
        self._signs = frozenset(signs)
        self._signals: dict[int, bool] = {}  # whether a token may begin what ends reasoning, as it is asked

    def begins(self, prompt: Iterable[int]) -> bool:
        """Whether the output behind this prompt begins inside reasoning."""
        return self._parser(prompt).begins_in == "reasoning"

    def ended(self, ids: Iterable[int]) -> bool:
        """Whether reasoning is over in the answer that these ids, of prompt and output, end with."""
        return self._parser(ids).past_reasoning

    def ended_by(self, ids: Sequence[int], delta: Sequence[int]) -> bool:
        """Whether reasoning, which was not over, is over with the ``delta`` that ``ids`` end with.

        Cheap enough for every decoding step: most look at the last ids and no further.
        """
        if not self._syntax.has_reasoning:
            return True
        window = ids[-(_WINDOW + len(delta)) :]
        if not any(map(self._signals_end, window)):
            return False
        before = window[: len(window) - len(delta)]
        if begins_turn(self._reader.spell(before), self._syntax):
            parser = self._parser(before)
        else:
            parser = self._parser(begins_in="reasoning")
            parser.feed_tokens(before)
        parser.feed_tokens(delta)
        return parser.past_reasoning

    def end(
        self, ids: Iterable[int], *, prompt: Iterable[int] | None = None, begins_in: Channel | None = None
    ) -> int | None:
        """How many ids of an output there are up to where reasoning is over; None: it is not."""
        parser = self._parser(prompt, begins_in)
        if parser.past_reasoning:
            return 0
        for number, id in enumerate(ids, 1):
            parser.feed_tokens([id])
            if parser.past_reasoning:
                return number
        return None

    def count(
        self, ids: Iterable[int], *, prompt: Iterable[int] | None = None, begins_in: Channel | None = None
    ) -> int:
        """How many ids of an output are reasoning, its markers aside."""
        ids = list(ids)
        parser = self._parser(prompt, begins_in)
        events = parser.feed_tokens(ids) + parser.finish()
        spans = [(e.start, e.end) for e in events if isinstance(e, Text) and e.channel == "reasoning"]
        decoder = Detokenizer(as_tokenizer(self._tokenizer), {})
        count = end = which = 0
        for id in ids:
            if which == len(spans):
                break
            start, end = end, end + len(decoder.feed([id]))
            # Half a character is where the whole of it will be.
            count += spans[which][0] < max(end, start + 1) and start < spans[which][1]
            while which < len(spans) and spans[which][1] <= end:
                which += 1
        return count

    def _parser(self, prompt: Iterable[int] | None = None, begins_in: Channel | None = None) -> Parser:
        return Parser(
            self.dialect, prompt=prompt, begins_in=begins_in, tokenizer=self._tokenizer, keep_raw=False
        )

    def _signals_end(self, id: int) -> bool:
        known = self._signals.get(id)
        if known is None:
            known = self._signals[id] = not self._signs.isdisjoint(self._reader.text_of(id))
        return known
