"""Per-request dialects, which are derived from the dialect of a model family."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..dialects import Dialect, Family, Habits, Names, Prompt, Section, Wrapper, Writing, get_dialect
from ..dialects.list_templates_and_markers import turn_markers
from ..dialects.parse_templates import escaped, text_around


def opener(template: str | Wrapper) -> str:
    """Return the opening marker of a wrapper template."""
    return text_around(template, "text")[0].strip()


def closer(template: str | Wrapper) -> str:
    """Return the closing marker of a wrapper template."""
    return text_around(template, "text")[1].strip()


@lru_cache(maxsize=256)
def without_reasoning(dialect: Dialect) -> Dialect:
    """Return a copy of a dialect in which reasoning markers are plain text."""
    return replace(dialect, reasoning=()) if dialect.reasoning else dialect


@lru_cache(maxsize=1024)
def guided(dialect: Dialect, name: str, reasoning: bool, strip: str) -> Dialect:
    """Return a dialect for JSON output that a schema constrains, with optional reasoning before the JSON.

    For ``tool_choice=required`` the output is an array of objects with name and arguments.
    For a named function, some engines write such an array, too, but others write only the
    arguments.  The first character (``[`` or ``{``) distinguishes the two forms, so arguments
    are never mistaken for an object with name and arguments.

    :param name: the function that ``tool_choice`` names; empty for ``required``.
    :param reasoning: True if the output may begin with reasoning.
    :param strip: a marker to remove if the model writes it before the JSON (decision PRE.6).
    """
    plain = get_dialect("generic_json")
    sections: tuple[str | Section, ...] = (Section("{calls}", only_at_start=True),) if name else plain.section
    strip = strip.strip()
    if strip:  # some models write only the opening marker, others also the closing marker
        leads = (escaped(f"{strip}\n"), escaped(f"{strip}\n</{strip[1:]}\n"))
        sections += tuple(
            replace(section, text=lead + section.text)
            for lead in leads
            for section in sections
            if isinstance(section, Section) and section.only_at_start
        )
    return replace(
        plain,
        name=f"{plain.name}:{dialect.name}",
        family=Family("guided output"),
        section=sections,
        call=("[{envelope}]", ",{envelope}]", "{args}") if name else plain.call,
        writing=Writing(between_calls=";") if name else plain.writing,
        separators=() if name else plain.separators,
        names=Names(fixed=name),
        reasoning=dialect.reasoning if reasoning else (),
        drop=dialect.drop,
        habits=Habits(drop_text=dialect.habits.drop_text, repeated_calls=dialect.habits.repeated_calls),
        stop=dialect.stop,
        prompt=Prompt(turn=turn_markers(dialect)),
        id_format=dialect.id_format,
    )
