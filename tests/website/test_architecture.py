"""The page on the architecture names files that exist, and its picture shows the import contracts."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from paths import ROOT
from website import layers

PAGE = ROOT / "docs" / "architecture.md"
TABLE = PAGE.read_text(encoding="utf-8").partition("## Where to change what")[2]
PATHS = re.findall(r"`([\w/.]+/[\w/.]*|\w+\.py)`", TABLE)


def test_architecture_page_names_files_that_exist() -> None:
    folders = (ROOT, ROOT / "src" / "unspool")
    assert len(PATHS) > 100
    assert [path for path in PATHS if not any((folder / path).exists() for folder in folders)] == []


def test_layers_picture_shows_every_package_of_the_contract() -> None:
    drawn = ET.fromstring(layers.picture(ROOT))  # noqa: S314 - our own
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    names = [package for rows in layers.contracts(ROOT).values() for row in rows for package in row]
    assert "unspool.planning" in names
    assert [text for text in texts if text in names] == names
    assert all(layers.summary(ROOT, package) for package in names)


def test_layers_picture_replaces_its_marker(tmp_path: Path) -> None:
    page = tmp_path / "architecture.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    layers.write(ROOT, tmp_path)
    assert layers.MARKER not in page.read_text(encoding="utf-8")
    assert "](layers.svg)" in page.read_text(encoding="utf-8")
    assert (tmp_path / "layers.svg").is_file()
    with pytest.raises(SystemExit, match="must contain the line"):
        layers.write(ROOT, tmp_path)
