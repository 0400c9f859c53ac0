"""Form of messages with headers.  The header of a message determines how its body is read.

In Harmony, for example, ``<|channel|>commentary to=functions.now<|message|>`` is a header.  Its fields
(``channel``, ``to``) are compared with the dialect's *routes*, which are conditions on header fields.  The
first route that matches determines whether the body is text of a channel, is dropped, or contains the
arguments of a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ...dialects._control_token_pattern import is_control_token
from ...dialects.parse_templates import (
    Piece,
    Placeholder,
    only_at_start,
    parse_header_field,
    parse_template,
    template_text,
)
from ..scan.markers import MarkerSet
from ..scan.short_text_cache_limits import FEW
from .match_program_types import DROP, FOLLOWED, FRAME, HEADER, LITERAL, Program, Step
from .split_templates import CallForm

if TYPE_CHECKING:
    from ...dialects import _placed_templates as declared
    from ...dialects._declaration import Dialect, Frame, Route


class RouteForm:
    """Compiled route: conditions on header fields, and the kind of body if all conditions hold."""

    __slots__ = ("_conditions", "into")

    def __init__(self, route: Route) -> None:
        self.into: Final = route.into
        self._conditions: Final = tuple(
            (field, re.compile("".join(map(_condition_pattern, parse_template(value)))))
            for field, value in route.when.items()
        )

    def match(self, fields: dict[str, str]) -> tuple[str, str, int] | None:
        """Return the function's name, the field that contains the name, and the name's index in the field.

        Return None if a condition fails.  The name is empty if the route does not contain ``{name}``.
        """
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
    """Headers, routes and closing markers of the messages of a dialect that writes headers."""

    __slots__ = (
        "_cache",
        "_field_openers",
        "_fields",
        "_role_openers",
        "_routes",
        "boundaries",
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
        self.openers: Final = tuple(map(template_text, frame.open))
        self._routes: Final = tuple(RouteForm(route) for route in frame.routes)
        self.calls: Final = {
            placeholder: CallForm(placeholder, dialect) for placeholder in ("{args}", "{params}")
        }
        """Map from a route's target to the form of its calls, whose arguments are the message body."""
        self._fields: Final = tuple(_field_pattern(field) for field in frame.fields)
        self._cache: Final[dict[str, Header]] = {}
        starts = {parse_header_field(field)[0].text.strip() for field in frame.fields}
        self._field_openers: Final = tuple(filter(is_control_token, starts))
        boundaries = (opener for opener in self.openers if opener.strip() not in starts)
        self.stops: Final = MarkerSet((frame.sep, *frame.ends, *boundaries))
        """Literals that end a header.  An opening marker that also starts a field does not end the header."""
        unanchored = (template_text(opener) for opener in frame.open if not only_at_start(opener))
        self.boundaries: Final = MarkerSet((*frame.ends, *unanchored, *dialect.stop))
        """Literals that end a message."""
        self.words: Final = frozenset(self._words_after_tokens(frame))
        """Words that follow a control token in headers, such as ``analysis``.

        Such a word is part of the header even if the model leaves out the token.
        """
        # If an opening marker is a prefix of another one, the text after the shorter marker is a role.
        self._role_openers: Final = frozenset(
            opener
            for opener in self.openers
            if any(other != opener and other.startswith(opener) for other in self.openers)
        )
        self.programs: Final = [self._program(opener) for opener in frame.open]
        opening = MarkerSet(opener for opener in self.openers if is_control_token(opener))
        for word in self.words:
            steps = [Step(LITERAL, word), Step(FOLLOWED, markers=opening)]
            self.programs.append(Program(DROP, steps, anchored=True))

    def _program(self, opener: str | declared.Opener) -> Program:
        text = template_text(opener)
        steps = [Step(LITERAL, text)]
        if text != self.sep:  # if the message starts with the separator, its header is empty
            token = text if is_control_token(text) else ""
            steps.append(Step(HEADER, token, stop=self.sep, markers=self.stops))
        return Program(FRAME, steps, anchored=only_at_start(opener))

    def _words_after_tokens(self, frame: Frame) -> Iterator[str]:
        for field in frame.fields:
            pieces = parse_header_field(field)
            if is_control_token(pieces[0].text):
                for route in frame.routes:
                    found = route.when.get(pieces[-1].text[1:-1])
                    for text in (route.header, "" if found is None else pieces[0].text + found):
                        yield from _field_pattern(field).findall(text)

    def prose(self, header: Header, text: str, opener: str) -> int:
        """Return the length of the ordinary text between the opening marker and the header."""
        lead = text[len(opener) : header.begin]
        for token in self._field_openers:
            lead = lead.partition(token)[0]
        word = lead.strip()
        return len(lead) if word and word not in self.words and opener not in self._role_openers else 0

    def is_header(self, text: str) -> bool:
        """Return whether the whole text is a header or the beginning of a header."""
        text = text.rstrip().removesuffix(self.sep)
        for pattern in self._fields:
            text = pattern.sub("", text)
        for opener in sorted(self.openers, key=len, reverse=True):
            text = text.replace(opener, "")
        return not text.strip()

    def read_header(self, text: str) -> Header:
        """Parse a header.  If a field occurs more than once, its last value is used."""
        header = self._cache.get(text)
        if header is None:
            fields: dict[str, str] = {}
            starts: dict[str, int] = {}
            begin, end = len(text), 0
            contradicts = False
            for pattern in self._fields:
                for match in pattern.finditer(text):
                    caught = match.groupdict()
                    contradicts = contradicts or any(
                        fields.get(field, value) != value for field, value in caught.items()
                    )
                    fields.update(caught)
                    starts.update({field: match.start(field) for field in caught})
                    begin = min(begin, match.start())
                    end = max(end, match.end())
            into, name, field, at = self._route(fields)
            header = Header(fields, begin, end, into, name, starts.get(field, 0) + at, contradicts)
            # A model writes only a few different headers, so the cache is rarely full.
            if len(self._cache) >= FEW:
                self._cache.clear()
            self._cache[text] = header
        return header

    def _route(self, fields: dict[str, str]) -> tuple[str, str, str, int]:
        for route in self._routes:
            match = route.match(fields)
            if match is not None:
                return route.into, *match
        return "content", "", "", 0


class Header:
    """Parsed header: its fields, and the result of the route that matches them."""

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
        """Index of the first field."""
        self.end: Final = end
        """Index just past the last field."""
        self.into: Final = into
        """Target of the route: a channel, ``drop``, or what the body contains, such as ``{args}``."""
        self.name: Final = name
        """Name of the function that the message calls; empty if the message is not a call."""
        self.name_at: Final = name_at
        """Index of the name in the header."""
        self.contradicts: Final = contradicts
        """True if a field occurs twice with different values; the last value is used."""


def _condition_pattern(piece: Piece) -> str:
    return "(?P<name>.+)" if isinstance(piece, Placeholder) else re.escape(piece.text)


def _field_pattern(template: str) -> re.Pattern[str]:
    pattern = ""
    for piece in parse_header_field(template):
        if isinstance(piece, Placeholder):
            pattern += rf"(?P<{piece.field}>[^\s<\ud800-\udfff]+)"
        else:
            pattern += re.escape(piece.text)
    return re.compile(pattern)
