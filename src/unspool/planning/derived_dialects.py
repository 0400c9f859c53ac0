"""Per-request dialects, which are derived from the dialect of a model family."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..dialects import Dialect, Family, Names, Prompt, get_dialect


def opener(template: str) -> str:
    """Return the opening marker of a wrapper template."""
    return template.lstrip("^?").partition("{text}")[0].strip()


def closer(template: str) -> str:
    """Return the closing marker of a wrapper template."""
    return template.partition("{text}")[2].strip()


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
    sections: tuple[str, ...] = ("^{calls}",) if name else plain.section
    if strip:  # some models write only the opening marker, others also the closing marker
        leads = (f"^{strip}\n", f"^{strip}\n</{strip[1:]}\n")
        anchored = [section[1:] for section in sections if section.startswith("^")]
        sections += tuple(lead + section for lead in leads for section in anchored)
    return replace(
        plain,
        name=f"{plain.name}:{dialect.name}",
        family=Family("guided output"),
        section=sections,
        call=("[{envelope}]", ",{envelope}]", "{args}") if name else plain.call,
        sep=(";",) if name else plain.sep,
        names=Names(fixed=name),
        reasoning=dialect.reasoning if reasoning else (),
        drop=dialect.drop,
        stop=dialect.stop,
        prompt=Prompt(turn=dialect.prompt.turn),
        id_format=dialect.id_format,
    )
