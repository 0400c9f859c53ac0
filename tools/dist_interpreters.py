"""Interpreters for building and testing a release."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""Versions that ``requires-python`` and the classifiers promise."""

_ASK: Final = """
import json, platform, sys, sysconfig
print(json.dumps([
    f"{sys.version_info[0]}.{sys.version_info[1]}", platform.python_version(), sys.implementation.name,
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), sys.base_prefix,
]))
"""


@dataclass(frozen=True)
class Interpreter:
    """Python interpreter on this machine."""

    program: str
    minor: str
    """Version such as ``3.11``."""
    version: str
    """Version such as ``3.11.7``."""
    kind: str
    """Implementation, such as ``cpython``."""
    free_threaded: bool
    prefix: str
    """Installation folder; two programs with one prefix are the same interpreter."""

    @property
    def title(self) -> str:
        """Name for messages."""
        kind = "CPython" if self.kind == "cpython" else self.kind
        return f"{kind} {self.version}" + (", free-threaded" if self.free_threaded else "")

    @property
    def compiles(self) -> bool:
        """True if there is a compiled wheel for it."""
        return self.kind == "cpython" and not self.free_threaded and self.minor in VERSIONS


def query_interpreter(program: str) -> Interpreter | None:
    """Query a program for its version; return None if it does not run."""
    try:
        return Interpreter(program, *json.loads(_printed([program, "-I", "-c", _ASK])))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None  # for example a shim of an unselected version


def _printed(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout  # noqa: S603


def _programs(environment: Mapping[str, str]) -> Iterator[str]:
    if configured := environment.get("UNSPOOL_PYTHONS"):
        yield from configured.split(os.pathsep)
        return
    for folder in environment.get("PATH", "").split(os.pathsep):
        yield from (str(Path(folder, f"python{version}")) for version in VERSIONS)
    if pyenv := shutil.which("pyenv"):
        root = _printed([pyenv, "root"]).strip()
        for version in VERSIONS:
            yield from map(str, sorted(Path(root, "versions").glob(f"{version}.*/bin/python{version}")))


def interpreters(environment: Mapping[str, str] = os.environ) -> list[Interpreter]:
    """Return the interpreters of ``UNSPOOL_PYTHONS``, or of ``PATH`` and pyenv, oldest first."""
    found: dict[tuple[str, str], Interpreter] = {}
    for program in _programs(environment):
        one = query_interpreter(program)
        if one is None and environment.get("UNSPOOL_PYTHONS"):
            raise SystemExit(f"UNSPOOL_PYTHONS: {program} is not a Python that runs here")
        if one is not None:
            found.setdefault((one.prefix, one.version), one)
    return sorted(
        found.values(), key=lambda one: ([int(part) for part in one.minor.split(".")], one.free_threaded)
    )


def missing_versions(found: list[Interpreter]) -> list[str]:
    """Return the promised versions that are not available."""
    return [
        version for version in VERSIONS if not any(one.compiles and one.minor == version for one in found)
    ]
