"""Events: the one currency between the machine and everything built on it.

Every event says which part of the raw input it accounts for: ``start`` and
``end`` are offsets in characters from the beginning of the output.  The spans
of one stream tile its input: each starts where the one before ended, so that
nothing is lost and nothing counted twice.  ``Diagnostic`` and ``Finish`` have empty
spans.

How often the text of one event is cut into several depends on the chunks that
came in; :func:`normalise` joins such pieces, and the normalised stream is the
same for every chunking.

These are plain slotted classes because a stream builds one for almost every
delta: a frozen dataclass costs several times as much to create.
"""

# Annotations are evaluated, here and where parsers, tidies and folds are made, so that
# `help` shows types and not the compiler's names for them; in quotes it shows our own names.
from collections.abc import Iterable
from typing import ClassVar, Final, Literal, TypeAlias

from ._core.mypyc_types import i64, mypyc_attr

Channel: TypeAlias = Literal["content", "reasoning"]
"""Where text belongs."""
Status: TypeAlias = Literal["complete", "malformed", "truncated"]
"""How a call ended; see :class:`CallEnd`."""
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
"""What a piece of markup frames; see :class:`Markup`."""
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
"""Why generation stopped, or how an output ended, in the words of Chat Completions."""


@mypyc_attr(acyclic=True)
class _Event:
    """Base of all events: a span of the raw input."""

    __slots__ = ("end", "start")

    def __init__(self, start: i64, end: i64) -> None:
        self.start = start
        """Offset of the first character this event accounts for."""
        self.end = end
        """Offset behind the last one."""

    def _key(self) -> tuple[object, ...]:
        return ()

    def _places(self) -> tuple[int, ...]:
        """Spans inside its own."""
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
    """A piece of the answer or of the model's reasoning."""

    __slots__ = ("channel", "text")
    __match_args__: ClassVar = ("channel", "text")

    def __init__(self, channel: Channel, text: str, start: i64, end: i64) -> None:
        self.start = start
        self.end = end
        self.channel = channel
        """Where the text belongs: ``content`` or ``reasoning``."""
        self.text = text
        """The text itself, white space included."""

    def _key(self) -> tuple[object, ...]:
        return (self.channel, self.text)


@mypyc_attr(acyclic=True)
class CallStart(_Event):
    """The commit point of a call: its name is known, nothing is retracted from here on."""

    __slots__ = ("id", "index", "name", "name_end", "name_start")
    __match_args__: ClassVar = ("index", "name", "id")

    def __init__(
        self, index: i64, name: str, id: str, start: i64, end: i64, name_start: i64 = 0, name_end: i64 = 0
    ) -> None:
        self.start = start
        self.end = end
        self.index = index
        """Position among the calls of this output, from 0."""
        self.name = name
        """The function to call."""
        self.id = id
        """The model's own id where the dialect carries one, else a generated one."""
        self.name_start = name_start
        """Offset of the name's first character; an empty span where the output does not spell it ..."""
        self.name_end = name_end
        """... and behind its last one."""

    def _key(self) -> tuple[object, ...]:
        return (self.index, self.name, self.id)

    def _places(self) -> tuple[int, int]:
        return self.name_start, self.name_end


@mypyc_attr(acyclic=True, free_list_len=1)
class CallArgs(_Event):
    """A further piece of a call's arguments, as JSON text.

    The pieces of a complete call, joined, are one JSON value.  ``json`` may be
    empty when the span holds only notation (a closing brace of the envelope).
    """

    __slots__ = ("index", "json")
    __match_args__: ClassVar = ("index", "json")

    def __init__(self, index: i64, json: str, start: i64, end: i64) -> None:
        self.start = start
        self.end = end
        self.index = index
        """Which call, as in :class:`CallStart`."""
        self.json = json
        """Text to append to the arguments."""

    def _key(self) -> tuple[object, ...]:
        return (self.index, self.json)


@mypyc_attr(acyclic=True)
class CallEnd(_Event):
    """A call is over."""

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
        """Which call, as in :class:`CallStart`."""
        self.status = status
        """``complete``; ``malformed``: what the model wrote is not a call in
        this dialect; ``truncated``: the input ended inside it."""
        self.raw = raw
        """For the last two: the call exactly as the model wrote it, from its
        opener on.  Empty for a complete call."""
        self.args_start = args_start
        """Offset of the first character of the arguments; an empty span where there are none ..."""
        self.args_end = args_end
        """... and behind the last one.  Notation around them is outside: what names them, the
        brackets of an object that holds the whole call, closing markers.  Those of a broken call
        end where what closes it begins."""

    def _key(self) -> tuple[object, ...]:
        return (self.index, self.status, self.raw)

    def _places(self) -> tuple[int, int]:
        return self.args_start, self.args_end


@mypyc_attr(acyclic=True)
class Markup(_Event):
    """Framing: consumed, nothing to show."""

    __slots__ = ("kind", "text")
    __match_args__: ClassVar = ("kind", "text")

    def __init__(self, kind: MarkupKind, text: str, start: i64, end: i64) -> None:
        self.start = start
        self.end = end
        self.kind = kind
        """What it marks.  ``call``: a call or a section of calls; ``separator``: between two
        calls; ``message_boundary``: between two messages; ``dropped``: a control token of
        the turn; ``cut``: the head of a call that the end of the input cut off."""
        self.text = text
        """The markup as written."""

    def _key(self) -> tuple[object, ...]:
        return (self.kind, self.text)


@mypyc_attr(acyclic=True)
class Diagnostic(_Event):
    """Something that is wrong with the output, or that had to be guessed.

    In a stream of events its span is empty, because other events account for the text.  In
    ``Message.diagnostics`` the span is that of the text concerned.
    """

    __slots__ = ("detail", "kind", "raw")
    __match_args__: ClassVar = ("kind", "detail")

    def __init__(self, kind: str, detail: str, start: i64, end: i64, raw: str = "") -> None:
        self.start = start
        self.end = end
        self.kind = kind
        """One of the names in :data:`DIAGNOSTIC_KINDS`."""
        self.detail = detail
        """The particulars, for people."""
        self.raw = raw
        """The model's text, where no other event or part has it."""

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
    """The last event of every stream."""

    __slots__ = ("reason",)
    __match_args__: ClassVar = ("reason",)

    def __init__(self, reason: FinishReason | None, at: int) -> None:
        self.start = at
        self.end = at
        self.reason = reason
        """Why generation stopped, as the caller told ``Parser.finish``; how the output
        ended is for ``WhitespaceFilter.finish_reason`` to say, which knows the calls."""

    def _key(self) -> tuple[object, ...]:
        return (self.reason,)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return Finish, (self.reason, self.start)


Event: TypeAlias = Text | CallStart | CallArgs | CallEnd | Markup | Diagnostic | Finish
"""Any event.  A ``match`` over all of them ends with ``assert_never``."""


def move(event: "Event", start: i64, end: i64) -> None:
    """Give an event another span."""
    moved: _Event = event  # of which the compiler knows where its attributes are
    moved.start = start
    moved.end = end


def channel_behind(event: "Event", channel: Channel) -> Channel:
    """The channel of what follows an event, if ``channel`` was that of what came before it."""
    if isinstance(event, Text):
        return event.channel
    if isinstance(event, Markup):
        if event.kind == "reasoning_open":
            return "reasoning"
        if event.kind in ("reasoning_close", "content_open", "message_boundary"):
            return "content"
    return channel


def event_fields(event: "Event") -> dict[str, object]:
    """An event as JSON values: which one it is, what it says, and its span."""
    said: tuple[str, ...] = getattr(event, "__match_args__", ())
    fields = {name: getattr(event, name) for name in (*said, "start", "end")}
    return {"event": type(event).__name__, **fields}


DIAGNOSTIC_KINDS: Final[dict[str, str]] = {
    "malformed_call": "a call was announced, then turned out not to be well-formed",
    "truncated_call": "the input ended inside a call",
    "cut_head": "the input ended after a call's opener, before its name",
    "cut_marker": "generation was stopped inside a marker; what there was of it was removed",
    "missing_closer": "a call or section ended without its closing marker",
    "missing_opener": "a declared tool was called without the marker that opens calls",
    "stray_closer": "a closing marker without its opener was removed",
    "empty_section": "a section without calls was removed",
    "stray_opener": "an opening marker that opens nothing, or what is open already, was removed",
    "overlong_head": "what a call's opener begins went on for too long without a name, and is text",
    "repaired": "notation was repaired under malformed_call=repair",
    "slip": "a slip in the notation that can mean only one thing was read as that",
    "coerced_to_string": "a value is not what its schema or its notation says, and stays a string",
    "duplicate_argument": "an argument, or a key of an object in one, was given twice: "
    "between tags and in Python calls the first counts, in JSON and other objects the last",
    "late_id": "the model gave the call's id after its arguments",
    "other_family_call": "a call was written as another family of models writes it",
    "unnamed_call": "a call did not name its function, which follows from its arguments",
    "dropped_token": "a control token of the vocabulary that is no markup of the dialect was removed",
    "bad_id": "the model's id was not usable and was replaced",
    "null_call": "a call that means 'no call' was removed",
    "broken_header": "a message header was never finished",
    "dropped_text": "text was removed that is for nobody, such as a tool's result that the model made up",
    "trailing_data": "text after the arguments was removed",
    "extra_member": "a member of the call's object that is no part of a call was removed",
    "extra_call": "a further call was removed because the request wants one at a time",
    "unclosed_reasoning": "the input ended inside reasoning",
}
"""Every kind of :class:`Diagnostic`, with its meaning."""


def normalise(events: "Iterable[Event]") -> "list[Event]":
    """Join what only chunking cut apart: the canonical form of an event stream.

    >>> normalise([Text("content", "O", 0, 1), Text("content", "slo", 1, 4), Finish("stop", 4)])
    [Text('content', 'Oslo', 0:4), Finish('stop', 4:4)]
    """
    out: list[Event] = []
    run: list[Event] = []  # neighbours that are one event; joined once, or long answers take forever
    for event in events:
        if run and not _continues(run[-1], event):
            out.append(_joined(run))
            run = []
        run.append(event)
    if run:
        out.append(_joined(run))
    return out


def _continues(last: Event, event: Event) -> bool:
    """Whether two neighbours are one event that chunking cut in two."""
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
