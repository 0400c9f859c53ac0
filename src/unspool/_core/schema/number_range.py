"""Range of the numbers in arguments: what every client reads back as what the model wrote."""

from __future__ import annotations

import math
from typing import Final

MOST_DIGITS: Final = 4300
"""Longest number, in characters without its sign; Python's ``int`` refuses longer ones by default."""
FINITE_DIGITS: Final = 308
"""A number of at most this many characters without an exponent is finite."""


def in_range(number: str) -> bool:
    """Return whether clients can read a decimal number.

    A number with a fraction or an exponent must be a finite double.  Integers have no such limit:
    they keep all their digits, of which there are at most ``MOST_DIGITS``.

    >>> in_range("1e308"), in_range("1e309"), in_range("1" * 400), in_range("1" * 4301)
    (True, False, True, False)
    """
    digits = number.lstrip("+-")
    if len(digits) > MOST_DIGITS:
        return False
    return digits.isdigit() or math.isfinite(float(digits))
