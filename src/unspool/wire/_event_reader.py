"""Incremental readers of server-sent events and JSON lines.

Every byte is copied a limited number of times, regardless of the read sizes.  The buffer for an incomplete
event exceeds the size limit by at most one read.  An event that exceeds the limit raises a ``ProtocolError``,
but only after all complete events before it have been returned.
"""

from __future__ import annotations

from typing import Final

from ..errors import ProtocolError

_BOM: Final = b"\xef\xbb\xbf"


class _LineSplitter:
    """Splitter of a byte stream into lines."""

    __slots__ = ("_started", "rest")

    def __init__(self) -> None:
        self._started = False
        self.rest = bytearray()
        """Last line, which is still incomplete."""

    def feed(self, portion: bytes) -> list[bytes]:
        """Return the lines that are now complete."""
        lines = portion.split(b"\n")
        last = lines.pop()
        if lines:
            if self.rest:
                lines[0] = bytes(self.rest) + lines[0]
                self.rest.clear()
            if not self._started:
                self._started = True
                lines[0] = lines[0].removeprefix(_BOM)
        if last:
            self.rest += last
        return lines


class EventReader:
    r"""Reader of server-sent events that returns the data of each event.

    The reader follows the standard: lines end with a line feed, a carriage return, or both; comments and
    other fields are skipped.  Unlike a browser, the reader limits the length of an event.

    >>> EventReader(100).feed(b"data: 1\n\n: ping\n\ndata: 2\r\n\r\ndata: 3\r\rdata: 4")
    [b'1', b'2', b'3']
    """

    __slots__ = ("_after_return", "_data", "_limit", "_lines")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines = _LineSplitter()
        self._after_return = False
        self._data: bytes | bytearray | None = None
        """Data of the incomplete event; ``bytes`` if it has one line, ``bytearray`` if it has several lines.
        """

    def feed(self, portion: bytes) -> list[bytes]:
        """Return the data of the events that are now complete."""
        if self._after_return or b"\r" in portion:
            portion = self._normalise_newlines(portion)
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
        buffered = len(self._lines.rest) + (0 if self._data is None else len(self._data))
        # Return complete events before raising the error.  The next call raises it, because the buffer
        # remains too large.
        if buffered > self._limit and not out:
            raise ProtocolError("the upstream sent an event over the size limit")
        return out

    def _add(self, line: bytes) -> None:
        """Add another data line to the event.

        A ``bytearray`` is created only for the second line of an event, because most events have only one
        line.
        """
        assert self._data is not None  # noqa: S101 - the caller has checked it
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)
        self._data += b"\n"
        self._data += line

    def _normalise_newlines(self, portion: bytes) -> bytes:
        """Replace all newlines with line feeds.

        If a read ends with a carriage return, the line ends there.  If the next read then starts with a line
        feed, both characters form one newline, so the line feed is removed.
        """
        if self._after_return and portion:
            portion = portion.removeprefix(b"\n")
            self._after_return = False
        if portion.endswith(b"\r"):
            self._after_return = True
        return portion.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    @property
    def incomplete(self) -> bool:
        """True if an event has begun but is not complete."""
        return self._data is not None or bool(self._lines.rest)

    def finish(self) -> list[bytes]:
        """Return the last event at the end of input, because some servers omit the empty line after it."""
        return self.feed(b"\n\n") if self.incomplete else []


class LineReader:
    r"""Reader of JSON lines, which Ollama sends instead of server-sent events.

    >>> reader = LineReader(100)
    >>> reader.feed(b'{"a": 1}\n{"b"'), reader.feed(b": 2}\n"), reader.finish()
    ([b'{"a": 1}'], [b'{"b": 2}'], [])
    """

    __slots__ = ("_limit", "_lines")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines = _LineSplitter()

    def feed(self, portion: bytes) -> list[bytes]:
        """Return the lines that are now complete."""
        out = [line for line in self._lines.feed(portion) if line.strip()]
        if len(self._lines.rest) > self._limit and not out:
            raise ProtocolError("the upstream sent a line over the size limit")
        return out

    def finish(self) -> list[bytes]:
        """Return the last line at the end of input, if it has no newline."""
        return self.feed(b"\n")
