"""Validation of dialect declarations.

Every error message shows the declaration, why it is wrong, and how to correct it.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, NoReturn

from ..errors import SpecError
from ._control_token_pattern import is_control_token
from ._declaration import (
    Dialect,
    Envelope,
    Family,
    Frame,
    Names,
    Prompt,
    Route,
    Values,
)
from ._family_request_facts import RequestFacts
from ._id_format import IdFormat
from .parse_templates import (
    PAYLOADS,
    Attributes,
    Piece,
    Placeholder,
    first_literal,
    literals,
    parse_template,
    split_at,
    split_marks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_CAPTURES: Final = ("name", "id", "index", "_")
_HEADED: Final = ("name", "id", "index")
_ROUTES: Final = ("reasoning", "content", "drop", "{args}", "{params}", "{calls}")
_NOTATIONS: Final = ("json", "python", "loose", "bare")
_TYPES: Final = ("string", "number", "boolean", "null", "array", "object")
_GROUPS: Final = {
    "family": Family,
    "envelope": Envelope,
    "values": Values,
    "names": Names,
    "id_format": IdFormat,
    "prompt": Prompt,
}
_TUPLES: Final = (
    *("call", "section", "sep", "param", "reasoning", "content", "drop", "stop"),
    *("family.aliases", "family.reasoning_aliases", "family.fingerprint"),
    *("envelope.name_keys", "envelope.args_keys", "envelope.id_keys", "envelope.order"),
    *("values.type_words", "values.wrappers", "names.forms", "names.null_calls", "prompt.turn"),
)


def validate_dialect(dialect: Dialect) -> None:
    """Raise ``SpecError`` if the declaration of a dialect is invalid or contradicts itself."""
    _Check(dialect).run()


class _Check:
    """Validator for a dialect, with one method for each kind of template."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def run(self) -> None:
        dialect = self.dialect
        if not isinstance(dialect.name, str) or not dialect.name:
            raise SpecError(f"a dialect needs a name, got {dialect.name!r}: Dialect(name='mine', ...)")
        self.types()
        for template in dialect.call:
            self.call(template)
        for template in dialect.section:
            self.section(template)
        for template in dialect.sep:
            self.placeholders("sep", template, ())
        for template in dialect.param:
            self.param(template)
        for template in dialect.reasoning:
            self.wrapper("reasoning", template)
        for template in dialect.content:
            self.wrapper("content", template)
        for template in dialect.drop:
            self.drop(template)
        for template in dialect.stop:
            self.placeholders("stop", template, ())
            self.begins_with_text("stop", template)
        for form in dialect.names.forms:
            if "name" not in self.placeholders("names.forms", form, ("name", "index")):
                self.fail("names.forms", form, "a form must contain the name: add {name}")
        if dialect.frame is not None:
            self.frame(dialect.frame)
        elif not dialect.call and dialect.param:
            self.fail("param", dialect.param[0], "there is no call template with {params}: add one")

    def types(self) -> None:
        """Check the types of the dialect's fields; this must run before the templates are parsed."""
        dialect = self.dialect
        for name, kind in _GROUPS.items():
            value = getattr(dialect, name)
            if not isinstance(value, kind):
                self.refuse(f"{name}={value!r}: write {name}={kind.__name__}(...)")
        for path in _TUPLES:
            group, _, field = path.rpartition(".")
            value = getattr(getattr(dialect, group) if group else dialect, field)
            if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
                comma = "" if group else " (a single template needs a comma: (template,))"
                self.refuse(f"{path} must be a tuple of strings, got {value!r}{comma}")
        for accepted in dialect.also_accepts:
            if not isinstance(accepted, Dialect):
                self.refuse(f"also_accepts contains {accepted!r}: write Dialect(name=..., call=(...))")
            if not accepted.call or accepted.frame is not None:
                self.refuse(
                    f"also_accepts contains {accepted.name!r}, which must have call templates and no frame"
                )
        if dialect.args not in _NOTATIONS:
            self.refuse(f"args={dialect.args!r}: choose one of {', '.join(_NOTATIONS)}")
        if len(dialect.values.type_words) != len(_TYPES):
            self.refuse(
                f"values.type_words={dialect.values.type_words!r}: write one word for each of "
                f"{', '.join(_TYPES)}"
            )
        for path in ("name_keys", "args_keys", "id_keys", "order"):
            if not getattr(dialect.envelope, path):
                self.refuse(f"envelope.{path} is empty: name at least one")
        if not dialect.section:
            self.refuse("section is empty: leave it out, or write section=('{calls}',)")
        if not dialect.names.forms:
            self.refuse("names.forms is empty: leave it out, or write forms=('{name}',)")
        if not isinstance(dialect.request, str | RequestFacts | None):
            self.refuse(
                f"request={dialect.request!r}: write the name of a dialect with the same facts, such as "
                "request='hermes', or request=RequestFacts(...)"
            )

    def refuse(self, why: str) -> NoReturn:
        raise SpecError(f"dialect {self.dialect.name!r}: {why}")

    def fail(self, kind: str, template: str, why: str) -> NoReturn:
        raise SpecError(f"dialect {self.dialect.name!r}, {kind} template {template!r}: {why}")

    def placeholders(self, kind: str, template: str, allowed: Sequence[str]) -> list[str]:
        found: list[str] = []
        for piece in parse_template(split_marks(template)[1]):
            if isinstance(piece, Placeholder):
                found.append(piece.field)
                if piece.notation and (piece.notation not in _NOTATIONS or piece.field not in PAYLOADS):
                    self.fail(
                        kind,
                        template,
                        f"{piece.text} is not valid: only {{args}} and {{envelope}} may have a notation, "
                        f"which is one of {', '.join(_NOTATIONS)}",
                    )
            elif isinstance(piece, Attributes):
                found.extend(piece.fields.values())
        for field in found:
            if field not in allowed:
                near = difflib.get_close_matches(field, allowed, n=1)
                meant = f"did you mean {{{near[0]}}}? " if near else ""
                names = ", ".join(f"{{{name}}}" for name in allowed) or "none"
                self.fail(kind, template, f"unknown placeholder {{{field}}}; {meant}allowed here: {names}")
        return found

    def begins_with_text(self, kind: str, template: str) -> None:
        if not _opener(parse_template(template)):
            self.fail(
                kind,
                template,
                f"it must begin with text that the parser can search for{_whitespace_hint(template)}",
            )

    def call(self, template: str) -> None:
        found = self.placeholders("call", template, (*_CAPTURES, *PAYLOADS))
        payloads = [field for field in found if field in PAYLOADS]
        if len(payloads) > 1:
            self.fail("call", template, "a call has only one payload: {args}, {envelope}, {params} or {code}")
        named = "name" in found or "envelope" in payloads or "code" in payloads
        if payloads == ["args"] and self.dialect.args == "json":
            # If a model writes only the number or the id of a call, the argument keys identify the function.
            named = named or "index" in found or "id" in found
        if not named and not self.dialect.names.fixed:
            self.fail(
                "call",
                template,
                "the function's name is missing: add {name}, use {envelope}, or declare "
                "names=Names(fixed=...) if it is always the same",
            )
        if "params" in payloads and not self.dialect.param:
            self.fail(
                "call",
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
            self.fail("call", template, "{name} must come before the payload")
        if payload is not None and "id" in found and not _has(before, "id"):
            self.fail(
                "call",
                template,
                f"{{id}} comes after {{{payload.field}}}, where it cannot be read: if both belong to one "
                "object, write {envelope} for it, with envelope=Envelope(id_keys=..., order=...)",
            )
        if _opener(parse_template(template)) or not found:
            return
        if found[0] not in ("envelope", "args", "name"):
            self.fail(
                "call",
                template,
                "it begins with a placeholder, so the start of a call cannot be found"
                f"{_whitespace_hint(template)}",
            )
        for section in self.dialect.section:
            marks, body = split_marks(section)
            opening, _, _ = split_at(parse_template(body), "calls")
            if (
                not _opener(opening)
                and (found[0] == "name" or "^" not in marks)
                and self.is_only_call(template)
            ):
                self.fail(
                    "call",
                    template,
                    f"it begins with a placeholder, and section {section!r} has no opener either: put the "
                    "text before calls into section, or '^' in front of it where calls begin the answer",
                )

    def is_only_call(self, template: str) -> bool:
        return all(other == template for other in self.dialect.call)

    def section(self, template: str) -> None:
        found = self.placeholders("section", template, ("calls",))
        if found != ["calls"]:
            self.fail("section", template, "a section must contain the placeholder {calls} exactly once")
        marks, body = split_marks(template)
        before, _, after = split_at(parse_template(body), "calls")
        if literals(after) and not _opener(before) and "^" not in marks:
            self.fail(
                "section",
                template,
                f"it has a closer but no opener: if {literals(after)[0]!r} closes one call, "
                "it belongs to the call template",
            )

    def param(self, template: str) -> None:
        nested = self.dialect.values.nested
        found = self.placeholders("param", template, ("key", "value", "type", "string"))
        if "value" not in found:
            self.fail("param", template, "a param template must contain the placeholder {value}")
        if "key" not in found and not nested:
            self.fail("param", template, "a param template must contain the placeholder {key}")
        before, _, after = split_at(parse_template(template), "value")
        if not _opener(before):
            self.fail(
                "param",
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
                "param",
                template,
                f"{{value}} needs text after it: {why}. Write the text that ends a value; if the model "
                "writes none, read the parameters as raw text with {code} in place of {params}",
            )
        if not nested and any(isinstance(piece, Placeholder) for piece in after):
            self.fail("param", template, "a placeholder after {value} needs values=Values(nested=True)")

    def drop(self, template: str) -> None:
        found = self.placeholders("drop", template, ("_", "text", "calls"))
        if "text" in found:
            self.wrapper("drop", template)
        if "calls" not in found:
            self.begins_with_text("drop", template)
            return
        if found != ["calls"]:
            self.fail("drop", template, "a template with {calls} must not contain any other placeholder")
        if not template.partition("{calls}")[2].strip():
            self.fail("drop", template, "{calls} needs a marker after it, to distinguish the calls from text")

    def wrapper(self, kind: str, template: str) -> None:
        found = self.placeholders(kind, template, ("text", "_"))
        if found.count("text") != 1:
            self.fail(kind, template, "a wrapper must contain the placeholder {text} exactly once")
        before, _, after = split_at(parse_template(split_marks(template)[1]), "text")
        for pieces, where in ((before, "before"), (after, "after")):
            if not "".join(literals(pieces)).strip():
                self.fail(
                    kind,
                    template,
                    f"{{text}} needs a marker {where} it"
                    f"{_whitespace_hint(''.join(piece.text for piece in pieces))}",
                )

    def frame(self, frame: Frame) -> None:
        for name in ("open", "ends", "fields"):
            value = getattr(frame, name)
            if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
                self.refuse(f"frame.{name} must be a tuple of strings, got {value!r}")
        if not frame.open or not all(opener.lstrip("^") for opener in frame.open):
            self.refuse(f"frame.open={frame.open!r}: write the markers that begin a header")
        if not frame.sep:
            self.refuse("frame.sep is empty: write the marker that ends a header")
        if not all(frame.ends):
            self.refuse(f"frame.ends={frame.ends!r}: remove the empty text, which cannot end a body")
        if not all(frame.fields):
            self.refuse(f"frame.fields={frame.fields!r}: remove the empty template")
        fields = {
            piece.field
            for field in frame.fields
            for piece in parse_template(field)
            if isinstance(piece, Placeholder)
        }
        for route in frame.routes:
            self.route(route, fields)

    def route(self, route: Route, fields: set[str]) -> None:
        what = f"frame, route {route.when!r}"
        if route.into not in _ROUTES:
            self.refuse(f"{what}, into={route.into!r}: choose one of {', '.join(_ROUTES)}")
        for part in route.when.split():
            field, equals, _ = part.partition("=")
            if not equals or field not in fields:
                known = ", ".join(sorted(fields)) or "none"
                self.refuse(
                    f"{what}: {part!r} must be field=value, and the placeholders of frame.fields are "
                    f"{known}; add a template with {{{field}}} there, or correct the name"
                )
        self.placeholders(f"{what}, header", route.header, _HEADED if route.into.startswith("{") else ())
        if route.into == "{params}" and not self.dialect.param:
            self.refuse(f"{what}: into='{{params}}' needs a param template in the dialect")
        if route.into == "{calls}" and not self.dialect.call:
            self.refuse(f"{what}: into='{{calls}}' needs a call template in the dialect")


def _opener(pieces: Sequence[Piece]) -> str:
    """Return the literal with which the pieces begin, without surrounding whitespace."""
    return first_literal(pieces).strip()


def _whitespace_hint(template: str) -> str:
    """Return a hint if a template begins with whitespace in place of text; otherwise an empty string."""
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
    if thinking.in_header and not dialect.prompt.start:
        return "thinking.in_header is True, but the start of output is missing: add prompt=Prompt(start=...)"
    if not facts.answers_special and frame is not None and any(map(is_control_token, frame.open)):
        return f"answers are in messages that {frame.open[0]!r} opens: write answers_special=True"
    return ""


def seeds(template: str, seed: str) -> bool:
    """Return whether ``seed`` is the opening marker of the reasoning template ``template``."""
    return template.lstrip("^?").partition("{text}")[0].strip() == seed.strip()
