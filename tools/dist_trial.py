"""Test of a release file in an empty environment, away from the sources."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dist_build import ENVIRONMENTS, ROOT, run
from dist_contents import DistError
from dist_interpreters import Interpreter

DIALECTS: Final = ("hermes", "qwen3_coder", "pythonic", "harmony")
"""Dialects for the conformance suite: one each with JSON, tags, Python and messages."""
TESTS: Final = (
    "tests/laws/test_corpus.py",
    "tests/test_parser_streaming.py",
    "tests/core/stages/test_message_builder.py",
    "tests/test_policies.py",
    "tests/dialects",
    "tests/cli/test_help.py",
    "tests/project/test_build.py::test_requested_build_is_tested",
)
"""Tests that need only pytest and Hypothesis."""
PYODIDE: Final = ENVIRONMENTS / "pyodide"

_IMPORT: Final = (
    "import unspool, sys; print(unspool.__file__); assert not unspool.parse('', 'hermes').tool_calls"
)


@dataclass(frozen=True)
class Installation:
    """Results of an installation."""

    file: str
    interpreter: str
    version: str
    """Output of ``unspool --version``."""
    suite: str
    """Result of the conformance suite, such as ``412 passed``."""
    tests: str
    """Result of the tests."""
    seconds: float


def try_file(file: Path, interpreter: Interpreter, *, compiled: bool) -> Installation:
    """Install only this file, and use it as users do."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        python = _empty(interpreter, place)
        # pip builds a source distribution in this environment, with downloaded build tools.
        offline = [] if file.name.endswith(".tar.gz") else ["--no-index"]
        run([python, "-m", "pip", "install", "-qq", *offline, file], cwd=place)
        version = _check_usage(python, place, compiled=compiled)
        tests = _tested(python, compiled=compiled)
        suite = _conformance(python, place)
    return Installation(file.name, interpreter.title, version, suite, tests, time.monotonic() - started)


def _empty(interpreter: Interpreter, place: Path) -> Path:
    run([interpreter.program, "-m", "venv", place / "environment"])
    return place / "environment" / "bin" / "python"


def _check_usage(python: Path, place: Path, *, compiled: bool) -> str:
    """Run the import, ``--version``, the demo and ``pip check``; return the version."""
    imported = run([python, "-I", "-c", _IMPORT], cwd=place).strip()
    if not imported.startswith(str(place)):
        raise DistError(f"the package was imported from {imported} instead of the installation")
    command = python.with_name("unspool")
    version = run([command, "--version"], cwd=place).strip()
    if not version.endswith("(compiled)" if compiled else "(pure Python)"):
        raise DistError(f"{version} is the wrong build")
    shown = run([command, "demo", *DIALECTS], cwd=place)
    if shown.count("finish_reason tool_calls") != len(DIALECTS):
        raise DistError(f"the demo shows no calls:\n{shown}")
    run([python, "-m", "pip", "check"], cwd=place)
    return version


def _conformance(python: Path, place: Path) -> str:
    chosen = [word for name in DIALECTS for word in ("--dialect", name)]
    printed = run(
        [python.with_name("unspool"), "conformance", "run", "--chunking", "characters", *chosen], cwd=place
    )
    return _count(printed)


def _tested(python: Path, *, compiled: bool) -> str:
    pins = ROOT / "requirements" / "slice.txt"
    run([python, "-m", "pip", "install", "-qq", "--no-deps", "--require-hashes", "-r", pins])
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cases", "4", *TESTS]
    build = "compiled" if compiled else "pure"
    printed = run(command, UNSPOOL_BUILD=build, UNSPOOL_HYPOTHESIS="quick", PYTHONDONTWRITEBYTECODE="1")
    return _count(printed)


def _count(printed: str) -> str:
    """Return a suite's summary, such as ``412 passed, 3 skipped``."""
    found = re.search(r"\d+ passed(, \d+ (skipped|xfailed))*", printed)
    if found is None:
        raise DistError(f"no test passed:\n{printed[-2000:]}")
    return found[0]


def chosen_file(interpreter: Interpreter, folder: Path) -> str:
    """Return the file that ``pip install --find-links`` chooses, by the version output of the package."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        python = _empty(interpreter, place)
        run(
            [python, "-m", "pip", "install", "-qq", "--no-index", "--find-links", folder, "unspool"],
            cwd=place,
        )
        return run([python.with_name("unspool"), "--version"], cwd=place).strip()


def chosen_file_for(python: Path, folder: Path, minor: str, platform: str) -> str:
    """Return the file that pip would choose on another system."""
    with tempfile.TemporaryDirectory() as name:
        wanted = ["--python-version", minor, "--platform", platform, "--only-binary", ":all:", "--no-deps"]
        source = ["--no-index", "--find-links", folder]
        run([python, "-m", "pip", "download", "-qq", *wanted, *source, "-d", name, "unspool"])
        (file,) = Path(name).iterdir()
        return file.name


def try_pyodide(wheel: Path, python: Path) -> Installation:
    """Run the same tests in WebAssembly in Node.js; only pytest is downloaded, beforehand."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        pins = ROOT / "requirements" / "slice.txt"
        wanted = ["--python-version", "3.14", "--only-binary", ":all:", "--platform", "any"]
        run(
            [
                python,
                "-m",
                "pip",
                "download",
                "-qq",
                "--no-deps",
                "--require-hashes",
                *wanted,
                "-r",
                pins,
                "-d",
                place,
            ]
        )
        (place / "pytest.ini").write_text(
            "[pytest]\npythonpath = tests/support benchmarks tools .\nmarkers = slow: long\n",
            encoding="utf-8",
        )
        job = {
            "pyodide": str(PYODIDE / "node_modules" / "pyodide" / "pyodide.mjs"),
            "wheels": [str(wheel), *map(str, sorted(place.glob("*.whl")))],
            "root": str(ROOT),
            "ini": str(place),
            "dialects": DIALECTS,
            "tests": [name for name in TESTS if "test_build" not in name],  # it makes environments
        }
        node = shutil.which("node") or "node"
        printed = run([node, ROOT / "tools" / "dist_pyodide.mjs", json.dumps(job)])
    report = json.loads(printed.splitlines()[-1])
    return Installation(
        wheel.name,
        f"Pyodide {report['pyodide']} (CPython {report['python']}, WebAssembly)",
        report["version"],
        _count(report["suite"]),
        _count(report["tests"]),
        time.monotonic() - started,
    )
