"""The innermost loops.

What a C-level search is for the interpreter, a plain loop over characters is
for the compiled build: there a call into a regular expression costs more than
the characters of a whole delta.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import Final

COMPILED: Final[bool] = __file__.endswith((".so", ".pyd"))
"""Whether this is the compiled build."""

MORE: Final = -1
"""Instead of a place: more input is needed to tell."""
NO: Final = -2
"""Instead of a place: there is none."""

_STRING_RUN: Final = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_SPACE_RUN: Final = re.compile(r"[ \t\r\n]*")
_ESCAPES: Final = '"\\/bfnrt'
_HEX: Final = re.compile("[0-9a-fA-F]{4}")


def behind_literal(literal: str, text: str, at: int) -> int:
    """Behind the literal, if it stands at ``at``; ``MORE`` if it may yet, ``NO`` if it cannot."""
    if not COMPILED:
        if text.startswith(literal, at):
            return at + len(literal)
        return MORE if len(text) - at < len(literal) and literal.startswith(text[at:]) else NO
    n, size = len(text) - at, len(literal)
    k = 0
    while k < size and k < n and ord(literal[k]) == ord(text[at + k]):
        k += 1
    return at + k if k == size else MORE if k == n else NO


def behind_space(text: str, at: int) -> int:
    """Behind the white space that stands at ``at``, if there is any."""
    n = len(text)
    if not COMPILED:
        if at < n and text[at] > " ":
            return at
        return _SPACE_RUN.match(text, at).end()  # type: ignore[union-attr]
    while at < n:
        code = ord(text[at])
        if code > 0x20 or (code != 0x20 and code != 0x0A and code != 0x09 and code != 0x0D):  # noqa: PLR1714
            break
        at += 1
    return at


def string_run(text: str, at: int) -> int:
    """Behind the characters and whole escapes from ``at`` on that go on a JSON string."""
    if not COMPILED:
        return _STRING_RUN.match(text, at).end()  # type: ignore[union-attr]
    n = len(text)
    while at < n:
        code = ord(text[at])
        if code == 0x5C:  # a backslash
            if at + 1 == n:
                break
            escape = text[at + 1]
            if escape in _ESCAPES:
                at += 2
            elif escape == "u" and _HEX.match(text, at + 2):
                at += 6
            else:
                break
        elif code == 0x22 or code < 0x20:  # a quote, a control character
            break
        else:
            at += 1
    return at


def escaped(text: str) -> str:
    """The text as it stands inside a JSON string."""
    if not COMPILED:
        return encode_basestring(text)[1:-1]
    backslash = quote = line_feed = False
    for i in range(len(text)):
        code = ord(text[i])
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
