"""The ledger: what has come in, and the events that account for it.

Every character leaves the buffer through one of the methods here, and each of
them appends exactly one event for what it takes.  That the spans of a stream
tile its input is therefore a property of this file alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..values.events import CallArgs, CallEnd, CallStart, Event, Markup, Note, Text
from ..values.native import i64

if TYPE_CHECKING:
    from ..payload.base import Codec
    from ..syntax.syntax import Syntax, TextState
    from ..values.events import Channel, Role, Status
    from ..values.policies import Policies


BLOCK: Final = 16_384
"""So many characters of a call's text, or more, are joined into one piece."""


class Ledger:
    """Buffer, position, and events."""

    __slots__ = (
        "_base",
        "_blocks",
        "_buf",
        "_call_seen",
        "_ids",
        "_index",
        "_join_at",
        "_keep_raw",
        "_last",
        "_make_id",
        "_notes",
        "_out",
        "_policies",
        "_pos",
        "_raw",
        "_silent",
        "_state",
        "_strip",
        "_syntax",
        "_visible",
    )

    def __init__(
        self,
        syntax: Syntax,
        policies: Policies,
        *,
        base: int,
        keep_raw: bool,
        new_id: Callable[[str, int], str],
        strip: bool,
    ) -> None:
        self._syntax: Final = syntax
        self._policies: Final = policies
        self._buf = ""
        self._pos: i64 = 0
        self._base: i64 = base  # offset of the buffer's first character in the output
        self._out: list[Event] = []
        self._state: TextState = syntax.fresh
        self._visible = False  # content that is not blank, or a call, has come
        self._last = ""  # the text that ends at the current position, or nothing behind markup
        # Calls.
        self._keep_raw: Final = keep_raw
        self._make_id: Final = new_id
        self._strip: Final = strip  # no tools were offered, so calls are removed
        self._index: i64 = -1
        self._call_seen = False
        self._silent = False  # the open call means 'no call'
        self._raw: list[str] = []  # of the open call, in pieces as they came,
        self._blocks: list[str] = []  # ... and those before them, joined,
        self._join_at: i64 = BLOCK  # ... which is done when the output reaches this offset
        self._notes: list[Event] = []
        self._ids: set[str] = set()

    def _emit_text(self, end: int) -> None:
        """Text from the current position up to ``end``."""
        pos = self._pos
        if end <= pos:
            return
        text = self._buf if pos == 0 and end == len(self._buf) else self._buf[pos:end]
        self._pos = end
        channel: Channel | None = self._state.channel
        start = self._base + pos
        if channel is None:
            self._out.append(Markup("dropped", text, start, self._base + end))
            return
        self._last = text
        if not self._visible and channel == "content" and not text.isspace():
            self._show()
        self._out.append(Text(channel, text, start, self._base + end))

    def _show(self) -> None:
        """Something visible has come."""
        self._visible = True
        if self._state is self._syntax.fresh and self._syntax.frame is None:
            self._state = self._syntax.content

    def _emit_markup(self, role: Role, length: int) -> None:
        if not length:
            return
        start = self._base + self._pos
        text = self._buf[self._pos : self._pos + length]
        self._pos += length
        self._last = ""
        self._out.append(Markup(role, text, start, start + length))

    def _announce(self, name: str, native: str, length: int) -> None:
        """The commit point."""
        start = self._base + self._pos
        raw = self._buf[self._pos : self._pos + length]
        self._pos += length
        self._silent = self._strip or name in self._syntax.dialect.names.null_calls
        self._raw = [raw if start >= 0 else raw[-start:]]  # without what the prompt holds
        if self._silent:
            self._note("null_call", name)
            self._out.append(Markup("call", raw, start, start + length))
            return
        self._index += 1
        self._call_seen = True
        self._out.append(CallStart(self._index, name, self._new_id(name, native), start, start + length))

    def _new_id(self, name: str, native: str) -> str:
        form = self._syntax.dialect.id_format
        if native and self._policies.call_ids == "native":
            if form.accepts(native) and native not in self._ids:
                self._ids.add(native)
                return native
            self._note("bad_id", native)
        index = self._index
        fresh = self._make_id(name, index)
        while fresh in self._ids:
            index += 1
            fresh = self._make_id(name, index)
        self._ids.add(fresh)
        return fresh

    def usable_id(self, native: str) -> str:
        """An id that came late, if it can be used."""
        if (
            self._policies.call_ids == "native"
            and native not in self._ids
            and self._syntax.dialect.id_format.accepts(native)
        ):
            self._ids.add(native)
            return native
        return ""

    def _emit_args(self, json: str, length: int) -> None:
        if not length and not json:
            return
        start = self._base + self._pos
        pos, self._pos = self._pos, self._pos + length
        if self._keep_raw or self._silent:
            raw = self._buf[pos : self._pos]
            if self._silent:
                self._out.append(Markup("call", raw, start, start + length))
                return
            self._raw.append(raw if start >= 0 else raw[-start:])  # without what the prompt holds
            if start + length >= self._join_at:
                self._join_raw(start + length)
        self._out.append(CallArgs(self._index, json, start, start + length))

    def _join_raw(self, end: int) -> None:
        """What the open call is made of, in one piece: small strings cost many times their text."""
        self._join_at = end + BLOCK
        self._blocks.append("".join(self._raw))
        self._raw.clear()

    def _emit_end(self, status: Status, length: int) -> None:
        start = self._base + self._pos
        raw = self._buf[self._pos : self._pos + length]
        self._pos += length
        if self._notes:
            self._out += self._notes
            self._notes = []
        if self._silent:
            self._out.append(Markup("call", raw, start, start + length))
        else:
            whole = ""
            if status != "complete" and self._keep_raw:
                self._raw.append(raw if start >= 0 else raw[-start:])
                whole = "".join(self._blocks) + "".join(self._raw)
            self._out.append(CallEnd(self._index, status, whole, start, start + length))
        self._raw = []
        self._blocks.clear()
        if self._state.channel == "content":
            self._show()

    def _take_notes(self, codec: Codec) -> None:
        """Notes inside a call come with its end, so that they cut nothing apart."""
        for kind, detail, at in codec.notes:
            self._notes.append(Note(kind, detail, max(self._base + max(at, self._pos), 0)))
        codec.notes.clear()

    def _note(self, kind: str, detail: str) -> None:
        self._out.append(Note(kind, detail, max(self._base + self._pos, 0)))
