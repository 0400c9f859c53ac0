"""Programs: what must stand at a marker for something to begin there.

A program is a sequence of steps from a trigger, the literal that is searched for,
to a commit point: this literal, white space, a name, this literal, an opening
brace.  Steps and programs are data; ``Matcher`` runs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from ...dialects._control_tokens import is_control_token
from ..scan.markers import MarkerSet
from ..scan.runs import Alphabet
from .codec import NamedPayload

if TYPE_CHECKING:
    from .forms import CallForm, SectionForm, Wrapper

# Kinds of step.
LITERAL: Final = 0
SPACE: Final = 1
CAPTURE: Final = 2
ATTRIBUTES: Final = 3
REPEAT: Final = 4
PEEK: Final = 5
ENVELOPE: Final = 6
END: Final = 7
HEADER: Final = 8
FOLLOWED: Final = 9
LINE_FEED: Final = 10
UNLESS: Final = 11

# What a matched program begins.
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
SIGN: Final = re.compile(r"[^\w\s]")
"""What markers have and words have not."""
_WORD: Final = Alphabet(r"[^\s<>\"|｜\ud800-\udfff]*")


Embed: TypeAlias = Callable[[str, bool], NamedPayload]
"""Makes the codec of an envelope in some notation; True: nothing around it says that it is a call."""


class Step:
    """One thing to match; what the slots mean depends on the kind."""

    __slots__ = ("alphabet", "embed", "fields", "kind", "stop", "text", "unmarked", "watch")

    def __init__(
        self,
        kind: int,
        text: str = "",
        *,
        fields: dict[str, str] | None = None,
        stop: str = "",
        watch: MarkerSet | None = None,
        embed: Embed | None = None,
        unmarked: bool = False,
    ) -> None:
        self.kind: Final = kind
        self.text: Final = text
        """The literal, the field's name, the characters to peek for; the control token before a header;
        the notation of an envelope; how a line break among white space may be spelt out."""
        self.fields: Final = fields or {}
        """Attributes: name -> field."""
        self.stop: Final = stop
        """Capture: a literal that ends it, though it could belong to it.  Header: its separator."""
        self.watch: Final = watch or _NO_WATCH
        """Header: what ends it.  Followed: what may come next.  Unless: what may not."""
        self.embed: Final = embed
        """Envelope: what makes a codec for it."""
        self.unmarked: Final = unmarked
        """Envelope: nothing around it says that it is a call."""
        self.alphabet: Final = _ALPHABETS.get(text, _WORD)
        """Capture: what it is spelt in."""


_NO_WATCH: Final = MarkerSet(())


class Program:
    """Steps from a trigger to a commit point, and what begins there."""

    __slots__ = (
        "action",
        "anchored",
        "call",
        "closers",
        "control",
        "declared",
        "demands",
        "free_name",
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
        self.steps: Final = [
            step for i, step in enumerate(steps) if not i or step.kind != SPACE or steps[i - 1].kind != SPACE
        ]
        self.call: Final = call
        self.section: Final = section
        self.wrapper: Final = wrapper
        self.anchored: Final = anchored
        """Only where no visible text came before."""
        self.declared: Final = declared
        """Only for declared tools."""
        self.closers: Final = frozenset(
            (
                *((*call.closers, *call.closing) if call is not None else ()),
                *(section.closers if section is not None else ()),
            )
        )
        """What closes what it begins."""
        self.trigger: Final = _trigger(self.steps)
        """The literal to search for."""
        self.control: Final = is_control_token(self.trigger)
        """It begins with a control token."""
        first = next((step for step in self.steps if step.kind != SPACE), None)
        self.marked: Final = (
            first is not None and first.kind == LITERAL and SIGN.search(first.text) is not None
        )
        """It begins with what prose does not."""
        self.may_follow: Final = _may_follow(self.steps)
        """The ASCII characters that may stand behind the trigger; None: any."""
        self.demands: Final = sum(len(step.text) for step in self.steps if step.kind == LITERAL)
        """How much literal text it takes."""
        self.free_name: Final = any(
            step.unmarked or (step.kind == CAPTURE and step.text == "name") for step in self.steps
        )
        """Nothing but its own characters says that a name is one."""

    def suits(self, fresh: bool, quoted: bool) -> bool:
        """Whether it may begin where no visible text came before, or behind a quotation mark."""
        if self.anchored and not fresh:
            return False
        return not quoted or self.action not in (OPEN_WRAPPER, EMPTY_SECTION)


def _trigger(steps: list[Step]) -> str:
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
    if not steps or steps[0].kind != LITERAL:
        return None
    found: set[str] = set()
    for step in steps[1:]:
        if step.kind == SPACE:
            found.update(" \t\r\n")
        elif step.kind == LITERAL:
            return frozenset(found.union(step.text[0]))
        elif step.kind == CAPTURE and step.alphabet.pattern.match("") is None:
            return frozenset(found.union(filter(step.alphabet.pattern.match, ASCII)))
        elif step.kind == ENVELOPE:
            return frozenset(found.union(" \t\r\n{"))
        else:
            break
    return None


ASCII: Final = "".join(map(chr, range(128)))
