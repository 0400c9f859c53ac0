"""Alignment of text with token ids, for engines that deliver both.

The text is what users see.  The ids tell a special token from ordinary tokens that spell the
same marker.  The two are not in step: the text may lag (it lacks half a character, or waits for
a possible stop string), leave out special tokens, or end early at a stop string.

Theory of operation: the ids are decoded to the *expected* text, in which each special token is
one private code point.  This is compared with the text.

* Where both agree, the text is returned.
* Where a special token is expected, its spelling is looked for in the text, after whitespace.  If the
  spelling is there, the code point replaces it; if the engine left the token out, the code
  point is inserted.
* Where both differ in ordinary text (a decoder changed whitespace, or bytes are not valid
  characters), the text counts.  The next special token is then searched for in it.
* Text that may be the beginning of a special token's spelling is held back.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..scan.character_runs import BOUND, skip_whitespace
from ..scan.markers import agreement
from .detokenizer import PRIVATE, OffsetMap


class Alignment:
    """Insertion of the code points of special tokens into text."""

    __slots__ = ("_expected", "_length", "_literals", "_positions", "_text", "_unmatched", "offsets")

    def __init__(self, back: Mapping[str, str]) -> None:
        """Take the spellings of special tokens, by code point."""
        self.offsets = OffsetMap()
        """Map from offsets in the returned text to offsets in the text with spelled-out special tokens."""
        self._literals = back
        self._expected = _Queue()  # decoded ids that the text has not reached
        self._unmatched = _Queue()  # ordinary text that the ids have not reached
        self._text = ""  # text that may be part of a special token
        self._positions: dict[str, int] = {}  # positions of special tokens in _text, as far as searched
        self._length = 0  # length of the text returned so far

    @property
    def pending(self) -> int:
        """Number of characters that are held back."""
        return len(self._text)

    def feed(self, text: str, expected: str) -> str:
        """Take the next text and the decoded ids; return the text that is certain, with code points."""
        if not text.isascii():
            text = PRIVATE.sub("\ufffd", text)  # only ids make a special token
        if text == expected and not (self._expected.piece or self._unmatched.piece or self._text):
            self._length += len(text)
            return text
        self._expected.put(expected)
        if not text and not self._text:
            return ""
        out: list[str] = []
        self._text += text
        self._positions.clear()
        at = self._advance(self._catch_up(out), out)
        if not self._expected.piece and at < len(self._text):  # no special token is on its way
            self._unmatched.put(self._text[at:])
            at = self._release(at, len(self._text), out)
        self._text = self._text[at:]
        return out[0] if len(out) == 1 else "".join(out)

    def finish(self) -> str:
        """Return the rest at the end of the input.

        Expected special tokens count as present up to the first expected ordinary text, where the text
        was cut.
        """
        out: list[str] = []
        expected = self._expected
        at = 0
        while expected.piece:
            code_point = expected.piece[expected.at]
            literal = self._literals.get(code_point, "")
            if not literal:
                break  # ordinary text is missing, so the text was cut here
            if literal.startswith(self._text[at:]):
                at = len(self._text)
            self._insert_token(code_point, literal, out)
            at = self._advance(at, out)
        self._release(at, len(self._text), out)
        return "".join(out)

    def _advance(self, at: int, out: list[str]) -> int:
        """Compare text and ids from ``at`` on, as far as both reach; return the position."""
        text = self._text
        expected = self._expected
        while at < len(text) and expected.piece:
            code_point = expected.piece[expected.at]
            literal = self._literals.get(code_point, "")
            if literal:
                start = skip_whitespace(text, at)
                if start - at <= BOUND:  # else the token was left out, and the whitespace is the model's
                    if text.startswith(literal, start):
                        at = self._release(at, start, out) + len(literal)
                    elif literal.startswith(text[start : start + len(literal)]):
                        break  # the rest of the token may follow
                self._insert_token(code_point, literal, out)
                continue
            ordinary = expected.peek_text(len(text) - at)
            same = agreement(ordinary, text, at)
            at = self._release(at, at + same, out)
            expected.take(same)
            if same < len(ordinary):
                at = self._resynchronise(at, out)
        return at

    def _catch_up(self, out: list[str]) -> int:
        """Skip decoded ids whose text was returned before; return the position to continue at."""
        ahead, expected = self._unmatched, self._expected
        while ahead.piece and expected.piece:
            shown = ahead.peek_text(len(expected.piece) - expected.at)
            same = agreement(shown, expected.piece, expected.at)
            ahead.take(same)
            expected.take(same)
            if same < len(shown):
                return self._resynchronise(0, out)
        return 0

    def _resynchronise(self, at: int, out: list[str]) -> int:
        """Return text up to the next special token, where text and ids differ."""
        self._unmatched = _Queue()
        expected = self._expected
        while expected.piece:
            special = PRIVATE.search(expected.piece, expected.at)
            if special is not None:
                expected.take(special.start() - expected.at)
                return self._release(at, max(self._next(self._literals[special[0]], at), at), out)
            expected.take(len(expected.piece) - expected.at)
        return self._release(at, len(self._text), out)

    def _next(self, literal: str, at: int) -> int:
        """Return the first position of a special token from ``at`` on, or -1."""
        place = self._positions.get(literal, 0)
        if 0 <= place < at or literal not in self._positions:
            place = self._positions[literal] = self._text.find(literal, at)
        return place

    def _release(self, at: int, end: int, out: list[str]) -> int:
        """Return ordinary text to the caller."""
        if end > at:
            out.append(self._text[at:end])
            self._length += end - at
        return end

    def _insert_token(self, code_point: str, literal: str, out: list[str]) -> None:
        """Insert the code point of the special token that is expected next."""
        self._expected.take(1)
        out.append(code_point)
        self.offsets.note(self._length, len(literal) - 1)
        self._length += 1


class _Queue:
    """Queue of text pieces, which are read from the front without copying."""

    __slots__ = ("_later", "_next", "at", "piece")

    def __init__(self) -> None:
        self.piece = ""
        """The first piece with unread text, or an empty string."""
        self.at = 0
        """Length of the text in ``piece`` that has been read."""
        self._later: list[str] = []
        self._next = 0

    def put(self, text: str) -> None:
        """Append text."""
        if not self.piece:
            self.piece = text
        elif text:
            self._later.append(text)

    def peek_text(self, most: int) -> str:
        """Return at most ``most`` characters of ordinary text from the front."""
        end = self.at + most
        special = PRIVATE.search(self.piece, self.at, end)
        return self.piece[self.at : end if special is None else special.start()]

    def take(self, length: int) -> None:
        """Remove ``length`` characters from the front; they lie in the first piece."""
        self.at += length
        if self.at < len(self.piece):
            return
        self.at = 0
        if self._next < len(self._later):
            self.piece = self._later[self._next]
            self._next += 1
        else:
            self.piece = ""
            self._later.clear()
            self._next = 0
