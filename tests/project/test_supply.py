"""Everything that `make run`, `make test` and the images install is pinned with hashes."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
LOCKS = sorted(path.stem for path in (ROOT / "requirements").glob("*.txt"))
GATEWAY = ("cli", "gateway", "tokenizers")


def lock(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")


def pins(name: str) -> dict[str, set[str]]:
    """Return the versions of each package: several where they differ by platform."""
    versions: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock(name), re.MULTILINE):
        versions.setdefault(canonicalize_name(package), set()).add(version)
    return versions


def group(name: str) -> list[str]:
    """Return the requirements of a dependency group and of the groups that it includes."""
    requirements: list[str] = []
    for entry in PROJECT["dependency-groups"][name]:
        requirements += [entry] if isinstance(entry, str) else group(entry["include-group"])
    return requirements


def extras(*names: str) -> list[str]:
    return [requirement for name in names for requirement in EXTRAS[name]]


@pytest.mark.parametrize(
    ("name", "requirements"),
    [
        ("test", [*group("test"), *extras(*(EXTRAS.keys() - {"ray"}))]),
        ("run", [*group("run"), *extras(*GATEWAY), *PROJECT["build-system"]["requires"]]),
        ("docs", group("docs")),
        ("uv", group("uv")),
    ],
)
def test_pins_satisfy_the_requirements(name: str, requirements: list[str]) -> None:
    pinned = pins(name)
    for requirement in map(Requirement, requirements):
        versions = pinned.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement.name} is not pinned: run make lock"
        assert all(version in requirement.specifier for version in versions), f"{requirement}: run make lock"


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_hashes_and_no_index_address(name: str) -> None:
    text = lock(name)
    for pin in re.split(r"\n(?=\S)", text):
        if not pin.startswith("#"):
            assert "--hash=sha256:" in pin, pin
    assert "://" not in text
    assert "--index" not in text


def test_gateway_pins_equal_test_pins() -> None:
    tested = pins("test")
    assert {name: versions for name, versions in pins("run").items() if tested.get(name) != versions} == {}


def test_every_install_checks_hashes() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = dict(re.findall(r"^(\$\((?:DEV|RUN|SITE)\))\S*:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE))
    assert set(rules) == {"$(DEV)", "$(RUN)", "$(SITE)"}
    for rule in rules.values():
        assert "pip install" not in rule
        for line in rule.splitlines():
            assert "$(INSTALL)" not in line or "$(LOCKED)" in line or line.endswith("$(ITSELF) -e .")
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    assert all("--require-hashes" in line for line in dockerfile.splitlines() if "bin/pip install" in line)
    assert "UV_CONSTRAINT=/src/requirements/run.txt" in dockerfile


# -- installation with uv or pip

PYTHON = """#!/bin/sh
echo "python $*" >> {log}
case "$*" in *uv.txt*) {uv} ;; esac
"""
"""A program in place of Python, which logs its arguments."""
UV = """#!/bin/sh
echo "uv $*" >> {log}
exit {code}
"""


@pytest.mark.parametrize(
    ("installed", "code", "environment", "used"),
    [
        pytest.param(True, 0, {}, ["python", "uv"], id="uv"),
        pytest.param(False, 0, {}, ["python", "python"], id="no-uv"),
        pytest.param(True, 1, {}, ["python", "uv", "python"], id="uv-fails"),
        pytest.param(True, 0, {"UNSPOOL_INSTALLER": "pip"}, ["python"], id="pip-requested"),
    ],
)
def test_install_falls_back_to_pip(
    tmp_path: Path, installed: bool, code: int, environment: dict[str, str], used: list[str]
) -> None:
    log = tmp_path / "log"
    new_uv = tmp_path / "new-uv"
    install_uv = f"cp {new_uv} {tmp_path / 'uv'}" if installed else "exit 1"
    programs = {
        tmp_path / "python": PYTHON.format(log=log, uv=install_uv),
        new_uv: UV.format(log=log, code=code),
    }
    for path, text in programs.items():
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    command: list[str | Path] = [ROOT / "requirements" / "install", tmp_path / "python"]
    command += ["--require-hashes", "-r", "x.txt"]
    subprocess.run(command, env={"PATH": "/usr/bin:/bin", **environment}, check=True, capture_output=True)
    calls = log.read_text(encoding="utf-8").splitlines()
    assert [call.partition(" ")[0] for call in calls] == used
    assert calls[-1].endswith("--require-hashes -r x.txt")
