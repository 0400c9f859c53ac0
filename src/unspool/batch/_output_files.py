"""Writing of output files.  A file receives its final name only when it is complete."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ._arrow_columns import dump_json
from .input_files import OTHER, is_json

FORMATS: Final = ("parquet", "arrow", "jsonl", "jsonl.gz", "jsonl.zst")
_ROW_GROUP_BYTES: Final = 16 << 20
"""Minimum size of a row group in bytes: a compromise between memory use and read speed."""
TEMPORARY: Final = ".tmp"


class _Writer(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path for writing; after the block, sync the file and rename it to ``path``."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_json(path: Path, value: object) -> None:
    """Write a small JSON file atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def regular_file(path: Path, *, writable: bool = False) -> Iterator[BinaryIO]:
    """Open a regular file; raise ``OSError`` for links, pipes and other special files.

    The output directory of an interrupted run may be untrusted.  A link could point to any other file, and
    opening a pipe could block forever.

    :param writable: whether to open the file for writing, and to create it if it does not exist; existing
        content is kept.
    """
    flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    with os.fdopen(os.open(path, flags, 0o666), "rb+" if writable else "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield file


def read_json(path: Path) -> Any:
    """Read a small JSON file and return its value."""
    with regular_file(path) as file:
        try:
            return json.loads(file.read())
        except RecursionError as error:
            raise ValueError("the JSON is nested too deeply") from error


def digest_of(path: Path, record: object) -> str:
    """Return one digest of both an output file and its record (the part's statistics)."""
    found = hashlib.blake2b(json.dumps(record, sort_keys=True).encode(), digest_size=16)
    with regular_file(path) as file:
        while chunk := file.read(1 << 20):
            found.update(chunk)
    return found.hexdigest()


@contextmanager
def part_file(path: Path, schema: pa.Schema, kind: str) -> Iterator[_Writer]:
    """Yield a writer for the output file of a part."""
    with atomic_file(path) as temporary:
        writer = _open(temporary, schema, kind)
        try:
            yield writer
        finally:
            writer.close()


def _open(path: Path, schema: pa.Schema, kind: str) -> _Writer:
    if kind == "parquet":
        return _ParquetFile(path, schema)
    if kind == "arrow":
        return _ArrowFile(path, schema)
    return _JsonLinesFile(path, kind)


class _ParquetFile:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.schema = schema
        self.file = pq.ParquetWriter(path, schema, compression="zstd")
        self.pending: list[pa.RecordBatch] = []
        self.size = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.pending.append(batch)
        self.size += batch.nbytes
        if self.size >= _ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self.pending:
            self.file.write_table(pa.Table.from_batches(self.pending, schema=self.schema))
            self.pending, self.size = [], 0

    def close(self) -> None:
        self.flush()
        self.file.close()


class _ArrowFile:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.sink = pa.OSFile(str(path), "wb")
        self.file = pa.ipc.new_file(self.sink, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self.file.write_batch(batch)

    def close(self) -> None:
        self.file.close()
        self.sink.close()


class _JsonLinesFile:
    """Writer for JSON lines, one object per row.

    If a column contains JSON text, the value is written, not a string that contains JSON.  The members of
    the object in the column ``other`` are added to the row's object.
    """

    def __init__(self, path: Path, kind: str) -> None:
        compression = {"jsonl.gz": "gzip", "jsonl.zst": "zstd"}.get(kind)
        self.file = pa.output_stream(str(path), compression=compression)

    def write(self, batch: pa.RecordBatch) -> None:
        raw = {column.name for column in batch.schema if is_json(column)}
        try:
            rows = batch.to_pylist()
        except UnicodeDecodeError:
            columns = ([_lenient(value) for value in column] for column in batch.columns)
            rows = [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]
        lines = "".join(f"{{{', '.join(_members(row, raw))}}}\n" for row in rows)
        self.file.write(lines.encode("utf-8", "backslashreplace"))  # lone surrogates become JSON escapes

    def close(self) -> None:
        self.file.close()


def _members(row: dict[str, Any], raw: set[str]) -> Iterator[str]:
    rest = _parsed_or_text(row.pop(OTHER) or "{}") if OTHER in raw else {}
    if not isinstance(rest, dict):  # the input line was not an object
        rest = {OTHER: rest}
    for name, value in row.items():
        if name in rest:  # skip the column: it is null, and `other` contains the value
            continue
        if name in raw and value is not None:
            value = _parsed_or_text(value)  # noqa: PLW2901 - the JSON of the input
        yield f"{dump_json(name)}: {dump_json(list(value) if isinstance(value, bytes) else value)}"
    yield from (f"{dump_json(name)}: {dump_json(value)}" for name, value in rest.items())


def _parsed_or_text(text: str) -> Any:
    """Parse JSON text; if it is invalid, as may happen in an untrusted table, return the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _lenient(value: pa.Scalar) -> Any:
    """Convert an Arrow value to Python, with replacement characters for invalid UTF-8."""
    if not value.is_valid:
        return None
    if isinstance(value, pa.StructScalar):
        return {name: _lenient(member) for name, member in value.items()}
    if isinstance(value, pa.DictionaryScalar):
        return _lenient(value.value)
    if isinstance(value, pa.ListScalar):  # also true for subclasses, such as large lists
        return [_lenient(item) for item in value.values]
    if isinstance(value, pa.StringScalar):
        return value.as_buffer().to_pybytes().decode("utf-8", "replace")
    return value.as_py()
