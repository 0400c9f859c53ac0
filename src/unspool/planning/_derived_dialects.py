"""Dialects that a request makes of others."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..dialects._declaration import Dialect, Family, Names, Prompt
from ..dialects._registry import get_dialect


def opener(template: str) -> str:
    """What opens a wrapper."""
    return template.lstrip("^?").partition("{text}")[0].strip()


def closer(template: str) -> str:
    """What closes it."""
    return template.partition("{text}")[2].strip()


@lru_cache(maxsize=256)
def without_reasoning(dialect: Dialect) -> Dialect:
    """The dialect of a model that does not reason: the markers are text."""
    return replace(dialect, reasoning=()) if dialect.reasoning else dialect


@lru_cache(maxsize=1024)
def guided(dialect: Dialect, name: str, reasoning: bool, strip: str) -> Dialect:
    """JSON that a schema enforced, after the family's own reasoning.

    ``required`` gives an array of objects with name and arguments.  A named
    choice gives the arguments alone, or with some engines such an array; the
    first character tells them apart, so an object is never taken for an envelope.
    """
    plain = get_dialect("generic_json")
    sections: tuple[str, ...] = ("^{calls}",) if name else plain.section
    if strip:  # may be left over before the JSON, closed or not
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
