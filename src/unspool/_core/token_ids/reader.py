"""Token-id mode: the same machine, reading ids.

Each special token that the dialect's templates contain becomes one lone
surrogate, in the templates and in the input.  No UTF-8 decoder can produce a
lone surrogate, so ordinary text cannot collide with one: a marker that the
model merely spelt out is text, whatever it looks like.  What leaves the parser
is plain text again, with spans in plain text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ...dialects._templates import dialect_texts
from ...errors import UsageError
from ...events import CallArgs, CallEnd, CallStart, Diagnostic, Event, Markup, Text
from ..scan.runs import BOUND
from .alignment import Alignment
from .detokenizer import Detokenizer, restore
from .token_texts import TokenTexts
from .tokenizers import (
    Tokenizer,
    as_tokenizer,
    assign_code_points,
    learnt_of,
    more_code_points,
    substitute,
)

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect


class TokenDialect:
    """What a dialect is in a vocabulary."""

    __slots__ = ("back", "code_points", "dialect", "nobodys", "texts")

    def __init__(self, dialect: Dialect, tokenizer: Tokenizer) -> None:
        own = assign_code_points(dialect_texts(dialect), tokenizer)
        others = more_code_points(own, tokenizer)
        self.code_points: Final = {**own, **others}
        self.back: Final = {code_point: literal for literal, code_point in self.code_points.items()}
        """What they stand for."""
        self.nobodys: Final = frozenset(others.values())
        """Control tokens that are no markup of the dialect: they vanish."""
        read = _substituted(dialect, tuple(own.items()))
        self.dialect: Final[Dialect] = replace(read, drop=(*read.drop, *others.values())) if others else read
        """The dialect with its special tokens as code points."""
        self.texts: Final = TokenTexts()


class TokenReader(Detokenizer):
    """Ids to the machine's text, and the machine's events to plain ones."""

    __slots__ = ("_back", "_nobodys", "alignment", "dialect")

    def __init__(self, dialect: Dialect, tokenizer: object) -> None:
        vocabulary = as_tokenizer(tokenizer)
        readings = learnt_of(vocabulary).readings
        reading = readings.get(dialect)
        if reading is None:
            reading = readings[dialect] = TokenDialect(dialect, vocabulary)
        super().__init__(vocabulary, reading.code_points, reading.texts)
        self._back = reading.back
        self._nobodys = reading.nobodys
        self.alignment: Alignment | None = None
        """What holds text that comes with the ids against them."""
        self.dialect: Dialect = reading.dialect

    @property
    def pending(self) -> int:
        """Characters that came in and that the machine has not seen."""
        return 0 if self.alignment is None else self.alignment.pending

    @property
    def max_pending(self) -> int:
        """No more than so many."""
        return 0 if self.alignment is None or not self.alignment.pending else 2 * BOUND

    def prompt(self, text: str) -> str:
        """A prompt, given as text."""
        return substitute(text, self._code_points)

    def spell(self, ids: Iterable[int]) -> str:
        """The plain text of ids that are not of this output."""
        return Detokenizer(self._tokenizer, {}).whole(ids)

    def text_of(self, id: int) -> str:
        """One token by itself, as the machine would read it; U+FFFD for what is no whole character."""
        piece = self._piece(id)
        return (
            piece.decode(errors="replace")
            if isinstance(piece, bytes)
            else self._code_points.get(piece, piece)
        )

    def align(self, text: str, ids: Iterable[int]) -> str:
        """The machine's text of what was decoded elsewhere."""
        if self.alignment is None:
            if self._length or self._begun:
                raise UsageError(
                    "feed_tokens() was called before; go on with it, or give text from the start"
                )
            self.alignment = Alignment(self._back)
        return self.alignment.feed(text, self.feed(ids))

    def end(self) -> str:
        """What is left."""
        return self.finish() if self.alignment is None else self.alignment.finish()

    def plain(self, events: list[Event]) -> list[Event]:
        """Events as callers see them."""
        offsets = self.offsets if self.alignment is None else self.alignment.offsets
        back = self._back
        if self._nobodys:
            events = self._noted(events)
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

    def _noted(self, events: list[Event]) -> list[Event]:
        """With a note before each token that vanishes, wherever the machine stood: chunks must not matter."""
        nobodys = self._nobodys
        if not any(isinstance(event, Markup) and not nobodys.isdisjoint(event.text) for event in events):
            return events
        out: list[Event] = []
        for event in events:
            if not isinstance(event, Markup):
                out.append(event)
                continue
            begin = 0
            for at, char in enumerate(event.text):
                if char in nobodys:
                    if at > begin:
                        where = event.start + begin
                        out.append(Markup(event.kind, event.text[begin:at], where, event.start + at))
                    out.append(Diagnostic("dropped_token", char, event.start + at, event.start + at))
                    begin = at
            out.append(Markup(event.kind, event.text[begin:], event.start + begin, event.end))
        return out


def uses(dialect: Dialect, tokenizer: object) -> frozenset[str]:
    """The special tokens of a vocabulary that the dialect's markup contains."""
    return frozenset(assign_code_points(dialect_texts(dialect), as_tokenizer(tokenizer)))


@lru_cache(maxsize=256)
def _substituted(dialect: Dialect, pairs: tuple[tuple[str, str], ...]) -> Dialect:
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
