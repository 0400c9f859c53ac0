"""Reader for the rows of a table: options, input columns, parsing and result columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypedDict

import pyarrow as pa

from .._core.schema.tools import Tools, as_tools
from .._core.stages.message_columns import MessageColumns
from .._core.token_ids.tokenizer_adapters import AnyTokenizer
from ..dialects import Dialect, find
from ..errors import UsageError
from ..events import FinishReason
from ..message import Message
from ..parser import Parser, ToolList, parse
from ..policies import PolicyChoice, as_policies
from ..tokens import label_tokens
from ._arrow_columns import decode_column, parsed_arrays, parsed_schema
from .input_files import other_values

_TOOL_CACHE_SIZE = 256
"""Maximum number of tool lists in the cache; a dataset usually repeats a few tool lists."""
_SIGNED: Final[Mapping[int, Literal["b", "h", "i", "q"]]] = {1: "b", 2: "h", 4: "i", 8: "q"}
"""Mapping from the size of a signed integer in bytes to its ``memoryview`` format."""
_UNSIGNED: Final[Mapping[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
"""Mapping from the size of an unsigned integer in bytes to its ``memoryview`` format."""


@dataclass(frozen=True, slots=True)
class Column:
    """Name of a column that contains the value of an option for each row.

    >>> Column("model_dialect")
    Column(name='model_dialect')
    """

    name: str
    """The name of the column."""


class RowOptions(TypedDict, total=False):
    """Options for reading rows; an option applies to all rows unless it is a ``Column``."""

    text: str
    """The column that contains the outputs (default: ``text``)."""
    tools: ToolList | Column | None
    """The tools of the request; a column must contain tools as JSON text or as lists of structs."""
    prompt: str | Sequence[int] | Column | None
    """The end of the prompt: text, or token ids if the outputs are token ids."""
    finish_reason: FinishReason | Column | None
    """The reason why generation stopped."""
    policies: PolicyChoice | None
    """The parser's policies."""
    key: str | None
    """The column whose value identifies a row and determines the row's call ids.  By default, call ids are
    derived from the row number."""
    keep: Sequence[str] | Literal["all"]
    """Columns of the input to keep; they come before the new columns (default: none)."""


class ParseOptions(RowOptions, total=False):
    """``RowOptions``, and additional options for parsing."""

    token_ids: str
    """The column that contains the outputs as token ids; used instead of ``text``."""
    tokenizer: AnyTokenizer | None
    """The tokenizer for the token ids."""
    pad: int | None
    """The token id used as padding; negative ids are also treated as padding."""
    labels: bool
    """Add a column ``labels`` with a label for every token id."""
    prefix: str
    """A prefix for the names of the new columns, which is needed if the input already has such columns."""


Row: TypeAlias = tuple[Any, Dialect, ToolList | None, Any, FinishReason | None, Callable[[str, int], str]]
"""The input for parsing one row: text or token ids, dialect, tools, prompt, finish reason, and a function
that generates call ids."""


NO_ERRORS: Final[Mapping[int, str]] = MappingProxyType({})


class RowError(Exception):
    """Error in one row; its message becomes the row's value in the column ``error``."""


class RowReader:
    """Reader and parser for the rows of batches; its constructor checks the options."""

    def __init__(
        self,
        dialect: str | Dialect | Column,
        *,
        text: str = "text",
        token_ids: str = "",
        tokenizer: AnyTokenizer | None = None,
        tools: ToolList | Column | None = None,
        prompt: str | Sequence[int] | Column | None = None,
        finish_reason: FinishReason | Column | None = None,
        policies: PolicyChoice | None = None,
        key: str | None = None,
        pad: int | None = None,
        labels: bool = False,
        keep: Sequence[str] | Literal["all"] = (),
        prefix: str = "",
    ) -> None:
        if token_ids and tokenizer is None:
            raise UsageError("token_ids= needs a tokenizer: pass tokenizer=")
        if labels and not token_ids:
            raise UsageError("labels=True needs token ids: pass token_ids=")
        if token_ids and isinstance(prompt, str):
            raise UsageError("the outputs are token ids, so the prompt must be token ids, too")
        if not isinstance(tools, Column):
            # If all rows have the same tools, check the tools once, so that a mistake is reported only once.
            tools = None if tools is None else as_tools(tools)
        self.source = token_ids or text
        self.by_ids = bool(token_ids)
        self.tokenizer = tokenizer
        self.pad = pad
        self.dialect = dialect if isinstance(dialect, Column) else find(dialect, tokenizer)
        self.tools = tools
        self.prompt = prompt
        self.finish_reason = finish_reason
        self.policies = as_policies(policies)
        self.key = key
        self.labels = labels
        self.keep = keep
        self.schema = parsed_schema(prefix, labels=labels, spans="tokens" if token_ids else "characters")
        self._tool_cache: dict[str, Tools] = {}
        if not isinstance(dialect, Column):
            Parser(dialect, policies=policies)  # raises an error if the policies do not suit the dialect

    # -- columns

    def rows(
        self, batch: pa.RecordBatch, names: Sequence[object], errors: Mapping[int, str] = NO_ERRORS
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the values of each row, as arguments for the method ``row``.

        :param names: identifiers of the rows, which are used if there is no ``key``.
        :param errors: errors that were found when the rows were read, keyed by row number.
        """
        bad = dict(errors)
        columns = (
            self._sources(batch, bad),
            values(batch, self.dialect, bad),
            values(batch, self.tools, bad),
            values(batch, self.prompt, bad),
            values(batch, self.finish_reason, bad),
            names if self.key is None else column(batch, self.key, bad),
            other_values(batch, bad) or repeat(None),
        )
        messages = [bad.get(row) for row in range(batch.num_rows)] if bad else repeat(None)
        return zip(*columns, messages, strict=False)  # not strict=True, because `repeat` is infinite

    def row(
        self,
        source: Any,
        dialect: object,
        tools: Any,
        prompt: Any,
        reason: FinishReason | None,
        key: object,
        line: str | None,
        error: str | None,
    ) -> Row:
        """Convert the values of a row to the input for parsing.

        :raises RowError: if the row cannot be parsed.
        """
        if error is not None:
            raise RowError(error)
        if source is None:
            if line is not None and not line.startswith("{"):
                raise RowError(f"the line is not a JSON object: {json.loads(line)!r:.80}")
            raise RowError(f"the row has no output: {self.source!r} is null")
        if key is None:
            raise RowError(f"the row has no key: {self.key!r} is null")
        if not isinstance(dialect, Dialect):
            dialect = self._dialect(dialect)
        if tools is not self.tools:
            tools = self.tools_of(tools)
        return source, dialect, tools, prompt, reason, dialect.id_format.seeded(key)

    def _sources(self, batch: pa.RecordBatch, errors: dict[int, str]) -> Sequence[Any]:
        if self.by_ids:
            return _lists(_column(batch, self.source), self.source)
        return texts(batch, self.source, errors)

    def _dialect(self, value: object) -> Dialect:
        if not isinstance(value, str):
            raise RowError(f"expected the name of a dialect, got {value!r}")
        return find(value, self.tokenizer)

    def tools_of(self, value: Any) -> ToolList | None:
        """Return the tools for a row.

        :param value: the row's value in the tools column; ignored if all rows have the same tools.
        """
        if value is None or not isinstance(self.tools, Column):
            return None if isinstance(self.tools, Column) else self.tools
        if not isinstance(value, str):
            tools: ToolList = _without_nulls(value)
            return tools
        cached = self._tool_cache.get(value)
        if cached is None:
            cached = as_tools(parse_tools(value))
            if len(self._tool_cache) >= _TOOL_CACHE_SIZE:
                self._tool_cache.clear()
            self._tool_cache[value] = cached
        return cached

    # -- parsing

    def parse(
        self,
        batch: pa.RecordBatch,
        names: Sequence[object],
        timings: list[int] | None = None,
        errors: Mapping[int, str] = NO_ERRORS,
    ) -> pa.RecordBatch:
        """Parse a batch, and return the kept columns followed by the parsed columns.

        :param names: identifiers of the rows, which are used if there is no ``key``.
        :param timings: a list to which the time for each row is appended, in nanoseconds.
        :param errors: errors that were found when the rows were read, keyed by row number.
        """
        kept = kept_columns(batch, self.keep, self.schema)
        columns = MessageColumns(self.policies)
        add = partial(self._add_ids, columns) if self.by_ids else columns.read
        start = 0
        for values in self.rows(batch, names, errors):
            if timings is not None:
                start = perf_counter_ns()
            try:
                add(*self.row(*values))
            except Exception as error:  # noqa: BLE001 - an error of one row must not stop the others
                columns.add_error(error_text(error))
            if timings is not None:
                timings.append(perf_counter_ns() - start)
        return append_columns(batch, kept, self.schema, parsed_arrays(columns, labels=self.labels))

    def message(self, row: Row) -> Message:
        """Parse a row that contains text, and return the message."""
        source, dialect, tools, prompt, reason, new_id = row
        return parse(
            source,
            dialect,
            tools=tools,
            prompt=prompt,
            policies=self.policies,
            finish_reason=reason,
            new_id=new_id,
        )

    def _add_ids(
        self,
        columns: MessageColumns,
        ids: Any,
        dialect: Dialect,
        tools: ToolList | None,
        prompt: Any,
        reason: FinishReason | None,
        new_id: Callable[[str, int], str],
    ) -> None:
        """Parse a row of token ids and add the result to ``columns``."""
        assert self.tokenizer is not None  # noqa: S101 - __init__ checks it
        reading = label_tokens(
            ids,
            dialect,
            tokenizer=self.tokenizer,
            tools=tools,
            prompt_ids=prompt,
            finish_reason=reason,
            policies=self.policies,
            new_id=new_id,
            pad=self.pad,
        )
        starts = [attempt.start for attempt in reading.attempts]
        ends = [attempt.end for attempt in reading.attempts]
        columns.add(reading.message, starts, ends, reading.diagnostics, reading.labels)


def error_text(error: Exception) -> str:
    """Return the first line of an error message, for the column ``error``."""
    line = str(error).partition("\n")[0]
    return line if isinstance(error, RowError | UsageError) else f"{type(error).__name__}: {line}"


# -- columns


def column(batch: pa.RecordBatch, name: str, errors: dict[int, str]) -> list[Any]:
    """Return the values of a column.

    :param errors: see ``decode_column``.
    """
    return decode_column(_column(batch, name), name, errors)


def texts(batch: pa.RecordBatch, name: str, errors: dict[int, str]) -> list[str | None]:
    """Return the values of a text column; the parameters are the same as for ``column``."""
    data = _column(batch, name)
    kind = data.type.value_type if pa.types.is_dictionary(data.type) else data.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        if pa.types.is_null(kind):
            return [None] * len(data)
        raise UsageError(f"the column {name!r} has the type {data.type}; it must be text")
    return decode_column(data, name, errors)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    number = batch.schema.get_field_index(name)
    if number < 0:
        names = ", ".join(map(repr, batch.schema.names)) or "none"
        raise UsageError(f"the table must have exactly one column {name!r}; it has: {names}")
    return batch.column(number)


def _lists(data: pa.Array, name: str) -> list[Any]:
    """Return the token ids of each row, if possible without copying the column's memory."""
    kind = data.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (is_list or pa.types.is_fixed_size_list(kind)) or not pa.types.is_integer(kind.value_type):
        raise UsageError(f"the column {name!r} has the type {kind}; it must be lists of token ids")
    if not is_list or data.values.null_count:
        rows: list[Any] = data.to_pylist()
        return rows
    offsets = data.offsets.to_pylist()
    ids = _integers(data.values)
    return [
        ids[offsets[row] : offsets[row + 1]] if valid else None
        for row, valid in enumerate(data.is_valid().to_pylist())
    ]


def _integers(data: pa.Array) -> memoryview:
    """Return a view of an integer column that has no nulls; ``to_numpy`` would need NumPy."""
    width = data.type.bit_width // 8
    formats = _UNSIGNED if pa.types.is_unsigned_integer(data.type) else _SIGNED
    start, end = data.offset * width, (data.offset + len(data)) * width
    return memoryview(data.buffers()[1] or b"")[start:end].cast("B").cast(formats[width])


def values(batch: pa.RecordBatch, option: object, errors: dict[int, str]) -> list[Any]:
    """Return the value of an option for each row; the parameters are the same as for ``column``."""
    return column(batch, option.name, errors) if isinstance(option, Column) else [option] * batch.num_rows


def parse_tools(text: str) -> ToolList:
    """Parse tools from JSON text: a list of tools, or a request that has the field ``tools``."""
    try:
        value = json.loads(text)
        if isinstance(value, str):  # the tools are JSON text in a row of JSON
            value = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise RowError(f"the tools are not JSON: {error}") from error
    if isinstance(value, dict):
        value = value.get("tools")
    if not isinstance(value, list):
        raise RowError("the tools are neither a list nor an object with 'tools'")
    return value


def _without_nulls(value: Any) -> Any:
    """Remove null members, which Arrow adds for fields that occur only in other rows."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


# -- columns of the result


def kept_columns(
    batch: pa.RecordBatch, keep: Sequence[str] | Literal["all"], schema: pa.Schema
) -> Iterable[str]:
    """Return the names of the input columns to keep.

    :raises UsageError: if an input column to keep has the same name as a new column.
    """
    if isinstance(keep, str) and keep != "all":
        raise UsageError(f"keep={keep!r} is not valid: pass a list of columns, or 'all'")
    kept = batch.schema.names if keep == "all" else list(keep)
    twice = [name for name in kept if name in schema.names]
    if twice:
        raise UsageError(
            f"the input already has columns named {', '.join(map(repr, twice))}: "
            "omit them from keep=, or pass prefix="
        )
    return kept


def append_columns(
    batch: pa.RecordBatch, names: Iterable[str], schema: pa.Schema, arrays: Sequence[pa.Array]
) -> pa.RecordBatch:
    """Return the columns ``names`` of a batch, followed by the new columns, as a new batch."""
    old = [_column(batch, name) for name in names]
    if not old and not batch.schema.metadata:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    fields = [batch.schema.field(name) for name in names]
    metadata = {**(batch.schema.metadata or {}), **(schema.metadata or {})}
    return pa.RecordBatch.from_arrays(
        [*old, *arrays], schema=pa.schema([*fields, *schema], metadata=metadata or None)
    )
