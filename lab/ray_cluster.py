"""Test of ``unspool batch`` on a real Ray cluster of three nodes, some of which are killed.

A table of outputs is parsed by one process, by three processes, and on a cluster: undisturbed,
with a node killed at some point, and with the driver killed and restarted. Every result must
equal that of the single process, byte for byte. The table goes into ``docs/batch.md``.

Needs: Linux and the package index.
Takes: minutes with the default number of rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from lab import environments
from lab.docs_section import write_section

PARTS: Final = 40
COMMAND: Final = [sys.executable, "-m", "unspool", "batch", "--json", "--dialect", "hermes", "--key", "id"]


def outputs(rows: int) -> Iterator[dict[str, Any]]:
    """Yield rows of about three thousand characters."""
    chance = random.Random(1)  # noqa: S311 - the same rows each time
    words = ("the", "weather", "in", "Oslo", "is", "cold", "and", "wet", "so", "take", "a", "coat")
    for number in range(rows):
        thought = " ".join(chance.choices(words, k=350))
        answer = " ".join(chance.choices(words, k=120))
        arguments = json.dumps({"city": "Oslo", "day": number, "note": answer[:200]})
        call = f'<tool_call>\n{{"name": "get_weather", "arguments": {arguments}}}\n</tool_call>'
        text = f"<think>\n{thought}\n</think>\n\n{answer}\n\n{call}"
        yield {"id": f"row {number}", "text": text[:-40] if number % 97 == 0 else text}


def result(out: Path) -> dict[str, bytes]:
    """Return the written files except the manifest, which contains the options."""
    return {path.name: path.read_bytes() for path in out.glob("part-*")}


def rows_of(out: Path) -> list[str]:
    """Return the names of all written rows."""
    import pyarrow.parquet as pq

    return [
        row
        for path in sorted(out.glob("part-*"))
        for row in pq.read_table(path, columns=["id"])["id"].to_pylist()
    ]


def start_command(source: Path, out: Path, size: float, *options: str) -> subprocess.Popen[bytes]:
    """Start the command."""
    command = [*COMMAND, "--part-size", str(size), str(source), str(out), *options]
    with Path(f"{out}.log").open("ab") as log:  # Ray logs dead nodes here, at length
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True)  # noqa: S603


def machine_seconds() -> float:
    """Return the CPU seconds of the whole machine since boot, including Ray's processes and lost work."""
    spent = Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=4)[1:4]
    return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")


def wait_for_parts(run: subprocess.Popen[bytes], out: Path, parts: int) -> None:
    """Wait until a number of parts are done."""
    while len(list((out / "_done").glob("part-*.json"))) < parts:
        if run.poll() is not None:
            raise SystemExit("the work finished before anything was killed; use more rows")
        time.sleep(0.02)


class Measured:
    """Runs on a cluster or in several processes, compared with a run in one process."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self.rows = rows
        self.source = folder / "rows.jsonl"
        with self.source.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in outputs(rows))
        self.size = self.source.stat().st_size / PARTS / (1 << 20)
        self.expected: dict[str, bytes] = {}
        self.seconds: tuple[float, float] | None = None
        """CPU seconds of the run in one process: those for its parts, and those of the whole machine."""
        self.lines: list[str] = []

    def run(
        self, what: str, *options: str, disturb: Callable[[subprocess.Popen[bytes], Path], bool] | None = None
    ) -> None:
        """Run the work; ``disturb`` returns whether the command must be started again."""
        out = self.folder / what.replace(" ", "-")
        started_at, spent = time.monotonic(), machine_seconds()
        run = start_command(self.source, out, self.size, *options)
        if disturb is not None and disturb(run, out):
            run.wait()
            run = start_command(self.source, out, self.size, *options)
        output, _ = run.communicate()
        if run.returncode:
            print(Path(f"{out}.log").read_text(encoding="utf-8"), file=sys.stderr)
            raise SystemExit(f"{what}: the command failed")
        elapsed = time.monotonic() - started_at
        seconds = json.loads(output)["seconds"], machine_seconds() - spent
        written = rows_of(out)
        lost, doubled = self.rows - len(set(written)), len(written) - len(set(written))
        left = len([path for path in out.rglob("*") if path.suffix == ".tmp"])
        self.expected = self.expected or result(out)
        self.seconds = self.seconds or seconds
        same = "yes" if result(out) == self.expected else "NO"
        cpu = [f"{now / before - 1:+.0%}" for now, before in zip(seconds, self.seconds, strict=True)]
        in_parts, in_all = cpu if what != "one process" else ("", "")
        print(
            f"{what}: {elapsed:.0f} s, {seconds[0]:.1f} s of CPU in parts, {seconds[1]:.1f} s in all",
            flush=True,
        )
        self.lines.append(f"| {what} | {lost} | {doubled} | {same} | {left} | {in_parts} | {in_all} |")


def main() -> int:
    """Run everything and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--write", action="store_true", help="write the table into docs/batch.md")
    options = parser.parse_args()
    environments.enter("ray")

    import ray
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory() as folder:
        measured = Measured(Path(folder), options.rows)
        measured.run("one process")
        measured.run("three processes", "--jobs", "3")  # the cost of parallel processes without Ray
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        try:
            nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
            cluster.wait_for_nodes()
            there = ("--ray", cluster.address)
            measured.run("three nodes", *there)
            for share in (10, 50, 90):

                def kill_node(run: subprocess.Popen[bytes], out: Path, share: int = share) -> bool:
                    wait_for_parts(run, out, PARTS * share // 100)
                    cluster.remove_node(nodes.pop(), allow_graceful=False)
                    return False

                measured.run(f"a node killed at {share} %", *there, disturb=kill_node)
                nodes.append(cluster.add_node(num_cpus=1))
                cluster.wait_for_nodes()

            def kill_driver(run: subprocess.Popen[bytes], out: Path) -> bool:
                wait_for_parts(run, out, PARTS // 2)
                os.killpg(run.pid, signal.SIGKILL)
                return True

            measured.run("the driver killed at 50 % and restarted", *there, disturb=kill_driver)
        finally:
            cluster.shutdown()
    table = [
        f"{options.rows:,} rows in {PARTS} parts, Ray {ray.__version__}, a head and two nodes with one CPU:",
        "",
        "| | rows lost | doubled | same bytes | files left behind | CPU in parts | in all |",
        "|---|---|---|---|---|---|---|",
        *measured.lines,
    ]
    print(*table, sep="\n")
    if options.write:
        write_section("docs/batch.md", "ray", "\n".join(table))
    return int(any("| 0 | 0 | yes | 0 |" not in line for line in measured.lines))


if __name__ == "__main__":
    raise SystemExit(main())
