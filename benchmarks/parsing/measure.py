"""Run one contender on the workloads, in this process: ``python -m parsing.measure NAME FILE LIMIT``.

Prints a JSON object per workload. Times are CPU times of the thread, so that other programs
affect them only through the cache.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import thread_time
from typing import Any

from .contenders import Reader, Start, floor
from .workloads import SIZES, Workload, read

RUNS = 200
"""Largest number of runs per workload; the best run counts, as the least disturbed."""
SHARE = 0.3
"""Share of the time limit for these runs."""
GRACE = 3.0
"""Seconds after the time limit at which a delta that has not returned is stopped."""

Json = dict[str, Any]


class OutOfTime(BaseException):
    """Time limit exceeded; not an ``Exception``, so that a parser cannot catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``OutOfTime`` after ``seconds`` of CPU time."""

    def stop(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@dataclass(slots=True)
class Run:
    """Run over one output, as far as the time limit allowed."""

    stamps: list[tuple[int, float]]
    """Number of deltas since the previous stamp, and their seconds."""
    seconds: float

    @property
    def parsed(self) -> int:
        """Number of parsed deltas."""
        return sum(deltas for deltas, _ in self.stamps)

    def curve(self) -> list[tuple[int, float]]:
        """Return nanoseconds per delta around some positions, each a third further than the previous."""
        found: list[tuple[int, float]] = []
        at, deltas, spent = 0, 0, 0.0
        for more, seconds in self.stamps:
            at, deltas, spent = at + more, deltas + more, spent + seconds
            if deltas >= at / 4:
                found.append((at - deltas // 2, spent / deltas * 1e9))
                deltas, spent = 0, 0.0
        return found


def run_with_clock(start: Start, items: Sequence[Any], limit: float) -> Run:
    """Parse with occasional looks at the clock."""
    feed, finish = start()
    stamps: list[tuple[int, float]] = []
    at, size = 0, 64
    gc.collect()
    began = last = thread_time()
    while at < len(items) and last - began < limit:
        block = items[at : at + size]
        for item in block:
            feed(item)
        now = thread_time()
        at += len(block)
        stamps.append((len(block), now - last))
        if now - last < 0.001:
            size *= 2
        last = now
    if at == len(items):
        finish()
    return Run(stamps, thread_time() - began)


def results(start: Start, items: Sequence[Any]) -> list[Any]:
    """Return all results of the parser, without timing, because storing results takes time."""
    feed, finish = start()
    return [*map(feed, items), finish()]


def time_run(start: Start, items: Sequence[Any]) -> float:
    """Return the seconds for parsing everything, including the end."""
    feed, finish = start()
    began = thread_time()
    for item in items:
        feed(item)
    finish()
    return thread_time() - began


def best(seconds: float, *runs: Callable[[], float]) -> list[tuple[float, float]]:
    """Return the best time of each function, and the relative difference between two halves of its runs.

    The functions take turns, so that a slow phase of the machine affects all of them.
    """
    found = [[run()] for run in runs]
    gc.collect()
    while len(found[0]) < RUNS and (sum(found[0]) < seconds or len(found[0]) < 2):
        for times, run in zip(found, runs, strict=True):
            times.append(run())
    halves = [(min(times[::2]), min(times[1::2])) for times in found]
    return [(min(pair), max(pair) / min(pair) - 1) for pair in halves]


def stream(reader: Reader, workload: Workload, limit: float) -> Json:
    """Measure the cost per delta."""
    deltas = workload.deltas()
    items = reader.prepare(deltas)
    try:
        with time_limit(limit + GRACE):
            run = run_with_clock(reader.start, items, limit)
    except OutOfTime:
        return {"stopped": limit + GRACE}
    cell: Json = {"deltas": len(items), "done": run.parsed, "characters": len(workload.text)}
    complete = run.parsed == len(items)
    if complete and workload.expected is not None and reader.answer is not None:
        cell["verdict"] = reader.answer(results(reader.start, items)).differs(workload.expected)

    def read() -> float:
        return time_run(reader.start, items)

    def append() -> float:
        return time_run(floor.start, deltas)

    if complete and run.seconds < limit / 2:
        (seconds, noise), (least, shaky) = best(limit * SHARE, read, append)
    else:
        seconds, noise = run.seconds, 0.0
        [(least, shaky)] = best(limit * SHARE / 10, append)
    curve = run.curve()
    return cell | {
        "ns": seconds / run.parsed * 1e9,
        "noise": noise + shaky,
        "floor": least / len(deltas) * 1e9,
        "first": curve[0][1],
        "last": curve[-1][1],
        "curve": curve if workload.scenario in SIZES else [],
    }


def whole(reader: Reader, workload: Workload, limit: float) -> Json:
    """Measure a text in one piece, and ``json.loads`` of the arguments in this text."""
    assert reader.whole is not None  # noqa: S101
    read_all, item = reader.whole, reader.prepare([workload.text])[0]
    cell: Json = {"characters": len(workload.text), "noise": 0.0}

    def once(call: Callable[[Any], Any], text: Any) -> float:
        began = thread_time()
        call(text)
        return thread_time() - began

    began = thread_time()
    try:
        with time_limit(limit):
            result = read_all(item)
    except OutOfTime:
        return cell | {"stopped": thread_time() - began}
    seconds = thread_time() - began
    if workload.expected is not None and reader.answer is not None:
        cell["verdict"] = reader.answer([result]).differs(workload.expected)
    if seconds < limit / 4:
        [(seconds, cell["noise"])] = best(limit * SHARE, lambda: once(read_all, item))
    cell["ns"] = seconds * 1e9
    if workload.expected and workload.expected.calls:
        arguments = workload.expected.calls[0][1]
        cell["loads"] = best(limit * SHARE, lambda: once(json.loads, arguments))[0][0] * 1e9
    return cell


def cells(name: str, workloads: Iterator[Workload], limit: float) -> Iterator[Json]:
    """Measure the contender on each workload."""
    contender = import_module(f".contenders.{name}", __package__)
    stopped: dict[str, str] = {}
    for workload in workloads:
        cell: Json = {
            "version": contender.VERSION,
            "dialect": workload.dialect,
            "scenario": workload.scenario,
            "whole": workload.whole,
        }
        long = workload.scenario in SIZES
        try:
            reader = contender.reader(workload.dialect, workload.scenario)
            if reader is None or (workload.whole and reader.whole is None):
                continue
            if long and workload.dialect in stopped:
                cell["skipped"] = stopped[workload.dialect]
            else:
                cell |= (whole if workload.whole else stream)(reader, workload, limit)
        except Exception as error:  # noqa: BLE001 - every exception is reported as the answer
            cell["verdict"] = f"{type(error).__name__}: {error}"[:120]
        if long and cell.get("done") != cell.get("deltas"):
            stopped[workload.dialect] = workload.scenario
        yield cell


def main() -> None:
    """Run the measurements that the arguments select."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output printed by a peer is not a result
    name, file, limit = sys.argv[1:]
    for cell in cells(name, read(Path(file)), float(limit)):
        output.write(json.dumps(cell) + "\n")
        output.flush()


if __name__ == "__main__":
    main()
