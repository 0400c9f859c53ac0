"""The innermost loops.

What a C-level search is for the interpreter, a plain loop over characters is
for the compiled build: there a call into a regular expression costs more than
the characters of a whole delta.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import Final

from ._native import i64

COMPILED: Final[bool] = __file__.endswith((".so", ".pyd"))
"""Whether this is the compiled build."""

SHORT: Final = 64
"""Up to so many characters a loop is faster, where it is compiled, than what C has to offer for texts."""
MUST_BE_ESCAPED: Final = '"\\' + "".join(map(chr, range(0x20)))
"""The characters that stand for themselves in no JSON string."""
MORE: Final = -1
"""Instead of a place: more input is needed to tell."""
NO: Final = -2
"""Instead of a place: there is none."""

_STRING_RUN: Final = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_ESCAPE_BEGUN: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_SPACE_RUN: Final = re.compile(r"[ \t\r\n]*")
_ESCAPES: Final = bytes(chr(code) in '"\\/bfnrt' for code in range(0x80))
_SAME_ESCAPES: Final = bytes(chr(code) in '"\\bfnrt' for code in range(128))
_SAME_RUN: Final = {
    quote: re.compile(rf'(?:[^{quote[0]}"\\\x00-\x1f]++|\\["\\bfnrt])*+')
    for quote in ("'", '"', "'''", '"""')
}
_UNTIL: Final = {stops: re.compile(f"[^{re.escape(stops)}]*+") for stops in ("'\\", '"\\', "'\\{}", '"\\{}')}
_WORD_RUN: Final = re.compile(r"[0-9A-Za-z_.\x80-\ud7ff\ue000-\U0010ffff]*+")
_IN_WORDS: Final = bytes(chr(code).isalnum() or chr(code) in "_." for code in range(128))


def behind_literal(literal: str, text: str, at: i64) -> i64:
    """Behind the literal, if it stands at ``at``; ``MORE`` if it may yet, ``NO`` if it cannot."""
    if not COMPILED:
        if text.startswith(literal, at):
            return at + len(literal)
        return MORE if len(text) - at < len(literal) and literal.startswith(text[at:]) else NO
    n: i64 = len(text) - at
    size: i64 = len(literal)
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
        return 2 if code < 0x80 and _ESCAPES[code] else -1
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
    closer: i64 = ord(quote[0])
    while at < n:
        code: i64 = ord(text[at])
        while code != 0x5C:  # a backslash
            if code == closer or code == 0x22 or code < 0x20:  # noqa: PLR1714 - compares characters, not sets
                return at
            at += 1
            if at == n:
                return at
            code = ord(text[at])
        if at + 1 == n:
            break
        code = ord(text[at + 1])
        if code >= 0x80 or not _SAME_ESCAPES[code]:
            break
        at += 2
    return at


def run_until(text: str, at: i64, stops: str) -> i64:
    """Behind the characters from ``at`` on that are no ``stops``: a quote, a backslash, perhaps braces."""
    if not COMPILED:
        return _UNTIL[stops].match(text, at).end()  # type: ignore[union-attr]
    n: i64 = len(text)
    quote: i64 = ord(stops[0])
    braces = len(stops) > 2
    while at < n:
        code: i64 = ord(text[at])
        if code == quote or code == 0x5C or (braces and (code == 0x7B or code == 0x7D)):  # noqa: PLR1714
            break
        at += 1
    return at


def in_word(char: str) -> bool:
    """Whether it is one of the characters that ``word_run`` runs over."""
    code = ord(char)
    return bool(_IN_WORDS[code]) if code < 0x80 else not 0xD800 <= code <= 0xDFFF


def word_run(text: str, at: i64) -> i64:
    """Behind the letters, digits, dots and underscores from ``at`` on, and what lies beyond ASCII."""
    if not COMPILED:
        return _WORD_RUN.match(text, at).end()  # type: ignore[union-attr]
    n: i64 = len(text)
    while at < n:
        code: i64 = ord(text[at])
        if code < 0x80:
            if not _IN_WORDS[code]:
                break
        elif 0xD800 <= code <= 0xDFFF:  # stands for a control token
            break
        at += 1
    return at
