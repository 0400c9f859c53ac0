"""Table of the programs in ``lab``, from their docstrings; ``--write`` updates ``lab/README.md``."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator

from lab import ROOT
from lab.docs_section import write_section


def programs() -> Iterator[tuple[str, str]]:
    """Yield the module name and the docstring of each program that states its needs."""
    for path in sorted((ROOT / "lab").rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if "\nNeeds: " in text:
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield module.removesuffix(".__main__"), text


def table() -> str:
    """Return the table of all programs."""
    lines = ["| `python -m` | purpose | needs | takes |", "|---|---|---|---|"]
    for module, text in programs():
        purpose = " ".join(text.partition("\n\n")[0].split()).replace("``", "`").rstrip(".")
        cells = [
            " ".join(found[1].split()).replace("``", "`").rstrip(".")
            for name in ("Needs", "Takes")
            if (found := re.search(rf"^{name}: (.*?)(?=^\w+: |\Z)", text, re.DOTALL | re.MULTILINE))
        ]
        lines.append(f"| {' | '.join((f'`{module}`', purpose, *cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into lab/README.md")
    if parser.parse_args().write:
        write_section("lab/README.md", "programs", table())
    else:
        print(table())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
