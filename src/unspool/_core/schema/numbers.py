"""Numbers in arguments: conversion of text to JSON numbers, and the range that all clients can read."""

from __future__ import annotations

import math
import re
from typing import Final

MOST_DIGITS: Final = 4300
"""Maximum length of a number without its sign; by default Python's ``int`` rejects longer ones."""
FINITE_DIGITS: Final = 308
"""Maximum length at which a number without an exponent is certainly finite."""
_NUMBER: Final = re.compile(r"(?=[+-]?\.?[0-9])([+-]?)([0-9]*+)(\.[0-9]*+)?([eE][+-]?[0-9]++)?")
_INTEGER_VALUE: Final = re.compile(r"[+-]?[0-9]++(?:\.0++)?")
_NUMBER_VALUE: Final = re.compile(r"[+-]?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")


def in_range(number: str) -> bool:
    """Return whether all clients can read a decimal number.

    A number with a fraction or an exponent must be a finite double.  An integer may be larger, but may have
    at most ``MOST_DIGITS`` digits, all of which are kept.

    >>> in_range("1e308"), in_range("1e309"), in_range("1" * 400), in_range("1" * 4301)
    (True, False, True, False)
    """
    digits = number.lstrip("+-")
    if len(digits) > MOST_DIGITS:
        return False
    return digits.isdigit() or math.isfinite(float(digits))


def number_to_json(text: str) -> str | None:
    """Return the JSON form of a decimal number; ``None`` for other text and for numbers out of range.

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


def schema_number_to_json(text: str, types: frozenset[str]) -> str | None:
    """Return text as a JSON number if the schema allows its type; otherwise None.

    The rule is stricter than that of ``number_to_json``: text such as ``.5`` or ``5.`` is not a number.  An
    integer may have a fraction of zeros.

    >>> integer = frozenset({"integer"})
    >>> schema_number_to_json("5.0", integer), schema_number_to_json("5.5", integer)
    ('5', None)
    """
    if "integer" in types and _INTEGER_VALUE.fullmatch(text):
        return number_to_json(text.partition(".")[0])
    return number_to_json(text) if "number" in types and _NUMBER_VALUE.fullmatch(text) else None
