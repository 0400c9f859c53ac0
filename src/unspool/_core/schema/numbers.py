"""Numbers in arguments: the range that all clients can read, and the JSON form of decimal numbers."""

from __future__ import annotations

import math
import re
from typing import Final

MOST_DIGITS: Final = 4300
"""Maximum length of a number without its sign; by default Python's ``int`` rejects longer ones."""
FINITE_DIGITS: Final = 308
"""A number of at most this many characters without an exponent is finite."""
_NUMBER: Final = re.compile(r"(?=[+-]?\.?[0-9])([+-]?)([0-9]*+)(\.[0-9]*+)?([eE][+-]?[0-9]++)?")


def in_range(number: str) -> bool:
    """Return whether all clients can read a decimal number.

    A number with a fraction or an exponent must be a finite double.  Integers have no such limit:
    they keep all their digits, of which there are at most ``MOST_DIGITS``.

    >>> in_range("1e308"), in_range("1e309"), in_range("1" * 400), in_range("1" * 4301)
    (True, False, True, False)
    """
    digits = number.lstrip("+-")
    if len(digits) > MOST_DIGITS:
        return False
    return digits.isdigit() or math.isfinite(float(digits))


def number_to_json(text: str) -> str | None:
    """Return the JSON form of a decimal number, or ``None`` if it is out of range or not such a number.

    >>> number_to_json("+007."), number_to_json("1e999")
    ('7.0', None)
    """
    if text.isascii() and text.isdigit() and (text[0] != "0" or len(text) == 1):
        return text if len(text) <= MOST_DIGITS else None
    number = _NUMBER.fullmatch(text)
    if number is None:
        return None
    sign, whole, fraction, exponent = number.groups("")
    if not in_range(text):
        return None
    if fraction == ".":
        fraction = ".0"
    return f"{sign.strip('+')}{whole.lstrip('0') or '0'}{fraction}{exponent}"
