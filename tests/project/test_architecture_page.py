"""The page on the architecture names files that exist."""

from __future__ import annotations

import re

from paths import ROOT

PAGE = ROOT / "docs" / "architecture.md"
TABLE = PAGE.read_text(encoding="utf-8").partition("## Where to change what")[2]
PATHS = re.findall(r"`([\w/.]+/[\w/.]*|\w+\.py)`", TABLE)


def test_architecture_page_names_files_that_exist() -> None:
    folders = (ROOT, ROOT / "src" / "unspool")
    assert len(PATHS) > 100
    assert [path for path in PATHS if not any((folder / path).exists() for folder in folders)] == []
