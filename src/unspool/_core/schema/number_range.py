"""Range of the numbers in arguments: every client must read back the number that the model wrote."""

from __future__ import annotations

import math
from typing import Final

MOST_DIGITS: Final = 4300
"""Maximum length of a number without its sign; by default Python's ``int`` rejects longer ones."""
FINITE_DIGITS: Final = 308
"""A number of at most this many characters without an exponent is finite."""


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
