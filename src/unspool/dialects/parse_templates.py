"""Parsing of templates into pieces: literals, whitespace, placeholders and sequences of attributes.

``_core/compiler`` converts the pieces to steps of the parser, and ``render`` fills the placeholders with
values.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from ._control_token_pattern import is_control_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ._placed_templates import Opener, Section, Wrapper

TemplateT = TypeVar("TemplateT", "str", "Section | str", "Wrapper | str", "Opener | str")


PAYLOADS: Final = ("args", "envelope", "params", "code")
"""Placeholders that contain the arguments of a call."""
PLACEHOLDERS: Final = (
    *PAYLOADS,
    "name",
    "id",
    "index",
    "key",
    "value",
    "type",
    "string",
    "calls",
    "text",
    "_",
)
"""Names of all placeholders.  Any other text between braces is literal."""
_LOOSE: Final = frozenset(("args", "envelope", "params", "calls", "name", "id", "index", "key"))
"""Placeholders next to which any whitespace is accepted, even if there is no whitespace in the template."""

_BRACES: Final = r"(?P<left>\{+)(?P<word>\w+)(?::(?P<notation>\w+))?(?P<right>\}+)"
_SPACE: Final = r"(?P<space>\n[ \n]*)"
_NAMES: Final = "|".join(PLACEHOLDERS)
_PIECE: Final = re.compile(rf'(?P<attributes>(?:\ [\w:.-]+="\{{(?:{_NAMES})\}}")+)|{_BRACES}|{_SPACE}')
_FIELD_PIECE: Final = re.compile(rf"{_BRACES}|(?P<attributes>(?!))|{_SPACE}")
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


def template_text(template: str | Section | Wrapper | Opener) -> str:
    """Return the text of a template, without the fields that say where it is accepted."""
    return template if isinstance(template, str) else template.text


def only_at_start(template: str | Section | Wrapper | Opener) -> bool:
    """Return whether a template is accepted only before the first visible text."""
    return not isinstance(template, str) and template.only_at_start


def with_text(template: TemplateT, text: str) -> TemplateT:
    """Return a template with a different text, but accepted at the same places."""
    return text if isinstance(template, str) else replace(template, text=text)


def parse_template(template: str | Section | Wrapper) -> tuple[Piece, ...]:
    """Return a template's pieces, in the form that ``render`` uses."""
    return tuple(_pieces(template_text(template), PLACEHOLDERS))


def parse_header_field(template: str) -> tuple[Piece, ...]:
    """Return the pieces of a template in ``Frame.fields``, whose placeholders may have any name."""
    return tuple(_pieces(template, None))


def _pieces(template: str, names: Sequence[str] | None) -> list[Piece]:
    """Split a template.

    :param names: the names of placeholders; None if every name between braces is a placeholder.
    """
    pieces: list[Piece] = []
    literal = ""
    at = 0
    for match in (_FIELD_PIECE if names is None else _PIECE).finditer(template):
        literal += template[at : match.start()]
        at = match.end()
        found: Piece
        after = ""
        if match["word"]:
            # Two braces stand for one brace, as in Python's format strings.  `{{{name}}}` is a placeholder
            # between braces.  A brace without a counterpart is text.
            left, right = len(match["left"]), len(match["right"])
            pairs = min(left, right)
            literal += "{" * (left - pairs + pairs // 2)
            after = "}" * (right - pairs + pairs // 2)
            word, notation = match["word"], match["notation"] or ""
            placeholder = Placeholder(word, notation)
            if pairs % 2 == 0:
                literal += placeholder.text[1:-1] + after
                continue
            if names is not None and word not in names:
                literal += placeholder.text + after
                continue
            found = placeholder
        elif match["attributes"]:
            found = Attributes(match["attributes"])
        else:
            found = Space(match["space"])
        if literal:
            pieces.append(Literal(literal))
        pieces.append(found)
        literal = after
    literal += template[at:]
    if literal:
        pieces.append(Literal(literal))
    return pieces


def text_around(template: str | Section | Wrapper, field: str) -> tuple[str, str]:
    """Return the text before and after the first placeholder with this name, including other placeholders."""
    before, _, after = split_at(parse_template(template), field)
    return source(before), source(after)


def source(pieces: Iterable[Piece]) -> str:
    """Return the source text of pieces, with placeholders such as ``{name}``."""
    return "".join(piece.text for piece in pieces)


def has_placeholder(template: str | Section | Wrapper, field: str) -> bool:
    """Return whether a template contains a placeholder outside attributes."""
    return any(_is_placeholder(piece, field) for piece in parse_template(template))


def escaped(text: str, placeholders: Mapping[str, str] | None = None) -> str:
    """Return a template that stands for exactly this text.

    :param placeholders: map from each character that stands for a placeholder to the placeholder.
    """
    placeholders = placeholders or {}

    def double_braces(match: re.Match[str]) -> str:
        left, word, right = match.groups()
        pairs = min(len(left), len(right))
        return f"{left}{'{' * pairs}{placeholders.get(word, word)}{'}' * pairs}{right}"

    characters = "".join(map(re.escape, placeholders))
    words = rf"\w+(?::\w+)?|[{characters}]" if characters else r"\w+(?::\w+)?"
    doubled = re.sub(rf"(\{{+)({words})(\}}+)", double_braces, text)
    return "".join(placeholders.get(character, character) for character in doubled) if characters else doubled


def placeholders(template: str | Section | Wrapper) -> list[str]:
    """Return the names of all placeholders in a template, including those in attributes."""
    found: list[str] = []
    for piece in parse_template(template):
        if isinstance(piece, Placeholder):
            found.append(piece.field)
        elif isinstance(piece, Attributes):
            found.extend(piece.fields.values())
    return found


def surround(template: str, placeholder: str, before: str, after: str) -> str:
    """Return a template with text inserted around each occurrence of a placeholder, such as ``{args}``."""
    out: list[str] = []
    at = 0
    for match in _PIECE.finditer(template):
        left, right = match["left"] or "", match["right"] or ""
        start, end = match.start() + len(left) - 1, match.end() - len(right) + 1
        if min(len(left), len(right)) % 2 and template[start:end] == placeholder:
            out += [template[at:start], before, placeholder, after]
            at = end
    return "".join([*out, template[at:]])


def reading_pieces(template: str | Section | Wrapper, exact: str = "") -> tuple[Piece, ...]:
    """Return a template's pieces, in the form that the parser uses.

    The parser accepts any whitespace next to arguments and names.  Next to the placeholder that ``exact``
    names, a newline in the template matches one optional newline.
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
    """Return the pieces before the first of these placeholders, the placeholder, and the pieces after it."""
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
