"""The checks of ``make dist``: what they accept and what they reject."""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import dist
import dist_build
from dist_contents import sdist_faults, wheel_faults
from dist_interpreters import VERSIONS, Interpreter, interpreters, missing_versions, query_interpreter
from dist_trial import TESTS, Installation
from paths import ROOT
from unspool import __version__

SOURCES = ("unspool/__init__.py", "unspool/py.typed", "unspool/_core/scan/character_runs.py")
METADATA = b"""Metadata-Version: 2.4
Name: unspool
Version: 1.0
License-Expression: Apache-2.0
Description-Content-Type: text/markdown

# unspool
"""
INFO = "unspool-1.0.dist-info"
PURE: Mapping[str, bytes] = {
    **dict.fromkeys(SOURCES, b"x = 1"),
    f"{INFO}/METADATA": METADATA,
    f"{INFO}/WHEEL": b"",
    f"{INFO}/entry_points.txt": b"",
    f"{INFO}/licenses/LICENSE": b"",
}
CODE = {
    "unspool/_core/scan/character_runs.cpython-311-x86_64-linux-gnu.so": b"\x7fELF",
    "a__mypyc.cpython-311.so": b"\x7fELF",
}


def wheel(
    folder: Path, files: Mapping[str, bytes], tag: str = "py3-none-any", record: str | None = None
) -> Path:
    """Write a wheel of these files."""
    path = folder / f"unspool-1.0-{tag}.whl"
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()) for name, data in files.items()}
    lines = [f"{name},sha256={digest.rstrip(b'=').decode()},1" for name, digest in digests.items()]
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("unspool")  # some tools add entries for folders
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{INFO}/RECORD", record or "\n".join([*lines, f"{INFO}/RECORD,,"]))
    return path


def test_valid_wheels_have_no_faults(tmp_path: Path) -> None:
    assert wheel_faults(wheel(tmp_path, PURE), SOURCES, (), ["/build"]) == []
    compiled = wheel(tmp_path, {**PURE, **CODE}, "cp311-cp311-manylinux_2_17_x86_64")
    assert wheel_faults(compiled, SOURCES, ["unspool/_core/scan/character_runs"], ["/build"]) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"unspool/py.typed": None}, "unspool/py.typed is missing"),
        ({f"{INFO}/licenses/LICENSE": None}, "LICENSE is missing"),
        ({"unspool/_core/scan/character_runs.py": None}, "character_runs.py is missing"),
        ({"tests/test_x.py": b""}, "tests/test_x.py must not be in the wheel"),
        ({"unspool/__pycache__/a.pyc": b""}, "unspool/__pycache__/a.pyc is a leftover"),
        (CODE, "character_runs.cpython-311-x86_64-linux-gnu.so must not be in the wheel"),
        ({"unspool/__init__.py": b"HERE = '/build/x'"}, "unspool/__init__.py mentions /build"),
        ({f"{INFO}/METADATA": METADATA.replace(b"1.0", b"1.1")}, "name and version are unspool 1.1"),
        ({f"{INFO}/METADATA": METADATA.replace(b"Apache-2.0", b"mine")}, "metadata: "),
        ({f"{INFO}/METADATA": METADATA.replace(b"/markdown", b"/plain")}, "no description"),
    ],
)
def test_missing_or_extra_wheel_content_is_reported(
    change: Mapping[str, bytes | None], fault: str, tmp_path: Path
) -> None:
    files = {name: data for name, data in {**PURE, **change}.items() if data is not None}
    assert any(fault in message for message in wheel_faults(wheel(tmp_path, files), SOURCES, (), ["/build"]))


def test_compiled_wheel_has_every_module_and_its_tag(tmp_path: Path) -> None:
    modules = ["unspool/_core/scan/character_runs", "unspool/_core/scan/markers"]
    faults = wheel_faults(wheel(tmp_path, {**PURE, **CODE}), SOURCES, modules, [])
    assert faults == [
        "unspool/_core/scan/markers is not compiled",
        "its tags are those of the other build",
    ]


def test_wrong_record_is_reported(tmp_path: Path) -> None:
    faults = wheel_faults(
        wheel(tmp_path, PURE, record=f"unspool/py.typed,sha256=x,1\n{INFO}/RECORD,,"), SOURCES, (), []
    )
    assert "unspool/py.typed does not match RECORD" in faults
    assert "unspool/__init__.py is missing in the wheel or in its RECORD" in faults


def test_source_distribution_has_the_repository_files(tmp_path: Path) -> None:
    tracked = [
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "hatch_build.py",
        "hatch_training.py",
        "src/unspool/py.typed",
    ]
    path = tmp_path / "unspool-1.0.tar.gz"
    for extra, faults in (("", []), ("notes.txt", ["notes.txt is not in the repository"])):
        with tarfile.open(path, "w:gz") as archive:
            for name in filter(None, [*tracked, "PKG-INFO", extra]):
                content = METADATA if name == "PKG-INFO" else b""
                member = tarfile.TarInfo(f"unspool-1.0/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        assert sdist_faults(path, tracked, []) == faults
    assert sdist_faults(path, [*tracked, "src/unspool/new.py"], [])[0] == "src/unspool/new.py is missing"


def test_interpreters_are_recognised() -> None:
    interpreter = query_interpreter(sys.executable)
    assert interpreter is not None
    assert interpreter.minor == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert interpreters({"UNSPOOL_PYTHONS": f"{sys.executable}:{sys.executable}"}) == [interpreter]
    assert query_interpreter(str(ROOT / "LICENSE")) is None
    with pytest.raises(SystemExit, match="not a Python that runs here"):
        interpreters({"UNSPOOL_PYTHONS": "/nowhere/python"})
    assert interpreter.minor not in missing_versions([interpreter])
    assert missing_versions([]) == list(VERSIONS)


def test_versions_are_the_promised_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    assert tuple(versions) == VERSIONS
    assert project["requires-python"] == f">={VERSIONS[0]}"


def test_installation_trial_exists() -> None:
    for name in TESTS:
        assert (ROOT / name.partition("::")[0]).exists()
    assert "unspool/_core/scan/character_runs" in dist_build.compiled_modules()


def test_table_lists_what_was_run_and_skipped(tmp_path: Path) -> None:
    here = Interpreter("python3.11", "3.11", "3.11.7", "cpython", free_threaded=False, prefix="")
    release = dist.Release([here])
    release.trials.append(
        Installation("unspool.whl", here.title, f"unspool {__version__}", "9 passed", "7 passed", 3.2)
    )
    page = tmp_path / "page.md"
    page.write_text(f"before\n{dist.BEGIN}\nold\n{dist.END}\nafter\n")
    dist.write(dist.table(release), page)
    written = page.read_text()
    assert "| `unspool.whl` | CPython 3.11.7 |" in written
    assert "| 9 passed | 7 passed | 3 |" in written
    assert "Not available, and not tested: 3.12, 3.13, 3.14, Pyodide." in written
    assert written.startswith("before\n")
    assert written.endswith("after\n")
    assert "old" not in written


def test_checksums_match_the_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "SHA256SUMS").write_bytes(b"old")
    assert dist.checksums(tmp_path) == f"{hashlib.sha256(b'').hexdigest()}  a\n"
