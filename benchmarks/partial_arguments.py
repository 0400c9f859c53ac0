"""Cost of showing a call's arguments after each delta, for several numbers of characters before the delta.

The contenders get the same JSON, in pieces of the same size, and are asked for the value after each piece.
``PartialArguments`` reads the new piece; parsers of partial JSON read everything again.  The text before
the measured deltas is read beforehand, so that slow contenders can be measured at every size.  The
contenders take turns, and the best of several turns counts.

    pip install jiter partial-json-parser
    python benchmarks/partial_arguments.py [--rounds N] [--deltas N]

The exit status is 1 if the cost of ``PartialArguments`` at the largest size is more than twice that at 1k.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any, Final, TypeAlias

from parsing.workloads import CODE, filled, nested, pieces
from unspool import CallArgs, CallStart, PartialArguments

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
TOLERANCE: Final = 2.0

Step: TypeAlias = Callable[[str], Any]
"""Function that reads the next delta and returns the value of the arguments so far."""


def unspool_step(before: str) -> Step:
    """Return the function for ``PartialArguments``."""
    partial = PartialArguments()
    partial.feed([CallStart(0, "f", "call_0", 0, 0), CallArgs(0, before, 0, 0)])
    partial.value(0)

    def step(delta: str) -> Any:
        partial.feed([CallArgs(0, delta, 0, 0)])
        return partial.value(0)

    return step


def jiter_step(before: str) -> Step:
    """Return the function for jiter, which reads bytes."""
    from_json = import_module("jiter").from_json
    text = bytearray(before.encode())

    def step(delta: str) -> Any:
        nonlocal text
        text += delta.encode()
        return from_json(bytes(text), partial_mode="trailing-strings")

    return step


def partial_json_parser_step(before: str) -> Step:
    """Return the function for partial-json-parser."""
    loads = import_module("partial_json_parser").loads
    text = before

    def step(delta: str) -> Any:
        nonlocal text
        text += delta
        return loads(text)

    return step


CONTENDERS: Final[dict[str, Callable[[str], Step]]] = {
    "unspool": unspool_step,
    "jiter": jiter_step,
    "partial_json_parser": partial_json_parser_step,
}


def arguments(kind: str, size: int) -> str:
    """Return JSON text that is longer than ``size``: one long string, or many small values."""
    value = {"path": "a.py", "content": filled(CODE, size)} if kind == "string" else {"rows": nested(size)}
    return json.dumps(value, ensure_ascii=False)


def cost(make: Callable[[str], Step], before: str, deltas: list[str], seconds: float = 0.5) -> float:
    """Return nanoseconds per delta after ``before``; a slow contender gets fewer deltas."""
    step = make(before)
    began = perf_counter()
    done = 0
    for delta in deltas:
        step(delta)
        done += 1
        if perf_counter() - began > seconds:
            break
    return (perf_counter() - began) / done * 1e9


def measure(kind: str, size: int, rounds: int, count: int) -> dict[str, float]:
    """Return the best cost of each installed contender."""
    text = arguments(kind, size + 100 * count)
    split = pieces(text)
    length = len(split[0])
    at = size // length
    before, deltas = "".join(split[:at]), split[at : at + count]
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, make in CONTENDERS.items():
            if name == "unspool" or find_spec(name) is not None:
                gc.collect()
                best[name] = min(best.get(name, float("inf")), cost(make, before, deltas))
    return best


def main() -> int:
    """Print the costs and their ratios to those of ``PartialArguments``."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deltas", type=int, default=200)
    options = parser.parse_args()
    grows = False
    for kind in ("string", "rows"):
        print(f"{kind + ', ns per delta':24}" + "".join(f"{size:>22,}" for size in SIZES))
        costs = [measure(kind, size, options.rounds, options.deltas) for size in SIZES]
        for name in costs[0]:
            cells = [f"{each[name]:,.0f} ({each[name] / each['unspool']:,.1f}x)" for each in costs]
            print(f"  {name:22}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
        grows |= costs[-1]["unspool"] > TOLERANCE * costs[0]["unspool"]
    return int(grows)


if __name__ == "__main__":
    raise SystemExit(main())
