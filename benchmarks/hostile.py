"""Effect of an attack on the other clients of a gateway.

The setup is a gateway in a process of its own, an engine that writes 64 streams at 20 deltas
per second each, and a client that requests ``/health`` fifty times per second. The first
measurement is without attackers, the second while ``hostile_clients.py`` attacks: 500 idle or
dripping connections, endless headers, slow bodies, bodies of 31 MB that are expensive to
decode, templates that loop, schemas with hundreds of optional properties, references to large
stored items, long conversations that are read and extended, and clients that never read.

    python benchmarks/hostile.py [--seconds N] [--rounds N] [--workers N] [--set NAME=VALUE ...]
        [--only ATTACK ...]

The attackers run at the lowest priority, because they share the machine with the gateway: the
subject is the effect of a connection, not of a busy core. The limits are the gateway's
defaults except for three timeouts, which are shorter so that they expire during the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import uvloop

import gateway
from gateway import COMPLETION, TEMPLATE, process_tree

STREAMS: Final = 64
PACE: Final = 20.0
"""Deltas per second and stream."""
PATIENCE: Final = {
    "header_timeout": "5",
    "keep_alive_timeout": "5",
    "client_timeout": "10",
    "shutdown_timeout": "1",
}
CONFIG: Final = """
upstream = "completions"
engine = "vllm"
dialect = "hermes"
request_templates = true
[models.m]
url = "http://127.0.0.1:{engine}"
template = "{template}"
[models.flood]
url = "http://127.0.0.1:{flood}"
template = "{template}"
"""
REQUEST: Final = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b"
)
HEALTH: Final = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


class Engine(gateway.Engine):
    """Engine that writes endlessly at a fixed pace."""

    def step(self) -> None:
        if not self.transport.is_closing():
            payload = COMPLETION % (b" word", b"null")
            self.transport.write(b"%x\r\ndata: %b\n\n\r\n" % (len(payload) + 8, payload))
            self.due += 1 / PACE
            self.loop.call_at(self.due, self.step)


class Reader(asyncio.Protocol):
    """Client of a stream that records the arrival times of deltas."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        body = json.dumps({"messages": [{"role": "user", "content": "x"}], "stream": True}).encode()
        sender: Any = transport
        sender.write(REQUEST % (len(body), body))

    def data_received(self, data: bytes) -> None:
        # Deltas that arrive together count separately, so that the others do not hide a delay.
        self.times += [time.monotonic()] * data.count(b"word")

    def connection_lost(self, _: Exception | None) -> None:
        self.lost = True


class NormalClients:
    """Well-behaved clients."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.health: list[float] = []
        self.own_delays: list[float] = []
        """Delays of this process itself, which every measurement includes."""
        self.unanswered = 0

    async def start(self) -> None:
        """Start all streams."""
        loop = asyncio.get_running_loop()
        self.readers = [
            (await loop.create_connection(Reader, "127.0.0.1", self.port))[1] for _ in range(STREAMS)
        ]

    async def measure(self, seconds: float) -> dict[str, str]:
        """Measure for ``seconds`` seconds, and return the results."""
        self.health, self.own_delays, self.unanswered = [], [], 0
        for reader in self.readers:
            reader.times.clear()
        began = time.monotonic()
        asking: set[asyncio.Task[None]] = set()
        while time.monotonic() < began + seconds:
            task = asyncio.create_task(self.ask())
            asking.add(task)
            task.add_done_callback(asking.discard)
            due = time.monotonic() + 0.02
            await asyncio.sleep(0.02)
            self.own_delays.append((time.monotonic() - due) * 1000)
        if asking:
            await asyncio.wait(asking)
        elapsed = time.monotonic() - began
        gaps = [
            (later - sooner) * 1000
            for reader in self.readers
            for sooner, later in zip(reader.times, reader.times[1:], strict=False)
        ]
        deltas = sum(len(reader.times) for reader in self.readers)
        return {
            "/health p50": f"{percentile(self.health, 0.5):.1f} ms",
            "/health p99": f"{percentile(self.health, 0.99):.1f} ms",
            "/health max": f"{max(self.health):.1f} ms",
            "/health asked": str(len(self.health)),
            "/health unanswered": str(self.unanswered),
            "client delay p99": f"{percentile(self.own_delays, 0.99):.1f} ms",
            "deltas/s and stream": f"{deltas / elapsed / STREAMS:.2f}",
            "gap between deltas p50": f"{percentile(gaps, 0.5):.1f} ms",
            "gap between deltas p99": f"{percentile(gaps, 0.99):.1f} ms",
            "gap between deltas max": f"{max(gaps):.1f} ms",
            "streams lost": str(sum(reader.lost for reader in self.readers)),
        }

    async def ask(self) -> None:
        """Request the gateway's health on a new connection."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(10):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(HEALTH)
                line = await reader.readline()
                writer.close()
                if b" 200 " not in line:
                    self.unanswered += 1
        except (OSError, TimeoutError):
            self.unanswered += 1
        self.health.append((time.monotonic() - began) * 1000)


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which this part of the values lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def memory(pid: int) -> float:
    """Return the memory of a process and its descendants, in MB."""
    found = 0
    for one in process_tree(pid):
        status = Path(f"/proc/{one}/status").read_text(encoding="ascii")
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        found += int(match[1]) if match else 0
    return found / 1024


def descriptors(pid: int) -> int:
    """Return the number of open files of a process and its descendants."""
    return sum(len(list(Path(f"/proc/{one}/fd").iterdir())) for one in process_tree(pid))


class Peaks:
    """Peak memory and number of descriptors."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.memory = 0.0
        self.descriptors = 0

    async def watch(self) -> None:
        """Sample memory and descriptors until cancelled."""
        while True:
            with suppress(OSError):  # a child started or exited meanwhile
                self.memory = max(self.memory, memory(self.pid))
                self.descriptors = max(self.descriptors, descriptors(self.pid))
            await asyncio.sleep(0.25)


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running_gateway(
    engine: int, flood: int, port: int, workers: int, settings: Sequence[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the gateway as users do, in front of the two engines; yield its process."""
    with tempfile.TemporaryDirectory() as directory:
        template, log, config = (Path(directory, name) for name in ("template.jinja", "log", "gateway.toml"))
        template.write_text(TEMPLATE, encoding="utf-8")
        config.write_text(CONFIG.format(template=template, engine=engine, flood=flood), encoding="utf-8")
        command = [sys.executable, "-m", "unspool", "serve", "--config", str(config)]
        command += ["--port", str(port), "--log-level", "error", "--workers", str(workers)]
        for pair in (*(f"{name}={value}" for name, value in PATIENCE.items()), *settings):
            command += ["--set", pair]
        with log.open("wb") as stderr:
            process = subprocess.Popen(command, stderr=stderr)  # noqa: S603 - our own command
        try:
            yield process
        finally:
            process.terminate()
            process.wait()
            log_lines = log.read_text(encoding="utf-8").splitlines()
            print(f"\n{len(log_lines)} lines in the gateway's log", *log_lines[-1:], sep="; the last: ")


async def run(
    seconds: float, rounds: int, workers: int, settings: Sequence[str], only: Sequence[str]
) -> None:
    """Measure before, during and after the attack."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Engine, "127.0.0.1", 0, backlog=2048)
    port = free_port()
    flood = free_port()
    with running_gateway(server.sockets[0].getsockname()[1], flood, port, workers, settings) as gateway:
        pid = gateway.pid
        peace = NormalClients(port)
        while True:
            if gateway.poll() is not None:
                raise SystemExit("the gateway did not start; see its log")
            peace.unanswered = 0
            await peace.ask()
            if not peace.unanswered:
                break
            await asyncio.sleep(0.1)
        await peace.start()
        await asyncio.sleep(2)
        calm = await peace.measure(seconds / 3)
        before = {"memory": f"{memory(pid):.0f} MB", "descriptors": str(descriptors(pid))}
        for _ in range(rounds):
            peaks = Peaks(pid)
            watch = asyncio.create_task(peaks.watch())
            script = str(Path(__file__).with_name("hostile_clients.py"))
            attackers = await asyncio.create_subprocess_exec(
                sys.executable, script, str(port), str(flood), str(seconds), *only, stdout=subprocess.PIPE
            )
            attacked = await peace.measure(seconds)
            log_lines, _ = await attackers.communicate()
            watch.cancel()
            # Wait until the gateway has closed the last attacking connection.
            await asyncio.sleep(max(map(float, PATIENCE.values())) + 3)
            after = await peace.measure(seconds / 3)
            peak = {"memory": f"{peaks.memory:.0f} MB", "descriptors": str(peaks.descriptors)}
            left = {"memory": f"{memory(pid):.0f} MB", "descriptors": str(descriptors(pid))}
            show(calm | before, attacked | peak, after | left)
            for name, outcomes in json.loads(log_lines).items():
                print(f"{name:32} {', '.join(f'{what}: {count}' for what, count in outcomes.items())}")
    server.close()


def show(*columns: dict[str, str]) -> None:
    """Print a table."""
    print(f"\n{'':32}{'before':>12}{'attacked':>12}{'after':>12}")
    for name in columns[0]:
        print(f"{name:32}" + "".join(f"{column[name]:>12}" for column in columns))
    print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30, help="duration of the attack in seconds")
    parser.add_argument("--rounds", type=int, default=1, help="how often")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="ATTACK", help="run only the attacks with these names"
    )
    options = parser.parse_args()
    uvloop.run(run(options.seconds, options.rounds, options.workers, options.set, options.only))
