"""jiter: parses the complete text so far after each delta."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from jiter import from_json

from . import Reader
from .blocks import reading

VERSION = version("jiter")


def _start() -> tuple[Callable[[str], Any], Callable[[], Any]]:
    kept = bytearray()

    def feed(text: str) -> Any:
        kept.extend(text.encode())
        return from_json(bytes(kept), partial_mode="trailing-strings")

    return feed, lambda: from_json(bytes(kept))


def reader(dialect: str, scenario: str) -> Reader | None:
    """Return a reader for JSON."""
    return reading(_start, dialect, scenario)
