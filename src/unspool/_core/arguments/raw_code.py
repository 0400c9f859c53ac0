"""Raw text as the one argument of a call: ``print(1)`` becomes ``{"code": "print(1)"}``.

Nothing in the text means anything but the markers that end it.  It is handed on
while it arrives, white space included; held back is only what may be the
beginning of a marker.
"""

from __future__ import annotations

from typing import Final

from ...events import Status
from ..compiler.codec import Codec
from ..scan.markers import ValueMarkerSet
from ..scan.runs import escaped

KEY: Final = "code"
OPENING: Final = f'{{"{KEY}": "'
CLOSING: Final = '"}'


class RawText(Codec):
    """Text up to one of the markers ``ends``, or to the end of the input."""

    __slots__ = ("_begun", "_ends")

    def __init__(self, ends: ValueMarkerSet) -> None:
        super().__init__()
        self._ends: Final = ends
        self._begun = False

    def step(self, buf: str, pos: int, final: bool) -> int:
        """Read on; see the base class."""
        if self._begun and not self.done and not final and not pos:
            taken = self._read_string_piece(buf, self._ends)
            if taken >= 0:
                return taken
        self.text = ""
        if self.done:
            return pos
        at, literal = self._ends.seek(buf, pos, final)
        self.done = bool(literal)
        end = len(buf) if at < 0 else at
        if end > pos or self.done:
            self.text = self._opening() + escaped(buf[pos:end])
            if self.done:
                self.text += CLOSING
        return end

    def finish(self, cut: bool) -> Status:
        """The input is over, and so is the text, unless it was cut: only a marker ends it."""
        self.text = ""
        if not self.done and not cut:
            self.text = self._opening() + CLOSING
            self.done = True
        return "complete" if self.done else "truncated"

    def _opening(self) -> str:
        opening = "" if self._begun else OPENING
        self._begun = True
        return opening
