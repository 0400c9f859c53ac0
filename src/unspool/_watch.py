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


class Watch:
    """A set of literals to look for."""

    __slots__ = ("_char", "_first", "_firsts", "full", "literals", "longest", "prefixes")

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
        self._firsts: Final = "".join(sorted({literal[0] for literal in found}))
        self._char: Final[str] = self._firsts if len(self._firsts) == 1 else ""
        self._first: Final = re.compile(_beginnings(found) if found else r"(?!)")

    def absent(self, text: str) -> bool:
        """Whether no literal can begin in the text."""
        for first in self._firsts:
            if first in text:
                return self._first.search(text) is None
        return True

    def find(self, text: str, at: int) -> int:
        """Where a literal may begin, at or behind ``at``; -1 if nowhere."""
        if self._char:
            at = text.find(self._char, at)
            if at < 0:
                return -1
        match = self._first.search(text, at)
        return -1 if match is None else match.start()

    def pending(self, text: str, at: int) -> bool:
        """Whether the rest of the text can still become a literal, or a longer one."""
        return len(text) - at < self.longest and text[at:] in self.prefixes


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
