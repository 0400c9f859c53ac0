"""What every codec is: a transcoder that can stop anywhere and go on later.

The rules of a codec, which chunking invariance rests on:

* ``step`` decides nothing that more input could change; it stops where it
  would have to, and is called again with what it left and more.
* It consumes what it can and says in ``text`` which JSON that gives.  Joined
  over all steps, the text of a finished payload is one JSON value, and at any
  time it is a prefix of it: nothing is taken back.
* It stops at its error.  What came before the error is out already, in every
  chunking the same.
* ``step`` is the way in.  It may begin with a glance at the input, for what
  most pieces are; a glance either does the whole work of the step or has changed
  nothing, and what it found is not kept for the next call.
* A codec whose text is all another one's may name that as its ``source``, which is
  then stepped in its place.  It gets its turn again, by ``resume``, with all that the
  source's last step has left: the only hand-over there is.
"""

from __future__ import annotations

from ...events import Status
from ..mypyc_types import i64
from ..scan.markers import ValueMarkerSet


class Codec:
    """A payload being read."""

    __slots__ = ("done", "error", "notes", "passed_over", "text")

    def __init__(self) -> None:
        self.text: str = ""
        """JSON text that the last step gave."""
        self.done: bool = False
        """The payload is complete; nothing behind it was consumed."""
        self.error: str = ""
        """What was expected at the place where ``step`` stopped, if that is an error."""
        self.passed_over: bool = False
        """Something that is no part of a call stood behind the arguments, and was not handed on."""
        self.notes: list[tuple[str, str, int]] = []
        """Notes that nobody has taken yet: kind, detail, and where in the buffer of the step that made it."""

    def step(self, buf: str, pos: int, final: bool) -> int:
        """Read on from ``pos``; ``final``: no more input follows.  Returns how far it got."""
        raise NotImplementedError

    @property
    def verbatim(self) -> bool:
        """Whether it gives JSON as the model writes it, so that what follows an error can be given, too."""
        return False

    @property
    def source(self) -> Codec | None:
        """Who reads on, if its text is all that the next steps of this codec would give.

        It may be stepped instead, until it is done, fails or notes something; then ``resume`` follows.
        None: there is nobody, so ask again behind the next step.  Long arguments in an envelope take
        up to 1.9 times as long without it (``benchmarks/shortcuts.py``).
        """
        return self

    def resume(self, buf: str, pos: int) -> int:
        """Go on where a step of ``source``, another codec, stopped at ``pos``, with more to follow.

        Returns how far it got.
        """
        raise NotImplementedError

    def finish(self, cut: bool) -> Status:  # noqa: ARG002 - for those that nothing ends
        """The input is over.  Sets ``text`` to what completes the payload, if it can be complete.

        :param cut: generation hit its limit, so what nothing has ended may go on.
        """
        self.text = ""
        return "complete" if self.done else "truncated"

    def close(self) -> bool:
        """Repair: supply the closing brackets that are missing.  Sets ``text``."""
        return False

    def _read_on(self, text: str, ends: ValueMarkerSet) -> int:
        """A glance inside a string that ends at one of these literals: how much of the text goes on with it.

        -1: one of them stands in the text, and nothing was done.
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
    """A payload that is one value in some notation."""

    __slots__ = ("kind",)

    def __init__(self) -> None:
        super().__init__()
        self.kind: str = ""
        """First character of the JSON value, once it is known."""


class NamedPayload(Codec):
    """A payload that holds the call's name, so that a head ends inside it."""

    __slots__ = (
        "args_from",
        "args_to",
        "committed",
        "id",
        "keys",
        "name",
        "name_from",
        "name_to",
        "only_named",
        "overlong",
        "waits",
    )

    def __init__(self) -> None:
        super().__init__()
        self.name: str = ""
        """The function's name, once known."""
        self.name_from: i64 = -1
        """Where the name begins, if the last step came upon that, in the buffer of that step; ..."""
        self.name_to: i64 = -1
        """... where it ends, ..."""
        self.args_from: i64 = -1
        """... where the arguments begin, ..."""
        self.args_to: i64 = -1
        """... and where they end.  Who steps it takes them, and sets them back."""
        self.id: str = ""
        """The call's id, if it came before the name."""
        self.committed: bool = False
        """Whether the name is known, and that this is a call.  ``step`` stops there."""
        self.keys: tuple[str, ...] | None = None
        """The keys of the arguments, where nothing else tells the function."""
        self.only_named: bool = False
        """It is over, and nothing but its name says that it is a call."""
        self.waits: bool = False
        """Arguments have begun before the name: they wait for it, however long they are."""
        self.overlong: bool = False
        """It has failed because what comes before the name, arguments aside, went on for too long."""

    @property
    def partial_name(self) -> str:
        """What is there of the name, if its value has begun."""
        raise NotImplementedError
