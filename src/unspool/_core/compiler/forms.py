"""Forms: one template each, ready to be read.

A form splits its template at the hole that matters (the payload, the calls,
the value, the text) into what opens it, as steps of a trial, and what closes
it, as literals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ...dialects._control_tokens import CONTROL_TOKEN, is_control_token, split_at_control_tokens
from ...dialects._templates import (
    PAYLOADS,
    Attributes,
    Hole,
    LineFeed,
    Literal,
    Piece,
    Space,
    first_literal,
    is_anyones,
    literals,
    parse_template,
    reading_pieces,
    split_at,
    split_marks,
)
from ..scan.markers import MarkerSet, ValueMarkerSet
from ..scan.runs import behind_space
from . import programs as t
from .programs import Embed, Program, Step

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect, Frame, Route
    from ...events import Channel, MarkupKind

FIRST_CHARACTERS: Final = {"json": "{", "python": "(", "loose": "(", "bare": "{("}
"""What arguments begin with, by notation."""
_NO_WORD: Final = '{["-0123456789'
"""What a value begins with in JSON, unless it is a word: behind a control token it is a call's arguments."""

_TAG: Final = r"(?:<[^<>\s]+>|[\ud800-\udfff])"
_TAG_END: Final = re.compile(rf"(?<=[\w\" ])(?:{CONTROL_TOKEN.pattern})\Z")
_TWO_TAGS: Final = re.compile(rf"{_TAG}\s*({_TAG})")

UNNAMED: Final = "unnamed"
"""Stands for the notation of an object of arguments that tells which function they are for."""

# What demands a first character is tried before what always fits.
_RANKS: Final = {"args": 0, "envelope": 0, "code": 0, "": 1, "params": 2}
_LAST: Final = 3


SPELT_BREAK: Final = "\\n"
"""A line break that is spelt out."""


def steps_of(pieces: Sequence[Piece], *, spelt: bool = False) -> list[Step]:
    """The steps that read these pieces; ``spelt``: line breaks may be spelt out."""
    line_break = SPELT_BREAK if spelt else ""
    steps: list[Step] = []
    seen: set[str] = set()
    for i, piece in enumerate(pieces):
        if isinstance(piece, Literal):
            steps.append(Step(t.LITERAL, piece.text))
        elif isinstance(piece, Space):
            if not steps or steps[-1].kind != t.SPACE:
                steps.append(Step(t.SPACE, line_break))
        elif isinstance(piece, LineFeed):
            steps.append(Step(t.LINE_FEED))
        elif isinstance(piece, Attributes):
            steps.append(Step(t.ATTRIBUTES, fields=piece.fields))
            seen.update(piece.fields.values())
        elif isinstance(piece, Hole) and piece.field in seen:
            steps.append(Step(t.REPEAT, piece.field))
        elif isinstance(piece, Hole):
            seen.add(piece.field)
            steps.append(_capture(piece.field, first_literal(pieces[i + 1 :]) or line_break))
    return steps


def _capture(field: str, following: str) -> Step:
    """A hole ends where its alphabet does, or earlier if what follows is spelt in that alphabet."""
    step = Step(t.CAPTURE, field)
    if following and step.alphabet.pattern.fullmatch("x" + following[0]):
        return Step(t.CAPTURE, field, stop=following)
    return step


def closing_steps(closers: Sequence[str]) -> list[Step]:
    """These literals, with white space before each."""
    return [step for literal in closers for step in (Step(t.SPACE), Step(t.LITERAL, literal))]


_ROLES: Final[dict[Channel | None, tuple[MarkupKind, MarkupKind]]] = {
    "reasoning": ("reasoning_open", "reasoning_close"),
    "content": ("content_open", "content_close"),
    None: ("dropped", "dropped"),
}


class Wrapper:
    """Reasoning, content, or text that is for nobody, between markers."""

    __slots__ = ("anywhere", "channel", "close_role", "closers", "open_role", "program")

    def __init__(self, channel: Channel | None, template: str) -> None:
        """``channel``: where the text goes; None: nowhere."""
        marks, body = split_marks(template)
        # Around content a line break is markup or data; around reasoning it is trimmed anyway.
        opening, _, closing = split_at(
            reading_pieces(body, exact="text" if channel == "content" else ""), "text"
        )
        if opening and isinstance(opening[-1], Space):
            word = opening[-2].text
            # A word is a marker only on a line of its own.
            opening = (*opening[:-2], Literal(word + "\n")) if word.isalpha() else opening[:-1]
        closer = first_literal(closing)
        self.channel: Final[Channel | None] = channel
        self.anywhere: Final = "!" in marks
        """Its opener counts in the middle of a line, too."""
        self.program: Final = Program(t.OPEN_WRAPPER, steps_of(opening), wrapper=self, anchored="^" in marks)
        """What opens it."""
        self.closers: Final = ("\n" + closer, closer) if isinstance(closing[0], LineFeed) else (closer,)
        self.open_role, self.close_role = _ROLES[channel]


class ParamForm:
    """How one parameter is written."""

    __slots__ = ("closers", "closing", "forgotten", "head", "inline", "unended", "watch")

    def __init__(self, template: str, *, spelt: bool, unless: MarkerSet | None = None) -> None:
        """One way to write it.

        :param spelt: as for ``steps_of``.
        :param unless: the tag that opens the value is missing, and in its place stands none of these.
        """
        # Whoever looks for a parameter has passed over the white space before it.
        opening, _, tail = split_at(reading_pieces(template.lstrip(" "), exact="value"), "value")
        closer = first_literal(tail)
        self.inline: Final = not any(isinstance(piece, LineFeed) for piece in (*opening, *tail))
        """No line feed stands between markup and value."""
        self.forgotten: Final = "" if unless is None else value_opener(template)
        """The tag that is missing."""
        if unless is None:
            steps = steps_of(opening, spelt=spelt)
        else:
            steps = [
                *steps_of(_without(self.forgotten, opening)),
                Step(t.LINE_FEED),
                Step(t.UNLESS, watch=unless),
            ]
        self.head: Final = Program(t.PARAM, steps)
        """Up to the value."""
        end = _tag_end(opening)
        self.unended: Final = (
            closer.removesuffix(end) if end and closer != end and closer.endswith(end) else ""
        )
        """The tag that ends the value, without the token that ends the tag; or nothing."""
        closers = ("\n" + closer, closer) if isinstance(tail[0], LineFeed) else (closer,)
        self.closers: Final = (self.unended, *closers) if self.unended else closers
        """What may end the value; a line feed of the template belongs to it."""
        self.closing: Final = Program(
            t.CLOSE_PARAM,
            [
                Step(t.LITERAL, piece.text) if isinstance(piece, Literal) else Step(t.CAPTURE, "key")
                for piece in tail
                if not isinstance(piece, Space | LineFeed)
            ],
        )
        """What ends a nested parameter; the name in it need not be right."""
        self.watch: ValueMarkerSet = ValueMarkerSet(self.closers)
        """What to look at inside the value."""


def value_opener(template: str) -> str:
    """The tag that opens the value, where it has one of its own behind that which closes the key."""
    opening, _, _ = split_at(parse_template(template), "value")
    _, key, between = split_at(opening, "key")
    match = _TWO_TAGS.fullmatch("".join(piece.text for piece in between)) if key is not None else None
    return match[1] if match is not None else ""


def _tag_end(opening: Sequence[Piece]) -> str:
    """The control token that ends tags, if an opening one has it: before another tag it may be missing."""
    match = _TAG_END.search("".join(piece.text for piece in opening))
    return match[0] if match is not None else ""


def _closers_apart(tail: Sequence[Piece], end: str) -> list[str]:
    """What closes something, with the control tokens in it apart, but for that which ends tags."""
    closers: list[str] = []
    for literal in literals(tail):
        for part in split_at_control_tokens(literal):
            if closers and part == end:
                closers[-1] += end
            else:
                closers.append(part)
    return closers


def _without(opener: str, opening: tuple[Piece, ...]) -> list[Piece]:
    """The head of a parameter without the tag that opens its value, and white space before it."""
    last = opening[-1]
    head = [*opening[:-1], Literal(last.text.removesuffix(opener))]
    while not head[-1].text.strip():
        head.pop()
    return head


class CallForm:
    """How one call is written."""

    __slots__ = (
        "_embed",
        "_unmarked",
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

    def __init__(self, template: str, dialect: Dialect, embed: Embed | None = None) -> None:
        """``embed``: as for ``Step``."""
        opening, payload, tail = split_at(reading_pieces(template, exact="code"), *PAYLOADS)
        solid = [piece for piece in opening if not isinstance(piece, Space)]
        self.template: Final = template
        self.payload: Final = payload.field if payload is not None else ""
        """``args``, ``envelope``, ``params``, ``code``, or nothing."""
        self.notation: Final = (payload.notation if payload is not None else "") or dialect.args
        self.opener: Final = first_literal(opening)
        """The literal a call begins with, if it does with one."""
        self.closing: Final = literals(tail)
        """What closes it as it is declared; ``closers`` are the parts of it."""
        end = _tag_end(opening)
        closers = _closers_apart(tail, end)
        self.unended: Final = (
            closers[0].removesuffix(end) if end and closers and closers[0].endswith(end) else ""
        )
        """The tag that closes it first, without the token that ends tags; or nothing."""
        self.closers: Final = tuple(
            part for closer in closers for part in dict.fromkeys((closer, closer.removesuffix(end)))
        )
        self.ends_in_name: Final = bool(solid) and isinstance(solid[-1], Hole)
        """Nothing but what follows closes the name."""
        self.unnamed: Final = self.payload == "args" and not dialect.names.fixed and not _names(opening)
        """Nothing but its arguments tells the function."""
        self.rank: Final = _LAST if self.unnamed else _RANKS[self.payload]
        spelt = self.payload == "params" and dialect.values.spelt_breaks
        self.opening: Final = steps_of(opening, spelt=spelt)
        """Up to the payload."""
        if spelt:
            self.opening.append(Step(t.SPACE, SPELT_BREAK))
        self._embed: Final = embed
        self._unmarked: Final = all(map(is_anyones, literals(opening)))

    def head(self, section: SectionForm) -> list[Step]:
        """What a call of the section begins with, up to its commit point."""
        if self.payload == "envelope":
            unmarked = self._unmarked and section.unmarked
            return [
                *self.opening,
                Step(t.ENVELOPE, self.notation, embed=self._embed, unmarked=unmarked),
            ]
        if self.unnamed:
            return [*self.opening, Step(t.ENVELOPE, UNNAMED, embed=self._embed)]
        if self.payload == "args":
            last = [step.text for step in self.opening if step.kind != t.SPACE][-1:]
            marked = self.notation == "json" and any(map(is_control_token, last))
            return [*self.opening, Step(t.PEEK, _NO_WORD if marked else FIRST_CHARACTERS[self.notation])]
        return self.opening


def _names(pieces: Sequence[Piece]) -> bool:
    return any(
        (isinstance(piece, Hole) and piece.field == "name")
        or (isinstance(piece, Attributes) and "name" in piece.fields.values())
        for piece in pieces
    )


class SectionForm:
    """What surrounds calls."""

    __slots__ = (
        "_openers",
        "anchored",
        "bare",
        "between",
        "closers",
        "declared",
        "ends_reasoning",
        "lacks",
        "opener",
        "resync",
        "steps",
        "unmarked",
    )

    def __init__(self, template: str) -> None:
        marks, body = split_marks(template)
        opening, _, closing = split_at(reading_pieces(body), "calls")
        opening, closing = _brackets_apart(opening, closing)
        self.anchored: Final = "^" in marks
        """Only where no visible text came before."""
        self.declared: Final = "?" in marks
        """Only for declared tools."""
        self.ends_reasoning: Final = "!" in marks
        self.opener: Final = first_literal(opening)
        self._openers: Final = literals(opening)
        self.steps: Final = steps_of(opening)
        self.closers: Final = literals(closing)
        self.bare: Final = not self.opener and not self.closers
        """There is nothing but the calls."""
        self.unmarked: Final = all(map(is_anyones, literals(opening)))
        """What opens it may open an answer as well."""
        self.lacks = ""
        """The opener that sections have and this one has not."""
        self.between: list[Program] = []
        """What may follow a call, its separator included."""
        self.resync: MarkerSet = MarkerSet(self.closers)
        """Where a malformed call of the section ends."""

    def behind_opening(self, head: str) -> int:
        """Where its first call begins in a text that it begins."""
        at = 0
        for literal in self._openers:
            at = max(at, head.find(literal, at) + len(literal))
        return behind_space(head, at)

    def admits(self, form: CallForm) -> bool:
        """Whether anything tells where such a call begins in this section."""
        return bool(self.opener or self.anchored or form.opener)


def _brackets_apart(
    opening: tuple[Piece, ...], closing: tuple[Piece, ...]
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Brackets around the calls are literals of their own: they may be forgotten, or spaced out."""
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


class RouteForm:
    """A route: conditions on header fields, and where the body goes."""

    __slots__ = ("_conditions", "into")

    def __init__(self, route: Route) -> None:
        self.into: Final = route.into
        self._conditions: Final = tuple(
            (key, re.compile(re.escape(value).replace(r"\{name\}", "(?P<name>.+)")))
            for key, _, value in (part.partition("=") for part in route.when.split())
        )

    def match(self, fields: dict[str, str]) -> tuple[str, str, int] | None:
        """The function's name (or nothing), in which field it stands and where, if the fields fit."""
        name = field = ""
        at = 0
        for key, pattern in self._conditions:
            match = pattern.fullmatch(fields.get(key, ""))
            if match is None:
                return None
            if "name" in pattern.groupindex:
                name, field, at = match["name"], key, match.start("name")
        return name, field, at


class FrameForm:
    """Messages with headers."""

    __slots__ = (
        "_fields",
        "_known",
        "_marks",
        "_roles",
        "_routes",
        "borders",
        "calls",
        "ends",
        "openers",
        "programs",
        "sep",
        "stops",
        "words",
    )

    def __init__(self, dialect: Dialect, frame: Frame) -> None:
        self.sep: Final = frame.sep
        self.ends: Final = frame.ends
        self.openers: Final = tuple(opener.lstrip("^") for opener in frame.open)
        self._routes: Final = tuple(RouteForm(route) for route in frame.routes)
        self.calls: Final = {hole: CallForm(hole, dialect) for hole in ("{args}", "{params}")}
        """The payload of a message as a call of its own."""
        self._fields: Final = tuple(_field_pattern(field) for field in frame.fields)
        self._known: Final[dict[str, Header]] = {}
        starts = {parse_template(field)[0].text.strip() for field in frame.fields}
        self._marks: Final = tuple(filter(is_control_token, starts))
        borders = (opener for opener in self.openers if opener.strip() not in starts)
        self.stops: Final = MarkerSet((frame.sep, *frame.ends, *borders))
        """What ends a header; openers that are fields may occur in one."""
        unanchored = (opener for opener in frame.open if opener[0] != "^")
        self.borders: Final = MarkerSet((*frame.ends, *unanchored, *dialect.stop))
        """What ends a message."""
        self.words: Final = frozenset(self._marked_words(frame))
        """What headers say behind control tokens; where that is forgotten it still is not text."""
        self._roles: Final = frozenset(
            opener
            for opener in self.openers
            if any(o != opener and o.startswith(opener) for o in self.openers)
        )  # openers that something else may follow than fields
        self.programs: Final = [self._program(opener) for opener in frame.open]
        opening = MarkerSet(opener for opener in self.openers if is_control_token(opener))
        for word in self.words:
            steps = [Step(t.LITERAL, word), Step(t.FOLLOWED, watch=opening)]
            self.programs.append(Program(t.DROP, steps, anchored=True))

    def _program(self, opener: str) -> Program:
        text = opener.lstrip("^")
        steps = [Step(t.LITERAL, text)]
        if text != self.sep:  # else the header is empty
            certain = text if is_control_token(text) else ""
            steps.append(Step(t.HEADER, certain, stop=self.sep, watch=self.stops))
        return Program(t.FRAME, steps, anchored=opener.startswith("^"))

    def _marked_words(self, frame: Frame) -> Iterator[str]:
        for field in frame.fields:
            pieces = parse_template(field)
            if is_control_token(pieces[0].text):
                for route in frame.routes:
                    for text in (
                        route.header,
                        route.when.replace(f"{pieces[-1].text[1:-1]}=", pieces[0].text),
                    ):
                        yield from _field_pattern(field).findall(text)

    def prose(self, header: Header, text: str, opener: str) -> int:
        """How much of what stands behind the opener of a header is text, because no header begins so."""
        lead = text[len(opener) : header.begin]
        for mark in self._marks:
            lead = lead.partition(mark)[0]
        said = lead.strip()
        return len(lead) if said and said not in self.words and opener not in self._roles else 0

    def is_header(self, text: str) -> bool:
        """Return whether a text is a header, or the beginning of one, and nothing else."""
        text = text.rstrip().removesuffix(self.sep)
        for pattern in self._fields:
            text = pattern.sub("", text)
        for opener in sorted(self.openers, key=len, reverse=True):
            text = text.replace(opener, "")
        return not text.strip()

    def read_header(self, text: str) -> Header:
        """What a header says; the last field of each kind counts."""
        known = self._known.get(text)
        if known is None:
            fields: dict[str, str] = {}
            places: dict[str, int] = {}
            begin, end = len(text), 0
            contradicts = False
            for pattern in self._fields:
                for match in pattern.finditer(text):
                    caught = match.groupdict()
                    contradicts = contradicts or any(
                        fields.get(field, value) != value for field, value in caught.items()
                    )
                    fields.update(caught)
                    places.update({field: match.start(field) for field in match.groupdict()})
                    begin = min(begin, match.start())
                    end = max(end, match.end())
            into, name, field, at = self._route(fields)
            known = Header(fields, begin, end, into, name, places.get(field, 0) + at, contradicts)
            if len(self._known) >= _HEADERS:
                self._known.clear()
            self._known[text] = known
        return known

    def _route(self, fields: dict[str, str]) -> tuple[str, str, str, int]:
        for route in self._routes:
            found = route.match(fields)
            if found is not None:
                return route.into, *found
        return "content", "", "", 0


_HEADERS: Final = 256
"""So many headers are remembered; outputs of a model have few different ones."""


class Header:
    """What the header of a message says."""

    __slots__ = ("begin", "contradicts", "end", "fields", "into", "name", "name_at")

    def __init__(
        self,
        fields: dict[str, str],
        begin: int,
        end: int,
        into: str,
        name: str,
        name_at: int,
        contradicts: bool,
    ) -> None:
        self.fields: Final = fields
        self.begin: Final = begin
        """Where the first field begins."""
        self.end: Final = end
        """Where the last field ends."""
        self.into: Final = into
        """Where the message goes, and ..."""
        self.name: Final = name
        """... the function that it names, ..."""
        self.name_at: Final = name_at
        """... and where."""
        self.contradicts: Final = contradicts
        """Whether a field occurs twice, with different values; the last one counts."""


def _field_pattern(template: str) -> re.Pattern[str]:
    pattern = ""
    for piece in parse_template(template):
        if isinstance(piece, Hole):
            pattern += rf"(?P<{piece.field}>[^\s<\ud800-\udfff]+)"
        else:
            pattern += re.escape(piece.text)
    return re.compile(pattern)
