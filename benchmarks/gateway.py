"""Cost of a delta through the gateway, next to other paths.

An engine that sends one delta per write shares one core with a client that only stores its
input; the measured server has the other core. Every stream must contain all deltas, in order,
and the end marker.

``direct``: no gateway. ``pass-through``: bytes, through a proxy on the same libraries (uvicorn,
aiohttp) that does nothing else. ``unspool``: through the gateway, with three APIs; ``forgets``:
without the gateway's list of recent requests. ``litellm``: the LiteLLM proxy, if ``--set-up`` has
installed it into ``.peers/litellm``. ``1 worker`` and ``2 workers``: the gateway on all cores,
together with engine and client, with the same load per worker.

``flood``: every stream at full speed. ``paced``: every stream at 50 deltas per second, which
costs more per delta because each arrives alone; use these numbers to size a gateway.
``others``: CPU used by unrelated programs during the run. If this value is high, differences
below one half mean nothing.

    python benchmarks/gateway.py [--quick] [--repeat N] [--only NAME,...] [--set-up]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import uvloop

PEER = Path(__file__).resolve().parent.parent / ".peers" / "litellm"
LITELLM = "litellm[proxy]==1.106.2"
KEY = f"sk-{secrets.token_hex(16)}"
"""API key, without which LiteLLM does not start."""
STAMP = re.compile(rb"@(\d{16})(\d{5})")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>user\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
COMPLETION = (
    b'{"id":"cmpl-0123456789","object":"text_completion","created":1700000000,"model":"m",'
    b'"choices":[{"index":0,"text":"%b","logprobs":null,"finish_reason":%b}]}'
)
CHAT = (
    b'{"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1700000000,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":%b}]}'
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Load:
    """Load for the engine to send."""

    deltas = 400
    pace = 0.0
    """Deltas per second and stream; 0 means full speed."""


class Engine(asyncio.Protocol):
    """Server that answers every request with a stream of timestamped deltas, one write each."""

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
        if head.startswith((b"GET", b"HEAD")):
            answer = b'{"data": [{"id": "m", "owned_by": "vllm"}]}'
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                % (len(answer), answer)
            )
            return
        self.transport.write(HEAD)
        self.form = CHAT if b"/chat/" in head else COMPLETION
        self.count = 0
        self.due = self.loop.time()
        self.loop.call_soon(self.step)

    def step(self) -> None:
        if self.transport.is_closing():
            return
        if not self.paused:
            if self.count == Load.deltas:
                self.event(self.form % (b"", b'"stop"'))
                self.event(b"[DONE]")
                self.transport.write(b"0\r\n\r\n")
                return
            text = b"@%016d%05d word" % (time.monotonic_ns(), self.count)
            self.event(self.form % (text, b"null"))
            self.count += 1
        if Load.pace:
            self.due += 1 / Load.pace
            self.loop.call_at(self.due, self.step)
        else:
            self.loop.call_soon(self.step)

    def event(self, payload: bytes) -> None:
        self.transport.write(b"%x\r\ndata: %b\n\n\r\n" % (len(payload) + 8, payload))


class Client(asyncio.Protocol):
    """Client that stores bytes and their arrival times; they are decoded after the run."""

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


async def load(port: int, path: str, body: dict[str, Any], streams: int) -> tuple[float, float]:
    """Run several streams at once; return deltas per second and their median latency in milliseconds."""
    loop = asyncio.get_running_loop()
    clients = [(await loop.create_connection(Client, "127.0.0.1", port))[1] for _ in range(streams)]
    data = json.dumps(body).encode()
    request = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {KEY}\r\ncontent-length: {len(data)}\r\n\r\n".encode()
        + data
    )
    began = time.monotonic_ns()
    for client in clients:
        client.transport.write(request)
    await asyncio.wait([client.done for client in clients], timeout=300)
    ended = max(client.parts[-1][0] for client in clients)
    latencies: list[float] = []
    for client in clients:
        # The last event of an API may repeat the deltas, so ignore everything after the last delta.
        result = list(delta_latencies(client.parts))[: Load.deltas]
        if [number for number, _ in result] != list(range(Load.deltas)):
            raise SystemExit(f"a stream was damaged: {client.parts[-1][1][-300:]!r}")
        latencies += [latency for _, latency in result]
        client.transport.close()
    latencies.sort()
    return streams * Load.deltas / ((ended - began) / 1e9), latencies[len(latencies) // 2]


def delta_latencies(parts: list[tuple[int, bytes]]) -> Iterator[tuple[int, float]]:
    """Yield the number of each delta in a response, and its latency in milliseconds."""
    raw = b"".join(part for _, part in parts)
    arrived = list(accumulate(len(part) for _, part in parts))
    body: list[bytes] = []
    ends: list[int] = []  # end offsets of the HTTP chunks in the body ...
    origins: list[int] = []  # ... and in the received bytes; a delta may cross the border of two chunks
    at, size = raw.index(b"\r\n\r\n") + 4, 0
    while at < len(raw):
        line = raw.index(b"\r\n", at)
        length = int(raw[at:line], 16)
        body.append(raw[line + 2 : line + 2 + length])
        at, size = line + length + 4, size + length
        ends.append(size)
        origins.append(line + 2 + length)
    for result in STAMP.finditer(b"".join(body)):
        chunk = bisect_left(ends, result.end())
        when = parts[bisect_left(arrived, origins[chunk] - (ends[chunk] - result.end()))][0]
        yield int(result[2]), (when - int(result[1])) / 1e6


def process_tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    result = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            result += process_tree(int(child))
    return result


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants."""
    return sum(process_cpu_seconds(one) for one in process_tree(pid))


def process_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of one process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_cpu_seconds() -> float:
    """Return the CPU seconds of the whole machine."""
    fields = list(map(int, Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Return the peak memory of a process and its descendants, in MB."""
    total = 0
    for one in process_tree(pid):
        status = Path(f"/proc/{one}/status").read_text(encoding="ascii")
        result = re.search(r"VmHWM:\s+(\d+) kB", status)
        total += int(result[1]) if result else 0
    return total / 1024


# -- loads and paths


BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True},
    ),
    "responses": ("/v1/responses", {"input": "x", "stream": True}),
    "messages": (
        "/v1/messages",
        {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9999, "stream": True},
    ),
}


@dataclass(frozen=True)
class Work:
    """Kind of load."""

    name: str
    streams: int
    deltas: int
    pace: float = 0.0


WORKS = (
    Work("flood 1", 1, 2000),
    Work("flood 64", 64, 400),
    Work("flood 256", 256, 200),
    Work("paced 64", 64, 200, 50),
    Work("paced 256", 256, 500, 50),
)
TWO_WORKERS = Work("paced 128", 128, 200, 50)
"""Load of "paced 64" for each of two workers."""
SLOW_SERVERS = (Work("flood 1", 1, 400), Work("flood 64", 64, 40), Work("paced 64", 64, 40, 50))
"""Loads for slow servers."""


@dataclass(frozen=True)
class Way:
    """Path from the engine to the client."""

    name: str
    api: str = "chat"
    start: Callable[[str, int, int], tuple[list[str], dict[str, str]]] | None = None
    """Function that returns a command and its environment, given a directory, the engine's port and the
    server's port."""
    works: tuple[Work, ...] = WORKS
    own_core: bool = True
    """True if the server gets a core of its own when there are two."""


def unspool(
    directory: str, engine: int, port: int, workers: int = 1, *, keeps: bool = True
) -> tuple[list[str], dict[str, str]]:
    """Return the command of the gateway."""
    template = Path(directory, "template.jinja")
    template.write_text(TEMPLATE, encoding="utf-8")
    command = [sys.executable, "-m", "unspool", "serve", "--upstream", "completions", "--engine", "vllm"]
    command += ["--url", f"http://127.0.0.1:{engine}", "--template", str(template), "--dialect", "hermes"]
    command += ["--port", str(port), "--log-level", "error", "--model", "m", "--set", "upstream_model=m"]
    command += ["--workers", str(workers)] if workers > 1 else []
    command += [] if keeps else ["--set", "last_requests=0"]
    return command, {}


def pass_through(_: str, engine: int, port: int) -> tuple[list[str], dict[str, str]]:
    """Return the command of the proxy below."""
    return [sys.executable, __file__, "--proxy", str(engine), str(port)], {}


def litellm(directory: str, engine: int, port: int) -> tuple[list[str], dict[str, str]]:
    """Return the command of the LiteLLM proxy, with one worker."""
    config = Path(directory, "litellm.yaml")
    config.write_text(
        "model_list:\n  - model_name: m\n    litellm_params:\n      model: openai/m\n"
        f"      api_base: http://127.0.0.1:{engine}/v1\n      api_key: x\n",
        encoding="utf-8",
    )
    command = [str(PEER / "bin" / "litellm"), "--config", str(config), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--num_workers", "1"]
    return command, {
        "LITELLM_MASTER_KEY": KEY,
        "LITELLM_LOG": "ERROR",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


WAYS = (
    Way("direct"),
    Way("pass-through", start=pass_through),
    Way("unspool", start=unspool),
    Way("unspool forgets", start=partial(unspool, keeps=False)),
    Way("unspool responses", "responses", unspool, WORKS[1:2]),
    Way("unspool messages", "messages", unspool, WORKS[1:2]),
    Way("litellm", start=litellm, works=SLOW_SERVERS),
    Way("1 worker", start=unspool, works=WORKS[3:4], own_core=False),
    Way("2 workers", start=partial(unspool, workers=2), works=(TWO_WORKERS,), own_core=False),
)


async def proxy(engine: int, port: int) -> None:
    """Run a minimal proxy on the same libraries."""
    import aiohttp
    import uvicorn

    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    url = f"http://127.0.0.1:{engine}"

    async def app(
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = [(b"content-type", b"text/event-stream")]
        async with session.request(scope["method"], url + scope["path"], data=body) as response:
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            async for portion in response.content.iter_any():
                await send({"type": "http.response.body", "body": portion, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    config = uvicorn.Config(app, port=port, lifespan="off", log_level="error", access_log=False, ws="none")
    await uvicorn.Server(config).serve()


# -- measuring


@dataclass
class Result:
    """Result of a load; the best of several runs."""

    rate: float = 0.0
    latency: float = 1e9
    cost: float = 1e9
    others: float = 1e9
    share: float = 1.0
    """Share of the work done by the busiest process."""

    def merge(self, rate: float, latency: float, cost: float, others: float, share: float) -> None:
        """Merge another run."""
        self.share = min(self.share, share)
        self.rate = max(self.rate, rate)
        self.latency = min(self.latency, latency)
        self.cost = min(self.cost, cost)
        self.others = min(self.others, others)


Results = dict[tuple[str, str], Result]


async def measure(way: Way, works: tuple[Work, ...], port: int, pid: int | None, results: Results) -> None:
    """Run every load once."""
    path, body = BODIES[way.api]
    Load.deltas, Load.pace = 100, 0.0
    await load(port, path, body, 4)  # warm up
    for work in works:
        Load.deltas, Load.pace = work.deltas, work.pace
        own = [os.getpid(), *([] if pid is None else [pid])]
        began, busy = time.monotonic(), machine_cpu_seconds()
        before = [cpu_seconds(one) for one in own]
        each = {one: process_cpu_seconds(one) for one in (process_tree(pid) if pid else ())}
        rate, latency = await load(port, path, body, work.streams)
        used = [cpu_seconds(one) - then for one, then in zip(own, before, strict=True)]
        others = (machine_cpu_seconds() - busy - used[0] - (used[1] if pid else 0.0)) / (
            time.monotonic() - began
        )
        cost = used[1] / (work.streams * work.deltas) * 1e6 if pid else 0.0
        share = max((process_cpu_seconds(one) - then for one, then in each.items()), default=1.0)
        share /= used[1] if pid else 1.0
        results.setdefault((way.name, work.name), Result()).merge(
            rate, latency, cost, max(others, 0.0), share
        )


@contextmanager
def running_server(way: Way, engine: int) -> Iterator[tuple[int, int | None]]:
    """Start a server, on a core of its own if there are two; yield its port and process id."""
    if way.start is None:
        yield engine, None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        command, environment = way.start(directory, engine, port)
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        if len(CORES) > 1:
            os.sched_setaffinity(process.pid, {CORES[1]} if way.own_core else set(CORES))
        try:
            yield port, process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


CORES = sorted(os.sched_getaffinity(0))


def wait_for(port: int) -> None:
    """Wait until a server answers on the port."""
    for _ in range(1200):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models"):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the measured server does not start")


async def main(*, quick: bool, repeat: int, only: list[str]) -> None:
    """Start an engine, measure every path and print a table."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Engine, "127.0.0.1", 0, backlog=1000)
    engine = server.sockets[0].getsockname()[1]
    os.sched_setaffinity(0, {CORES[0]})
    ways = [way for way in WAYS if not only or way.name in only]
    if not (PEER / "bin" / "litellm").exists():
        ways = [way for way in ways if way.name != "litellm"]
        print("LiteLLM is missing; --set-up installs it")
    results: Results = {}
    peaks: dict[str, float] = {}
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {len(CORES)} cores", flush=True)
    # Measure all paths in every round, so that a disturbance affects all of them.
    for way in ways * repeat:
        works = tuple(
            work for work in way.works if not quick or work.name in ("flood 64", "paced 64", TWO_WORKERS.name)
        )
        with running_server(way, engine) as (port, pid):
            await asyncio.to_thread(wait_for, port)
            await measure(way, works, port, pid, results)
            if pid is not None:
                peaks[way.name] = max(memory(pid), peaks.get(way.name, 0.0))
    server.close()
    show(results, peaks)


def show(results: Results, peaks: dict[str, float]) -> None:
    """Print the results and compare them with the goals."""
    heads = ("deltas/s", "CPU us/delta", "p50 ms", "added ms", "others")
    print(f"{'':20}{'':11}{''.join(f'{head:>14}' for head in heads)}")
    for (way, work), result in results.items():
        direct = results.get(("direct", work))
        added = f"{result.latency - direct.latency:.2f}" if direct and work.startswith("paced") else ""
        cost = f"{result.cost:.1f}" if result.cost else ""
        print(
            f"{way:20}{work:11}{result.rate:14.0f}{cost:>14}{result.latency:14.2f}{added:>14}{result.others:14.1f}"
        )
    for way, peak in peaks.items():
        print(f"peak memory of {way}: {peak:.0f} MB")
    ours = {work: result for (way, work), result in results.items() if way == "unspool"}
    for way, work, goal in (
        ("litellm", "flood 64", 25),
        ("pass-through", "flood 64", 0.5),
        ("direct", "paced 256", 0.98),
    ):
        other = results.get((way, work))
        if other and work in ours:
            summary = f"{work}: {ours[work].rate / other.rate:.2f} times the rate of {way} (goal: {goal})"
            print(
                f"{summary}; by CPU time {other.cost / ours[work].cost:.2f} times" if other.cost else summary
            )
    one, two = results.get(("1 worker", "paced 64")), results.get(("2 workers", TWO_WORKERS.name))
    if one and two:
        summary = (
            f"a delta costs 2 workers {two.cost / one.cost:.2f} times the CPU time of 1 (goal: at most 1.10)"
        )
        print(f"{summary}; the busier one did {two.share:.0%} of the work")


def set_up() -> None:
    """Install LiteLLM into an environment of its own."""
    if not (PEER / "bin" / "python").exists():
        venv.create(PEER, with_pip=True)
    command = [str(PEER / "bin" / "python"), "-m", "pip", "install", "--quiet", LITELLM]
    subprocess.run(command, check=True)  # noqa: S603 - our own command


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="64 streams only")
    parser.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="number of runs; the best one counts"
    )
    parser.add_argument("--only", default="", metavar="NAME,...", help="only these ways")
    parser.add_argument("--set-up", action="store_true", help="install LiteLLM first")
    parser.add_argument("--proxy", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.proxy:
        uvloop.run(proxy(*options.proxy))
    else:
        if options.set_up:
            set_up()
        named = [name.strip() for name in options.only.split(",") if name.strip()]
        uvloop.run(main(quick=options.quick, repeat=options.repeat, only=named))
