"""Findings: inputs that break a promise, stored with their tracebacks, at most three per kind."""

from __future__ import annotations

import traceback
from hashlib import sha256
from pathlib import Path
from typing import Final

from fuzz.targets import Target

_MOST: Final = 3
"""Number of inputs to store per kind."""


class Findings:
    """Wrapper of a target that stores findings and continues."""

    def __init__(self, target: Target, folder: Path) -> None:
        self._target = target
        self._folder = folder
        self._counts: dict[str, int] = {}

    def __call__(self, data: bytes) -> None:
        try:
            self._target(data)
        except Exception as error:  # noqa: BLE001 - any exception is a finding
            self._keep(data, error)

    def _keep(self, data: bytes, error: Exception) -> None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        law = str(error).partition(":")[0][:40] if isinstance(error, AssertionError) else ""
        place = f"{last.filename}:{last.lineno}"
        kind = sha256(f"{type(error).__name__} {law} {place}".encode()).hexdigest()[:8]
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] > _MOST:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{kind}-{sha256(data).hexdigest()[:8]}"
        (self._folder / name).write_bytes(data)
        (self._folder / f"{name}.txt").write_text(
            "".join(traceback.format_exception(error)), encoding="utf-8", errors="backslashreplace"
        )
