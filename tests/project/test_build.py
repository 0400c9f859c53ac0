"""The build under test is the one that was asked for: `make compiled` must not test the pure one."""

import ast
import importlib
import os
import tomllib
from fnmatch import fnmatch

import pytest

from places import ROOT
from unspool._core.search.scan import COMPILED


def core() -> list[str]:
    """The modules that the compiled build compiles."""
    tree = ast.parse((ROOT / "hatch_build.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CORE":
            return [f"unspool.{name.replace('/', '.')}" for name in ast.literal_eval(node.value)]
    raise AssertionError("hatch_build.py has no CORE")


def test_it_is_the_build_that_was_asked_for() -> None:
    assert (os.environ.get("UNSPOOL_BUILD") == "compiled") == COMPILED


@pytest.mark.parametrize("module", core())
def test_every_module_of_the_core_is_of_that_build(module: str) -> None:
    file = importlib.import_module(module).__file__
    assert file is not None
    assert file.endswith((".so", ".pyd")) == COMPILED


def test_the_source_distribution_has_what_building_needs() -> None:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = written["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for needed in ("hatch_build.py", "hatch_training.py", "src"):
        assert any(fnmatch(f"/{needed}", pattern) for pattern in included)
