"""Type checkers see the public names as ``tests/typing/`` states.

The check runs from the outside, as for a user's code: without this project's settings, through the
installed package and its ``py.typed``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import unspool
from paths import TESTS

pytest.importorskip("mypy")

FILES = sorted((TESTS / "typing").glob("*.py"))


def check(file: Path, work: Path) -> subprocess.CompletedProcess[str]:
    (work / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", str(file)],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_typing_examples_check(file: Path, tmp_path: Path) -> None:
    done = check(file, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


# Common mistakes, each with the error of the type checker.
PLAIN = {
    "ExportError",
    "DIAGNOSTIC_KINDS",
    "ProtocolError",
    "SpecError",
    "UnknownDialect",
    "UnspoolError",
    "UsageError",
    "__version__",
}


def test_every_public_name_occurs() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in FILES)
    missing = {name for name in unspool.__all__ if not re.search(rf"\b{name}\b", text)} - PLAIN
    assert not missing, "say in tests/typing/ what their types are"


def test_wrong_type_is_detected(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import unspool\n"
        "unspool.parse('', 'hermes').content.upper()\n"  # the content may be None
        "reveal_type(unspool.parse('', 'hermes').tool_calls)\n"
    )
    done = check(wrong, tmp_path)
    assert done.returncode == 1
    assert 'wrong.py:2: error: Item "None" of "str | None" has no attribute "upper"' in done.stdout
    assert 'wrong.py:3: note: Revealed type is "' in done.stdout
    assert "ToolCall, ...]" in done.stdout
