"""Builder of a message from events."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ...errors import MalformedOutput
from ...events import (
    CallArgs,
    CallEnd,
    CallStart,
    Channel,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    Markup,
    Status,
    Text,
)
from ...message import BrokenCall, Message, Part, TextPart, ToolCall
from ...policies import Policies
from ..arguments.json_value import canonical_json
from ..mypyc_types import Unchecked
from ..schema.mismatch import find_mismatch
from ..schema.tools import Tools, as_tools
from .whitespace_filter import WhitespaceFilter

if TYPE_CHECKING:
    from ...parser import Parser

UNFINISHED: Final = ("truncated_call", "cut_head", "missing_closer")
"""Kinds of diagnostics which report that the output was cut off."""


class MessageBuilder:
    """Builder of a message from the events of a parser; create one with ``parser.fold()``.

    >>> parser = Parser("hermes")
    >>> builder = parser.fold()
    >>> builder.feed(parser.feed("Hello."))
    [Text('content', 'Hello.', 0:6)]
    >>> builder.message
    Message(content='Hello.', finish_reason=None)
    >>> builder.feed(parser.finish("stop"))
    [Finish('stop', 6:6)]
    >>> builder.message
    Message(content='Hello.')
    """

    def __init__(self, parser: Unchecked["Parser"], *, source: str = "") -> None:
        """Create a builder for one output.

        :param parser: the parser that the events come from.
        :param source: the whole output, if it is known; errors quote this text.
        """
        self._whitespace = WhitespaceFilter(parser)
        self._source = source
        self._policies: Policies = parser.policies
        self._tools: Tools = as_tools(parser.tools)
        self._parts: list[_Run | _OpenCall] = []
        self._channel = ""  # channel of the last part; empty if the last part is not text
        self._pieces: list[str] = []  # pieces of the last part, if it is text
        self._calls: dict[int, _OpenCall] = {}
        self._diagnostics: list[Diagnostic] = []
        self._finished = False

    @property
    def finish_reason(self) -> FinishReason | None:
        """Finish reason as in :attr:`WhitespaceFilter.finish_reason`, or None before ``Finish``."""
        return self._whitespace.finish_reason if self._finished else None

    def feed(self, events: "Iterable[Event]") -> "list[Event]":
        """Take further events, and return them without the whitespace that belongs to the format."""
        shown = self._whitespace.feed(events)
        for event in shown:
            if isinstance(event, Text):
                if event.channel != self._channel:
                    self._channel = event.channel
                    self._pieces = []
                    self._parts.append(_Run(event.channel, self._pieces))
                self._pieces.append(event.text)
                continue
            if isinstance(event, CallArgs):
                self._calls[event.index].arguments.append(event.json)
                continue
            if isinstance(event, CallStart):
                self._channel = ""
                call = _OpenCall(event)
                self._calls[event.index] = call
                self._parts.append(call)
            elif isinstance(event, CallEnd):
                self._end_call(event)
            elif isinstance(event, Diagnostic):
                self._diagnostics.append(_with_span(event))
                if event.kind == "unknown_tool" and self._policies.unknown_tool == "error":
                    raise self._error(event)
            elif isinstance(event, Markup):
                self._read_markup(event)
            elif isinstance(event, Finish):
                self._finished = True
        return shown

    def _read_markup(self, event: Markup) -> None:
        """Set the span of a ``cut_head`` diagnostic to the incomplete call that was removed."""
        last = self._diagnostics[-1] if self._diagnostics else None
        if event.kind == "cut" and last is not None and last.kind == "cut_head":
            self._diagnostics[-1] = Diagnostic("cut_head", last.detail, event.start, event.end, event.text)

    def _end_call(self, event: CallEnd) -> None:
        """Record the end of a call; for a broken call, report a diagnostic whose span is the whole call."""
        call = self._calls[event.index]
        call.channel, call.whitespace = self._whitespace.contexts.pop(event.index, ("content", ""))
        call.ended = True
        call.status = event.status
        call.raw = event.raw
        call.args_end = event.start - call.start
        call.args_span = (event.args_start, event.args_end)
        if event.status == "complete":
            if self._tools.declared:
                self._check_schema(call, event)
            return
        # The diagnostic of the machine has an empty span, so replace it with one that spans the call.
        kind = f"{event.status}_call"
        at = event.start
        detail = kind
        for i in range(len(self._diagnostics) - 1, -1, -1):
            if self._diagnostics[i].kind == kind:
                detail, at = self._diagnostics[i].detail, self._diagnostics[i].start
                del self._diagnostics[i]
                break
        if self._policies.for_broken(event.status) == "error":
            raise MalformedOutput(kind, detail, call.start, event.end, event.raw, at)
        self._diagnostics.append(Diagnostic(kind, detail, call.start, event.end, event.raw))

    def _check_schema(self, call: "_OpenCall", event: CallEnd) -> None:
        """Report a complete call whose arguments do not fit the schema of the tool."""
        mismatch = find_mismatch(self._tools, call.name, "".join(call.arguments))
        if not mismatch:
            return
        detail, start, end = f"{call.name}: {mismatch}", event.args_start, event.args_end
        if self._policies.schema_mismatch == "error":
            raise MalformedOutput("schema_mismatch", detail, start, end, self._source[start:end], start)
        self._diagnostics.append(Diagnostic("schema_mismatch", detail, start, end))

    def _error(self, diagnostic: Diagnostic) -> MalformedOutput:
        start, raw = diagnostic.start, diagnostic.raw
        if not raw:
            start = max(0, diagnostic.end - 60)
            raw = self._source[start : diagnostic.end]
        return MalformedOutput(diagnostic.kind, diagnostic.detail, start, diagnostic.end, raw, diagnostic.end)

    @property
    def message(self) -> Message:
        """Message of the events so far.

        Before ``Finish``, its ``finish_reason`` is None.  A call that has not ended is not among its
        ``tool_calls``, but is a truncated :class:`~unspool.message.BrokenCall` among its ``parts``.
        """
        policies = self._policies
        if policies.truncated_call == "error":
            for diagnostic in self._diagnostics:
                if diagnostic.kind in UNFINISHED:
                    raise self._error(diagnostic)
        parts: list[Part] = []
        kept: list[ToolCall] = []  # complete calls, and broken calls that a policy keeps
        has_kept = False
        for part in self._parts:
            made = part.to_part(policies)
            parts.append(made)
            if isinstance(made, ToolCall):
                kept.append(made)
            elif (
                isinstance(made, BrokenCall)
                and isinstance(part, _OpenCall)
                and part.ended
                and policies.for_broken(made.status) == "call"
            ):
                kept.append(part.kept(made))
                has_kept = True
        whole = Message(parts=parts, diagnostics=self._diagnostics, finish_reason=self.finish_reason)
        if not has_kept:
            return whole
        return Message(
            whole.content, whole.reasoning, kept, self._diagnostics, self.finish_reason, whole.parts
        )


def _with_span(event: Diagnostic) -> Diagnostic:
    """Return a diagnostic of the stream with the span that it has in a message."""
    if event.kind != "unread_call":
        return event
    return Diagnostic(event.kind, event.detail, event.start, event.start + len(event.raw), event.raw)


class _Run:
    """Consecutive text of one channel."""

    __slots__ = ("channel", "pieces")

    def __init__(self, channel: Channel, pieces: list[str]) -> None:
        self.channel: Channel = channel
        self.pieces = pieces

    def to_part(self, _: Policies) -> Part:
        return TextPart(self.channel, "".join(self.pieces))


class _OpenCall:
    """Collector of a call's events; the call may still be incomplete."""

    __slots__ = (
        "args_end",
        "args_span",
        "arguments",
        "channel",
        "ended",
        "head",
        "id",
        "name",
        "raw",
        "start",
        "status",
        "whitespace",
    )

    def __init__(self, event: CallStart) -> None:
        self.id = event.id
        self.name = event.name
        self.start = event.start
        self.arguments: list[str] = []
        self.ended = False
        self.status: Status = "truncated"  # until the call ends
        self.raw = ""
        self.head = event.end - event.start  # length of the raw text before the arguments
        self.args_span = (0, 0)  # offsets of the arguments in the output
        self.args_end = 0  # index in the raw text at which the arguments end
        self.whitespace = ""  # whitespace that was removed between the preceding text and the call
        self.channel: Channel = "content"

    def to_part(self, policies: Policies) -> Part:
        """Return the call as a part of the message."""
        arguments = "".join(self.arguments)
        if self.status == "complete":
            if policies.arguments == "canonical":
                arguments = canonical_json(arguments)
            return ToolCall(self.id, self.name, arguments, *self.args_span)
        policy = policies.for_broken(self.status)
        text = self.whitespace + self.raw if policy in ("text", "repair") else ""
        return BrokenCall(self.id, self.name, arguments, self.status, self.raw, self.channel, text)

    def kept(self, part: BrokenCall) -> ToolCall:
        """Convert a broken call to a ``ToolCall``, for policies that keep such calls."""
        arguments = part.arguments
        if part.status == "malformed":
            # Show the arguments as the model wrote them.  If the notation is JSON, the raw text contains
            # `arguments`, so show the raw text from there on.  In other notations, show the raw text after
            # the head of the call.
            begin = self.raw.rfind(arguments, 0, self.args_end) if arguments else -1
            arguments = self.raw[begin if begin >= 0 else self.head : self.args_end]
        return ToolCall(self.id, self.name, arguments, *self.args_span)
