"""Parsing speed compared with a lower bound (the *floor*) and with other engines' parsers, in one run.

Every contender runs in a process and an environment of its own, one after the other: unspool
in Python and compiled (``make build/compiled/unspool``), and the other engines if
``python -m lab.environments vllm sglang transformers harmony`` has installed them. The output
lists missing contenders.

    python benchmarks/parse.py                  # everything; prints tables, keeps build/bench.json
    python benchmarks/parse.py --only unspool,SGLang --limit 0.3    # CPU seconds per workload
    python benchmarks/parse.py --publish        # also writes plots, docs/speed.md and history.jsonl
    python benchmarks/parse.py --from build/bench.json --publish    # publishes an earlier run
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from parsing import history, report, workloads

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
KEPT = ROOT / "build" / "bench.json"
TIME_LIMIT = 900
"""Time limit of a process in seconds."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Contender:
    """Parser to measure."""

    name: str
    module: str
    environment: str = ""
    """Folder in ``.peers``; empty for the environment of this process."""
    path: str = ""
    """Folder to import from first."""

    @property
    def is_unspool(self) -> bool:
        """True if it is unspool."""
        return self.module == "unspool"

    @property
    def python(self) -> Path:
        """Path of the interpreter."""
        peer_python = self.environment and ROOT / ".peers" / self.environment / "bin" / "python"
        return Path(peer_python or sys.executable)

    @property
    def missing(self) -> str:
        """Instruction for installing a missing contender, or an empty string."""
        if not self.python.exists():
            return f"not installed; run python -m lab.environments {self.environment}"
        if self.path and not (ROOT / self.path).exists():
            return f"not built; run make {self.path}/unspool"
        return ""

    def run(self, module: str, *arguments: str) -> Iterator[Json]:
        """Run a module in the contender's environment and yield its output."""
        vocabulary = ROOT / ".peers/vocabularies/node_modules/gpt-tokenizer/data"
        environment = dict(os.environ, TIKTOKEN_ENCODINGS_BASE=str(vocabulary))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [self.path and str(ROOT / self.path)]))
        completed = subprocess.run(  # noqa: S603 - our own command
            [str(self.python), "-m", module, *arguments],
            cwd=HERE,
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=TIME_LIMIT,
            check=False,
        )
        yield from map(json.loads, completed.stdout.splitlines())
        if completed.returncode:
            yield {"failed": (completed.stderr.strip().splitlines() or ["without a word"])[-1]}


CONTENDERS = (
    Contender("floor", "floor"),
    Contender("floor, a method", "method"),
    Contender("unspool", "unspool"),
    Contender("unspool compiled", "unspool", path="build/compiled"),
    Contender("vLLM", "vllm", "vllm"),
    Contender("SGLang", "sglang", "sglang"),
    Contender("transformers", "transformers", "transformers"),
    Contender("openai-harmony", "harmony", "harmony"),
    Contender("jiter", "jiter", "vllm"),
    Contender("ijson", "ijson", "vllm"),
    Contender("partial-json-parser", "partial_json", "vllm"),
)


def _conditions() -> Json:
    """Return the conditions of the run."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "revision": _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--short", "src") else ""),
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "load": [os.getloadavg()[0]],
    }


def _git(*arguments: str) -> str:
    completed = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    return completed.stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def measure(names: list[str], limit: float) -> Json:
    """Return the results of the named contenders."""
    results: Json = {"conditions": _conditions(), "limit": limit, "missing": {}, "resources": {}, "cells": []}
    with tempfile.TemporaryDirectory() as folder:
        common, is_unspool = Path(folder, "common.jsonl"), Path(folder, "own.jsonl")
        workloads.write(common, chain(workloads.streamed(), workloads.whole()))
        workloads.write(is_unspool, workloads.hostile())
        for contender in CONTENDERS:
            if names and contender.name not in names:
                continue
            started, cpu = time.monotonic(), os.times().children_user
            results["missing"] |= {contender.name: contender.missing} if contender.missing else {}
            if not contender.missing:
                _measure(contender, results, [common, is_unspool] if contender.is_unspool else [common])
            spent = os.times().children_user - cpu
            note = contender.missing or f"{time.monotonic() - started:.0f} s, {spent:.0f} s of CPU"
            print(f"{contender.name}: {note}", file=sys.stderr, flush=True)
    results["conditions"]["load"].append(os.getloadavg()[0])
    return results


def _measure(contender: Contender, results: Json, files: list[Path]) -> None:
    try:
        for file in files:
            for cell in contender.run("parsing.measure", contender.module, str(file), str(results["limit"])):
                if "failed" in cell:
                    results["missing"][contender.name] = cell["failed"]
                else:
                    results["cells"].append({"contender": contender.name, **cell})
        if contender.is_unspool:
            results["resources"][contender.name] = next(contender.run("parsing.resources"))
    except subprocess.TimeoutExpired:
        results["missing"][contender.name] = f"stopped after {TIME_LIMIT} s"


def main() -> None:
    """Measure, print and publish."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=0.5)
    parser.add_argument("--from", dest="kept", type=Path)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    if options.only and options.publish:
        parser.error("--publish needs every contender; omit --only")
    if options.kept:
        results = json.loads(options.kept.read_text(encoding="utf-8"))
    else:
        results = measure([name for name in options.only.split(",") if name], options.limit)
        if not options.only:
            KEPT.parent.mkdir(exist_ok=True)
            KEPT.write_text(json.dumps(results), encoding="utf-8")
    print(report.text(results))
    if options.publish:
        from parsing import plots

        plots.draw(results, ROOT / "docs" / "speed")
        report.rewrite(ROOT / "docs" / "speed.md", results)
        history.append(HERE / "history.jsonl", results)


if __name__ == "__main__":
    main()
