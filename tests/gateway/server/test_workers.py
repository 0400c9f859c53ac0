"""Several workers on one port: what they share, and their isolation from each other."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

from gateways import HOLD, EngineProcess, fetch, free_port, get, post, send, template_file, until
from unspool import UsageError
from unspool.gateway import Settings
from unspool.gateway.server.sockets import Listeners
from unspool.gateway.server.supervisor import supervise
from unspool.gateway.telemetry.metrics import EMPTY, Metrics, add_counters

linux = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="looks into /proc")
PATH = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "Hi"}]}


class Process:
    """A gateway with workers, started as users start it."""

    def __init__(self, folder: Path, config: str, *command: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.config = folder / "gateway.toml"
        self.config.write_text(config, encoding="utf-8")
        self.log = folder / "log"
        command = command or ("unspool", "serve", "--workers", "2", "--port", str(self.port))
        with self.log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command],
                env=os.environ | {"UNSPOOL_CONFIG": str(self.config), "UNSPOOL_LOG_FORMAT": "json"},
                stderr=stderr,
            )

    def logged(self, event: str) -> list[dict[str, Any]]:
        whole = self.log.read_text(encoding="utf-8").rpartition("\n")[0]  # the last line may be incomplete
        lines = [json.loads(line) for line in whole.splitlines()]
        return [line for line in lines if line["event"] == event]

    def pids(self) -> set[int]:
        """Return the process ids of the workers."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return {int(pid) for pid in path.read_text(encoding="ascii").split()}

    def serving(self, count: int) -> None:
        """Wait until this many workers have reported ready since the start."""
        until(lambda: self.process.poll() is not None or len(self.logged("worker_serves")) >= count)
        assert self.process.poll() is None, self.log.read_text(encoding="utf-8")

    def stream(self) -> socket.socket:
        """Return a client that has sent its request."""
        client = socket.create_connection(("127.0.0.1", self.port))
        data = json.dumps({**BODY, "stream": True}).encode()
        client.sendall(
            f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(data)}\r\n\r\n".encode()
            + data
        )
        return client

    def number(self, name: str) -> float:
        """Return a value from ``/metrics``."""
        match = re.search(
            rf"^{re.escape(name)} (\S+)$", fetch(f"{self.url}/metrics")[1].decode(), re.MULTILINE
        )
        return float(match[1]) if match else 0.0


@contextmanager
def run_process(folder: Path, config: str, *command: str) -> Iterator[Process]:
    process = Process(folder, config, *command)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.process.send_signal(signal.SIGTERM)
            process.process.wait()


def config_for(engine: EngineProcess, folder: Path) -> str:
    return f'upstream = "completions"\nurl = "{engine.url}"\ntemplate = "{template_file(folder)}"\n'


@pytest.fixture(scope="module")
def gateway(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("workers")
    with run_process(folder, config_for(engine, folder)) as process:
        process.serving(2)
        yield process


@linux
def test_leftovers_of_a_killed_gateway_are_removed(
    engine: EngineProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with run_process(tmp_path, config_for(engine, tmp_path)) as killed:
        killed.serving(2)
        workers = killed.pids()
        (folder,) = temporary.glob("unspool-kept-*")
        other = temporary / "unspool-kept-not-ours"
        other.mkdir()
        with run_process(tmp_path, config_for(engine, tmp_path)) as beside:
            beside.serving(2)
            assert folder.exists()
        killed.process.kill()
        killed.process.wait()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    with run_process(tmp_path, config_for(engine, tmp_path)) as process:
        process.serving(2)
        assert not folder.exists()
        assert other.exists()
    assert list(temporary.glob("unspool-*")) == [other]


@linux
def test_first_worker_may_be_killed_before_it_serves(engine: EngineProcess, tmp_path: Path) -> None:
    with run_process(tmp_path, config_for(engine, tmp_path)) as process:
        until(lambda: bool(process.pids()))
        os.kill(process.pids().pop(), signal.SIGKILL)
        process.serving(2)


def read(client: socket.socket, until_seen: bytes = b"\0") -> bytes:
    """Read up to a marker, or to the end."""
    data = b""
    try:
        while until_seen not in data and (portion := client.recv(1 << 16)):
            data += portion
    except ConnectionError:
        pass
    return data


# -- shared state


def test_workers_share_the_store(gateway: Process) -> None:
    made = post(f"{gateway.url}/v1/responses", {"input": "Hi"})
    for _ in range(20):  # each request opens a new connection, which reaches a random worker
        assert get(f"{gateway.url}/v1/responses/{made['id']}") == made


def test_every_worker_accepts_connections(gateway: Process) -> None:
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", gateway.port)) as client:
            client.sendall(b"GET /health HTTP/1.1\r\n" + b"x: y\r\n" * 101 + b"\r\n")
            assert read(client).startswith(b"HTTP/1.1 431 ")


def test_any_worker_reports_metrics_of_all(gateway: Process) -> None:
    name = 'unspool_outputs_total{api="chat",finish_reason="stop"}'
    before = gateway.number(name)
    for _ in range(20):
        post(gateway.url + PATH, BODY)
    until(lambda: gateway.number(name) >= before + 20)
    assert {gateway.number(name) for _ in range(10)} == {before + 20}


def clients_of(pid: int, port: int) -> set[int]:
    """Return the ports of the clients that are connected to this process."""
    inodes = {str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()}
    pids: set[int] = set()
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        established = fields[3] == "01" and int(fields[1].rpartition(":")[2], 16) == port
        if established and f"socket:[{fields[9]}]" in inodes:
            pids.add(int(fields[2].rpartition(":")[2], 16))
    return pids


@linux
def test_killed_worker_ends_only_its_own_streams(gateway: Process, engine: EngineProcess) -> None:
    streams = 200
    name = 'unspool_outputs_total{api="chat",finish_reason="stop"}'
    before = gateway.number(name)
    for _ in range(streams):
        engine.script("Hello", HOLD, " there.")
    clients = {client.getsockname()[1]: client for client in (gateway.stream() for _ in range(streams))}
    heads = {port: read(client, b'"Hello"') for port, client in clients.items()}
    victim, other = gateway.pids()
    lost, kept = clients_of(victim, gateway.port), clients_of(other, gateway.port)
    assert lost | kept == clients.keys()
    assert lost
    assert kept
    served = len(gateway.logged("worker_serves"))
    os.kill(victim, signal.SIGKILL)
    for port in lost:
        assert b"[DONE]" not in heads[port] + read(clients[port])
    for _ in range(streams):
        engine.release()
    for port in kept:
        whole = heads[port] + read(clients[port], b"[DONE]")
        assert b'" there."' in whole
        assert b'"finish_reason":"stop"' in whole
    for client in clients.values():
        client.close()
    gateway.serving(served + 1)
    assert gateway.pids() > {other}
    for _ in range(10):
        assert post(gateway.url + PATH, BODY)["choices"]
    # The total includes the counts of dead workers; living workers report theirs at intervals.
    until(lambda: gateway.number(name) >= before + len(kept))


@linux
def test_restart_lets_streams_finish(gateway: Process, engine: EngineProcess) -> None:
    old, served = gateway.pids(), len(gateway.logged("worker_serves"))
    engine.script("Hello", HOLD, " there.")
    with gateway.stream() as client:
        head = read(client, b'"Hello"')
        gateway.config.write_text(gateway.config.read_text(encoding="utf-8") + 'model = "renamed"\n')
        gateway.process.send_signal(signal.SIGHUP)
        gateway.serving(served + 2)
        until(lambda: len(old & gateway.pids()) == 1)  # the other old worker was idle
        for _ in range(10):
            assert post(gateway.url + PATH, BODY)["model"] == "renamed"
        engine.release()
        assert b'"finish_reason":"stop"' in head + read(client, b"[DONE]")
    until(lambda: not old & gateway.pids())
    assert not gateway.logged("worker_died")[1:]


# -- start, reload and shutdown


@linux
def test_invalid_settings_keep_the_old_workers(engine: EngineProcess, tmp_path: Path) -> None:
    config = config_for(engine, tmp_path)
    with run_process(tmp_path, config) as gateway:
        gateway.serving(2)
        old = gateway.pids()
        for changed, text in (
            ("no TOML", "is not TOML"),
            (
                config.replace("chatml.jinja", "missing.jinja"),
                "the new settings do not work; the old workers continue",
            ),
        ):
            gateway.config.write_text(changed)
            gateway.process.send_signal(signal.SIGHUP)
            until(lambda text=text: any(text in line["reason"] for line in gateway.logged("reload_failed")))  # type: ignore[misc]
            assert gateway.pids() == old
        engine.script("Hello", HOLD, " there.")
        with gateway.stream() as client:
            head = read(client, b'"Hello"')
            gateway.process.send_signal(signal.SIGTERM)
            engine.release()
            assert b'"finish_reason":"stop"' in head + read(client, b"[DONE]")
        assert gateway.process.wait() == 0


ONE_WORKER = ("unspool", "serve", "--port")


@contextmanager
def run_one_worker(folder: Path, config: str, *more: str) -> Iterator[Process]:
    """Run a gateway with one worker, which is the default, and wait until it listens."""
    port = str(free_port())
    with run_process(folder, config, *ONE_WORKER, port, *more) as gateway:
        gateway.port, gateway.url = int(port), f"http://127.0.0.1:{port}"
        until(lambda: gateway.process.poll() is not None or bool(gateway.logged("listening")))
        yield gateway


@linux
def test_reload_with_one_worker_lets_streams_finish(engine: EngineProcess, tmp_path: Path) -> None:
    config = config_for(engine, tmp_path)
    kept = 'unspool_outputs_total{api="chat",finish_reason="stop"}'
    with run_one_worker(tmp_path, config) as gateway:
        stored = post(f"{gateway.url}/v1/responses", {"input": "Hi"})
        engine.script("Hello", HOLD, " there.")
        with gateway.stream() as client:
            head = read(client, b'"Hello"')
            gateway.config.write_text(config + 'model = "renamed"\nmax_connections = 50\n')
            gateway.process.send_signal(signal.SIGHUP)
            until(lambda: bool(gateway.logged("reloaded")))
            for _ in range(10):
                assert post(gateway.url + PATH, BODY)["model"] == "renamed"
            engine.release()
            assert b'"finish_reason":"stop"' in head + read(client, b"[DONE]")
        assert get(f"{gateway.url}/v1/responses/{stored['id']}") == stored
        until(lambda: gateway.number(kept) == 11)
        assert gateway.number("unspool_requests_active") == 0
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait() == -signal.SIGTERM
    assert not gateway.logged("internal_error")


@linux
def test_reload_with_one_worker_keeps_settings_that_work(engine: EngineProcess, tmp_path: Path) -> None:
    config = config_for(engine, tmp_path)
    with run_one_worker(tmp_path, config) as gateway:
        for count, (changed, text) in enumerate(
            (
                ("no TOML", "is not TOML"),
                (config.replace("chatml.jinja", "missing.jinja"), "missing.jinja"),
                (
                    config + 'host = "0.0.0.0"\nallow_no_keys = true\nmax_request_bytes = 0\n',
                    "max_request_bytes",
                ),
            ),
            1,
        ):
            gateway.config.write_text(changed)
            gateway.process.send_signal(signal.SIGHUP)
            until(lambda count=count: len(gateway.logged("reload_failed")) == count)  # type: ignore[misc]
            assert text in gateway.logged("reload_failed")[-1]["reason"]
            assert post(gateway.url + PATH, BODY)["model"] == "engine-model"
        # The address cannot change, whatever the file says.
        gateway.config.write_text(config + 'port = 1\nworkers = 4\nstore = "other.db"\nmodel = "renamed"\n')
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: bool(gateway.logged("reloaded")))
        assert post(gateway.url + PATH, BODY)["model"] == "renamed"
        assert not (tmp_path / "other.db").exists()


@linux
def test_reload_reads_the_keys_again_and_keeps_their_usage(engine: EngineProcess, tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text('[alice]\nkey = "a"\nrequests_per_minute = 2\n')
    config = config_for(engine, tmp_path) + f'api_keys_file = "{keys}"\n'
    with run_one_worker(tmp_path, config) as gateway:

        def status(key: str) -> int:
            return send(gateway.url + PATH, BODY, {"authorization": f"Bearer {key}"})[0]

        assert (status("a"), status("b")) == (200, 401)
        keys.write_text('[alice]\nkey = "a"\nrequests_per_minute = 2\n[bob]\nkey = "b"\n')
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: bool(gateway.logged("reloaded")))
        assert [status("a"), status("b"), status("a")] == [200, 200, 429]
        keys.write_text("[bob]\n")
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: bool(gateway.logged("reload_failed")))
        assert status("b") == 200


@linux
def test_reloads_with_one_worker_leak_nothing(engine: EngineProcess, tmp_path: Path) -> None:
    with run_one_worker(tmp_path, config_for(engine, tmp_path)) as gateway:

        def reload_once(count: int) -> tuple[int, int]:
            gateway.process.send_signal(signal.SIGHUP)
            until(lambda: len(gateway.logged("reloaded")) == count)
            post(gateway.url + PATH, BODY)
            place = Path(f"/proc/{gateway.process.pid}")
            return len(list((place / "fd").iterdir())), len(list((place / "task").iterdir()))

        for count in range(1, 4):
            used = reload_once(count)
        for count in range(4, 8):
            again = reload_once(count)
            assert again[0] <= used[0] + 2
            assert again[1] <= used[1] + 2


# -- the port for metrics


@pytest.mark.parametrize("workers", [1, 2])
def test_metrics_port_needs_no_key(engine: EngineProcess, tmp_path: Path, workers: int) -> None:
    keys = f'api_keys = ["k"]\nworkers = {workers}\n'
    metrics_port = free_port()
    more = ("--set", f"metrics_port={metrics_port}")
    with run_one_worker(tmp_path, config_for(engine, tmp_path) + keys, *more) as gateway:
        if workers > 1:
            gateway.serving(workers)
        url = f"http://127.0.0.1:{metrics_port}"
        assert gateway.logged("listening")[0]["metrics"] == f"{url}/metrics"
        assert fetch(f"{gateway.url}/metrics")[0] == 401
        status, page, headers = fetch(f"{url}/metrics")
        assert (status, headers["content-type"].partition(";")[0]) == (200, "text/plain")
        assert b"\nunspool_requests_active 0\n" in page
        assert (fetch(f"{url}/health")[0], fetch(f"{url}/ready")[0]) == (200, 200)
        for path in ("/", "/v1/models", PATH, "/playground/requests"):
            assert fetch(url + path)[0] == 401
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait() in (0, -signal.SIGTERM)


def test_metrics_port_that_is_taken_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            UsageError, match=f"cannot listen on 127.0.0.1 port {port}.*set metrics_port to a"
        ):
            Listeners.bind(Settings(port=0, metrics_port=port))
    with pytest.raises(UsageError, match="metrics_port=9000 is the port of the API"):
        Settings(port=9000, metrics_port=9000)


# -- the start


def test_invalid_settings_are_reported_once(engine: EngineProcess, tmp_path: Path) -> None:
    config = config_for(engine, tmp_path).replace("chatml.jinja", "missing.jinja")
    gateway = Process(tmp_path, config)
    assert gateway.process.wait() == 2
    lines = gateway.logged("worker_start_failed")
    assert len(lines) == 1
    assert "missing.jinja" in lines[0]["reason"]


@pytest.mark.parametrize("workers", [1, 2])
def test_secrets_are_not_logged(engine: EngineProcess, tmp_path: Path, workers: int) -> None:
    secrets = 'api_keys = ["hidden"]\nupstream_key = "hidden"\nseal_key = "hidden"\n'
    command = ("unspool", "serve", "--port", "0", "--workers", str(workers))
    with run_process(tmp_path, config_for(engine, tmp_path) + secrets, *command) as gateway:
        until(lambda: bool(gateway.logged("listening")))
        (line,) = gateway.logged("listening")
    shown = line["settings"]
    assert (shown["api_keys"], shown["upstream_key"], shown["seal_key"]) == ("set", "set", "set")
    assert "hidden" not in gateway.log.read_text(encoding="utf-8")


def test_embedded_model_is_loaded_once() -> None:
    with pytest.raises(UsageError, match="run llama"):
        supervise(Settings(workers=2), lambda *_: 0)


def test_factory_works_with_other_servers(engine: EngineProcess, tmp_path: Path) -> None:
    port = str(free_port())
    command = ("uvicorn", "--factory", "unspool.gateway:create_app", "--port", port, "--workers", "1")
    with run_process(tmp_path, config_for(engine, tmp_path), *command) as gateway:
        url = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            try:
                return fetch(f"{url}/health")[0] == 200
            except OSError:
                return False

        until(answers)
        assert post(url + PATH, BODY)["choices"][0]["message"]["content"] == "Hello!"
        assert gateway.process.poll() is None


# -- metrics of several processes


counts = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("cd"), st.floats(0, 400)), max_size=8)


@given(st.lists(counts, min_size=1, max_size=4))
def test_metrics_add_up_in_any_order(workers: list[list[tuple[str, str, float]]]) -> None:
    together, apart = Metrics(), [Metrics() for _ in workers]
    for metrics, steps in zip(apart, workers, strict=True):
        for api, status, seconds in steps:
            for one in (metrics, together):
                one.requests.add(api, status)
                one.clients_gone.add()
                one.duration.observe(float(round(seconds)), api)
    first, *others = apart
    shown = set(first.text([other.snapshot() for other in others]).splitlines())
    assert shown == set(together.text().splitlines())
    total = EMPTY
    for metrics in apart:
        total = add_counters(total, metrics.snapshot())
    assert set(Metrics().text([total]).splitlines()) == shown
