"""Incremental detokenizer that converts token ids to text with private code points for special tokens.

``tokenizer_adapters.py`` explains the code points.  ``OffsetMap`` converts offsets in text with
code points to offsets in the plain text that callers see.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ...errors import UsageError
from ...events import Event, move
from ..mypyc_types import i64
from .token_text_cache import TokenTexts
from .tokenizer_adapters import Tokenizer, facts_of_tokenizer


def restore(text: str, code_points_back: Mapping[str, str]) -> str:
    """Replace the private code points in ``text`` with their special tokens; inverse of ``substitute``."""
    if text.isascii():  # a fast check, because Python strings store whether they are ASCII
        return text
    return PRIVATE.sub(lambda match: code_points_back.get(match[0], match[0]), text)


def _is_code_point(text: str) -> bool:
    """Return whether ``text``, the text of a token, is the private code point of a special token."""
    return len(text) == 1 and _FIRST <= ord(text[0]) <= _LAST


PRIVATE: Final = re.compile(r"[\ud800-\udfff]")
"""Pattern of a private code point, which represents a special token."""
_FIRST: Final = 0xD800
_LAST: Final = 0xDFFF


class OffsetMap:
    """Map from offsets in text with code points to offsets in plain text.

    A code point is shorter than its special token, so it shifts all text after it.  The map keeps a cursor at
    the last query.  Ascending queries, such as those for the spans of events, take constant time on average.
    The time for any other query is proportional to the number of code points between query and cursor.
    """

    __slots__ = ("_before", "_cursor", "_last", "_places", "_shift")

    def __init__(self) -> None:
        self._places: list[int] = []  # Positions of the code points, in ascending order.
        self._before: list[int] = [0]  # At index n: shift in characters after the first n code points.
        self._cursor: i64 = 0  # Number of code points before the position of the last query.
        self._last: i64 = -1  # Position of the last code point.
        self._shift: i64 = 0  # Shift in characters after the last code point.

    def note(self, position: int, extra: int) -> None:
        """Record a code point after all earlier ones; its special token has ``1 + extra`` characters."""
        self._last = position
        self._shift += extra
        self._places.append(position)
        self._before.append(self._shift)

    def to_text(self, position: i64) -> i64:
        """Return the offset in the plain text for an offset in the text with code points."""
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
        """Convert an event's span to offsets in the plain text.

        Return True if the span contains the code point of a special token.
        """
        start: i64 = event.start
        end: i64 = event.end
        first = self.to_text(start)
        last = self.to_text(end)
        move(event, first, last)
        return last - first > end - start


class Detokenizer:
    """Incremental detokenizer that returns special tokens as private code points.

    A character that is split over several tokens is held back until it is complete.  The concatenated text
    does not depend on how the ids are distributed over calls of :meth:`feed`.
    """

    __slots__ = (
        "_code_points",
        "_incomplete",
        "_incomplete_in",
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
        """Create a detokenizer.

        :param code_points: map from each special token to its private code point.
        :param known: cached texts of tokens, from a detokenizer with the same code points.
        """
        self.offsets = OffsetMap()
        """Map from offsets in the returned text to offsets in the plain text."""
        self.widths: list[int] | None = None
        """Number of plain-text characters that begin in each token; None unless :meth:`measure` is called."""
        self._tokenizer = tokenizer
        facts = facts_of_tokenizer(tokenizer)
        self._special: Mapping[int, str] = facts.special
        if known is None:
            known = TokenTexts() if code_points else facts.texts
        self._known: Final = known
        self._code_points = code_points
        self._incomplete = b""  # Bytes of an incomplete character.
        self._incomplete_in = 0  # Number of the token in which the incomplete character begins.
        self._length = 0  # Length of the text returned so far.

    def feed(self, ids: Iterable[int]) -> str:
        """Return the text of these tokens, up to the last complete character.

        The text of a special token is its code point, or its literal if it has no code point.  An ordinary
        token is never replaced, even if its text equals a special token.  For an unknown id, raise
        ``UsageError`` and ignore all ``ids`` of this call.
        """
        texts = self._known.texts
        widths = self._known.widths
        size = len(texts)
        # Fast path: in most calls there is one token, which consists of complete characters.
        if not self._incomplete and self.widths is None and isinstance(ids, list) and len(ids) == 1:
            only: int = ids[0]
            first = texts[only] if 0 <= only < size else None
            if first is not None and not _is_code_point(first):
                self._length += len(first)
                return first
        before = self._incomplete
        incomplete = len(before) > 0
        measured = self.widths is not None
        passed = len(self.widths) if self.widths is not None else 0
        out: list[str] = []
        wide: list[Any] = []  # number of characters that begin in each token
        length: i64 = self._length
        special: list[tuple[int, int]] = []  # Pairs: position of a code point, extra length of its literal.
        others: list[tuple[int, int]] = []  # Pairs: number of a token, correction of its width.
        all_ids: list[int] = ids if isinstance(ids, list) else list(ids)
        for id in all_ids:
            known = texts[id] if 0 <= id < size else None
            if known is None or incomplete:
                try:
                    known = self._decode_other(id, passed + len(out), length, special, others)
                except UsageError:
                    # Restore the state before this call, so that none of its ids has an effect.
                    self._incomplete = before
                    raise
                incomplete = len(self._incomplete) > 0
                size = len(texts)
                if measured:
                    wide.append(len(known))
            else:
                if measured:
                    wide.append(widths[id])
                if _is_code_point(known):
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

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of a complete sequence of ids."""
        return self.feed(ids) + self.finish()

    def measure(self) -> list[int]:
        """Start to record the widths of tokens, and return the list to which they are appended."""
        if self.widths is None:
            if self._length or self._incomplete:
                raise UsageError(
                    "measure_tokens() was called too late: call it on a new Parser, before the first ids"
                )
            self.widths = []
        return self.widths

    def finish(self) -> str:
        """Return the rest of the text, which is U+FFFD if the input ended inside a character."""
        text = self._flush_incomplete()
        self._length += len(text)
        if text and self.widths is not None:
            self.widths[self._incomplete_in] += len(text)
        return text

    def _flush_incomplete(self) -> str:
        """Return the replacement for an incomplete character: one or more U+FFFD, like ``bytes.decode()``."""
        incomplete, self._incomplete = self._incomplete, b""
        return utf_8_decode(incomplete, "replace", True)[0]

    def _decode_other(
        self, id: int, number: int, at: int, special: list[tuple[int, int]], others: list[tuple[int, int]]
    ) -> str:
        """Return the text of a token that is special, holds part of a character, or is not cached yet.

        :param number: number of the token in the output.
        :param at: position of the token's text in the returned text.
        :param special: list to which the position and extra length of each code point are appended.
        :param others: list to which corrections of token widths are appended.
        """
        piece = self._piece(id)
        incomplete = self._incomplete
        if isinstance(piece, bytes):
            piece = incomplete + piece
            text, end = utf_8_decode(piece, "replace", False)
            if text:
                if incomplete:  # the first character of the text began in an earlier token
                    others += ((self._incomplete_in, 1), (number, -1))
                elif end == len(piece):
                    self._known.remember(id, text, len(text))
            if text or not incomplete:
                self._incomplete_in = number
            self._incomplete = piece[end:]
            return text
        text = self._flush_incomplete()
        if text:
            others += ((self._incomplete_in, len(text)), (number, -len(text)))
        code_point = self._code_points.get(piece)
        self._known.remember(id, code_point or piece, len(piece))
        if code_point is None:
            return text + piece
        special.append((at + len(text), len(piece) - 1))
        others.append((number, len(piece) - 1))
        return text + code_point

    def _piece(self, id: int) -> str | bytes:
        """Return the literal of a special token, or the bytes of an ordinary one."""
        literal = self._special.get(id)
        if literal is not None:
            return literal
        try:
            return self._tokenizer.token_bytes(id)
        except LookupError:
            raise UsageError(
                f"the tokenizer has no token with the id {id}: pass the tokenizer of the model that wrote it"
            ) from None
