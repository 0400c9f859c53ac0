"""Build of the release files from the repository, with pinned tools."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dist_contents import DistError
from dist_interpreters import Interpreter

ROOT: Final = Path(__file__).resolve().parent.parent
ENVIRONMENTS: Final = ROOT / ".peers" / "dist"


def run(command: Sequence[object], cwd: Path = ROOT, **environment: str) -> str:
    """Run a program and return its output; a failure raises ``DistError`` with the output."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(  # noqa: S603 - our own commands
        [str(word) for word in command],
        cwd=cwd,
        env=clean | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        shown = " ".join(str(word) for word in command)
        raise DistError(f"{shown} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def compiled_modules() -> list[str]:
    """Return the modules that a compiled wheel contains as machine code, from hatch_build.py."""
    tree = ast.parse((ROOT / "hatch_build.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CORE":
            return [f"unspool/{name}" for name in ast.literal_eval(node.value)]
    raise DistError("hatch_build.py has no CORE")


def tracked() -> list[str]:
    """Return the files of the repository."""
    return run(["git", "ls-files"]).splitlines()


def source_date() -> str:
    """Return the timestamp for files in archives, that of the last commit."""
    return run(["git", "log", "-1", "--format=%ct"]).strip()


def builder(interpreter: Interpreter) -> Path:
    """Create an environment with the pinned build tools and return its Python."""
    pins = ROOT / "requirements" / "dist.txt"
    place = ENVIRONMENTS / f"{interpreter.kind}-{interpreter.version}"
    stamp = place / ".installed"
    python = place / "bin" / "python"
    if stamp.exists() and stamp.read_bytes() == pins.read_bytes():
        return python
    shutil.rmtree(place, ignore_errors=True)
    run([interpreter.program, "-m", "venv", place])
    run([python, "-m", "pip", "install", "-qq", "--no-deps", "--require-hashes", "-r", pins])
    shutil.copyfile(pins, stamp)
    return python


def build_sdist(python: Path, place: Path) -> Path:
    """Build the source distribution."""
    run([python, "-m", "hatchling", "build", "-t", "sdist", "-d", place], SOURCE_DATE_EPOCH=source_date())
    (made,) = place.glob("*.tar.gz")
    return made


def build_wheel(python: Path, sdist: Path, place: Path, *, compiled: bool) -> Path:
    """Build a wheel from the source distribution alone, so that missing files are noticed."""
    sources = place / "sources"
    with tarfile.open(sdist) as archive:
        archive.extractall(sources, filter="data")
    (folder,) = sources.iterdir()
    made = place / "made"
    run(
        [python, "-m", "hatchling", "build", "-t", "wheel", "-d", made],
        cwd=folder,
        SOURCE_DATE_EPOCH=source_date(),
        UNSPOOL_COMPILE=str(int(compiled)),
    )
    (wheel,) = made.glob("*.whl")
    return _portable(python, wheel, place) if compiled and sys.platform.startswith("linux") else wheel


def _portable(python: Path, wheel: Path, place: Path) -> Path:
    """Repair the wheel's platform tag, without which an index rejects it."""
    programs = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    command = [python, "-m", "auditwheel", "repair", "--strip", "-w", place / "portable", wheel]
    run(command, SOURCE_DATE_EPOCH=source_date(), PATH=programs)
    (made,) = (place / "portable").glob("*.whl")
    return made
