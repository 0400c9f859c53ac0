"""Speed of parsing complete outputs in bulk: compared with SGLang's parser, through Arrow, and from files.

    python benchmarks/batch.py [DIALECT ...] [--rows N] [--rounds N] [--gigabytes N] [--jobs N]

Three measurements, each of them in one run and in CPU seconds:

* the speed of parsing complete outputs, pure and compiled, next to SGLang's parser: the
  contenders read the same rows in turns, and the best round of each counts;
* the overhead of a table compared with ``parse`` in a loop, with call ids derived from the row in
  both. One loop drops each message, so its memory stays in the nearest cache. Another loop keeps
  the messages of a whole batch, as a table must;
* with ``--gigabytes``: the time and memory of ``unspool batch`` for generated JSON Lines.

``python -m lab.environments sglang`` and ``make build/compiled/unspool`` install the contenders.
SGLang takes minutes for a few hundred rows of ``pythonic``, so this dialect runs only if it is named.
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
"""Rows per batch: the defaults of ``unspool batch`` and of ``datasets``."""
TABLES: Final = ("loop", *(f"{what} {size}" for size in SIZES for what in ("kept", "table")))
"""Tasks of the table measurement."""


def outputs(dialect: str, rows: int) -> Iterator[str]:
    """Yield answers of one to three thousand characters, with one or two calls."""
    from unspool import Message, ToolCall, get_dialect, render

    for number in range(rows):
        content = "" if dialect in ("llama3_json", "pythonic") else filled(PROSE, 200 + number * 37 % 1500)
        first = {"location": f"Oslo {number}", "unit": "C", "days": number % 7}
        second = {"path": f"{number}.py", "content": filled(CODE, 300 + number * 53 % 900)}
        # Some parsers accept only ids in their own format.
        new_id = get_dialect(dialect).id_format.seeded(number)
        calls = [ToolCall(new_id("get_weather", 0), "get_weather", json.dumps(first))]
        if number % 3:
            calls.append(ToolCall(new_id("write_file", 1), "write_file", json.dumps(second)))
        yield render(Message(content=content or None, tool_calls=tuple(calls)), dialect, check=False)


# -- contenders, each in a process of its own that reads all rows on request


def serve(module: str, dialect: str, file: str) -> None:
    """Run the task named by each input line, and print its CPU seconds."""
    rows: list[str] = json.loads(Path(file).read_text(encoding="utf-8"))
    tasks = _tasks(module, dialect, rows)
    for line in sys.stdin:
        task = tasks[json.loads(line)]
        started = time.thread_time()  # excludes the spinning threads of numpy
        task()
        print(time.thread_time() - started, flush=True)


def _tasks(module: str, dialect: str, rows: list[str]) -> dict[str, Callable[[], object]]:
    contender: Any = importlib.import_module(f"parsing.contenders.{module}")
    reader = contender.reader(dialect, "whole")
    found = reader.whole
    calls = sum(len(reader.answer([found(row)]).calls) for row in rows)
    if calls != sum(row.count("get_weather") + row.count("write_file") for row in rows):
        raise SystemExit(f"{module} does not find every call of {dialect}, so its speed is meaningless")

    def whole() -> None:
        for row in rows:
            found(row)

    return {"whole": whole, **(_table(dialect, rows) if module == "unspool" else {})}


def _table(dialect: str, rows: list[str]) -> dict[str, Callable[[], None]]:
    import pyarrow as pa

    from unspool import parse
    from unspool.batch import parse_batches
    from unspool.parser import seeded_ids

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
    """Contender that waits for its turn."""

    def __init__(self, contender: Contender, dialect: str, file: str) -> None:
        self.name = contender.name
        self.best: dict[str, float] = {}
        self._tasks = ("whole", *TABLES) if contender.module == "unspool" else ("whole",)
        environment = dict(os.environ, PYTHONPATH=str(HERE.parent / (contender.path or "src")))
        super().__init__(
            [str(contender.python), __file__, "--serve", contender.module, dialect, file], environment
        )

    def turn(self) -> None:
        """Read all rows with every task."""
        for task in self._tasks:
            seconds = self.ask(task)
            self.best[task] = min(seconds, self.best.get(task, seconds))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def compare_parsers(dialects: Sequence[str], rows: int, rounds: int) -> None:
    """Print the tables for complete outputs and for Arrow."""
    contenders = [one for one in CONTENDERS if one.name in WANTED and not one.missing]
    for one in CONTENDERS:
        if one.name in WANTED and one.missing:
            print(f"{one.name}: {one.missing}")
    print("million characters per second, complete outputs; in brackets, relative to SGLang")
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
    print(f"overhead of a table in batches of {' and of '.join(map(str, SIZES))} rows: over parse in a loop")
    print("that drops each message, and over a loop that keeps the messages of a batch")
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


def measure_files(gigabytes: float, jobs: int) -> None:
    """Generate JSON Lines, run them through ``unspool batch`` and print time and memory."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "rows.jsonl"), Path(folder, "out")
        texts = list(outputs("hermes", 2000))
        block = "".join(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts))
        data = block.encode()
        with source.open("wb") as file:
            while file.tell() < gigabytes * 1e9:
                file.write(data)
        size = source.stat().st_size
        started = time.monotonic()
        command = [sys.executable, "-m", "unspool", "batch", str(source), str(out), "--dialect", "hermes"]
        run = subprocess.Popen([*command, "--jobs", str(jobs), "--quiet"])  # noqa: S603 - our own command
        _, status, used = os.wait4(run.pid, 0)
        seconds = time.monotonic() - started
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
            f"  peak memory of a worker: {max(memory[:tenth]):.0f} MB after a tenth of the parts, "
            f"{max(memory):.0f} MB after all; of the main process {used.ru_maxrss / 1e3:.0f} MB"
        )


def main() -> None:
    """Run the measurements."""
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("dialects", nargs="*", default=DIALECTS)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gigabytes", type=float, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if options.gigabytes:
        measure_files(options.gigabytes, options.jobs)
    else:
        compare_parsers(options.dialects, options.rows, options.rounds)


if __name__ == "__main__":
    main()
