"""Output of commands: JSON, and Markdown pages that are formatted on a terminal.

Printed text may come from an untrusted file.  While a command runs, standard output and standard error
therefore escape control characters.  ``terminal`` returns the stream without the escaping.
"""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from .._core.escape_controls import visible


class VisibleStream:
    """Stream that escapes control characters."""

    def __init__(self, stream: TextIO) -> None:
        self.terminal = stream
        """The stream without escaping."""

    def write(self, text: str) -> int:
        """Write a text, with its control characters escaped."""
        self.terminal.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


@contextmanager
def visible_output() -> Iterator[None]:
    """Escape control characters in what is printed, as long as the block runs."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", VisibleStream(stream)) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def terminal(stream: TextIO) -> TextIO:
    """Return the stream without the escaping, for control sequences of our own.

    Text from elsewhere must go through ``visible`` before it is written there.
    """
    found: TextIO = getattr(stream, "terminal", stream)
    return found


def print_page(text: str) -> None:
    """Print Markdown; on a terminal, formatted."""
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


def to_json(value: object, indent: int | None = None) -> str:
    """Return a value as JSON, with escapes for characters that standard output cannot encode."""
    # In UTF-8, standard output replaces only lone surrogates, and their replacement is a JSON escape, too.
    utf_8 = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
    return json.dumps(value, ensure_ascii=not utf_8, indent=indent)
