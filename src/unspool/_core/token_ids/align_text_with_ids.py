"""Alignment of text with token ids, for engines that deliver both.

The text is what users see.  The ids distinguish a special token from ordinary tokens with the same
characters.  Text and ids often do not match exactly.  The text may arrive later than the ids (because
of an incomplete character or a possible stop string), omit special tokens, or end early at a stop string.

Theory of operation: the ids are decoded to the *expected* text, in which each special token is
one private code point (see ``tokenizer_adapters.py``).  The expected text is compared with the actual text.

* Where the two texts agree, the actual text is returned.
* If the next expected character is a special token, the actual text may contain the characters of the
  token, after any whitespace.  The code point then replaces these characters.  If the engine omitted the
  token, the code point is inserted.
* If ordinary text differs (because a decoder changed whitespace, or the bytes are not valid UTF-8), the
  actual text is returned, up to the next special token.
* Text that may be the beginning of a special token is held back.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..scan.character_runs import BOUND, skip_whitespace
from ..scan.markers import agreement
from .detokenizer import PRIVATE, OffsetMap


class Alignment:
    """Alignment of one output's text and ids, which replaces special tokens in the text with code points."""

    __slots__ = ("_expected", "_length", "_literals", "_positions", "_text", "_unmatched", "offsets")

    def __init__(self, back: Mapping[str, str]) -> None:
        """Start an alignment.

        :param back: map from each private code point to the text of its special token.
        """
        self.offsets = OffsetMap()
        """Map from offsets in the returned text to offsets in the plain text, without code points."""
        self._literals = back
        self._expected = _Queue()  # Decoded ids whose text has not arrived.
        self._unmatched = _Queue()  # Returned text whose ids have not arrived.
        self._text = ""  # Text that is held back, because it may be part of a special token.
        self._positions: dict[str, int] = {}  # Positions of special tokens in _text, from earlier searches.
        self._length = 0  # Length of the text returned so far.

    @property
    def pending(self) -> int:
        """Number of characters of text that are held back."""
        return len(self._text)

    def feed(self, text: str, expected: str) -> str:
        """Add text and decoded ids; return the text that is final, with code points for special tokens."""
        if not text.isascii():
            text = PRIVATE.sub("\ufffd", text)  # the caller's text must not contain code points
        # Fast path: text and ids agree, and nothing is held back.
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
        if not self._expected.piece and at < len(self._text):  # no special token is expected
            self._unmatched.put(self._text[at:])
            at = self._release(at, len(self._text), out)
        self._text = self._text[at:]
        return out[0] if len(out) == 1 else "".join(out)

    def finish(self) -> str:
        """Return the rest of the text at the end of the input.

        Special tokens that the ids contain but the text lacks are inserted, up to the point where ordinary
        text is missing, because the text was truncated there.
        """
        out: list[str] = []
        expected = self._expected
        at = 0
        while expected.piece:
            code_point = expected.piece[expected.at]
            literal = self._literals.get(code_point, "")
            if not literal:
                break  # ordinary text is missing: the text was truncated here
            if literal.startswith(self._text[at:]):
                at = len(self._text)
            self._insert_token(code_point, literal, out)
            at = self._advance(at, out)
        self._release(at, len(self._text), out)
        return "".join(out)

    def _advance(self, at: int, out: list[str]) -> int:
        """Compare the text from ``at`` on with the decoded ids, and return the end of the compared text."""
        text = self._text
        expected = self._expected
        while at < len(text) and expected.piece:
            code_point = expected.piece[expected.at]
            literal = self._literals.get(code_point, "")
            if literal:
                start = skip_whitespace(text, at)
                # more whitespace than expected means that the engine omitted the token
                if start - at <= BOUND:
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
        """Skip decoded ids whose text was returned earlier, and return the position at which to continue."""
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
        """After a difference, output the text up to the next special token, and return its end."""
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
        """Return the position of the next special token ``literal`` at or after ``at``, or -1."""
        place = self._positions.get(literal, 0)
        if 0 <= place < at or literal not in self._positions:
            place = self._positions[literal] = self._text.find(literal, at)
        return place

    def _release(self, at: int, end: int, out: list[str]) -> int:
        """Add the text from ``at`` to ``end`` to the output, and return ``end``."""
        if end > at:
            out.append(self._text[at:end])
            self._length += end - at
        return end

    def _insert_token(self, code_point: str, literal: str, out: list[str]) -> None:
        """Output the code point of the next special token in the expected text."""
        self._expected.take(1)
        out.append(code_point)
        self.offsets.note(self._length, len(literal) - 1)
        self._length += 1


class _Queue:
    """Queue of text that can be read from the front without copying the rest."""

    __slots__ = ("_later", "_next", "at", "piece")

    def __init__(self) -> None:
        self.piece = ""
        """First piece that contains unread text, or an empty string."""
        self.at = 0
        """Number of characters of ``piece`` that have been read."""
        self._later: list[str] = []
        self._next = 0

    def put(self, text: str) -> None:
        """Append text to the queue."""
        if not self.piece:
            self.piece = text
        elif text:
            self._later.append(text)

    def peek_text(self, most: int) -> str:
        """Return the ordinary text at the front, at most ``most`` characters, without removing it."""
        end = self.at + most
        special = PRIVATE.search(self.piece, self.at, end)
        return self.piece[self.at : end if special is None else special.start()]

    def take(self, length: int) -> None:
        """Remove ``length`` characters from the front; the first piece must be at least that long."""
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
