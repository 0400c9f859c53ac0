"""Outputs: the file of a part, written in a stream, under its name only when it is whole."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from .inputs import OTHER, is_json

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
        lines = "".join(f"{{{', '.join(_members(row, raw))}}}\n" for row in batch.to_pylist())
        self.file.write(lines.encode("utf-8", "backslashreplace"))  # half a surrogate pair, as JSON spells it

    def close(self) -> None:
        self.file.close()


def _members(row: dict[str, Any], raw: set[str]) -> Iterator[str]:
    rest = json.loads(row.pop(OTHER) or "{}") if OTHER in raw else {}
    if isinstance(rest, str):  # a line that was no object
        rest = {OTHER: rest}
    for name, value in row.items():
        if name in rest:  # where it had no place in its column
            continue
        if name in raw and value is not None:
            yield f"{_dumped(name)}: {value}"
        else:
            yield f"{_dumped(name)}: {_dumped(list(value) if isinstance(value, bytes) else value)}"
    yield from (f"{_dumped(name)}: {_dumped(value)}" for name, value in rest.items())


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
