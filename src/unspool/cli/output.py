"""Output of commands, as JSON or as Markdown, which is formatted on a terminal.

Printed text may come from an untrusted file, so control characters are escaped on standard output and
standard error while a command runs.  ``terminal`` returns the original stream without escaping.
"""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

from .._core.terminal_escaping import visible


class VisibleStream:
    """Wrapper around a text stream that escapes control characters."""

    def __init__(self, stream: TextIO) -> None:
        self.terminal = stream
        """The original stream, without escaping."""

    def write(self, text: str) -> int:
        """Write text with escaped control characters."""
        self.terminal.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several strings."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


@contextmanager
def visible_output() -> Iterator[None]:
    """Escape control characters in all printed text during a ``with`` block."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", VisibleStream(stream)) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def terminal(stream: TextIO) -> TextIO:
    """Return the original stream without escaping, for terminal control sequences.

    Before you write untrusted text to this stream, pass it through ``visible``.
    """
    found: TextIO = getattr(stream, "terminal", stream)
    return found


def print_page(text: str) -> None:
    """Print Markdown; format it if standard output is a terminal."""
    if sys.stdout.isatty():
        try:
            _print_markdown(text)
        except ImportError:
            pass
        else:
            return
    print(text)


def _print_markdown(text: str) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    Console(file=terminal(sys.stdout)).print(Markdown(visible(text)))


def print_rows(rows: Iterable[Sequence[str]], header: Sequence[str]) -> None:
    """Print a table: with a header and aligned columns on a terminal, otherwise as tab-separated values."""
    if not sys.stdout.isatty():
        for row in rows:
            print(*row, sep="\t")
        return
    lines = [tuple(header), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(cells).rstrip())


def to_json(value: object, indent: int | None = None) -> str:
    """Serialize a value as JSON; escape characters that standard output cannot encode."""
    # With UTF-8, only lone surrogates cannot be encoded.  Standard output replaces them with ``\udXXX``,
    # which is also a valid JSON escape.
    utf_8 = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
    return json.dumps(value, ensure_ascii=not utf_8, indent=indent)
