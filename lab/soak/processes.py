"""Processes of a soak test: scripted engines and the gateways in front of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.request import urlopen

SETTINGS: Final = """
idle_timeout = 4
connect_timeout = 2
client_timeout = 5
ping_interval = 1
max_output_bytes = 200000
max_stored_bytes = 2000000
log_format = "json"
log_level = "warning"
upstream = "completions"

[models.vllm]
template = "{folder}/chatml.jinja"
url = "http://127.0.0.1:{vllm}"
engine = "vllm"

[models.llamacpp]
template = "{folder}/chatml.jinja"
url = "http://127.0.0.1:{llamacpp}"

[models.chat]
upstream = "chat"
url = "http://127.0.0.1:{chat}"
engine = "openai"
dialect = "hermes"

[models.ollama]
template = "{folder}/chatml.jinja"
url = "http://127.0.0.1:{ollama}"
engine = "ollama"
upstream_model = "soak"

[models.two]
template = "{folder}/chatml.jinja"
url = "http://127.0.0.1:{vllm}"
urls = ["http://127.0.0.1:{spare}"]
engine = "vllm"

[models.replay]
template = "{folder}/chatml.jinja"
upstream = "replay"
file = "{folder}/replay.jsonl"
"""
TEMPLATE: Final = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if loop.first and tools %}{{ tools | tojson }}
{% endif -%}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""
UPSTREAMS: Final = {
    "vllm": "vllm",
    "llamacpp": "llamacpp",
    "chat": "chat",
    "ollama": "ollama",
    "spare": "vllm",
}
"""Kinds of the engines by name."""


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@dataclass
class Engine:
    """Scripted upstream in a process of its own."""

    name: str
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the engine, or restart it on the same port."""
        program = [sys.executable, "-m", "lab.soak.upstream", UPSTREAMS[self.name], str(self.port)]
        self.process = subprocess.Popen(program, stdout=subprocess.PIPE)  # noqa: S603 - our own program
        assert self.process.stdout is not None  # noqa: S101
        self.process.stdout.readline()

    def kill(self) -> None:
        """Kill the engine immediately."""
        assert self.process is not None  # noqa: S101
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None  # noqa: S101
        self.process.stdout.close()


@dataclass(frozen=True)
class State:
    """Resources that a gateway uses."""

    memory: float
    """Memory of its largest process, in megabytes."""
    descriptors: int
    """Largest number of open files of any of its processes."""
    processes: int

    def __str__(self) -> str:
        return f"{self.memory:.0f} MB, {self.descriptors} descriptors, {self.processes} processes"


class Gateway:
    """Gateway in one or several processes of its own."""

    def __init__(self, name: str, config: Path | None, *flags: str) -> None:
        self.name = name
        self.port = free_port()
        self.tracebacks: list[str] = []
        self.last: deque[str] = deque(maxlen=8)
        """Last lines of its log."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("UNSPOOL_")}
        config_option = () if config is None else ("--config", str(config))
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "unspool", "serve", *config_option, "--port", str(self.port), *flags],
            stderr=subprocess.PIPE,
            env=environment,
        )
        threading.Thread(target=self._read, daemon=True).start()
        while self.process.poll() is None:
            try:
                with urlopen(f"http://127.0.0.1:{self.port}/health", timeout=60):
                    return
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"the gateway {name} does not start: {self.tracebacks}")

    def _read(self) -> None:
        """Read the log and collect tracebacks, which count as failures."""
        assert self.process.stderr is not None  # noqa: S101
        for line in self.process.stderr:
            text = line.decode("utf-8", "replace")
            self.last.append(text)
            if not text.startswith("{") or "Traceback" in text or '"internal error"' in text:
                self.tracebacks.append(text)

    def workers(self) -> list[int]:
        """Return the worker processes of the supervisor."""
        return _children(self.process.pid)

    def processes(self) -> list[int]:
        """Return all of its processes and their children."""
        found = [self.process.pid]
        for pid in found:
            found += _children(pid)
        return found

    def memory(self) -> float:
        """Return the memory of the largest process, in megabytes."""
        return max((_resident(pid) for pid in self.processes()), default=0.0)

    def state(self) -> State:
        """Return its current resources."""
        pids = self.processes()
        return State(self.memory(), max((_descriptors(pid) for pid in pids), default=0), len(pids))

    def end(self) -> None:
        """Kill all processes."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Ask the gateway to stop, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return -9


def _children(pid: int) -> list[int]:
    try:
        threads = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
        return [int(one) for text in threads for one in text.split()]
    except OSError:
        return []


def _resident(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 0.0


def _descriptors(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0
