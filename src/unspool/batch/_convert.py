"""Tables of messages as text again: in their own dialect, or in another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, Final, Literal

import pyarrow as pa

from .._core.render.message import written
from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ..errors import UsageError
from ..message import Message, ToolCall
from ..parser import ToolList
from ._arrow_columns import WRITTEN, strings, verdict
from ._row_reader import (
    NO_ERRORS,
    RowError,
    RowReader,
    beside,
    column,
    described,
    kept_columns,
    texts,
    values,
)

_UNWRITABLE: Final = ("malformed_call", "truncated_call", "cut_head", "cut_marker")
"""Of an output with these nobody knows what the model would have written elsewhere."""


class Writer:
    """Writes messages, and proves that each reads back."""

    def __init__(
        self, to: str | Dialect, *, verify: bool, keep: Sequence[str] | Literal["all"], name: str = "text"
    ) -> None:
        self.to = find(to)
        self.verify = verify
        self.keep = keep
        self.schema = pa.schema([WRITTEN.field(0).with_name(name), *list(WRITTEN)[1:]])

    def write(
        self,
        batch: pa.RecordBatch,
        message: Callable[[int], tuple[Message, ToolList | None]],
        timings: list[int] | None = None,
    ) -> pa.RecordBatch:
        """What the message of each row is in the dialect, behind the columns that are kept."""
        kept = kept_columns(batch, self.keep, self.schema)
        found: list[str | None] = []
        errors: list[str | None] = []
        for row in range(batch.num_rows):
            text, error = None, None
            begun = perf_counter_ns()
            try:
                text = self._text(*message(row))
            except Exception as caught:  # noqa: BLE001 - whatever it is, the other rows are worth having
                error = described(caught)
            found.append(text)
            errors.append(error)
            if timings is not None:
                timings.append(perf_counter_ns() - begun)
        return beside(batch, kept, self.schema, [strings(found), *verdict(errors)])

    def _text(self, message: Message, tools: ToolList | None) -> str:
        text, wrong = written(self.to, message, prove=self.verify, tools=tools)
        if wrong:
            raise RowError(f"{self.to.name} cannot write this so that it reads back: {wrong}")
        return text


def converted(
    reader: RowReader,
    writer: Writer,
    batch: pa.RecordBatch,
    names: Sequence[object],
    timings: list[int] | None = None,
    errors: Mapping[int, str] = NO_ERRORS,
) -> pa.RecordBatch:
    """Outputs of one dialect, in another; the arguments are those of ``RowReader.parse``."""
    rows = list(reader.rows(batch, names, errors))

    def message(number: int) -> tuple[Message, ToolList | None]:
        known = reader.row(*rows[number])
        tools = known[2]
        read = reader.message(known)
        for diagnostic in read.diagnostics:
            if diagnostic.kind in _UNWRITABLE:
                raise RowError(f"{diagnostic.kind.replace('_', ' ')} in the output: {diagnostic.detail}")
        return read, tools

    return writer.write(batch, message, timings)


def rendered(reader: RowReader, writer: Writer, batch: pa.RecordBatch, prefix: str) -> pa.RecordBatch:
    """Messages in the columns of a parsed table, as text."""
    names = [prefix + name for name in ("reasoning", "content", "tool_calls")]
    there = [name for name in names if name in batch.schema.names]
    if not there:
        raise UsageError(f"there is nothing to render: no column is called {', '.join(map(repr, names))}")
    empty: list[None] = [None] * batch.num_rows
    wrong: dict[int, str] = {}
    reasoning, content = (texts(batch, name, wrong) if name in there else empty for name in names[:2])
    calls = column(batch, names[2], wrong) if names[2] in there else empty
    tools = values(batch, reader.tools, wrong)
    errors = texts(batch, f"{prefix}error", wrong) if f"{prefix}error" in batch.schema.names else empty

    def message(row: int) -> tuple[Message, ToolList | None]:
        error = wrong.get(row, errors[row])
        if error is not None:
            raise RowError(error)
        made = tuple(_call(call) for call in calls[row] or ())
        return Message(reasoning[row], content[row], made), reader.tools_of(tools[row])

    return writer.write(batch, message)


def _call(call: Any) -> ToolCall:
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise RowError(f"a call has a name and arguments, got {call!r}")
    name, status, arguments = call["name"], call.get("status"), call.get("arguments")
    if status not in (None, "complete"):
        raise RowError(f"the call of {name!r} is {status}: there is no message to write")
    if not isinstance(arguments, str):
        raise RowError(f"the arguments of {name!r} are JSON text, got {type(arguments).__name__}")
    return ToolCall(call.get("id") or "", name, arguments)
