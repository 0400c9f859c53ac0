"""The columns of a parsed table: their types, and how rows become them."""

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
_NONE: Final = {type_: pa.array([], type_) for type_ in (CALL, DIAGNOSTIC)}
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
        _lists(DIAGNOSTIC, rows.diagnostics_end, rows.diagnostics),
        *([array(rows.labels, pa.binary())] if labels else []),
        *verdict(rows.error),
    ]


def _lists(type_: pa.StructType, offsets: list[int], fields: Sequence[list[Any]]) -> pa.Array:
    """Lists of structs, from the fields of all their members and where each list ends."""
    there = [None, _numbers(offsets, "i")]
    members = _NONE[type_] if not fields[0] else _structs(type_, fields)
    return pa.Array.from_buffers(pa.list_(type_), len(offsets) - 1, there, children=[members])


def _structs(type_: pa.StructType, fields: Sequence[list[Any]]) -> pa.Array:
    children = [
        pa.Array.from_buffers(field.type, len(values), [None, _numbers(values, "q")])
        if field.type == pa.int64()
        else array(values, field.type)
        for values, field in zip(fields, type_, strict=True)
    ]
    return pa.Array.from_buffers(type_, len(fields[0]), [None], children=children)


def _numbers(values: list[int], code: str) -> pa.Buffer:
    """Whole numbers as they lie in memory; ``pa.array`` would look at each for what it is."""
    return pa.py_buffer(numbers(code, values))


def verdict(errors: Sequence[str | None]) -> list[pa.Array]:
    """The columns ``ok`` and ``error``."""
    return [array([error is None for error in errors], pa.bool_()), strings(errors)]


def strings(values: Sequence[str | None]) -> pa.Array:
    """A column of text.  Half a surrogate pair, which JSON can spell and Arrow cannot hold, is spelt out."""
    return array(values, pa.string())


def array(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    """A column; see ``strings``."""
    try:
        if not values or (values[0] is values[-1] and values.count(values[0]) == len(values)):
            return _alike(values, type_)  # the same in all rows, as many are
        made = pa.array(values, type_)
    except UnicodeEncodeError:
        made = pa.array([_spelt(value) for value in values], type_)
    if isinstance(made, pa.ChunkedArray):
        raise UsageError("a batch holds no more than 2 GB of text in a column: cut it with batch.slice()")
    return made


def _alike(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    """A column of one value, over and over."""
    if not values or values[0] is None:
        return pa.nulls(len(values), type_)
    return pa.repeat(pa.scalar(values[0], type_), len(values))


def decoded(found: pa.Array, name: str, errors: dict[int, str]) -> list[Any]:
    """The values of a column; null where there is text that is not UTF-8, which nothing checks in a file.

    :param errors: takes, by the number of the row, what is wrong with it.
    """
    try:
        values: list[Any] = found.to_pylist()
    except UnicodeDecodeError:
        values = []
        for row, value in enumerate(found):
            try:
                values.append(value.as_py())
            except UnicodeDecodeError as error:
                values.append(None)
                byte = error.object[error.start]
                errors[row] = f"{name!r} is not UTF-8: {error.reason} 0x{byte:02x} at byte {error.start}"
    return values


def dumped(value: object) -> str:
    """The value as JSON, which has neither NaN nor infinities: null stands for them."""
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


def _spelt(value: object) -> object:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
