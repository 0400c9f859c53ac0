"""Parsing, rendering and conversion of model outputs in tables.

A row that cannot be processed does not raise an exception: its ``ok`` is false, its ``error`` contains the
message, and its ``diagnostics`` contains the parser's diagnostics.  A mistake that affects all rows, such as
a missing column, raises ``UsageError``.

>>> import pyarrow
>>> text = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
>>> parsed = parse_batch(pyarrow.record_batch({"text": [text, None]}), "hermes")
>>> parsed["tool_calls"][0][0]["name"], parsed["ok"].to_pylist()
(<pyarrow.StringScalar: 'now'>, [True, False])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Unpack

import pyarrow as pa

from ..dialects import Dialect
from ..parser import ToolList
from ._arrow_columns import PARSED
from ._render_and_convert_rows import RowWriter, convert_rows, render_rows
from .parse_rows import Column, ParseOptions, RowOptions, RowReader

__all__ = [
    "PARSED",
    "Column",
    "ParseOptions",
    "RowOptions",
    "convert_batch",
    "parse_batch",
    "parse_batches",
    "render_batch",
]


def parse_batch(
    batch: pa.RecordBatch,
    dialect: str | Dialect | Column,
    *,
    first_row: int = 0,
    **options: Unpack[ParseOptions],
) -> pa.RecordBatch:
    """Parse every output in a batch; return a batch with one row per output and the ``PARSED`` columns.

    :param batch: a record batch or a table; the result has the same type.
    :param dialect: the dialect of all rows, or a ``Column`` that contains the dialect of each row.
    :param first_row: the number of the first row of this batch.  Call ids are derived from row numbers unless
        ``key`` is given.
    :param options: see ``ParseOptions``.
    """
    reader = RowReader(dialect, **options)
    return _apply(batch, reader.parse, first_row)


def parse_batches(
    batches: Iterable[pa.RecordBatch], dialect: str | Dialect | Column, **options: Unpack[ParseOptions]
) -> Iterator[pa.RecordBatch]:
    """Parse a stream of batches, and yield a parsed batch for each; row numbers continue across batches.

    :param batches: any iterable of record batches: a ``RecordBatchReader``, ``ParquetFile.iter_batches`` or
        the iterator of Spark's ``mapInArrow``.
    """
    return _numbered(batches, RowReader(dialect, **options).parse)


def render_batch(
    batch: pa.RecordBatch,
    dialect: str | Dialect,
    *,
    tools: ToolList | Column | None = None,
    verify: bool = True,
    keep: Sequence[str] | Literal["all"] = (),
    prefix: str = "",
) -> pa.RecordBatch:
    """Render every message in a parsed table as the text that a model of this dialect would write.

    The result has the columns ``text``, ``ok`` and ``error``.

    :param batch: a table with the columns ``reasoning``, ``content`` and ``tool_calls``, or some of them.
    :param tools: the tools to use when ``verify`` parses a rendered text; by default, they are derived from
        the calls in each message.
    :param verify: parse each rendered text again; if the result differs from the message, the row has an
        error.
    :param keep: columns of the input to keep; they come before the new columns.
    :param prefix: the prefix of the column names in the parsed table.
    """
    writer = RowWriter(dialect, verify=verify, keep=keep)
    reader = RowReader(dialect, tools=tools)
    return _apply(batch, lambda each, _: render_rows(reader, writer, each, prefix))


def convert_batch(
    batch: pa.RecordBatch,
    dialect: str | Dialect | Column,
    to: str | Dialect,
    *,
    verify: bool = True,
    first_row: int = 0,
    **options: Unpack[RowOptions],
) -> pa.RecordBatch:
    """Convert outputs from one dialect to another.

    The result has the columns ``converted``, ``ok`` and ``error``.  With ``verify``, each converted text is
    parsed again with the row's tools.  If the result differs from the original message, the row has an error
    instead of a converted text.  Malformed or truncated calls are errors, too.
    """
    reader = RowReader(dialect, **options)
    writer = RowWriter(to, verify=verify, keep=options.get("keep", ()), name="converted")
    return _apply(batch, lambda each, rows: convert_rows(reader, writer, each, rows), first_row)


def _apply(batch: Any, work: Callable[[pa.RecordBatch, range], pa.RecordBatch], row: int = 0) -> Any:
    """Call ``work`` with a batch, or with each batch of a table, and with the numbers of the rows."""
    if not isinstance(batch, pa.Table):
        return work(batch, range(row, row + batch.num_rows))
    batches = batch.to_batches() or [pa.RecordBatch.from_pylist([], schema=batch.schema)]
    return pa.Table.from_batches(_numbered(batches, work, row))


def _numbered(
    batches: Iterable[pa.RecordBatch], work: Callable[[pa.RecordBatch, range], pa.RecordBatch], row: int = 0
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield work(batch, range(row, row + batch.num_rows))
        row += batch.num_rows
