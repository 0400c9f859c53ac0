"""Search for markers: the positions at which one of several literals starts or may start.

Thanks to this search, the time for a whole output grows linearly.  A scan at the speed of ``str.find`` skips
all text in which no marker can start.  Each remaining position is examined once.  Text is held back only
while it is a proper prefix of a literal, or while the next character could rule a literal out.  The number of
characters held back is therefore at most the length of the longest literal.

The interpreted build uses one regular expression for all literals.  The compiled build uses loops, and
distinguishes literals with a common beginning by the character at one index (``_split_index``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from os.path import commonprefix
from typing import Final

from ..mypyc_types import i64
from .character_runs import (
    ASCII,
    COMPILED,
    MUST_BE_ESCAPED,
    SHORT,
    escaped,
    flags_of,
    run_over,
)
from .short_text_cache_limits import MANY, has_room

_NO_MATTER_WHAT: Final[Mapping[str, str]] = {}


class MarkerSet:
    """Set of literals to search for."""

    __slots__ = (
        "_by_first",
        "_common",
        "_common_at",
        "_first_flags",
        "_group_of",
        "_groups",
        "_next",
        "_reaches",
        "_split_index",
        "_unless",
        "first_character",
        "full",
        "literals",
        "longest",
        "prefixes",
    )

    def __init__(self, literals: Iterable[str], unless: Mapping[str, str] = _NO_MATTER_WHAT) -> None:
        """Compile the set.

        :param unless: for literals of one character, the ASCII characters that must not follow the literal.
        """
        found = sorted(set(literals), key=len, reverse=True)
        self.literals: Final = tuple(found)
        """All literals, the longest first."""
        self.longest: Final[int] = len(found[0]) if found else 0
        """Length of the longest literal."""
        self.prefixes: Final[frozenset[str]] = frozenset(
            literal[:i] for literal in found for i in range(1, len(literal))
        ).union(unless)
        """Strings that more input may turn into a literal, or into a longer literal."""
        whole = (re.escape(literal) + _unless(literal, unless) for literal in found)
        self.full: Final = re.compile("|".join(whole) or "(?!)")
        """Pattern that matches the longest complete literal."""
        self._by_first: Final[dict[str, list[str]]] = {}
        for literal in found:
            self._by_first.setdefault(literal[0], []).append(literal)
        self.first_character: Final[str] = next(iter(self._by_first)) if len(self._by_first) == 1 else ""
        """Character that all literals start with; empty if they differ."""
        self._reaches: Final[dict[str, int]] = {}
        # A character that all literals contain, and the maximum of its first index over the literals.  If
        # there are several such characters, the one with the smallest maximum is used.
        in_all = set(found[0]).intersection(*found) if found else set()
        latest = [(max(literal.index(char) for literal in found), char) for char in in_all]
        self._common_at, self._common = min(latest, default=(0, ""))
        self._unless: Final = unless
        self._next: re.Pattern[str] | None = None
        self._first_flags: Final = flags_of(self._by_first)
        # The first index at which the literals differ: usually 1, but some sets of literals start with the
        # same two characters.
        shortest = len(found[-1]) if found else 0
        self._split_index: Final = max(1, min(len(_common_beginning(found)), shortest - 1))
        self._groups, self._group_of = _grouped(found, self._split_index, unless) if COMPILED else ([], b"")

    def reach(self, text: str) -> i64:
        """Return the number of characters at the start of the text that are certainly not part of a literal.

        Return -1 if the text contains a complete literal.  Results for short strings are cached, which saves
        up to a third of the time if the markers start with different characters
        (``benchmarks/shortcuts.py``).
        """
        if (
            COMPILED and len(text) <= SHORT and self._candidate(text, 0) < 0
        ):  # three times as fast as a look-up in the cache
            return len(text)
        reach = self._reaches.get(text)
        if reach is None:
            at, literal = self.seek(text, 0, False)
            reach = -1 if literal else len(text) if at < 0 else at
            if has_room(len(self._reaches), text, MANY):
                self._reaches[text] = reach
        return reach

    def seek(self, text: str, at: int, final: bool) -> tuple[int, str]:
        """Return the index of the next literal from ``at`` on, and the literal.

        If the text ends with the beginning of a literal, or with a literal that may still become a longer
        one, return the index of this end and an empty string.  If the text is final, only complete literals
        are found.  The index is -1 if nothing is found.
        """
        if self._common and len(text) - at > SHORT:
            found = text.find(self._common, at)
            at = max(at, (found if found >= 0 else len(text)) - self._common_at)
        if COMPILED:
            return self._seek(text, at, final)
        match = (self.full if final else self._next or self._compile_next()).search(text, at)
        if match is None:
            return -1, ""
        return match.start(), (match.group() if final or match.lastindex else "")

    def literal_at(self, text: str, at: int) -> str:
        """Return the longest literal at ``at`` that the next character allows, or an empty string."""
        if not COMPILED:
            match = self.full.match(text, at)
            return match.group() if match is not None else ""
        if at < len(text):
            for literal in self._possible(text, at):
                if agreement(literal, text, at) == len(literal):
                    return literal
        return ""

    def pending(self, text: str, at: int) -> bool:
        """Return whether the rest of the text is one of ``prefixes``.  If so, more input is needed."""
        return len(text) - at <= self.longest and text[at:] in self.prefixes

    def _possible(self, text: str, at: int) -> list[str]:
        """Return the literals that are possible at ``at``, given the character at index ``_split_index``.

        Only the compiled build uses this method.
        """
        place = at + self._split_index
        if place < len(text):
            return self._groups[self._group_of[min(ord(text[place]), ASCII)]]
        return self._by_first.get(text[at], _NONE)

    def _compile_next(self) -> re.Pattern[str]:
        """Compile a pattern that matches a literal, or the beginning of one at the end of the text."""
        # Only a complete literal sets a group.  The pattern is compiled on first use, because many sets are
        # never used in a search.
        parts = []
        for first, literals in self._by_first.items():
            rests = [literal[1:] for literal in literals]
            excluded = _unless(first, self._unless)
            parts.append(re.escape(first) + _rest_pattern(rests, excluded))
        self._next = re.compile("|".join(parts) or "(?!)")
        return self._next

    def _find(self, text: str, at: int) -> int:
        """Return the next index at which a literal may start, or -1; used only by the compiled build."""
        if len(text) - at <= SHORT:
            return self._candidate(text, at)
        if self.first_character:
            return self._find_by_first_character(text, at)
        match = (self._next or self._compile_next()).search(text, at)
        return -1 if match is None else match.start()

    def _find_by_first_character(self, text: str, at: int) -> int:
        """Search a long text if all literals start with the same character, which is usually rare."""
        while True:
            at = text.find(self.first_character, at)
            place = at + self._split_index
            if at < 0 or place >= len(text) or self._group_of[min(ord(text[place]), ASCII)]:
                return at
            at += 1

    def _candidate(self, text: str, at: i64) -> i64:
        """Search a short text with a loop over its characters."""
        n: i64 = len(text)
        telling: i64 = self._split_index
        while True:
            at = run_over(text, at, self._first_flags)
            if at == n:
                return -1
            if at + telling >= n:
                return at
            code: i64 = ord(text[at + telling])
            if self._group_of[min(code, ASCII)]:
                return at
            at += 1

    def _seek(self, text: str, at: int, final: bool) -> tuple[int, str]:
        """Implement ``seek`` for the compiled build, with a loop."""
        n = len(text)
        while True:
            at = self._find(text, at)
            if at < 0:
                return -1, ""
            if not final and at + self._split_index >= n and text[at:] in self.prefixes:
                return at, ""
            for literal in self._possible(text, at):
                size = agreement(literal, text, at)
                if size == len(literal):
                    return at, literal
                if at + size == n and not final:
                    return at, ""
            at += 1


class ValuePiece:
    """Text that is certainly part of a value."""

    __slots__ = ("json", "length")

    def __init__(self, text: str) -> None:
        self.length: Final = len(text)
        self.json: Final = escaped(text)
        """Text escaped for a JSON string."""


class ValueMarkerSet(MarkerSet):
    """Set of literals to search for in text that becomes a JSON string."""

    __slots__ = ("_pieces", "_special", "_special_flags")

    def __init__(self, literals: Iterable[str]) -> None:
        super().__init__(literals)
        special = "".join(self._by_first) + MUST_BE_ESCAPED
        # Finds the first character that may start a literal or must be escaped.
        self._special: Final = re.compile(f"[{re.escape(special)}]").search
        self._special_flags: Final = flags_of(special)
        self._pieces: Final[dict[str, ValuePiece]] = {}

    def piece(self, text: str) -> ValuePiece | None:
        """Return the text before the point where a literal may start; None if the text contains a literal.

        Results are cached, which saves a fifth of the time for a long value between tags.
        """
        known = self._pieces.get(text)
        if known is None:
            at, literal = self.seek(text, 0, False)
            if literal:
                return None
            known = ValuePiece(text if at < 0 else text[:at])
            if has_room(len(self._pieces), text, MANY):
                self._pieces[text] = known
        return known

    def verbatim(self, text: str) -> bool:
        """Return whether no literal can start in the text and no character must be escaped in JSON."""
        if not COMPILED or len(text) > SHORT:
            return self._special(text) is None
        return run_over(text, 0, self._special_flags) == len(text)


_NONE: Final[list[str]] = []


def agreement(literal: str, text: str, start: int) -> int:
    """Return the length of the common prefix of a literal and the text at ``start``."""
    at: i64 = start
    size: i64 = len(literal)
    rest: i64 = len(text) - at
    size = min(size, rest)
    k: i64 = 0
    while k < size and ord(literal[k]) == ord(text[at + k]):
        k += 1
    return k


def _grouped(literals: list[str], place: int, unless: Mapping[str, str]) -> tuple[list[list[str]], bytes]:
    """Group literals by the character at index ``place``, for look-ups by character code.

    Return the groups and a table.  The first group is empty.  For each character code, the table contains the
    index of a group; the last entry is for all characters outside ASCII.
    """
    lone = [literal for literal in literals if len(literal) <= place]
    groups: list[list[str]] = [[], lone]
    numbers = bytearray([1 if lone else 0] * (ASCII + 1))
    told_apart = {min(ord(literal[place]), ASCII) for literal in literals if len(literal) > place}
    for code in told_apart.union(map(ord, "".join(unless.values()))):
        group = [literal for literal in literals if _may_have(code, place, literal, unless)]
        if group not in groups:
            groups.append(group)
        numbers[code] = groups.index(group)
    return groups, bytes(numbers)


def _may_have(code: int, place: int, literal: str, unless: Mapping[str, str]) -> bool:
    """Return whether text that has this character at index ``place`` may start with the literal."""
    if len(literal) > place:
        return min(ord(literal[place]), ASCII) == code
    return code == ASCII or chr(code) not in unless.get(literal, "")


def _rest_pattern(rests: list[str], excluded: str = "") -> str:
    """Return a pattern for the longest of these strings, or for the beginning of one at the end of the input.

    Only a complete string sets a group.

    :param excluded: negative look-ahead pattern to put before the match of an empty string in ``rests``.
    """
    branches: dict[str, list[str]] = {}
    for rest in filter(None, rests):
        branches.setdefault(rest[0], []).append(rest)
    ways = []
    for branch in branches.values():
        common = _common_beginning(branch)
        ways.append(re.escape(common) + _rest_pattern([rest[len(common) :] for rest in branch]))
        if len(common) > 1:
            ways.append(rf"{re.escape(common[0])}{beginning_of(common[1:-1])}\Z")
    if branches or excluded:
        ways.append(r"\Z")
    if "" in rests:
        ways.append(f"{excluded}()")
    return f"(?:{'|'.join(ways)})"


def beginning_of(text: str) -> str:
    """Return a pattern that matches as much of the beginning of ``text`` as possible, perhaps nothing."""
    if len(text) < 2:
        return text and re.escape(text) + "?+"
    half, rest = text[: len(text) // 2], text[len(text) // 2 :]
    return f"(?>{re.escape(half)}{beginning_of(rest)}|{beginning_of(half)})"


def _common_beginning(texts: list[str]) -> str:
    return commonprefix(texts)  # noqa: RUF071 - not used for paths


def _unless(literal: str, unless: Mapping[str, str]) -> str:
    """Return a negative look-ahead pattern for the characters that must not follow a literal."""
    return f"(?![{re.escape(unless[literal])}])" if literal in unless else ""
