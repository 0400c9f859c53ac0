"""The fold: events to a message."""

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
    FinishReason,
    Markup,
    Status,
    Text,
)
from ...message import BrokenCall, Message, Part, TextPart, ToolCall
from ...policies import Policies
from ..arguments.json_value import canonical_json
from ..mypyc_types import Unchecked
from .whitespace_filter import WhitespaceFilter

if TYPE_CHECKING:
    from ...parser import Parser

UNFINISHED: Final = ("truncated_call", "cut_head", "missing_closer")
"""Notes about something that the input ended in."""


class MessageBuilder:
    """Events in, a message out.  ``parser.fold()`` makes one.

    >>> parser = Parser("hermes")
    >>> fold = parser.fold()
    >>> fold.push(parser.feed("Hello."))
    [Text('content', 'Hello.', 0:6)]
    >>> fold.push(parser.finish("stop"))
    [Finish('stop', 6:6)]
    >>> fold.message().content
    'Hello.'
    """

    def __init__(self, parser: Unchecked["Parser"], *, source: str = "") -> None:
        """Prepare to fold one output.

        :param parser: whose events they are.
        :param source: the whole output, if it is at hand, for errors that show where.
        """
        self._tidy = WhitespaceFilter(parser)
        self._source = source
        self._policies: Policies = parser.policies
        self._parts: list[_Run | _OpenCall] = []
        self._channel = ""  # of the text that came last, if no call came after it
        self._pieces: list[str] = []  # ... and that text
        self._calls: dict[int, _OpenCall] = {}
        self._diagnostics: list[Diagnostic] = []

    @property
    def finish_reason(self) -> FinishReason:
        """How the output ended, as far as it has come; see :attr:`WhitespaceFilter.finish_reason`."""
        return self._tidy.finish_reason

    def push(self, events: "Iterable[Event]") -> "list[Event]":
        """Take further events of the stream; gives them as they are shown, tidied."""
        shown = self._tidy.push(events)
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
                self._call_ends(event)
            elif isinstance(event, Diagnostic):
                self._diagnostics.append(event)
            elif isinstance(event, Markup):
                self._markup(event)
        return shown

    def _markup(self, event: Markup) -> None:
        last = self._diagnostics[-1] if self._diagnostics else None
        if event.kind == "cut" and last is not None and last.kind == "cut_head":  # which it was noted as
            self._diagnostics[-1] = Diagnostic("cut_head", last.detail, event.start, event.end, event.text)

    def _call_ends(self, event: CallEnd) -> None:
        call = self._calls[event.index]
        call.channel, call.before = self._tidy.contexts.pop(event.index, ("content", ""))
        call.status = event.status
        call.raw = event.raw
        call.tail = event.start - call.start
        if event.status == "complete":
            return
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

    def _error(self, diagnostic: Diagnostic) -> MalformedOutput:
        start, raw = diagnostic.start, diagnostic.raw
        if not raw:
            start = max(0, diagnostic.end - 60)
            raw = self._source[start : diagnostic.end]
        return MalformedOutput(diagnostic.kind, diagnostic.detail, start, diagnostic.end, raw, diagnostic.end)

    def message(self) -> Message:
        """The message so far; after the last event, the whole one."""
        policies = self._policies
        if policies.truncated_call == "error":
            for diagnostic in self._diagnostics:
                if diagnostic.kind in UNFINISHED:
                    raise self._error(diagnostic)
        parts: list[Part] = []
        calls: list[ToolCall] = []
        for part in self._parts:
            made = part.part(policies)
            parts.append(made)
            if isinstance(made, ToolCall):
                calls.append(made)
            elif (
                isinstance(made, BrokenCall)
                and isinstance(part, _OpenCall)
                and policies.for_broken(made.status) == "keep"
            ):
                calls.append(part.kept(made))
        return Message(
            reasoning=_joined(parts, "reasoning"),
            content=_joined(parts, "content"),
            tool_calls=tuple(calls),
            diagnostics=tuple(self._diagnostics),
            finish_reason=self.finish_reason,
            parts=tuple(parts),
        )


class _Run:
    """Text of one channel."""

    __slots__ = ("channel", "pieces")

    def __init__(self, channel: Channel, pieces: list[str]) -> None:
        self.channel: Channel = channel
        self.pieces = pieces

    def part(self, _: Policies) -> Part:
        return TextPart(self.channel, "".join(self.pieces))


class _OpenCall:
    """A call as far as it has come."""

    __slots__ = ("arguments", "before", "channel", "head", "id", "name", "raw", "start", "status", "tail")

    def __init__(self, event: CallStart) -> None:
        self.id = event.id
        self.name = event.name
        self.start = event.start
        self.arguments: list[str] = []
        self.status: Status = "complete"
        self.raw = ""
        self.head = event.end - event.start  # what of the raw text comes before its arguments,
        self.tail = 0  # ... and where they end
        self.before = ""
        self.channel: Channel = "content"

    def part(self, policies: Policies) -> Part:
        """How the call appears in the message."""
        arguments = "".join(self.arguments)
        if self.status == "complete":
            if policies.arguments == "canonical":
                arguments = canonical_json(arguments)
            return ToolCall(self.id, self.name, arguments)
        policy = policies.for_broken(self.status)
        text = self.before + self.raw if policy in ("text", "repair") else ""
        return BrokenCall(self.id, self.name, arguments, self.status, self.raw, self.channel, text)

    def kept(self, part: BrokenCall) -> ToolCall:
        """The call among those of the message, although it is broken."""
        arguments = part.arguments
        if part.status == "malformed":
            # In JSON they begin as they were given; else what follows the head stands for them.
            begin = self.raw.rfind(arguments, 0, self.tail) if arguments else -1
            arguments = self.raw[begin if begin >= 0 else self.head : self.tail]
        return ToolCall(self.id, self.name, arguments)


def _joined(parts: list[Part], channel: str) -> str | None:
    """All text of a channel, with what went back to it."""
    texts = [
        part.text
        for part in parts
        if not isinstance(part, ToolCall)
        and part.channel == channel
        and (part.text or isinstance(part, TextPart))
    ]
    return "".join(texts) if texts else None
