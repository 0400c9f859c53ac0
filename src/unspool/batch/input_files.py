"""Splitting of input files into parts, and reading of their rows.

The split depends only on the file and the part size, so every run has the same parts.  A row is identified by
its input file and its position in that file (the byte offset of its line, or its row number), so its identity
does not depend on the split.

* JSON lines are split into byte ranges; a part contains the lines that start in its range.
* Parquet files are split between row groups, Arrow files between batches.
* Compressed JSON lines can only be read from the start.  A small file is one part.  A large file is
  decompressed while it is split, and each part contains the text of its lines.
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
from ._arrow_columns import array, decode_column, dump_json

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
_MAX_ROWS: Final = 256
"""Maximum number of rows per batch; small, because a row may contain a megabyte of text."""
_MAX_BATCH_BYTES: Final = 4 << 20
"""Maximum total size of the lines in a batch, in bytes."""
_MAX_LINE_BYTES: Final = 32 << 20
"""Maximum length of a line in bytes; an untrusted file could consist of a single huge line."""
_KEPT_LINE_BYTES: Final = 1000
"""Number of bytes to keep from the start of a line that exceeds the limit."""
_SAMPLE_LINES: Final = 1000
"""Number of lines that are read to determine the columns of a file."""
_DIGEST_CHUNK: Final = 1 << 16
"""Number of bytes that a file's digest covers at each of three positions: start, middle and end."""
OTHER: Final = "other"
"""Name of the column for data that fits no other column: unknown object members, and non-object lines."""
_JSON: Final = {b"unspool": b"json"}
"""Metadata that marks a text column as containing JSON."""


@dataclass(frozen=True, slots=True)
class Input:
    """An input file, with its size and digest at the start of the job."""

    path: str
    size: int
    digest: str
    """Digest of the file's start, middle and end, which is enough to detect a replaced file."""

    @property
    def suffixes(self) -> tuple[Format, str]:
        """The format and the compression of the file, according to the suffixes of its name."""
        path = Path(self.path)
        compression = _COMPRESSIONS.get(path.suffix, "")
        kind = _FORMATS.get(path.with_suffix("").suffix if compression else path.suffix)
        if kind is None or (compression and kind != "jsonl"):
            raise UsageError(
                f"{self.path} has an unknown suffix: use .jsonl, .jsonl.gz, .jsonl.zst, .parquet or .arrow"
            )
        return kind, compression


@dataclass(frozen=True, slots=True)
class Part:
    """Part of an input file; a part is processed by one worker and written to one output file."""

    input: int
    """Index of the input file."""
    number: int
    """Index of the part within the input file."""
    start: int
    """Index of the first byte, row group or batch in this part."""
    stop: int
    """Index just past the last byte, row group or batch in this part."""
    weight: int
    """Number of bytes that the part occupies in the input file."""
    lines: bytes | None = field(default=None, repr=False)
    """The text of the part's lines if the input file is large and compressed; otherwise None.

    Workers cannot seek in compressed files, so these lines are read while the file is split.
    """

    @property
    def name(self) -> str:
        """The name of the part's output file, without a suffix."""
        return f"part-{self.input:05}-{self.number:05}"


class Rows(NamedTuple):
    """A batch of rows, with the position of each row in the input file."""

    batch: pa.RecordBatch
    places: Sequence[int]
    errors: Mapping[int, str] = MappingProxyType({})
    """Errors in rows that cannot be read, keyed by row number within the batch."""


def find_inputs(paths: Iterable[str]) -> list[Input]:
    """Return the input files in order, including all files in a directory that have a known suffix."""
    found: list[Path] = []
    for name in paths:
        path = Path(name).absolute()  # workers on a cluster have different working directories
        if path.is_dir():
            found += sorted(one for one in path.iterdir() if _is_input(one))
        elif path.is_file():
            found.append(path)
        else:
            raise UsageError(f"{name} is not a file or directory")
    if not found:
        raise UsageError(f"there are no input files in {', '.join(paths)}")
    inputs = [Input(os.fspath(path), path.stat().st_size, digest(path)) for path in found]
    kinds = {one.suffixes[0] for one in inputs}
    if len(kinds) > 1:
        raise UsageError(
            f"the inputs have several formats ({' and '.join(sorted(kinds))}): use one run per format"
        )
    return inputs


def _is_input(path: Path) -> bool:
    known = path.suffix in _FORMATS or (path.suffix in _COMPRESSIONS and path.stem.endswith(".jsonl"))
    return known and path.is_file() and not path.name.startswith((".", "_"))


def digest(path: Path) -> str:
    """Return a digest of the start, the middle and the end of a file."""
    size = path.stat().st_size
    found = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        for at in (0, max(0, size // 2), max(0, size - _DIGEST_CHUNK)):
            file.seek(at)
            found.update(file.read(_DIGEST_CHUNK))
    return found.hexdigest()


# -- columns


def schema_of(inputs: Sequence[Input], types: Mapping[str, str]) -> pa.Schema:
    """Return the common schema of the input files.

    :param types: for JSON lines, the column kinds that are known in advance, keyed by column name.
    """
    if inputs[0].suffixes[0] == "jsonl":
        return _sampled_schema(inputs[0], types)
    schemas = [_stored_schema(one) for one in inputs]
    for one, schema in zip(inputs, schemas, strict=True):
        if not schema.equals(schemas[0]):
            raise UsageError(f"{one.path} does not have the same columns as {inputs[0].path}")
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


def _sampled_schema(one: Input, types: Mapping[str, str]) -> pa.Schema:
    """Derive the schema of a file with JSON lines from its first lines."""
    kinds: dict[str, set[str]] = {}
    try:
        with _open(one) as file:
            for line, _ in islice(iter(lambda: _next_line(file), (b"", 0)), _SAMPLE_LINES):
                row = None if _is_too_long(line) else _object(line)
                for name, value in (row or {}).items():
                    kinds.setdefault(name, set()).add(_kind(value))
    except OSError as error:
        raise _unreadable(one, error) from error
    columns = {name: _common_kind(kind - {"null"}) for name, kind in kinds.items() if name != OTHER}
    return pa.schema(
        [
            pa.field(name, _TYPES[kind], metadata=_JSON if kind == "json" else None)
            for name, kind in {**columns, **types, OTHER: "json"}.items()
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


def _common_kind(kinds: set[str]) -> str:
    if kinds == {"int", "float"}:
        return "float"
    return kinds.pop() if len(kinds) == 1 else "json"


# -- splitting into parts


def cut(number: int, one: Input, size: int) -> Iterator[Part]:
    """Yield the parts of an input in order; each part covers about ``size`` bytes of the file."""
    kind, compression = one.suffixes
    if kind != "jsonl":
        return _split_by_weight(number, _weights(one, kind), size)
    return _split_compressed(number, one, size) if compression else _split_lines(number, one, size)


def _split_lines(number: int, one: Input, size: int) -> Iterator[Part]:
    for part, start in enumerate(range(0, one.size, size)):
        stop = min(start + size, one.size)
        yield Part(number, part, start, stop, stop - start)


def _split_compressed(number: int, one: Input, size: int) -> Iterator[Part]:
    if one.size <= size:
        yield Part(number, 0, 0, 0, one.size)
        return
    with Path(one.path).open("rb") as packed, _decompressed(packed, one) as file:
        part, start, packed_start = 0, 0, 0
        while lines := file.read(size):
            rest, length = (b"", 0) if lines.endswith(b"\n") else _next_line(file)
            stop = start + len(lines) + length
            at = packed.tell()
            yield Part(number, part, start, stop, at - packed_start, lines + rest)
            part, start, packed_start = part + 1, stop, at


def _split_by_weight(number: int, weights: Sequence[int], size: int) -> Iterator[Part]:
    part, start, weight = 0, 0, 0
    for at, one in enumerate(weights):
        weight += one
        if weight >= size or at == len(weights) - 1:
            yield Part(number, part, start, at + 1, weight)
            part, start, weight = part + 1, at + 1, 0


def _weights(one: Input, kind: Format) -> list[int]:
    """Return the size of each row group or batch in bytes."""
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
    """Yield the rows of a part, in batches."""
    kind = one.suffixes[0]
    if kind == "parquet":
        return _read_parquet(one, part)
    return _read_arrow(one, part) if kind == "arrow" else _read_lines(one, part, schema)


def _read_parquet(one: Input, part: Part) -> Iterator[Rows]:
    with pq.ParquetFile(one.path, buffer_size=1 << 20, pre_buffer=False) as file:
        row = sum(file.metadata.row_group(at).num_rows for at in range(part.start))
        groups = range(part.start, part.stop)
        for batch in file.iter_batches(_MAX_ROWS, row_groups=groups, use_threads=False):
            yield Rows(batch, range(row, row + batch.num_rows))
            row += batch.num_rows


def _read_arrow(one: Input, part: Part) -> Iterator[Rows]:
    row = 0
    with pa.memory_map(one.path) as file:
        for at, batch in enumerate(_arrow(file)[1]):
            if at == part.stop:
                return
            for start in range(0, batch.num_rows, _MAX_ROWS) if at >= part.start else ():
                some = batch.slice(start, _MAX_ROWS)
                yield Rows(some, range(row + start, row + start + some.num_rows))
            row += batch.num_rows


def _arrow(file: pa.MemoryMappedFile) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and the batches of an Arrow file or an Arrow stream."""
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
        if len(lines) == _MAX_ROWS or size > _MAX_BATCH_BYTES:
            yield _rows(lines, places, schema)
            lines, places, size = [], [], 0
    if lines:
        yield _rows(lines, places, schema)


def _rows(lines: list[bytes], places: list[int], schema: pa.Schema) -> Rows:
    errors = {
        row: f"the line has more than {_MAX_LINE_BYTES:,} bytes; only its start is kept, in {OTHER!r}"
        for row, line in enumerate(lines)
        if _is_too_long(line)
    }
    return Rows(_table(lines, schema), places, errors)


def _lines(one: Input, part: Part) -> Iterator[tuple[int, bytes]]:
    r"""Yield the offset and the text of each line that starts in a part.

    Only ``\n`` ends a line, because JSON allows a carriage return between any two tokens.
    """
    stop = part.stop or math.inf
    with _open(one) if part.lines is None else io.BytesIO(part.lines) as file:
        place = part.start
        if part.start and part.lines is None:  # skip to the first line that starts in the part
            file.seek(part.start - 1)
            place += _skip_line(file, part.stop - part.start + 1) - 1
        while place < stop:
            line, length = _next_line(file, stop - place)
            if not line:
                return
            yield place, line
            place += length


def _next_line(file: BinaryIO, limit: float = math.inf) -> tuple[bytes, int]:
    """Read the next line; return its text and its length.

    If a line is too long, only its start is returned, and the rest is skipped in chunks.  Reading stops after
    about ``limit`` bytes.
    """
    line = file.readline(_MAX_LINE_BYTES + 1)
    if not _is_too_long(line) or line.endswith(b"\n"):
        return line, len(line)
    return line, len(line) + _skip_line(file, limit - len(line))


def _skip_line(file: BinaryIO, limit: float) -> int:
    """Skip the rest of a line, but stop after about ``limit`` bytes; return the number of skipped bytes."""
    skipped = 0
    while skipped < limit and (piece := file.readline(_DIGEST_CHUNK)):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def _is_too_long(line: bytes) -> bool:
    return len(line) > _MAX_LINE_BYTES


def _open(one: Input) -> BinaryIO:
    file: BinaryIO = Path(one.path).open("rb")  # noqa: SIM115 - the caller closes it
    return _decompressed(file, one) if one.suffixes[1] else file


def _decompressed(file: BinaryIO, one: Input) -> Any:
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
            kept = line[:_KEPT_LINE_BYTES] if too_long else line
            row, rest = {}, kept.decode("utf-8", "replace").rstrip("\r\n")
        for name, kind in kinds.items():
            value = row.pop(name, None)
            if value is not None and kind == "json":
                value = dump_json(value)
            elif value is not None and not _fits(value, kind):
                rest[name] = value
                value = None
            columns[name].append(value)
        rest = {**rest, **row} if row else rest
        columns[OTHER].append(dump_json(rest) if rest else None)
    return pa.RecordBatch.from_arrays(
        [array(columns[field.name], field.type) for field in schema], schema=schema
    )


def _declared(column: pa.Field) -> str:
    if is_json(column):
        return "json"
    return next(kind for kind, type_ in _TYPES.items() if type_ == column.type)


def is_json(column: pa.Field) -> bool:
    """Return whether a column is marked as containing JSON text."""
    return bool(column.metadata) and column.metadata.get(b"unspool") == b"json"


def other_values(batch: pa.RecordBatch, errors: dict[int, str]) -> list[str | None]:
    """Return the values of the column ``other``, or an empty list if the batch is not from JSON lines.

    :param errors: see ``decode_column``.
    """
    number = batch.schema.get_field_index(OTHER)
    if number < 0 or not is_json(batch.schema.field(number)):
        return []
    return decode_column(batch.column(number), OTHER, errors)


def _fits(value: Any, kind: str) -> bool:
    found = _kind(value)
    return found == kind or (kind, found) == ("float", "int") or (kind == "ids" and value == [])
