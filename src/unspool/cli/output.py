"""What commands print: JSON, and pages that a terminal shows better than a pipe."""

from __future__ import annotations

import codecs
import json
import sys


def print_page(text: str) -> None:
    """Print Markdown, as a page where the output is a terminal."""
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

    Console().print(Markdown(text))


def to_json(value: object, indent: int | None = None) -> str:
    """The value, in the characters that standard output has."""
    # In UTF-8 the only thing that gets replaced is a lone surrogate, by what is
    # its escape in JSON, too.
    utf_8 = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
    return json.dumps(value, ensure_ascii=not utf_8, indent=indent)
