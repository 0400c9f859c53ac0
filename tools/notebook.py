"""Converter of a docs page to a notebook.

    python tools/notebook.py docs/rollouts.md examples/rollouts_to_a_mask.ipynb

The page is the source; the notebook has a cell for each of its texts and code blocks.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def notebook(page: str) -> str:
    """Convert a page to a notebook, without the output of its code."""
    cells: list[dict[str, Any]] = []
    at = 0
    for block in _BLOCK.finditer(page):
        _markdown(cells, page[at : block.start()])
        if block[1] == "python":
            source = block[2].rstrip().splitlines(keepends=True)
            cells.append(
                {
                    "cell_type": "code",
                    "execution_count": None,
                    "metadata": {},
                    "outputs": [],
                    "source": source,
                }
            )
        at = block.end()
    _markdown(cells, page[at:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    whole = {
        "cells": cells,
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _markdown(cells: list[dict[str, Any]], text: str) -> None:
    if text.strip():
        cells.append(
            {"cell_type": "markdown", "metadata": {}, "source": text.strip().splitlines(keepends=True)}
        )


def main() -> None:
    """Write the notebook of a page."""
    page, out = map(Path, sys.argv[1:])
    out.parent.mkdir(exist_ok=True)
    out.write_text(notebook(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
