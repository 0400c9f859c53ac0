"""Rows: what of a table is read how, and one reading of each."""

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
from .._core.token_ids.tokenizers import AnyTokenizer
from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ..errors import UsageError
from ..events import FinishReason
from ..message import Message
from ..parser import Parser, ToolList, parse
from ..policies import Policies
from ..tokens import label_tokens
from ._arrow_columns import decoded, parsed_arrays, parsed_schema
from ._input_files import others

_REMEMBERED = 256
"""Lists of tools that are read once: a dataset has a few, and they come again and again."""


@dataclass(frozen=True, slots=True)
class Column:
    """Says that an option is to be taken from a column, row by row.

    >>> Column("model_dialect")
    Column(name='model_dialect')
    """

    name: str
    """The column's name."""


class RowOptions(TypedDict, total=False):
    """How the rows of a table are to be read; what is no ``Column`` counts for all of them."""

    text: str
    """The column that holds the outputs (default: ``text``)."""
    tools: ToolList | Column | None
    """The tools of the request; in a column as JSON text, or as a list of structs."""
    prompt: str | Sequence[int] | Column | None
    """The end of the prompt; ids where the outputs are ids."""
    finish_reason: FinishReason | Column | None
    """Why generation stopped."""
    policies: Policies | None
    """Choices where users disagree."""
    key: str | None
    """The column whose value names a row: ids of calls follow from it, and from nothing else.
    Without, the number of the row does."""
    keep: Sequence[str] | Literal["all"]
    """Columns of the input that go into the result, in front (default: none)."""


class ParseOptions(RowOptions, total=False):
    """``RowOptions``, with those that only parsing has."""

    token_ids: str
    """The column that holds the outputs as token ids, instead of ``text``."""
    tokenizer: AnyTokenizer | None
    """Whose ids they are."""
    pad: int | None
    """The id that sequences are filled up with; those below 0 are taken for that, too."""
    labels: bool
    """Whether to say of every id what it is, in a column ``labels``."""
    prefix: str
    """What the names of the new columns begin with, where the input has such names already."""


Row: TypeAlias = tuple[Any, Dialect, ToolList | None, Any, FinishReason | None, Callable[[str, int], str]]
"""What is known about a row before it is read: its text or ids, dialect, tools, prompt, why it ended, and
what gives calls their ids."""


NO_ERRORS: Final[Mapping[int, str]] = MappingProxyType({})


class RowError(Exception):
    """What is wrong with a row; it becomes the row's error."""


class RowReader:
    """The options, checked once, and what reads rows by them."""

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
        policies: Policies | None = None,
        key: str | None = None,
        pad: int | None = None,
        labels: bool = False,
        keep: Sequence[str] | Literal["all"] = (),
        prefix: str = "",
    ) -> None:
        if token_ids and tokenizer is None:
            raise UsageError("token_ids= needs the tokenizer whose ids they are: tokenizer=")
        if labels and not token_ids:
            raise UsageError("labels=True needs ids to label: token_ids=")
        if token_ids and isinstance(prompt, str):
            raise UsageError("where outputs are token ids, the prompt is ids, too")
        if not isinstance(tools, Column):
            # A mistake in what counts for all rows is the caller's, and said at once.
            tools = None if tools is None else as_tools(tools)
        self.source = token_ids or text
        self.by_ids = bool(token_ids)
        self.tokenizer = tokenizer
        self.pad = pad
        self.dialect = dialect if isinstance(dialect, Column) else find(dialect, tokenizer)
        self.tools = tools
        self.prompt = prompt
        self.finish_reason = finish_reason
        self.policies = policies
        self.key = key
        self.labels = labels
        self.keep = keep
        self.schema = parsed_schema(prefix, labels=labels, spans="tokens" if token_ids else "characters")
        self._known_tools: dict[str, Tools] = {}
        if not isinstance(dialect, Column):
            Parser(dialect, policies=policies)  # a mistake here, too

    # -- columns

    def rows(
        self, batch: pa.RecordBatch, names: Sequence[object], errors: Mapping[int, str] = NO_ERRORS
    ) -> Iterator[tuple[Any, ...]]:
        """What the columns say of each row, for ``row``.

        :param names: of the rows, if no column has them.
        :param errors: what is wrong with rows already, by their numbers.
        """
        wrong = dict(errors)
        columns = (
            self._sources(batch, wrong),
            values(batch, self.dialect, wrong),
            values(batch, self.tools, wrong),
            values(batch, self.prompt, wrong),
            values(batch, self.finish_reason, wrong),
            names if self.key is None else column(batch, self.key, wrong),
            others(batch, wrong) or repeat(None),
        )
        said = [wrong.get(row) for row in range(batch.num_rows)] if wrong else repeat(None)
        return zip(*columns, said, strict=False)  # one that repeats has no end

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
        """What is known about a row; raises what is wrong with it."""
        if error is not None:
            raise RowError(error)
        if source is None:
            if line is not None and not line.startswith("{"):
                raise RowError(f"the line is no JSON object: {json.loads(line)!r:.80}")
            raise RowError(f"there is no output: {self.source!r} is null")
        if key is None:
            raise RowError(f"the row has no name: {self.key!r} is null")
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
            raise RowError(f"a dialect is a name, got {value!r}")
        return find(value, self.tokenizer)

    def tools_of(self, value: Any) -> ToolList | None:
        """The tools of a row, from what its column holds or what counts for all."""
        if value is None or not isinstance(self.tools, Column):
            return None if isinstance(self.tools, Column) else self.tools
        if not isinstance(value, str):
            found: ToolList = _without_nulls(value)
            return found
        known = self._known_tools.get(value)
        if known is None:
            known = as_tools(tools_in(value))
            if len(self._known_tools) >= _REMEMBERED:
                self._known_tools.clear()
            self._known_tools[value] = known
        return known

    # -- reading

    def parse(
        self,
        batch: pa.RecordBatch,
        names: Sequence[object],
        timings: list[int] | None = None,
        errors: Mapping[int, str] = NO_ERRORS,
    ) -> pa.RecordBatch:
        """The parsed columns of a batch, behind those that are kept.

        :param names: as above, and ``errors``.
        :param timings: takes the nanoseconds of each row.
        """
        kept = kept_columns(batch, self.keep, self.schema)
        columns = MessageColumns(self.policies)
        read = partial(self._read_ids, columns) if self.by_ids else columns.read
        begun = 0
        for known in self.rows(batch, names, errors):
            if timings is not None:
                begun = perf_counter_ns()
            try:
                read(*self.row(*known))
            except Exception as error:  # noqa: BLE001 - whatever it is, the other rows are worth having
                columns.add_error(described(error))
            if timings is not None:
                timings.append(perf_counter_ns() - begun)
        return beside(batch, kept, self.schema, parsed_arrays(columns, labels=self.labels))

    def message(self, row: Row) -> Message:
        """What a text amounts to."""
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

    def _read_ids(
        self,
        columns: MessageColumns,
        ids: Any,
        dialect: Dialect,
        tools: ToolList | None,
        prompt: Any,
        reason: FinishReason | None,
        new_id: Callable[[str, int], str],
    ) -> None:
        """A row, as ``MessageColumns.read`` has it for text."""
        assert self.tokenizer is not None  # noqa: S101 - asked for in the beginning
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


def described(error: Exception) -> str:
    """What the column ``error`` says: the first line, which says what and where."""
    said = str(error).partition("\n")[0]
    return said if isinstance(error, RowError | UsageError) else f"{type(error).__name__}: {said}"


# -- columns


def column(batch: pa.RecordBatch, name: str, errors: dict[int, str]) -> list[Any]:
    """The values of a column.

    :param errors: see ``decoded``.
    """
    return decoded(_column(batch, name), name, errors)


def texts(batch: pa.RecordBatch, name: str, errors: dict[int, str]) -> list[str | None]:
    """The values of a column of text; see ``column``."""
    found = _column(batch, name)
    kind = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        if pa.types.is_null(kind):
            return [None] * len(found)
        raise UsageError(f"the column {name!r} holds {found.type}, not text")
    return decoded(found, name, errors)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    number = batch.schema.get_field_index(name)
    if number < 0:
        there = ", ".join(map(repr, batch.schema.names)) or "none"
        raise UsageError(f"there is no column {name!r}, or more than one; there are: {there}")
    return batch.column(number)


def _lists(found: pa.Array, name: str) -> list[Any]:
    """The members of a column of lists of numbers; as arrays that share its memory, where that can be."""
    kind = found.type
    a_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (a_list or pa.types.is_fixed_size_list(kind)) or not pa.types.is_integer(kind.value_type):
        raise UsageError(f"the column {name!r} holds {kind}, not lists of token ids")
    if not a_list or found.values.null_count:
        rows: list[Any] = found.to_pylist()
        return rows
    offsets, ids = found.offsets.to_numpy(), found.values.to_numpy()
    return [
        ids[offsets[row] : offsets[row + 1]] if valid else None
        for row, valid in enumerate(found.is_valid().to_pylist())
    ]


def values(batch: pa.RecordBatch, option: object, errors: dict[int, str]) -> list[Any]:
    """The values of an option, row by row; see ``column``."""
    return column(batch, option.name, errors) if isinstance(option, Column) else [option] * batch.num_rows


def tools_in(text: str) -> ToolList:
    """Tools as JSON text: the list, or the request that has it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowError(f"the tools are not JSON: {error}") from error
    if isinstance(value, dict):
        value = value.get("tools")
    if not isinstance(value, list):
        raise RowError("the tools are neither a list nor an object with 'tools'")
    return value


def _without_nulls(value: Any) -> Any:
    """A struct has every field that any row has; what this row has not is null."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


# -- what goes in and out


def kept_columns(
    batch: pa.RecordBatch, keep: Sequence[str] | Literal["all"], schema: pa.Schema
) -> Iterable[str]:
    """The columns to keep, none of which may have the name of a new one."""
    if isinstance(keep, str) and keep != "all":
        raise UsageError(f"keep={keep!r}: give a list of columns, or 'all'")
    kept = batch.schema.names if keep == "all" else list(keep)
    twice = [name for name in kept if name in schema.names]
    if twice:
        raise UsageError(
            f"{', '.join(map(repr, twice))} would be there twice: keep others, or give the new ones a prefix"
        )
    return kept


def beside(
    batch: pa.RecordBatch, kept: Iterable[str], schema: pa.Schema, arrays: Sequence[pa.Array]
) -> pa.RecordBatch:
    """New columns behind those that are kept."""
    old = [_column(batch, name) for name in kept]
    if not old and not batch.schema.metadata:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    fields = [batch.schema.field(name) for name in kept]
    metadata = {**(batch.schema.metadata or {}), **(schema.metadata or {})}
    return pa.RecordBatch.from_arrays(
        [*old, *arrays], schema=pa.schema([*fields, *schema], metadata=metadata or None)
    )
