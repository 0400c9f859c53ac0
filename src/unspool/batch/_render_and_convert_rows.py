"""Rendering of the messages in a table, and conversion of outputs to another dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, Final, Literal

import pyarrow as pa

from .._core.render.message import render_checked
from ..dialects import Dialect, find
from ..errors import UsageError
from ..message import Message, ToolCall
from ..parser import ToolList
from ._arrow_columns import RENDERED, ok_and_error, strings
from .parse_rows import (
    NO_ERRORS,
    RowError,
    RowReader,
    append_columns,
    column,
    error_text,
    kept_columns,
    texts,
    values,
)

_UNWRITABLE: Final = ("malformed_call", "truncated_call", "cut_head", "cut_marker")
"""Kinds of diagnostics about incomplete calls or markers; such an output cannot be converted."""


class RowWriter:
    """Renderer for one message per row; with ``verify``, it checks that parsing restores the message."""

    def __init__(
        self, to: str | Dialect, *, verify: bool, keep: Sequence[str] | Literal["all"], name: str = "text"
    ) -> None:
        self.to = find(to)
        self.verify = verify
        self.keep = keep
        self.schema = pa.schema([RENDERED.field(0).with_name(name), *list(RENDERED)[1:]])

    def write(
        self,
        batch: pa.RecordBatch,
        message: Callable[[int], tuple[Message, ToolList | None]],
        timings: list[int] | None = None,
    ) -> pa.RecordBatch:
        """Render the message of each row, and return the kept columns followed by the rendered columns.

        :param message: a function that returns the message and the tools for a row number.
        :param timings: a list to which the time for each row is appended, in nanoseconds.
        """
        kept = kept_columns(batch, self.keep, self.schema)
        rendered: list[str | None] = []
        errors: list[str | None] = []
        for row in range(batch.num_rows):
            text, error = None, None
            start = perf_counter_ns()
            try:
                text = self._text(*message(row))
            except Exception as caught:  # noqa: BLE001 - an error of one row must not stop the others
                error = error_text(caught)
            rendered.append(text)
            errors.append(error)
            if timings is not None:
                timings.append(perf_counter_ns() - start)
        return append_columns(batch, kept, self.schema, [strings(rendered), *ok_and_error(errors)])

    def _text(self, message: Message, tools: ToolList | None) -> str:
        text, difference = render_checked(self.to, message, prove=self.verify, tools=tools)
        if difference:
            raise RowError(f"the message changes when it is rendered in {self.to.name}: {difference}")
        return text


def convert_rows(
    reader: RowReader,
    writer: RowWriter,
    batch: pa.RecordBatch,
    names: Sequence[object],
    timings: list[int] | None = None,
    errors: Mapping[int, str] = NO_ERRORS,
) -> pa.RecordBatch:
    """Convert the outputs in a batch; for the other parameters, see ``RowReader.parse``."""
    rows = list(reader.rows(batch, names, errors))

    def message(number: int) -> tuple[Message, ToolList | None]:
        row = reader.row(*rows[number])
        tools = row[2]
        parsed = reader.message(row)
        for diagnostic in parsed.diagnostics:
            if diagnostic.kind in _UNWRITABLE:
                raise RowError(f"{diagnostic.kind.replace('_', ' ')} in the output: {diagnostic.detail}")
        return parsed, tools

    return writer.write(batch, message, timings)


def render_rows(reader: RowReader, writer: RowWriter, batch: pa.RecordBatch, prefix: str) -> pa.RecordBatch:
    """Render the messages in the columns of a parsed table.

    :param prefix: the prefix of the column names in the parsed table.
    """
    names = [prefix + name for name in ("reasoning", "content", "tool_calls")]
    existing = [name for name in names if name in batch.schema.names]
    if not existing:
        raise UsageError(
            f"there is nothing to render: the table has none of the columns {', '.join(map(repr, names))}"
        )
    empty: list[None] = [None] * batch.num_rows
    bad: dict[int, str] = {}
    reasoning, content = (texts(batch, name, bad) if name in existing else empty for name in names[:2])
    calls = column(batch, names[2], bad) if names[2] in existing else empty
    tools = values(batch, reader.tools, bad)
    errors = texts(batch, f"{prefix}error", bad) if f"{prefix}error" in batch.schema.names else empty

    def message(row: int) -> tuple[Message, ToolList | None]:
        error = bad.get(row, errors[row])
        if error is not None:
            raise RowError(error)
        tool_calls = tuple(_call(call) for call in calls[row] or ())
        return Message(content[row], reasoning[row], tool_calls), reader.tools_of(tools[row])

    return writer.write(batch, message)


def _call(call: Any) -> ToolCall:
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise RowError(f"expected a call with a name and arguments, got {call!r}")
    name, status, arguments = call["name"], call.get("status"), call.get("arguments")
    if status not in (None, "complete"):
        raise RowError(f"the call of {name!r} is {status}, so this row cannot be rendered")
    if not isinstance(arguments, str):
        raise RowError(f"the arguments of {name!r} must be JSON text, got {type(arguments).__name__}")
    return ToolCall(call.get("id") or "", name, arguments)
