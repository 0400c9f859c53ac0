"""ijson: pushes each delta through its fastest back end and collects the events."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import ijson

from . import Reader
from .blocks import reading

VERSION = version("ijson")


def _start() -> tuple[Callable[[str], Any], Callable[[], Any]]:
    events: Any = ijson.sendable_list()
    parser = ijson.parse_coro(events)
    builder = ijson.ObjectBuilder()

    def feed(text: str) -> None:
        parser.send(text.encode())
        for _, event, value in events:
            builder.event(event, value)
        del events[:]

    return feed, lambda: builder.value


def reader(dialect: str, scenario: str) -> Reader | None:
    """Return a reader for JSON."""
    return reading(_start, dialect, scenario)
