"""Reader of token ids: it prepares a dialect and the input for the machine, and restores the events.

Each special token in the dialect's templates becomes one code point, a lone surrogate, in the
templates and in the input.  No UTF-8 decoder produces a lone surrogate, so a marker that the model
spells out in ordinary tokens stays text.  The events that leave the parser have plain text again,
and spans in plain text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ...dialects._dialect_texts import dialect_texts
from ...errors import UsageError
from ...events import CallArgs, CallEnd, CallStart, Diagnostic, Event, Markup, Text
from ..scan.character_runs import BOUND
from .alignment import Alignment
from .detokenizer import Detokenizer, restore
from .token_texts import TokenTexts
from .tokenizer_adapters import (
    Tokenizer,
    as_tokenizer,
    assign_code_points,
    assign_more_code_points,
    facts_of_tokenizer,
    substitute,
)

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect


class TokenDialect:
    """Dialect with the special tokens of a vocabulary as code points."""

    __slots__ = ("back", "code_points", "dialect", "texts", "unused")

    def __init__(self, dialect: Dialect, tokenizer: Tokenizer) -> None:
        own = assign_code_points(dialect_texts(dialect), tokenizer)
        others = assign_more_code_points(own, tokenizer)
        self.code_points: Final = {**own, **others}
        self.back: Final = {code_point: literal for literal, code_point in self.code_points.items()}
        """Literals of the special tokens, by code point."""
        self.unused: Final = frozenset(others.values())
        """Code points of control tokens that the dialect does not use; the parser drops them."""
        read = _substituted(dialect, tuple(own.items()))
        self.dialect: Final[Dialect] = replace(read, drop=(*read.drop, *others.values())) if others else read
        """The dialect, rewritten with code points."""
        self.texts: Final = TokenTexts()


class TokenReader(Detokenizer):
    """Conversion of ids to text for the machine, and of the machine's events to plain text."""

    __slots__ = ("_literals", "_unused", "alignment", "dialect")

    def __init__(self, dialect: Dialect, tokenizer: object) -> None:
        vocabulary = as_tokenizer(tokenizer)
        token_dialects = facts_of_tokenizer(vocabulary).token_dialects
        token_dialect = token_dialects.get(dialect)
        if token_dialect is None:
            token_dialect = token_dialects[dialect] = TokenDialect(dialect, vocabulary)
        super().__init__(vocabulary, token_dialect.code_points, token_dialect.texts)
        self._literals = token_dialect.back
        self._unused = token_dialect.unused
        self.alignment: Alignment | None = None
        """Alignment of text with the ids, if the caller gives both."""
        self.dialect: Dialect = token_dialect.dialect

    @property
    def pending(self) -> int:
        """Number of characters that the machine has not received yet."""
        return 0 if self.alignment is None else self.alignment.pending

    @property
    def max_pending(self) -> int:
        """Maximum of ``pending`` in the present state."""
        return 0 if self.alignment is None or not self.alignment.pending else 2 * BOUND

    def prompt(self, text: str) -> str:
        """Return a prompt that was given as text, with code points."""
        return substitute(text, self._code_points)

    def spell(self, ids: Iterable[int]) -> str:
        """Return the plain text of ids that do not belong to this output."""
        return Detokenizer(self._tokenizer, {}).whole(ids)

    def text_of(self, id: int) -> str:
        """Return the text of one token for the machine, with U+FFFD in place of incomplete characters."""
        piece = self._piece(id)
        return (
            piece.decode(errors="replace")
            if isinstance(piece, bytes)
            else self._code_points.get(piece, piece)
        )

    def align(self, text: str, ids: Iterable[int]) -> str:
        """Return text for the machine, from text that the caller decoded and its ids."""
        if self.alignment is None:
            if self._length or self._incomplete:
                raise UsageError(
                    "feed_tokens() was called without text before: give text with all ids, or with none"
                )
            self.alignment = Alignment(self._literals)
        return self.alignment.feed(text, self.feed(ids))

    def end(self) -> str:
        """Return the rest of the text at the end of the input."""
        return self.finish() if self.alignment is None else self.alignment.finish()

    def plain(self, events: list[Event]) -> list[Event]:
        """Return the events with plain text and spans in plain text."""
        offsets = self.offsets if self.alignment is None else self.alignment.offsets
        back = self._literals
        if self._unused:
            events = self._with_dropped_tokens(events)
        for event in events:
            grown = offsets.move(event)
            if isinstance(event, CallArgs):
                event.json = restore(event.json, back)
            elif isinstance(event, (Text, Markup)):
                if grown:
                    event.text = restore(event.text, back)
            elif isinstance(event, CallEnd):
                event.raw = restore(event.raw, back)
                event.args_start = offsets.to_text(event.args_start)
                event.args_end = offsets.to_text(event.args_end)
            elif isinstance(event, Diagnostic):
                event.detail = restore(event.detail, back)
            elif isinstance(event, CallStart):
                event.name = restore(event.name, back)
                event.name_start = offsets.to_text(event.name_start)
                event.name_end = offsets.to_text(event.name_end)
        return events

    def _with_dropped_tokens(self, events: list[Event]) -> list[Event]:
        """Add a diagnostic for each dropped token, in any state of the machine.

        The machine joins neighbouring markup, depending on the chunks.  Splitting it at the dropped tokens
        makes the diagnostics independent of the chunking.
        """
        unused = self._unused
        if not any(isinstance(event, Markup) and not unused.isdisjoint(event.text) for event in events):
            return events
        out: list[Event] = []
        for event in events:
            if not isinstance(event, Markup):
                out.append(event)
                continue
            begin = 0
            for at, char in enumerate(event.text):
                if char in unused:
                    if at > begin:
                        where = event.start + begin
                        out.append(Markup(event.kind, event.text[begin:at], where, event.start + at))
                    out.append(Diagnostic("dropped_token", char, event.start + at, event.start + at))
                    begin = at
            out.append(Markup(event.kind, event.text[begin:], event.start + begin, event.end))
        return out


def uses(dialect: Dialect, tokenizer: object) -> frozenset[str]:
    """Return the special tokens of a vocabulary that occur in the dialect's markup."""
    return frozenset(assign_code_points(dialect_texts(dialect), as_tokenizer(tokenizer)))


@lru_cache(maxsize=256)
def _substituted(dialect: Dialect, pairs: tuple[tuple[str, str], ...]) -> Dialect:
    """Return a dialect with its special tokens replaced by code points."""
    if not pairs:
        return dialect
    code_points = dict(pairs)

    def each(templates: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(substitute(template, code_points) for template in templates)

    frame = dialect.frame
    if frame is not None:
        frame = replace(
            frame, open=each(frame.open), sep=substitute(frame.sep, code_points), ends=each(frame.ends),
            fields=each(frame.fields),
        )  # fmt: skip
    return replace(
        dialect,
        call=each(dialect.call),
        section=each(dialect.section),
        param=each(dialect.param),
        also_accepts=tuple(_substituted(foreign, pairs) for foreign in dialect.also_accepts),
        reasoning=each(dialect.reasoning),
        content=each(dialect.content),
        drop=each(dialect.drop),
        stop=each(dialect.stop),
        values=replace(dialect.values, quote=substitute(dialect.values.quote, code_points)),
        prompt=replace(
            dialect.prompt,
            start=substitute(dialect.prompt.start, code_points),
            turn=each(dialect.prompt.turn),
        ),
        frame=frame,
    )
