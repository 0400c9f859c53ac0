"""Server-sent events, and lines of JSON, as they come in."""

from __future__ import annotations

from ..failure import Failure


class EventReader:
    r"""Bytes in, the data of events out.

    Unlike a browser it does not guess: an event that is longer than the limit
    is an error.  Comments and other fields are passed over.

    >>> EventReader(100).feed(b"data: 1\n\n: ping\n\ndata: 2\r\n\r\ndata: 3")
    [b'1', b'2']
    """

    __slots__ = ("_data", "_limit", "_rest")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, portion: bytes) -> list[bytes]:
        """The data of the events that are complete now."""
        lines = (self._rest + portion if self._rest else portion).split(b"\n")
        self._rest = lines.pop()
        out: list[bytes] = []
        data = self._data
        for given in lines:
            line = given[:-1] if given.endswith(b"\r") else given
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line and data:
                out.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
        if len(self._rest) + sum(map(len, data)) > self._limit:
            raise Failure("upstream", "the upstream sent an event without end", code="upstream_protocol")
        return out

    @property
    def inside(self) -> bool:
        """Whether an event has begun that is not complete."""
        return bool(self._data or self._rest.strip())

    def finish(self) -> list[bytes]:
        """No more bytes follow; some servers leave out the last empty line."""
        return self.feed(b"\n\n") if self.inside else []


class LineReader:
    r"""Bytes in, lines out: what Ollama sends instead of events.

    >>> reader = LineReader(100)
    >>> reader.feed(b'{"a": 1}\n{"b"'), reader.feed(b": 2}\n"), reader.finish()
    ([b'{"a": 1}'], [b'{"b": 2}'], [])
    """

    __slots__ = ("_limit", "_rest")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""

    def feed(self, portion: bytes) -> list[bytes]:
        """The lines that are complete now."""
        *lines, self._rest = (self._rest + portion).split(b"\n")
        if len(self._rest) > self._limit:
            raise Failure("upstream", "the upstream sent a line without end", code="upstream_protocol")
        return [line for line in lines if line.strip()]

    def finish(self) -> list[bytes]:
        """No more bytes follow."""
        return self.feed(b"\n")
