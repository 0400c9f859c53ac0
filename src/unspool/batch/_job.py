"""The work on one part, the same wherever it is done: read, parse or convert, write, count.

A part is done when its record lies in ``_done``: the record is written after the
file.  Whoever does a part twice writes the same bytes twice.
"""

from __future__ import annotations

import heapq
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from .._version import __version__
from ..errors import UsageError
from ..policies import Policies
from ._convert import Writer, converted
from ._input_files import OTHER, Input, Part, Rows, read
from ._output_files import TEMPORARY, digest_of, part_file, read_json, write_json
from ._row_reader import Column, RowReader

MANIFEST: Final = "_manifest.json"
SUMMARY: Final = "_summary.json"
DONE: Final = "_done"
_SLOWEST: Final = 5
_ERRORS: Final = 20
"""Different errors that a part remembers."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be done; a value for all rows, or the name of a column."""

    dialect: str = ""
    dialect_column: str = ""
    text: str = "text"
    token_ids: str = ""
    tokenizer: str = ""
    tokenizer_digest: str = ""
    """So that another vocabulary of that name is noticed."""
    pad: int | None = None
    tools: str = ""
    """As JSON text."""
    tools_column: str = ""
    prompt: str | None = None
    prompt_column: str = ""
    finish_reason_column: str = ""
    key: str = ""
    keep: str = "all"
    """Names of columns, with commas between them."""
    prefix: str = ""
    labels: bool = False
    preset: str = ""
    to: str = ""
    verify: bool = True
    format: str = "parquet"
    part_size: int = 32 << 20

    def reader(self, names: Sequence[str]) -> RowReader:
        """What reads rows by these options.

        :param names: the columns that there are.
        """
        return RowReader(
            Column(self.dialect_column) if self.dialect_column else self.dialect,
            text=self.text,
            token_ids=self.token_ids,
            tokenizer=_tokenizer(self.tokenizer) if self.tokenizer else None,
            pad=self.pad,
            tools=_chosen(self.tools_column, json.loads(self.tools) if self.tools else None),
            prompt=_chosen(self.prompt_column, self.prompt),
            finish_reason=_chosen(self.finish_reason_column, None),
            policies=Policies.preset(self.preset) if self.preset else None,
            key=self.key or None,
            keep=self._kept(names),
            labels=self.labels,
            prefix=self.prefix,
        )

    def writer(self, names: Sequence[str]) -> Writer | None:
        """What writes them in another dialect, if that is wanted."""
        if not self.to:
            return None
        return Writer(self.to, verify=self.verify, keep=self._kept(names), name="converted")

    def _kept(self, names: Sequence[str]) -> list[str]:
        if self.keep == "all":
            return list(names)
        kept = [name for name in self.keep.split(",") if name]
        return kept + [OTHER] * (OTHER in names and OTHER not in kept)


def _chosen(column: str, value: Any) -> Any:
    return Column(column) if column else value


def tokenizer_file(path: str) -> Path:
    """The file of a model directory that has its vocabulary."""
    for name in ("tokenizer.json", "tekken.json"):
        if (Path(path) / name).is_file():
            return Path(path) / name
    raise UsageError(f"{path} has no tokenizer.json and no tekken.json")


def _tokenizer(path: str) -> Any:
    """The tokenizer of a model directory, by the package that reads it best."""
    file = tokenizer_file(path)
    try:
        if file.name == "tokenizer.json":
            from tokenizers import Tokenizer

            return Tokenizer.from_file(str(file))
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        return Tekkenizer.from_file(str(file))
    except ImportError as error:
        extra = "tokenizers" if file.name == "tokenizer.json" else "mistral"
        raise UsageError(f"{file} needs a package: pip install 'unspool[{extra}]'") from error


@dataclass(frozen=True)
class Job:
    """Everything that a part needs to be done, anywhere."""

    inputs: tuple[Input, ...]
    schema: pa.Schema
    """The columns of the inputs."""
    options: Options
    out: str

    def file(self, part: Part) -> Path:
        """Where a part is written."""
        return Path(self.out) / f"{part.name}.{self.options.format}"

    def record(self, part: Part) -> Path:
        """Where it is written that a part is done."""
        return Path(self.out) / DONE / f"{part.name}.json"

    def done(self, part: Part) -> Record | None:
        """The record of a part that is done, if it and the file of the part are as they were written."""
        try:
            record: Record = read_json(self.record(part))
            digest = record.pop("digest")
            return record if digest == digest_of(self.file(part), record) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


Record = dict[str, Any]
"""What is known about a part that is done: plain JSON."""


def do_part(job: Job, part: Part) -> Record:
    """Do a part; the result is its record.  This is the one task of every kind of worker."""
    begun = time.process_time()
    work = _work(job.options, tuple(job.schema.names))
    counts = Counts()
    origin = job.inputs[part.input]
    with part_file(job.file(part), work.schema(job.schema), job.options.format) as file:
        for rows in read(origin, part, job.schema):
            timings: list[int] = []
            batch = work(rows, part.input, timings)
            counts.add(batch, job.options.prefix)
            counts.time(Path(origin.path).name, rows.places, timings)
            file.write(batch)
    record = {
        "memory": peak_memory(),
        "seconds": round(time.process_time() - begun, 3),
        **asdict(counts),
    }
    write_json(job.record(part), {"digest": digest_of(job.file(part), record), **record})
    return record


@lru_cache(maxsize=1)
def _work(options: Options, names: tuple[str, ...]) -> _Work:
    return _Work(options, names)  # a worker has one job, and a tokenizer takes a second to load


class _Work:
    def __init__(self, options: Options, names: Sequence[str]) -> None:
        self.reader = options.reader(names)
        self.writer = options.writer(names)

    def __call__(self, rows: Rows, number: int, timings: list[int] | None = None) -> pa.RecordBatch:
        names = [f"{number}:{place}" for place in rows.places]
        if self.writer is not None:
            return converted(self.reader, self.writer, rows.batch, names, timings, rows.errors)
        return self.reader.parse(rows.batch, names, timings, rows.errors)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the result."""
        return self(Rows(pa.RecordBatch.from_pylist([], schema=schema), []), 0).schema


def result_schema(job: Job) -> pa.Schema:
    """The columns of what will be written; raises ``UsageError`` if the options do not fit the inputs."""
    return _Work(job.options, job.schema.names).schema(job.schema)


def peak_memory() -> int:
    """The most bytes that this process had in memory; 0 where nobody knows."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


# -- counting


@dataclass
class Counts:
    """What people want to know about rows."""

    rows: int = 0
    bad: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    """Of bad rows: how often each was said."""
    calls: dict[str, int] = field(default_factory=dict)
    """By status."""
    diagnostics: dict[str, int] = field(default_factory=dict)
    """By kind."""
    slowest: list[tuple[int, str, int]] = field(default_factory=list)
    """Rows that took longest: nanoseconds, file, place."""

    def add(self, batch: pa.RecordBatch, prefix: str = "") -> None:
        """Count the rows of a result."""
        names = batch.schema.names
        self.rows += batch.num_rows
        said = batch.column(names.index(f"{prefix}error")).drop_null()
        self.bad += len(said)
        _tally(self.errors, said, most=_ERRORS)
        if f"{prefix}tool_calls" in names:
            _tally(self.calls, batch[f"{prefix}tool_calls"].flatten().field("status"))
            _tally(self.diagnostics, batch[f"{prefix}diagnostics"].flatten().field("kind"))

    def time(self, file: str, places: Sequence[int], timings: Sequence[int]) -> None:
        """Remember the slowest rows."""
        self._slower((nanoseconds, file, place) for place, nanoseconds in zip(places, timings, strict=True))

    def _slower(self, rows: Iterable[tuple[int, str, int]]) -> None:
        self.slowest = heapq.nlargest(_SLOWEST, [*self.slowest, *rows])

    def merge(self, record: Mapping[str, Any]) -> None:
        """Count what a part counted."""
        self.rows += record["rows"]
        self.bad += record["bad"]
        for mine, its in (
            (self.errors, record["errors"]),
            (self.calls, record["calls"]),
            (self.diagnostics, record["diagnostics"]),
        ):
            for name, count in its.items():
                mine[name] = mine.get(name, 0) + count
        self._slower(tuple(row) for row in record["slowest"])

    def stable(self) -> dict[str, Any]:
        """What is the same for every run."""
        found = {name: value for name, value in asdict(self).items() if name != "slowest"}
        return {
            name: dict(sorted(value.items())) if isinstance(value, dict) else value
            for name, value in found.items()
        }


def _tally(counts: dict[str, int], values: pa.Array, most: int = sys.maxsize) -> None:
    for value, count in Counter(values.to_pylist()).items():
        if value in counts or len(counts) < most:
            counts[value] = counts.get(value, 0) + count


# -- the manifest


def begin(job: Job) -> None:
    """Begin the work, or go on with it; refuses to if it was another.

    The first run writes down its options and inputs; a later one must have the same.
    """
    out = Path(job.out)
    now = {
        "unspool": __version__,
        "options": asdict(job.options),
        "inputs": [asdict(one) for one in job.inputs],
        "columns": [[column.name, str(column.type)] for column in job.schema],
    }
    path = out / MANIFEST
    if os.path.lexists(path):
        try:
            before = read_json(path)
            differences = list(_differences(before, now))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{path} was not written by unspool batch, or was changed since: {error}. "
                "Choose another directory"
            ) from error
        if differences:
            raise UsageError(f"{out} holds other work: {'; '.join(differences)}. Choose another directory")
    (out / DONE).mkdir(parents=True, exist_ok=True)
    remove_temporary(job)
    if os.path.lexists(path):
        return
    if any(one.name != DONE for one in out.iterdir()):
        raise UsageError(f"{out} is not empty, and what is in it was not written by unspool batch")
    write_json(path, now)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if before["unspool"] != now["unspool"]:
        yield f"it was begun by unspool {before['unspool']}, this is {now['unspool']}"
    for name in sorted(before["options"].keys() | now["options"].keys()):
        old, new = before["options"].get(name), now["options"].get(name)
        if old != new:
            yield f"{name.replace('_', '-')} was {_short(old)}, and is {_short(new)}"
    old_inputs = {one["path"]: one for one in before["inputs"]}
    new_inputs = {one["path"]: one for one in now["inputs"]}
    for path in old_inputs.keys() - new_inputs.keys():
        yield f"{path} is no input any more"
    for path, one in new_inputs.items():
        old = old_inputs.get(path)
        if old is None:
            yield f"{path} was no input"
        elif old["size"] != one["size"]:
            yield f"{path} had {old['size']:,} bytes, and has {one['size']:,}"
        elif old["digest"] != one["digest"]:
            yield f"what is in {path} has changed"
    if list(old_inputs) != list(new_inputs) and old_inputs.keys() == new_inputs.keys():
        yield "the inputs came in another order"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def remove_temporary(job: Job) -> None:
    """Take away what somebody who was killed had begun to write."""
    for directory in (Path(job.out), Path(job.out) / DONE):
        for path in directory.glob(f".*{TEMPORARY}"):
            path.unlink(missing_ok=True)
