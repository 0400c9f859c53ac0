"""Reader of token ids, which lets the machine distinguish special tokens from ordinary text.

Each special token in the dialect's templates is replaced by one private code point, both in the
templates and in the input.  The code points are lone surrogates, which no UTF-8 decoder produces.  So
a marker that the model writes in ordinary tokens stays text.  The events that the parser returns
contain plain text and spans in plain text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ...dialects.list_templates_and_markers import dialect_texts
from ...dialects.parse_templates import TemplateT, template_text, with_text
from ...errors import UsageError
from ...events import CallArgs, CallEnd, CallStart, Diagnostic, Event, Markup, Text
from ..scan.character_runs import BOUND
from .align_text_with_ids import Alignment
from .detokenizer import Detokenizer, restore
from .token_text_cache import TokenTexts
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
    """Dialect in which the special tokens of a vocabulary are replaced by private code points."""

    __slots__ = ("back", "code_points", "dialect", "texts", "unused")

    def __init__(self, dialect: Dialect, tokenizer: Tokenizer) -> None:
        own = assign_code_points(dialect_texts(dialect), tokenizer)
        others = assign_more_code_points(own, tokenizer)
        self.code_points: Final = {**own, **others}
        self.back: Final = {code_point: literal for literal, code_point in self.code_points.items()}
        """Map from each private code point to its special token."""
        self.unused: Final = frozenset(others.values())
        """Code points of control tokens that the dialect does not use; the parser removes these tokens."""
        read = _substituted(dialect, tuple(own.items()))
        self.dialect: Final[Dialect] = replace(read, drop=(*read.drop, *others.values())) if others else read
        """The dialect with code points in its templates."""
        self.texts: Final = TokenTexts()


class TokenReader(Detokenizer):
    """Converter that turns token ids into text for the machine, and the machine's events into plain text."""

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
        """Alignment of the ids with the caller's text; None if the caller passes only ids."""
        self.dialect: Dialect = token_dialect.dialect

    @property
    def pending(self) -> int:
        """Number of characters of the input that the machine has not received yet."""
        return 0 if self.alignment is None else self.alignment.pending

    @property
    def max_pending(self) -> int:
        """Upper bound of ``pending`` in the current state."""
        return 0 if self.alignment is None or not self.alignment.pending else 2 * BOUND

    def prompt(self, text: str) -> str:
        """Return the text of a prompt with code points in place of special tokens."""
        return substitute(text, self._code_points)

    def spell(self, ids: Iterable[int]) -> str:
        """Return the plain text of ids from outside the output, such as ids of a prompt."""
        return Detokenizer(self._tokenizer, {}).decode(ids)

    def text_of(self, id: int) -> str:
        """Return the text of one token for the machine; incomplete characters become U+FFFD."""
        piece = self._piece(id)
        return (
            piece.decode(errors="replace")
            if isinstance(piece, bytes)
            else self._code_points.get(piece, piece)
        )

    def align(self, text: str, ids: Iterable[int]) -> str:
        """Return text for the machine, from ids and the text that the caller decoded from them."""
        if self.alignment is None:
            if self._length or self._incomplete:
                raise UsageError(
                    "an earlier call of feed_tokens() had no text: pass text in every call or in none"
                )
            self.alignment = Alignment(self._literals)
        return self.alignment.feed(text, self.feed(ids))

    def finish(self) -> str:
        """Return the rest of the text for the machine, at the end of the input."""
        return super().finish() if self.alignment is None else self.alignment.finish()

    def plain(self, events: list[Event]) -> list[Event]:
        """Convert the texts and spans of the events to plain text without code points; return the events."""
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
                event.raw = restore(event.raw, back)
            elif isinstance(event, CallStart):
                event.name = restore(event.name, back)
                event.name_start = offsets.to_text(event.name_start)
                event.name_end = offsets.to_text(event.name_end)
        return events

    def _with_dropped_tokens(self, events: list[Event]) -> list[Event]:
        """Return the events, with a diagnostic for each control token that the parser removed.

        Whether the machine merges adjacent markup events depends on the chunks.  Splitting the events at the
        removed tokens makes the diagnostics independent of the chunks.
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
    """Return those special tokens of a vocabulary that occur in the dialect's markup."""
    return frozenset(assign_code_points(dialect_texts(dialect), as_tokenizer(tokenizer)))


@lru_cache(maxsize=256)
def _substituted(dialect: Dialect, pairs: tuple[tuple[str, str], ...]) -> Dialect:
    """Return a copy of the dialect with private code points in place of special tokens."""
    if not pairs:
        return dialect
    code_points = dict(pairs)

    def each(templates: tuple[TemplateT, ...]) -> tuple[TemplateT, ...]:
        return tuple(
            with_text(template, substitute(template_text(template), code_points)) for template in templates
        )

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
        habits=replace(
            dialect.habits,
            drop_text=each(dialect.habits.drop_text),
            repeated_calls=each(dialect.habits.repeated_calls),
        ),
        stop=each(dialect.stop),
        values=replace(dialect.values, quote=substitute(dialect.values.quote, code_points)),
        prompt=replace(
            dialect.prompt,
            ends=each(dialect.prompt.ends),
            turn=each(dialect.prompt.turn),
        ),
        frame=frame,
    )
