"""Events of an output: text, calls, markup, diagnostics and the end.

Every event has a span: ``start`` and ``end`` are offsets in characters from the beginning of the
output.  The spans of one stream tile the output: each starts where the one before ended, so nothing is
lost and nothing is counted twice.  ``Diagnostic`` and ``Finish`` have empty spans.

If a stream arrives in small chunks, one event becomes several.  :func:`normalise` joins them, and the
normalised stream is the same for every chunking.

Events are plain classes with slots, because a stream creates one for almost every delta.  A frozen
dataclass takes several times as long to create.
"""

# Annotations are evaluated here and in the modules of the parser and its stages, so that `help` shows
# types instead of the compiler's names for them.  Quoted annotations show our own names.
from collections.abc import Iterable
from typing import ClassVar, Final, Literal, TypeAlias

from ._core.mypyc_types import i64, mypyc_attr

Channel: TypeAlias = Literal["content", "reasoning"]
"""Kind of text: the answer, or the reasoning in front of it."""
Status: TypeAlias = Literal["complete", "malformed", "truncated"]
"""Result of a call; see :class:`CallEnd`."""
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
"""Purpose of a piece of markup; see :class:`Markup`."""
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
"""Reason why generation stopped, with the values of Chat Completions."""


@mypyc_attr(acyclic=True)
class _Event:
    """Base class of all events: a span of the output."""

    __slots__ = ("end", "start")

    def __init__(self, start: i64, end: i64) -> None:
        self.start = start
        """Offset of the first character that this event accounts for."""
        self.end = end
        """Offset just past the last character."""

    def _key(self) -> tuple[object, ...]:
        """Return the fields other than spans."""
        return ()

    def _places(self) -> tuple[int, ...]:
        """Return the offsets of spans inside the event's own span."""
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
    """Piece of the answer or of the reasoning."""

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
    """Start of a call, once its name is known.  From here on nothing of the call is retracted."""

    __slots__ = ("id", "index", "name", "name_end", "name_start")
    __match_args__: ClassVar = ("index", "name", "id")

    def __init__(
        self, index: i64, name: str, id: str, start: i64, end: i64, name_start: i64 = 0, name_end: i64 = 0
    ) -> None:
        self.start = start
        self.end = end
        self.index = index
        """Index among the calls of this output, from 0."""
        self.name = name
        """Name of the function."""
        self.id = id
        """Id that the model wrote, or a generated one."""
        self.name_start = name_start
        """Offset of the first character of the name.  The span is empty if the output does not contain it."""
        self.name_end = name_end
        """Offset just past the last character of the name."""

    def _key(self) -> tuple[object, ...]:
        return (self.index, self.name, self.id)

    def _places(self) -> tuple[int, int]:
        return self.name_start, self.name_end


@mypyc_attr(acyclic=True, free_list_len=1)
class CallArgs(_Event):
    """Piece of a call's arguments, as JSON text.

    The pieces of a complete call, joined, are one JSON value.  ``json`` may be empty if the span
    contains only notation, such as the closing brace of the object around the arguments.
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
        """``complete``; ``malformed`` if the call is not well-formed in this dialect; ``truncated`` if the
        output ended inside the call."""
        self.raw = raw
        """Text of a malformed or truncated call as the model wrote it, from its opener on; empty for a
        complete call."""
        self.args_start = args_start
        """Offset of the first character of the arguments.  The span is empty if there are none."""
        self.args_end = args_end
        """Offset just past the last character of the arguments.

        The notation around the arguments is not in the span: their key, the brackets of an object that
        contains the whole call, closing markers.  The arguments of a broken call end in front of the
        markers that close it."""

    def _key(self) -> tuple[object, ...]:
        return (self.index, self.status, self.raw)

    def _places(self) -> tuple[int, int]:
        return self.args_start, self.args_end


@mypyc_attr(acyclic=True)
class Markup(_Event):
    """Markup: input that frames something and is not shown."""

    __slots__ = ("kind", "text")
    __match_args__: ClassVar = ("kind", "text")

    def __init__(self, kind: MarkupKind, text: str, start: i64, end: i64) -> None:
        self.start = start
        self.end = end
        self.kind = kind
        """``reasoning_open``, ``reasoning_close``, ``content_open`` and ``content_close`` say so; ``call``:
        part of a call or of a section of calls; ``separator``: between two calls; ``message_boundary``:
        between two messages; ``dropped``: a control token, or text for nobody; ``cut``: the head of a call
        that the end of the output cut off."""
        self.text = text
        """Markup as the model wrote it."""

    def _key(self) -> tuple[object, ...]:
        return (self.kind, self.text)


@mypyc_attr(acyclic=True)
class Diagnostic(_Event):
    """Note about a fault in the output, or about a guess that the parser made.

    In a stream of events the span is empty, because other events account for the text.  In
    ``Message.diagnostics`` the span is that of the text concerned.
    """

    __slots__ = ("detail", "kind", "raw")
    __match_args__: ClassVar = ("kind", "detail")

    def __init__(self, kind: str, detail: str, start: i64, end: i64, raw: str = "") -> None:
        self.start = start
        self.end = end
        self.kind = kind
        """One of the keys of :data:`DIAGNOSTIC_KINDS`."""
        self.detail = detail
        """Details for people; may change."""
        self.raw = raw
        """Text that the model wrote, if no other event or part has it."""

    def to_dict(self) -> dict[str, object]:
        """Return the fields as JSON values."""
        return {
            "kind": self.kind,
            "detail": self.detail,
            "start": self.start,
            "end": self.end,
            "raw": self.raw,
        }

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
        """Reason that the caller passed to ``Parser.finish``.  For the finish reason of a response, which
        depends on the calls, see ``WhitespaceFilter.finish_reason``."""

    def _key(self) -> tuple[object, ...]:
        return (self.reason,)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return Finish, (self.reason, self.start)


Event: TypeAlias = Text | CallStart | CallArgs | CallEnd | Markup | Diagnostic | Finish
"""Any event.  A ``match`` over all of them can end with ``assert_never``."""


def move(event: "Event", start: i64, end: i64) -> None:
    """Give an event another span."""
    base: _Event = event  # the compiler accesses attributes of a class faster than those of a union
    base.start = start
    base.end = end


def channel_after(event: "Event", channel: Channel) -> Channel:
    """Return the channel after an event; ``channel`` is the one before it."""
    if isinstance(event, Text):
        return event.channel
    if isinstance(event, Markup):
        if event.kind == "reasoning_open":
            return "reasoning"
        if event.kind in ("reasoning_close", "content_open", "message_boundary"):
            return "content"
    return channel


def event_fields(event: "Event") -> dict[str, object]:
    """Return an event as JSON values: its class, its fields and its span."""
    names: tuple[str, ...] = getattr(event, "__match_args__", ())
    fields = {name: getattr(event, name) for name in (*names, "start", "end")}
    return {"event": type(event).__name__, **fields}


DIAGNOSTIC_KINDS: Final[dict[str, str]] = {
    "malformed_call": "a call is not well-formed",
    "truncated_call": "the output ended inside a call",
    "cut_head": "the output ended after a call's opener, before its name",
    "cut_marker": "generation was stopped inside a marker; the beginning of the marker was removed",
    "missing_closer": "a call or section ended without its closing marker",
    "missing_opener": "a declared tool was called without the marker that opens calls",
    "stray_closer": "a closing marker without its opener was removed",
    "empty_section": "a section without calls was removed",
    "stray_opener": "an opening marker was removed because it opens nothing, or what is open already",
    "overlong_head": "the text after a call's opener became too long without a name, so it is text",
    "repaired": "notation was repaired under malformed_call=repair",
    "slip": "a small fault in the notation was ignored because its meaning is clear",
    "coerced_to_string": "a value does not fit its schema or notation, so it stays a string",
    "duplicate_argument": "an argument, or a key of an object in an argument, was given twice: "
    "between tags and in Python calls the first counts, in JSON and other objects the last",
    "late_id": "the model gave the call's id after its arguments",
    "other_family_call": "a call was written in the format of another family of models",
    "unnamed_call": "a call did not name its function, which was inferred from its arguments",
    "dropped_token": "a control token that is not part of the dialect was removed",
    "bad_id": "the model's id was not usable and was replaced",
    "null_call": "a call that means 'no call' was removed",
    "broken_header": "a message header was never finished",
    "dropped_text": "text that is not for the user was removed, such as a tool result that the model made up",
    "trailing_data": "text after the arguments was removed",
    "extra_member": "a member of the call's object that is not part of a call was removed",
    "extra_call": "a further call was removed because the request allows one at a time",
    "unclosed_reasoning": "the output ended inside reasoning",
}
"""Every kind of :class:`Diagnostic`, with its meaning."""


def normalise(events: "Iterable[Event]") -> "list[Event]":
    """Return the canonical form of a stream: join events that only chunking has separated.

    >>> normalise([Text("content", "O", 0, 1), Text("content", "slo", 1, 4), Finish("stop", 4)])
    [Text('content', 'Oslo', 0:4), Finish('stop', 4:4)]
    """
    out: list[Event] = []
    run: list[Event] = []  # neighbours that are one event; joined once at the end, to stay linear
    for event in events:
        if run and not _continues(run[-1], event):
            out.append(_joined(run))
            run = []
        run.append(event)
    if run:
        out.append(_joined(run))
    return out


def _continues(last: Event, event: Event) -> bool:
    """Return whether chunking has cut one event into these two."""
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
