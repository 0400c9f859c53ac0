"""Parser states outside calls, each with its markers and the markup that each marker may begin.

A state consists of a channel (content, reasoning, or none) and a table with an ``Entry`` for each literal
that has a meaning in this state.  ``compile_dialect`` creates the states; the machine only reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ...dialects._control_token_pattern import is_control_token
from ..scan.markers import MarkerSet
from ..scan.short_text_cache_limits import has_room
from .match_program_types import ASCII, CALL, DROP, EMPTY_SECTION, FRAME, OPEN_WRAPPER, Program
from .matcher import Matcher

if TYPE_CHECKING:
    from ...events import Channel
    from .split_templates import Wrapper

_WORDS: Final = re.compile(r"[\w\s'.,:]+")
# Order in which to try programs: calls, empty sections, headers, wrappers, then everything else.
_ACTION_ORDER: Final = {CALL: 0, EMPTY_SECTION: 1, FRAME: 2, OPEN_WRAPPER: 3}


class Entry:
    """All meanings of one literal in one state."""

    __slots__ = (
        "_quick_matches",
        "anchored",
        "closers",
        "closes",
        "ends_reasoning",
        "has_slips",
        "is_control",
        "is_words",
        "literal",
        "mid_line_programs",
        "only_at_start",
        "programs",
        "reasoning_closers",
        "starts_with_dropped",
        "stray",
    )

    def __init__(
        self, literal: str, programs: list[Program], *, closes: bool, ends_reasoning: bool, stray: str
    ) -> None:
        self.literal: Final = literal
        self.programs: Final = programs
        """Programs to try at this literal, in order."""
        self.closes: Final = closes
        """True if the literal closes the open wrapper or message body."""
        self.ends_reasoning: Final = ends_reasoning
        """True if the literal ends reasoning that was not closed."""
        self.stray: Final = stray
        """Element that the literal closes: ``reasoning``, ``text`` or ``call``; empty if there is none."""
        self.starts_with_dropped: Final = bool(stray) and all(
            program.action == DROP and program.trigger != literal for program in programs
        )
        """True for a closing marker whose programs all drop a shorter marker at its beginning."""
        self.anchored: Final = any(program.anchored for program in programs)
        """True if some of the programs are tried only before the first visible text."""
        self.has_slips: Final = any(program.slip for program in programs)
        """True if some of the programs tolerate an error in the markup."""
        self.closers: Final = frozenset[str]().union(*(program.closers for program in programs))
        """Literals that close the calls and sections that the programs begin."""
        # Prose may mention a marker such as `<think>` in the middle of a line.  The marker therefore opens
        # reasoning only at the start of a line.  Control tokens are an exception, because they do not occur
        # in prose.
        wrappers = [
            program.wrapper
            for program in programs
            if program.wrapper is not None
            and program.wrapper.channel == "reasoning"
            and not program.wrapper.in_mid_line
            and not is_control_token(literal)
        ]
        self.mid_line_programs: Final = [program for program in programs if program.wrapper not in wrappers]
        """Programs to try in the middle of a line."""
        self.reasoning_closers: Final = frozenset[str]().union(*(wrapper.closers for wrapper in wrappers))
        """Closing reasoning markers whose opening markers are ignored in the middle of a line."""
        self._quick_matches: Final[dict[str, int]] = {}
        self.is_control: Final = is_control_token(literal)
        self.only_at_start: Final = not (self.is_control or closes or stray) and all(
            program.anchored for program in programs
        )
        """True if the literal is an ordinary word that is a marker only before the first visible text."""
        self.is_words: Final = _WORDS.fullmatch(literal) is not None
        """True if the literal consists only of words and punctuation, as prose does."""

    def quick_match(self, ahead: str, unescape: bool) -> int:
        """Return the answer of a matcher for input that begins with the literal and the characters ``ahead``.

        An answer other than ``NEED_MORE`` is the same for every continuation of the input (see
        ``matcher.py``), so it can be cached.  Each marker in prose then costs only one look-up.  With a
        matcher for each marker, prose full of markers takes 2.7 times as long (``benchmarks/shortcuts.py``).
        """
        answer = self._quick_matches.get(ahead)
        if answer is None:
            answer = Matcher(self.programs, unescape).run(self.literal + ahead, 0, False)
            if has_room(len(self._quick_matches), ahead):
                self._quick_matches[ahead] = answer
        return answer


class TextState:
    """State outside calls: a channel, and a table of the literals that have a meaning."""

    __slots__ = ("body", "channel", "entries", "fresh", "markers", "wrapper")

    def __init__(
        self,
        channel: Channel | None,
        programs: Iterable[Program],
        *,
        closers: Iterable[str] = (),
        reasoning_ends: Iterable[str] = (),
        stray: dict[str, str] | None = None,
        wrapper: Wrapper | None = None,
        fresh: bool = False,
        body: bool = False,
    ) -> None:
        """Create the table of literals.

        :param programs: programs for everything that may begin in this state.
        :param closers: literals that close the wrapper or message body.
        :param reasoning_ends: literals that end reasoning that was not closed.
        :param stray: map from each closing marker that may occur without an opening marker to the kind of
            element that it closes.
        """
        self.channel: Final[Channel | None] = channel
        """Channel of the text; None if the text is dropped."""
        self.wrapper: Final = wrapper
        """Wrapper that is open in this state, or None."""
        self.fresh: Final = fresh
        """True if there is no visible text yet.  Only then are anchored programs tried."""
        self.body: Final = body
        """True if this is the state inside the body of a message with a header."""
        by_trigger: dict[str, list[Program]] = {}
        for program in sorted(programs, key=_order):
            by_trigger.setdefault(program.trigger, []).append(program)
        closing = frozenset(closers)
        ending = frozenset(reasoning_ends)
        strays = {literal: what for literal, what in (stray or {}).items() if literal not in closing}
        found = set(by_trigger).union(closing, ending, strays)
        # A literal also triggers the programs of its own prefixes: `<|im_end|>` also triggers those of `<`.
        self.entries: Final = {
            literal: Entry(
                literal,
                [
                    program
                    for end in range(len(literal), 0, -1)
                    for program in by_trigger.get(literal[:end], ())
                ],
                closes=literal in closing,
                ends_reasoning=literal in ending,
                stray=strays.get(literal, ""),
            )
            for literal in found
        }
        single = {literal: self._ruled_out_by(literal) for literal in found if len(literal) == 1}
        self.markers: Final = MarkerSet(found, {literal: chars for literal, chars in single.items() if chars})

    def _ruled_out_by(self, literal: str) -> str:
        """Return the ASCII characters that must not follow a literal of one character."""
        entry = self.entries[literal]
        if entry.closes or entry.stray:
            return ""
        possible: set[str] = set()
        for program in entry.programs:
            # If a program fails, its closing markers become text.  A program whose closing markers have a
            # meaning in this state must therefore always be tried, so no character rules the literal out.
            if program.may_follow is None or not program.closers.isdisjoint(self.entries):
                return ""
            possible |= program.may_follow
        return "".join(character for character in ASCII if character not in possible)


class StartState:
    """Saved state of a machine that has read the end of a prompt and has found no call in it."""

    __slots__ = (
        "has_visible_text",
        "last_character",
        "pending",
        "reasoning_closed",
        "reasoning_just_closed",
        "state",
    )

    def __init__(
        self,
        state: TextState,
        *,
        has_visible_text: bool = False,
        last_character: str = "",
        pending: str = "",
        reasoning_just_closed: bool = False,
        reasoning_closed: bool = False,
    ) -> None:
        self.state: Final = state
        self.has_visible_text: Final = has_visible_text
        self.last_character: Final = last_character
        """Last character of the prompt, if the prompt ends with text and not with markup."""
        self.pending: Final = pending
        """Text at the end of the prompt whose meaning is undecided, such as the beginning of a marker."""
        self.reasoning_just_closed: Final = reasoning_just_closed
        """True if the prompt ends with a closing reasoning marker."""
        self.reasoning_closed: Final = reasoning_closed
        """True if reasoning was closed anywhere in the prompt, or cannot occur."""


def _order(program: Program) -> tuple[int, int, bool, int, int]:
    """Return a sort key: the length of the trigger, then the kind, then the total length of the literals.

    Programs that tolerate an error come after all others of their kind.
    """
    return (
        -len(program.trigger),
        _ACTION_ORDER.get(program.action, 4),
        bool(program.slip),
        program.call.rank if program.call is not None else 0,
        -program.demands,
    )
