"""States of the text: which literals mean something in each, and what they may begin.

A state is where text goes (content, reasoning, nowhere) and a table of entries,
one for each literal that counts there.  The machine only looks things up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ...dialects._control_tokens import is_control_token
from ..scan.cache import has_room
from ..scan.markers import MarkerSet
from . import programs as t
from .matcher import Matcher
from .programs import ASCII, Program

if TYPE_CHECKING:
    from ...events import Channel
    from .forms import Wrapper

_WORDS: Final = re.compile(r"[\w\s'.,:]+")
_KINDS: Final = {t.CALL: 0, t.EMPTY_SECTION: 1, t.FRAME: 2, t.OPEN_WRAPPER: 3}


class Entry:
    """What a literal may be in some state of the text."""

    __slots__ = (
        "_sights",
        "anchored",
        "closers",
        "closes",
        "control",
        "ends",
        "furnished",
        "literal",
        "midway",
        "only_first",
        "programs",
        "stray",
        "thought_closers",
        "words",
    )

    def __init__(self, literal: str, programs: list[Program], closes: bool, ends: bool, stray: str) -> None:
        self.literal: Final = literal
        self.programs: Final = programs
        """What may begin here, in the order to try."""
        self.closes: Final = closes
        """It closes the wrapper or body that is open."""
        self.ends: Final = ends
        """It belongs to what follows the wrapper that is open, which was not closed."""
        self.stray: Final = stray
        """What it closes without having been opened: ``reasoning``, ``text``, ``call`` or nothing."""
        self.furnished: Final = bool(stray) and all(
            program.action == t.DROP and program.trigger != literal for program in programs
        )
        """It begins with furniture, if with anything, which goes with it."""
        self.anchored: Final = any(program.anchored for program in programs)
        """Some of the programs begin only where no visible text came before."""
        self.closers: Final = frozenset[str]().union(*(program.closers for program in programs))
        """What closes what the programs begin."""
        thoughts = [
            program.wrapper
            for program in programs
            if program.wrapper is not None
            and program.wrapper.channel == "reasoning"
            and not program.wrapper.anywhere
        ]
        if is_control_token(literal):
            thoughts = []  # nobody writes about it so
        self.midway: Final = [program for program in programs if program.wrapper not in thoughts]
        """What may begin here in the middle of a line, where reasoning is only written about."""
        self.thought_closers: Final = frozenset[str]().union(*(wrapper.closers for wrapper in thoughts))
        """What closes the reasoning that may not begin there."""
        self._sights: Final[dict[str, int]] = {}
        self.control: Final = is_control_token(literal)
        self.only_first: Final = not (self.control or closes or stray) and all(
            program.anchored for program in programs
        )
        """It is an ordinary text that means something only where no visible text came before."""
        self.words: Final = _WORDS.fullmatch(literal) is not None

    def first_sight(self, ahead: str, unescape: bool) -> int:
        """What a trial says if so little stands behind the literal.

        By the monotone law a refusal holds for whatever follows, so it is found out once: prose
        that is full of markers costs a look into a table for each of them instead of a trial, which
        takes 2.7 times as long (``benchmarks/shortcuts.py``).
        """
        known = self._sights.get(ahead)
        if known is None:
            known = Matcher(self.programs, unescape).run(self.literal + ahead, 0, False)
            if has_room(len(self._sights), ahead):
                self._sights[ahead] = known
        return known


class TextState:
    """A state of the text: where text goes, and what is looked for in it."""

    __slots__ = ("body", "channel", "entries", "fresh", "watch", "wrapper")

    def __init__(
        self,
        channel: Channel | None,
        programs: Iterable[Program],
        *,
        closers: Iterable[str] = (),
        ends: Iterable[str] = (),
        stray: dict[str, str] | None = None,
        wrapper: Wrapper | None = None,
        fresh: bool = False,
        body: bool = False,
    ) -> None:
        self.channel: Final[Channel | None] = channel
        """Where text goes; None: nowhere."""
        self.wrapper: Final = wrapper
        self.fresh: Final = fresh
        """No visible text has come yet, so anchored sections may begin."""
        self.body: Final = body
        """The body of a framed message."""
        ordered = sorted(programs, key=_order)
        triggered: dict[str, list[Program]] = {}
        for program in ordered:
            triggered.setdefault(program.trigger, []).append(program)
        closing = frozenset(closers)
        ending = frozenset(ends)
        strays = {literal: what for literal, what in (stray or {}).items() if literal not in closing}
        found = set(triggered).union(closing, ending, strays)
        self.entries: Final = {
            literal: Entry(
                literal,
                [
                    program
                    for end in range(len(literal), 0, -1)
                    for program in triggered.get(literal[:end], ())
                ],
                literal in closing,
                literal in ending,
                strays.get(literal, ""),
            )
            for literal in found
        }
        lone = {literal: self._unless(literal) for literal in found if len(literal) == 1}
        self.watch: Final = MarkerSet(found, {literal: others for literal, others in lone.items() if others})

    def _unless(self, literal: str) -> str:
        """The ASCII characters behind a literal with which it means nothing at all."""
        entry = self.entries[literal]
        if entry.closes or entry.stray:
            return ""
        possible: set[str] = set()
        for program in entry.programs:
            # What closes it would be text, too, without it.
            if program.may_follow is None or not program.closers.isdisjoint(self.entries):
                return ""
            possible |= program.may_follow
        return "".join(character for character in ASCII if character not in possible)


def _order(program: Program) -> tuple[int, int, int, int]:
    """Longer triggers first; calls before wrappers before furniture; what demands more first."""
    return (
        -len(program.trigger),
        _KINDS.get(program.action, 4),
        program.call.rank if program.call is not None else 0,
        -program.demands,
    )
