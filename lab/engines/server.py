"""Runner of an engine's server."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_START_LIMIT: Final = 900
"""Time limit for the start in seconds; slow machines take minutes to import an engine."""
_QUIET: Final = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "UNSPOOL_POLICIES": "unspool"}
"""Environment variables that disable downloads, leave other cores alone, and select unspool's own policies.

Answers are compared with ``unspool.parse``.
"""


@contextmanager
def running(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Start a server with this command, stop it at the end, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(  # noqa: S603 - the engine installed by make
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_QUIET, **environment},
        )
        try:
            _wait(process, f"{url}/health", log)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=60)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the engine did not start; see {log}")
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own server
                return
        except OSError:
            time.sleep(1)
    raise SystemExit(f"the engine was not ready after {_START_LIMIT} seconds; see {log}")
