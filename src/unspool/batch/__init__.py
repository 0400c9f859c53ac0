"""Batches: tables of outputs, parsed, rendered and converted, a row at a time.

A row never raises: what is wrong with it is in its columns ``ok`` and ``error``,
what is odd about its output in ``diagnostics``.  Mistakes that concern all rows, such
as a column that is not there, raise ``UsageError``.

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

from ..dialects._declaration import Dialect
from ..parser import ToolList
from ._arrow_columns import PARSED
from ._convert import Writer, converted, rendered
from ._row_reader import Column, ParseOptions, RowOptions, RowReader

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
    """Take every output of a batch apart; the result has a row for each, with the columns of ``PARSED``.

    :param batch: a record batch, or a table, of which a table is made.
    :param dialect: for all rows, or a ``Column``.
    :param first_row: the number of the first row, from which ids follow where no ``key`` is given.
    :param options: see ``ParseOptions``.
    """
    reader = RowReader(dialect, **options)
    return _each(batch, reader.parse, first_row)


def parse_batches(
    batches: Iterable[pa.RecordBatch], dialect: str | Dialect | Column, **options: Unpack[ParseOptions]
) -> Iterator[pa.RecordBatch]:
    """The same for a stream of batches, one at a time; rows are numbered through.

    Whatever gives record batches will do: a ``RecordBatchReader``, ``ParquetFile.iter_batches``,
    the iterator that Spark's ``mapInArrow`` passes.
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
    """The text that a model would have written for every message of a parsed table.

    The result has the columns ``text``, ``ok`` and ``error``.

    :param batch: with the columns ``reasoning``, ``content`` and ``tool_calls``, or some of them.
    :param tools: those that the text will be read with; without, such as fit each message.
    :param verify: read each text again, and give none but those that are the message.
    :param keep: columns of the input that go into the result, in front.
    :param prefix: what the names of the message's columns begin with.
    """
    writer = Writer(dialect, verify=verify, keep=keep)
    reader = RowReader(dialect, tools=tools)
    return _each(batch, lambda one, _: rendered(reader, writer, one, prefix))


def convert_batch(
    batch: pa.RecordBatch,
    dialect: str | Dialect | Column,
    to: str | Dialect,
    *,
    verify: bool = True,
    first_row: int = 0,
    **options: Unpack[RowOptions],
) -> pa.RecordBatch:
    """Outputs of one dialect, as another would write them.

    The result has the columns ``converted``, ``ok`` and ``error``.  With ``verify`` each text is
    read again, with the row's tools; where that is not the same message, the row has no
    text, and its error says what differs.  A row whose calls are malformed or cut has none, either.
    """
    reader = RowReader(dialect, **options)
    writer = Writer(to, verify=verify, keep=options.get("keep", ()), name="converted")
    return _each(batch, lambda one, rows: converted(reader, writer, one, rows), first_row)


def _each(batch: Any, work: Callable[[pa.RecordBatch, range], pa.RecordBatch], row: int = 0) -> Any:
    """A batch of a batch, a table of a table; the work is told which rows they are."""
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
