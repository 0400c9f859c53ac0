"""What a delta costs on its way through the gateway.

An engine that sends one delta per write and a client that only stores what it gets
share one core; the gateway has the other.  Every stream is checked: all deltas, in
order, and the end.

``flood``: every stream as fast as it goes.  ``paced``: every stream at 50 deltas per
second, which costs more per delta, because each comes alone; size a gateway by it.

    python benchmarks/gateway.py [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

STAMP = re.compile(rb"@(\d{16})(\d{5})")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>user\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Load:
    """What the engine is to send."""

    deltas = 400
    pace = 0.0
    """Deltas per second and stream; 0: as fast as it goes."""


class Engine(asyncio.Protocol):
    """Answers every request with a stream of stamped deltas, one write each."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.data = b""
        self.loop = asyncio.get_running_loop()
        self.paused = False

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        if not end or (length and len(body) < int(length[1])):
            return
        self.data = b""
        if head.startswith(b"GET"):
            answer = b'{"data": [{"id": "m", "owned_by": "vllm"}]}'
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                % (len(answer), answer)
            )
            return
        self.transport.write(HEAD)
        self.count = 0
        self.due = self.loop.time()
        self.loop.call_soon(self.step)

    def step(self) -> None:
        if self.transport.is_closing():
            return
        if not self.paused:
            if self.count == Load.deltas:
                self.event(b'{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}')
                self.event(b"[DONE]")
                self.transport.write(b"0\r\n\r\n")
                return
            text = b"@%016d%05d word" % (time.monotonic_ns(), self.count)
            self.event(
                b'{"id":"cmpl-0123456789","object":"text_completion","created":1700000000,"model":"m",'
                b'"choices":[{"index":0,"text":"%b","logprobs":null,"finish_reason":null}]}' % text
            )
            self.count += 1
        if Load.pace:
            self.due += 1 / Load.pace
            self.loop.call_at(self.due, self.step)
        else:
            self.loop.call_soon(self.step)

    def event(self, payload: bytes) -> None:
        self.transport.write(b"%x\r\ndata: %b\n\n\r\n" % (len(payload) + 8, payload))


class Client(asyncio.Protocol):
    """Stores bytes and the time they came; what they mean is looked at afterwards."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.parts: list[tuple[int, bytes]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.parts.append((time.monotonic_ns(), data))
        if data.endswith(b"0\r\n\r\n") and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, _: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def load(port: int, path: str, body: dict[str, Any], streams: int) -> dict[str, float]:
    """Run so many streams at once; rates and latencies."""
    loop = asyncio.get_running_loop()
    clients = [(await loop.create_connection(Client, "127.0.0.1", port))[1] for _ in range(streams)]
    data = json.dumps(body).encode()
    request = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(data)}\r\n\r\n".encode()
        + data
    )
    began = time.monotonic_ns()
    for client in clients:
        client.transport.write(request)
    await asyncio.wait([client.done for client in clients], timeout=300)
    ended = max(client.parts[-1][0] for client in clients)
    latencies: list[float] = []
    for client in clients:
        for when, part in client.parts:
            latencies += [(when - int(found[1])) / 1e6 for found in STAMP.finditer(part)]
        numbers = [int(found[2]) for found in STAMP.finditer(b"".join(part for _, part in client.parts))]
        # What the end repeats comes after all deltas.
        if numbers[: Load.deltas] != list(range(Load.deltas)):
            raise SystemExit(f"a stream was damaged: {client.parts[-1][1][-300:]!r}")
        client.transport.close()
    latencies.sort()
    return {
        "per_second": streams * Load.deltas / ((ended - began) / 1e9),
        "p50": latencies[len(latencies) // 2],
        "p90": latencies[len(latencies) * 9 // 10],
    }


def cpu_seconds(pid: int) -> float:
    """Of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Its peak, in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "stream": True}),
    "responses": ("/v1/responses", {"input": "x", "stream": True}),
    "messages": (
        "/v1/messages",
        {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9999, "stream": True},
    ),
}


async def measure(port: int, pid: int, *, quick: bool) -> None:
    """Print a line for each kind of load."""
    print(f"{'':28}{'deltas/s':>10}{'us CPU per delta':>18}{'p50 ms':>9}{'p90 ms':>9}")
    runs: list[tuple[str, str, int, int, float]] = [
        ("flood, 1 stream", "chat", 1, 2000, 0),
        ("flood, 64 streams", "chat", 64, 400, 0),
        ("flood, 256 streams", "chat", 256, 200, 0),
        ("paced, 64 streams", "chat", 64, 200, 50),
        ("paced, 256 streams", "chat", 256, 200, 50),
        ("flood, 64, responses", "responses", 64, 400, 0),
        ("flood, 64, messages", "messages", 64, 400, 0),
    ]
    await load(port, *BODIES["chat"], 4)  # warm up
    for name, api, streams, deltas, pace in runs[:2] if quick else runs:
        Load.deltas, Load.pace = deltas, pace
        before = cpu_seconds(pid)
        found = await load(port, *BODIES[api], streams)
        cost = (cpu_seconds(pid) - before) / (streams * deltas) * 1e6
        print(f"{name:28}{found['per_second']:10.0f}{cost:18.1f}{found['p50']:9.2f}{found['p90']:9.2f}")
    print(f"peak memory of the gateway: {memory(pid):.0f} MB")


def wait_for(check: Callable[[], object]) -> None:
    """Wait until something does not fail any more."""
    for _ in range(300):
        try:
            check()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the gateway does not start")


async def main(*, quick: bool) -> None:
    """Start an engine and a gateway, and measure."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Engine, "127.0.0.1", 0)
    engine = server.sockets[0].getsockname()[1]
    port = engine + 1 if engine < 65000 else engine - 1
    with tempfile.TemporaryDirectory() as directory:
        gateway = start(directory, engine, port)
        try:
            health = f"http://127.0.0.1:{port}/health"
            await asyncio.to_thread(wait_for, lambda: urllib.request.urlopen(health).close())
            print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
            await measure(port, gateway.pid, quick=quick)
        finally:
            gateway.send_signal(signal.SIGTERM)
            gateway.wait()
    server.close()


def start(directory: str, engine: int, port: int) -> subprocess.Popen[bytes]:
    """A gateway, on a core of its own where there are two."""
    template = Path(directory, "template.jinja")
    template.write_text(TEMPLATE, encoding="utf-8")
    command = [sys.executable, "-m", "unspool.cli", "serve", "--upstream", "completions", "--engine", "vllm"]
    command += ["--url", f"http://127.0.0.1:{engine}", "--template", str(template), "--dialect", "hermes"]
    command += ["--port", str(port), "--log-level", "error", "--set", "upstream_model=m"]
    gateway = subprocess.Popen(command)  # noqa: S603 - our own program
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[0]})
        os.sched_setaffinity(gateway.pid, {cores[1]})
    return gateway


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two runs only")
    uvloop.run(main(quick=parser.parse_args().quick))
