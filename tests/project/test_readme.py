"""The Python in README.md and docs/ runs, and prints what the page shows.

The ``python`` blocks of a page run in order in one namespace. A ``text`` block is the exact output of the
``python`` block before it, unless a heading or another block stands in between.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import sys
import textwrap
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]

FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,})(?P<language>\w*)[^`]*")


@dataclass
class Block:
    """A ``python`` block of a page."""

    line: int
    """Line of the opening fence, from 1."""
    code: str
    expected: str | None = None
    """Expected output; None if anything may be printed."""


class PageError(AssertionError):
    """A block that does not do what its page says."""


def blocks(page: Path) -> list[Block]:
    """Return the ``python`` blocks of a page in order."""
    result: list[Block] = []
    last: Block | None = None  # the block that a following ``text`` block belongs to
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        if line.startswith("#"):
            last = None
        fence = FENCE.fullmatch(line)
        if fence is None:
            continue
        body = []
        for _, inside in lines:
            if re.fullmatch(rf" *{fence['ticks']}`* *", inside):
                break
            body.append(inside + "\n")
        else:
            raise PageError(f"{page}:{number}: this block is never closed")
        text = textwrap.dedent("".join(body)) if fence["indent"] else "".join(body)
        if fence["language"] in {"python", "py"}:
            last = Block(number, text)
            result.append(last)
        else:
            if fence["language"] == "text" and last is not None:
                last.expected = text
            last = None
    return result


def run(page: Path, module: ModuleType) -> int:
    """Run a page in the namespace of ``module`` and return the number of blocks."""
    page_blocks = blocks(page)
    for block in page_blocks:
        printed = io.StringIO()
        try:
            # The leading newlines make line numbers agree with the page.
            code = compile("\n" * block.line + block.code, str(page), "exec", dont_inherit=True)
            with contextlib.redirect_stdout(printed):
                exec(code, vars(module))  # noqa: S102  the page is ours
        except Exception as error:
            raise PageError(f"{page}:{_line(error, page, block.line)}: {error!r}") from error
        if block.expected is not None and printed.getvalue() != block.expected:
            difference = difflib.ndiff(
                block.expected.splitlines(keepends=True), printed.getvalue().splitlines(keepends=True)
            )
            raise PageError(f"{page}:{block.line}: prints something else:\n{''.join(difference)}")
    return len(page_blocks)


def _line(error: Exception, page: Path, default: int) -> int:
    """Return the line of ``page`` where ``error`` was raised."""
    if isinstance(error, SyntaxError) and error.filename == str(page):
        return error.lineno or default
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno for f in reversed(frames) if f.filename == str(page) and f.lineno), default)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A namespace that dataclasses and type hints can look up by name."""
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_blocks_run(page: Path, module: ModuleType) -> None:
    run(page, module)


def test_readme_has_examples() -> None:
    assert blocks(ROOT / "README.md")


def _page(tmp_path: Path, text: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(textwrap.dedent(text), encoding="utf-8")
    return page


def test_blocks_share_a_namespace_and_print_what_is_shown(tmp_path: Path, module: ModuleType) -> None:
    page = _page(
        tmp_path,
        """\
        ```python
        x = 1
        ```

        ```python
        print(x + 1)
        ```

        which prints

        ```text
        2
        ```

        ```python
        print("anything")
        ```

        # A heading

        ```text
        not output
        ```
        """,
    )
    assert run(page, module) == 3


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("\n```python\nx = 1\n\nassert x == 2\n```\n", 5, "AssertionError"),
        ("```python\ndef f():\n    return 1 / 0\n```\n\n```python\nf()\n```\n", 3, "ZeroDivisionError"),
        ("```python\nx = 1\ny = = 2\n```\n", 3, "SyntaxError"),
        ("```python\nimport json\njson.loads('')\n```\n", 3, "JSONDecodeError"),
        ("* item\n\n  ```py\n  unknown\n  ```\n", 4, "NameError"),
        ("```python\nprint(1)\n```\n```text\n2\n```\n", 1, "- 2\n+ 1\n"),
        ("```python\nprint(1, end='')\n```\n```text\n1\n```\n", 1, "prints something else"),
        ("```python\npass\n```\n\nnothing:\n\n```text\n1\n```\n", 1, "- 1\n"),
        ("text\n\n```python\npass\n", 3, "never closed"),
    ],
)
def test_failing_block_fails_with_its_line(
    text: str, line: int, message: str, tmp_path: Path, module: ModuleType
) -> None:
    page = _page(tmp_path, text)
    with pytest.raises(PageError, match=re.escape(f"{page}:{line}: ")) as caught:
        run(page, module)
    assert message in str(caught.value)
