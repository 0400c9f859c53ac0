"""Markers that identify a dialect in the text of a template."""

from __future__ import annotations

from ..._core.explain_dialect import fully_compiled
from ...dialects import Dialect
from ...dialects.list_templates_and_markers import turn_markers
from ...dialects.parse_templates import literals, parse_template


def other_markers(dialect: Dialect) -> list[str]:
    """Return the markers outside calls, which distinguish families with the same call format."""
    syntax = fully_compiled(dialect)
    markers = {
        literal.strip()
        for literal in (*dialect.stop, *turn_markers(dialect), *dialect.drop)
        if "{" not in literal
    }
    for wrapper in syntax.states.inside:
        markers.update(step.text for step in wrapper.program.steps if step.text)
    return sorted(literal for literal in markers if len(literal) > 1)


def call_markers(dialect: Dialect, *, params: bool = False) -> list[str]:
    """Return the markers around and inside a call, without brackets and commas.

    :param params: whether to include the markers of parameters.
    """
    texts: list[str] = []
    for templates in (dialect.section, dialect.call, dialect.param if params else ()):
        if templates:
            texts += literals(parse_template(templates[0]))
    stripped = (literal.strip().strip("[]{}(),").strip() for literal in texts)
    return [literal for literal in stripped if len(literal) > 3 and not literal.isalnum()]
