"""Types and construction of the Arrow columns of a parsed table."""

from __future__ import annotations

import json
import math
from array import array as numbers
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from .._core.stages.message_columns import MessageColumns
from .._core.token_ids.labels import VERSION
from ..errors import UsageError

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
DIAGNOSTIC: Final = pa.struct(
    [
        ("kind", pa.string()),
        ("detail", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("raw", pa.string()),
    ]
)
_EMPTY: Final = {type_: pa.array([], type_) for type_ in (CALL, DIAGNOSTIC)}
PARSED: Final = pa.schema(
    [
        ("reasoning", pa.string()),
        ("content", pa.string()),
        ("tool_calls", pa.list_(CALL)),
        ("finish_reason", pa.string()),
        ("diagnostics", pa.list_(DIAGNOSTIC)),
        ("ok", pa.bool_()),
        ("error", pa.string()),
    ]
)
"""The columns that parsing adds; with ``labels=True``, there is also a column ``labels`` before ``ok``."""
RENDERED: Final = pa.schema([("text", pa.string()), ("ok", pa.bool_()), ("error", pa.string())])
"""The columns that rendering and conversion add."""


def parsed_schema(prefix: str, *, labels: bool, spans: str) -> pa.Schema:
    """Return the schema of the parsed columns.

    The schema's metadata records the unit of the spans and the version of the labels.

    :param spans: the unit of the spans, ``characters`` or ``tokens``.
    """
    fields = [field.with_name(prefix + field.name) for field in PARSED]
    if labels:
        fields.insert(-2, pa.field(f"{prefix}labels", pa.binary()))
    meaning = {"spans": spans, **({"labels": VERSION} if labels else {})}
    return pa.schema(fields, metadata={"unspool": json.dumps(meaning)})


def parsed_arrays(rows: MessageColumns, *, labels: bool) -> list[pa.Array]:
    """Build the columns of ``parsed_schema`` from parsed rows."""
    return [
        strings(rows.reasoning),
        strings(rows.content),
        _lists(CALL, rows.calls_end, rows.calls),
        strings(rows.finish_reason),
        _lists(DIAGNOSTIC, rows.diagnostics_end, rows.diagnostics),
        *([array(rows.labels, pa.binary())] if labels else []),
        *ok_and_error(rows.error),
    ]


def _lists(type_: pa.StructType, offsets: list[int], fields: Sequence[list[Any]]) -> pa.Array:
    """Build a column of lists of structs.

    :param offsets: the index of the first struct of each list, followed by the total number of structs.
    :param fields: the values of each field in all structs.
    """
    buffers = [None, _numbers(offsets, "i")]
    members = _EMPTY[type_] if not fields[0] else _structs(type_, fields)
    return pa.Array.from_buffers(pa.list_(type_), len(offsets) - 1, buffers, children=[members])


def _structs(type_: pa.StructType, fields: Sequence[list[Any]]) -> pa.Array:
    children = [
        pa.Array.from_buffers(field.type, len(values), [None, _numbers(values, "q")])
        if field.type == pa.int64()
        else array(values, field.type)
        for values, field in zip(fields, type_, strict=True)
    ]
    return pa.Array.from_buffers(type_, len(fields[0]), [None], children=children)


def _numbers(values: list[int], code: str) -> pa.Buffer:
    """Pack integers into a buffer, which is faster than ``pa.array`` because no types are checked."""
    return pa.py_buffer(numbers(code, values))


def ok_and_error(errors: Sequence[str | None]) -> list[pa.Array]:
    """Build the columns ``ok`` and ``error``."""
    return [array([error is None for error in errors], pa.bool_()), strings(errors)]


def strings(values: Sequence[str | None]) -> pa.Array:
    """Build a text column; lone surrogates, which Arrow cannot store, are replaced with escape sequences."""
    return array(values, pa.string())


def array(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    """Build a column of any type except text; for text, use ``strings``."""
    try:
        if not values or (values[0] is values[-1] and values.count(values[0]) == len(values)):
            return _repeated(values, type_)  # much faster than `pa.array`
        column = pa.array(values, type_)
    except UnicodeEncodeError:
        column = pa.array([_escaped(value) for value in values], type_)
    if isinstance(column, pa.ChunkedArray):
        raise UsageError("a column can hold at most 2 GB of text: split the batch with batch.slice()")
    return column


def _repeated(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    """Build a column that has the same value in all rows."""
    if not values or values[0] is None:
        return pa.nulls(len(values), type_)
    return pa.repeat(pa.scalar(values[0], type_), len(values))


def decode_column(column: pa.Array, name: str, errors: dict[int, str]) -> list[Any]:
    """Convert a column to Python values; a text value that is not valid UTF-8 becomes None.

    :param errors: a mapping from row numbers to error messages; this function adds the errors that it finds.
    """
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        values = []
        for row, value in enumerate(column):
            try:
                values.append(value.as_py())
            except UnicodeDecodeError as error:
                values.append(None)
                byte = error.object[error.start]
                errors[row] = f"{name!r} is not UTF-8: {error.reason} 0x{byte:02x} at byte {error.start}"
    return values


def dump_json(value: object) -> str:
    """Serialize a value as JSON; NaN and infinities, which JSON lacks, become null."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(member) for name, member in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _escaped(value: object) -> object:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
