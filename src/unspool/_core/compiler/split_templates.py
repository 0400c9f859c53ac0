"""Forms: the templates of a dialect, each split into the parts that the machine needs.

A form splits one template at its central placeholder, which stands for the arguments, the calls, the value
or the text.  The part before this placeholder becomes steps for a ``Matcher``.  The part after it becomes a
list of literals, the closing markers.

A form is *anchored* if it is recognised only before the first visible text.

===============  ==============================  ==========================
form             template                        central placeholder
===============  ==============================  ==========================
``Wrapper``      ``reasoning``, ``content``,     ``{text}``
                 ``drop``
``SectionForm``  ``section``                     ``{calls}``
``CallForm``     ``call``                        ``{args}``, ``{envelope}``,
                                                 ``{params}``, ``{code}``
``ParamForm``    ``param``                       ``{value}``
===============  ==============================  ==========================

Messages with headers are in ``message_headers.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...dialects import _placed_templates as declared
from ...dialects._control_token_pattern import CONTROL_TOKEN, is_control_token, split_at_control_tokens
from ...dialects.parse_templates import (
    PAYLOADS,
    Attributes,
    LineFeed,
    Literal,
    Piece,
    Placeholder,
    Space,
    first_literal,
    is_anyones,
    is_marker,
    literals,
    parse_template,
    reading_pieces,
    split_at,
)
from ..scan.character_runs import skip_whitespace
from ..scan.markers import MarkerSet, ValueMarkerSet
from .match_program_types import (
    ATTRIBUTES,
    CAPTURE,
    CLOSE_PARAM,
    ENVELOPE,
    LINE_FEED,
    LITERAL,
    OPEN_WRAPPER,
    PARAM,
    PEEK,
    REPEAT,
    SPACE,
    UNLESS,
    EnvelopeFactory,
    Program,
    Step,
)

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from ...events import Channel, MarkupKind

FIRST_CHARACTERS: Final = {"json": "{", "python": "(", "loose": "(", "bare": "{("}
"""Map from a notation to the characters with which arguments in this notation can start."""
_NOT_A_WORD: Final = '{["-0123456789'
"""Characters with which a JSON value can start, except ``true``, ``false`` and ``null``."""

_TAG: Final = r"(?:<[^<>\s]+>|[\ud800-\udfff])"
_TAG_END: Final = re.compile(rf"(?<=[\w\" ])(?:{CONTROL_TOKEN.pattern})\Z")
_TWO_TAGS: Final = re.compile(rf"{_TAG}\s*({_TAG})")

UNNAMED: Final = "unnamed"
"""Notation of a call that consists only of the arguments object.  The function is inferred from the
arguments."""

# Order in which to try calls that start with the same literal.  Arguments that must start with a certain
# character are tried before arguments that can start with any character.
_RANKS: Final = {"args": 0, "envelope": 0, "code": 0, "": 1, "params": 2}
_LAST_RANK: Final = 3


ESCAPED_NEWLINE: Final = "\\n"
"""Escaped newline, which is a backslash followed by an ``n``."""


def steps_of(pieces: Sequence[Piece], *, escaped_newlines: bool = False) -> list[Step]:
    """Return steps that match these elements of a template.

    :param escaped_newlines: true if whitespace may contain a backslash and an ``n`` in place of a newline.
    """
    newline = ESCAPED_NEWLINE if escaped_newlines else ""
    steps: list[Step] = []
    seen: set[str] = set()
    for i, piece in enumerate(pieces):
        if isinstance(piece, Literal):
            steps.append(Step(LITERAL, piece.text))
        elif isinstance(piece, Space):
            if not steps or steps[-1].kind != SPACE:
                steps.append(Step(SPACE, newline))
        elif isinstance(piece, LineFeed):
            steps.append(Step(LINE_FEED))
        elif isinstance(piece, Attributes):
            steps.append(Step(ATTRIBUTES, fields=piece.fields))
            seen.update(piece.fields.values())
        elif isinstance(piece, Placeholder) and piece.field in seen:
            steps.append(Step(REPEAT, piece.field))
        elif isinstance(piece, Placeholder):
            seen.add(piece.field)
            steps.append(_capture(piece.field, first_literal(pieces[i + 1 :]) or newline))
    return steps


def _capture(field: str, following: str) -> Step:
    """Return the step for a placeholder.

    The text at a placeholder ends before the first character that is not in the placeholder's alphabet.  If
    the literal after the placeholder starts with a character of the alphabet, the text also ends before this
    literal.
    """
    step = Step(CAPTURE, field)
    if following and step.alphabet.pattern.fullmatch("x" + following[0]):
        return Step(CAPTURE, field, stop=following)
    return step


def closing_steps(closers: Sequence[str]) -> list[Step]:
    """Return steps that match these literals in order, with optional whitespace before each."""
    return [step for literal in closers for step in (Step(SPACE), Step(LITERAL, literal))]


_MARKUP_KINDS: Final[dict[Channel | None, tuple[MarkupKind, MarkupKind]]] = {
    "reasoning": ("reasoning_open", "reasoning_close"),
    "content": ("content_open", "content_close"),
    None: ("dropped", "dropped"),
}


class Wrapper:
    """Markers around reasoning, around content, or around text to drop."""

    __slots__ = ("channel", "close_kind", "closers", "in_mid_line", "open_kind", "program")

    def __init__(self, channel: Channel | None, template: str | declared.Wrapper) -> None:
        """Split the template.

        :param channel: the channel of the text inside; None if the text is dropped.
        """
        placed = template if isinstance(template, declared.Wrapper) else declared.Wrapper(template)
        # A newline next to content may belong to the content, so a newline in the template matches at most
        # one newline.  Around reasoning, all whitespace is removed later anyway.
        opening, _, closing = split_at(
            reading_pieces(template, exact="text" if channel == "content" else ""), "text"
        )
        if opening and isinstance(opening[-1], Space):
            word = opening[-2].text
            # An ordinary word is a marker only if a newline follows it directly.
            opening = (*opening[:-2], Literal(word + "\n")) if word.isalpha() else opening[:-1]
        closer = first_literal(closing)
        self.channel: Final[Channel | None] = channel
        self.in_mid_line: Final = placed.mid_line
        """True if the opening marker is recognised in the middle of a line as well."""
        self.program: Final = Program(
            OPEN_WRAPPER, steps_of(opening), wrapper=self, anchored=placed.only_at_start
        )
        """Program for the opening marker."""
        self.closers: Final = ("\n" + closer, closer) if isinstance(closing[0], LineFeed) else (closer,)
        self.open_kind, self.close_kind = _MARKUP_KINDS[channel]


class ParamForm:
    """One way to write a parameter."""

    __slots__ = ("closers", "closing", "forgotten", "head", "inline", "unended", "value_markers")

    def __init__(
        self, template: str, *, escaped_newlines: bool, never_followed_by: MarkerSet | None = None
    ) -> None:
        """Split the template.

        :param escaped_newlines: as for ``steps_of``.
        :param never_followed_by: None for the template as declared.  With a set of literals, the form is for
            parameters without the tag that opens the value.  This form does not match if the value begins
            with one of the literals.
        """
        # The parser skips the whitespace before a parameter, and then matches the head.
        opening, _, tail = split_at(reading_pieces(template.lstrip(" "), exact="value"), "value")
        closer = first_literal(tail)
        self.inline: Final = not any(isinstance(piece, LineFeed) for piece in (*opening, *tail))
        """True if there is no newline between the markup and the value."""
        self.forgotten: Final = "" if never_followed_by is None else value_opener(template)
        """Tag that opens the value, if this form is for parameters without this tag; otherwise empty."""
        if never_followed_by is None:
            steps = steps_of(opening, escaped_newlines=escaped_newlines)
        else:
            steps = [
                *steps_of(_without_opener(self.forgotten, opening)),
                Step(LINE_FEED),
                Step(UNLESS, markers=never_followed_by),
            ]
        self.head: Final = Program(PARAM, steps)
        """Program for everything before the value."""
        end = _tag_end(opening)
        self.unended: Final = (
            closer.removesuffix(end) if end and closer != end and closer.endswith(end) else ""
        )
        """Closing tag as written by models that omit its last token; empty in most dialects."""
        closers = ("\n" + closer, closer) if isinstance(tail[0], LineFeed) else (closer,)
        self.closers: Final = (self.unended, *closers) if self.unended else closers
        """Literals that may end the value.  If the template has a newline before the closing tag, one of the
        literals starts with the newline."""
        self.closing: Final = Program(
            CLOSE_PARAM,
            [
                Step(LITERAL, piece.text) if isinstance(piece, Literal) else Step(CAPTURE, "key")
                for piece in tail
                if not isinstance(piece, Space | LineFeed)
            ],
        )
        """Program for the end of a nested parameter, with any key in the closing tag."""
        self.value_markers: ValueMarkerSet = ValueMarkerSet(self.closers)
        """Literals to search for inside the value; ``FollowSets.set_value_markers`` adds more."""


def is_inline(template: str) -> bool:
    """Return whether a template of a parameter has no newline next to the value."""
    return "\n{value}" not in template and "{value}\n" not in template


def value_opener(template: str) -> str:
    """Return the tag that opens the value, if it follows the closing tag of the key; otherwise ``""``."""
    opening, _, _ = split_at(parse_template(template), "value")
    _, key, between = split_at(opening, "key")
    match = _TWO_TAGS.fullmatch("".join(piece.text for piece in between)) if key is not None else None
    return match[1] if match is not None else ""


def _tag_end(opening: Sequence[Piece]) -> str:
    """Return the control token that ends an opening tag, or an empty string if there is none."""
    match = _TAG_END.search("".join(piece.text for piece in opening))
    return match[0] if match is not None else ""


def _split_closers(tail: Sequence[Piece], tag_end: str) -> list[str]:
    """Return the closing literals, split at control tokens.  A ``tag_end`` is not split from its tag."""
    closers: list[str] = []
    for literal in literals(tail):
        for part in split_at_control_tokens(literal):
            if closers and part == tag_end:
                closers[-1] += tag_end
            else:
                closers.append(part)
    return closers


def _without_opener(opener: str, opening: tuple[Piece, ...]) -> list[Piece]:
    """Return the head of a parameter without the tag that opens its value."""
    last = opening[-1]
    head = [*opening[:-1], Literal(last.text.removesuffix(opener))]
    while not head[-1].text.strip():
        head.pop()
    return head


class CallForm:
    """One way to write a call."""

    __slots__ = (
        "_make_envelope",
        "_unmarked",
        "begins_message",
        "closers",
        "closing",
        "ends_in_name",
        "notation",
        "opener",
        "opening",
        "payload",
        "rank",
        "template",
        "unended",
        "unnamed",
    )

    def __init__(self, template: str, dialect: Dialect, make_envelope: EnvelopeFactory | None = None) -> None:
        """Split the template.

        :param make_envelope: as for ``Step``.
        """
        opening, payload, tail = split_at(reading_pieces(template, exact="code"), *PAYLOADS)
        without_space = [piece for piece in opening if not isinstance(piece, Space)]
        self.template: Final = template
        self.payload: Final = payload.field if payload is not None else ""
        """Name of the central placeholder: ``args``, ``envelope``, ``params`` or ``code``; empty if there is
        none."""
        self.notation: Final = (payload.notation if payload is not None else "") or dialect.args
        self.opener: Final = first_literal(opening)
        """Literal at the start of the call; empty if the call starts with a placeholder."""
        self.begins_message: Final = self.opener.startswith("assistant")
        """True if the call begins with the role of a message.  A role also ends the previous message."""
        self.closing: Final = literals(tail)
        """Closing literals as declared.  ``closers`` contains their parts."""
        tag_end = _tag_end(opening)
        closers = _split_closers(tail, tag_end)
        self.unended: Final = (
            closers[0].removesuffix(tag_end) if tag_end and closers and closers[0].endswith(tag_end) else ""
        )
        """First closing tag as written by models that omit its last token; empty in most dialects."""
        self.closers: Final = tuple(
            part for closer in closers for part in dict.fromkeys((closer, closer.removesuffix(tag_end)))
        )
        self.ends_in_name: Final = bool(without_space) and isinstance(without_space[-1], Placeholder)
        """True if no delimiter ends the name, so only the text after the name shows where the name ends."""
        self.unnamed: Final = self.payload == "args" and not dialect.names.fixed and not _has_name(opening)
        """True if the function must be inferred from the arguments."""
        self.rank: Final = _LAST_RANK if self.unnamed else _RANKS[self.payload]
        escaped_newlines = self.payload == "params" and dialect.values.escaped_newlines
        self.opening: Final = steps_of(opening, escaped_newlines=escaped_newlines)
        if self.payload == "params" and len({is_inline(template) for template in dialect.param}) > 1:
            # The codec must see whether a newline follows the head.
            while self.opening[-1].kind == SPACE:
                self.opening.pop()
        """Steps for everything before the arguments."""
        if escaped_newlines:
            self.opening.append(Step(SPACE, ESCAPED_NEWLINE))
        self._make_envelope: Final = make_envelope
        self._unmarked: Final = all(map(is_anyones, literals(opening)))

    def head(self, section: SectionForm) -> list[Step]:
        """Return the steps for a call in this section, up to its commit point (see ``call_reader.py``)."""
        if self.payload == "envelope":
            unmarked = self._unmarked and section.unmarked
            return [
                *self.opening,
                Step(ENVELOPE, self.notation, make_envelope=self._make_envelope, unmarked=unmarked),
            ]
        if self.unnamed:
            return [*self.opening, Step(ENVELOPE, UNNAMED, make_envelope=self._make_envelope)]
        if self.payload == "args":
            # After a control token, any JSON value except a bare word starts a call.  If the value is not an
            # object, the call is malformed.
            last = [step.text for step in self.opening if step.kind != SPACE][-1:]
            marked = self.notation == "json" and any(map(is_control_token, last))
            return [*self.opening, Step(PEEK, _NOT_A_WORD if marked else FIRST_CHARACTERS[self.notation])]
        return self.opening


def _has_name(pieces: Sequence[Piece]) -> bool:
    return any(
        (isinstance(piece, Placeholder) and piece.field == "name")
        or (isinstance(piece, Attributes) and "name" in piece.fields.values())
        for piece in pieces
    )


class SectionForm:
    """One way to write a section, which is a sequence of calls with markers around it."""

    __slots__ = (
        "_openers",
        "anchored",
        "bare",
        "closers",
        "declared",
        "ends_reasoning",
        "missing_opener",
        "opener",
        "steps",
        "unmarked",
    )

    def __init__(self, template: str | declared.Section, usual_opener: str = "") -> None:
        """Split the template.

        :param usual_opener: the opening marker of the first section that the dialect declares.
        """
        placed = template if isinstance(template, declared.Section) else declared.Section(template)
        opening, _, closing = split_at(reading_pieces(template), "calls")
        opening, closing = _brackets_apart(opening, closing)
        self.anchored: Final = placed.only_at_start
        """True if the section is recognised only before the first visible text."""
        self.declared: Final = placed.declared_only
        """True if the section is recognised only if its calls are to declared tools."""
        self.ends_reasoning: Final = placed.ends_reasoning
        """True if the opening marker ends reasoning that was not closed."""
        self.opener: Final = first_literal(opening)
        self._openers: Final = literals(opening)
        self.steps: Final = steps_of(opening)
        self.closers: Final = literals(closing)
        self.bare: Final = not self.opener and not self.closers
        """True if the section has no markers around its calls."""
        self.unmarked: Final = all(map(is_anyones, literals(opening)))
        """True if ordinary text may also start with the opening marker."""
        self.missing_opener: Final = (
            usual_opener if self.declared and is_marker(usual_opener) and not is_marker(self.opener) else ""
        )
        """Usual opening marker of sections, if this form is for sections that lack the marker; otherwise
        empty."""

    def first_call_at(self, text: str) -> int:
        """Return the index of the first call in the text of a section."""
        at = 0
        for literal in self._openers:
            at = max(at, text.find(literal, at) + len(literal))
        return skip_whitespace(text, at)

    def admits(self, form: CallForm) -> bool:
        """Return whether the parser can recognise where a call of this form begins in this section."""
        return bool(self.opener or self.anchored or form.opener)


def _brackets_apart(
    opening: tuple[Piece, ...], closing: tuple[Piece, ...]
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Split a literal next to the calls into its square bracket and the rest.

    Models may leave out the brackets, or write whitespace between the brackets and other markers.
    """
    before = [piece for piece in opening if isinstance(piece, Literal)]
    after = [piece for piece in closing if isinstance(piece, Literal)]
    if not before or not after or before[-1].text[-1] != "[" or after[0].text[0] != "]":
        return opening, closing
    outer, inner = before[-1].text[:-1], after[0].text[1:]
    at = opening.index(before[-1])
    if outer:
        opening = (*opening[:at], Literal(outer), Space(""), Literal("["), *opening[at + 1 :])
    at = closing.index(after[0])
    if inner:
        closing = (*closing[:at], Literal("]"), Space(""), Literal(inner), *closing[at + 1 :])
    return opening, closing
