"""The requested build is tested, and building needs only what it declares."""

import ast
import importlib
import os
import runpy
import subprocess
import sys
import tomllib
import venv
from fnmatch import fnmatch
from pathlib import Path

import pytest

from paths import ROOT
from unspool._core.scan.character_runs import COMPILED


def read_list(name: str) -> list[str]:
    """Return a list of hatch_build.py, which only a builder can import."""
    tree = ast.parse((ROOT / "hatch_build.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return list(ast.literal_eval(node.value))
    raise AssertionError(f"hatch_build.py has no {name}")


CORE = read_list("CORE")


def test_requested_build_is_tested() -> None:
    assert (os.environ.get("UNSPOOL_BUILD") == "compiled") == COMPILED


@pytest.mark.parametrize("module", CORE)
def test_every_core_module_is_of_that_build(module: str) -> None:
    file = importlib.import_module(f"unspool.{module.replace('/', '.')}").__file__
    assert file is not None
    assert file.endswith((".so", ".pyd")) == COMPILED


def test_source_distribution_has_build_files() -> None:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = written["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for needed in ("hatch_build.py", "hatch_training.py", "src"):
        assert any(fnmatch(f"/{needed}", pattern) for pattern in included)


def test_compiler_training_runs() -> None:
    """If training fails, the build continues without it and is a third slower, unnoticed."""
    runpy.run_path(str(ROOT / "hatch_training.py"))["read_answers"]()


# -- installation into an empty environment


def empty_environment(place: Path, *, pip: bool) -> Path:
    """Return the interpreter of an environment in which nothing is installed."""
    venv.create(place, with_pip=pip)
    return place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def test_compiling_needs_no_extra(tmp_path: Path) -> None:
    """mypyc compiles what mypy has checked with only the packages that mypy sees."""
    python = empty_environment(tmp_path / "empty", pip=False)
    checks = [*read_list("CHECKS"), f"--python-executable={python}", f"--cache-dir={tmp_path / 'cache'}"]
    files = [f"unspool/{module}.py" for module in CORE]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *checks, *files],
        cwd=ROOT / "src",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_compiled_build_installs_into_an_empty_environment(tmp_path: Path) -> None:
    python = empty_environment(tmp_path / "empty", pip=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", ROOT],
        cwd=tmp_path,
        env=clean | {"UNSPOOL_COMPILE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen = "from unspool._core.scan import character_runs as runs; print(runs.COMPILED, runs.__file__)"
    shown = subprocess.check_output([python, "-c", seen], cwd=tmp_path, env=clean, text=True)
    assert shown.startswith(f"True {tmp_path}")
