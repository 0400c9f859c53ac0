"""Decoding of JSON from clients, upstreams and stores.

msgspec takes 8 us for a float with a large exponent and does not release the interpreter, so a
body of one megabyte would stop everything for seconds.  Python's ``float()`` takes a twentieth of
that, and as a hook it lets other threads run between two numbers.  ``json_limits.py`` limits what
clients may send.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, TypeVar

import msgspec

from ..._core.schema.numbers import MOST_DIGITS

Decoded = TypeVar("Decoded")


def number(text: str) -> float:
    """Return a float; refuse numbers that not every client accepts, such as NaN and infinity."""
    value = float(text)
    if len(text.lstrip("-")) > MOST_DIGITS or not math.isfinite(value):
        raise ValueError("Number out of range")
    return value


def is_object(text: str) -> bool:
    """Return whether a text is a JSON object that every server accepts."""
    try:
        return isinstance(json.loads(text, parse_float=number, parse_constant=number), dict)
    except (ValueError, RecursionError):
        return False


def decoder_of(type_: type[Decoded]) -> msgspec.json.Decoder[Decoded]:
    """Return a decoder for values of a type."""
    return msgspec.json.Decoder(type_, float_hook=number)


VALUES: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(float_hook=number)
"""Decoder for values of any type."""
