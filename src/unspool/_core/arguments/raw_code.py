"""Codec for calls whose only argument is raw text: ``print(1)`` becomes ``{"code": "print(1)"}``.

The text has no syntax apart from the markers that end it.  All of the text, including whitespace, is output
as it arrives.  Only text that may be the beginning of a marker is held back.
"""

from __future__ import annotations

from typing import Final

from ...events import Status
from ..compiler.argument_codec_base import Codec
from ..scan.character_runs import escaped
from ..scan.markers import ValueMarkerSet

KEY: Final = "code"
OPENING: Final = f'{{"{KEY}": "'
CLOSING: Final = '"}'


class RawCode(Codec):
    """Codec for text that ends at one of the markers ``ends``, or at the end of the input."""

    __slots__ = ("_ends", "_started")

    def __init__(self, ends: ValueMarkerSet) -> None:
        super().__init__()
        self._ends: Final = ends
        self._started = False

    def step(self, buf: str, pos: int, final: bool) -> int:
        if self._started and not self.done and not final and not pos:
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
        # The end of the input completes the text, as a marker does, unless the output was truncated.
        self.text = ""
        if not self.done and not cut:
            self.text = self._opening() + CLOSING
            self.done = True
        return "complete" if self.done else "truncated"

    def _opening(self) -> str:
        """Return the beginning of the JSON object, or an empty string if it was returned earlier."""
        opening = "" if self._started else OPENING
        self._started = True
        return opening
