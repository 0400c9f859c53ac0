"""Text and ids together: the text is what is shown, the ids tell a marker from its spelling.

Engines hand on both, and they need not go together: the text may lag behind the
ids (half a character, a stop string that may be coming), leave special tokens out,
or end earlier, where a stop string cut it.  So what the ids say comes next is held
against the text.  Where the two differ in ordinary text (blanks that a decoder
tidied up, bytes that are no characters), the text counts, and the next special
token is looked for in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..scan.markers import agreement
from ..scan.runs import BOUND, skip_whitespace
from .detokenizer import PRIVATE, OffsetMap


class Alignment:
    """Puts the code points of special tokens into text."""

    __slots__ = ("_ahead", "_back", "_expected", "_found", "_length", "_text", "offsets")

    def __init__(self, back: Mapping[str, str]) -> None:
        """``back``: what the code points stand for."""
        self.offsets = OffsetMap()
        """From offsets in the text returned so far to offsets in the text with its special tokens."""
        self._back = back
        self._expected = _Queue()  # what the ids say comes next, and the text has not said yet
        self._ahead = _Queue()  # ordinary text that the ids have not said yet
        self._text = ""  # text that may be part of a special token
        self._found: dict[str, int] = {}  # where a special token stands next in it, if that was looked for
        self._length = 0  # of the text returned so far

    @property
    def pending(self) -> int:
        """Characters that came in and were not returned."""
        return len(self._text)

    def feed(self, text: str, expected: str) -> str:
        """The next text, and what the ids make of it; returns what is certain."""
        if not text.isascii():
            text = PRIVATE.sub("\ufffd", text)  # only ids make a special token
        if text == expected and not (self._expected.piece or self._ahead.piece or self._text):
            self._length += len(text)
            return text
        self._expected.put(expected)
        if not text and not self._text:
            return ""
        out: list[str] = []
        self._text += text
        self._found.clear()
        at = self._place(self._catch_up(out), out)
        if not self._expected.piece and at < len(self._text):  # no special token is on its way
            self._ahead.put(self._text[at:])
            at = self._show(at, len(self._text), out)
        self._text = self._text[at:]
        return out[0] if len(out) == 1 else "".join(out)

    def finish(self) -> str:
        """No more follows: special tokens that no ordinary text was to stand before have come."""
        out: list[str] = []
        expected = self._expected
        at = 0
        while expected.piece:
            code_point = expected.piece[expected.at]
            literal = self._back.get(code_point, "")
            if not literal:
                break  # the text was cut here
            if literal.startswith(self._text[at:]):
                at = len(self._text)
            self._put(code_point, literal, out)
            at = self._place(at, out)
        self._show(at, len(self._text), out)
        return "".join(out)

    def _place(self, at: int, out: list[str]) -> int:
        """Go on from this place of the text, as far as both reach; where that is."""
        text = self._text
        expected = self._expected
        while at < len(text) and expected.piece:
            code_point = expected.piece[expected.at]
            literal = self._back.get(code_point, "")
            if literal:
                blank = skip_whitespace(text, at)
                if blank - at <= BOUND:  # else it was left out, and the white space is the model's
                    if text.startswith(literal, blank):
                        at = self._show(at, blank, out) + len(literal)
                    elif literal.startswith(text[blank : blank + len(literal)]):
                        break  # it may be on its way
                self._put(code_point, literal, out)
                continue
            ordinary = expected.some(len(text) - at)
            same = agreement(ordinary, text, at)
            at = self._show(at, at + same, out)
            expected.take(same)
            if same < len(ordinary):
                at = self._differ(at, out)
        return at

    def _catch_up(self, out: list[str]) -> int:
        """What the ids say now may have been shown before; where to go on in the text."""
        ahead, expected = self._ahead, self._expected
        while ahead.piece and expected.piece:
            shown = ahead.some(len(expected.piece) - expected.at)
            same = agreement(shown, expected.piece, expected.at)
            ahead.take(same)
            expected.take(same)
            if same < len(shown):
                return self._differ(0, out)
        return 0

    def _differ(self, at: int, out: list[str]) -> int:
        """The two do not say the same: the text counts, up to the next special token."""
        self._ahead = _Queue()
        expected = self._expected
        while expected.piece:
            special = PRIVATE.search(expected.piece, expected.at)
            if special is not None:
                expected.take(special.start() - expected.at)
                return self._show(at, max(self._next(self._back[special[0]], at), at), out)
            expected.take(len(expected.piece) - expected.at)
        return self._show(at, len(self._text), out)

    def _next(self, literal: str, at: int) -> int:
        """Where a special token stands at this place of the text or behind it; -1: nowhere."""
        place = self._found.get(literal, 0)
        if 0 <= place < at or literal not in self._found:
            place = self._found[literal] = self._text.find(literal, at)
        return place

    def _show(self, at: int, end: int, out: list[str]) -> int:
        """Ordinary text."""
        if end > at:
            out.append(self._text[at:end])
            self._length += end - at
        return end

    def _put(self, code_point: str, literal: str, out: list[str]) -> None:
        """The special token that was expected next."""
        self._expected.take(1)
        out.append(code_point)
        self.offsets.note(self._length, len(literal) - 1)
        self._length += 1


class _Queue:
    """Text in the pieces that it came in, taken from the front: none is copied, however many wait."""

    __slots__ = ("_later", "_next", "at", "piece")

    def __init__(self) -> None:
        self.piece = ""
        """The first piece that is not used up; nothing, if there is none."""
        self.at = 0
        """How much of it is used up."""
        self._later: list[str] = []
        self._next = 0

    def put(self, text: str) -> None:
        """More behind it."""
        if not self.piece:
            self.piece = text
        elif text:
            self._later.append(text)

    def some(self, most: int) -> str:
        """The ordinary text in front, up to so much of it."""
        end = self.at + most
        special = PRIVATE.search(self.piece, self.at, end)
        return self.piece[self.at : end if special is None else special.start()]

    def take(self, length: int) -> None:
        """So much of the first piece is used up."""
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
