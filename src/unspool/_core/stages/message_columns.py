"""Outputs as columns: what a table is made of, read row by row.

Everything is collected flat, in a list for each field: tables are built from these much
faster than from a value for each row.
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
    """The fields of messages, a row for each."""

    __slots__ = (
        "_call_fields",
        "_diagnostic_fields",
        "_outputs",
        "behind_calls",
        "content",
        "diagnostics_end",
        "error",
        "finish_reason",
        "labels",
        "reasoning",
    )

    def __init__(self, policies: Policies | None = None) -> None:
        """``policies``: by which rows are read."""
        self.reasoning: list[str | None] = []
        self.content: list[str | None] = []
        self.finish_reason: list[str | None] = []
        self.labels: list[bytes | None] = []
        self.error: list[str | None] = []
        """What is wrong with a row that could not be read."""
        self.behind_calls: list[int] = [0]
        """How many calls there are before each row, and in the end."""
        self.diagnostics_end: list[int] = [0]
        """How many problems, likewise."""
        self._call_fields = _CallFields()
        self._diagnostic_fields = _DiagnosticFields()
        self._outputs = Outputs(policies)

    @property
    def calls(self) -> tuple[list[Any], ...]:
        """Of all calls: ids, names, arguments, statuses, and where they begin and end."""
        of = self._call_fields
        return of.ids, of.names, of.arguments, of.statuses, of.starts, of.ends

    @property
    def diagnostics(self) -> tuple[list[Any], ...]:
        """Of all problems: kinds, details, where they begin and end, and what the model wrote."""
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
        """A row: what a parser with these options makes of the text."""
        parser = self._outputs.parser(dialect, tools, prompt, new_id)
        events = parser.feed(text)
        events += parser.finish(reason)
        fold = MessageBuilder(parser, source=text)
        fold.push(events)
        message = fold.message()
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
        """A row that was read.

        :param starts: where each attempt at a call begins, in their order,
        :param ends: ... and ends.
        :param problems: those of the message, with the same kind of places.
        """
        self.reasoning.append(message.reasoning)
        self.content.append(message.content)
        self.finish_reason.append(message.finish_reason)
        self.error.append(None)
        self.labels.append(labels)
        if starts:
            self._call_fields.add(message, starts, ends)
        self.behind_calls.append(len(self._call_fields.ids))
        for diagnostic in diagnostics:
            self._diagnostic_fields.add(diagnostic)
        self.diagnostics_end.append(len(self._diagnostic_fields.kinds))

    def add_error(self, error: str) -> None:
        """A row that could not be read."""
        self.reasoning.append(None)
        self.content.append(None)
        self.finish_reason.append(None)
        self.error.append(error)
        self.labels.append(None)
        self.behind_calls.append(len(self._call_fields.ids))
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
