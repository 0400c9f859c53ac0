"""Formats of call ids, for generating new ids and for checking ids that the model wrote."""

from __future__ import annotations

import os
import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import shake_128
from typing import Final

from ..errors import SpecError
from ._check_field_types import check_fields

_MAX_LENGTH: Final = 256
_ALPHANUMERIC: Final = (string.ascii_letters + string.digits).encode()
_TO_ALPHANUMERIC: Final = bytes(_ALPHANUMERIC[byte % len(_ALPHANUMERIC)] for byte in range(256))
_SIZE: Final = 32
_PATTERNS: Final = 256
"""Maximum number of id patterns in the cache; each family of models has one pattern."""
_spare: Final[list[str]] = []
_parts: Final[dict[str, tuple[str, str]]] = {}
"""Prefix and suffix of each pattern whose only placeholder is ``{random}``, keyed by pattern."""
# A forked process must not generate the same ids as its parent.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_spare.clear)


@dataclass(frozen=True, slots=True)
class IdFormat:
    """Format of call ids: a pattern with the placeholders ``{random}``, ``{name}`` and ``{index}``.

    >>> IdFormat("functions.{name}:{index}").new("search", 2)
    'functions.search:2'
    """

    pattern: str
    """Id with placeholders, such as ``call_{random}``."""
    length: int = 24
    """Number of random alphanumeric characters that replace ``{random}``."""
    native_length: int | None = None
    """Required length of ids that the model wrote; such ids must also consist of ASCII letters and digits.

    If None, every id that is not empty is valid.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        if "{random}" not in self.pattern and "{index}" not in self.pattern:
            raise SpecError(
                f"id pattern {self.pattern!r} gives every call the same id: add {{random}} or {{index}}"
            )

        if not 0 < self.length <= _MAX_LENGTH:
            raise SpecError(
                f"length={self.length} is out of range: an id has 1 to {_MAX_LENGTH} random characters"
            )

    def new(self, name: str, index: int) -> str:
        """Return a new id for call number ``index``, which calls the function ``name``."""
        return _new_id(self.pattern, self.length, name, index)

    def seeded(self, seed: object) -> Callable[[str, int], str]:
        """Return a function like :meth:`new` that derives each id from the seed, the name and the index.

        >>> IdFormat("call_{random}", length=8).seeded("row 17")("search", 0)
        'call_5GLLi10f'
        """
        return partial(_seeded_id, self.pattern, self.length, seed)

    def accepts(self, native: str) -> bool:
        """Return whether an id that the model wrote can be used unchanged."""
        length = self.native_length
        if length is None:
            return len(native) > 0
        return len(native) == length and native.isascii() and native.isalnum()


OPENAI_ID = IdFormat("call_{random}")
NINE_ALPHANUMERICS = IdFormat("{random}", length=9, native_length=9)


def _new_id(pattern: str, length: int, name: str, index: int) -> str:
    """Return the pattern with its placeholders filled; ``length`` is the number of random characters."""
    parts = _parts.get(pattern)
    if parts is not None:
        return parts[0] + _random(length) + parts[1]
    prefix, placeholder, suffix = pattern.partition("{random}")
    if placeholder and "{" not in prefix + suffix and len(_parts) < _PATTERNS:
        _parts[pattern] = (prefix, suffix)
    return _fill(pattern, name, index, _random(length) if placeholder else "")


def _seeded_id(pattern: str, length: int, seed: object, name: str, index: int) -> str:
    """Return an id like ``_new_id``, but determined by the seed, the name and the index."""
    digest = shake_128(f"{seed}\0{name}\0{index}".encode("utf-8", "surrogatepass"))
    return _fill(pattern, name, index, _alphanumerics(digest.digest(length)))


def _fill(pattern: str, name: str, index: int, random: str) -> str:
    """Return the pattern with these values in its placeholders."""
    text = pattern.replace("{random}", random)
    return text.replace("{index}", str(index)).replace("{name}", name) if "{" in text else text


def _alphanumerics(data: bytes) -> str:
    """Return one alphanumeric character for each byte."""
    return data.translate(_TO_ALPHANUMERIC).decode()


def _random(length: int) -> str:
    """Return random alphanumeric characters.

    Requesting random bytes from the system is the slowest step, so one request covers 64 ids.
    """
    if length > _SIZE:
        return _alphanumerics(os.urandom(length))
    try:
        return _spare.pop()[:length]
    except IndexError:
        fresh = _alphanumerics(os.urandom(64 * _SIZE))
        _spare.extend([fresh[at : at + _SIZE] for at in range(_SIZE, len(fresh), _SIZE)])
        return fresh[:length]
