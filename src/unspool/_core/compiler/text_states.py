"""States of running text: which literals mean something in each, and what they may begin.

A state is a channel (content, reasoning, or none) and a table with an ``Entry`` for each literal that
counts in it.  The machine only looks things up here; what it may find was worked out by
``compile_dialect``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ...dialects._control_tokens import is_control_token
from ..scan.cache_limits import has_room
from ..scan.markers import MarkerSet
from .match_programs import ASCII, CALL, DROP, EMPTY_SECTION, FRAME, OPEN_WRAPPER, Program
from .matcher import Matcher

if TYPE_CHECKING:
    from ...events import Channel
    from .template_forms import Wrapper

_WORDS: Final = re.compile(r"[\w\s'.,:]+")
# Calls before empty sections, headers and wrappers; everything else last.
_ACTION_ORDER: Final = {CALL: 0, EMPTY_SECTION: 1, FRAME: 2, OPEN_WRAPPER: 3}


class Entry:
    """The meanings of one literal in one state."""

    __slots__ = (
        "_quick_matches",
        "anchored",
        "closers",
        "closes",
        "ends_reasoning",
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
        """Programs that may begin here, in the order to try them."""
        self.closes: Final = closes
        """True if the literal closes the open wrapper or message body."""
        self.ends_reasoning: Final = ends_reasoning
        """True if the literal belongs to what follows the reasoning, which was not closed."""
        self.stray: Final = stray
        """Kind of thing that it closes without an opener: ``reasoning``, ``text``, ``call``; or nothing."""
        self.starts_with_dropped: Final = bool(stray) and all(
            program.action == DROP and program.trigger != literal for program in programs
        )
        """True if the literal is a stray closer that merely starts with a marker to drop."""
        self.anchored: Final = any(program.anchored for program in programs)
        """True if some of the programs count only in front of all visible text."""
        self.closers: Final = frozenset[str]().union(*(program.closers for program in programs))
        """Literals that close what the programs begin."""
        # Prose mentions `<think>` in the middle of a line, so only at the start of a line does it open
        # reasoning.  Nobody mentions a control token like that.
        wrappers = [
            program.wrapper
            for program in programs
            if program.wrapper is not None
            and program.wrapper.channel == "reasoning"
            and not program.wrapper.in_mid_line
            and not is_control_token(literal)
        ]
        self.mid_line_programs: Final = [program for program in programs if program.wrapper not in wrappers]
        """Programs that may begin in the middle of a line."""
        self.reasoning_closers: Final = frozenset[str]().union(*(wrapper.closers for wrapper in wrappers))
        """Literals that close the reasoning that may not begin in the middle of a line."""
        self._quick_matches: Final[dict[str, int]] = {}
        self.is_control: Final = is_control_token(literal)
        self.only_at_start: Final = not (self.is_control or closes or stray) and all(
            program.anchored for program in programs
        )
        """True if it is an ordinary text that counts only in front of all visible text."""
        self.is_words: Final = _WORDS.fullmatch(literal) is not None
        """True if it consists of words and punctuation, as prose does."""

    def quick_match(self, ahead: str, unescape: bool) -> int:
        """Return the answer of a matcher that sees the literal and the few characters after it.

        By the monotone law, a rejection holds for every continuation, so it can be cached.  Prose that
        is full of markers then costs one look-up per marker.  With a matcher for each, it takes 2.7
        times as long (``benchmarks/shortcuts.py``).
        """
        answer = self._quick_matches.get(ahead)
        if answer is None:
            answer = Matcher(self.programs, unescape).run(self.literal + ahead, 0, False)
            if has_room(len(self._quick_matches), ahead):
                self._quick_matches[ahead] = answer
        return answer


class TextState:
    """A state of running text: the channel, and the table of its literals."""

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
        """Build the table.

        :param programs: everything that may begin in this state.
        :param closers: literals that close the wrapper or message body.
        :param reasoning_ends: literals that end reasoning which was not closed.
        :param stray: closers that may stand here without an opener, and what they close.
        """
        self.channel: Final[Channel | None] = channel
        """Channel of the text; None: it is dropped."""
        self.wrapper: Final = wrapper
        """The wrapper that is open, if one is."""
        self.fresh: Final = fresh
        """True if no visible text has come yet, so that anchored programs may begin."""
        self.body: Final = body
        """True if it is the body of a framed message."""
        by_trigger: dict[str, list[Program]] = {}
        for program in sorted(programs, key=_order):
            by_trigger.setdefault(program.trigger, []).append(program)
        closing = frozenset(closers)
        ending = frozenset(reasoning_ends)
        strays = {literal: what for literal, what in (stray or {}).items() if literal not in closing}
        found = set(by_trigger).union(closing, ending, strays)
        # A literal also triggers the programs of its own prefixes: where `<|im_end|>` stands, so does `<`.
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
        """Return the ASCII characters after which a literal of one character means nothing."""
        entry = self.entries[literal]
        if entry.closes or entry.stray:
            return ""
        possible: set[str] = set()
        for program in entry.programs:
            # If the program fails, its closers become text.  They must not count here, then.
            if program.may_follow is None or not program.closers.isdisjoint(self.entries):
                return ""
            possible |= program.may_follow
        return "".join(character for character in ASCII if character not in possible)


class StartState:
    """Saved state of a machine that has read a prompt without any call in it."""

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
        """The last character of text, if the prompt ends with text."""
        self.pending: Final = pending
        """The end of the prompt, as far as it is not decided."""
        self.reasoning_just_closed: Final = reasoning_just_closed
        """True if the prompt ends with the end of reasoning."""
        self.reasoning_closed: Final = reasoning_closed
        """True if reasoning is over, wherever it ended."""


def _order(program: Program) -> tuple[int, int, int, int]:
    """Return a sort key: longer triggers first, then calls before markers, then by what is demanded."""
    return (
        -len(program.trigger),
        _ACTION_ORDER.get(program.action, 4),
        program.call.rank if program.call is not None else 0,
        -program.demands,
    )
