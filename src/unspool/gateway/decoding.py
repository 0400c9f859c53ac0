"""JSON from outside, decoded: what clients send, what upstreams answer, what was kept of either.

The decoder's own way to a float takes 8 us where the exponent is large, and holds the
interpreter while it is at it: a body of one megabyte would stop everything for
seconds.  Python's takes a twentieth of that, and a function of Python for each lets
others run in between.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeVar

import msgspec

Decoded = TypeVar("Decoded")


def number(text: str) -> float:
    """A number that is not whole; one that is too large for any is none."""
    value = float(text)
    if math.isinf(value):
        raise ValueError("Number out of range")
    return value


def decoder_of(type_: type[Decoded]) -> msgspec.json.Decoder[Decoded]:
    """What decodes values of a type."""
    return msgspec.json.Decoder(type_, float_hook=number)


VALUES: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(float_hook=number)
"""Decodes whatever comes."""
