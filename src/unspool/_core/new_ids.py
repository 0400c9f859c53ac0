"""Generation of call ids from a pattern such as ``call_{random}``."""

from __future__ import annotations

import os
import string
from hashlib import shake_128
from typing import Final

_ALPHANUMERIC: Final = (string.ascii_letters + string.digits).encode()
_TO_ALPHANUMERIC: Final = bytes(_ALPHANUMERIC[byte % len(_ALPHANUMERIC)] for byte in range(256))
_SIZE: Final = 32
_PATTERNS: Final = 256
"""Maximum number of patterns in the cache.  Each model family has one pattern."""
_spare: Final[list[str]] = []
_parts: Final[dict[str, tuple[str, str]]] = {}
"""Text before and after ``{random}`` in each pattern that has no other placeholder."""
# A forked process must not generate the same ids as its parent.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_spare.clear)


def new_id(pattern: str, length: int, name: str, index: int) -> str:
    """Return a new id: ``pattern`` with its placeholders filled in.

    :param length: the number of characters for the placeholder ``{random}``.
    """
    parts = _parts.get(pattern)
    if parts is not None:
        return parts[0] + _random(length) + parts[1]
    prefix, hole, suffix = pattern.partition("{random}")
    if hole and "{" not in prefix + suffix and len(_parts) < _PATTERNS:
        _parts[pattern] = (prefix, suffix)
    return _fill(pattern, name, index, _random(length) if hole else "")


def seeded_id(pattern: str, length: int, seed: object, name: str, index: int) -> str:
    """Return an id in the same format as ``new_id``, determined by the seed, the name and the index."""
    digest = shake_128(f"{seed}\0{name}\0{index}".encode("utf-8", "surrogatepass"))
    return _fill(pattern, name, index, _alphanumerics(digest.digest(length)))


def is_usable_id(native: str, length: int | None) -> bool:
    """Return whether an id that a model wrote can be used.

    :param length: the length that ids must have; None if any length is valid.
    """
    if length is None:
        return len(native) > 0
    return len(native) == length and native.isascii() and native.isalnum()


def _fill(pattern: str, name: str, index: int, random: str) -> str:
    """Return the pattern with its placeholders replaced by these values."""
    text = pattern.replace("{random}", random)
    return text.replace("{index}", str(index)).replace("{name}", name) if "{" in text else text


def _alphanumerics(data: bytes) -> str:
    """Return one alphanumeric character for each byte."""
    return data.translate(_TO_ALPHANUMERIC).decode()


def _random(length: int) -> str:
    """Return random alphanumeric characters.

    A system call for random bytes is slow compared to the rest, so one call fetches bytes for 64 ids.
    """
    if length > _SIZE:
        return _alphanumerics(os.urandom(length))
    try:
        return _spare.pop()[:length]
    except IndexError:
        fresh = _alphanumerics(os.urandom(64 * _SIZE))
        _spare.extend([fresh[at : at + _SIZE] for at in range(_SIZE, len(fresh), _SIZE)])
        return fresh[:length]
