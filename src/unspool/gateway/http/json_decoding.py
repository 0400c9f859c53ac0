"""Decoding of JSON from clients, upstreams and stores; ``json_limits.py`` limits what clients may send.

msgspec takes 8 us to decode a float with a large exponent and does not release the GIL, so a body of
one megabyte would block all threads for seconds.  Python's ``float()`` as msgspec's ``float_hook`` is
twenty times as fast and lets other threads run between two numbers.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, TypeVar

import msgspec

from ..._core.schema.numbers import MOST_DIGITS

Decoded = TypeVar("Decoded")


def number(text: str) -> float:
    """Convert text to a float; raise ``ValueError`` for NaN, infinity and numbers with too many digits."""
    value = float(text)
    if len(text.lstrip("-")) > MOST_DIGITS or not math.isfinite(value):
        raise ValueError("Number out of range")
    return value


def is_object(text: str) -> bool:
    """Return whether ``text`` is a JSON object, without NaN, infinity or numbers with too many digits."""
    try:
        return isinstance(json.loads(text, parse_float=number, parse_constant=number), dict)
    except (ValueError, RecursionError):
        return False


def decoder_of(type_: type[Decoded]) -> msgspec.json.Decoder[Decoded]:
    """Return a JSON decoder for values of a type."""
    return msgspec.json.Decoder(type_, float_hook=number)


VALUES: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(float_hook=number)
"""JSON decoder for values of any type."""
