"""Outputs: the file of a part, written in a stream, under its name only when it is whole."""

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

from ._arrow_columns import dumped
from ._input_files import OTHER, is_json

FORMATS: Final = ("parquet", "arrow", "jsonl", "jsonl.gz", "jsonl.zst")
_GROUP: Final = 16 << 20
"""Bytes of a row group: few enough to hold, enough to read well."""
TEMPORARY: Final = ".tmp"


class _Writer(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name to write to; what is on the disk, all of it, has its own name afterwards."""
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
    """A small file that is either whole or not there."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def regular_file(path: Path, *, writable: bool = False) -> Iterator[BinaryIO]:
    """Open a file that is neither a link nor a pipe; raise ``OSError`` if it is.

    What lies in a directory to resume may come from others: a link would lead the run to another file,
    and a pipe would make it wait forever.

    :param writable: make the file if there is none.  What is in it stays.
    """
    flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    with os.fdopen(os.open(path, flags, 0o666), "rb+" if writable else "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield file


def read_json(path: Path) -> Any:
    """The value in a small file."""
    with regular_file(path) as file:
        try:
            return json.loads(file.read())
        except RecursionError as error:
            raise ValueError("the JSON is nested too deeply") from error


def digest_of(path: Path, note: object) -> str:
    """Return a digest of all of a file, and of a note about it."""
    found = hashlib.blake2b(json.dumps(note, sort_keys=True).encode(), digest_size=16)
    with regular_file(path) as file:
        while portion := file.read(1 << 20):
            found.update(portion)
    return found.hexdigest()


@contextmanager
def part_file(path: Path, schema: pa.Schema, kind: str) -> Iterator[_Writer]:
    """What writes the batches of a part."""
    with whole_file(path) as temporary:
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
    return _Lines(path, kind)


class _ParquetFile:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.schema = schema
        self.file = pq.ParquetWriter(path, schema, compression="zstd")
        self.waiting: list[pa.RecordBatch] = []
        self.size = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.waiting.append(batch)
        self.size += batch.nbytes
        if self.size >= _GROUP:
            self.flush()

    def flush(self) -> None:
        if self.waiting:
            self.file.write_table(pa.Table.from_batches(self.waiting, schema=self.schema))
            self.waiting, self.size = [], 0

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


class _Lines:
    """An object to a line: JSON that came in goes out as it is, and what had no column is a member again."""

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
        self.file.write(lines.encode("utf-8", "backslashreplace"))  # half a surrogate pair, as JSON spells it

    def close(self) -> None:
        self.file.close()


def _members(row: dict[str, Any], raw: set[str]) -> Iterator[str]:
    rest = _value(row.pop(OTHER) or "{}") if OTHER in raw else {}
    if not isinstance(rest, dict):  # a line that was no object
        rest = {OTHER: rest}
    for name, value in row.items():
        if name in rest:  # where it had no place in its column
            continue
        if name in raw and value is not None:
            value = _value(value)  # noqa: PLW2901 - the same, as it was before
        yield f"{dumped(name)}: {dumped(list(value) if isinstance(value, bytes) else value)}"
    yield from (f"{dumped(name)}: {dumped(value)}" for name, value in rest.items())


def _value(text: str) -> Any:
    """The value of JSON text, or the text itself: in a table from elsewhere it may be something else."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _lenient(value: pa.Scalar) -> Any:
    """A value of a table, with the replacement character for what is not UTF-8."""
    if not value.is_valid:
        return None
    if isinstance(value, pa.StructScalar):
        return {name: _lenient(member) for name, member in value.items()}
    if isinstance(value, pa.DictionaryScalar):
        return _lenient(value.value)
    if isinstance(value, pa.ListScalar):  # or one of its kinds
        return [_lenient(item) for item in value.values]
    if isinstance(value, pa.StringScalar):
        return value.as_buffer().to_pybytes().decode("utf-8", "replace")
    return value.as_py()
