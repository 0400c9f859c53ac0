"""Construction of dialects from the markers that were found in outputs."""

from __future__ import annotations

from dataclasses import replace

from ...dialects import Dialect, Prompt, Section, Writing
from ...dialects.parse_templates import escaped
from .divide_text_around_calls import Layout
from .find_reasoning_and_content_markers import FoundWrapper, FoundWrappers
from .found_calls import Reading
from .placeholder_characters import to_template

_BRACKETS = " \n[({"


def build_dialect(name: str, reading: Reading, layout: Layout, wrappers: FoundWrappers, stop: str) -> Dialect:
    """Return the dialect with these markers."""
    return with_texts_of(
        Dialect(
            name=name,
            call=(to_template(layout.call),),
            section=_sections(layout),
            param=(to_template(reading.param),) if reading.param else (),
            args=reading.args,
            envelope=reading.envelope,
            values=reading.values,
            writing=Writing(before_calls=_newlines(layout.glue), between_calls=layout.separator),
            habits=replace(reading.habits, first_index=layout.first_index),
        ),
        build_without_calls(name, wrappers, stop),
    )


def build_without_calls(name: str, wrappers: FoundWrappers, stop: str) -> Dialect:
    """Return a dialect with these markers around reasoning and content, and without calls."""
    seeds = [each for each in wrappers.reasoning if each.in_prompt]
    return Dialect(
        name=name,
        reasoning=tuple(map(_wrapper, wrappers.reasoning)),
        content=tuple(map(_wrapper, wrappers.content)),
        stop=(stop,) if stop else (),
        prompt=Prompt(ends=(seeds[0].opener,), opens_message=True) if seeds else Prompt(),
    )


def with_texts_of(dialect: Dialect, other: Dialect) -> Dialect:
    """Return a dialect with the calls of one, and the reasoning, content and stop markers of another."""
    return replace(
        dialect,
        reasoning=other.reasoning,
        content=other.content,
        stop=other.stop,
        prompt=other.prompt,
    )


def _wrapper(found: FoundWrapper) -> str:
    return f"{escaped(found.opener)}{{text}}{escaped(found.closer)}"


def _newlines(glue: str) -> str:
    return glue if not glue.strip("\n") else ""


def _sections(layout: Layout) -> tuple[str | Section, ...]:
    """Return the templates of the section."""
    # Only newlines can be declared apart from the section.
    spaces = "" if _newlines(layout.glue) else layout.glue
    text = f"{escaped(spaces + layout.opening)}{{calls}}{escaped(layout.closing)}"
    if layout.opener_text.strip(_BRACKETS):
        return (text,)
    # Only brackets surround the calls, so ordinary brackets in content look like calls, too.
    at_start = Section(text, only_at_start=True)
    if layout.opening.strip():
        return (at_start, Section(text, declared_only=True))
    return (at_start,)
