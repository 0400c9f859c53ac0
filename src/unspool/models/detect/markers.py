"""The markers that tell a dialect: those of its calls, and those around them."""

from __future__ import annotations

from ..._core.explain import syntax_of
from ...dialects._declaration import Dialect
from ...dialects._templates import literals, parse_template, split_marks


def furniture(dialect: Dialect) -> list[str]:
    """Markers that have nothing to do with calls: they tell families apart that write calls alike."""
    syntax = syntax_of(dialect)
    found = {
        literal.strip()
        for literal in (*dialect.stop, *dialect.prompt.turn, *dialect.drop)
        if "{" not in literal
    }
    for wrapper in syntax.inside:
        found.update(step.text for step in wrapper.program.steps if step.text)
    return sorted(literal for literal in found if len(literal) > 1)


def call_markers(dialect: Dialect, *, params: bool = False) -> list[str]:
    """The markers of a call as the dialect writes it, without the brackets of a notation.

    :param params: those of its parameters, too.
    """
    found: list[str] = []
    for templates in (dialect.section, dialect.call, dialect.param if params else ()):
        if templates:
            found += literals(parse_template(split_marks(templates[0])[1]))
    stripped = (literal.strip().strip("[]{}(),").strip() for literal in found)
    return [literal for literal in stripped if len(literal) > 3 and not literal.isalnum()]
