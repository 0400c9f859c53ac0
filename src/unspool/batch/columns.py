"""The columns of a parsed table: their types, and how rows become them.

Everything is collected flat and made into lists and structs at the end: Arrow
builds them from their parts much faster than from a dictionary for each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from .._core.values.errors import UsageError
from .._core.values.events import CallEnd, CallStart, Event
from .._core.values.message import BrokenCall, Message, Problem, ToolCall
from ..tokens import TokenProblem
from ..tokens.labels import VERSION

CALL: Final = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("arguments", pa.string()),
        ("status", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
    ]
)
PROBLEM: Final = pa.struct(
    [
        ("kind", pa.string()),
        ("detail", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("raw", pa.string()),
    ]
)
PARSED: Final = pa.schema(
    [
        ("reasoning", pa.string()),
        ("content", pa.string()),
        ("tool_calls", pa.list_(CALL)),
        ("finish_reason", pa.string()),
        ("problems", pa.list_(PROBLEM)),
        ("ok", pa.bool_()),
        ("error", pa.string()),
    ]
)
"""The columns that parsing adds; with ``labels`` also the column of that name, before ``ok``."""
WRITTEN: Final = pa.schema([("text", pa.string()), ("ok", pa.bool_()), ("error", pa.string())])
"""The columns that rendering and converting give."""


def parsed_schema(prefix: str, *, labels: bool, spans: str) -> pa.Schema:
    """The parsed columns, with what their numbers mean."""
    fields = [field.with_name(prefix + field.name) for field in PARSED]
    if labels:
        fields.insert(-2, pa.field(f"{prefix}labels", pa.binary()))
    says = {"spans": spans, **({"labels": VERSION} if labels else {})}
    return pa.schema(fields, metadata={"unspool": json.dumps(says)})


class _Table:
    """Members of a list of structs, as columns of their own."""

    def __init__(self, type_: pa.StructType) -> None:
        self.type = type_
        self.offsets = [0]
        self.columns: tuple[list[object], ...] = tuple([] for _ in type_)

    def end_row(self) -> None:
        self.offsets.append(len(self.columns[0]))

    def array(self) -> pa.ListArray:
        arrays = [array(column, field.type) for column, field in zip(self.columns, self.type, strict=True)]
        structs = pa.StructArray.from_arrays(arrays, fields=list(self.type))
        return pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), structs)


class ParsedColumns:
    """Rows, as they are read."""

    def __init__(self) -> None:
        self.reasoning: list[str | None] = []
        self.content: list[str | None] = []
        self.finish_reason: list[str | None] = []
        self.error: list[str | None] = []
        self.labels: list[bytes | None] = []
        self.calls = _Table(CALL)
        self.problems = _Table(PROBLEM)

    def add(
        self,
        message: Message,
        spans: Iterable[tuple[int, int]],
        problems: Sequence[Problem | TokenProblem],
        labels: bytes | None = None,
    ) -> None:
        """A row that was read.

        :param spans: where each attempt at a call stands, in their order.
        :param problems: those of the message, with the same kind of places.
        """
        self.reasoning.append(message.reasoning)
        self.content.append(message.content)
        self.finish_reason.append(message.finish_reason)
        self.error.append(None)
        self.labels.append(labels)
        if message.tool_calls or problems:
            self._add_calls(message, spans)
            self._add_problems(problems)
        self.calls.end_row()
        self.problems.end_row()

    def _add_calls(self, message: Message, spans: Iterable[tuple[int, int]]) -> None:
        ids, names, arguments, statuses, starts, ends = self.calls.columns
        attempts = [part for part in message.parts if isinstance(part, ToolCall | BrokenCall)]
        for attempt, (start, end) in zip(attempts, spans, strict=True):
            ids.append(attempt.id)
            names.append(attempt.name)
            arguments.append(attempt.arguments)
            statuses.append("complete" if isinstance(attempt, ToolCall) else attempt.status)
            starts.append(start)
            ends.append(end)

    def _add_problems(self, problems: Iterable[Problem | TokenProblem]) -> None:
        kinds, details, starts, ends, raws = self.problems.columns
        for problem in problems:
            kinds.append(problem.kind)
            details.append(problem.detail)
            starts.append(problem.start)
            ends.append(problem.end)
            raws.append(problem.raw)

    def add_error(self, error: str) -> None:
        """A row that could not be read."""
        self.reasoning.append(None)
        self.content.append(None)
        self.finish_reason.append(None)
        self.error.append(error)
        self.labels.append(None)
        self.calls.end_row()
        self.problems.end_row()

    def arrays(self, *, labels: bool) -> list[pa.Array]:
        """The columns of ``parsed_schema``."""
        return [
            strings(self.reasoning),
            strings(self.content),
            self.calls.array(),
            strings(self.finish_reason),
            self.problems.array(),
            *([array(self.labels, pa.binary())] if labels else []),
            *verdict(self.error),
        ]


def verdict(errors: Sequence[str | None]) -> list[pa.Array]:
    """The columns ``ok`` and ``error``."""
    return [pa.array([error is None for error in errors], pa.bool_()), strings(errors)]


def strings(values: Sequence[str | None]) -> pa.Array:
    """A column of text.  Half a surrogate pair, which JSON can spell and Arrow cannot hold, is spelt out."""
    return array(values, pa.string())


def array(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    """A column; see ``strings``."""
    try:
        made = pa.array(values, type_)
    except UnicodeEncodeError:
        made = pa.array([_spelt(value) for value in values], type_)
    if isinstance(made, pa.ChunkedArray):
        raise UsageError("a batch holds no more than 2 GB of text in a column: cut it with batch.slice()")
    return made


def _spelt(value: object) -> object:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def call_spans(events: Iterable[Event]) -> list[tuple[int, int]]:
    """Where each call of an output begins and ends, in their order."""
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for event in events:
        if isinstance(event, CallStart):
            starts[event.index] = event.start
        elif isinstance(event, CallEnd):
            ends[event.index] = event.end
    return [(start, ends[index]) for index, start in starts.items()]
