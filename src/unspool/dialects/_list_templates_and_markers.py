"""Enumeration of the templates and markers in a dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ._declaration import Dialect

_TEMPLATE_FIELDS: Final = ("call", "section", "param", "reasoning", "content", "drop", "stop")
"""Fields of ``Dialect`` that contain templates."""


def dialect_texts(dialect: Dialect) -> Iterator[str]:
    """Yield the text of every template and marker of a dialect."""
    for field in _TEMPLATE_FIELDS:
        templates: tuple[str, ...] = getattr(dialect, field)
        yield from templates
    for other in dialect.also_accepts:
        yield from dialect_texts(other)
    yield dialect.values.quote
    yield dialect.prompt.start
    yield from dialect.prompt.turn
    frame = dialect.frame
    if frame is not None:
        yield from (*frame.open, frame.sep, *frame.ends, *frame.fields, frame.call_end)
        yield from (route.header for route in frame.routes)
