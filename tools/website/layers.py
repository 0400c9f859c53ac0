"""Picture of the layers, drawn from the import contracts in ``pyproject.toml``.

Each row is a layer.  A module may import from its own row and from the rows below it.
The picture is made when the site is built, so it always shows the contracts that
``make check`` enforces.
"""

from __future__ import annotations

import ast
import re
import tomllib
from html import escape
from pathlib import Path
from typing import Final

from .states import STYLE

MARKER: Final = "<!-- layers.svg -->"
"""Line of ``docs/architecture.md`` that the site replaces with the picture."""
WIDTH, ROW, GAP, MARGIN, HEADING = 860, 54, 10, 10, 28
_KINDS: Final = ("content", "call", "reasoning", "other")
"""Classes of colours that consecutive layers use."""


def write(repository: Path, pages: Path) -> None:
    """Write the picture, and put it into the page on the architecture."""
    (pages / "layers.svg").write_text(picture(repository), encoding="utf-8")
    page = pages / "architecture.md"
    text = page.read_text(encoding="utf-8")
    if text.count(MARKER) != 1:
        raise SystemExit(f"{page.name} must contain the line {MARKER} exactly once")
    image = "![The layers of the package, from the command line down to the parser](layers.svg)"
    page.write_text(text.replace(MARKER, image), encoding="utf-8")


def contracts(repository: Path) -> dict[str, list[list[str]]]:
    """Return the layers of each contract by its name, the highest layer first."""
    settings = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    drawn = {}
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            container = "".join(f"{name}." for name in contract.get("containers", ()))
            drawn[contract["name"]] = [
                [f"{container}{module}" for module in re.split(r"\s*[|:]\s*", row)]
                for row in contract["layers"]
            ]
    return drawn


def summary(repository: Path, package: str) -> str:
    """Return the first line of a package's docstring."""
    path = repository / "src" / package.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def picture(repository: Path) -> str:
    """Return the picture as SVG: the contracts one below the other, each with its name."""
    drawn: list[str] = []
    y = MARGIN
    for name, rows in contracts(repository).items():
        drawn.append(f'<text class="state" x="{MARGIN}" y="{y + 16}">{escape(name)}</text>')
        y += HEADING
        for number, row in enumerate(rows):
            width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
            for column, package in enumerate(row):
                text = summary(repository, package)
                drawn.append(_box(package, text, number, MARGIN + column * (width + GAP), y, width))
            y += ROW + GAP
        y += GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}">',
            "<title>The layers of unspool</title>",
            f"<style>{STYLE}</style>",
            *drawn,
            "</svg>\n",
        ]
    )


def _box(package: str, text: str, number: int, x: float, y: float, width: float) -> str:
    limit = int(width / 6.6) - 3  # a character is about 6.6 pixels wide
    shown = text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
    at = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{ROW}" rx="6"'
    return "\n".join(
        [
            f'<g><title>{escape(text)}</title><rect class="{_KINDS[number % len(_KINDS)]}" {at}/>',
            f'<rect class="border" {at}/>',
            f'<text class="state" x="{x + 12:g}" y="{y + 22:g}">{escape(package)}</text>',
            f'<text x="{x + 12:g}" y="{y + 41:g}">{escape(shown)}</text></g>',
        ]
    )
