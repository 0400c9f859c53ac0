"""Base classes of codecs.  A codec converts arguments from some notation to JSON.

A codec is an incremental transcoder: it can stop at any character and continue later.  These rules ensure
that the events of an output do not depend on chunking:

* ``step`` consumes input only if further input cannot change its meaning.  The next call of ``step`` receives
  the rest again, followed by new input.
* ``step`` returns the index that it has reached, and sets ``text`` to the JSON text for the input that it has
  consumed.  The texts of all steps, joined, are one JSON value.  JSON text is never retracted.
* After an error, a codec stops.  The JSON text for the input before the error has already been returned.
* ``step`` may try a fast path first, for the most frequent input.  A fast path either does the whole step or
  changes nothing.
* If an inner codec produces all the JSON text of a codec, ``source`` may return the inner codec.  The caller
  then steps the source directly.  When the source is done, has failed or has a diagnostic to report,
  the caller calls ``resume`` with the index that the source has reached.
"""

from __future__ import annotations

from ...events import Status
from ..mypyc_types import i64
from ..scan.markers import ValueMarkerSet


class Codec:
    """Transcoder of the arguments of one call."""

    __slots__ = ("diagnostics", "done", "dropped_member", "error", "text")

    def __init__(self) -> None:
        self.text: str = ""
        """JSON text for the input that the last step has consumed."""
        self.done: bool = False
        """True if the arguments are complete.  The codec does not consume the input after the arguments."""
        self.error: str = ""
        """Description of what ``step`` expected at the position of the error; empty if there is no error."""
        self.dropped_member: bool = False
        """True if an unknown member after the arguments was removed from the object."""
        self.diagnostics: list[tuple[str, str, int]] = []
        """Diagnostics to report, each with its kind, its detail and an index in the buffer of the last
        step."""

    def step(self, buf: str, pos: int, final: bool) -> int:
        """Continue reading at index ``pos``, and return the index that is reached.

        :param final: true if no more input follows.
        """
        raise NotImplementedError

    @property
    def verbatim(self) -> bool:
        """True if the JSON text is an exact copy of the model's text."""
        return False

    @property
    def source(self) -> Codec | None:
        """Codec to step instead of this one; None if there is no such codec.

        Each step of this codec may change the value.  Without this shortcut, long arguments in
        an envelope take up to 1.9 times as long (``benchmarks/shortcuts.py``).
        """
        return self

    def resume(self, buf: str, pos: int) -> int:
        """Continue after ``source`` has read up to index ``pos``, and return the index reached."""
        raise NotImplementedError

    def finish(self, cut: bool) -> Status:  # noqa: ARG002 - subclasses use it
        """End the input: set ``text`` to the rest of the JSON text, and return the status of the arguments.

        :param cut: true if generation was stopped.  A value such as a number may then be incomplete.
        """
        self.text = ""
        return "complete" if self.done else "truncated"

    def close(self) -> bool:
        """Set ``text`` to the missing closing brackets; return False if brackets alone are not enough."""
        return False

    def _read_string_piece(self, text: str, ends: ValueMarkerSet) -> int:
        """Read the next part of a string value.  One of the literals in ``ends`` ends the value.

        Return the number of characters that belong to the string.  If the text contains one of the literals,
        change nothing and return -1.
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
        """First character of the JSON value; empty until the character is known."""


class NamedPayload(Codec):
    """Codec of an object that contains the call's name as well as its arguments.

    A ``Matcher`` steps this codec until it is certain that the object is a call and its name is known (the
    commit point).
    """

    __slots__ = (
        "args_end",
        "args_start",
        "awaits_name",
        "committed",
        "id",
        "is_like_tool",
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
        """Start of the name in the buffer of the last step; -1 if the step did not find it.

        The caller of ``step`` reads this attribute and the next three, and resets all four to -1.
        """
        self.name_end: i64 = -1
        """End of the name in the buffer of the last step; -1 if the step did not find it."""
        self.args_start: i64 = -1
        """Start of the arguments in the buffer of the last step; -1 if the step did not find it."""
        self.args_end: i64 = -1
        """End of the arguments in the buffer of the last step; -1 if the step did not find it."""
        self.id: str = ""
        """Id of the call, if the model wrote it before the name."""
        self.committed: bool = False
        """True once the object is certainly a call and its name is known.  ``step`` stops at this point."""
        self.keys: tuple[str, ...] | None = None
        """Keys of the arguments, if the function must be inferred from these keys; otherwise None."""
        self.only_named: bool = False
        """True if the object is complete, and only the function's name shows that the object is a call."""
        self.is_like_tool: bool = False
        """True if the object might declare a tool: its member ``function`` contains a name, and no marker
        precedes the object."""
        self.awaits_name: bool = False
        """True while the codec reads arguments that precede the name.  Such arguments may be long."""
        self.overlong: bool = False
        """True if the codec has failed because too much text precedes the name; arguments do not count."""

    @property
    def partial_name(self) -> str:
        """Part of the name that has been read so far."""
        raise NotImplementedError
