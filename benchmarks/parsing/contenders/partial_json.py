"""partial-json-parser: parses the complete text so far after each delta."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from partial_json_parser import loads

from . import Reader
from .blocks import reading

VERSION = version("partial-json-parser")


def _start() -> tuple[Callable[[str], Any], Callable[[], Any]]:
    kept: list[str] = []

    def feed(text: str) -> Any:
        kept.append(text)
        return loads("".join(kept))

    return feed, lambda: loads("".join(kept))


def reader(dialect: str, scenario: str) -> Reader | None:
    """Return a reader for JSON."""
    return reading(_start, dialect, scenario)
