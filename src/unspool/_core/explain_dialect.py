"""Human-readable explanation of a dialect, generated from the compiled dialect.

The markers, the bounds and the state diagram are read from the tables that the machine uses, so they are
always up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from ..dialects._control_token_pattern import is_control_token
from ..dialects._registry import find
from ..dialects.parse_templates import template_text
from .compile_cache import compiled_dialect
from .compiler.compiled_dialect import CompiledDialect
from .compiler.match_program_types import (
    CALL,
    CLOSE_PARAM,
    DROP,
    EMPTY_SECTION,
    FRAME,
    OPEN_WRAPPER,
    PARAM,
    SECTION_CLOSE,
    STOP,
)
from .compiler.states_outside_calls import TextState
from .render.example_output import example
from .scan.character_runs import BOUND

if TYPE_CHECKING:
    from ..dialects._declaration import Dialect, Route
    from ..dialects._placed_templates import Section, Wrapper


def explain(dialect: str | Dialect) -> str:
    """Return a description of a dialect in Markdown: sample, templates, bounds and states.

    >>> print(explain("hermes").splitlines()[0])
    # hermes
    """
    spec = find(dialect)
    return "\n".join(_Explanation(spec).lines()).rstrip() + "\n"


def state_diagram(dialect: str | Dialect) -> str:
    """Return a Mermaid diagram of the states outside calls, and of the markers that change the state."""
    return "\n".join(_Explanation(find(dialect)).diagram())


def markers(dialect: str | Dialect) -> tuple[str, ...]:
    """Return all markers of a dialect that have the form of a control token, such as ``<tool_call>``."""
    return tuple(sorted(filter(is_control_token, fully_compiled(find(dialect)).prompt.markers.literals)))


def hold_back(dialect: str | Dialect) -> int:
    """Return the maximum number of characters of prose that the parser holds back.

    This maximum is one less than the length of the longest marker.
    """
    return max(fully_compiled(find(dialect)).states.content.markers.longest - 1, 0)


def kind(dialect: str | Dialect) -> str:
    """Return a short description of how a dialect writes calls, such as ``JSON`` or ``tags``."""
    spec = find(dialect)
    if spec.frame is not None:
        return "messages"
    forms = fully_compiled(spec).forms.calls
    if not forms:
        return "reasoning only" if spec.reasoning else "text"
    canonical = forms[0]
    if canonical.payload == "params":
        return "tags"
    return {"json": "JSON", "python": "Python", "loose": "Python", "bare": "bare objects"}[canonical.notation]


def fully_compiled(dialect: Dialect) -> CompiledDialect:
    """Compile a dialect with all options enabled except repair."""
    return compiled_dialect(dialect, calls=True, calls_in_reasoning=True, repair=False)


class _Explanation:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.compiled = fully_compiled(dialect)

    def lines(self) -> Iterator[str]:
        dialect = self.dialect
        yield f"# {dialect.name}"
        yield ""
        if dialect.family.models:
            yield f"Written by {dialect.family.models}."
        if dialect.family.aliases:
            yield f"Also known as {', '.join(dialect.family.aliases)}."
        if dialect.family.reasoning_aliases:
            yield f"Its reasoning format is also known as {', '.join(dialect.family.reasoning_aliases)}."
        yield ""
        yield "## As the model writes it"
        yield ""
        text, message = example(dialect)
        yield "~~~~text"  # the sample itself may contain backticks
        yield text
        yield "~~~~"
        yield ""
        yield "## What the parser returns"
        yield ""
        for channel, read in (("reasoning", message.reasoning), ("content", message.content)):
            if read:
                yield f"- {channel}: `{_visible(read)}`"
        for call in message.tool_calls:
            yield f"- call of `{call.name}`: `{_visible(call.arguments)}`"
        yield ""
        yield "## Templates"
        yield ""
        for field in ("reasoning", "content", "section", "call", "param", "separators", "drop", "stop"):
            templates: tuple[str | Section | Wrapper, ...] = getattr(dialect, field)
            if templates:
                yield f"- {field}: " + ", ".join(map(_described, templates))
        if dialect.frame is not None:
            for route in dialect.frame.routes:
                yield f"- message with `{_conditions(route) or 'any header'}`: {route.into}"
        yield ""
        yield "## Hold-back"
        yield ""
        yield f"- prose: at most {hold_back(dialect)} characters, while they can still become a marker"
        yield f"- heads of calls, headers, and the text after a closing tag: at most {2 * BOUND} characters"
        if any(form.payload == "envelope" for form in self.compiled.forms.calls):
            yield "- arguments before the function's name: until the name is complete"
        if self.compiled.forms.params:
            yield "- a parameter whose schema is not a string: until its closing tag"
        yield ""
        yield "## States"
        yield ""
        yield "```mermaid"
        yield from self.diagram()
        yield "```"

    def diagram(self) -> Iterator[str]:
        yield "stateDiagram-v2"
        yield "    [*] --> content"
        yield from self.edges("content", self.compiled.states.fresh)
        for wrapper, state in self.compiled.states.inside.items():
            name = "reasoning" if wrapper.channel == "reasoning" else "answer"
            yield from self.edges(name, state)
        for into, state in self.compiled.states.bodies.items():
            yield from self.edges(_BODIES[into], state)
        if self.dialect.frame is not None:
            for route in self.dialect.frame.routes:
                target = _BODIES.get(route.into, "call")
                yield f"    header --> {target}: {_conditions(route) or 'anything else'}"
        if self.compiled.forms.calls or self.compiled.frame is not None:
            yield "    call --> arguments: name known"
            yield "    arguments --> after_call: complete"
            yield "    arguments --> broken: not well-formed"
            yield "    broken --> after_call: closing marker or next opener"
            yield "    after_call --> content"
            if any(map(self.compiled.programs.next_in_section.get, self.compiled.forms.sections)):
                yield "    after_call --> call: next call of the section"

    def edges(self, name: str, state: TextState) -> Iterator[str]:
        seen: set[tuple[str, str]] = set()
        for literal, entry in sorted(state.entries.items()):
            targets = {_TARGETS[program.action] for program in entry.programs}
            if entry.closes:
                targets.add("content")
            for program in entry.programs:
                if program.wrapper is not None:
                    targets.discard("wrapper")
                    targets.add("reasoning" if program.wrapper.channel == "reasoning" else "answer")
            for target in sorted(targets - {"", name}):
                if (literal.strip(), target) not in seen:
                    seen.add((literal.strip(), target))
                    yield f"    {name} --> {target}: {_visible(literal.strip())}"


_TARGETS = {
    CALL: "call",
    EMPTY_SECTION: "",
    OPEN_WRAPPER: "wrapper",
    DROP: "",
    STOP: "",
    FRAME: "header",
    SECTION_CLOSE: "",
    PARAM: "",
    CLOSE_PARAM: "",
}
_BODIES = {"reasoning": "reasoning", "content": "message", "drop": "dropped", "{calls}": "calls"}


def _conditions(route: Route) -> str:
    return " ".join(f"{field}={value}" for field, value in route.when.items())


def _described(template: str | Section | Wrapper) -> str:
    """Return a template, and the fields that say where it is accepted."""
    shown = f"`{_visible(template_text(template))}`"
    if isinstance(template, str):
        return shown
    rules = [each.name for each in fields(template) if getattr(template, each.name) is True]
    return f"{shown} ({', '.join(rules)})" if rules else shown


def _visible(text: str) -> str:
    return text.replace("\n", "⏎").replace("`", "ˋ")  # noqa: RUF001 - a backtick would end the code
