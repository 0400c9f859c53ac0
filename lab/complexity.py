"""Search for outputs whose cost grows faster than linearly.

For every dialect, state, unit and policy of ``unspool.testing._linear_time_law``, the tool parses a
text at several lengths, with a message builder and a wire encoder after the parser. CPU time only
selects the candidates: texts with suspicious growth, and a few others. The candidates run again under
``callgrind``, whose counts of instructions are deterministic. These counts decide. The compiled build
also reveals copies of long texts, which are hardly visible in the interpreter.

Needs: valgrind, and the compiled build (``make build/compiled/unspool``) unless ``--build src`` is given.
Takes: ``--minutes`` for each build (default: 5), and a few minutes for counting instructions.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any, Final

from lab import ROOT

BUILDS: Final = ("src", "build/compiled")
LENGTHS: Final = (2_000, 32_000)
MARGIN: Final = 1.3
"""Tolerance: sixteen times the text may take sixteen times the instructions times this factor."""
_SCREEN: Final = ((1_000, 8_000, 1.6), (4_000, 32_000, 1.35))
"""Pairs of lengths to compare by time, and the factor over linear growth that is suspicious."""
_MARK: Final = "os_getppid"
"""Interpreter function before which callgrind dumps its counts."""


def main() -> int:
    """Search each build, and return 1 if an output costs too much."""
    options = _arguments()
    if options.worker:
        return _work(options)
    if options.count:
        return _read_marked(json.loads(sys.stdin.read()))
    return max([_search(options, build) for build in options.build or BUILDS])


def _search(options: argparse.Namespace, build: str) -> int:
    """Search in one build, count instructions and print the result."""
    print(f"searching for {options.minutes:g} minutes in {build}, {options.jobs} at a time", flush=True)
    workers = [_start(options, build, number) for number in range(options.jobs)]
    tried = 0
    chosen: dict[str, dict[str, Any]] = {}
    for worker in workers:
        for line in worker.communicate()[0].splitlines():
            found = json.loads(line)
            if "tried" in found:
                tried += found["tried"]
            else:
                chosen[json.dumps(found["hostile"], sort_keys=True)] = found
    print(f"{tried:,} hostile texts read; {sum(one['suspect'] for one in chosen.values())} look suspicious")
    suspects = sorted(chosen.values(), key=lambda one: (not one["suspect"], -one["growth"]))[: options.most]
    failed = 0
    print(f"\n{'instructions':>24} {'growth':>7}  dialect, state, unit, policies, characters at a time")
    for one in suspects:
        few, many = counted_instructions(build, one["hostile"])
        growth = many / few / (LENGTHS[1] / LENGTHS[0])
        bad = growth > MARGIN
        failed += bad
        print(f"{few:>11,} {many:>12,} {growth:>7.2f}{' !' if bad else '  '} {one['told']}", flush=True)
    few, many = LENGTHS
    print(f"\n{failed} grow faster than linearly, from {few:,} to {many:,} characters; margin {MARGIN}")
    return bool(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", action="append", help="folder of the package (default: both builds)")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--most", type=int, default=40, help="number of texts to count, the most suspicious first"
    )
    parser.add_argument("--dialects", default="", help="only these dialects, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _start(options: argparse.Namespace, build: str, number: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "lab.complexity",
        "--worker",
        str(number + 1),
        "--jobs",
        str(options.jobs),
    ]
    command += [
        "--minutes",
        str(options.minutes),
        "--dialects",
        options.dialects,
        "--seed",
        str(options.seed),
    ]
    return subprocess.Popen(command, env=_environment(build), stdout=subprocess.PIPE, text=True)  # noqa: S603 - this program


def _environment(build: str) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / build), str(ROOT))),
        "PYTHONHASHSEED": "0",
    }


# -- the search


def _work(options: argparse.Namespace) -> int:
    gc.disable()
    until = time.monotonic() + 60 * options.minutes
    tried = 0
    rng = Random(f"{options.seed} {options.worker}")  # noqa: S311 - reproducible, not secret
    for hostile in _hostiles(options, rng):
        if time.monotonic() > until:
            break
        tried += 1
        growth = _growth(hostile)
        if growth or tried % 997 == 0:  # also an occasional text that is not suspicious
            candidate = {"hostile": asdict(hostile), "told": _describe(hostile)}
            print(json.dumps({**candidate, "suspect": bool(growth), "growth": growth}), flush=True)
        if tried % 64 == 0:
            gc.collect()
    print(json.dumps({"tried": tried}))
    return 0


def _hostiles(options: argparse.Namespace, rng: Random) -> Iterator[Any]:
    """Yield every dialect, state and unit once in mixed order, then pairs of units."""
    from unspool import list_dialects
    from unspool.testing._linear_time_law import HostileText, states, units
    from unspool.testing._parsing_laws import POLICIES

    names = options.dialects.split(",") if options.dialects else [dialect.name for dialect in list_dialects()]
    all_states = {name: states(name) for name in names}
    all_units = {name: units(name) for name in names}
    policies = list(POLICIES.values())
    cases = [
        (name, state, before, unit)
        for name in names
        for state, before in all_states[name].items()
        for unit in all_units[name]
    ]
    rng.shuffle(cases)
    own = cases if options.jobs == 1 else cases[options.worker - 1 :: options.jobs]
    again = 0
    while True:
        for name, state, before, unit in own:
            repeated = unit if not again else unit + rng.choice(all_units[name])
            chosen = rng.choice(policies) if rng.random() < 0.6 else policies[0]
            way: Any = rng.choices(("text", "ids", "decoded", "prompt"), (12, 2, 2, 1))[0]
            yield HostileText(name, state, before, repeated, chosen, rng.choice((1, 1, 1, 4, 0)), way)
        again += 1


def _growth(hostile: Any) -> float:
    """Return the growth of time over linear growth if it is suspicious, otherwise 0."""
    growth = 0.0
    for short, long, margin in _SCREEN:
        for _ in range(2):  # another process may have caused the first result
            growth = _seconds(hostile, long) / _seconds(hostile, short) / (long / short)
            if growth <= margin:
                return 0.0
    return growth


def _seconds(hostile: Any, size: int) -> float:
    before = time.thread_time()
    hostile.read(size)
    return time.thread_time() - before


# -- decision


def counted_instructions(build: str, hostile: dict[str, Any]) -> tuple[int, int]:
    """Return the number of instructions for both lengths."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "counts"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", f"--dump-before={_MARK}"]
        done = subprocess.run(  # noqa: S603 - this program
            [*command, sys.executable, "-m", "lab.complexity", "--count"],
            env=_environment(build),
            input=json.dumps(hostile),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"callgrind failed:\n{done.stderr[-2000:]}")
        counts = [
            int(match[1])
            for number in range(1, 4)
            if (
                match := re.search(
                    r"^summary: (\d+)", (out.parent / f"counts.{number}").read_text(), re.MULTILINE
                )
            )
        ]
    return counts[1], counts[2]


def _read_marked(candidate: dict[str, Any]) -> int:
    from unspool import Policies
    from unspool.testing._linear_time_law import HostileText

    hostile = HostileText(**{**candidate, "policies": Policies(**candidate["policies"])})
    hostile.read(LENGTHS[0])  # fill the caches, whose cost is not counted
    gc.disable()
    for length in LENGTHS:
        os.getppid()
        hostile.read(length)
    os.getppid()
    return 0


def _describe(hostile: Any) -> str:
    from unspool import Policies

    default = Policies()
    changed = [
        f"{name}={getattr(hostile.policies, name)}"
        for name in default.__slots__
        if getattr(hostile.policies, name) != getattr(default, name)
    ]
    return ", ".join(
        (hostile.dialect, hostile.state, repr(hostile.unit), " ".join(changed) or "default",
         str(hostile.step or "all"), hostile.input_form)
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
