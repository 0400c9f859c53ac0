"""A batch job: options, manifest, and the processing of one part.

Every kind of worker runs the same function, ``do_part``, which reads the rows of a part, parses or converts
them, writes the output file, and collects statistics.  A part is done when its record is in the directory
``_done``.  The record is written after the output file.  Processing a part again writes the same bytes, so an
interrupted run can be resumed.
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
from ..models.sources.load_tokenizer import find_tokenizer_file, load_tokenizer
from ..policies import policies_from_text
from ._output_files import TEMPORARY, digest_of, part_file, read_json, write_json
from ._render_and_convert_rows import RowWriter, convert_rows
from .input_files import OTHER, Input, Part, Rows, read
from .parse_rows import Column, RowReader

MANIFEST: Final = "_manifest.json"
SUMMARY: Final = "_summary.json"
DONE: Final = "_done"
_MAX_SLOWEST: Final = 5
"""Number of slowest rows in the report."""
_MAX_ERRORS: Final = 20
"""Maximum number of different error messages that are counted per part."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a job; most options are one value for all rows, or a column with one value per row."""

    dialect: str = ""
    dialect_column: str = ""
    text: str = "text"
    token_ids: str = ""
    tokenizer: str = ""
    tokenizer_digest: str = ""
    """A digest of the tokenizer file, which detects a replaced tokenizer."""
    pad: int | None = None
    tools: str = ""
    """The tools for all rows, as JSON text."""
    tools_column: str = ""
    prompt: str | None = None
    prompt_column: str = ""
    finish_reason_column: str = ""
    key: str = ""
    keep: str = "all"
    """``all``, or a comma-separated list of column names."""
    prefix: str = ""
    labels: bool = False
    policies: str = ""
    to: str = ""
    verify: bool = True
    format: str = "parquet"
    part_size: int = 32 << 20

    def reader(self, names: Sequence[str]) -> RowReader:
        """Create the row reader for these options.

        :param names: the column names of the inputs.
        """
        return RowReader(
            Column(self.dialect_column) if self.dialect_column else self.dialect,
            text=self.text,
            token_ids=self.token_ids,
            tokenizer=load_tokenizer(tokenizer_file(self.tokenizer)) if self.tokenizer else None,
            pad=self.pad,
            tools=_column_or_value(self.tools_column, json.loads(self.tools) if self.tools else None),
            prompt=_column_or_value(self.prompt_column, self.prompt),
            finish_reason=_column_or_value(self.finish_reason_column, None),
            policies=policies_from_text(self.policies),
            key=self.key or None,
            keep=self._kept(names),
            labels=self.labels,
            prefix=self.prefix,
        )

    def writer(self, names: Sequence[str]) -> RowWriter | None:
        """Create the writer for the target dialect; return None if the job only parses."""
        if not self.to:
            return None
        return RowWriter(self.to, verify=self.verify, keep=self._kept(names), name="converted")

    def _kept(self, names: Sequence[str]) -> list[str]:
        if self.keep == "all":
            return list(names)
        kept = [name for name in self.keep.split(",") if name]
        return kept + [OTHER] * (OTHER in names and OTHER not in kept)


def _column_or_value(column: str, value: Any) -> Any:
    return Column(column) if column else value


def tokenizer_file(directory: str) -> Path:
    """Return the path of the tokenizer file in a model directory."""
    file = find_tokenizer_file(Path(directory))
    if file is None:
        raise UsageError(f"{directory} contains no tokenizer.json or tekken.json: pass a model directory")
    return file


@dataclass(frozen=True)
class Job:
    """A job, with everything that a worker needs to process a part."""

    inputs: tuple[Input, ...]
    schema: pa.Schema
    """The columns of the inputs."""
    options: Options
    out: str

    def file(self, part: Part) -> Path:
        """Return the path of a part's output file."""
        return Path(self.out) / f"{part.name}.{self.options.format}"

    def record(self, part: Part) -> Path:
        """Return the path of a part's record."""
        return Path(self.out) / DONE / f"{part.name}.json"

    def done(self, part: Part) -> Record | None:
        """Return the record of a part, or None if the record is missing or does not match the output file."""
        try:
            record: Record = read_json(self.record(part))
            digest = record.pop("digest")
            return record if digest == digest_of(self.file(part), record) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


Record = dict[str, Any]
"""Statistics on a finished part, as JSON values."""


def do_part(job: Job, part: Part) -> Record:
    """Process a part and return its record; every kind of worker runs this function."""
    start = time.process_time()
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
        "seconds": round(time.process_time() - start, 3),
        **asdict(counts),
    }
    write_json(job.record(part), {"digest": digest_of(job.file(part), record), **record})
    return record


@lru_cache(maxsize=1)
def _work(options: Options, names: tuple[str, ...]) -> _Work:
    return _Work(options, names)  # cached, because loading a tokenizer takes a second


class _Work:
    """Parsing or conversion of rows, according to the options of the job."""

    def __init__(self, options: Options, names: Sequence[str]) -> None:
        self.reader = options.reader(names)
        self.writer = options.writer(names)

    def __call__(self, rows: Rows, number: int, timings: list[int] | None = None) -> pa.RecordBatch:
        names = [f"{number}:{place}" for place in rows.places]
        if self.writer is not None:
            return convert_rows(self.reader, self.writer, rows.batch, names, timings, rows.errors)
        return self.reader.parse(rows.batch, names, timings, rows.errors)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the output rows, given the schema of the input rows."""
        return self(Rows(pa.RecordBatch.from_pylist([], schema=schema), []), 0).schema


def result_schema(job: Job) -> pa.Schema:
    """Return the schema of the output files.

    :raises UsageError: if the options do not match the columns of the inputs.
    """
    return _Work(job.options, job.schema.names).schema(job.schema)


def peak_memory() -> int:
    """Return the peak memory usage of this process in bytes; 0 if it is unknown."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# -- counting


@dataclass
class Counts:
    """Statistics on processed rows."""

    rows: int = 0
    bad: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    """Number of rows with each error message."""
    calls: dict[str, int] = field(default_factory=dict)
    """Number of calls with each status."""
    diagnostics: dict[str, int] = field(default_factory=dict)
    """Number of diagnostics of each kind."""
    slowest: list[tuple[int, str, int]] = field(default_factory=list)
    """The slowest rows, each as nanoseconds, file name and position."""

    def add(self, batch: pa.RecordBatch, prefix: str = "") -> None:
        """Add the rows of a parsed batch to the statistics."""
        names = batch.schema.names
        self.rows += batch.num_rows
        messages = batch.column(names.index(f"{prefix}error")).drop_null()
        self.bad += len(messages)
        _tally(self.errors, messages, limit=_MAX_ERRORS)
        if f"{prefix}tool_calls" in names:
            _tally(self.calls, batch[f"{prefix}tool_calls"].flatten().field("status"))
            _tally(self.diagnostics, batch[f"{prefix}diagnostics"].flatten().field("kind"))

    def time(self, file: str, places: Sequence[int], timings: Sequence[int]) -> None:
        """Add the timings of rows, and keep only those of the slowest rows."""
        self._keep_slowest(
            (nanoseconds, file, place) for place, nanoseconds in zip(places, timings, strict=True)
        )

    def _keep_slowest(self, rows: Iterable[tuple[int, str, int]]) -> None:
        self.slowest = heapq.nlargest(_MAX_SLOWEST, [*self.slowest, *rows])

    def merge(self, record: Mapping[str, Any]) -> None:
        """Add the statistics from the record of a part."""
        self.rows += record["rows"]
        self.bad += record["bad"]
        for total, counts in (
            (self.errors, record["errors"]),
            (self.calls, record["calls"]),
            (self.diagnostics, record["diagnostics"]),
        ):
            for name, count in counts.items():
                total[name] = total.get(name, 0) + count
        self._keep_slowest(tuple(row) for row in record["slowest"])

    def stable(self) -> dict[str, Any]:
        """Return the statistics without timings, which differ between runs of the same job."""
        found = {name: value for name, value in asdict(self).items() if name != "slowest"}
        return {
            name: dict(sorted(value.items())) if isinstance(value, dict) else value
            for name, value in found.items()
        }


def _tally(counts: dict[str, int], values: pa.Array, limit: int = sys.maxsize) -> None:
    for value, count in Counter(values.to_pylist()).items():
        if value in counts or len(counts) < limit:
            counts[value] = counts.get(value, 0) + count


# -- the manifest


def prepare_output(job: Job) -> None:
    """Prepare the output directory for a new run or for resuming one.

    The first run writes its options and inputs to a manifest.  A later run must have the same options and
    inputs.

    :raises UsageError: if the directory belongs to another job or contains other files.
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
                f"{path} is not a manifest of unspool batch, or it was changed: {error}. "
                "Choose another directory"
            ) from error
        if differences:
            raise UsageError(
                f"{out} belongs to another job: {'; '.join(differences)}. Choose another directory"
            )
    (out / DONE).mkdir(parents=True, exist_ok=True)
    remove_temporary(job)
    if os.path.lexists(path):
        return
    if any(one.name != DONE for one in out.iterdir()):
        raise UsageError(
            f"{out} is not empty, and its files are not from unspool batch: choose another directory"
        )
    write_json(path, now)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if before["unspool"] != now["unspool"]:
        yield f"it was started by unspool {before['unspool']}, and this is {now['unspool']}"
    for name in sorted(before["options"].keys() | now["options"].keys()):
        old, new = before["options"].get(name), now["options"].get(name)
        if old != new:
            yield f"{name.replace('_', '-')} was {_short(old)}, and is now {_short(new)}"
    old_inputs = {one["path"]: one for one in before["inputs"]}
    new_inputs = {one["path"]: one for one in now["inputs"]}
    for path in old_inputs.keys() - new_inputs.keys():
        yield f"{path} is no longer an input"
    for path, one in new_inputs.items():
        old = old_inputs.get(path)
        if old is None:
            yield f"{path} is a new input"
        elif old["size"] != one["size"]:
            yield f"{path} had {old['size']:,} bytes, and now has {one['size']:,}"
        elif old["digest"] != one["digest"]:
            yield f"the content of {path} has changed"
    if list(old_inputs) != list(new_inputs) and old_inputs.keys() == new_inputs.keys():
        yield "the inputs were in another order"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def remove_temporary(job: Job) -> None:
    """Remove the temporary files of an interrupted run."""
    for directory in (Path(job.out), Path(job.out) / DONE):
        for path in directory.glob(f".*{TEMPORARY}"):
            path.unlink(missing_ok=True)
