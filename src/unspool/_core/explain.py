"""Explanations: what the machine does with a dialect, generated from its syntax.

Nothing here is drawn or written by hand: markers, hold-back bounds and the
state diagram are read off the tables that the machine itself uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..dialects._control_tokens import is_control_token
from ..dialects._registry import find
from .arguments.select import compile_dialect
from .compiler import programs as t
from .compiler.compiled_dialect import CompiledDialect
from .compiler.text_states import TextState
from .render.example import example
from .scan.runs import BOUND

if TYPE_CHECKING:
    from ..dialects._declaration import Dialect


def explain(dialect: str | Dialect) -> str:
    """Everything about a dialect that a reader may want to know, as Markdown.

    >>> print(explain("hermes").splitlines()[0])
    # hermes
    """
    spec = find(dialect)
    return "\n".join(_Explanation(spec).lines()).rstrip() + "\n"


def state_diagram(dialect: str | Dialect) -> str:
    """The states of the text and what leads from one to another, as a Mermaid diagram."""
    return "\n".join(_Explanation(find(dialect)).diagram())


def markers(dialect: str | Dialect) -> tuple[str, ...]:
    """Every marker of the dialect that looks like a control token."""
    return tuple(sorted(filter(is_control_token, syntax_of(find(dialect)).markers.literals)))


def hold_back(dialect: str | Dialect) -> int:
    """How many characters of prose are held back at most: one less than the longest marker."""
    return max(syntax_of(find(dialect)).content.watch.longest - 1, 0)


def kind(dialect: str | Dialect) -> str:
    """What calls are made of: JSON, tags, messages, Python's or another notation; or nothing."""
    spec = find(dialect)
    if spec.frame is not None:
        return "messages"
    forms = syntax_of(spec).forms
    if not forms:
        return "reasoning only" if spec.reasoning else "text"
    canonical = forms[0]
    if canonical.payload == "params":
        return "tags"
    return {"json": "JSON", "python": "Python", "loose": "Python", "bare": "bare objects"}[canonical.notation]


def syntax_of(dialect: Dialect) -> CompiledDialect:
    """All that the dialect may say, compiled."""
    return compile_dialect(dialect, calls=True, calls_in_reasoning=True, repair=False)


class _Explanation:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.syntax = syntax_of(dialect)

    def lines(self) -> Iterator[str]:
        dialect = self.dialect
        yield f"# {dialect.name}"
        yield ""
        if dialect.family.models:
            yield f"Written by {dialect.family.models}."
        if dialect.family.aliases:
            yield f"Also known as {', '.join(dialect.family.aliases)}."
        if dialect.family.reasoning_aliases:
            yield f"Its reasoning is known as {', '.join(dialect.family.reasoning_aliases)}."
        yield ""
        yield "## As the model writes it"
        yield ""
        text, message = example(dialect)
        yield "~~~~text"  # a dialect may write backticks of its own
        yield text
        yield "~~~~"
        yield ""
        yield "## What is read of it"
        yield ""
        for channel, read in (("reasoning", message.reasoning), ("content", message.content)):
            if read:
                yield f"- {channel}: `{_visible(read)}`"
        for call in message.tool_calls:
            yield f"- a call of {call.name}: `{_visible(call.arguments)}`"
        yield ""
        yield "## Templates"
        yield ""
        for field in ("reasoning", "content", "section", "call", "param", "sep", "drop", "stop"):
            templates: tuple[str, ...] = getattr(dialect, field)
            if templates:
                yield f"- {field}: " + ", ".join(f"`{_visible(template)}`" for template in templates)
        if dialect.frame is not None:
            for route in dialect.frame.routes:
                yield f"- message with `{route.when or 'any header'}`: {route.into}"
        yield ""
        yield "## Hold-back"
        yield ""
        yield f"- prose: at most {hold_back(dialect)} characters, while they can still become a marker"
        yield f"- heads, headers and what may follow a closing tag: at most {2 * BOUND} characters"
        if any(form.payload == "envelope" for form in self.syntax.forms):
            yield "- arguments before the function's name: until the name comes"
        if self.syntax.params:
            yield "- a parameter whose schema is not a string: until it closes"
        yield ""
        yield "## States"
        yield ""
        yield "```mermaid"
        yield from self.diagram()
        yield "```"

    def diagram(self) -> Iterator[str]:
        yield "stateDiagram-v2"
        yield "    [*] --> content"
        yield from self.edges("content", self.syntax.fresh)
        for wrapper, state in self.syntax.inside.items():
            name = "reasoning" if wrapper.channel == "reasoning" else "answer"
            yield from self.edges(name, state)
        for into, state in self.syntax.bodies.items():
            yield from self.edges(_BODIES[into], state)
        if self.dialect.frame is not None:
            for route in self.dialect.frame.routes:
                yield f"    header --> {_BODIES.get(route.into, 'call')}: {route.when or 'anything else'}"
        if self.syntax.forms or self.syntax.frame is not None:
            yield "    call --> arguments: name known"
            yield "    arguments --> after_call: complete"
            yield "    arguments --> broken: not well-formed"
            yield "    broken --> after_call: closing marker or next opener"
            yield "    after_call --> content"
            if any(section.between for section in self.syntax.sections):
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
    t.CALL: "call",
    t.EMPTY_SECTION: "",
    t.OPEN_WRAPPER: "wrapper",
    t.DROP: "",
    t.STOP: "",
    t.FRAME: "header",
    t.SECTION_CLOSE: "",
    t.PARAM: "",
    t.CLOSE_PARAM: "",
}
_BODIES = {"reasoning": "reasoning", "content": "message", "drop": "dropped", "{calls}": "calls"}


def _visible(text: str) -> str:
    return text.replace("\n", "⏎").replace("`", "ˋ")  # noqa: RUF001 - a backtick would end the code
