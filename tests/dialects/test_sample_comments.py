"""Sample outputs in comments: each built-in declaration has a comment with an output that ``render`` writes.

Update them with ``PYTHONPATH=tests/support python tests/dialects/test_sample_comments.py``.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from paths import ROOT
from unspool import Dialect
from unspool._core.render.example_output import example

FAMILIES = ROOT / "src" / "unspool" / "dialects" / "families"
HEAD = "# Sample output:"
WIDTH = 80
"""Maximum length of a line.  A longer line continues on the next line of the comment, after a backslash."""
BREAK = re.compile(r"(?<!:)(?= )(?![^<>]*>)|(?=\]<\])|(?<![\]\[])(?=<[^/])|(?<![\w>])(?=\[)")
"""Positions at which a line may be broken: before a space, an opening tag, ``[`` or ``]<]minimax[>[``.

The space must not be inside a tag or after a colon.
"""


def declarations(module: Path) -> dict[str, Dialect]:
    """Return the dialects of a module by the names of their constants."""
    names = vars(importlib.import_module(f"unspool.dialects.families.{module.stem}"))
    text = module.read_text("utf-8")
    return {
        name: value
        for name, value in names.items()
        if isinstance(value, Dialect) and re.search(rf"^{name} = ", text, re.MULTILINE)
    }


def comment(dialect: Dialect) -> str:
    """Return the sample of a dialect as a comment."""
    lines = [HEAD]
    for line in example(dialect)[0].split("\n"):
        rest = line
        while len(rest) > WIDTH:
            breaks = (match.start() for match in BREAK.finditer(rest, 1))
            end = max((at for at in breaks if at <= WIDTH), default=WIDTH)
            lines.append(f"#   {rest[:end]}\\")
            rest = rest[end:]
        lines.append(f"#   {rest}".rstrip() if rest == line else f"#   {rest}")
    return "\n".join(lines)


MODULES = sorted(path for path in FAMILIES.glob("*.py") if not path.stem.startswith("_"))
DECLARED = [(module, name) for module in MODULES for name in declarations(module)]


@pytest.mark.parametrize(("module", "name"), DECLARED, ids=[name for _, name in DECLARED])
def test_comment_above_the_declaration_is_what_render_writes(module: Path, name: str) -> None:
    expected = f"{comment(declarations(module)[name])}\n{name} = "
    assert expected in module.read_text("utf-8"), "run the command in this module's docstring"


def update() -> None:
    """Write the samples of all dialects."""
    for module in MODULES:
        text = module.read_text("utf-8")
        for name, dialect in declarations(module).items():
            before, _, after = re.split(
                rf"((?:^{HEAD}\n(?:#(?:   .*)?\n)*)?^{name} = )", text, flags=re.MULTILINE
            )
            text = f"{before}{comment(dialect)}\n{name} = {after}"
        module.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    update()
