"""Events that a parser emits for an output: text, calls, markup, diagnostics, and a last event.

Every event has a span: ``start`` and ``end`` are offsets in characters from the beginning of the
output.  The spans of one stream tile the output: each span starts where the previous span ends, so
every character belongs to exactly one event.  ``Diagnostic`` and ``Finish`` have empty spans.

If the output arrives in small chunks, the parser emits several events where one would be enough.
:func:`normalise` joins such events.  The normalised stream does not depend on the chunks.

Events are plain classes with slots, because a stream creates one for almost every delta.  A frozen
dataclass takes several times as long to create.
"""

# This module, the parser and its stages do not use `from __future__ import annotations`.  In the compiled
# build, `help` therefore shows the actual types and not mypyc's names for them.  A quoted annotation is shown
# unchanged, with the names of our type aliases.
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias

from ._core.mypyc_types import i64, mypyc_attr
from .errors import UsageError

__all__ = [
    "DIAGNOSTIC_KINDS",
    "CallArgs",
    "CallEnd",
    "CallStart",
    "Channel",
    "Diagnostic",
    "Event",
    "Finish",
    "FinishReason",
    "Markup",
    "MarkupKind",
    "Status",
    "Text",
    "event_from_dict",
    "normalise",
]

Channel: TypeAlias = Literal["content", "reasoning"]
"""Kind of text: ``content`` is the answer, ``reasoning`` is the model's thinking before the answer."""
Status: TypeAlias = Literal["complete", "malformed", "truncated"]
"""Status of a call that has ended; see :class:`CallEnd`."""
MarkupKind: TypeAlias = Literal[
    "reasoning_open",
    "reasoning_close",
    "content_open",
    "content_close",
    "call",
    "separator",
    "message_boundary",
    "dropped",
    "cut",
]
"""Kind of markup; see :class:`Markup`."""
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
"""Reason why generation stopped, named as in Chat Completions."""


@mypyc_attr(acyclic=True)
class _Event:
    """Base class of all events.  Every event has a span of the output."""

    __slots__ = ("end", "start")

    def __init__(self, start: i64, end: i64) -> None:
        self.start = start
        """Offset of the first character of the event's span."""
        self.end = end
        """Offset just past the last character of the event's span."""

    def to_dict(self) -> dict[str, object]:
        """Return the class name, the fields and the span as a JSON-serialisable dictionary.

        :func:`event_from_dict` restores the event.
        """
        kind = type(self).__name__
        fields: dict[str, object] = {"event": kind}
        for name in _FIELDS[kind]:
            fields[name] = getattr(self, name)
        return fields

    def _key(self) -> tuple[object, ...]:
        """Return the values of all fields except offsets."""
        return ()

    def _places(self) -> tuple[int, ...]:
        """Return the event's offsets except ``start`` and ``end``."""
        return ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Event):
            return NotImplemented
        return (
            type(self) is type(other)
            and self.start == other.start
            and self.end == other.end
            and self._key() == other._key()
            and self._places() == other._places()
        )

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.start, self.end, self._key()))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (*self._key(), self.start, self.end, *self._places())

    def __repr__(self) -> str:
        values = ", ".join(repr(value) for value in self._key())
        return f"{type(self).__name__}({values}, {self.start}:{self.end})"


@mypyc_attr(acyclic=True, free_list_len=1)
class Text(_Event):
    """Part of the content or of the reasoning."""

    __slots__ = ("channel", "text")
    __match_args__: ClassVar = ("channel", "text")

    def __init__(self, channel: Channel, text: str, start: i64, end: i64) -> None:
        self.start = start
        self.end = end
        self.channel = channel
        """``content`` or ``reasoning``."""
        self.text = text
        """Text as the model wrote it, including whitespace."""

    def _key(self) -> tuple[object, ...]:
        return (self.channel, self.text)


@mypyc_attr(acyclic=True)
class CallStart(_Event):
    """Start of a call, emitted as soon as the function's name is known.  A start is never retracted."""

    __slots__ = ("id", "index", "name", "name_end", "name_start")
    __match_args__: ClassVar = ("index", "name", "id")

    def __init__(
        self, index: i64, name: str, id: str, start: i64, end: i64, name_start: i64 = 0, name_end: i64 = 0
    ) -> None:
        self.start = start
        self.end = end
        self.index = index
        """Number of calls before this one in the output."""
        self.name = name
        """Name of the function."""
        self.id = id
        """Id of the call: written by the model, or generated."""
        self.name_start = name_start
        """Offset of the first character of the name; equal to ``name_end`` if the output does not contain the
        name."""
        self.name_end = name_end
        """Offset just past the last character of the name."""

    def _key(self) -> tuple[object, ...]:
        return (self.index, self.name, self.id)

    def _places(self) -> tuple[int, int]:
        return self.name_start, self.name_end


@mypyc_attr(acyclic=True, free_list_len=1)
class CallArgs(_Event):
    """Part of a call's arguments, as JSON text.

    If the call is complete, joining the ``json`` of all its events gives one JSON value.  ``json`` is empty
    if the span contains only syntax around the arguments, such as the closing brace of an object that
    contains the whole call.
    """

    __slots__ = ("index", "json")
    __match_args__: ClassVar = ("index", "json")

    def __init__(self, index: i64, json: str, start: i64, end: i64) -> None:
        self.start = start
        self.end = end
        self.index = index
        """Index of the call, as in :class:`CallStart`."""
        self.json = json
        """JSON text to append to the arguments."""

    def _key(self) -> tuple[object, ...]:
        return (self.index, self.json)


@mypyc_attr(acyclic=True)
class CallEnd(_Event):
    """End of a call."""

    __slots__ = ("args_end", "args_start", "index", "raw", "status")
    __match_args__: ClassVar = ("index", "status", "raw")

    def __init__(
        self,
        index: i64,
        status: Status,
        raw: str,
        start: i64,
        end: i64,
        args_start: i64 = 0,
        args_end: i64 = 0,
    ) -> None:
        self.start = start
        self.end = end
        self.index = index
        """Index of the call, as in :class:`CallStart`."""
        self.status = status
        """``complete``; ``malformed`` if the call is not well-formed in this dialect; or ``truncated`` if the
        output ended inside the call."""
        self.raw = raw
        """Text of a malformed or truncated call as the model wrote it, including the opening marker.  It is
        empty for a complete call."""
        self.args_start = args_start
        """Offset of the first character of the arguments; equal to ``args_end`` if there are no arguments."""
        self.args_end = args_end
        """Offset just past the last character of the arguments.

        The span does not include the syntax around the arguments, such as the key of the arguments, the
        brackets of an object that contains the whole call, and closing markers.  In a broken call, the span
        ends before the call's closing markers."""

    def _key(self) -> tuple[object, ...]:
        return (self.index, self.status, self.raw)

    def _places(self) -> tuple[int, int]:
        return self.args_start, self.args_end


@mypyc_attr(acyclic=True)
class Markup(_Event):
    """Part of the output that is not shown to the user, such as the markers around a call."""

    __slots__ = ("kind", "text")
    __match_args__: ClassVar = ("kind", "text")

    def __init__(self, kind: MarkupKind, text: str, start: i64, end: i64) -> None:
        self.start = start
        self.end = end
        self.kind = kind
        """Kind of markup.

        ``reasoning_open``, ``reasoning_close``, ``content_open`` and ``content_close`` open and close these
        channels; ``call`` is part of a call or of a section of calls; ``separator`` is between two calls;
        ``message_boundary`` is between two messages; ``dropped`` is removed text, such as a control token;
        ``cut`` is a broken or unfinished call that was removed.
        """
        self.text = text
        """Text of the markup as the model wrote it."""

    def _key(self) -> tuple[object, ...]:
        return (self.kind, self.text)


@mypyc_attr(acyclic=True)
class Diagnostic(_Event):
    """Report of a fault in the output, or of a guess that the parser made.

    In a stream of events, the span of a diagnostic is empty, because the faulty text is in the span of
    another event.  In ``Message.diagnostics``, a diagnostic about a broken, unfinished or unread call has the
    span of the call.
    """

    __slots__ = ("detail", "kind", "raw")
    __match_args__: ClassVar = ("kind", "detail")

    def __init__(self, kind: str, detail: str, start: i64, end: i64, raw: str = "") -> None:
        self.start = start
        self.end = end
        self.kind = kind
        """One of the keys of :data:`DIAGNOSTIC_KINDS`."""
        self.detail = detail
        """Human-readable details.  The wording may change between versions."""
        self.raw = raw
        """Text of a broken or unread call, as the model wrote it; empty in other diagnostics.  In a stream of
        events, only the text of unread calls."""

    def _key(self) -> tuple[object, ...]:
        return (self.kind, self.detail, self.raw) if self.raw else (self.kind, self.detail)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return Diagnostic, (self.kind, self.detail, self.start, self.end, self.raw)


@mypyc_attr(acyclic=True)
class Finish(_Event):
    """Last event of every stream."""

    __slots__ = ("reason",)
    __match_args__: ClassVar = ("reason",)

    def __init__(self, reason: FinishReason | None, at: int) -> None:
        self.start = at
        self.end = at
        self.reason = reason
        """Reason that was passed to ``Parser.finish``.  A response's finish reason also depends on its calls;
        see ``WhitespaceFilter.finish_reason``."""

    def _key(self) -> tuple[object, ...]:
        return (self.reason,)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return Finish, (self.reason, self.start)


Event: TypeAlias = Text | CallStart | CallArgs | CallEnd | Markup | Diagnostic | Finish
"""Union of all event classes.  A ``match`` statement with a case for each class can end with
``assert_never``."""


_SPAN: Final = ("start", "end")
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "Text": ("channel", "text", *_SPAN),
    "CallStart": ("index", "name", "id", *_SPAN, "name_start", "name_end"),
    "CallArgs": ("index", "json", *_SPAN),
    "CallEnd": ("index", "status", "raw", *_SPAN, "args_start", "args_end"),
    "Markup": ("kind", "text", *_SPAN),
    "Diagnostic": ("kind", "detail", *_SPAN, "raw"),
    "Finish": ("reason", *_SPAN),
}
"""Names of the fields of each event class."""


def event_from_dict(fields: Mapping[str, Any]) -> "Event":
    """Restore an event from the result of its method ``to_dict``.

    >>> event_from_dict(Text("content", "Hi.", 0, 3).to_dict())
    Text('content', 'Hi.', 0:3)
    """
    values = dict(fields)
    kind = values.pop("event", None)
    if kind not in _CLASSES:
        raise UsageError(f"event={kind!r}: choose one of {', '.join(_CLASSES)}")
    if kind == "Finish":
        values["at"] = values.pop("end", 0)
        values.pop("start", None)
    try:
        event: Event = _CLASSES[kind](**values)
    except TypeError as error:
        raise UsageError(f"these are not the fields of {kind}: {', '.join(fields)}") from error
    return event


_CLASSES: Final[dict[str, Any]] = {
    "Text": Text,
    "CallStart": CallStart,
    "CallArgs": CallArgs,
    "CallEnd": CallEnd,
    "Markup": Markup,
    "Diagnostic": Diagnostic,
    "Finish": Finish,
}


def move(event: "Event", start: i64, end: i64) -> None:
    """Set the start and the end of an event."""
    base: _Event = event  # mypyc accesses attributes of a class faster than those of a union
    base.start = start
    base.end = end


def channel_after(event: "Event", channel: Channel) -> Channel:
    """Return the channel of text that follows an event, given the ``channel`` before the event."""
    if isinstance(event, Text):
        return event.channel
    if isinstance(event, Markup):
        if event.kind == "reasoning_open":
            return "reasoning"
        if event.kind in ("reasoning_close", "content_open", "message_boundary"):
            return "content"
    return channel


DIAGNOSTIC_KINDS: Final[dict[str, str]] = {
    "malformed_call": "a call is not well-formed",
    "truncated_call": "the output ended inside a call",
    "cut_head": "the output ended after the opening marker of a call, before the function's name",
    "cut_marker": "generation was stopped inside a marker; the beginning of the marker was removed",
    "missing_closer": "a call or section ended without its closing marker",
    "missing_opener": "a declared tool was called without the marker that opens calls",
    "stray_closer": "a closing marker without its opener was removed",
    "empty_section": "a section without calls was removed",
    "stray_opener": "an opening marker was removed: nothing follows it, or reasoning was already open",
    "overlong_head": "an opening marker was kept as text: too much text follows it without a function name",
    "repaired": "wrong syntax was repaired, as the policy malformed_call=repair demands",
    "slip": "a small syntax error was ignored because the meaning is clear",
    "coerced_to_string": "a value does not match its schema or notation, so it was kept as a string",
    "duplicate_argument": "an argument, or a key of an object in an argument, occurs twice: "
    "tags and Python calls keep the first value, JSON and other objects the last value",
    "late_id": "the call's id comes after the call's arguments",
    "other_family_call": "a call was written in the format of another family of models",
    "unread_call": "text looks like a call of this or another dialect, but could not be read as a call",
    "bare_call": "a call was written as an object without markers, and the policy bare_calls accepted it",
    "unnamed_call": "a call did not name its function, which was inferred from its arguments",
    "dropped_token": "a control token that is not part of the dialect was removed",
    "bad_id": "the model wrote an id that cannot be used, so the id was replaced",
    "unknown_tool": "a call to a tool that the request did not declare",
    "schema_mismatch": "an argument of a complete call has a wrong type or value, or is missing; only "
    "in messages",
    "null_call": "a call that means 'no call' was removed",
    "broken_header": "a message header is incomplete or contradicts itself",
    "dropped_text": "text that is not for the user was removed, such as a tool result that the model made up",
    "trailing_data": "text after the arguments was removed",
    "extra_member": "an unknown member of the object that contains the call was removed",
    "extra_call": "another call was removed because the request allows only one",
    "unclosed_reasoning": "the output ended inside reasoning",
}
"""Meaning of each kind of :class:`Diagnostic`.

:meta hide-value:
"""


def normalise(events: "Iterable[Event]") -> "list[Event]":
    """Join the events that are separate only because of chunk boundaries, and return all events.

    >>> normalise([Text("content", "O", 0, 1), Text("content", "slo", 1, 4), Finish("stop", 4)])
    [Text('content', 'Oslo', 0:4), Finish('stop', 4:4)]
    """
    out: list[Event] = []
    run: list[Event] = []  # consecutive events, collected and joined once, so that joining takes linear time
    for event in events:
        if run and not _continues(run[-1], event):
            out.append(_joined(run))
            run = []
        run.append(event)
    if run:
        out.append(_joined(run))
    return out


def _continues(last: Event, event: Event) -> bool:
    """Return whether two consecutive events are parts of one event that was split by chunking."""
    if isinstance(event, Text):
        return isinstance(last, Text) and last.channel == event.channel
    if isinstance(event, CallArgs):
        return isinstance(last, CallArgs) and last.index == event.index
    return isinstance(event, Markup) and isinstance(last, Markup) and last.kind == event.kind


def _joined(run: list[Event]) -> Event:
    first, end = run[0], run[-1].end
    if len(run) == 1:
        return first
    if isinstance(first, CallArgs):
        json = "".join([event.json for event in run if isinstance(event, CallArgs)])
        return CallArgs(first.index, json, first.start, end)
    text = "".join([event.text for event in run if isinstance(event, (Text, Markup))])
    if isinstance(first, Markup):
        return Markup(first.kind, text, first.start, end)
    assert isinstance(first, Text)  # noqa: S101 - no other events are joined
    return Text(first.channel, text, first.start, end)
