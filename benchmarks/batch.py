"""Whole outputs by the thousand: beside SGLang's own parser, through Arrow, and through files.

    python benchmarks/batch.py [DIALECT ...] [--rows N] [--rounds N] [--gigabytes N] [--jobs N]

Three questions, each answered side by side in one run, in seconds of CPU:

* how fast whole outputs are parsed, pure and compiled, beside SGLang's parser: the contenders
  read the same rows in turns, and the best round of each counts;
* what a table costs over ``parse`` in a loop, both with ids that follow from the row: a loop that
  drops each message, and so has all its memory in the nearest cache, and one that keeps those of
  as many rows as a batch has, which is what a table must do;
* with ``--gigabytes``: JSON lines, made here, through ``unspool batch``, and how much memory that takes.

``make peer-sglang build/compiled/unspool`` installs what is measured against.  SGLang takes minutes for
a few hundred rows of ``pythonic``, which is therefore only measured when it is named.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from parse import CONTENDERS, HERE, Contender
from parsing.process import Process
from parsing.workloads import CODE, PROSE, TOOLS, filled

DIALECTS: Final = (
    "hermes",
    "mistral",
    "qwen3_coder",
    "deepseek_v3",
    "kimi_k2",
    "llama3_json",
    "glm45",
)
WANTED: Final = ("SGLang", "unspool", "unspool compiled")
SIZES: Final = (256, 1000)
"""Rows of a batch: as many as ``unspool batch`` reads at a time, and as ``datasets`` does."""
TABLES: Final = ("loop", *(f"{what} {size}" for size in SIZES for what in ("kept", "table")))
"""What is asked about tables."""


def outputs(dialect: str, rows: int) -> Iterator[str]:
    """Answers of one to three thousand characters, with a call or two."""
    from unspool import Message, ToolCall, get_dialect, render

    for number in range(rows):
        content = "" if dialect in ("llama3_json", "pythonic") else filled(PROSE, 200 + number * 37 % 1500)
        first = {"location": f"Oslo {number}", "unit": "C", "days": number % 7}
        second = {"path": f"{number}.py", "content": filled(CODE, 300 + number * 53 % 900)}
        new_id = get_dialect(dialect).id_format.seeded(number)  # some read a call only if its id is theirs
        calls = [ToolCall(new_id("get_weather", 0), "get_weather", json.dumps(first))]
        if number % 3:
            calls.append(ToolCall(new_id("write_file", 1), "write_file", json.dumps(second)))
        yield render(dialect, Message(content=content or None, tool_calls=tuple(calls)), check=False)


# -- the contenders, each in a process of its own, which reads all rows when it is told to


def serve(module: str, dialect: str, file: str) -> None:
    """Do the task that each line of the input names; print the seconds of CPU that it took."""
    rows: list[str] = json.loads(Path(file).read_text(encoding="utf-8"))
    tasks = _tasks(module, dialect, rows)
    for line in sys.stdin:
        task = tasks[json.loads(line)]
        begun = time.thread_time()  # without the threads that numpy starts and lets spin
        task()
        print(time.thread_time() - begun, flush=True)


def _tasks(module: str, dialect: str, rows: list[str]) -> dict[str, Callable[[], object]]:
    contender: Any = importlib.import_module(f"parsing.contenders.{module}")
    reader = contender.reader(dialect, "whole")
    found = reader.whole
    calls = sum(len(reader.answer([found(row)]).calls) for row in rows)
    if calls != sum(row.count("get_weather") + row.count("write_file") for row in rows):
        raise SystemExit(f"{module} does not find every call of {dialect}, so its speed says nothing")

    def whole() -> None:
        for row in rows:
            found(row)

    return {"whole": whole, **(_table(dialect, rows) if module == "unspool" else {})}


def _table(dialect: str, rows: list[str]) -> dict[str, Callable[[], None]]:
    import pyarrow as pa

    from unspool import parse, seeded_ids
    from unspool.batch import parse_batches

    def loop() -> None:
        for number, row in enumerate(rows):
            parse(row, dialect, tools=TOOLS, new_id=seeded_ids(number, dialect))

    def kept(size: int) -> None:
        for at in range(0, len(rows), size):
            _ = [
                parse(row, dialect, tools=TOOLS, new_id=seeded_ids(number, dialect))
                for number, row in enumerate(rows[at : at + size], at)
            ]

    def table(batches: Sequence[Any]) -> None:
        for _ in parse_batches(batches, dialect, tools=TOOLS):
            pass

    found: dict[str, Callable[[], None]] = {"loop": loop}
    for size in SIZES:
        found[f"kept {size}"] = partial(kept, size)
        found[f"table {size}"] = partial(table, pa.table({"text": rows}).to_batches(max_chunksize=size))
    return found


class Rows(Process):
    """A contender that waits for its turn."""

    def __init__(self, contender: Contender, dialect: str, file: str) -> None:
        self.name = contender.name
        self.best: dict[str, float] = {}
        self._tasks = ("whole", *TABLES) if contender.module == "unspool" else ("whole",)
        environment = dict(os.environ, PYTHONPATH=str(HERE.parent / (contender.path or "src")))
        super().__init__(
            [str(contender.python), __file__, "--serve", contender.module, dialect, file], environment
        )

    def turn(self) -> None:
        """Read all rows, in every way that it has."""
        for task in self._tasks:
            seconds = self.ask(task)
            self.best[task] = min(seconds, self.best.get(task, seconds))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def beside(dialects: Sequence[str], rows: int, rounds: int) -> None:
    """Print the table of whole outputs, and that of Arrow."""
    contenders = [one for one in CONTENDERS if one.name in WANTED and not one.missing]
    for one in CONTENDERS:
        if one.name in WANTED and one.missing:
            print(f"{one.name}: {one.missing}")
    print("million characters a second, whole outputs; in brackets, how much of SGLang's speed")
    arrow: list[str] = []
    totals: dict[str, dict[str, float]] = {}
    for dialect in dialects:
        texts = list(outputs(dialect, rows))
        size = sum(map(len, texts)) / 1e6
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file, ExitStack() as stack:
            json.dump(texts, file)
            file.flush()
            running = {one.name: stack.enter_context(Rows(one, dialect, file.name)) for one in contenders}
            for _ in range(rounds):
                for process in running.values():
                    process.turn()
        speeds = {name: size / process.best["whole"] for name, process in running.items()}
        floor = speeds.get("SGLang")
        cells = [
            f"{name} {speed:6.1f}" + (f" ({speed / floor:.1f})" if floor and name != "SGLang" else "")
            for name, speed in speeds.items()
        ]
        print(f"  {dialect:<14}" + "   ".join(cells), flush=True)
        costs = {name: process.best for name, process in running.items() if "loop" in process.best}
        arrow.append(_costs(dialect, costs))
        for name, times in costs.items():
            before = totals.setdefault(name, dict.fromkeys(TABLES, 0.0))
            totals[name] = {task: before[task] + times[task] for task in TABLES}
    print(f"what a table costs, in batches of {' and of '.join(map(str, SIZES))} rows: over parse in a loop")
    print("that drops each message, and over one that keeps as many as the batch has")
    print(*arrow, _costs("together", totals), sep="\n")


def _costs(of: str, costs: Mapping[str, Mapping[str, float]]) -> str:
    cells = [
        f"{name:<17}"
        + "   ".join(
            f"{best[f'table {size}'] / best['loop'] - 1:+4.0%} "
            f"{best[f'table {size}'] / best[f'kept {size}'] - 1:+4.0%}"
            for size in SIZES
        )
        for name, best in costs.items()
    ]
    return f"  {of:<14}" + "      ".join(cells)


# -- files


def through_files(gigabytes: float, jobs: int) -> None:
    """Make JSON lines and send them through ``unspool batch``; print what that takes."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "rows.jsonl"), Path(folder, "out")
        texts = list(outputs("hermes", 2000))
        block = "".join(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts))
        data = block.encode()
        with source.open("wb") as file:
            while file.tell() < gigabytes * 1e9:
                file.write(data)
        size = source.stat().st_size
        begun = time.monotonic()
        command = [sys.executable, "-m", "unspool", "batch", str(source), str(out), "--dialect", "hermes"]
        run = subprocess.Popen([*command, "--jobs", str(jobs), "--quiet"])  # noqa: S603 - our own
        _, status, used = os.wait4(run.pid, 0)
        seconds = time.monotonic() - begun
        if status:
            raise SystemExit("unspool batch failed")
        memory = [
            json.loads(record.read_text(encoding="utf-8"))["memory"] / 1e6
            for record in sorted(
                (out / "_done").glob("part-*.json"), key=lambda path: path.stat().st_mtime_ns
            )
        ]
        tenth = max(1, len(memory) // 10)
        print(
            f"{size / 1e9:.1f} GB in {len(memory)} parts by {jobs} processes: {seconds:.0f} s, "
            f"{size / 1e6 / seconds:.1f} MB/s\n"
            f"  most memory of a worker: {max(memory[:tenth]):.0f} MB after a tenth of the parts, "
            f"{max(memory):.0f} MB after all; of the main process {used.ru_maxrss / 1e3:.0f} MB"
        )


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
        return
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("dialects", nargs="*", default=DIALECTS)
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--gigabytes", type=float, default=0)
    options.add_argument("--jobs", type=int, default=2)
    given = options.parse_args()
    if given.gigabytes:
        through_files(given.gigabytes, given.jobs)
    else:
        beside(given.dialects, given.rows, given.rounds)


if __name__ == "__main__":
    main()
