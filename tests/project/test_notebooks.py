"""Notebooks are generated from pages, and run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from notebook import notebook
from paths import ROOT

NOTEBOOKS = {"rollouts_to_a_mask.ipynb": "rollouts.md"}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_equals_its_page(name: str) -> None:
    page = (ROOT / "docs" / NOTEBOOKS[name]).read_text(encoding="utf-8")
    written = (ROOT / "examples" / name).read_text(encoding="utf-8")
    assert written == notebook(page), f"python tools/notebook.py docs/{NOTEBOOKS[name]} examples/{name}"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "examples" / name).read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # noqa: S102 - it is ours
    assert "picture" in names
