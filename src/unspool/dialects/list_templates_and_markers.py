"""Enumeration of the templates and markers in a dialect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ._control_token_pattern import CONTROL_TOKEN
from ._declaration import Dialect
from .parse_templates import literals, parse_header_field, parse_template, template_text, with_text

_NO_SPACE: Final = re.compile(rf"(?:{CONTROL_TOKEN.pattern})(?=\w)|(?<=\w)(?={CONTROL_TOKEN.pattern})")
"""Pattern of the border between a control token and a word, where a detokenizer may add a space."""
_TEMPLATE_FIELDS: Final = ("call", "section", "param", "reasoning", "content", "drop", "stop")
"""Fields of ``Dialect`` that contain templates."""


def dialect_texts(dialect: Dialect) -> Iterator[str]:
    """Yield the text of every template and marker of a dialect."""
    for field in _TEMPLATE_FIELDS:
        yield from map(template_text, getattr(dialect, field))
    yield from (*dialect.habits.drop_text, *dialect.habits.repeated_calls)
    for other in dialect.also_accepts:
        yield from dialect_texts(other)
    yield dialect.values.quote
    yield dialect.prompt.start
    yield from turn_markers(dialect)
    frame = dialect.frame
    if frame is not None:
        yield from map(template_text, frame.open)
        yield from (frame.sep, *frame.ends, *frame.fields, dialect.habits.call_end)
        yield from (route.header for route in frame.routes)


def with_spaced_templates(dialect: Dialect) -> Dialect:
    """Return a dialect with a second variant of each template, if it tolerates spaces.

    In the variant, there is a space between control tokens and words, as some detokenizers write it.
    """
    if not dialect.habits.tolerates_spaces:
        return dialect
    both: dict[str, object] = {}
    for field in ("call", "section", "param", "reasoning", "content", "drop"):
        templates = getattr(dialect, field)
        spaced = (
            with_text(template, _NO_SPACE.sub(r"\g<0> ", template_text(template))) for template in templates
        )
        both[field] = tuple(dict.fromkeys((*templates, *spaced)))
    return replace(dialect, **both)  # type: ignore[arg-type]


def turn_markers(dialect: Dialect) -> tuple[str, ...]:
    """Return the markers that show the parser where a turn of the model begins in a prompt."""
    return (*(dialect.prompt.ends if dialect.prompt.begins_turn else ()), *dialect.prompt.turn)


def dialect_literals(dialect: Dialect) -> Iterator[str]:
    """Yield the literal texts in the templates and markers of a dialect."""
    dialect = with_spaced_templates(dialect)
    for field in _TEMPLATE_FIELDS:
        for template in getattr(dialect, field):
            yield from literals(parse_template(template))
    for template in (*dialect.habits.drop_text, *dialect.habits.repeated_calls):
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
