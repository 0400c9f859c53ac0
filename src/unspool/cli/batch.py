"""The command ``unspool batch``, which parses or converts files that contain model outputs.

PyArrow is imported only when the command runs, so that ``unspool --help`` stays fast.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from ..dialects import find
from ..errors import UnknownDialect, UsageError
from .output import terminal

if TYPE_CHECKING:
    from ..batch.job import Job, Options
    from ..batch.run_job import Outcome, Workers

_FORMATS = ("parquet", "arrow", "jsonl", "jsonl.gz", "jsonl.zst")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``unspool batch``."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="IN",
        help="files in JSON lines (also .gz, .zst), Parquet or Arrow format, or directories with such files",
    )
    parser.add_argument(
        "out", metavar="OUT", help="output directory; use the same directory to resume an interrupted run"
    )
    parser.add_argument(
        "--dialect",
        required=True,
        metavar="DIALECT",
        help="dialect of all rows, or name of the column that contains each row's dialect",
    )
    parser.add_argument(
        "--text", default="text", metavar="COLUMN", help="column that contains the outputs (default: text)"
    )
    parser.add_argument(
        "--token-ids", default="", metavar="COLUMN", help="column that contains the outputs as token ids"
    )
    parser.add_argument(
        "--tokenizer",
        default="",
        metavar="DIR",
        help="model directory that contains the tokenizer for the token ids",
    )
    parser.add_argument("--pad", type=int, metavar="ID", help="padding token id")
    parser.add_argument(
        "--tools",
        default="",
        metavar="NAME",
        help="column that contains each row's tools, or JSON file that contains the tools for all rows",
    )
    parser.add_argument("--prompt", metavar="TEXT", help="end of every prompt, such as '<think>'")
    parser.add_argument(
        "--prompt-column", default="", metavar="COLUMN", help="column that contains the prompts"
    )
    parser.add_argument(
        "--finish-reason", default="", metavar="COLUMN", help="column that contains the finish reasons"
    )
    parser.add_argument(
        "--key",
        default="",
        metavar="COLUMN",
        help="column that identifies each row; call ids are derived from it",
    )
    parser.add_argument(
        "--keep",
        default="all",
        metavar="COLUMNS",
        help="comma-separated input columns to keep (default: all)",
    )
    parser.add_argument("--prefix", default="", metavar="TEXT", help="prefix for the names of new columns")
    parser.add_argument("--labels", action="store_true", help="add a column with a label for every token")
    parser.add_argument(
        "--policies",
        default="",
        metavar="POLICIES",
        help="preset (strict, vllm, ...) or NAME=VALUE,... (see docs/policies.md)",
    )
    parser.add_argument(
        "--to", default="", metavar="DIALECT", help="convert to this dialect, and verify every row"
    )
    parser.add_argument("--no-verify", action="store_true", help="convert without verification")
    parser.add_argument(
        "--format", choices=_FORMATS, default="parquet", help="output format (default: parquet)"
    )
    parser.add_argument(
        "--part-size",
        type=_megabytes,
        default=32,
        metavar="MB",
        help="megabytes of input per output file (default: 32)",
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="number of processes (default: 1)")
    parser.add_argument(
        "--ray",
        default="",
        metavar="ADDRESS",
        help="address of a Ray cluster to run on, or auto",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--quiet", action="store_true", help="do not print progress or a summary")


def _megabytes(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


_megabytes.__name__ = "number"  # argparse uses this name in error messages


def main(options: argparse.Namespace) -> int:
    """Run the command, and return the exit code."""
    try:
        from ..batch.run_job import InProcess, Processes, run_job
    except ImportError as error:
        raise UsageError(f"unspool batch needs {error.name}: pip install 'unspool[batch]'") from error
    if options.jobs < 1:
        raise UsageError(f"--jobs {options.jobs} is not valid: use at least 1")
    if options.ray and options.jobs > 1:
        raise UsageError("--jobs and --ray are mutually exclusive: a cluster always uses all its CPUs")
    with _system_errors():
        job = job_of(options)
    workers: Workers = _cluster(options.ray) if options.ray else InProcess()
    if options.jobs > 1:
        workers = Processes(options.jobs)
    progress = Progress(sum(one.size for one in job.inputs), shown=sys.stderr.isatty() and not options.quiet)
    start = time.monotonic()
    with redirect_stdout(sys.stderr):  # Ray's messages must not mix with the summary
        try:
            with _system_errors():
                outcome = run_job(job, workers, progress)
        except BrokenExecutor:
            print(
                "unspool: a worker was killed, perhaps for lack of memory; run the same command again "
                "to resume"
            )
            return 1
        finally:
            progress.close()
            workers.close()
    _report(options, job, outcome, time.monotonic() - start)
    return int(bool(outcome.failed))


@contextmanager
def _system_errors() -> Iterator[None]:
    """Convert errors from the operating system to usage errors."""
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise UsageError(f"{where}{error.strerror or error}") from error


def _cluster(address: str) -> Workers:
    from ..batch.ray import Cluster

    return Cluster(address)


def _report(options: argparse.Namespace, job: Job, outcome: Outcome, seconds: float) -> None:
    if options.json:
        result = {"parts": outcome.parts, "seconds": round(outcome.seconds, 3), **outcome.counts.stable()}
        print(json.dumps(result, indent=2, ensure_ascii=False))
    elif not options.quiet:
        print("\n".join(summary(job, outcome, seconds)))
    for part, error in outcome.failed.items():
        sys.stderr.write(f"unspool: {part} failed: {error}\n")


# -- the job


def job_of(options: argparse.Namespace) -> Job:
    """Create the job for the command-line options.

    :raises UsageError: if the options do not match the columns of the inputs.
    """
    from ..batch.input_files import find_inputs, schema_of
    from ..batch.job import Job, result_schema

    inputs = find_inputs(options.inputs)
    plain = schema_of(inputs, {})
    chosen = _options(options, plain.names)
    types = {
        chosen.text if not chosen.token_ids else "": "string",
        chosen.token_ids: "ids",
        chosen.dialect_column: "string",
        chosen.tools_column: "json",
        chosen.prompt_column: "ids" if chosen.token_ids else "string",
        chosen.finish_reason_column: "string",
    }
    named = {name: kind for name, kind in types.items() if name}
    if inputs[0].suffixes[0] == "jsonl":
        # The columns of a JSON lines file are taken from the file's first lines.  The name of a column that
        # does not occur in these lines is probably a typo.
        missing = sorted(name for name in named if name not in plain.names)
        if missing and len(plain.names) > 1:
            existing = ", ".join(plain.names[:-1])
            raise UsageError(
                f"the first rows have no column {', '.join(map(repr, missing))}; they have {existing}"
            )
    job = Job(tuple(inputs), schema_of(inputs, named), chosen, str(Path(options.out).absolute()))
    result_schema(job)
    return job


def _options(options: argparse.Namespace, columns: Sequence[str]) -> Options:
    from ..batch.input_files import digest
    from ..batch.job import Options, tokenizer_file

    dialect, dialect_column = _dialect(options.dialect, columns)
    tools, tools_column = _tools(options.tools, columns)
    if options.prompt is not None and options.prompt_column:
        raise UsageError("--prompt and --prompt-column are mutually exclusive: pass only one")
    return Options(
        dialect=dialect,
        dialect_column=dialect_column,
        text=options.text,
        token_ids=options.token_ids,
        tokenizer=options.tokenizer,
        tokenizer_digest=digest(tokenizer_file(options.tokenizer)) if options.tokenizer else "",
        pad=options.pad,
        tools=tools,
        tools_column=tools_column,
        prompt=options.prompt,
        prompt_column=options.prompt_column,
        finish_reason_column=options.finish_reason,
        key=options.key,
        keep=options.keep,
        prefix=options.prefix,
        labels=options.labels,
        policies=options.policies,
        to=find(options.to).name if options.to else "",
        verify=not options.no_verify,
        format=options.format,
        part_size=max(1, round(options.part_size * (1 << 20))),
    )


def _dialect(name: str, columns: Sequence[str]) -> tuple[str, str]:
    """Return the dialect of all rows and the column of dialects; one of the two is empty."""
    try:
        return find(name).name, ""
    except UnknownDialect as error:
        if name in columns:
            return "", name
        raise UsageError(f"{error}; there is also no column {name!r}") from error


def _tools(name: str, columns: Sequence[str]) -> tuple[str, str]:
    """Return the tools of all rows as JSON and the column of tools; at least one of the two is empty."""
    from ..batch.parse_rows import RowError, parse_tools

    if not name or name in columns:
        return "", name
    try:
        return json.dumps(parse_tools(Path(name).read_text(encoding="utf-8")), ensure_ascii=False), ""
    except OSError as error:
        raise UsageError(f"--tools {name}: there is no column or file with this name") from error
    except (RowError, UnicodeDecodeError) as error:
        raise UsageError(f"--tools {name}: {error}") from error


# -- progress


class Progress:
    """Line on the terminal that shows the progress of a run."""

    def __init__(self, total: int, *, shown: bool) -> None:
        self._total = max(total, 1)
        self._shown = shown
        self._start = time.monotonic()
        self._resumed: tuple[int, int] | None = None  # bytes and rows that were processed in an earlier run
        if shown:
            self._write(0.0, "")

    def __call__(self, outcome: Outcome) -> None:
        """Update the line after a part."""
        if not self._shown:
            return
        rows, weight = outcome.counts.rows, outcome.weight
        if self._resumed is None or outcome.parts == outcome.resumed:
            self._resumed = (weight, rows) if outcome.parts == outcome.resumed else (0, 0)
        seconds = max(time.monotonic() - self._start, 1e-9)
        speed = (rows - self._resumed[1]) / seconds
        pace = (weight - self._resumed[0]) / seconds
        left = f"{_clock((self._total - weight) / pace)} left" if pace > 0 else ""
        bad = f"  {outcome.counts.bad:,} bad" if outcome.counts.bad else ""
        self._write(weight / self._total, f"{rows:,} rows{bad}  {speed:,.0f} rows/s  {left}")

    def _write(self, share: float, text: str) -> None:
        width = 30
        full = round(min(share, 1.0) * width)
        out = terminal(sys.stderr)
        out.write(f"\r\x1b[K{'█' * full}{'░' * (width - full)} {min(share, 1.0):4.0%}  {text}")
        out.flush()

    def close(self) -> None:
        """Remove the line from the terminal."""
        if self._shown:
            out = terminal(sys.stderr)
            out.write("\r\x1b[K")
            out.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# -- the summary


def summary(job: Job, outcome: Outcome, seconds: float) -> Iterator[str]:
    """Yield the lines of the summary that is printed at the end of a run."""
    counts = outcome.counts
    new = outcome.parts - outcome.resumed
    files, parts = _count(len(job.inputs), "file"), _count(outcome.parts, "part")
    yield f"{_count(counts.rows, 'row')} of {files} in {parts}: {job.out}{os.sep}"
    if new:
        memory = f", at most {outcome.memory / (1 << 20):,.0f} MB in a process" if outcome.memory else ""
        yield f"  done now       {_count(new, 'part')} in {_clock(seconds)}{memory}"
    else:
        yield "  done now       nothing; all parts were done in an earlier run"
    yield from _table("bad rows", counts.bad, counts.errors)
    yield from _table("calls", sum(counts.calls.values()), counts.calls)
    yield from _table("diagnostics", sum(counts.diagnostics.values()), counts.diagnostics)
    for number, (nanoseconds, file, place) in enumerate(counts.slowest):
        unit = "byte" if job.inputs[0].suffixes[0] == "jsonl" else "row"
        label = "slowest rows" if not number else ""
        yield f"  {label:<14} {nanoseconds / 1e6:,.1f} ms  {file}, {unit} {place:,}"


def _table(label: str, total: int, counts: Mapping[str, int]) -> Iterator[str]:
    yield f"  {label:<14} {total:,}"
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    width = max((len(f"{count:,}") for _, count in ranked[:8]), default=0)
    for name, count in ranked[:8]:
        yield f"  {'':<14}   {count:>{width},}  {name}"
    if len(ranked) > 8:
        yield f"  {'':<14}   and {_count(len(ranked) - 8, 'other kind')}"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" + "s" * (count != 1)
