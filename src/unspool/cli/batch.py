"""``unspool batch``: files of outputs on the command line.

Only argparse is imported before the command runs, so that ``unspool --help`` stays quick.
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

from ..dialects._registry import find
from ..errors import UnknownDialect, UsageError
from .output import terminal

if TYPE_CHECKING:
    from ..batch._job import Job, Options
    from ..batch._run_job import Outcome, Workers

_FORMATS = ("parquet", "arrow", "jsonl", "jsonl.gz", "jsonl.zst")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``unspool batch``."""
    parser.add_argument(
        "inputs", nargs="+", metavar="IN", help="JSON lines (.gz, .zst too), Parquet, Arrow; or directories"
    )
    parser.add_argument("out", metavar="OUT", help="the directory to write to; a second run goes on there")
    parser.add_argument(
        "--dialect", required=True, metavar="DIALECT", help="the dialect, or the column that names it"
    )
    parser.add_argument("--text", default="text", metavar="COLUMN", help="the outputs (default: text)")
    parser.add_argument("--token-ids", default="", metavar="COLUMN", help="the outputs, as token ids")
    parser.add_argument("--tokenizer", default="", metavar="DIR", help="whose ids they are")
    parser.add_argument("--pad", type=int, metavar="ID", help="the id that sequences are filled up with")
    parser.add_argument(
        "--tools",
        default="",
        metavar="NAME",
        help="the column of the tools, or a JSON file with those of all",
    )
    parser.add_argument("--prompt", metavar="TEXT", help="the end of every prompt, such as '<think>'")
    parser.add_argument("--prompt-column", default="", metavar="COLUMN", help="the prompts")
    parser.add_argument("--finish-reason", default="", metavar="COLUMN", help="why generation stopped")
    parser.add_argument(
        "--key", default="", metavar="COLUMN", help="what names a row; ids of calls follow from it"
    )
    parser.add_argument("--keep", default="all", metavar="COLUMNS", help="with commas between (default: all)")
    parser.add_argument("--prefix", default="", metavar="TEXT", help="what the new columns' names begin with")
    parser.add_argument("--labels", action="store_true", help="say of every token what it is")
    parser.add_argument("--preset", default="", metavar="NAME", help="policies closest to an engine's")
    parser.add_argument("--to", default="", metavar="DIALECT", help="convert, and prove every row")
    parser.add_argument("--no-verify", action="store_true", help="convert without the proof")
    parser.add_argument("--format", choices=_FORMATS, default="parquet", help="of what is written")
    parser.add_argument(
        "--part-size", type=_megabytes, default=32, metavar="MB", help="of the inputs (default: 32)"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--ray", default="", metavar="ADDRESS", help="do it on a Ray cluster; auto finds one")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress, no summary")


def _megabytes(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


_megabytes.__name__ = "number"  # as argparse calls it in its errors


def main(options: argparse.Namespace) -> int:
    """Do the work; the result is the exit code."""
    try:
        from ..batch._run_job import Here, Processes, drive
    except ImportError as error:
        raise UsageError(f"unspool batch needs {error.name}: pip install 'unspool[batch]'") from error
    if options.jobs < 1:
        raise UsageError(f"--jobs {options.jobs}: at least one")
    if options.ray and options.jobs > 1:
        raise UsageError("give either --jobs or --ray: a cluster has as many hands as it has CPUs")
    with _system_errors():
        job = job_of(options)
    workers: Workers = _cluster(options.ray) if options.ray else Here()
    if options.jobs > 1:
        workers = Processes(options.jobs)
    progress = Progress(sum(one.size for one in job.inputs), shown=sys.stderr.isatty() and not options.quiet)
    begun = time.monotonic()
    with redirect_stdout(sys.stderr):  # what a cluster has to say is no part of the summary
        try:
            with _system_errors():
                outcome = drive(job, workers, progress)
        except BrokenExecutor:
            print(
                "unspool: a worker was killed, for want of memory perhaps; the same command goes on from here"
            )
            return 1
        finally:
            progress.close()
            workers.close()
    _report(options, job, outcome, time.monotonic() - begun)
    return int(bool(outcome.failed))


@contextmanager
def _system_errors() -> Iterator[None]:
    """Turn an error of the operating system into one for the user."""
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
        said = {"parts": outcome.parts, "seconds": round(outcome.seconds, 3), **outcome.counts.stable()}
        print(json.dumps(said, indent=2, ensure_ascii=False))
    elif not options.quiet:
        print("\n".join(summary(job, outcome, seconds)))
    for part, error in outcome.failed.items():
        sys.stderr.write(f"unspool: {part} could not be done: {error}\n")


# -- what is to be done


def job_of(options: argparse.Namespace) -> Job:
    """The job that the options describe, if they fit the inputs."""
    from ..batch._input_files import find_inputs, schema_of
    from ..batch._job import Job, result_schema

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
        # A column that the first lines do not have may still come; one that nobody has is a mistake.
        missing = sorted(name for name in named if name not in plain.names)
        if missing and len(plain.names) > 1:
            there = ", ".join(plain.names[:-1])
            raise UsageError(f"the first rows have no {', '.join(map(repr, missing))}; they have {there}")
    job = Job(tuple(inputs), schema_of(inputs, named), chosen, str(Path(options.out).absolute()))
    result_schema(job)
    return job


def _options(options: argparse.Namespace, columns: Sequence[str]) -> Options:
    from ..batch._input_files import digest
    from ..batch._job import Options, tokenizer_file

    dialect, dialect_column = _dialect(options.dialect, columns)
    tools, tools_column = _tools(options.tools, columns)
    if options.prompt is not None and options.prompt_column:
        raise UsageError("give either --prompt or --prompt-column, not both")
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
        preset=options.preset,
        to=find(options.to).name if options.to else "",
        verify=not options.no_verify,
        format=options.format,
        part_size=max(1, round(options.part_size * (1 << 20))),
    )


def _dialect(name: str, columns: Sequence[str]) -> tuple[str, str]:
    """A dialect for all, or the column that names each row's."""
    try:
        return find(name).name, ""
    except UnknownDialect as error:
        if name in columns:
            return "", name
        raise UsageError(f"{error}; nor is there a column {name!r}") from error


def _tools(name: str, columns: Sequence[str]) -> tuple[str, str]:
    """The tools of all rows, as JSON text, or the column that has each row's."""
    from ..batch._row_reader import RowError, tools_in

    if not name or name in columns:
        return "", name
    try:
        return json.dumps(tools_in(Path(name).read_text(encoding="utf-8")), ensure_ascii=False), ""
    except OSError as error:
        raise UsageError(f"--tools {name}: there is no such column, and no such file") from error
    except (RowError, UnicodeDecodeError) as error:
        raise UsageError(f"--tools {name}: {error}") from error


# -- progress


class Progress:
    """A line on the terminal that is written again and again."""

    def __init__(self, total: int, *, shown: bool) -> None:
        self._total = max(total, 1)
        self._shown = shown
        self._begun = time.monotonic()
        self._found: tuple[int, int] | None = None  # bytes and rows that were done before
        if shown:
            self._write(0.0, "")

    def __call__(self, outcome: Outcome) -> None:
        """Show how far the work has come."""
        if not self._shown:
            return
        rows, weight = outcome.counts.rows, outcome.weight
        if self._found is None or outcome.parts == outcome.found:
            self._found = (weight, rows) if outcome.parts == outcome.found else (0, 0)
        seconds = max(time.monotonic() - self._begun, 1e-9)
        speed = (rows - self._found[1]) / seconds
        pace = (weight - self._found[0]) / seconds
        left = f"{_clock((self._total - weight) / pace)} left" if pace > 0 else ""
        bad = f"  {outcome.counts.bad:,} bad" if outcome.counts.bad else ""
        self._write(weight / self._total, f"{rows:,} rows{bad}  {speed:,.0f} rows/s  {left}")

    def _write(self, share: float, said: str) -> None:
        width = 30
        full = round(min(share, 1.0) * width)
        out = terminal(sys.stderr)
        out.write(f"\r\x1b[K{'█' * full}{'░' * (width - full)} {min(share, 1.0):4.0%}  {said}")
        out.flush()

    def close(self) -> None:
        """Leave the line to others."""
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
    """What people want to know at the end, line by line."""
    counts = outcome.counts
    new = outcome.parts - outcome.found
    files, parts = _many(len(job.inputs), "file"), _many(outcome.parts, "part")
    yield f"{_many(counts.rows, 'row')} of {files} in {parts}: {job.out}{os.sep}"
    if new:
        memory = f", at most {outcome.memory / (1 << 20):,.0f} MB in a process" if outcome.memory else ""
        yield f"  done now       {_many(new, 'part')} in {_clock(seconds)}{memory}"
    else:
        yield "  done now       nothing: an earlier run had done all of it"
    yield from _table("bad rows", counts.bad, counts.errors)
    yield from _table("calls", sum(counts.calls.values()), counts.calls)
    yield from _table("diagnostics", sum(counts.diagnostics.values()), counts.diagnostics)
    for number, (nanoseconds, file, place) in enumerate(counts.slowest):
        unit = "byte" if job.inputs[0].suffixes[0] == "jsonl" else "row"
        label = "slowest rows" if not number else ""
        yield f"  {label:<14} {nanoseconds / 1e6:,.1f} ms  {file}, {unit} {place:,}"


def _table(label: str, total: int, counts: Mapping[str, int]) -> Iterator[str]:
    yield f"  {label:<14} {total:,}"
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    width = max((len(f"{count:,}") for _, count in most[:8]), default=0)
    for name, count in most[:8]:
        yield f"  {'':<14}   {count:>{width},}  {name}"
    if len(most) > 8:
        yield f"  {'':<14}   and {_many(len(most) - 8, 'other kind')}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + "s" * (count != 1)
