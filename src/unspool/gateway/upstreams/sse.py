"""Server-sent events, and lines of JSON, as they come in.

Whatever the portions are that they come in, every byte is copied a bounded number of times:
what is not complete grows in place.  It never grows to more than the limit and one portion.
An event that is too long is an error when all that was complete before it has been handed on.
"""

from __future__ import annotations

from typing import Final

from ..http.errors import Failure

_BOM: Final = b"\xef\xbb\xbf"


class _Lines:
    """Lines out of portions, and what is left behind the last of them."""

    __slots__ = ("_begun", "rest")

    def __init__(self) -> None:
        self._begun = False
        self.rest = bytearray()
        """What waits for the end of its line."""

    def feed(self, portion: bytes) -> list[bytes]:
        """The lines that are complete now."""
        lines = portion.split(b"\n")
        last = lines.pop()
        if lines:
            if self.rest:
                lines[0] = bytes(self.rest) + lines[0]
                self.rest.clear()
            if not self._begun:
                self._begun = True
                lines[0] = lines[0].removeprefix(_BOM)
        if last:
            self.rest += last
        return lines


class EventReader:
    r"""Bytes in, the data of events out.

    Unlike a browser it does not guess: an event that is longer than the limit
    is an error.  Comments and other fields are passed over.  Lines end as the
    standard has it: with a line feed, a carriage return, or both.

    >>> EventReader(100).feed(b"data: 1\n\n: ping\n\ndata: 2\r\n\r\ndata: 3\r\rdata: 4")
    [b'1', b'2', b'3']
    """

    __slots__ = ("_after_return", "_data", "_limit", "_lines")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines = _Lines()
        self._after_return = False
        self._data: bytes | bytearray | None = None
        """Of the event that has begun; nearly always one line is all there is."""

    def feed(self, portion: bytes) -> list[bytes]:
        """The data of the events that are complete now."""
        if self._after_return or b"\r" in portion:
            portion = self._with_line_feeds(portion)
        out: list[bytes] = []
        for line in self._lines.feed(portion):
            if line.startswith(b"data:"):
                data = line[6:] if line[5:6] == b" " else line[5:]
                if self._data is None:
                    self._data = data
                else:
                    self._add(data)
            elif not line and self._data is not None:
                out.append(bytes(self._data))
                self._data = None
        waiting = len(self._lines.rest) + (0 if self._data is None else len(self._data))
        if waiting > self._limit and not out:
            raise Failure("upstream", "the upstream sent an event without end", code="upstream_protocol")
        return out

    def _add(self, line: bytes) -> None:
        """Add another line to the data of the event."""
        assert self._data is not None  # noqa: S101 - the caller has looked
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)
        self._data += b"\n"
        self._data += line

    def _with_line_feeds(self, portion: bytes) -> bytes:
        """The same with line feeds only; a return at the end of a portion ends its line at once."""
        if self._after_return and portion:
            portion = portion.removeprefix(b"\n")
            self._after_return = False
        if portion.endswith(b"\r"):
            self._after_return = True
        return portion.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    @property
    def inside(self) -> bool:
        """Whether an event has begun that is not complete."""
        return self._data is not None or bool(self._lines.rest)

    def finish(self) -> list[bytes]:
        """No more bytes follow; some servers leave out the last empty line."""
        return self.feed(b"\n\n") if self.inside else []


class LineReader:
    r"""Bytes in, lines out: what Ollama sends instead of events.

    >>> reader = LineReader(100)
    >>> reader.feed(b'{"a": 1}\n{"b"'), reader.feed(b": 2}\n"), reader.finish()
    ([b'{"a": 1}'], [b'{"b": 2}'], [])
    """

    __slots__ = ("_limit", "_lines")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines = _Lines()

    def feed(self, portion: bytes) -> list[bytes]:
        """The lines that are complete now."""
        out = [line for line in self._lines.feed(portion) if line.strip()]
        if len(self._lines.rest) > self._limit and not out:
            raise Failure("upstream", "the upstream sent a line without end", code="upstream_protocol")
        return out

    def finish(self) -> list[bytes]:
        """No more bytes follow."""
        return self.feed(b"\n")
