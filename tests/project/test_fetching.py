"""``make templates`` with given packages."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import fetch_templates
from fetch_templates import FetchError, fetch, known_templates, packages
from paths import TEMPLATES, real

FILES = {
    "pkg/templates/a.jinja": b"{{ a }}\r\n",
    "pkg/templates/b.jinja": b"{{ b }}",
    "pkg/templates/more/c.jinja": b"{{ c }}",
    "pkg/templates/readme.md": b"x",
}


def wheel(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "pkg-1-py3-none-any.whl", "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
    return folder / "pkg-1-py3-none-any.whl"


def source(folder: Path) -> Path:
    with tarfile.open(folder / "pkg-1.tar.gz", "w:gz") as archive:
        for name, text in FILES.items():
            member = tarfile.TarInfo(f"pkg-1/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return folder / "pkg-1.tar.gz"


@pytest.fixture(params=[wheel, source])
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the manifest's entry for the only package; its archive needs no network."""
    entry: dict[str, Any] = {"version": "1", "sha256": "0", "folder": "pkg/templates", "known": ["a"]}

    def download(name: str, package: Mapping[str, Any], folder: Path) -> Path:
        assert (name, package) == ("pkg", entry)
        archive = request.param(folder)
        assert isinstance(archive, Path)
        return archive

    monkeypatch.setattr(fetch_templates, "packages", lambda: {"pkg": entry})
    monkeypatch.setattr(fetch_templates, "download", download)
    return entry


def test_templates_of_one_directory_are_copied_verbatim(tmp_path: Path, package: dict[str, Any]) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "old.jinja").write_text("of another version", "utf-8")
    fetch(tmp_path)
    files = {file.name: file.read_bytes() for file in (tmp_path / "pkg").iterdir()}
    assert files == {"a.jinja": b"{{ a }}\r\n", "b.jinja": b"{{ b }}"}


@pytest.mark.parametrize("change", [{"known": ["a", "gone"]}, {"folder": "pkg/elsewhere", "known": []}])
def test_package_without_templates_changes_nothing(
    tmp_path: Path, package: dict[str, Any], change: dict[str, Any]
) -> None:
    package |= change
    (tmp_path / "old.jinja").write_text("x", "utf-8")
    with pytest.raises(FetchError, match=r"pkg/\w+ lacks"):
        fetch(tmp_path)
    assert (tmp_path / "old.jinja").exists()


def test_manifest_pins_each_package() -> None:
    for name, package in packages().items():
        assert package["version"].count("."), name
        assert len(package["sha256"]) == 64, name


@real
def test_every_known_template_is_fetched() -> None:
    assert known_templates() <= set(TEMPLATES)
