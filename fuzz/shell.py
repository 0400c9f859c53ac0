"""The shell around a target: atheris chooses the inputs, and what they break is put aside, each kind once.

``python -m fuzz.shell TARGET FOLDER [options of libFuzzer] [corpora]``: findings go to the folder.
The pure build is watched for coverage; the compiled one cannot be, and gets what
the pure one found worth keeping, and mutations of it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random

import atheris

_MOST: int = 3
"""Inputs that are kept of one kind of finding."""


class Shell:
    """A target that goes on after a finding."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, int] = {}
        with atheris.instrument_imports(include=["unspool", "fuzz.targets"], enable_loader_override=False):
            from fuzz.targets import target

            self._run = target(sys.argv[1])
            self._run(b"")  # what is imported late is watched, too

    def __call__(self, data: bytes) -> None:
        try:
            self._run(data)
        except Exception as error:  # noqa: BLE001 - any at all is a finding
            self._keep(data, error)

    def _keep(self, data: bytes, error: Exception) -> None:
        places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        law = str(error).partition(":")[0][:40] if isinstance(error, AssertionError) else ""
        kind = sha256(f"{type(error).__name__} {law} {places[-1:]}".encode()).hexdigest()[:8]
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if self._seen[kind] > _MOST:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{kind}-{sha256(data).hexdigest()[:8]}"
        (self._folder / name).write_bytes(data)
        (self._folder / f"{name}.txt").write_text(
            "".join(traceback.format_exception(error)), encoding="utf-8", errors="backslashreplace"
        )


def _mutator() -> Callable[[bytes, int, int], bytes] | None:
    """Where inputs are JSON: changes of values as often as of bytes."""
    from fuzz.targets import head
    from fuzz.trees import mutated

    behind = head(sys.argv[1])
    if behind is None:
        return None

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = Random(seed)  # noqa: S311 - reproducible, not secret
        if rng.random() < 0.5:
            found = mutated(data, behind, rng)
            if len(found) <= most:
                return found
        return bytes(atheris.Mutate(data, most))

    return mutate


if __name__ == "__main__":
    shell = Shell(Path(sys.argv[2]))
    mutator = _mutator()
    more = {} if mutator is None else {"custom_mutator": mutator}
    atheris.Setup([sys.argv[0], *sys.argv[3:]], shell, **more)
    atheris.Fuzz()
