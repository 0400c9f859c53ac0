"""The pieces of a template: what readers and writers share.

A template is cut into literals, white space, holes and runs of attributes.
That is all the structure there is: the room ``syntax`` turns pieces into steps
of the machine, ``render`` fills them with values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ._declaration import Dialect

PAYLOADS: Final = ("args", "envelope", "params", "code")
"""Holes that hold a call's arguments."""
_TEMPLATE_FIELDS: Final = ("call", "section", "param", "reasoning", "content", "drop", "stop")
"""Fields of a dialect that hold templates."""
_LOOSE: Final = frozenset(("args", "envelope", "params", "calls", "name", "id", "index", "key"))
"""Holes next to which white space is flexible without being written."""

_PIECE: Final = re.compile(
    r'(?P<attributes>(?:\ [\w:.-]+="\{\w+\}")+)'
    r"|\{(?P<hole>\w+)(?::(?P<notation>\w+))?\}"
    r"|(?P<space>\n[ \n]*)"
)
_CONTROL: Final = re.compile(r"[|｜\ud800-\udfff]|^\[/?[A-Z_]{3,}\]$")
# A token may stand inside a tag, too: </｜DSML｜invoke>.
_TOKEN_AHEAD: Final = re.compile(r"(?=<[|｜\ud800-\udfff])|(?<![</])(?=[\ud800-\udfff])")
_ATTRIBUTE: Final = re.compile(r' ([\w:.-]+)="\{(\w+)\}"')
_ANYONES: Final = re.compile(r"(?:[\[\]\s]|```(?:json)?)*")


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
    """Marks in front of a template (``^``, ``?``, ``!``), and the template without them."""
    body = template.lstrip("^?!")
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


def tokens_apart(literal: str) -> list[str]:
    """The control tokens in a literal, and the text around them: a model may put white space between them."""
    return [part for part in _TOKEN_AHEAD.split(literal) if part]


def is_marker(literal: str) -> bool:
    """Whether it means something wherever it stands: a lone bracket and a code fence are in prose as well."""
    return is_control(literal) or len(literal.strip("`")) > 1


def is_control(literal: str) -> bool:
    """Whether a marker looks like a control token, which nobody writes in prose."""
    return _CONTROL.search(literal) is not None


def is_anyones(literal: str) -> bool:
    """Whether an answer that is no call may have it: brackets, a code fence."""
    return _ANYONES.fullmatch(literal) is not None


def dialect_texts(dialect: Dialect) -> Iterator[str]:
    """Yield the text of every template and marker of a dialect."""
    for field in _TEMPLATE_FIELDS:
        templates: tuple[str, ...] = getattr(dialect, field)
        yield from templates
    for other in dialect.also_accepts:
        yield from dialect_texts(other)
    yield dialect.values.quote
    yield dialect.prompt.start
    yield from dialect.prompt.turn
    frame = dialect.frame
    if frame is not None:
        yield from (*frame.open, frame.sep, *frame.ends, *frame.fields, frame.call_end)
        yield from (route.header for route in frame.routes)
