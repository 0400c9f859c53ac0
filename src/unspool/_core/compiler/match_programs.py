"""Programs: what must stand at a marker for something to begin there.

A program is a sequence of steps.  It leads from a trigger, the literal that the machine searches
for, to a commit point.  For a call in Hermes' dialect the steps are: the literal ``<tool_call>``,
whitespace, and an object up to its name.  Steps and programs are data, and never change; ``Matcher``
runs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from ...dialects._control_tokens import is_control_token
from ..scan.character_runs import Alphabet
from ..scan.markers import MarkerSet
from .argument_codec import NamedPayload

if TYPE_CHECKING:
    from .template_forms import CallForm, SectionForm, Wrapper

# Kinds of step.
LITERAL: Final = 0  # exactly this text
SPACE: Final = 1  # any whitespace, or none
CAPTURE: Final = 2  # a hole: as many characters of its alphabet as there are
ATTRIBUTES: Final = 3  # key="value" pairs, in any order
REPEAT: Final = 4  # the text of an earlier hole again
PEEK: Final = 5  # one of these characters comes next; it is not consumed
ENVELOPE: Final = 6  # an object with the function's name in it, up to the commit point
END: Final = 7  # the end of the input
HEADER: Final = 8  # the header of a message, up to its separator
FOLLOWED: Final = 9  # one of these literals comes next; it is not consumed
LINE_FEED: Final = 10  # at most one newline
UNLESS: Final = 11  # something comes next, and it is not one of these literals

# What begins where a program has matched.
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
"""A character that is in markers but not in words."""
_WORD: Final = Alphabet(r"[^\s<>\"|｜\ud800-\udfff]*")


EnvelopeFactory: TypeAlias = Callable[[str, bool], NamedPayload]
"""Creates the codec of an envelope, given its notation.

The second argument is true if no marker around the envelope says that it is a call.
"""


class Step:
    """One thing to match.  The meaning of the attributes depends on the kind."""

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
        """Literal: the text.  Capture and repeat: the field.  Peek: the characters.  Header: the
        control token in front of it, if there is one.  Envelope: its notation.  Space: the spelling
        of an escaped newline that may stand among the whitespace."""
        self.fields: Final = fields or {}
        """Attributes: the field of each attribute."""
        self.stop: Final = stop
        """Capture: a literal that ends the hole although its alphabet has it.  Header: the separator."""
        self.markers: Final = markers or _NO_MARKERS
        """Header: literals that end it.  Followed: what may come next.  Unless: what may not come next."""
        self.make_envelope: Final = make_envelope
        """Envelope: creates its codec."""
        self.unmarked: Final = unmarked
        """Envelope: no marker around it says that it is a call."""
        self.alphabet: Final = _ALPHABETS.get(text, _WORD)
        """Capture: the characters that it may consist of."""


_NO_MARKERS: Final = MarkerSet(())


class Program:
    """Steps from a trigger to a commit point, and what begins there.

    ``call``, ``section`` and ``wrapper`` are the forms that the program comes from.
    """

    __slots__ = (
        "action",
        "anchored",
        "call",
        "closers",
        "control",
        "declared",
        "demands",
        "free_name",
        "has_call_opener",
        "marked",
        "may_follow",
        "section",
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
    ) -> None:
        self.action: Final = action
        """Action for a match: ``CALL``, ``OPEN_WRAPPER`` and so on."""
        self.steps: Final = [
            step for i, step in enumerate(steps) if not i or step.kind != SPACE or steps[i - 1].kind != SPACE
        ]
        self.call: Final = call
        self.section: Final = section
        self.wrapper: Final = wrapper
        self.anchored: Final = anchored
        """True if it counts only in front of all visible text."""
        self.declared: Final = declared
        """True if it counts only for declared tools."""
        self.closers: Final = frozenset(
            (
                *((*call.closers, *call.closing) if call is not None else ()),
                *(section.closers if section is not None else ()),
            )
        )
        """Literals that close what begins here."""
        self.trigger: Final = _trigger(self.steps)
        """The literal to search for."""
        self.control: Final = is_control_token(self.trigger)
        """True if it starts with a control token."""
        first = next((step for step in self.steps if step.kind != SPACE), None)
        self.marked: Final = (
            first is not None and first.kind == LITERAL and PUNCTUATION.search(first.text) is not None
        )
        """True if it starts with a literal that prose does not contain."""
        self.may_follow: Final = _may_follow(self.steps)
        """ASCII characters that may follow the trigger; None: any."""
        self.has_call_opener: Final = (call is not None and bool(call.opener)) or (
            section is not None and bool(section.opener)
        )
        """True if a literal opens the call or the section."""
        self.demands: Final = sum(len(step.text) for step in self.steps if step.kind == LITERAL)
        """Number of characters in its literals.  A program that demands more is tried first."""
        self.free_name: Final = any(
            step.unmarked or (step.kind == CAPTURE and step.text == "name") for step in self.steps
        )
        """True if any text may be taken for a name, because no markup says that it is one."""

    def fits(self, at_start: bool, quoted: bool) -> bool:
        """Return whether the program may begin at a place.

        :param at_start: no visible text came before.
        :param quoted: a quotation mark stands in front of it.
        """
        if self.anchored and not at_start:
            return False
        return not quoted or self.action not in (OPEN_WRAPPER, EMPTY_SECTION)


def _trigger(steps: list[Step]) -> str:
    """Return the text to search for: the first that the steps demand."""
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
