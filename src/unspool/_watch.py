"""Marker search: where one of some literals begins, or could.

The complexity argument of the whole library starts here.  One scan at the
speed of ``str.find`` skips everything that cannot begin a marker; only the
places that can are looked at, and each is looked at once: a text is held back
only while it is a proper prefix of a literal, so a held tail is never longer
than the longest literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ._scan import COMPILED

_SHORT: Final = 64
"""In the compiled build a loop reads texts up to this length; a C-level search pays for longer ones only."""
_ASCII: Final = 128


class Watch:
    """A set of literals to look for."""

    __slots__ = (
        "_begun",
        "_by_first",
        "_char",
        "_first",
        "_first_flags",
        "_firsts",
        "_second_flags",
        "full",
        "literals",
        "longest",
        "prefixes",
    )

    def __init__(self, literals: Iterable[str]) -> None:
        found = sorted(set(literals), key=len, reverse=True)
        self.literals: Final = tuple(found)
        """The literals, the longest first."""
        self.longest: Final[int] = len(found[0]) if found else 0
        """Length of the longest literal."""
        self.prefixes: Final[frozenset[str]] = frozenset(
            literal[:i] for literal in found for i in range(1, len(literal))
        )
        """Every text that may still become a literal, or a longer one."""
        self.full: Final = re.compile("|".join(map(re.escape, found)) if found else r"(?!)")
        """Matches a whole literal, the longest at its place."""
        self._by_first: Final[dict[str, list[str]]] = {}
        for literal in found:
            self._by_first.setdefault(literal[0], []).append(literal)
        self._firsts: Final = "".join(sorted(self._by_first))
        self._char: Final[str] = self._firsts if len(self._firsts) == 1 else ""
        self._first: Final = re.compile(_beginnings(found) if found else r"(?!)")
        self._begun: Final = re.compile(_begun(found) if found else r"(?!)")
        self._first_flags: Final = _flags(literal[:1] for literal in found)
        self._second_flags: Final = _flags(literal[1:2] for literal in found)

    def absent(self, text: str) -> bool:
        """Whether no literal can begin in the text."""
        if COMPILED and len(text) <= _SHORT:
            return self._candidate(text, 0) < 0
        for first in self._firsts:
            if first in text:
                return self._first.search(text) is None
        return True

    def find(self, text: str, at: int) -> int:
        """Where a literal may begin, at or behind ``at``; -1 if nowhere."""
        if COMPILED and len(text) - at <= _SHORT:
            return self._candidate(text, at)
        if self._char:
            at = text.find(self._char, at)
            if at < 0:
                return -1
        match = self._first.search(text, at)
        return -1 if match is None else match.start()

    def seek(self, text: str, at: int, final: bool) -> tuple[int, str]:
        """The next place, at or behind ``at``, that matters, and the literal that stands there.

        Nothing stands there if the text ends in what may still become a
        literal, or a longer one; a final text does not.  -1: there is no such place.
        """
        if COMPILED and len(text) - at <= _SHORT:
            return self._seek(text, at, final)
        match = (self.full if final else self._begun).search(text, at)
        if match is None:
            return -1, ""
        found: str = match.group()
        if not final and match.end() == len(text) and found in self.prefixes:
            found = ""
        return match.start(), found

    def literal_at(self, text: str, at: int) -> str:
        """The literal that stands at this place, the longest; or nothing."""
        if not COMPILED:
            match = self.full.match(text, at)
            return match.group() if match is not None else ""
        for literal in self._by_first.get(text[at : at + 1], _NONE):
            if text.startswith(literal, at):
                return literal
        return ""

    def pending(self, text: str, at: int) -> bool:
        """Whether the rest of the text can still become a literal, or a longer one."""
        return len(text) - at < self.longest and text[at:] in self.prefixes

    def _candidate(self, text: str, at: int) -> int:
        """``find`` as a loop."""
        n = len(text)
        firsts, seconds = self._first_flags, self._second_flags
        while at < n:
            code = ord(text[at])
            if firsts[code if code < _ASCII else _ASCII]:  # noqa: FURB136 - faster where it counts
                if at + 1 == n:
                    return at
                code = ord(text[at + 1])
                if seconds[code if code < _ASCII else _ASCII]:  # noqa: FURB136 - faster where it counts
                    return at
            at += 1
        return -1

    def _seek(self, text: str, at: int, final: bool) -> tuple[int, str]:
        """``seek`` as a loop."""
        n = len(text)
        while True:
            at = self._candidate(text, at)
            if at < 0:
                return -1, ""
            found = ""
            for literal in self._by_first.get(text[at], _NONE):
                size = len(literal)
                k = 1
                while k < size and at + k < n and ord(literal[k]) == ord(text[at + k]):
                    k += 1
                if k == size:
                    if not found:
                        found = literal
                elif at + k == n and not final:
                    return at, ""
            if found:
                return at, found
            at += 1


_NONE: Final[list[str]] = []


def _flags(characters: Iterable[str]) -> bytes:
    """By code: whether it is one of these; the last flag is for all beyond ASCII, an empty one for any."""
    found = set(characters)
    if "" in found:
        return bytes([1] * (_ASCII + 1))
    flags = bytearray(_ASCII + 1)
    for character in found:
        flags[min(ord(character), _ASCII)] = 1
    return bytes(flags)


def _beginnings(literals: list[str]) -> str:
    """A pattern for the first two characters of the literals, the second perhaps still missing."""
    seconds: dict[str, set[str]] = {}
    for literal in literals:
        seconds.setdefault(literal[0], set()).add(literal[1:2])
    parts = []
    for first, second in sorted(seconds.items()):
        if "" in second:
            parts.append(re.escape(first))
        else:
            parts.append(re.escape(first) + "(?:[" + "".join(map(re.escape, sorted(second))) + r"]|\Z)")
    return "|".join(parts)


def _begun(literals: Iterable[str]) -> str:
    """A pattern for the literals, the longest at its place, or for the beginning of one at the text's end."""
    return "|".join(_branches(literals))


def _branches(literals: Iterable[str]) -> list[str]:
    """A branch for every first character; the text may end before the others."""
    rests: dict[str, list[str]] = {}
    for literal in filter(None, literals):
        rests.setdefault(literal[0], []).append(literal[1:])
    branches = []
    for first, rest in rests.items():
        further = _branches(rest)
        if further:
            further.append("" if "" in rest else r"\Z")
        branches.append(re.escape(first) + ("(?:" + "|".join(further) + ")" if further else ""))
    return branches
