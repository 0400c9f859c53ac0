"""Everything that `make run`, `make test` and the images install is pinned with hashes."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import audit
from paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]


def lock(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")


def pins(name: str) -> dict[str, set[str]]:
    """Return the versions of each package: several where they differ by platform."""
    versions: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock(name), re.MULTILINE):
        versions.setdefault(canonicalize_name(package), set()).add(version)
    return versions


def lines(name: str) -> list[str]:
    """What the file gives by hand, without comments."""
    text = (ROOT / "requirements" / f"{name}.in").read_text(encoding="utf-8")
    return [line.partition("#")[0] for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize(
    ("name", "requirements"),
    [
        ("test", [*EXTRAS["dev"], *lines("build"), *lines("compiler")]),
        ("run", [*EXTRAS["cli"], *EXTRAS["gateway"], *EXTRAS["tokenizers"]]),
        ("build", [*PROJECT["build-system"]["requires"], *lines("build")]),
        ("dist", [*lines("build"), *lines("compiler"), *lines("dist")]),
        ("slice", lines("slice")),
        ("model", lines("model")),
        ("matcher", lines("matcher")),
        ("site", lines("site")),
    ],
)
def test_pins_satisfy_the_requirements(name: str, requirements: list[str]) -> None:
    pinned = pins(name)
    for requirement in map(Requirement, requirements):
        versions = pinned.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement.name} is not pinned: run make lock"
        assert all(version in requirement.specifier for version in versions), f"{requirement}: run make lock"


@pytest.mark.parametrize("name", audit.LOCKS)
def test_every_pin_has_hashes_and_no_index_address(name: str) -> None:
    text = lock(name)
    for pin in re.split(r"\n(?=\S)", text):
        if not pin.startswith("#"):
            assert "--hash=sha256:" in pin, pin
    assert "://" not in text
    assert "--index" not in text


def test_gateway_pins_equal_test_pins() -> None:
    tested = pins("test")
    shipped = pins("run") | {"xllamacpp": pins("model")["xllamacpp"]}
    assert {name: versions for name, versions in shipped.items() if tested.get(name) != versions} == {}


def test_every_install_checks_hashes() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = dict(re.findall(r"^(\$\((?:DEV|RUN|SITE)\))\S*:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE))
    assert set(rules) == {"$(DEV)", "$(RUN)", "$(SITE)"}
    for rule in rules.values():
        assert "$(PIP)" not in rule
        assert "pip install" not in rule
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    for command in re.findall(r"pip install[^&\n]*", dockerfile):
        assert "--require-hashes" in command or command.strip().endswith("/opt/build/unspool-*.whl"), command


@pytest.mark.parametrize(
    ("licence", "free"),
    [
        ("MIT", True),
        ("Apache-2.0 AND MIT", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("Apache Software License; MIT License", True),
        ("MIT License\n\nCopyright (c) somebody", True),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("LGPL-2.1-only", False),
        ("UNKNOWN", False),
    ],
)
def test_licences_are_judged_by_every_part(licence: str, free: bool) -> None:
    assert audit.free(licence) is free


def test_audit_reports_known_and_unchecked_packages() -> None:
    vulnerability = {"id": "PYSEC-1", "fix_versions": ["2.1"], "aliases": [], "description": "x"}
    report = {
        "dependencies": [
            {"name": "a", "version": "2.0", "vulns": [vulnerability]},
            {"name": "b", "version": "1.0", "vulns": []},
            {"name": "c", "skip_reason": "not found"},
        ]
    }
    assert audit.vulnerable(report) == (["a 2.0: PYSEC-1, fixed in 2.1"], ["c"])
