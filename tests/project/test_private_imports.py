"""Outside ``_core``, no package imports a private module or name of another package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from paths import ROOT

SOURCE = ROOT / "src"
SHARED = {"_core", "_version", "_lazy_names", "_dataclass_repr"}
"""Private modules of the project itself, which all of its packages may use."""


def foreign_private_imports(file: Path, text: str) -> Iterator[str]:
    """Yield the private names of other packages that a module imports."""
    module = file.relative_to(SOURCE).with_suffix("").parts
    package = module[:-1]
    own = package if module[-1] == "__init__" else module
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = package[: len(package) - node.level + 1] if node.level else ()
        target = (*base, *(node.module or "").split(".")) if node.module else base
        for alias in node.names:
            full = (*target, alias.name)
            if full[0] != "unspool" or full[1] in SHARED:
                continue
            private = next((at for at, part in enumerate(full) if part[0] == "_" and part[:2] != "__"), 0)
            if private and own[:private] != full[:private]:
                yield ".".join(full)


FILES = [file for file in sorted(SOURCE.rglob("*.py")) if "_core" not in file.parts]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_module_imports_no_private_name_of_another_package(file: Path) -> None:
    assert list(foreign_private_imports(file, file.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from ..wire._chat_encoder import ChatStream", ["unspool.wire._chat_encoder.ChatStream"]),
        ("from ..wire import ChatStream, _chat_encoder", ["unspool.wire._chat_encoder"]),
        ("from unspool.wire._chat_encoder import ChatStream", ["unspool.wire._chat_encoder.ChatStream"]),
        ("from ._plan import Plan", []),
        ("from .._core.machine import Machine", []),
        ("from .. import __version__", []),
    ],
)
def test_private_import_is_found(line: str, found: list[str]) -> None:
    assert list(foreign_private_imports(SOURCE / "unspool" / "planning" / "x.py", line)) == found
