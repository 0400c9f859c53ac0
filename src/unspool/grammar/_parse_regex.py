r"""Parser that turns the regular expressions of JSON schemas into grammar nodes.

The parser supports literals, sets, groups, alternatives, repetition, and anchors at both ends.  A grammar
cannot express lookaround, word boundaries or backreferences (``(?=``, ``\b``, ``\1``).  A pattern that uses
one of these features is not enforced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ._nodes import (
    NOTHING,
    Chars,
    Exact,
    Node,
    OneOf,
    Ranges,
    Repeat,
    Seq,
    choice,
    complement,
    contains,
    intersection,
    seq,
    union,
)
from ._text_excluding_markers import EVERYTHING, char_set

MOST: Final = 256
"""Maximum count of a repetition.  Engines reject much larger counts, so larger counts are not enforced."""
_DEEPEST: Final = 32
"""Maximum nesting of groups."""
_HEAVIEST: Final = 4096
"""Maximum size of a repetition after an engine has expanded it: ``x{3,5}`` becomes five copies of ``x``."""

_DIGITS: Final[Ranges] = ((48, 57),)
_WORD: Final = union(_DIGITS, ((65, 90), (95, 95), (97, 122)))
_SPACE: Final = char_set(" \t\n\r\f\v")
_SETS: Final = {
    "d": _DIGITS,
    "D": complement(_DIGITS),
    "w": _WORD,
    "W": complement(_WORD),
    "s": _SPACE,
    "S": complement(_SPACE),
}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_SPECIAL: Final = frozenset("^$*+?{}[]()|\\")

FORMATS: Final = {
    "date": "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
    "time": "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])",
    "uuid": "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
}
FORMATS["date-time"] = f"{FORMATS['date']}T{FORMATS['time']}"


class UnsupportedPattern(Exception):
    """Error for a pattern that a grammar cannot express."""


def parse_pattern(pattern: str) -> Node:
    """Return a node for the strings that match a regular expression of a JSON schema.

    In JSON Schema, a pattern may match any part of a string.  So if a pattern has no ``^``, any text may come
    before the match; if a pattern has no ``$``, any text may follow.
    """
    reader = _PatternParser(pattern)
    opening = NOTHING if reader.take("^") else Repeat(Chars(EVERYTHING))
    node = reader.alternatives()
    closing = NOTHING if reader.take("$") else Repeat(Chars(EVERYTHING))
    if reader.at < len(pattern):
        raise UnsupportedPattern(pattern)
    return seq(opening, node, closing)


def apply_escapes(node: Node, plain: Ranges, escapes: Mapping[str, str]) -> Node:
    """Return a copy of a node in which the characters are escaped as a notation requires.

    :param plain: the characters that need no escape.
    :param escapes: a dictionary from other characters to their escape sequences.
    """
    if isinstance(node, Exact):
        out = ""
        for char in node.text:
            if not contains(plain, char) and char not in escapes:
                raise UnsupportedPattern(node.text)
            out += char if contains(plain, char) else escapes[char]
        return Exact(out)
    if isinstance(node, Chars):
        options: list[Node] = []
        if intersection(node.ranges, plain):
            options.append(Chars(intersection(node.ranges, plain)))
        options += [Exact(text) for char, text in escapes.items() if contains(node.ranges, char)]
        if not options:
            raise UnsupportedPattern("the notation cannot write any character of this set")
        return choice(options)
    if isinstance(node, Seq):
        return seq(*(apply_escapes(part, plain, escapes) for part in node.parts))
    if isinstance(node, OneOf):
        return choice(apply_escapes(option, plain, escapes) for option in node.options)
    if isinstance(node, Repeat):
        return Repeat(apply_escapes(node.item, plain, escapes), node.least, node.most)
    raise UnsupportedPattern(repr(node))


class _PatternParser:
    """Recursive descent parser of one pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self._depth = 0

    @property
    def next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def alternatives(self) -> Node:
        options = [self.sequence()]
        while self.take("|"):
            options.append(self.sequence())
        return choice(options)

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.next and self.next not in "|)$":
            parts.append(self.repeated(self.atom()))
        return seq(*parts)

    def repeated(self, item: Node) -> Node:
        least, most = self.count()
        if (least, most) == (1, 1):
            return item
        self.take("?")  # a lazy repetition matches the same strings as a greedy one
        if self.next in ("*", "+", "?", "{") or _may_be_empty(item):
            raise UnsupportedPattern(self.pattern)
        if most is not None and most > MOST:
            most = None
        least = min(least, MOST)
        if max(least, most or 0) > 1 and _weight(item) * max(least, most or 0) > _HEAVIEST:
            raise UnsupportedPattern(self.pattern)
        return Repeat(item, least, most)

    def count(self) -> tuple[int, int | None]:
        if self.take("*"):
            return 0, None
        if self.take("+"):
            return 1, None
        if self.take("?"):
            return 0, 1
        if not self.take("{"):
            return 1, 1
        end = self.pattern.find("}", self.at)
        least, comma, most = self.pattern[self.at : max(end, self.at)].partition(",")
        if end < 0 or not least.isdecimal() or (most and not most.isdecimal()):
            raise UnsupportedPattern(self.pattern)
        self.at = end + 1
        return int(least), int(most) if most else None if comma else int(least)

    def atom(self) -> Node:
        char = self.next
        if self.take("("):
            if self._depth == _DEEPEST or (self.take("?") and not self.take(":")):
                raise UnsupportedPattern(self.pattern)
            self._depth += 1
            node = self.alternatives()
            self._depth -= 1
            if not self.take(")"):
                raise UnsupportedPattern(self.pattern)
            return node
        if self.take("["):
            return Chars(self.set())
        if self.take("."):
            return Chars(complement(char_set("\n\r")))
        if self.take("\\"):
            ranges = self.escape()
            (low, high), *more = ranges
            return Exact(chr(low)) if low == high and not more else Chars(ranges)
        if char in _SPECIAL:
            raise UnsupportedPattern(self.pattern)
        self.at += 1
        return Exact(char)

    def set(self) -> Ranges:
        negated = self.take("^")
        members: list[Ranges] = []
        while not self.take("]"):
            low = self.member()
            if self.next == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.member()
                if low[0][0] != low[-1][1] or high[0][0] != high[-1][1] or low > high:
                    raise UnsupportedPattern(self.pattern)
                low = ((low[0][0], high[0][0]),)
            members.append(low)
        ranges = union(*members)
        ranges = complement(ranges) if negated else ranges
        if not ranges:
            raise UnsupportedPattern(self.pattern)
        return ranges

    def member(self) -> Ranges:
        if not self.next:
            raise UnsupportedPattern(self.pattern)
        if self.take("\\"):
            return self.escape()
        self.at += 1
        return char_set(self.pattern[self.at - 1])

    def escape(self) -> Ranges:
        char = self.next
        self.at += 1
        if char in _SETS:
            return _SETS[char]
        if char in _CONTROLS:
            return char_set(_CONTROLS[char])
        if char in ("x", "u"):
            digits = self.pattern[self.at : self.at + (2 if char == "x" else 4)]
            self.at += len(digits)
            try:
                return char_set(chr(int(digits, 16)))
            except ValueError:
                raise UnsupportedPattern(self.pattern) from None
        if not char or char.isalnum():
            raise UnsupportedPattern(self.pattern)
        return char_set(char)


def _weight(node: Node) -> int:
    """Return the number of characters and character sets in a node after all repetitions are expanded."""
    if isinstance(node, Exact):
        return len(node.text)
    if isinstance(node, Seq):
        return sum(map(_weight, node.parts))
    if isinstance(node, OneOf):
        return sum(map(_weight, node.options))
    return _weight(node.item) * max(node.least, node.most or 1) if isinstance(node, Repeat) else 1


def _may_be_empty(node: Node) -> bool:
    if isinstance(node, Seq):
        return all(_may_be_empty(part) for part in node.parts)
    if isinstance(node, OneOf):
        return any(_may_be_empty(option) for option in node.options)
    return isinstance(node, Repeat) and (node.least == 0 or _may_be_empty(node.item))
