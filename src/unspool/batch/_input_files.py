"""Inputs: files of rows, cut into parts, and read in a stream.

How a file is cut follows from the file and the size of a part alone, so that a
second run finds the parts of the first.  A row is named by its input and its
place there, which no cut changes: the byte where its line begins, or its number.

JSON lines are cut by bytes: a part has the lines that begin in its range.  Parquet is
cut between row groups, Arrow between batches.  A compressed file can be read
from its beginning only: a small one is a part, a large one is unpacked by whoever
cuts it, and its parts carry their lines with them.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import UsageError
from ._arrow_columns import array, decoded, dumped

Format: TypeAlias = Literal["jsonl", "parquet", "arrow"]
_COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}
_FORMATS: Final[dict[str, Format]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_ROWS: Final = 256
"""Rows that are read at once: few, since a row may be a megabyte."""
_BYTES: Final = 4 << 20
"""... and no more lines than this."""
_LONGEST_LINE: Final = 32 << 20
"""Bytes of a line that is read: a file from elsewhere may have a line that never ends."""
_BEGINNING: Final = 1000
"""Bytes of a line that is not read, which are kept."""
_SAMPLE: Final = 1000
"""Lines that tell which columns there are."""
_GLANCE: Final = 1 << 16
"""Bytes at the beginning, in the middle and at the end that tell a file from another of its size."""
OTHER: Final = "other"
"""The column for what has no column: members that the first rows have not, and lines that are no objects."""
_JSON: Final = {b"unspool": b"json"}
"""What is said of a column whose text is JSON."""


@dataclass(frozen=True, slots=True)
class Input:
    """A file, as it was when the work began."""

    path: str
    size: int
    digest: str
    """Of some of its bytes: enough to notice another file, and quick however large it is."""

    @property
    def suffixes(self) -> tuple[Format, str]:
        """What it holds, and how it is compressed."""
        path = Path(self.path)
        compression = _COMPRESSIONS.get(path.suffix, "")
        kind = _FORMATS.get(path.with_suffix("").suffix if compression else path.suffix)
        if kind is None or (compression and kind != "jsonl"):
            raise UsageError(
                f"{self.path}: what is in it? Known are .jsonl, .jsonl.gz, .jsonl.zst, .parquet and .arrow"
            )
        return kind, compression


@dataclass(frozen=True, slots=True)
class Part:
    """What is done at once, and written to one file."""

    input: int
    """Which of the inputs, ..."""
    number: int
    """... and which part of it."""
    start: int
    """The first byte, row group or batch, ..."""
    stop: int
    """... and the one behind the last."""
    weight: int
    """How much of the input this is, in bytes."""
    lines: bytes | None = field(default=None, repr=False)
    """The lines themselves, if they cannot be found again quickly."""

    @property
    def name(self) -> str:
        """What its file is called, without a suffix."""
        return f"part-{self.input:05}-{self.number:05}"


class Rows(NamedTuple):
    """Some rows, and the places where they stand."""

    batch: pa.RecordBatch
    places: Sequence[int]
    errors: Mapping[int, str] = MappingProxyType({})
    """Why a row of the batch cannot be read, by its number in the batch."""


def find_inputs(paths: Iterable[str]) -> list[Input]:
    """The files, in the order given; of a directory all files in it that are of a known kind."""
    found: list[Path] = []
    for name in paths:
        path = Path(name).absolute()  # a node of a cluster has another working directory
        if path.is_dir():
            found += sorted(one for one in path.iterdir() if _is_input(one))
        elif path.is_file():
            found.append(path)
        else:
            raise UsageError(f"{name} is no file or directory")
    if not found:
        raise UsageError(f"there is nothing to read in {', '.join(paths)}")
    inputs = [Input(os.fspath(path), path.stat().st_size, digest(path)) for path in found]
    kinds = {one.suffixes[0] for one in inputs}
    if len(kinds) > 1:
        raise UsageError(f"the inputs are {' and '.join(sorted(kinds))}: one kind at a time")
    return inputs


def _is_input(path: Path) -> bool:
    known = path.suffix in _FORMATS or (path.suffix in _COMPRESSIONS and path.stem.endswith(".jsonl"))
    return known and path.is_file() and not path.name.startswith((".", "_"))


def digest(path: Path) -> str:
    """Tells a file from another, quickly."""
    size = path.stat().st_size
    found = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        for at in (0, max(0, size // 2), max(0, size - _GLANCE)):
            file.seek(at)
            found.update(file.read(_GLANCE))
    return found.hexdigest()


# -- columns


def schema_of(inputs: Sequence[Input], types: Mapping[str, str]) -> pa.Schema:
    """The columns of the inputs.

    :param types: of JSON lines' columns that must have one, whatever is in the first lines.
    """
    if inputs[0].suffixes[0] == "jsonl":
        return _sampled(inputs[0], types)
    schemas = [_stored_schema(one) for one in inputs]
    for one, schema in zip(inputs, schemas, strict=True):
        if not schema.equals(schemas[0]):
            raise UsageError(f"{one.path} has other columns than {inputs[0].path}")
    return schemas[0].remove_metadata()


def _stored_schema(one: Input) -> pa.Schema:
    kind = one.suffixes[0]
    try:
        if kind == "parquet":
            return pq.read_schema(one.path)
        with pa.memory_map(one.path) as file:
            return _arrow(file)[0]
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(one, error) from error


def _unreadable(one: Input, error: Exception) -> UsageError:
    kind, compression = one.suffixes
    reason = str(error).partition("\n")[0]
    return UsageError(f"{one.path} cannot be read as {compression or kind}: {reason}")


def _sampled(one: Input, types: Mapping[str, str]) -> pa.Schema:
    """The columns of JSON lines, as the first of them have them."""
    kinds: dict[str, set[str]] = {}
    try:
        with _opened(one) as file:
            for line, _ in islice(iter(lambda: _next_line(file), (b"", 0)), _SAMPLE):
                row = None if _is_too_long(line) else _object(line)
                for name, value in (row or {}).items():
                    kinds.setdefault(name, set()).add(_kind(value))
    except OSError as error:
        raise _unreadable(one, error) from error
    found = {name: _common(kind - {"null"}) for name, kind in kinds.items() if name != OTHER}
    return pa.schema(
        [
            pa.field(name, _TYPES[kind], metadata=_JSON if kind == "json" else None)
            for name, kind in {**found, **types, OTHER: "json"}.items()
        ]
    )


_TYPES: Final = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "ids": pa.list_(pa.int64()),
    "json": pa.string(),
}


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case str():
            return "string"
        case bool():
            return "bool"
        case int():
            return "int" if -(1 << 63) <= value < 1 << 63 else "json"
        case float():
            return "float"
        case [*items] if items and all(type(item) is int and 0 <= item < 1 << 32 for item in items):
            return "ids"
    return "json"


def _common(kinds: set[str]) -> str:
    if kinds == {"int", "float"}:
        return "float"
    return kinds.pop() if len(kinds) == 1 else "json"


# -- cutting


def cut(number: int, one: Input, size: int) -> Iterator[Part]:
    """Yield the parts of an input, in order; each is about ``size`` bytes of its file."""
    kind, compression = one.suffixes
    if kind != "jsonl":
        return _cut_weighed(number, _weights(one, kind), size)
    return _cut_compressed(number, one, size) if compression else _cut_lines(number, one, size)


def _cut_lines(number: int, one: Input, size: int) -> Iterator[Part]:
    for part, start in enumerate(range(0, one.size, size)):
        stop = min(start + size, one.size)
        yield Part(number, part, start, stop, stop - start)


def _cut_compressed(number: int, one: Input, size: int) -> Iterator[Part]:
    if one.size <= size:
        yield Part(number, 0, 0, 0, one.size)
        return
    with Path(one.path).open("rb") as packed, _unpacked(packed, one) as file:
        part, start, begun = 0, 0, 0
        while lines := file.read(size):
            rest, length = (b"", 0) if lines.endswith(b"\n") else _next_line(file)
            stop = start + len(lines) + length
            at = packed.tell()
            yield Part(number, part, start, stop, at - begun, lines + rest)
            part, start, begun = part + 1, stop, at


def _cut_weighed(number: int, weights: Sequence[int], size: int) -> Iterator[Part]:
    part, start, weight = 0, 0, 0
    for at, one in enumerate(weights):
        weight += one
        if weight >= size or at == len(weights) - 1:
            yield Part(number, part, start, at + 1, weight)
            part, start, weight = part + 1, at + 1, 0


def _weights(one: Input, kind: Format) -> list[int]:
    """The bytes of each row group or batch."""
    if kind == "parquet":
        with pq.ParquetFile(one.path) as file:
            groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
            return [
                sum(group.column(at).total_compressed_size for at in range(group.num_columns))
                for group in groups
            ]
    with pa.memory_map(one.path) as file:
        return [batch.nbytes for batch in _arrow(file)[1]]


# -- reading


def read(one: Input, part: Part, schema: pa.Schema) -> Iterator[Rows]:
    """The rows of a part, some at a time."""
    kind = one.suffixes[0]
    if kind == "parquet":
        return _read_parquet(one, part)
    return _read_arrow(one, part) if kind == "arrow" else _read_lines(one, part, schema)


def _read_parquet(one: Input, part: Part) -> Iterator[Rows]:
    with pq.ParquetFile(one.path, buffer_size=1 << 20, pre_buffer=False) as file:
        row = sum(file.metadata.row_group(at).num_rows for at in range(part.start))
        groups = range(part.start, part.stop)
        for batch in file.iter_batches(_ROWS, row_groups=groups, use_threads=False):
            yield Rows(batch, range(row, row + batch.num_rows))
            row += batch.num_rows


def _read_arrow(one: Input, part: Part) -> Iterator[Rows]:
    row = 0
    with pa.memory_map(one.path) as file:
        for at, batch in enumerate(_arrow(file)[1]):
            if at == part.stop:
                return
            for start in range(0, batch.num_rows, _ROWS) if at >= part.start else ():
                some = batch.slice(start, _ROWS)
                yield Rows(some, range(row + start, row + start + some.num_rows))
            row += batch.num_rows


def _arrow(file: pa.MemoryMappedFile) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """What is in an Arrow file, of either kind: the one that begins with a name, or a stream."""
    if file.read(6) == b"ARROW1":
        found = pa.ipc.open_file(file)
        return found.schema, (found.get_batch(at) for at in range(found.num_record_batches))
    file.seek(0)
    stream = pa.ipc.open_stream(file)
    return stream.schema, iter(stream)


def _read_lines(one: Input, part: Part, schema: pa.Schema) -> Iterator[Rows]:
    lines: list[bytes] = []
    places: list[int] = []
    size = 0
    for place, line in _lines(one, part):
        if not line.strip():
            continue
        lines.append(line)
        places.append(place)
        size += len(line)
        if len(lines) == _ROWS or size > _BYTES:
            yield _rows(lines, places, schema)
            lines, places, size = [], [], 0
    if lines:
        yield _rows(lines, places, schema)


def _rows(lines: list[bytes], places: list[int], schema: pa.Schema) -> Rows:
    errors = {
        row: f"the line has more than {_LONGEST_LINE:,} bytes: only its beginning is kept, in {OTHER!r}"
        for row, line in enumerate(lines)
        if _is_too_long(line)
    }
    return Rows(_table(lines, schema), places, errors)


def _lines(one: Input, part: Part) -> Iterator[tuple[int, bytes]]:
    r"""Yield the lines that begin in a part, and where each begins.

    Only ``\n`` ends a line: JSON allows a carriage return between any two tokens.
    """
    stop = part.stop or math.inf
    with _opened(one) if part.lines is None else io.BytesIO(part.lines) as file:
        place = part.start
        if part.start and part.lines is None:  # the byte before tells whether a line begins here
            file.seek(part.start - 1)
            place += _skip_line(file, part.stop - part.start + 1) - 1
        while place < stop:
            line, length = _next_line(file, stop - place)
            if not line:
                return
            yield place, line
            place += length


def _next_line(file: BinaryIO, most: float = math.inf) -> tuple[bytes, int]:
    """Read the next line; return what is kept of it, and its length.

    A line that is too long is skipped, in pieces, as far as ``most`` bytes from where it begins.
    """
    line = file.readline(_LONGEST_LINE + 1)
    if not _is_too_long(line) or line.endswith(b"\n"):
        return line, len(line)
    return line, len(line) + _skip_line(file, most - len(line))


def _skip_line(file: BinaryIO, most: float) -> int:
    """Skip the rest of a line, or ``most`` bytes of it and a little more; return how many bytes it had."""
    skipped = 0
    while skipped < most and (piece := file.readline(_GLANCE)):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def _is_too_long(line: bytes) -> bool:
    return len(line) > _LONGEST_LINE


def _opened(one: Input) -> BinaryIO:
    file: BinaryIO = Path(one.path).open("rb")  # noqa: SIM115 - who asked for it closes it
    return _unpacked(file, one) if one.suffixes[1] else file


def _unpacked(file: BinaryIO, one: Input) -> Any:
    packed = pa.PythonFile(file, mode="r")
    return io.BufferedReader(pa.CompressedInputStream(packed, one.suffixes[1]), 1 << 20)


# -- JSON lines as columns


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _table(lines: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    kinds = {field.name: _declared(field) for field in schema if field.name != OTHER}
    for line in lines:
        too_long = _is_too_long(line)
        row = None if too_long else _object(line)
        rest: Any = {}
        if row is None:
            kept = line[:_BEGINNING] if too_long else line
            row, rest = {}, kept.decode("utf-8", "replace").rstrip("\r\n")
        for name, kind in kinds.items():
            value = row.pop(name, None)
            if value is not None and kind == "json":
                value = dumped(value)
            elif value is not None and not _fits(value, kind):
                rest[name] = value
                value = None
            columns[name].append(value)
        rest = {**rest, **row} if row else rest
        columns[OTHER].append(dumped(rest) if rest else None)
    return pa.RecordBatch.from_arrays(
        [array(columns[field.name], field.type) for field in schema], schema=schema
    )


def _declared(column: pa.Field) -> str:
    if is_json(column):
        return "json"
    return next(kind for kind, type_ in _TYPES.items() if type_ == column.type)


def is_json(column: pa.Field) -> bool:
    """Whether the text of a column is JSON, and stands for its value."""
    return bool(column.metadata) and column.metadata.get(b"unspool") == b"json"


def others(batch: pa.RecordBatch, errors: dict[int, str]) -> list[str | None]:
    """What had no column in the lines that a batch was made of; nothing if it was made of something else.

    :param errors: see ``decoded``.
    """
    number = batch.schema.get_field_index(OTHER)
    if number < 0 or not is_json(batch.schema.field(number)):
        return []
    return decoded(batch.column(number), OTHER, errors)


def _fits(value: Any, kind: str) -> bool:
    found = _kind(value)
    return found == kind or (kind, found) == ("float", "int") or (kind == "ids" and value == [])
