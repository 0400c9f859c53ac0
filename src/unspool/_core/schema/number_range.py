"""Valid range of the numbers in arguments: every client must read the number that the model wrote."""

from __future__ import annotations

import math
from typing import Final

MOST_DIGITS: Final = 4300
"""Maximum number of digits in a number; by default, Python's ``int`` rejects longer numbers."""
FINITE_DIGITS: Final = 308
"""Maximum length at which a number without an exponent is certainly finite, in characters."""


def in_range(number: str) -> bool:
    """Return whether a decimal number is in the range that all clients can read.

    A number with a fraction or an exponent must be a finite double.  An integer may be larger, but may have
    at most ``MOST_DIGITS`` digits.

    >>> in_range("1e308"), in_range("1e309"), in_range("1" * 400), in_range("1" * 4301)
    (True, False, True, False)
    """
    digits = number.lstrip("+-")
    if len(digits) > MOST_DIGITS:
        return False
    return digits.isdigit() or math.isfinite(float(digits))
