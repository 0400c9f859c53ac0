"""Sections of pages that a program writes, between ``<!-- NAME: ... -->`` and ``<!-- /NAME -->``."""

from __future__ import annotations

import re

from lab import ROOT


def read_section(page: str, name: str) -> str:
    """Return the text of a section; the path ``page`` is relative to the checkout."""
    return _match(page, name)[2]


def write_section(page: str, name: str, text: str) -> None:
    """Replace the text of a section; the path ``page`` is relative to the checkout."""
    found = _match(page, name)
    contents = f"{found.string[: found.end(1)]}\n\n{text.strip()}\n\n{found.string[found.start(3) :]}"
    (ROOT / page).write_text(contents, encoding="utf-8")


def _match(page: str, name: str) -> re.Match[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"(<!-- {name}: [^\n]*-->)\n\s*(.*?)\s*(<!-- /{name} -->)", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"{page} has no section {name}; add <!-- {name}: ... --> and <!-- /{name} -->")
    return found
