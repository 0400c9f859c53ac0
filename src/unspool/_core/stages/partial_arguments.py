r"""Arguments of calls that are still incomplete, for programs that show a call while the model writes it.

``PartialArguments`` reads the JSON text of each call once, piece by piece, and builds its value in place.  So
the time for a stream grows linearly.  Nested values do not use Python's call stack.

====================  ===============================================================
text so far           value
====================  ===============================================================
``{"city":``          ``{}``: the value has not begun
``{"city": "Os\u00``  ``{"city": "Os"}``: the escape sequence is incomplete
``{"days": 1``        ``{}``: the next character may be a digit
``{"days": 12,``      ``{"days": 12}``
``{"rows": [``        ``{"rows": []}``: objects and lists appear empty, and grow
====================  ===============================================================

Everything that is shown is also in the final value, except that the last value of a repeated key replaces the
earlier ones, as in ``json.loads``.  The text of a malformed call is read up to its first error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from ...errors import UsageError
from ...events import CallArgs, CallEnd, CallStart, Event, Status

CallStatus: TypeAlias = Literal["open"] | Status
"""Status of a call: ``open`` until the call has ended, then the status in ``CallEnd``."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_HIGH: Final = r"u[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_NOT_LOW: Final = r"[^\\]|\\[^u]|\\u(?![dD][c-fC-F])[0-9a-fA-F]{4}"
_STRING: Final = re.compile(
    # A high surrogate is complete only when the next characters show whether a low surrogate follows.
    rf'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|{_HIGH}(?:{_LOW}|(?={_NOT_LOW}))|(?!{_HIGH})u[0-9a-fA-F]{{4}}))*+'
)
"""Text inside a string, up to its end or to an escape sequence that is incomplete or invalid."""
_ESCAPE_BEGINS: Final = re.compile(rf"\\(?:u[0-9a-fA-F]{{0,3}}|{_HIGH}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?)?")
"""Incomplete escape sequence at the end of a text."""
_SCALAR: Final = re.compile(r"[-+.0-9A-Za-z]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_LITERALS: Final = {"true": True, "false": False, "null": None}

_START, _FIRST_KEY, _KEY, _COLON, _FIRST_ITEM, _VALUE, _NEXT, _STRING_OPEN, _SCALAR_OPEN, _OVER = range(10)
"""States, named after the expected input: the object itself, a key, or the rest of a string, for example."""


class PartialArguments:
    """Arguments of each call as far as they have been read.

    >>> from unspool import Parser
    >>> parser, partial = Parser("hermes"), PartialArguments()
    >>> for chunk in ('<tool_call>{"name": "f", "arguments": {"a": "Os', 'lo", "n": 1', "2}}</tool_call>"):
    ...     _ = partial.feed(parser.feed(chunk))
    ...     print(partial.value(0), partial.status(0))
    {'a': 'Os'} open
    {'a': 'Oslo'} open
    {'a': 'Oslo', 'n': 12} complete
    """

    __slots__ = ("_readers",)

    def __init__(self) -> None:
        self._readers: dict[int, _Reader] = {}

    def feed(self, events: Event | Iterable[Event]) -> list[Event]:
        """Take further events of the output, or one event, and return them in a list."""
        taken = [events] if isinstance(events, Event) else list(events)
        for event in taken:
            if isinstance(event, CallArgs):
                self._of(event).feed(event.json)
            elif isinstance(event, CallStart):
                self._readers[event.index] = _Reader()
            elif isinstance(event, CallEnd):
                self._of(event).end(event.status)
        return taken

    def value(self, index: int) -> dict[str, Any]:
        """Return the arguments of a call as far as they have been read.

        The dictionary is live: the next ``feed`` changes it.  Copy what you want to keep.

        :param index: ``CallStart.index`` of the call.
        :raises KeyError: if the call has not begun.
        """
        reader = self._readers[index]
        reader.join_string()
        return reader.root

    def status(self, index: int) -> CallStatus:
        """Return ``open`` until the call has ended, and then its final status.

        :raises KeyError: if the call has not begun.
        """
        return self._readers[index].status

    def _of(self, event: CallArgs | CallEnd) -> _Reader:
        if event.index not in self._readers:
            raise UsageError(
                f"{event} comes before the start of call {event.index}: feed all events, in order"
            )
        return self._readers[event.index]


class _Reader:
    """Incremental reader of a JSON object."""

    __slots__ = ("_container", "_expected", "_held", "_in_key", "_key", "_open", "_pieces", "root", "status")

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self.status: CallStatus = "open"
        self._expected = _START
        self._open: list[Any] = []  # the containers around the current one
        self._container: Any = self.root
        self._key: Any = None  # key or index, in the current container, of the current value
        self._in_key = False  # True if the open string is a key
        self._pieces: list[str] = []  # pieces of the open string or scalar that are not in the value yet
        self._held = ""  # incomplete escape sequence

    def end(self, status: Status) -> None:
        """Close the reader: only the value is kept."""
        self.join_string()
        self.status = status
        self._stop()

    def join_string(self) -> None:
        """Append the new pieces of the open string to the value."""
        if self._pieces and self._expected == _STRING_OPEN and not self._in_key:
            # CPython appends in place if nothing else refers to the string, so remove it from the container.
            text: str = self._container[self._key]
            self._container[self._key] = None
            text += "".join(self._pieces)
            self._container[self._key] = text
            self._pieces = []

    def feed(self, text: str) -> None:
        """Read the next piece of the JSON text."""
        if self._held:
            text, self._held = self._held + text, ""
        at, end = 0, len(text)
        while at < end:
            expected = self._expected
            if expected == _STRING_OPEN:
                at = self._read_string(text, at)
            elif expected == _SCALAR_OPEN:
                at = self._read_scalar(text, at)
            elif expected == _OVER:
                return
            else:
                at = _end(_SPACE, text, at)
                if at < end:
                    at = self._read_character(text[at], at)

    def _read_string(self, text: str, at: int) -> int:
        end = _end(_STRING, text, at)
        if end > at:
            piece = text[at:end]
            self._pieces.append(json.loads(f'"{piece}"') if "\\" in piece else piece)
        if end == len(text):
            return end
        if text[end] == '"':
            self._close_string()
            return end + 1
        self._held = text[end:]
        if _ESCAPE_BEGINS.fullmatch(self._held) is None:
            self.join_string()
            self._stop()
        return len(text)

    def _close_string(self) -> None:
        if self._in_key:
            self._key = "".join(self._pieces)
            self._pieces = []
            self._in_key = False
            self._expected = _COLON
        else:
            self.join_string()
            self._expected = _NEXT

    def _read_scalar(self, text: str, at: int) -> int:
        """Read part of a number or literal, which ends only when another character follows."""
        end = _end(_SCALAR, text, at)
        self._pieces.append(text[at:end])
        if end < len(text):
            scalar = "".join(self._pieces)
            self._pieces = []
            self._expected = _NEXT
            if scalar in _LITERALS:
                self._add(_LITERALS[scalar])
            elif _NUMBER.fullmatch(scalar):
                try:
                    self._add(json.loads(scalar))
                except ValueError:  # more digits than Python converts
                    self._stop()
            else:
                self._stop()
        return end

    def _read_character(self, char: str, at: int) -> int:
        """Read a character outside strings and scalars; return the offset of the next one."""
        expected = self._expected
        if expected == _NEXT and char == ",":
            self._expected = _KEY if type(self._container) is dict else _VALUE
        elif expected == _COLON and char == ":":
            self._expected = _VALUE
        elif expected in (_KEY, _FIRST_KEY) and char == '"':
            self._in_key = True
            self._expected = _STRING_OPEN
        elif char in "]}" and (
            expected == (_FIRST_KEY if char == "}" else _FIRST_ITEM)
            or (expected == _NEXT and type(self._container) is (dict if char == "}" else list))
        ):
            self._close_container()
        elif expected == _START and char == "{":
            self._expected = _FIRST_KEY
        elif expected not in (_VALUE, _FIRST_ITEM):
            self._stop()
        elif char == '"':
            self._add("")
            self._expected = _STRING_OPEN
        elif char in "{[":
            inner: Any = {} if char == "{" else []
            self._add(inner)
            self._open.append(self._container)
            self._container = inner
            self._expected = _FIRST_KEY if char == "{" else _FIRST_ITEM
        elif _SCALAR.match(char):
            self._expected = _SCALAR_OPEN
            return at
        else:
            self._stop()
        return at + 1

    def _add(self, value: object) -> None:
        """Add a value to the current container."""
        if type(self._container) is list:
            self._key = len(self._container)
            self._container.append(value)
        else:
            self._container[self._key] = value

    def _close_container(self) -> None:
        if self._open:
            self._container = self._open.pop()
            self._expected = _NEXT
        else:
            self._stop()

    def _stop(self) -> None:
        """Ignore the rest of the text."""
        self._expected = _OVER
        self._pieces = []
        self._open = []
        self._held = ""


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the end of the match at an offset, for a pattern that also matches the empty text."""
    match = pattern.match(text, at)
    return at if match is None else match.end()
