"""Fuzz the targets and print the results: ``python -m fuzz.run --minutes 10 [--target feed] [--build pure]``.

Each target starts with its seeds, which are derived from the repository, and with the
stored inputs of former runs (``fuzz/corpus``). New inputs go to ``build/fuzz``; ``--keep``
copies them to ``fuzz/corpus`` up to a size limit. Every run adds a line to
``build/fuzz/runs.jsonl``; ``--totals`` sums them up.

Needs: atheris, which it installs; for the compiled build ``make build/compiled/unspool``.
Takes: ``--minutes``, 10 unless given.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Final, Literal, TypeAlias

from fuzz.outputs import ROOT
from fuzz.targets import NAMES, seeds
from lab import environments

Build: TypeAlias = Literal["pure", "compiled"]
Way: TypeAlias = Literal["guided", "chance"]
"""Choice of inputs: guided by coverage (``shell.py``), or by chance (``chance.py``)."""

WORK: Final = ROOT / "build" / "fuzz"
CORPUS: Final = ROOT / "fuzz" / "corpus"
LOG: Final = WORK / "runs.jsonl"
SOURCES: Final[dict[Build, Path]] = {"pure": ROOT / "src", "compiled": ROOT / "build" / "compiled"}
COMPILED: Final = ("feed", "prompts", "wires", "ids", "conversations", "messages", "schemas")
"""Targets of compiled code; ``builds`` compares both builds."""
_LONGEST: Final = 2048
_SECONDS: Final = 20
"""Time limit per input in seconds; exceeding it is a finding."""
_MEGABYTES: Final = 2048
_KEPT: Final = 16_000
"""Largest size of a target's corpus in the repository, in bytes."""
_STATUS: Final = re.compile(r"^#\d+\t\w+ +cov: (\d+) ft: (\d+)", re.MULTILINE)
_UNITS: Final = re.compile(r"^stat::number_of_executed_units: *(\d+)", re.MULTILINE)
_PULSE: Final = re.compile(r"^#(\d+)\t", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """Run of one target against one build, with its results."""

    target: str
    build: Build
    way: Way
    inputs: int
    seconds: float
    coverage: int
    features: int
    new: int
    """Number of inputs that reached new code."""
    findings: list[str] = field(default_factory=list)


def fuzz(target: str, build: Build, way: Way, seconds: int) -> Run:
    """Run a target for ``seconds``."""
    corpus, start, found = (WORK / target / name for name in ("corpus", "seeds", f"findings-{build}"))
    for folder in (corpus, start, found, CORPUS / target):
        folder.mkdir(parents=True, exist_ok=True)
    for data in seeds(target):
        (start / sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
    before, old = len(list(corpus.iterdir())), set(found.iterdir())
    folders = [str(folder) for folder in (corpus, start, CORPUS / target)]
    began = time.monotonic()
    if way == "guided":
        inputs, coverage, features = _guided(target, found, seconds, folders)
    else:
        output = _python(build, "fuzz.chance", target, str(found), str(seconds), *folders)
        inputs, coverage, features = int(output.stdout.strip() or 0), 0, 0
    elapsed = time.monotonic() - began
    new = sorted(path.name for path in set(found.iterdir()) - old if path.suffix != ".txt")
    if not inputs and not new:
        new = ["it did not run"]
    added = len(list(corpus.iterdir())) - before
    return Run(target, build, way, inputs, round(elapsed, 1), coverage, features, added, new)


def _guided(target: str, found: Path, seconds: int, folders: Sequence[str]) -> tuple[int, int, int]:
    """Run libFuzzer; return the number of inputs, and the coverage and features that they reached."""
    output = _shell(
        target,
        f"-max_total_time={seconds}",
        f"-artifact_prefix={found}/",
        f"-dict={_dictionary()}",
        *folders,
    )
    (WORK / target / "libfuzzer.log").write_text(output, encoding="utf-8")
    states = _STATUS.findall(output) or [("0", "0")]
    units = _UNITS.findall(output) or _PULSE.findall(output) or ["0"]
    return int(units[-1]), int(states[-1][0]), int(states[-1][1])


def _shell(target: str, *options: str) -> str:
    """Run a target under libFuzzer and return its output."""
    limits = [f"-max_len={_LONGEST}", f"-rss_limit_mb={_MEGABYTES}"]
    # Generous, because the machine may be busy.
    limits += [
        f"-timeout={_SECONDS}",
        f"-report_slow_units={_SECONDS}",
    ]
    found = str(WORK / target / "findings-pure")
    return _python("pure", "fuzz.shell", target, found, "-print_final_stats=1", *limits, *options).stderr


def _python(build: Build, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SOURCES[build], ROOT)))}
    return subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", module, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _dictionary() -> Path:
    """Write libFuzzer's dictionary: the markers of all dialects, and words of JSON and of requests."""
    from unspool import list_dialects
    from unspool.testing import markers

    words = {marker for dialect in list_dialects() for marker in markers(dialect)}
    words |= {
        '{"',
        '": ',
        '"}',
        '["',
        "null",
        "true",
        "<",
        "</",
        "\\u",
        '\\"',
        "```",
        "data: ",
        "\n\n",
        "\x1e",
    }
    for name in ("bodies", "schemas"):
        words |= {
            found for data in seeds(name) for found in re.findall(r'"\w+":', data.decode("utf-8", "replace"))
        }
    path = WORK / "dictionary"
    lines = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in sorted(words) if len(word) < 60)
    path.write_text("".join(f'"{line}"\n' for line in lines), encoding="utf-8")
    return path


def keep(target: str) -> int:
    """Copy inputs with new coverage into the repository, up to the size limit; return their number."""
    kept = CORPUS / target
    kept.mkdir(parents=True, exist_ok=True)
    hashed = [path for path in kept.iterdir() if re.fullmatch(r"[0-9a-f]{40}", path.name)]
    found = [*(WORK / target / "corpus").glob("*"), *hashed]
    contents = {path.name: path.read_bytes() for path in sorted(found, key=lambda path: path.stat().st_size)}
    for path in hashed:  # files with other names are fixed findings, which stay
        path.unlink()
    size = count = 0
    for name in _spread(list(contents)):
        if size + len(contents[name]) <= _KEPT:
            size += len(contents[name])
            count += 1
            (kept / name).write_bytes(contents[name])
    return count


def _spread(found: Sequence[str]) -> Iterator[str]:
    """Yield every eighth item, then every fourth, and so on, so that any prefix is a fair sample."""
    seen: set[str] = set()
    for step in (8, 4, 2, 1):
        for name in found[::step]:
            if name not in seen:
                seen.add(name)
                yield name


def table(runs: Iterable[Run]) -> str:
    """Return a table with a line per run."""
    rows = [
        "| target | build | inputs | per second | coverage | features | new | findings |",
        "|---|---|" + "--:|" * 6,
    ]
    total = seconds = findings = 0.0
    for run in runs:
        rate = run.inputs / run.seconds if run.seconds else 0
        rows.append(
            f"| {run.target} | {run.build}, {run.way} | {run.inputs:,} | {rate:,.0f} "
            f"| {run.coverage:,} | {run.features:,} | {run.new} | {len(run.findings)} |"
        )
        total, seconds, findings = total + run.inputs, seconds + run.seconds, findings + len(run.findings)
    rows.append(f"| all | | {total:,.0f} | {total / seconds if seconds else 0:,.0f} | | | | {findings:.0f} |")
    return "\n".join([*rows, f"{seconds / 60:.0f} minutes of fuzzing"])


def totals() -> list[Run]:
    """Return the sums over all runs of each target and build."""
    found: dict[tuple[str, str, str], Run] = {}
    for line in LOG.read_text(encoding="utf-8").splitlines() if LOG.is_file() else ():
        run = Run(**json.loads(line))
        old = found.get((run.target, run.build, run.way))
        if old is not None:
            run = Run(
                run.target,
                run.build,
                run.way,
                old.inputs + run.inputs,
                old.seconds + run.seconds,
                max(old.coverage, run.coverage),
                max(old.features, run.features),
                old.new + run.new,
                [*old.findings, *run.findings],
            )
        found[run.target, run.build, run.way] = run
    return list(found.values())


def _wanted(target: str, build: str, way: str) -> list[tuple[str, Build, Way]]:
    targets = [name for name in NAMES if target in ("", name)]
    if not targets:
        raise SystemExit(f"unknown target {target!r}; choose one of {', '.join(NAMES)}")
    found: list[tuple[str, Build, Way]] = [(name, "pure", "guided") for name in targets]
    found += [(name, "pure", "chance") for name in targets if name != "builds"]
    if SOURCES["compiled"].is_dir():
        found += [(name, "compiled", "chance") for name in targets if name in COMPILED]
    return [each for each in found if build in ("", each[1]) and way in ("", each[2])]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="total time for all targets")
    parser.add_argument("--target", default="", help="run only this target")
    parser.add_argument("--build", default="", choices=("", "pure", "compiled"), help="run only this build")
    parser.add_argument("--way", default="", choices=("", "guided", "chance"), help="run only this way")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    parser.add_argument(
        "--keep", action="store_true", help="copy inputs with new coverage to fuzz/corpus and exit"
    )
    parser.add_argument("--totals", action="store_true", help="print the sums of all runs so far and exit")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    if options.totals:
        print(table(totals()))
        return 0
    wanted = _wanted(options.target, options.build, options.way)
    if options.keep:
        for name in dict.fromkeys(name for name, _, _ in wanted):
            print(f"{name}: {keep(name)} inputs")
        return 0
    if any(way == "guided" for _, _, way in wanted):
        environments.add("atheris", "atheris>=3.0,<4")
    seconds = max(1, round(options.minutes * 60 * options.jobs / len(wanted)))

    def one(what: tuple[str, Build, Way]) -> Run:
        run = fuzz(*what, seconds)
        with LOG.open("a", encoding="utf-8") as log:
            log.write(json.dumps(asdict(run)) + "\n")
        print(
            f"{run.target} {run.build}: {run.inputs:,} inputs, {len(run.findings)} findings", file=sys.stderr
        )
        return run

    with ThreadPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(one, wanted))
    print(table(runs))
    for run in runs:
        for finding in run.findings:
            print(f"{run.target} ({run.build}): {WORK / run.target / f'findings-{run.build}' / finding}")
    return 1 if any(run.findings for run in runs) else 0


if __name__ == "__main__":
    raise SystemExit(main())
