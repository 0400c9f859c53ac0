"""What a declaration must keep: a dialect that contradicts itself is refused when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from ..values.errors import SpecError
from .pieces import (
    PAYLOADS,
    Attributes,
    Hole,
    Piece,
    first_literal,
    literals,
    parse_template,
    split_at,
    split_marks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .dialect import Dialect

_CAPTURES: Final = ("name", "id", "index", "_")
_ROUTES: Final = ("reasoning", "content", "drop", "{args}", "{params}", "{calls}")
_NOTATIONS: Final = ("json", "python", "loose", "bare")


def check_dialect(dialect: Dialect) -> None:
    """Raise ``SpecError`` where a declaration contradicts itself."""
    _Check(dialect).run()


class _Check:
    """The rules a declaration must keep, one method per kind of template."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def run(self) -> None:
        dialect = self.dialect
        if not isinstance(dialect.name, str) or not dialect.name:
            raise SpecError(f"a dialect needs a name, got {dialect.name!r}")
        for field in (
            "call",
            "section",
            "sep",
            "param",
            "reasoning",
            "content",
            "drop",
            "stop",
            "name_forms",
        ):
            value = getattr(dialect, field)
            if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
                raise SpecError(
                    f"dialect {dialect.name!r}: {field} must be a tuple of strings, got {value!r} "
                    "(a single template needs a comma: (template,))"
                )
        for template in dialect.call:
            self.call(template)
        for template in dialect.section:
            self.section(template)
        for template in dialect.param:
            self.param(template)
        for template in dialect.reasoning:
            self.wrapper("reasoning", template)
        for template in dialect.content:
            self.wrapper("content", template)
        for template in dialect.drop:
            self.holes("drop", template, ("_",))
            self.begins_with_literal("drop", template)
        for template in dialect.stop:
            self.holes("stop", template, ())
            self.begins_with_literal("stop", template)
        if dialect.args not in _NOTATIONS:
            raise SpecError(
                f"dialect {dialect.name!r}: args={dialect.args!r}: notations are {', '.join(_NOTATIONS)}"
            )
        for route in dialect.frame.routes if dialect.frame is not None else ():
            if route.into not in _ROUTES:
                raise SpecError(
                    f"dialect {dialect.name!r}, route {route.when!r} leads into {route.into!r}: "
                    f"choose one of {', '.join(_ROUTES)}"
                )
        if not dialect.call and dialect.param and dialect.frame is None:
            self.fail("param", dialect.param[0], "there is no call template that uses it")

    def fail(self, kind: str, template: str, why: str) -> NoReturn:
        raise SpecError(f"dialect {self.dialect.name!r}, {kind} template {template!r}: {why}")

    def holes(self, kind: str, template: str, allowed: Sequence[str]) -> list[str]:
        found: list[str] = []
        for piece in parse_template(split_marks(template)[1]):
            if isinstance(piece, Hole):
                found.append(piece.field)
                if piece.notation and (piece.notation not in _NOTATIONS or piece.field not in PAYLOADS):
                    self.fail(kind, template, f"{piece.text}: notations are {', '.join(_NOTATIONS)}")
            elif isinstance(piece, Attributes):
                found.extend(piece.fields.values())
        for field in found:
            if field not in allowed:
                names = ", ".join(f"{{{name}}}" for name in allowed) or "none"
                self.fail(kind, template, f"unknown hole {{{field}}}; allowed here: {names}")
        return found

    def begins_with_literal(self, kind: str, template: str) -> None:
        if not first_literal(parse_template(template)):
            self.fail(kind, template, "it must begin with text, so that there is something to search for")

    def call(self, template: str) -> None:
        found = self.holes("call", template, (*_CAPTURES, *PAYLOADS))
        payloads = [field for field in found if field in PAYLOADS]
        if len(payloads) > 1:
            self.fail("call", template, "a call has one payload: {args}, {envelope}, {params} or {code}")
        named = "name" in found or "envelope" in payloads or "code" in payloads
        if not named and not self.dialect.fixed_name:
            self.fail("call", template, "nothing gives the function's name: add {name} or {envelope}")
        if "params" in payloads and not self.dialect.param:
            self.fail("call", template, "{params} needs a param template in the dialect")
        before, payload, _ = split_at(parse_template(template), *PAYLOADS)
        if (
            payload is not None
            and "name" in found
            and payload.field != "envelope"
            and not _has(before, "name")
        ):
            self.fail("call", template, "{name} must come before the payload")
        if first_literal(parse_template(template)) or not found:
            return
        if found[0] not in ("envelope", "args", "name"):
            self.fail("call", template, "it begins with a hole, so nothing tells where a call starts")
        for section in self.dialect.section:
            marks, body = split_marks(section)
            opening, _, _ = split_at(parse_template(body), "calls")
            if (
                not first_literal(opening)
                and (found[0] == "name" or "^" not in marks)
                and self.is_only_call(template)
            ):
                self.fail(
                    "call", template, f"it begins with a hole, and section {section!r} has no opener either"
                )

    def is_only_call(self, template: str) -> bool:
        return all(other == template for other in self.dialect.call)

    def section(self, template: str) -> None:
        found = self.holes("section", template, ("calls",))
        if found != ["calls"]:
            self.fail("section", template, "a section has the hole {calls}, once")
        marks, body = split_marks(template)
        before, _, after = split_at(parse_template(body), "calls")
        if literals(after) and not first_literal(before) and "^" not in marks:
            self.fail("section", template, "it has a closer but no opener")

    def param(self, template: str) -> None:
        found = self.holes("param", template, ("key", "value", "type", "string"))
        if "value" not in found:
            self.fail("param", template, "a param has the hole {value}")
        if "key" not in found and not self.dialect.nested:
            self.fail("param", template, "a param has the hole {key}")
        before, _, after = split_at(parse_template(template), "value")
        if not first_literal(before) or not literals(after):
            self.fail("param", template, "{value} needs text before it and behind it")
        if not self.dialect.nested and any(isinstance(piece, Hole) for piece in after):
            self.fail("param", template, "a hole behind {value} needs nested=True")

    def wrapper(self, kind: str, template: str) -> None:
        found = self.holes(kind, template, ("text", "_"))
        if found.count("text") != 1:
            self.fail(kind, template, "a wrapper has the hole {text}, once")
        before, _, after = split_at(parse_template(split_marks(template)[1]), "text")
        if not literals(before) or not literals(after):
            self.fail(kind, template, "{text} needs a marker before it and behind it")


def _has(pieces: Sequence[Piece], field: str) -> bool:
    return any(
        (isinstance(piece, Hole) and piece.field == field)
        or (isinstance(piece, Attributes) and field in piece.fields.values())
        for piece in pieces
    )
