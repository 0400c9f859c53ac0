"""Runs: functions that skip characters of one kind.

The innermost loops of the library, which are in this module and in ``markers.py``, differ between the two
builds.  The interpreted build uses regular expressions.  The compiled build uses loops over
characters, because in compiled code such a loop over a whole delta is faster than a call of a regular
expression.  The loops call no functions, so that the C compiler looks up the width of the string's characters
only once.

Functions with a parameter ``at`` start at this index, and return the index just past the run.  Functions that
may need more input can also return ``MORE`` or ``NO``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import Final

from ..mypyc_types import i64
from .short_text_cache_limits import MANY, has_room

COMPILED: Final[bool] = __file__.endswith((".so", ".pyd"))
"""True in the compiled build."""

BOUND: Final = 512
"""Maximum length of a call's head, a message's header or a look-ahead, including whitespace."""
SHORT: Final = 64
"""Maximum length of a string for which a compiled loop is faster than the methods of ``str``."""
_FEW: Final = 8
"""Maximum length of a literal that compiled code compares character by character."""
MUST_BE_ESCAPED: Final = '"\\' + "".join(map(chr, range(0x20)))
"""Characters that must be escaped in JSON strings."""
MORE: Final = -1
"""Value that is returned instead of an index if more input is needed."""
NO: Final = -2
"""Value that is returned instead of an index if the text does not match."""

ASCII: Final = 128
"""In the tables that ``flags_of`` returns, the index of the entry for all characters outside ASCII."""


def flags_of(characters: Iterable[str]) -> bytes:
    """Return a table with 1 for the code of each of these characters, and 0 for other codes.

    The last entry is for all characters outside ASCII.
    """
    flags = bytearray(ASCII + 1)
    for character in characters:
        flags[min(ord(character), ASCII)] = 1
    return bytes(flags)


# The pattern has no alternatives or repetitions inside an escape.  Before CPython 3.11.5, a possessive group
# that fails in the middle of an alternative or repetition does not backtrack to its start, so half an escape
# would match.
ESCAPED: Final = r'\\["\\/bfnrt]|\\u' + "[0-9a-fA-F]" * 4
"""Pattern of an escape in JSON."""
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
    """Skip characters up to the first one with a flag in ``stops``; used only by the compiled build."""
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
    """Set of characters that a name or a key may consist of."""

    __slots__ = ("_first_stops", "_stops", "pattern")

    def __init__(self, pattern: str) -> None:
        """Compile the set.

        :param pattern: a pattern that matches a whole run.  The pattern may allow fewer characters at the
            start of the run.
        """
        self.pattern: Final = re.compile(pattern)
        codes = set(map(chr, range(ASCII))) if COMPILED else set[str]()
        first = set(filter(self.pattern.fullmatch, codes))
        others = {char for char in codes if self.pattern.fullmatch(min(first) + char)}
        beyond = {chr(ASCII)}  # for characters outside ASCII, `run` uses the pattern
        self._first_stops: Final = flags_of(codes - first | beyond)
        self._stops: Final = flags_of(codes - others | beyond)

    def run(self, text: str, at: i64) -> i64:
        """Skip characters of the set."""
        if COMPILED and at < len(text):
            end = at
            code: i64 = ord(text[at])
            if not self._first_stops[min(code, ASCII)]:
                end = run_over(text, at + 1, self._stops)
            if end == len(text) or ord(text[end]) < ASCII:
                return end
        match = self.pattern.match(text, at)
        return at if match is None else match.end()


def match_literal(literal: str, text: str, at: i64) -> i64:
    """Return the index past a literal; ``MORE`` if the text ends inside it, ``NO`` if it differs."""
    if not COMPILED:
        if text.startswith(literal, at):
            return at + len(literal)
        return MORE if len(text) - at < len(literal) and literal.startswith(text[at:]) else NO
    n: i64 = len(text) - at
    size: i64 = len(literal)
    if n >= size > _FEW and ord(literal[0]) == ord(text[at]):  # the first character usually differs
        return at + size if text.find(literal, at, at + size) >= 0 else NO
    k: i64 = 0
    while k < size and k < n and ord(literal[k]) == ord(text[at + k]):
        k += 1
    return at + k if k == size else MORE if k == n else NO


def skip_whitespace(text: str, at: i64) -> i64:
    """Skip spaces, tabs, newlines and carriage returns."""
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
    """Skip characters of a JSON string up to its end, an incomplete escape or an invalid character."""
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
    """Return the number of characters at the start of the text that certainly belong to an open JSON string.

    The interpreted build caches results for short strings, which saves a fifth of the time for a long
    argument (``benchmarks/shortcuts.py``).
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
    """Return whether the text ends inside an escape that starts at ``at``."""
    if COMPILED:
        return ord(text[at]) == 0x5C and _escape_size(text, at) == 0
    return text[at] == "\\" and (at + 1 == len(text) or _ESCAPE_BEGUN.match(text, at) is not None)


def _escape_size(text: str, at: i64) -> i64:
    """Return the length of the escape at ``at``: 0 if the text ends inside it, -1 if it is not an escape."""
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
    """Return the text escaped for a JSON string."""
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
    """Skip characters and escapes that are written alike in Python strings and in JSON strings."""
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
    """Skip characters up to the first one in ``stops``: a quote, a backslash, or perhaps a brace."""
    if not COMPILED:
        return _UNTIL[stops].match(text, at).end()  # type: ignore[union-attr]
    return run_over(text, at, _UNTIL_STOPS[stops])


def in_word(char: str) -> bool:
    """Return whether ``word_run`` skips this character."""
    code = ord(char)
    return not _WORD_STOPS[code] if code < ASCII else not 0xD800 <= code <= 0xDFFF


def word_run(text: str, at: i64) -> i64:
    """Skip letters, digits, dots, underscores and everything outside ASCII except surrogates."""
    if not COMPILED:
        return _WORD_RUN.match(text, at).end()  # type: ignore[union-attr]
    n: i64 = len(text)
    at = run_over(text, at, _WORD_STOPS)
    while at < n:
        code: i64 = ord(text[at])
        # With input from token ids, a surrogate represents a special token.
        if code < ASCII or 0xD800 <= code <= 0xDFFF:
            break
        at = run_over(text, at + 1, _WORD_STOPS)
    return at
