"""Parsing of templates into pieces: literals, whitespace, placeholders and sequences of attributes.

``_core/compiler`` converts the pieces to steps of the parser, and ``render`` fills the placeholders with
values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ._control_token_pattern import is_control_token

if TYPE_CHECKING:
    from collections.abc import Sequence


PAYLOADS: Final = ("args", "envelope", "params", "code")
"""Placeholders that contain the arguments of a call."""
_LOOSE: Final = frozenset(("args", "envelope", "params", "calls", "name", "id", "index", "key"))
"""Placeholders next to which any whitespace is accepted, even if there is no whitespace in the template."""

_PIECE: Final = re.compile(
    r'(?P<attributes>(?:\ [\w:.-]+="\{\w+\}")+)'
    r"|\{(?P<placeholder>\w+)(?::(?P<notation>\w+))?\}"
    r"|(?P<space>\n[ \n]*)"
)
_ATTRIBUTE: Final = re.compile(r' ([\w:.-]+)="\{(\w+)\}"')
_ORDINARY: Final = re.compile(r"(?:[\[\]\s]|```(?:json)?)*")


class Piece:
    """Part of a template; ``text`` is its source text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


class Literal(Piece):
    """Piece of text that must match exactly."""

    __slots__ = ()


class Space(Piece):
    """Optional whitespace of any length."""

    __slots__ = ()


class LineFeed(Piece):
    """One optional newline; any further newlines are data."""

    __slots__ = ()


class Placeholder(Piece):
    """Placeholder for a value; ``text`` is its source text, such as ``{args:python}``."""

    __slots__ = ("field", "notation")

    def __init__(self, field: str, notation: str) -> None:
        super().__init__(f"{{{field}:{notation}}}" if notation else f"{{{field}}}")
        self.field = field
        self.notation = notation


class Attributes(Piece):
    """Attributes ``key="{placeholder}"``, in any order and with any quotes; unknown ones are ignored."""

    __slots__ = ("fields",)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.fields: dict[str, str] = dict(_ATTRIBUTE.findall(text))


def split_marks(template: str) -> tuple[str, str]:
    """Split a template into its leading marks (``^``, ``?``, ``!``) and the rest."""
    body = template.lstrip("^?!")
    return template[: len(template) - len(body)], body


def parse_template(template: str) -> tuple[Piece, ...]:
    """Return a template's pieces, in the form that ``render`` uses."""
    pieces: list[Piece] = []
    at = 0
    for match in _PIECE.finditer(template):
        if match.start() > at:
            pieces.append(Literal(template[at : match.start()]))
        at = match.end()
        if match["attributes"]:
            pieces.append(Attributes(match["attributes"]))
        elif match["placeholder"]:
            pieces.append(Placeholder(match["placeholder"], match["notation"] or ""))
        else:
            pieces.append(Space(match["space"]))
    if at < len(template):
        pieces.append(Literal(template[at:]))
    return tuple(pieces)


def reading_pieces(template: str, exact: str = "") -> tuple[Piece, ...]:
    """Return a template's pieces, in the form that the parser uses.

    Any whitespace is accepted next to arguments and names.  Next to the placeholder with the name ``exact``,
    a line break in the template matches one optional newline.
    """
    out: list[Piece] = []
    pieces = _split_off_spaces(parse_template(template))
    for i, piece in enumerate(pieces):
        before = pieces[i - 1] if i else None
        after = pieces[i + 1] if i + 1 < len(pieces) else None
        if (
            isinstance(piece, Space)
            and exact
            and (_is_placeholder(before, exact) or _is_placeholder(after, exact))
        ):
            out.append(LineFeed(piece.text))
            continue
        loose = _is_loose(piece)
        if loose and isinstance(before, Literal):
            out.append(Space(""))
        out.append(piece)
        if loose and isinstance(after, Literal):
            out.append(Space(""))
    return tuple(out)


def _split_off_spaces(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Move spaces next to a placeholder in ``_LOOSE`` from the literal to a separate ``Space``."""
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
    return isinstance(piece, Placeholder) and piece.field in _LOOSE


def _is_payload(piece: Piece) -> bool:
    return isinstance(piece, Placeholder) and piece.field in PAYLOADS


def _is_placeholder(piece: Piece | None, field: str) -> bool:
    return isinstance(piece, Placeholder) and piece.field == field


def split_at(
    pieces: Sequence[Piece], *fields: str
) -> tuple[tuple[Piece, ...], Placeholder | None, tuple[Piece, ...]]:
    """Split the pieces at the first of these placeholders: pieces before it, placeholder, pieces after it."""
    for i, piece in enumerate(pieces):
        if isinstance(piece, Placeholder) and piece.field in fields:
            return tuple(pieces[:i]), piece, tuple(pieces[i + 1 :])
    return tuple(pieces), None, ()


def literals(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """Return the literal texts among the pieces, in order."""
    return tuple(piece.text for piece in pieces if isinstance(piece, Literal))


def first_literal(pieces: Sequence[Piece]) -> str:
    """Return the literal with which the pieces begin, or an empty string if they begin with a placeholder."""
    for piece in pieces:
        if isinstance(piece, Literal):
            return piece.text
        if not isinstance(piece, Space | LineFeed):
            return ""
    return ""


def is_marker(literal: str) -> bool:
    """Return whether a literal is certainly markup, unlike a bracket or a code fence."""
    return is_control_token(literal) or len(literal.strip("`")) > 1


def is_anyones(literal: str) -> bool:
    """Return whether a literal has only brackets and code fences, which ordinary answers also contain."""
    return _ORDINARY.fullmatch(literal) is not None
