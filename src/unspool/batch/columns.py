"""The columns of a parsed table: their types, and how rows become them."""

from __future__ import annotations

import json
from array import array as numbers
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from .._core.ends.columns import MessageColumns
from .._core.tokens.labels import VERSION
from .._core.values.errors import UsageError

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


def parsed_arrays(rows: MessageColumns, *, labels: bool) -> list[pa.Array]:
    """The columns of ``parsed_schema``."""
    return [
        strings(rows.reasoning),
        strings(rows.content),
        _lists(CALL, rows.behind_calls, rows.calls),
        strings(rows.finish_reason),
        _lists(PROBLEM, rows.behind_problems, rows.problems),
        *([array(rows.labels, pa.binary())] if labels else []),
        *verdict(rows.error),
    ]


def _lists(type_: pa.StructType, offsets: list[int], fields: Sequence[list[object]]) -> pa.ListArray:
    """Lists of structs, from the fields of all their members and where each list ends."""
    structs = pa.array([], type_)
    if fields[0]:
        arrays = [
            _numbers(values, field.type, "q") if field.type == pa.int64() else array(values, field.type)
            for values, field in zip(fields, type_, strict=True)
        ]
        structs = pa.StructArray.from_arrays(arrays, fields=list(type_))
    return pa.ListArray.from_arrays(_numbers(offsets, pa.int32(), "i"), structs)


def _numbers(values: list[Any], type_: pa.DataType, code: str) -> pa.Array:
    """Whole numbers of a type that ``array`` has under this code; ``pa.array`` would look what each is."""
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(numbers(code, values))])


def verdict(errors: Sequence[str | None]) -> list[pa.Array]:
    """The columns ``ok`` and ``error``."""
    return [array([error is None for error in errors], pa.bool_()), strings(errors)]


def strings(values: Sequence[str | None]) -> pa.Array:
    """A column of text.  Half a surrogate pair, which JSON can spell and Arrow cannot hold, is spelt out."""
    return array(values, pa.string())


def array(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    """A column; see ``strings``."""
    try:
        if values and values[0] is values[-1] and values.count(values[0]) == len(values):
            made = pa.repeat(pa.scalar(values[0], type_), len(values))  # the same in all rows, as many are
        else:
            made = pa.array(values, type_)
    except UnicodeEncodeError:
        made = pa.array([_spelt(value) for value in values], type_)
    if isinstance(made, pa.ChunkedArray):
        raise UsageError("a batch holds no more than 2 GB of text in a column: cut it with batch.slice()")
    return made


def _spelt(value: object) -> object:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
