"""Call ids: how a family spells them, and which of the model's own are usable."""

from __future__ import annotations

import hashlib
import os
import string
from collections.abc import Callable
from dataclasses import dataclass

from .errors import SpecError

_ALPHANUMERIC = (string.ascii_letters + string.digits).encode()
_TO_ALPHANUMERIC = bytes(_ALPHANUMERIC[byte % len(_ALPHANUMERIC)] for byte in range(256))


_SIZE = 32
_spare: list[str] = []
# A process that is forked off must not use what its parent may use, too.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_spare.clear)


def _random(length: int) -> str:
    """So many random alphanumerics; asking the system for those of each id costs more than all the rest."""
    if length > _SIZE:
        return _alphanumerics(length)
    try:
        return _spare.pop()[:length]
    except IndexError:
        fresh = _alphanumerics(64 * _SIZE)
        _spare.extend(fresh[at : at + _SIZE] for at in range(_SIZE, len(fresh), _SIZE))
        return fresh[:length]


def _alphanumerics(length: int) -> str:
    return os.urandom(length).translate(_TO_ALPHANUMERIC).decode()


@dataclass(frozen=True, slots=True)
class IdFormat:
    """A pattern for ids: ``{random}``, ``{name}`` and ``{index}`` are filled in.

    >>> IdFormat("functions.{name}:{index}").new("search", 2)
    'functions.search:2'
    """

    pattern: str
    """Text of an id, with the holes above."""
    length: int = 24
    """How many random alphanumerics ``{random}`` stands for."""
    native_length: int | None = None
    """A native id counts only if it is this many ASCII alphanumerics."""

    def __post_init__(self) -> None:
        if "{random}" not in self.pattern and "{index}" not in self.pattern:
            raise SpecError(
                f"id pattern {self.pattern!r} gives every call the same id: add {{random}} or {{index}}"
            )

    def new(self, name: str, index: int) -> str:
        """An id for the call ``index`` of the function ``name``."""
        return self._filled(name, index, _random(self.length) if "{random}" in self.pattern else "")

    def seeded(self, seed: object) -> Callable[[str, int], str]:
        """The same as ``new``, but an id follows from the seed, the name and the index.

        >>> IdFormat("call_{random}", length=8).seeded("row 17")("search", 0)
        'call_5GLLi10f'
        """

        def new(name: str, index: int) -> str:
            digest = hashlib.shake_128(f"{seed}\0{name}\0{index}".encode("utf-8", "surrogatepass"))
            return self._filled(name, index, digest.digest(self.length).translate(_TO_ALPHANUMERIC).decode())

        return new

    def _filled(self, name: str, index: int, random: str) -> str:
        text = self.pattern.replace("{random}", random)
        return text.replace("{index}", str(index)).replace("{name}", name) if "{" in text else text

    def accepts(self, native: str) -> bool:
        """Whether an id that the model wrote can be used as it is."""
        if self.native_length is None:
            return bool(native)
        return len(native) == self.native_length and native.isascii() and native.isalnum()


OPENAI_ID = IdFormat("call_{random}")
NINE_ALPHANUMERICS = IdFormat("{random}", length=9, native_length=9)
