"""Directives whose content is read from the sources when the site is built.

``import-layers`` draws the import contracts in ``pyproject.toml``, which ``make check`` enforces:
each row is a layer, and a module may import from its own row and from the rows below it.
``every-dialect`` describes every dialect as ``unspool explain`` does.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from unspool.dialects import explain, list_dialects

ROOT = Path(__file__).resolve().parent.parent.parent


class ImportLayers(SphinxDirective):
    """Picture of all contracts of the type ``layers``."""

    def run(self) -> list[nodes.Node]:
        """Return a heading and rows of boxes for each contract, as HTML."""
        pyproject = ROOT / "pyproject.toml"
        self.env.note_dependency(str(pyproject))
        contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
        html = "".join(line for contract in contracts for line in _rows(contract))
        return [nodes.raw("", f'<div class="import-layers">{html}</div>', format="html")]


def _rows(contract: dict[str, Any]) -> Iterator[str]:
    if contract["type"] == "layers":
        yield f"<p>{escape(contract['name'])}</p>"
        for row in contract["layers"]:
            modules = re.split(r"\s*[|:]\s*", row)
            names = [".".join([*contract.get("containers", ()), module]) for module in modules]
            yield f"<div>{''.join(map(_box, names))}</div>"


def _box(module: str) -> str:
    path = ROOT / "src" / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    summary = docstring.partition("\n")[0].replace("``", "")
    return f"<span><b>{escape(module)}</b> {escape(summary)}</span>"


class EveryDialect(SphinxDirective):
    """Section for every built-in dialect."""

    def run(self) -> list[nodes.Node]:
        """Return the explanations, with their subheadings as bold lines."""
        pages = "\n".join(map(explain, list_dialects())).replace("```mermaid", "```text")
        text = re.sub(r"^## (.*)", r"**\1**", pages, flags=re.MULTILINE)
        text = re.sub(r"^# ", "## ", text, flags=re.MULTILINE)
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("import-layers", ImportLayers)
    app.add_directive("every-dialect", EveryDialect)
    return {"parallel_read_safe": True}
