"""Templates: from the text of a declaration to the pieces that readers and writers share.

A template is cut into literals, white space, holes and runs of attributes.
That is all the structure there is: ``_grammar`` turns pieces into steps of the
machine, ``_render`` fills them with values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn

from ..values.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .dialect import Dialect

PAYLOADS: Final = ("args", "envelope", "params", "code")
"""Holes that hold a call's arguments."""
_CAPTURES: Final = ("name", "id", "index", "_")
_LOOSE: Final = frozenset(("args", "envelope", "params", "calls", "name", "id", "index", "key"))
"""Holes next to which white space is flexible without being written."""
_ROUTES: Final = ("reasoning", "content", "drop", "{args}", "{params}", "{calls}")
_NOTATIONS: Final = ("json", "python", "loose", "bare")

_PIECE: Final = re.compile(
    r'(?P<attributes>(?:\ [\w:.-]+="\{\w+\}")+)'
    r"|\{(?P<hole>\w+)(?::(?P<notation>\w+))?\}"
    r"|(?P<space>\n[ \n]*)"
)
_CONTROL: Final = re.compile(r"[|｜\ud800-\udfff]|^\[/?[A-Z_]{3,}\]$")
_ATTRIBUTE: Final = re.compile(r' ([\w:.-]+)="\{(\w+)\}"')


class Piece:
    """One part of a template; ``text`` is what a writer puts there."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


class Literal(Piece):
    """Text that must stand there."""

    __slots__ = ()


class Space(Piece):
    """White space: any amount of it, none included."""

    __slots__ = ()


class LineFeed(Piece):
    """One optional line feed; more of them are data."""

    __slots__ = ()


class Hole(Piece):
    """A place for a value; ``text`` is the hole as declared."""

    __slots__ = ("field", "notation")

    def __init__(self, field: str, notation: str) -> None:
        super().__init__(f"{{{field}:{notation}}}" if notation else f"{{{field}}}")
        self.field = field
        self.notation = notation


class Attributes(Piece):
    """A run of ``key="{hole}"``: any order, any quotes, unknown ones skipped."""

    __slots__ = ("fields",)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.fields: dict[str, str] = dict(_ATTRIBUTE.findall(text))


def split_marks(template: str) -> tuple[str, str]:
    """Marks in front of a template (``^``, ``?``), and the template without them."""
    body = template.lstrip("^?")
    return template[: len(template) - len(body)], body


def parse_template(template: str) -> tuple[Piece, ...]:
    """The pieces of a template as it is written."""
    pieces: list[Piece] = []
    at = 0
    for match in _PIECE.finditer(template):
        if match.start() > at:
            pieces.append(Literal(template[at : match.start()]))
        at = match.end()
        if match["attributes"]:
            pieces.append(Attributes(match["attributes"]))
        elif match["hole"]:
            pieces.append(Hole(match["hole"], match["notation"] or ""))
        else:
            pieces.append(Space(match["space"]))
    if at < len(template):
        pieces.append(Literal(template[at:]))
    return tuple(pieces)


def reading_pieces(template: str, exact: str = "") -> tuple[Piece, ...]:
    """The pieces as a reader sees them.

    White space is flexible next to payloads and names; around the hole
    ``exact`` a line break is one optional line feed.
    """
    out: list[Piece] = []
    pieces = _blanks_apart(parse_template(template))
    for i, piece in enumerate(pieces):
        before = pieces[i - 1] if i else None
        after = pieces[i + 1] if i + 1 < len(pieces) else None
        if isinstance(piece, Space) and exact and (_is_hole(before, exact) or _is_hole(after, exact)):
            out.append(LineFeed(piece.text))
            continue
        loose = _is_loose(piece)
        if loose and isinstance(before, Literal):
            out.append(Space(""))
        out.append(piece)
        if loose and isinstance(after, Literal):
            out.append(Space(""))
    return tuple(out)


def _blanks_apart(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Blanks between a marker and a flexible hole are white space, not part of the marker."""
    out: list[Piece] = []
    for i, piece in enumerate(pieces):
        text = piece.text
        if isinstance(piece, Literal) and not text.strip(" ") and i and _is_loose(pieces[i - 1]):
            out.append(Space(text))
        elif isinstance(piece, Literal) and text.strip(" "):
            left = len(text) - len(text.lstrip(" ")) if i and _is_loose(pieces[i - 1]) else 0
            right = len(text.rstrip(" ")) if i + 1 < len(pieces) and _is_payload(pieces[i + 1]) else len(text)
            parts = [Space(text[:left]), Literal(text[left:right]), Space(text[right:])]
            out += [part for part in parts if part.text]
        else:
            out.append(piece)
    return tuple(out)


def _is_loose(piece: Piece) -> bool:
    return isinstance(piece, Hole) and piece.field in _LOOSE


def _is_payload(piece: Piece) -> bool:
    return isinstance(piece, Hole) and piece.field in PAYLOADS


def _is_hole(piece: Piece | None, field: str) -> bool:
    return isinstance(piece, Hole) and piece.field == field


def split_at(
    pieces: Sequence[Piece], *fields: str
) -> tuple[tuple[Piece, ...], Hole | None, tuple[Piece, ...]]:
    """What stands before, in and behind the first of these holes."""
    for i, piece in enumerate(pieces):
        if isinstance(piece, Hole) and piece.field in fields:
            return tuple(pieces[:i]), piece, tuple(pieces[i + 1 :])
    return tuple(pieces), None, ()


def literals(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """The literal texts among the pieces, in order."""
    return tuple(piece.text for piece in pieces if isinstance(piece, Literal))


def first_literal(pieces: Sequence[Piece]) -> str:
    """The literal a reader meets first, or nothing if a hole comes before it."""
    for piece in pieces:
        if isinstance(piece, Literal):
            return piece.text
        if not isinstance(piece, Space | LineFeed):
            return ""
    return ""


def is_control(literal: str) -> bool:
    """Whether a marker looks like a control token, which nobody writes in prose."""
    return _CONTROL.search(literal) is not None


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
        if not named and not self.dialect.names.fixed:
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
        if "key" not in found and not self.dialect.values.nested:
            self.fail("param", template, "a param has the hole {key}")
        before, _, after = split_at(parse_template(template), "value")
        if not first_literal(before) or not literals(after):
            self.fail("param", template, "{value} needs text before it and behind it")
        if not self.dialect.values.nested and any(isinstance(piece, Hole) for piece in after):
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
