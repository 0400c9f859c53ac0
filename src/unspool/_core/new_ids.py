"""New ids, from a pattern: a call has one, and nothing else of it is as random."""

from __future__ import annotations

import os
import string
from hashlib import shake_128
from typing import Final

_ALPHANUMERIC: Final = (string.ascii_letters + string.digits).encode()
_TO_ALPHANUMERIC: Final = bytes(_ALPHANUMERIC[byte % len(_ALPHANUMERIC)] for byte in range(256))
_SIZE: Final = 32
_PATTERNS: Final = 256
"""So many are remembered: there are as many as families of models."""
_spare: Final[list[str]] = []
_around: Final[dict[str, tuple[str, str]]] = {}
"""By pattern, what stands before and behind ``{random}`` if that is its only hole."""
# A process that is forked off must not use what its parent may use, too.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_spare.clear)


def new_id(pattern: str, length: int, name: str, index: int) -> str:
    """The pattern with its holes filled; ``{random}`` is so many alphanumerics long."""
    around = _around.get(pattern)
    if around is not None:
        return around[0] + _random(length) + around[1]
    before, hole, behind = pattern.partition("{random}")
    if hole and "{" not in before + behind and len(_around) < _PATTERNS:
        _around[pattern] = (before, behind)
    return _filled(pattern, name, index, _random(length) if hole else "")


def seeded_id(pattern: str, length: int, seed: object, name: str, index: int) -> str:
    """The same, with alphanumerics that follow from the seed, the name and the index."""
    digest = shake_128(f"{seed}\0{name}\0{index}".encode("utf-8", "surrogatepass"))
    return _filled(pattern, name, index, _alphanumerics(digest.digest(length)))


def usable(native: str, length: int | None) -> bool:
    """Whether an id that a model wrote can be used as it is; ``length``: that it must have."""
    if length is None:
        return len(native) > 0
    return len(native) == length and native.isascii() and native.isalnum()


def _filled(pattern: str, name: str, index: int, random: str) -> str:
    """The pattern with these in its holes."""
    text = pattern.replace("{random}", random)
    return text.replace("{index}", str(index)).replace("{name}", name) if "{" in text else text


def _alphanumerics(data: bytes) -> str:
    """One for each byte."""
    return data.translate(_TO_ALPHANUMERIC).decode()


def _random(length: int) -> str:
    """So many random alphanumerics; asking the system for those of each id costs more than all the rest."""
    if length > _SIZE:
        return _alphanumerics(os.urandom(length))
    try:
        return _spare.pop()[:length]
    except IndexError:
        fresh = _alphanumerics(os.urandom(64 * _SIZE))
        _spare.extend([fresh[at : at + _SIZE] for at in range(_SIZE, len(fresh), _SIZE)])
        return fresh[:length]
