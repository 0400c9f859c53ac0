"""Target: the pure and the compiled build give the same events and hold back the same text."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from typing import IO, Final

from fuzz.choices import Choices, read_case, written_case
from fuzz.outputs import ROOT, outputs
from unspool import Parser
from unspool._core.scan.character_runs import COMPILED
from unspool.events import normalise

PLACE: Final = ROOT / "build" / "compiled"


def run(data: bytes) -> None:
    if COMPILED or not PLACE.is_dir():
        return
    ours, theirs = reading(data), _Other.started().reading(data)
    assert ours == theirs, f"\n  pure:     {ours}\n  compiled: {theirs}"


def reading(data: bytes) -> str:
    """Describe everything observable about a case."""
    dialect, case, chunks = read_case(Choices(data))
    parser = Parser(
        dialect, tools=case.tools, policies=case.policies, new_id=lambda _, index: f"call_{index}"
    )
    details: list[str] = []
    events = []
    for chunk in chunks:
        events += parser.feed(chunk)
        details.append(f"{parser.pending}/{parser.max_pending}/{parser.mode}")
    events += parser.finish(case.finish_reason)
    return (
        f"{normalise(events)!r} {sha256(' '.join(details).encode()).hexdigest()} {' '.join(details)[:2000]}"
    )


class _Other:
    """Compiled build in a separate process."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{PLACE}{os.pathsep}{ROOT}"}
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    @staticmethod
    @cache
    def started() -> _Other:
        return _Other()

    def reading(self, data: bytes) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        _put(self._process.stdin, data)
        return _got(self._process.stdout).decode("utf-8", "surrogatepass")


def _put(file: IO[bytes], data: bytes) -> None:
    file.write(len(data).to_bytes(4, "big") + data)
    file.flush()


def _got(file: IO[bytes]) -> bytes:
    length = file.read(4)
    return file.read(int.from_bytes(length, "big")) if length else b""


def _serve() -> None:
    if not COMPILED:
        raise SystemExit(f"the core in {PLACE} is not compiled; run make build/compiled/unspool")
    while length := sys.stdin.buffer.read(4):
        data = sys.stdin.buffer.read(int.from_bytes(length, "big"))
        try:
            answer = reading(data)
        except Exception as error:  # noqa: BLE001 - the parent compares the error
            answer = f"{type(error).__name__}: {error}"
        _put(sys.stdout.buffer, answer.encode("utf-8", "surrogatepass"))


def seeds() -> Iterator[bytes]:
    for dialect, text in outputs():
        yield written_case(dialect, text, number=2)


if __name__ == "__main__":
    _serve()
