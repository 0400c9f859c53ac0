"""Programs.  A program describes the text with which a call or other markup begins.

A program is a sequence of steps.  The first one is the *trigger*, the literal that the machine searches for.
When the last step has matched (the *commit point*), it is certain that a call or other markup has begun.  For
a call in the dialect ``hermes``, the steps are: the literal ``<tool_call>``, whitespace, and an object up to
the function's name.  Steps and programs are constant data.  ``Matcher`` runs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from ...dialects._control_token_pattern import is_control_token
from ..scan.character_runs import Alphabet
from ..scan.markers import MarkerSet
from .argument_codec_base import NamedPayload

if TYPE_CHECKING:
    from .split_templates import CallForm, SectionForm, Wrapper

# Kinds of step.
LITERAL: Final = 0  # match exactly this text
SPACE: Final = 1  # skip optional whitespace
CAPTURE: Final = 2  # read the text at a placeholder such as {name}
ATTRIBUTES: Final = 3  # read key="value" pairs, in any order
REPEAT: Final = 4  # match the text that an earlier CAPTURE has read
PEEK: Final = 5  # check that one of these characters follows, but do not consume it
ENVELOPE: Final = 6  # read an object with the function's name in it, up to the name
END: Final = 7  # check that the input ends here
HEADER: Final = 8  # read the header of a message, up to its separator
FOLLOWED: Final = 9  # check that one of these literals follows, but do not consume it
LINE_FEED: Final = 10  # skip a newline if there is one
UNLESS: Final = 11  # check that the input continues, but not with one of these literals

# Actions: the kind of element that begins or ends when a program has matched.
CALL: Final = 0
EMPTY_SECTION: Final = 1
SECTION_CLOSE: Final = 2
OPEN_WRAPPER: Final = 3
DROP: Final = 4
STOP: Final = 5
FRAME: Final = 6
PARAM: Final = 7
CLOSE_PARAM: Final = 8

_NAME: Final = Alphabet(r"[^\s<>{}()\[\]\"'|｜,=\ud800-\udfff]+")
_ALPHABETS: Final = {
    "name": _NAME,
    "id": _NAME,
    "key": Alphabet(r"[^\s/<>\ud800-\udfff][^<>\n\ud800-\udfff]*"),
    "index": Alphabet(r"[0-9]*"),
    "_": Alphabet(r"[^<>\n\ud800-\udfff]*"),
}
PUNCTUATION: Final = re.compile(r"[^\w\s]")
"""Pattern of a character that occurs in markers, but not in words."""
_WORD: Final = Alphabet(r"[^\s<>\"|｜\ud800-\udfff]*")


EnvelopeFactory: TypeAlias = Callable[[str, bool], NamedPayload]
"""Function that creates the codec of an envelope, given its notation.

The second argument is true if no marker around the envelope shows that the envelope is a call.

"""


class Step:
    """Step of a program.  Its ``kind`` determines the meaning of the other attributes."""

    __slots__ = ("alphabet", "fields", "kind", "make_envelope", "markers", "stop", "text", "unmarked")

    def __init__(
        self,
        kind: int,
        text: str = "",
        *,
        fields: dict[str, str] | None = None,
        stop: str = "",
        markers: MarkerSet | None = None,
        make_envelope: EnvelopeFactory | None = None,
        unmarked: bool = False,
    ) -> None:
        self.kind: Final = kind
        self.text: Final = text
        """``LITERAL``: the text to match.  ``CAPTURE`` and ``REPEAT``: the name of the field.  ``PEEK``: the
        allowed characters.  ``HEADER``: the control token before the header, if there is one.  ``ENVELOPE``:
        the notation.  ``SPACE``: an escaped newline that may occur in the whitespace."""
        self.fields: Final = fields or {}
        """``ATTRIBUTES``: map from the name of each attribute to the name of its field."""
        self.stop: Final = stop
        """``CAPTURE``: a literal at which the text ends.  ``HEADER``: the separator after the header."""
        self.markers: Final = markers or _NO_MARKERS
        """``HEADER``: literals that end the header.  ``FOLLOWED`` and ``UNLESS``: the literals to check
        for."""
        self.make_envelope: Final = make_envelope
        """``ENVELOPE``: the function that creates the codec."""
        self.unmarked: Final = unmarked
        """``ENVELOPE``: true if no marker shows that the object is a call."""
        self.alphabet: Final = _ALPHABETS.get(text, _WORD)
        """``CAPTURE``: the characters that the text may consist of."""


_NO_MARKERS: Final = MarkerSet(())


class Program:
    """Steps from a trigger to a commit point, with the action to take at the commit point.

    ``call``, ``section`` and ``wrapper`` are the forms from which the program was compiled.
    """

    __slots__ = (
        "action",
        "anchored",
        "at_line",
        "bare",
        "call",
        "closers",
        "control",
        "declared",
        "demands",
        "free_name",
        "has_call_opener",
        "has_text",
        "marked",
        "may_follow",
        "section",
        "slip",
        "steps",
        "trigger",
        "wrapper",
    )

    def __init__(
        self,
        action: int,
        steps: Sequence[Step],
        *,
        call: CallForm | None = None,
        section: SectionForm | None = None,
        wrapper: Wrapper | None = None,
        anchored: bool = False,
        declared: bool = False,
        bare: str = "",
        slip: str = "",
        has_text: bool = False,
    ) -> None:
        self.action: Final = action
        """Action to take after a match: ``CALL``, ``OPEN_WRAPPER`` and so on."""
        self.steps: Final = [
            step for i, step in enumerate(steps) if not i or step.kind != SPACE or steps[i - 1].kind != SPACE
        ]
        self.call: Final = call
        self.section: Final = section
        self.wrapper: Final = wrapper
        self.bare: Final = bool(bare)
        """True if this is a program for calls without markers; see ``bare_calls.py``."""
        self.at_line: Final = bare == "declared"
        """True if the program is tried only at the beginning of a line, outside code fences."""
        self.anchored: Final = anchored and not self.at_line
        """True if the program is tried only before the first visible text."""
        self.declared: Final = declared
        """True if only calls to declared tools are accepted."""
        self.slip: Final = slip
        """Description of the error in the markup that the program tolerates; usually empty."""
        self.has_text: Final = has_text
        """True if text for the user stands between the trigger and the call."""
        self.closers: Final = frozenset(
            (
                *((*call.closers, *call.closing) if call is not None else ()),
                *(section.closers if section is not None else ()),
            )
        )
        """Literals that close the call or the section whose beginning this program matches."""
        self.trigger: Final = _trigger(self.steps)
        """Literal to search for in the text outside calls."""
        self.control: Final = is_control_token(self.trigger)
        """True if the trigger is a control token."""
        first = next((step for step in self.steps if step.kind != SPACE), None)
        self.marked: Final = (
            first is not None and first.kind == LITERAL and PUNCTUATION.search(first.text) is not None
        )
        """True if the program starts with a literal that contains punctuation, not with an ordinary word."""
        self.may_follow: Final = _may_follow(self.steps)
        """ASCII characters that may follow the trigger; None if any character may."""
        self.has_call_opener: Final = (call is not None and bool(call.opener)) or (
            section is not None and bool(section.opener)
        )
        """True if the call or the section has an opening marker."""
        self.demands: Final = sum(len(step.text) for step in self.steps if step.kind == LITERAL)
        """Number of characters in the program's literals.  Programs with more such characters are tried
        first."""
        self.free_name: Final = any(
            step.unmarked or (step.kind == CAPTURE and step.text == "name") for step in self.steps
        )
        """True if no markup shows where the name is.  Ordinary text could then be mistaken for a name."""

    def fits(self, at_start: bool, at_line: bool, quoted: bool, in_quotes: bool) -> bool:
        """Return whether to try the program at the current position of the input.

        :param at_start: true if there is no visible text before this position.
        :param at_line: true if a line begins at this position, outside code fences.
        :param quoted: true if the previous character is a quotation mark, and the text at this position is
            not a control token.
        :param in_quotes: true if the previous character is a quotation mark, whatever the text at this
            position is, or if this position is inside an earlier quotation.
        """
        if (self.anchored and not at_start) or (self.at_line and not at_line) or (self.slip and in_quotes):
            return False
        return not quoted or self.action not in (OPEN_WRAPPER, EMPTY_SECTION)


def _trigger(steps: list[Step]) -> str:
    """Return the literal to search for: the first literal or character that the steps require."""
    for step in steps:
        if step.kind == LITERAL:
            return step.text
        if step.kind == PEEK:
            return step.text[0]
        if step.kind == ENVELOPE:
            return "{"
        if step.kind != SPACE:
            break
    return ""


def _may_follow(steps: list[Step]) -> frozenset[str] | None:
    """Return the ASCII characters that may follow the first literal; None if any character may."""
    if not steps or steps[0].kind != LITERAL:
        return None
    characters: set[str] = set()
    for step in steps[1:]:
        if step.kind == SPACE:
            characters.update(" \t\r\n")
        elif step.kind == LITERAL:
            return frozenset(characters.union(step.text[0]))
        elif step.kind == CAPTURE and step.alphabet.pattern.match("") is None:
            return frozenset(characters.union(filter(step.alphabet.pattern.match, ASCII)))
        elif step.kind == ENVELOPE:
            return frozenset(characters.union(" \t\r\n{"))
        else:
            break
    return None


ASCII: Final = "".join(map(chr, range(128)))
