"""Enumeration of the templates and markers in a dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ._declaration import Dialect
from .parse_templates import literals, parse_header_field, parse_template, template_text

_TEMPLATE_FIELDS: Final = ("call", "section", "param", "reasoning", "content", "drop", "stop")
"""Fields of ``Dialect`` that contain templates."""


def dialect_texts(dialect: Dialect) -> Iterator[str]:
    """Yield the text of every template and marker of a dialect."""
    for field in _TEMPLATE_FIELDS:
        yield from map(template_text, getattr(dialect, field))
    for other in dialect.also_accepts:
        yield from dialect_texts(other)
    yield dialect.values.quote
    yield dialect.prompt.start
    yield from dialect.prompt.turn
    frame = dialect.frame
    if frame is not None:
        yield from map(template_text, frame.open)
        yield from (frame.sep, *frame.ends, *frame.fields, frame.call_end)
        yield from (route.header for route in frame.routes)


def dialect_literals(dialect: Dialect) -> Iterator[str]:
    """Yield the literal texts in the templates and markers of a dialect."""
    for field in _TEMPLATE_FIELDS:
        for template in getattr(dialect, field):
            yield from literals(parse_template(template))
    yield from header_literals(dialect)


def header_literals(dialect: Dialect) -> Iterator[str]:
    """Yield the literal texts in and around the headers of messages."""
    frame = dialect.frame
    if frame is not None:
        yield from map(template_text, frame.open)
        yield from (frame.sep, *frame.ends)
        for field in frame.fields:
            yield from literals(parse_header_field(field))
