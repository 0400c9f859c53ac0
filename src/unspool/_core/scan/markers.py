"""Marker search: where one of some literals begins, or could.

The complexity argument of the whole library starts here.  One scan at the
speed of ``str.find`` skips everything that cannot begin a marker; only the
places that can are looked at, and each is looked at once: a text is held back
only while it is a proper prefix of a literal, so a held tail is never longer
than the longest literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from os.path import commonprefix
from typing import Final

from ..mypyc_types import i64
from .cache import MANY, has_room
from .runs import (
    ASCII,
    COMPILED,
    MUST_BE_ESCAPED,
    SHORT,
    escaped,
    flags_of,
    run_over,
)

_NO_MATTER_WHAT: Final[Mapping[str, str]] = {}


class MarkerSet:
    """A set of literals to look for."""

    __slots__ = (
        "_by_first",
        "_common",
        "_common_at",
        "_first_flags",
        "_group_of",
        "_groups",
        "_next",
        "_reaches",
        "_telling",
        "_unless",
        "full",
        "literals",
        "longest",
        "prefixes",
        "sign",
    )

    def __init__(self, literals: Iterable[str], unless: Mapping[str, str] = _NO_MATTER_WHAT) -> None:
        """``unless``: of literals that are one character, the ASCII characters behind it that rule it out."""
        found = sorted(set(literals), key=len, reverse=True)
        self.literals: Final = tuple(found)
        """The literals, the longest first."""
        self.longest: Final[int] = len(found[0]) if found else 0
        """Length of the longest literal."""
        self.prefixes: Final[frozenset[str]] = frozenset(
            literal[:i] for literal in found for i in range(1, len(literal))
        ).union(unless)
        """Every text that may still become a literal, or a longer one, or be ruled out."""
        whole = (re.escape(literal) + _unless(literal, unless) for literal in found)
        self.full: Final = re.compile("|".join(whole) or "(?!)")
        """Matches a whole literal, the longest at its place."""
        self._by_first: Final[dict[str, list[str]]] = {}
        for literal in found:
            self._by_first.setdefault(literal[0], []).append(literal)
        self.sign: Final[str] = next(iter(self._by_first)) if len(self._by_first) == 1 else ""
        """The character that all literals begin with, if there is one."""
        self._reaches: Final[dict[str, int]] = {}
        # A character that stands in every literal, as early as possible, and where it does at the latest.
        in_all = set(found[0]).intersection(*found) if found else set()
        latest = [(max(literal.index(char) for literal in found), char) for char in in_all]
        self._common_at, self._common = min(latest, default=(0, ""))
        self._unless: Final = unless
        self._next: re.Pattern[str] | None = None
        self._first_flags: Final = flags_of(self._by_first)
        # Where literals differ first: mostly in their second character, but many begin with the same two.
        shortest = len(found[-1]) if found else 0
        self._telling: Final = max(1, min(len(_common_beginning(found)), shortest - 1))
        self._groups, self._group_of = _grouped(found, self._telling, unless) if COMPILED else ([], b"")

    def reach(self, text: str) -> i64:
        """How much of the text is sure to be no part of a literal; -1: a whole one stands in it.

        That follows from the text alone, and models write tokens: the same few texts come
        again and again, so what was found out about short ones is remembered.  That saves up to
        a third where markers begin in several ways (``benchmarks/shortcuts.py``).
        """
        if COMPILED and len(text) <= SHORT and self._candidate(text, 0) < 0:  # a third of a look-up
            return len(text)
        reach = self._reaches.get(text)
        if reach is None:
            at, literal = self.seek(text, 0, False)
            reach = -1 if literal else len(text) if at < 0 else at
            if has_room(len(self._reaches), text, MANY):
                self._reaches[text] = reach
        return reach

    def seek(self, text: str, at: int, final: bool) -> tuple[int, str]:
        """The next place, at or behind ``at``, that matters, and the literal that stands there.

        Nothing stands there if the text ends in what may still become a
        literal, or a longer one; a final text does not.  -1: there is no such place.
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
        """The literal that stands at this place and is not ruled out, the longest; or nothing."""
        if not COMPILED:
            match = self.full.match(text, at)
            return match.group() if match is not None else ""
        if at < len(text):
            for literal in self._possible(text, at):
                if agreement(literal, text, at) == len(literal):
                    return literal
        return ""

    def pending(self, text: str, at: int) -> bool:
        """Whether the rest of the text can still become a literal, or a longer one, or be ruled out."""
        return len(text) - at <= self.longest and text[at:] in self.prefixes

    def _possible(self, text: str, at: int) -> list[str]:
        """The literals that may stand at this place, by the character that tells them apart if it is there.

        For the compiled build.
        """
        place = at + self._telling
        if place < len(text):
            return self._groups[self._group_of[min(ord(text[place]), ASCII)]]
        return self._by_first.get(text[at], _NONE)

    def _compile_next(self) -> re.Pattern[str]:
        """A pattern for a literal, or what may still become one; only a literal has a group."""
        # Not before it is needed: many literals are never searched for.
        parts = []
        for first, literals in self._by_first.items():
            rests = [literal[1:] for literal in literals]
            excluded = _unless(first, self._unless)
            parts.append(re.escape(first) + _rest_pattern(rests, excluded))
        self._next = re.compile("|".join(parts) or "(?!)")
        return self._next

    def _find(self, text: str, at: int) -> int:
        """Where a literal may begin, at or behind ``at``; -1 if nowhere.  For the compiled build."""
        if len(text) - at <= SHORT:
            return self._candidate(text, at)
        if self.sign:
            return self._signed(text, at)
        match = (self._next or self._compile_next()).search(text, at)
        return -1 if match is None else match.start()

    def _signed(self, text: str, at: int) -> int:
        """The same for long texts, where all literals begin with one character: mostly it is rare."""
        while True:
            at = text.find(self.sign, at)
            place = at + self._telling
            if at < 0 or place >= len(text) or self._group_of[min(ord(text[place]), ASCII)]:
                return at
            at += 1

    def _candidate(self, text: str, at: i64) -> i64:
        """The same as a loop, for short texts."""
        n: i64 = len(text)
        telling: i64 = self._telling
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
        """``seek`` as a loop, for the compiled build."""
        n = len(text)
        while True:
            at = self._find(text, at)
            if at < 0:
                return -1, ""
            if not final and at + self._telling >= n and text[at:] in self.prefixes:
                return at, ""
            for literal in self._possible(text, at):
                size = agreement(literal, text, at)
                if size == len(literal):
                    return at, literal
                if at + size == n and not final:
                    return at, ""
            at += 1


class Piece:
    """As much of a text as belongs to a value for certain."""

    __slots__ = ("json", "length")

    def __init__(self, text: str) -> None:
        self.length: Final = len(text)
        self.json: Final = escaped(text)
        """The same inside a JSON string."""


class ValueMarkerSet(MarkerSet):
    """The same for text that is to become a JSON string."""

    __slots__ = ("_pieces", "_special", "_special_flags")

    def __init__(self, literals: Iterable[str]) -> None:
        super().__init__(literals)
        special = "".join(self._by_first) + MUST_BE_ESCAPED
        # The first character that may begin a literal, or has to be escaped.
        self._special: Final = re.compile(f"[{re.escape(special)}]").search
        self._special_flags: Final = flags_of(special)
        self._pieces: Final[dict[str, Piece]] = {}

    def piece(self, text: str) -> Piece | None:
        """As much of the text as cannot begin a literal; None if one stands in it.

        Remembered as well, which saves a fifth of a long value between tags.
        """
        known = self._pieces.get(text)
        if known is None:
            at, literal = self.seek(text, 0, False)
            if literal:
                return None
            known = Piece(text if at < 0 else text[:at])
            if has_room(len(self._pieces), text, MANY):
                self._pieces[text] = known
        return known

    def verbatim(self, text: str) -> bool:
        """Whether at a glance no literal can begin in the text, and nothing in it has to be escaped."""
        if not COMPILED or len(text) > SHORT:
            return self._special(text) is None
        return run_over(text, 0, self._special_flags) == len(text)


_NONE: Final[list[str]] = []


def agreement(literal: str, text: str, start: int) -> int:
    """How much of a literal stands at this place."""
    at: i64 = start
    size: i64 = len(literal)
    rest: i64 = len(text) - at
    size = min(size, rest)
    k: i64 = 0
    while k < size and ord(literal[k]) == ord(text[at + k]):
        k += 1
    return k


def _grouped(literals: list[str], place: int, unless: Mapping[str, str]) -> tuple[list[list[str]], bytes]:
    """The literals in groups, and by the code of the character at this place the group that it leads to.

    The first group is empty; the last code stands for all beyond ASCII.
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
    """Whether this character may stand at this place of the literal, or behind one that is shorter."""
    if len(literal) > place:
        return min(ord(literal[place]), ASCII) == code
    return code == ASCII or chr(code) not in unless.get(literal, "")


def _rest_pattern(rests: list[str], excluded: str = "") -> str:
    """A pattern for one of these, the longest, and a group; or for a part of one that the text ends with.

    ``excluded``: what must not stand behind an empty one, which therefore waits for more.
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
    """A pattern for as much of a text as there is, or nothing."""
    if len(text) < 2:
        return text and re.escape(text) + "?+"
    half, rest = text[: len(text) // 2], text[len(text) // 2 :]
    return f"(?>{re.escape(half)}{beginning_of(rest)}|{beginning_of(half)})"


def _common_beginning(texts: list[str]) -> str:
    return commonprefix(texts)  # noqa: RUF071 - not of paths


def _unless(literal: str, unless: Mapping[str, str]) -> str:
    """A pattern for what must not stand behind a literal."""
    return f"(?![{re.escape(unless[literal])}])" if literal in unless else ""
