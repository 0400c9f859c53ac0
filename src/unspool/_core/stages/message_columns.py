"""Columns of a table of parsed messages.

The values of each field are collected in one flat list, because building a table from such lists is much
faster than adding one row at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ...dialects._declaration import Dialect
from ...events import CallEnd, CallStart, FinishReason
from ...message import BrokenCall, Message, ToolCall
from ...parser import Outputs, ToolList
from ...policies import Policies
from .message_builder import MessageBuilder


class MessageColumns:
    """Columns of a table in which each row is a message."""

    __slots__ = (
        "_call_fields",
        "_diagnostic_fields",
        "_outputs",
        "calls_end",
        "content",
        "diagnostics_end",
        "error",
        "finish_reason",
        "labels",
        "reasoning",
    )

    def __init__(self, policies: Policies | None = None) -> None:
        """Create empty columns.  The ``policies`` apply to all rows."""
        self.reasoning: list[str | None] = []
        self.content: list[str | None] = []
        self.finish_reason: list[str | None] = []
        self.labels: list[bytes | None] = []
        self.error: list[str | None] = []
        """Error message of each row; None for rows without an error."""
        self.calls_end: list[int] = [0]
        """Running total of calls: 0, then the total after each row."""
        self.diagnostics_end: list[int] = [0]
        """Running total of diagnostics: 0, then the total after each row."""
        self._call_fields = _CallFields()
        self._diagnostic_fields = _DiagnosticFields()
        self._outputs = Outputs(policies)

    @property
    def calls(self) -> tuple[list[Any], ...]:
        """Columns of all calls: ids, names, arguments, statuses, and start and end offsets."""
        of = self._call_fields
        return of.ids, of.names, of.arguments, of.statuses, of.starts, of.ends

    @property
    def diagnostics(self) -> tuple[list[Any], ...]:
        """Columns of all diagnostics: kinds, details, start and end offsets, and raw texts."""
        of = self._diagnostic_fields
        return of.kinds, of.details, of.starts, of.ends, of.raws

    def read(
        self,
        text: str,
        dialect: Dialect,
        tools: ToolList | None,
        prompt: str | None,
        reason: FinishReason | None,
        new_id: Callable[[str, int], str],
    ) -> None:
        """Parse an output and add it as a row; the options are those of ``Parser``."""
        parser = self._outputs.parser(dialect, tools, prompt, new_id)
        events = parser.feed(text)
        events += parser.finish(reason)
        builder = MessageBuilder(parser, source=text)
        builder.feed(events)
        message = builder.message
        starts: list[int] = []
        ends: list[int] = []
        for event in events:
            if isinstance(event, CallStart):
                starts.append(event.start)
            elif isinstance(event, CallEnd):
                ends.append(event.end)
        self.add(message, starts, ends, message.diagnostics, None)

    def add(
        self,
        message: Message,
        starts: list[int],
        ends: list[int],
        diagnostics: Sequence[Any],
        labels: bytes | None,
    ) -> None:
        """Add a parsed message as a row.

        :param starts: the start offset of each call in ``message.parts``, complete or broken.
        :param ends: the end offset of each of these calls.
        :param diagnostics: the diagnostics of the message, with offsets in the same unit as ``starts``.
        :param labels: the label of each token, or None if tokens were not labelled.
        """
        self.reasoning.append(message.reasoning)
        self.content.append(message.content)
        self.finish_reason.append(message.finish_reason)
        self.error.append(None)
        self.labels.append(labels)
        if starts:
            self._call_fields.add(message, starts, ends)
        self.calls_end.append(len(self._call_fields.ids))
        for diagnostic in diagnostics:
            self._diagnostic_fields.add(diagnostic)
        self.diagnostics_end.append(len(self._diagnostic_fields.kinds))

    def add_error(self, error: str) -> None:
        """Add a row for an output that could not be parsed, with the error message."""
        self.reasoning.append(None)
        self.content.append(None)
        self.finish_reason.append(None)
        self.error.append(error)
        self.labels.append(None)
        self.calls_end.append(len(self._call_fields.ids))
        self.diagnostics_end.append(len(self._diagnostic_fields.kinds))


class _CallFields:
    __slots__ = ("arguments", "ends", "ids", "names", "starts", "statuses")

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.names: list[str] = []
        self.arguments: list[str] = []
        self.statuses: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, message: Message, starts: list[int], ends: list[int]) -> None:
        self.starts += starts
        self.ends += ends
        for part in message.parts:
            if isinstance(part, ToolCall):
                self.statuses.append("complete")
            elif isinstance(part, BrokenCall):
                self.statuses.append(part.status)
            else:
                continue
            self.ids.append(part.id)
            self.names.append(part.name)
            self.arguments.append(part.arguments)


class _DiagnosticFields:
    __slots__ = ("details", "ends", "kinds", "raws", "starts")

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.details: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.raws: list[str] = []

    def add(self, diagnostic: Any) -> None:
        self.kinds.append(diagnostic.kind)
        self.details.append(diagnostic.detail)
        self.starts.append(diagnostic.start)
        self.ends.append(diagnostic.end)
        self.raws.append(diagnostic.raw)
