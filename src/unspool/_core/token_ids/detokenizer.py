"""From ids to text, one delta at a time: the part of id mode that every token passes."""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ...errors import UsageError
from ...events import Event, move
from ..mypyc_types import i64
from .token_texts import TokenTexts
from .tokenizers import Tokenizer, learnt_of


def restore(text: str, code_points_back: Mapping[str, str]) -> str:
    """``text`` with its code points as the literals they stand for: :func:`substitute` undone."""
    if text.isascii():  # known without looking at the characters
        return text
    return PRIVATE.sub(lambda found: code_points_back.get(found[0], found[0]), text)


def _stands_for_more(text: str) -> bool:
    """Whether the text of a token is the code point of a special one."""
    return len(text) == 1 and _FIRST <= ord(text[0]) <= _LAST


PRIVATE: Final = re.compile(r"[\ud800-\udfff]")
"""A code point that stands for a special token."""
_FIRST: Final = 0xD800
_LAST: Final = 0xDFFF


class OffsetMap:
    """Offsets in substituted text to offsets in the text that it stands for.

    Each code point shifts everything behind it.  A cursor stays where the last
    query was, so queries that ascend, as the spans of events do, cost amortised
    O(1); one that goes back costs the code points in between.
    """

    __slots__ = ("_before", "_cursor", "_last", "_places", "_shift")

    def __init__(self) -> None:
        self._places: list[int] = []  # of the code points, ascending
        self._before: list[int] = [0]  # characters that the first n of them stand for, over n
        self._cursor: i64 = 0  # how many of them lie before the last query
        self._last: i64 = -1  # where the last code point stands,
        self._shift: i64 = 0  # ... and how far everything behind it is shifted

    def note(self, position: int, extra: int) -> None:
        """The character at ``position`` stands for ``1 + extra`` characters; in ascending order."""
        self._last = position
        self._shift += extra
        self._places.append(position)
        self._before.append(self._shift)

    def to_text(self, position: i64) -> i64:
        """Where the offset ``position`` is in the text."""
        if position > self._last:
            return position + self._shift
        places = self._places
        count: i64 = len(places)
        cursor = self._cursor
        while cursor < count and places[cursor] < position:
            cursor += 1
        while cursor > 0 and places[cursor - 1] >= position:
            cursor -= 1
        self._cursor = cursor
        return position + self._before[cursor]

    def move(self, event: Event) -> bool:
        """Put an event where it is in the text; whether a code point stands in it."""
        start: i64 = event.start
        end: i64 = event.end
        first = self.to_text(start)
        behind = self.to_text(end)
        move(event, first, behind)
        return behind - first > end - start


class Detokenizer:
    """Ids in, text out: incremental, with special tokens as their code points.

    Bytes of a character that is split over tokens wait until it is complete.
    How the ids are grouped into calls of :meth:`feed` makes no difference to
    the joined text.
    """

    __slots__ = (
        "_begun",
        "_begun_in",
        "_code_points",
        "_known",
        "_length",
        "_special",
        "_tokenizer",
        "offsets",
        "widths",
    )

    def __init__(
        self, tokenizer: Tokenizer, code_points: Mapping[str, str], known: TokenTexts | None = None
    ) -> None:
        """``known``: what is known already of tokens in these code points."""
        self.offsets = OffsetMap()
        """From offsets in the text returned so far to offsets in the plain text."""
        self.widths: list[int] | None = None
        """How many characters of the plain text begin in each token; a list is kept if there is one."""
        self._tokenizer = tokenizer
        learnt = learnt_of(tokenizer)
        self._special: Mapping[int, str] = learnt.special
        if known is None:
            known = TokenTexts() if code_points else learnt.texts
        self._known: Final = known
        self._code_points = code_points
        self._begun = b""  # the beginning of a character,
        self._begun_in = 0  # ... and the number of the token that it is in
        self._length = 0  # of the text returned so far

    def feed(self, ids: Iterable[int]) -> str:
        """The text of these tokens, as far as its characters are complete.

        A special token comes out as its code point, or as its literal if it
        has none.  An ordinary token comes out as text whatever it spells.
        An unknown id raises ``UsageError``, and then none of ``ids`` counts.
        """
        texts = self._known.texts
        widths = self._known.widths
        size = len(texts)
        # Most come one at a time, and are whole.
        if not self._begun and self.widths is None and isinstance(ids, list) and len(ids) == 1:
            only: int = ids[0]
            first = texts[only] if 0 <= only < size else None
            if first is not None and not _stands_for_more(first):
                self._length += len(first)
                return first
        before = self._begun
        begun = len(before) > 0
        measured = self.widths is not None
        passed = len(self.widths) if self.widths is not None else 0
        out: list[str] = []
        wide: list[Any] = []  # how many characters begin in each
        length: i64 = self._length
        special: list[tuple[int, int]] = []  # where a code point is, and how much longer its literal is
        others: list[tuple[int, int]] = []  # number of a token, and how much wider it is than its text
        given: list[int] = ids if isinstance(ids, list) else list(ids)
        for id in given:
            known = texts[id] if 0 <= id < size else None
            if known is None or begun:
                try:
                    known = self._other(id, passed + len(out), length, special, others)
                except UsageError:
                    self._begun = before
                    raise
                begun = len(self._begun) > 0
                size = len(texts)
                if measured:
                    wide.append(len(known))
            else:
                if measured:
                    wide.append(widths[id])
                if _stands_for_more(known):
                    special.append((length, widths[id] - 1))
            length += len(known)
            out.append(known)
        text = out[0] if len(out) == 1 else "".join(out)
        if self.widths is not None:
            self.widths += wide
            for number, more in others:
                self.widths[number] += more
        for place, more in special:
            self.offsets.note(place, more)
        self._length = length
        return text

    def whole(self, ids: Iterable[int]) -> str:
        """The text of all there is."""
        return self.feed(ids) + self.finish()

    def measure(self) -> list[int]:
        """The list of widths, which is kept from here on."""
        if self.widths is None:
            if self._length or self._begun:
                raise UsageError(
                    "measure_tokens() comes before the first ids: make a new Parser and begin anew"
                )
            self.widths = []
        return self.widths

    def finish(self) -> str:
        """Return what is left: U+FFFD if the input ended inside a character."""
        text = self._give_up()
        self._length += len(text)
        if text and self.widths is not None:
            self.widths[self._begun_in] += len(text)
        return text

    def _give_up(self) -> str:
        """Return what stands for the beginning of a character that nothing completes.

        Half a surrogate is two mistakes, as it is where all bytes are decoded at once.
        """
        begun, self._begun = self._begun, b""
        return utf_8_decode(begun, "replace", True)[0]

    def _other(
        self, id: int, number: int, at: int, special: list[tuple[int, int]], others: list[tuple[int, int]]
    ) -> str:
        """The text, from ``at`` on, of a token that is special, in part of a character, or not known yet."""
        piece = self._piece(id)
        begun = self._begun
        if isinstance(piece, bytes):
            piece = begun + piece
            text, end = utf_8_decode(piece, "replace", False)
            if text:
                if begun:  # its first character is the one that was begun
                    others += ((self._begun_in, 1), (number, -1))
                elif end == len(piece):
                    self._known.remember(id, text, len(text))
            if text or not begun:
                self._begun_in = number
            self._begun = piece[end:]
            return text
        text = self._give_up()
        if text:
            others += ((self._begun_in, len(text)), (number, -len(text)))
        code_point = self._code_points.get(piece)
        self._known.remember(id, code_point or piece, len(piece))
        if code_point is None:
            return text + piece
        special.append((at + len(text), len(piece) - 1))
        others.append((number, len(piece) - 1))
        return text + code_point

    def _piece(self, id: int) -> str | bytes:
        """The literal of a special token, the bytes of any other."""
        literal = self._special.get(id)
        if literal is not None:
            return literal
        try:
            return self._tokenizer.token_bytes(id)
        except LookupError:
            raise UsageError(
                f"the tokenizer has no token with the id {id}: is it the one of the model that wrote this?"
            ) from None
