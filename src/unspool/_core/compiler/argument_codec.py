"""Base classes of codecs, which turn arguments in some notation into JSON.

A codec is an incremental transcoder: it can stop at any character and go on later.  That the events of
an output do not depend on its chunking rests on these rules:

* ``step`` decides nothing that more input could change.  It stops in front of what is undecided, and is
  called again with that and further input.
* ``step`` returns how far it has read, and sets ``text`` to the JSON for what it has read.  The texts of
  all steps, joined, are one JSON value.  At any time they are a prefix of it: nothing is taken back.
* A codec stops at its error.  What came before the error is out already, whatever the chunking.
* ``step`` may try a fast path first, for the most frequent input.  A fast path either does the whole step
  or changes nothing.
* A codec whose text comes entirely from another codec may return that one as its ``source``.  The caller
  then steps the source directly.  When the source is done, has failed or has something to report, the
  caller calls ``resume`` with the position that the source has reached.
"""

from __future__ import annotations

from ...events import Status
from ..mypyc_types import i64
from ..scan.markers import ValueMarkerSet


class Codec:
    """Transcoder of the arguments of one call."""

    __slots__ = ("done", "dropped_member", "error", "notes", "text")

    def __init__(self) -> None:
        self.text: str = ""
        """JSON text of the last step."""
        self.done: bool = False
        """True if the arguments are complete; nothing after them was consumed."""
        self.error: str = ""
        """Description of what was expected where ``step`` stopped, after an error; otherwise empty."""
        self.dropped_member: bool = False
        """True if a member that is not part of a call followed the arguments and was dropped."""
        self.notes: list[tuple[str, str, int]] = []
        """Diagnostics to report: kind, detail, and index in the buffer of the step."""

    def step(self, buf: str, pos: int, final: bool) -> int:
        """Read on from index ``pos`` and return the index reached; ``final``: no more input follows."""
        raise NotImplementedError

    @property
    def verbatim(self) -> bool:
        """True if the JSON is the model's own text, so that text after an error can be passed on as well."""
        return False

    @property
    def source(self) -> Codec | None:
        """Codec to step in place of this one, until it is done, fails or has something to report.

        None: step this codec, and ask again after that.  Without a source, long arguments in an envelope
        take up to 1.9 times as long (``benchmarks/shortcuts.py``).
        """
        return self

    def resume(self, buf: str, pos: int) -> int:
        """Continue after a step of ``source`` that has read up to index ``pos``; return the index reached."""
        raise NotImplementedError

    def finish(self, cut: bool) -> Status:  # noqa: ARG002 - overridden where it matters
        """End the input: set ``text`` to what completes the arguments, if they can be complete.

        :param cut: generation was stopped, so a value that nothing has ended may be incomplete.
        """
        self.text = ""
        return "complete" if self.done else "truncated"

    def close(self) -> bool:
        """Set ``text`` to the missing closing brackets; return False if that is not enough."""
        return False

    def _read_string_piece(self, text: str, ends: ValueMarkerSet) -> int:
        """Fast path inside a string that ends at one of these literals.

        Return how many characters belong to the string; -1 if a literal stands in the text, in which case
        nothing was changed.
        """
        if ends.verbatim(text):
            self.text = text
            return len(text)
        piece = ends.piece(text)
        if piece is None:
            return -1
        self.text = piece.json
        return piece.length


class Value(Codec):
    """Codec of a single value."""

    __slots__ = ("kind",)

    def __init__(self) -> None:
        super().__init__()
        self.kind: str = ""
        """First character of the JSON value; empty until it is known."""


class NamedPayload(Codec):
    """Codec of an object that contains the call's name as well as its arguments.

    It starts in the head of a call, where a ``Matcher`` steps it up to the commit point.
    """

    __slots__ = (
        "args_end",
        "args_start",
        "awaits_name",
        "committed",
        "id",
        "keys",
        "name",
        "name_end",
        "name_start",
        "only_named",
        "overlong",
    )

    def __init__(self) -> None:
        super().__init__()
        self.name: str = ""
        """Name of the function; empty until it is known."""
        self.name_start: i64 = -1
        """Start of the name, as an index in the buffer of the last step; -1 if it is not there.

        The caller of ``step`` takes this and the next three values, and resets them to -1.
        """
        self.name_end: i64 = -1
        """End of the name."""
        self.args_start: i64 = -1
        """Start of the arguments."""
        self.args_end: i64 = -1
        """End of the arguments."""
        self.id: str = ""
        """Id of the call, if it came before the name."""
        self.committed: bool = False
        """True once it is certain that this is a call of a known name.  ``step`` stops there."""
        self.keys: tuple[str, ...] | None = None
        """Keys of the arguments, if the function has to be inferred from them; otherwise None."""
        self.only_named: bool = False
        """True if the object is complete and only its name says that it is a call."""
        self.awaits_name: bool = False
        """True while arguments wait for the name that comes after them, however long they are."""
        self.overlong: bool = False
        """True if it has failed because too much text, not counting arguments, came before the name."""

    @property
    def partial_name(self) -> str:
        """Beginning of the name, as far as it came."""
        raise NotImplementedError
