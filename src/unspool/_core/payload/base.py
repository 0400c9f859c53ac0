"""What every codec is: a transcoder that can stop anywhere and go on later.

The rules of a codec, which chunking invariance rests on:

* ``step`` decides nothing that more input could change; it stops where it
  would have to, and is called again with more.
* It consumes what it can and says in ``text`` which JSON that gives.  Joined
  over all steps, the text of a finished payload is one JSON value, and at any
  time it is a prefix of it: nothing is taken back.
* It stops at its error.  What came before the error is out already, in every
  chunking the same.
"""

from __future__ import annotations

from typing import Final

from ..search.watch import ValueWatch
from ..values.events import Status

BOUND: Final = 512
"""How far a head, a header or the look-ahead behind a closer may reach, white space included."""


class Codec:
    """A payload being read."""

    __slots__ = ("done", "error", "notes", "text")

    def __init__(self) -> None:
        self.text: str = ""
        """JSON text that the last step gave."""
        self.done: bool = False
        """The payload is complete; nothing behind it was consumed."""
        self.error: str = ""
        """What was expected at the place where ``step`` stopped, if that is an error."""
        self.notes: list[tuple[str, str, int]] = []
        """Notes that the last step made: kind, detail, and where in the buffer."""

    def step(self, buf: str, pos: int, final: bool) -> int:
        """Read on from ``pos``; ``final``: no more input follows.  Returns how far it got."""
        raise NotImplementedError

    def passing(self, text: str) -> str | None:
        """What is consumed of the next input, if nothing ends in it, breaks or is to be noted.

        A short cut for most pieces: it does what ``step`` would do, or returns None and
        leaves that to ``step``, which gets the same text next.  An empty text: the input waits for more.
        """
        del text
        return None

    def _pass_value(self, text: str, ends: ValueWatch) -> str | None:
        """``passing`` inside a string that ends at one of these literals."""
        if ends.verbatim(text):
            self.text = text
            return text
        piece = ends.piece(text)
        if piece is None:
            return None
        self.text = piece.json
        return piece.text

    @property
    def inner(self) -> Codec:
        """Who is asked for ``passing``, until the next step: a codec inside this one, perhaps."""
        return self

    def finish(self) -> Status:
        """The input is over.  Sets ``text`` to what completes the payload, if it can be complete."""
        return "complete" if self.done else "truncated"

    def close(self) -> bool:
        """Repair: supply the closing brackets that are missing.  Sets ``text``."""
        return False

    @property
    def waiting(self) -> bool:
        """Whether consumed text is kept inside, so that the hold-back has no fixed bound."""
        return False


class Value(Codec):
    """A payload that is one value in some notation."""

    __slots__ = ("kind",)

    def __init__(self) -> None:
        super().__init__()
        self.kind: str = ""
        """First character of the JSON value, once it is known."""
