"""Validation of dialect declarations.

The types of all fields are checked against their annotations (``_check_field_types.py``).  The checks in this
module are those that a type cannot express.  Every error message has four parts: the place, such as
``section[1]``, the value, the reason why the value is wrong, and the correction.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final, NoReturn, get_args

from ..errors import SpecError
from ._check_field_types import find_fault, short
from ._control_token_pattern import is_control_token
from ._declaration import Dialect, Envelope, Frame, Habits, Notation, Route, Writing
from ._family_request_facts import RequestFacts
from ._placed_templates import Section, Wrapper
from .parse_templates import (
    PAYLOADS,
    PLACEHOLDERS,
    Attributes,
    Piece,
    Placeholder,
    first_literal,
    literals,
    only_at_start,
    parse_header_field,
    parse_template,
    split_at,
    template_text,
    text_around,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_CAPTURES: Final = ("name", "id", "index", "_")
_HEADED: Final = ("name", "id", "index")
_SINGLE_BRACES: Final = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")
_NOTATIONS: Final = get_args(Notation)
_TYPES: Final = Habits().type_words
_HINTS: Final = {
    "request": "write the name of a dialect with the same facts, such as request='hermes', or "
    "request=RequestFacts(...)",
}
"""Hints for values with the wrong type, keyed by field; other fields have a hint made from their type."""


def validate_dialect(dialect: Dialect) -> None:
    """Raise ``SpecError`` if the declaration of a dialect is invalid or contradicts itself."""
    _Check(dialect).run()


class _Check:
    """Validator for a dialect, with one method for each kind of template.

    The places in error messages are the paths of the values: ``section[1]``, ``frame.routes[0].when``.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def run(self) -> None:
        dialect = self.dialect
        if not isinstance(dialect.name, str) or not dialect.name:
            raise SpecError(f"a dialect needs a name, got {dialect.name!r}: write Dialect(name='mine', ...)")
        fault = find_fault(dialect)
        if fault is not None:
            hint = _HINTS.get(fault.place) or fault.expected
            self.refuse(f"{fault.place}={short(fault.value)}: {hint}")
        self.groups()
        for i, template in enumerate(dialect.call):
            self.call(f"call[{i}]", template)
        for i, section in enumerate(dialect.section):
            self.section(f"section[{i}]", section)
        self.other_texts()

    def other_texts(self) -> None:
        """Check the templates of markers and separators."""
        dialect = self.dialect
        for i, template in enumerate(dialect.separators):
            self.placeholders(f"separators[{i}]", template, ())
        self.placeholders("writing.between_calls", dialect.writing.between_calls, ())
        for i, template in enumerate(dialect.param):
            self.param(f"param[{i}]", template)
        for i, wrapper in enumerate(dialect.reasoning):
            self.wrapper(f"reasoning[{i}]", wrapper)
        for i, template in enumerate(dialect.content):
            self.wrapper(f"content[{i}]", template)
        for i, template in enumerate(dialect.drop):
            self.drop(f"drop[{i}]", template)
        for i, template in enumerate(dialect.habits.drop_text):
            self.wrapper(f"habits.drop_text[{i}]", template)
        for i, template in enumerate(dialect.habits.repeated_calls):
            self.repetition(f"habits.repeated_calls[{i}]", template)
        for i, template in enumerate(dialect.stop):
            self.stop(f"stop[{i}]", template)
        for i, form in enumerate(dialect.names.forms):
            self.form(f"names.forms[{i}]", form)
        if dialect.frame is not None:
            self.frame(dialect.frame)
        elif not dialect.call and dialect.param:
            self.fail("param[0]", dialect.param[0], "there is no call template with {params}: add one")

    def groups(self) -> None:
        """Check the fields that are not templates."""
        dialect = self.dialect
        for i, accepted in enumerate(dialect.also_accepts):
            if not accepted.call or accepted.frame is not None:
                self.refuse(f"also_accepts[{i}], {accepted.name!r}, must have call templates and no frame")
        if len(dialect.habits.type_words) != len(_TYPES):
            self.refuse(
                f"habits.type_words={dialect.habits.type_words!r}: write one word for each of "
                f"{', '.join(_TYPES)}"
            )
        if not dialect.values.quote.strip():
            self.refuse(f"values.quote={dialect.values.quote!r}: write the text that delimits strings")
        self.envelope(dialect.envelope)
        self.writing(dialect.writing)
        if not all(text.strip() for text in (*dialect.prompt.ends, *dialect.prompt.turn)):
            self.refuse(f"prompt={dialect.prompt!r}: remove the empty text")
        if dialect.prompt.opens_message and not dialect.prompt.ends:
            self.refuse("prompt.opens_message=True: write the text that opens the message in prompt.ends")
        if not dialect.section:
            self.refuse("section is empty: leave it out, or write section=('{calls}',)")
        if not dialect.names.forms:
            self.refuse("names.forms is empty: leave it out, or write forms=('{name}',)")

    def writing(self, writing: Writing) -> None:
        if writing.before_calls.strip("\n"):
            self.refuse(f"writing.before_calls={writing.before_calls!r}: write newlines only")

    def envelope(self, envelope: Envelope) -> None:
        for name in ("name_keys", "args_keys", "id_keys"):
            if not getattr(envelope, name):
                self.refuse(f"envelope.{name} is empty: name at least one")
        keys = [*envelope.name_keys, *envelope.args_keys, *envelope.id_keys]
        for key in keys:
            if keys.count(key) > 1:
                self.refuse(f"envelope has the key {key!r} twice: every key must have one meaning")
        order = envelope.order
        if len(set(order)) < len(order) or not {"name", "args"} <= set(order):
            self.refuse(f"envelope.order={order!r}: write 'name' and 'args' once each, and 'id' at most once")

    def refuse(self, why: str) -> NoReturn:
        raise SpecError(f"dialect {self.dialect.name!r}: {why}")

    def fail(self, place: str, template: str | Section | Wrapper, why: str) -> NoReturn:
        self.refuse(f"{place}={short(template)}: {why}")

    def placeholders(
        self, place: str, template: str | Section | Wrapper, allowed: Sequence[str]
    ) -> list[str]:
        found: list[str] = []
        for piece in parse_template(template):
            if isinstance(piece, Placeholder):
                found.append(piece.field)
                if piece.notation and (piece.notation not in _NOTATIONS or piece.field not in PAYLOADS):
                    self.fail(
                        place,
                        template,
                        f"{piece.text} is not valid: only {{args}} and {{envelope}} may have a notation, "
                        f"which is one of {', '.join(_NOTATIONS)}",
                    )
            elif isinstance(piece, Attributes):
                found.extend(piece.fields.values())
        names = ", ".join(f"{{{name}}}" for name in allowed) or "none"
        for field in found:
            if field not in allowed:
                self.fail(
                    place,
                    template,
                    f"{{{field}}} is not allowed here (allowed: {names}); "
                    f"to write these characters as text, write {{{{{field}}}}}",
                )
        for word in _SINGLE_BRACES.findall(template_text(template)):
            if word in PLACEHOLDERS:
                continue
            near = difflib.get_close_matches(word, allowed, n=1, cutoff=0.7)
            if near:
                self.fail(
                    place,
                    template,
                    f"unknown placeholder {{{word}}}; did you mean {{{near[0]}}}? allowed here: {names}; "
                    f"to write these characters as text, write {{{{{word}}}}}",
                )
        return found

    def begins_with_text(self, place: str, template: str) -> None:
        if not _opener(parse_template(template)):
            self.fail(
                place,
                template,
                f"it must begin with text that the parser can search for{_whitespace_hint(template)}",
            )

    def call(self, place: str, template: str) -> None:
        found = self.placeholders(place, template, (*_CAPTURES, *PAYLOADS))
        payloads = [field for field in found if field in PAYLOADS]
        if len(payloads) > 1:
            self.fail(place, template, "a call has only one payload: {args}, {envelope}, {params} or {code}")
        named = "name" in found or "envelope" in payloads or "code" in payloads
        if payloads == ["args"] and self.dialect.args == "json":
            # If a model writes only the number or the id of a call, the argument keys identify the function.
            named = named or "index" in found or "id" in found
        if not named and not self.dialect.names.fixed:
            self.fail(
                place,
                template,
                "the function's name is missing: add {name}, use {envelope}, or declare "
                "names=Names(fixed=...) if it is always the same",
            )
        if "params" in payloads and not self.dialect.param:
            self.fail(
                place,
                template,
                "{params} needs a param template in the dialect: param=('<arg {key}>{value}</arg>',)",
            )
        before, payload, _ = split_at(parse_template(template), *PAYLOADS)
        if (
            payload is not None
            and "name" in found
            and payload.field != "envelope"
            and not _has(before, "name")
        ):
            self.fail(place, template, "{name} must come before the payload")
        if payload is not None and "id" in found and not _has(before, "id"):
            self.fail(
                place,
                template,
                f"{{id}} comes after {{{payload.field}}}, where it cannot be read: if both belong to one "
                "object, write {envelope} for it, with envelope=Envelope(id_keys=..., order=...)",
            )
        if _opener(parse_template(template)) or not found:
            return
        if found[0] not in ("envelope", "args", "name"):
            self.fail(
                place,
                template,
                "it begins with a placeholder, so the start of a call cannot be found"
                f"{_whitespace_hint(template)}",
            )
        for section in self.dialect.section:
            opening, _, _ = split_at(parse_template(section), "calls")
            if (
                not _opener(opening)
                and (found[0] == "name" or not only_at_start(section))
                and self.is_only_call(template)
            ):
                at_start = ", or write Section(..., only_at_start=True) if calls begin the answer"
                self.fail(
                    place,
                    template,
                    f"it begins with a placeholder, and section {short(section)} has no opener either: put "
                    f"the text before calls into section{at_start if found[0] != 'name' else ''}",
                )

    def is_only_call(self, template: str) -> bool:
        return all(other == template for other in self.dialect.call)

    def section(self, place: str, template: str | Section) -> None:
        found = self.placeholders(place, template, ("calls",))
        text = template_text(template)
        if text.startswith("\n"):
            newlines = text[: len(text) - len(text.lstrip("\n"))]
            self.fail(
                place,
                template,
                f"the parser ignores newlines before a section; if the model writes them, declare "
                f"writing=Writing(before_calls={newlines!r})",
            )
        if found != ["calls"]:
            self.fail(place, template, "a section must contain the placeholder {calls} exactly once")
        before, _, after = split_at(parse_template(template), "calls")
        if isinstance(template, Section) and template.ends_reasoning and not _opener(before):
            self.fail(
                place, template, "ends_reasoning=True needs text before {calls}, which ends the reasoning"
            )
        if literals(after) and not _opener(before) and not only_at_start(template):
            self.fail(
                place,
                template,
                f"it has a closer but no opener: if {literals(after)[0]!r} closes one call, "
                "it belongs to the call template",
            )

    def param(self, place: str, template: str) -> None:
        nested = self.dialect.habits.nested
        found = self.placeholders(place, template, ("key", "value", "type", "string"))
        if found.count("value") != 1:
            self.fail(place, template, "a param template must contain the placeholder {value} exactly once")
        if "key" not in found and not nested:
            self.fail(place, template, "a param template must contain the placeholder {key}")
        before, _, after = split_at(parse_template(template), "value")
        if not _opener(before):
            self.fail(
                place,
                template,
                "it begins with a placeholder, so the start of a parameter cannot be found: write the text "
                f"before the placeholder{_whitespace_hint(before[0].text if before else '')}; if the model "
                "writes none, read the parameters as raw text with {code} in place of {params}",
            )
        if not "".join(literals(after)).strip():
            why = "no text ends the value"
            if after:
                why = "a value may contain line breaks, so a line break cannot end it"
            self.fail(
                place,
                template,
                f"{{value}} needs text after it: {why}. Write the text that ends a value; if the model "
                "writes none, read the parameters as raw text with {code} in place of {params}",
            )
        if not nested and any(isinstance(piece, Placeholder) for piece in after):
            self.fail(place, template, "a placeholder after {value} needs habits=Habits(nested=True)")

    def drop(self, place: str, template: str) -> None:
        parsed = parse_template(template)
        for field, where in (("text", "drop_text"), ("calls", "repeated_calls")):
            if any(isinstance(piece, Placeholder) and piece.field == field for piece in parsed):
                self.fail(
                    place,
                    template,
                    f"a template with {{{field}}} belongs to habits: Habits({where}=({template!r},))",
                )
        self.placeholders(place, template, ("_",))
        self.begins_with_text(place, template)

    def repetition(self, place: str, template: str) -> None:
        if self.placeholders(place, template, ("calls",)) != ["calls"]:
            self.fail(place, template, "a repetition must contain the placeholder {calls} exactly once")
        if not text_around(template, "calls")[1].strip():
            self.fail(place, template, "{calls} needs a marker after it, to distinguish the calls from text")

    def wrapper(self, place: str, template: str | Wrapper) -> None:
        found = self.placeholders(place, template, ("text", "_"))
        if found.count("text") != 1:
            self.fail(place, template, "a wrapper must contain the placeholder {text} exactly once")
        before, _, after = split_at(parse_template(template), "text")
        for pieces, where in ((before, "before"), (after, "after")):
            if not _opener(pieces):
                self.fail(
                    place,
                    template,
                    f"{{text}} needs a marker {where} it, which begins with text"
                    f"{_whitespace_hint(''.join(piece.text for piece in pieces))}",
                )

    def stop(self, place: str, template: str) -> None:
        if any(isinstance(piece, Placeholder) for piece in parse_template(template)):
            self.fail(place, template, "it is plain text: write drop=(...) for a marker with a placeholder")
        if not template.strip():
            self.fail(
                place,
                template,
                f"it must begin with text that the parser can search for{_whitespace_hint(template)}",
            )

    def form(self, place: str, form: str) -> None:
        found = self.placeholders(place, form, ("name", "index"))
        if "name" not in found:
            self.fail(place, form, "a form must contain the name: add {name}")
        if found.count("index") > 1:
            self.fail(place, form, "a form contains the placeholder {index} at most once")

    def frame(self, frame: Frame) -> None:
        if not frame.open or not all(template_text(opener).strip() for opener in frame.open):
            self.refuse(f"frame.open={frame.open!r}: write the markers that begin a header")
        if not frame.sep:
            self.refuse("frame.sep is empty: write the marker that ends a header")
        if not all(frame.ends):
            self.refuse(f"frame.ends={frame.ends!r}: remove the empty text, which cannot end a body")
        names: set[str] = set()
        for i, field in enumerate(frame.fields):
            pieces = parse_header_field(field)
            found = [piece.field for piece in pieces if isinstance(piece, Placeholder)]
            if len(found) != 1 or not found[0].isidentifier() or not _opener(pieces):
                self.fail(
                    f"frame.fields[{i}]", field, "write text and then the field's name in braces: ' to={to}'"
                )
            names.update(found)
        for i, route in enumerate(frame.routes):
            self.route(f"frame.routes[{i}]", route, names)

    def route(self, place: str, route: Route, fields: set[str]) -> None:
        for field, value in route.when.items():
            if field not in fields:
                known = ", ".join(sorted(fields)) or "none"
                self.refuse(
                    f"{place}.when={dict(route.when)!r}: there is no field {field!r}, the placeholders of "
                    f"frame.fields are {known}; add a template with {{{field}}} there, or correct the name"
                )
            found = self.placeholders(f"{place}.when[{field!r}]", value, ("name",))
            if found.count("name") > 1 or not value:
                self.fail(f"{place}.when[{field!r}]", value, "write text that contains {name} at most once")
        self.placeholders(f"{place}.header", route.header, _HEADED if route.into.startswith("{") else ())
        if route.into == "{params}" and not self.dialect.param:
            self.refuse(f"{place}.into='{{params}}' needs a param template in the dialect")
        if route.into == "{calls}" and not self.dialect.call:
            self.refuse(f"{place}.into='{{calls}}' needs a call template in the dialect")


def _opener(pieces: Sequence[Piece]) -> str:
    """Return the literal with which the pieces begin, without surrounding whitespace."""
    return first_literal(pieces).strip()


def _whitespace_hint(template: str) -> str:
    """Return a hint if a template is empty or begins with whitespace; otherwise return an empty string."""
    is_blank = template[:1].isspace() or not template.strip()
    return " (whitespace is not enough, because the parser accepts any amount of it)" if is_blank else ""


def _has(pieces: Sequence[Piece], field: str) -> bool:
    return any(
        (isinstance(piece, Placeholder) and piece.field == field)
        or (isinstance(piece, Attributes) and field in piece.fields.values())
        for piece in pieces
    )


def check_facts(dialect: Dialect, facts: RequestFacts) -> None:
    """Raise ``SpecError`` if the request facts contradict the declaration of the dialect."""
    why = _contradiction(dialect, facts)
    if why:
        shared = f" of {dialect.request!r}" if isinstance(dialect.request, str) else ""
        raise SpecError(f"dialect {dialect.name!r} contradicts its request facts{shared}: {why}")


def _contradiction(dialect: Dialect, facts: RequestFacts) -> str:
    frame = dialect.frame
    routes = () if frame is None else tuple(route.into for route in frame.routes)
    calls = bool(dialect.call) or any(into.startswith("{") for into in routes)
    reasoning = bool(dialect.reasoning) or "reasoning" in routes
    thinking = facts.thinking
    seeded = any(seeds(template, thinking.seed) for template in dialect.reasoning)
    if calls and facts.calls_special is None:
        return "it has calls: write calls_special=True if their markers are special tokens, else False"
    if not calls and (facts.calls_special is not None or "native" in facts.forced):
        return "it has no calls: write calls_special=None and forced=('json',), as request='kimi' does"
    if reasoning and thinking.default is None:
        return (
            f"thinking.default is None, but it has reasoning {dialect.reasoning!r}: "
            "correct thinking, or write reasoning=()"
        )
    if not reasoning and thinking.default is not None:
        return "it has no reasoning: declare this in thinking, as request='llama3_json' does"
    if thinking.inside and not seeded:
        return (
            f"thinking.seed={thinking.seed!r} opens none of its reasoning templates {dialect.reasoning!r}: "
            "write one of their opening markers, or seed='' if the model opens its reasoning itself"
        )
    if not facts.answers_special and frame is not None:
        openers = [*map(template_text, frame.open)]
        if any(map(is_control_token, openers)):
            return f"answers are in messages that {openers[0]!r} opens: write answers_special=True"
    if frame is not None and not dialect.prompt.opens_message:
        return (
            "its outputs begin inside a message, but the prompt does not open one: "
            "add prompt=Prompt(ends=(...), opens_message=True)"
        )
    return ""


def seeds(template: str | Wrapper, seed: str) -> bool:
    """Return whether ``seed`` is the opening marker of a reasoning template."""
    return text_around(template, "text")[0].strip() == seed.strip()
