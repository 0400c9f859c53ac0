"""Paths of files that tests read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from fetch_templates import known_templates

TESTS: Final = Path(__file__).resolve().parent.parent
ROOT: Final = TESTS.parent


def _templates() -> tuple[dict[str, Path], dict[str, Path]]:
    by_name: dict[str, Path] = {}
    others: dict[str, Path] = {}
    names = known_templates()
    for path in sorted((ROOT / ".templates").glob("*/*.jinja")):
        if path.stem in names:
            by_name[path.stem] = path
        else:
            others[f"{path.parent.name}/{path.stem}"] = path
    beside = sorted((ROOT.parent / "shared" / "templates").glob("*.jinja"))
    return by_name | {path.stem: path for path in beside}, others


_found = _templates()
TEMPLATES: Final[Mapping[str, Path]] = _found[0]
"""Real chat templates by name.  They are third-party, so ``make templates`` fetches them."""
MORE_TEMPLATES: Final[Mapping[str, Path]] = _found[1]
"""Other templates from the packages of ``make templates``, by package and name."""

real = pytest.mark.skipif(not TEMPLATES, reason="no chat templates: make templates")
