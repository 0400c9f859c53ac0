"""Comparison of two builds of unspool in one run: the cost of a change.

    python benchmarks/against.py OLD NEW [--only SCENARIO,...] [--rounds N] [--without SHORT_CUT]

``OLD`` and ``NEW`` are folders to import unspool from: ``src`` of a checkout, or a compiled
build (``make compiled`` leaves one in ``build/compiled``). The output is the new build's time
per delta divided by the old one's, by workload, with the geometric mean of each scenario. The
texts are those of ``parse.py``. The builds take turns, so that a slow phase of the machine
affects both.

``--without`` removes a short cut from the new build (in the interpreter only):
``against.py src src --without flow`` shows the time that it saves. ``shortcuts.py`` measures
all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from time import thread_time
from typing import IO

from parsing.process import Process
from parsing.workloads import TOOLS, Workload, hostile, streamed

SHARE = 0.05
"""CPU seconds per turn."""


class Build(Process):
    """Process that measures one of the two builds."""

    def __init__(self, folder: Path, without: str = "") -> None:
        environment = dict(os.environ, PYTHONPATH=str(folder.resolve()))
        super().__init__([sys.executable, __file__, "--measure", without], environment)


def measure(orders: IO[str], without: str) -> Iterator[float]:
    """Yield nanoseconds per delta for each order; runs in the process of one build."""
    from unspool import Parser

    if without:
        import shortcuts

        shortcuts.SHORT_CUTS[without]()
    dialect, deltas = "", []
    for line in orders:
        order = json.loads(line)
        if order is not None:
            dialect, deltas = order
            yield 0.0
            continue
        best, spent = float("inf"), 0.0
        while spent < SHARE:
            parser = Parser(dialect, tools=TOOLS)
            feed = parser.feed
            began = thread_time()
            for delta in deltas:
                feed(delta)
            elapsed = thread_time() - began
            parser.finish("stop")
            spent += elapsed
            if elapsed > 0:  # some machines' clocks occasionally stand still
                best = min(best, elapsed)
        yield best / len(deltas) * 1e9


def ratio(old: Build, new: Build, workload: Workload, rounds: int) -> tuple[float, float]:
    """Return both builds' nanoseconds per delta, each the best of several turns."""
    order = ("hermes" if workload.dialect == "reasoning" else workload.dialect, workload.deltas())
    for build in (old, new):
        build.ask(order)
    turns = [(old.ask(None), new.ask(None)) for _ in range(rounds)]
    return min(turn[0] for turn in turns), min(turn[1] for turn in turns)


def mean(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def main() -> None:
    """Measure and print the ratios."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", default="")
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    old, new = Build(options.old), Build(options.new, options.without)
    seen: dict[str, list[float]] = {}
    print(f"{'ns per delta':40}{'old':>8}{'new':>8}{'ratio':>7}")
    for is_hostile, workloads in ((False, streamed()), (True, hostile())):
        for workload in workloads:
            scenario = "hostile" if is_hostile else workload.scenario
            if wanted and scenario not in wanted:
                continue
            before, after = ratio(old, new, workload, options.rounds)
            seen.setdefault(scenario, []).append(after / before)
            print(f"{workload!s:40}{before:8.0f}{after:8.0f}{after / before:7.2f}", flush=True)
    print()
    for scenario, ratios in seen.items():
        print(f"{scenario:12} mean {mean(ratios):5.2f}, worst {max(ratios):5.2f}")
    usual = [value for scenario, ratios in seen.items() if scenario != "hostile" for value in ratios]
    if usual:
        print(f"{'all but hostile':12} mean {mean(usual):5.2f}, worst {max(usual):5.2f}")
    for build in (old, new):
        build.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        for figure in measure(sys.stdin, sys.argv[2]):
            print(figure, flush=True)
    else:
        main()
