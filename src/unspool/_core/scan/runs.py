"""The innermost loops.

What a C-level search is for the interpreter, a plain loop over characters is
for the compiled build: there a call into a regular expression costs more than
the characters of a whole delta.  The inner loops call nothing, so that the width
of the characters need not be looked up for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import Final

from ..mypyc_types import i64
from .cache import MANY, has_room

COMPILED: Final[bool] = __file__.endswith((".so", ".pyd"))
"""Whether this is the compiled build."""

BOUND: Final = 512
"""How far a head, a header or the look-ahead behind a closer may reach, white space included."""
SHORT: Final = 64
"""Up to so many characters a loop is faster, where it is compiled, than what C has to offer for texts."""
_FEW: Final = 8
"""Up to so many are compared one by one, where that is compiled."""
MUST_BE_ESCAPED: Final = '"\\' + "".join(map(chr, range(0x20)))
"""The characters that stand for themselves in no JSON string."""
MORE: Final = -1
"""Instead of a place: more input is needed to tell."""
NO: Final = -2
"""Instead of a place: there is none."""

ASCII: Final = 128
"""Stands for every code beyond ASCII, which ends before it."""


def flags_of(characters: Iterable[str]) -> bytes:
    """By code: whether it is one of these; the last flag is for all beyond ASCII."""
    flags = bytearray(ASCII + 1)
    for character in characters:
        flags[min(ord(character), ASCII)] = 1
    return bytes(flags)


# Flat, without a choice or a count inside an escape: before CPython 3.11.5 a possessive group that fails in
# such a place does not go back to where it began, and half an escape would be taken for one.
ESCAPED: Final = r'\\["\\/bfnrt]|\\u' + "[0-9a-fA-F]" * 4
"""A pattern: what JSON allows behind a backslash."""
_STRING_RUN: Final = re.compile(rf'(?:[^"\\\x00-\x1f]++|{ESCAPED})*+')
_REACHES: Final[dict[str, int]] = {}
_STRING_STOPS: Final = flags_of(MUST_BE_ESCAPED)
_ESCAPE_BEGUN: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_ESCAPES: Final = flags_of('"\\/bfnrt')
_SPACE_RUN: Final = re.compile(r"[ \t\r\n]*")
_SAME_RUN: Final = {
    quote: re.compile(rf'(?:[^{quote[0]}"\\\x00-\x1f]++|\\["\\bfnrt])*+')
    for quote in ("'", '"', "'''", '"""')
}
_SAME_STOPS: Final = flags_of(MUST_BE_ESCAPED + "'")
_SAME_ESCAPES: Final = flags_of('"\\bfnrt')
_UNTIL: Final = {stops: re.compile(f"[^{re.escape(stops)}]*+") for stops in ("'\\", '"\\', "'\\{}", '"\\{}')}
_UNTIL_STOPS: Final = {stops: flags_of(stops) for stops in _UNTIL}
_WORD_RUN: Final = re.compile(r"[0-9A-Za-z_.\x80-\ud7ff\ue000-\U0010ffff]*+")
_WORD_STOPS: Final = flags_of(
    chr(code) for code in range(ASCII + 1) if code == ASCII or not (chr(code).isalnum() or chr(code) in "_.")
)


def run_over(text: str, at: i64, stops: bytes) -> i64:
    """Behind the characters from ``at`` on that have no flag.  For the compiled build."""
    n: i64 = len(text)
    if at < n:
        code: i64 = ord(text[at])
        while not stops[min(code, ASCII)]:
            at += 1
            if at == n:
                break
            code = ord(text[at])
    return at


class Alphabet:
    """The characters that a name, a key or the like is spelt in."""

    __slots__ = ("_first_stops", "_stops", "pattern")

    def __init__(self, pattern: str) -> None:
        """``pattern``: what a run of them matches; not every one may come first."""
        self.pattern: Final = re.compile(pattern)
        codes = set(map(chr, range(ASCII))) if COMPILED else set[str]()
        first = set(filter(self.pattern.fullmatch, codes))
        others = {char for char in codes if self.pattern.fullmatch(min(first) + char)}
        beyond = {chr(ASCII)}  # of which only the pattern knows
        self._first_stops: Final = flags_of(codes - first | beyond)
        self._stops: Final = flags_of(codes - others | beyond)

    def run(self, text: str, at: i64) -> i64:
        """Behind those that stand at ``at``."""
        if COMPILED and at < len(text):
            end = at
            code: i64 = ord(text[at])
            if not self._first_stops[min(code, ASCII)]:
                end = run_over(text, at + 1, self._stops)
            if end == len(text) or ord(text[end]) < ASCII:
                return end
        match = self.pattern.match(text, at)
        return at if match is None else match.end()


def behind_literal(literal: str, text: str, at: i64) -> i64:
    """Behind the literal, if it stands at ``at``; ``MORE`` if it may yet, ``NO`` if it cannot."""
    if not COMPILED:
        if text.startswith(literal, at):
            return at + len(literal)
        return MORE if len(text) - at < len(literal) and literal.startswith(text[at:]) else NO
    n: i64 = len(text) - at
    size: i64 = len(literal)
    if n >= size > _FEW and ord(literal[0]) == ord(text[at]):  # the first character tells in most cases
        return at + size if text.find(literal, at, at + size) >= 0 else NO
    k: i64 = 0
    while k < size and k < n and ord(literal[k]) == ord(text[at + k]):
        k += 1
    return at + k if k == size else MORE if k == n else NO


def behind_space(text: str, at: i64) -> i64:
    """Behind the white space that stands at ``at``, if there is any."""
    n: i64 = len(text)
    if not COMPILED:
        if at < n and text[at] > " ":
            return at
        return _SPACE_RUN.match(text, at).end()  # type: ignore[union-attr]
    while at < n:
        code: i64 = ord(text[at])
        if code > 0x20 or (code != 0x20 and code != 0x0A and code != 0x09 and code != 0x0D):  # noqa: PLR1714
            break
        at += 1
    return at


def string_run(text: str, at: i64) -> i64:
    """Behind the characters and whole escapes from ``at`` on that go on a JSON string."""
    if not COMPILED:
        return _STRING_RUN.match(text, at).end()  # type: ignore[union-attr]
    n: i64 = len(text)
    while at < n:
        code: i64 = ord(text[at])
        while code != 0x5C:  # a backslash
            if code == 0x22 or code < 0x20:  # a quote, a control character
                return at
            at += 1
            if at == n:
                return at
            code = ord(text[at])
        size: i64 = _escape_size(text, at)
        if size <= 0:
            break
        at += size
    return at


def string_reach(text: str) -> i64:
    """How much of the text goes on a JSON string for certain.  The interpreter remembers short ones.

    That saves a fifth of a long argument (``benchmarks/shortcuts.py``).
    """
    if COMPILED:
        return string_run(text, 0)
    reach = _REACHES.get(text)
    if reach is None:
        reach = string_run(text, 0)
        if has_room(len(_REACHES), text, MANY):
            _REACHES[text] = reach
    return reach


def escape_begun(text: str, at: i64) -> bool:
    """Whether the text ends inside what stands at ``at`` and may become an escape."""
    if COMPILED:
        return ord(text[at]) == 0x5C and _escape_size(text, at) == 0
    return text[at] == "\\" and (at + 1 == len(text) or _ESCAPE_BEGUN.match(text, at) is not None)


def _escape_size(text: str, at: i64) -> i64:
    """Length of the escape at this backslash; 0: it may become one, -1: it is none."""
    n: i64 = len(text)
    if at + 1 == n:
        return 0
    code: i64 = ord(text[at + 1])
    if code != 0x75:  # u
        return 2 if _ESCAPES[min(code, ASCII)] else -1
    for i in range(2, 6):
        if at + i == n:
            return 0
        code = ord(text[at + i])
        if not (0x30 <= code <= 0x39 or 0x61 <= code <= 0x66 or 0x41 <= code <= 0x46):
            return -1
    return 6


def escaped(text: str) -> str:
    """The text as it stands inside a JSON string."""
    if not COMPILED or len(text) > SHORT:
        return encode_basestring(text)[1:-1]
    backslash = quote = line_feed = False
    n: i64 = len(text)
    for i in range(n):
        code: i64 = ord(text[i])
        if code > 0x5C:
            continue
        if code == 0x5C:
            backslash = True
        elif code == 0x22:
            quote = True
        elif code == 0x0A:
            line_feed = True
        elif code < 0x20:
            return encode_basestring(text)[1:-1]
    if backslash:
        text = text.replace("\\", "\\\\")
    if quote:
        text = text.replace('"', '\\"')
    if line_feed:
        text = text.replace("\n", "\\n")
    return text


def same_run(text: str, at: i64, quote: str) -> i64:
    """Behind what goes on a Python string from ``at`` on and is written the same in JSON."""
    if not COMPILED:
        return _SAME_RUN[quote].match(text, at).end()  # type: ignore[union-attr]
    n: i64 = len(text)
    stops = _SAME_STOPS if quote[0] == "'" else _STRING_STOPS
    at = run_over(text, at, stops)
    while at + 1 < n and text[at] == "\\":
        code: i64 = ord(text[at + 1])
        if not _SAME_ESCAPES[min(code, ASCII)]:
            break
        at = run_over(text, at + 2, stops)
    return at


def run_until(text: str, at: i64, stops: str) -> i64:
    """Behind the characters from ``at`` on that are no ``stops``: a quote, a backslash, perhaps braces."""
    if not COMPILED:
        return _UNTIL[stops].match(text, at).end()  # type: ignore[union-attr]
    return run_over(text, at, _UNTIL_STOPS[stops])


def in_word(char: str) -> bool:
    """Whether it is one of the characters that ``word_run`` runs over."""
    code = ord(char)
    return not _WORD_STOPS[code] if code < ASCII else not 0xD800 <= code <= 0xDFFF


def word_run(text: str, at: i64) -> i64:
    """Behind the letters, digits, dots and underscores from ``at`` on, and what lies beyond ASCII."""
    if not COMPILED:
        return _WORD_RUN.match(text, at).end()  # type: ignore[union-attr]
    n: i64 = len(text)
    at = run_over(text, at, _WORD_STOPS)
    while at < n:
        code: i64 = ord(text[at])
        if code < ASCII or 0xD800 <= code <= 0xDFFF:  # a surrogate stands for a control token
            break
        at = run_over(text, at + 1, _WORD_STOPS)
    return at
