"""Formats of call ids, for generating new ids and for checking ids that the model wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from .._core.new_ids import is_usable_id, new_id, seeded_id
from ..errors import SpecError

_MAX_LENGTH: Final = 256


@dataclass(frozen=True, slots=True)
class IdFormat:
    """Format of call ids: a pattern with the holes ``{random}``, ``{name}`` and ``{index}``.

    >>> IdFormat("functions.{name}:{index}").new("search", 2)
    'functions.search:2'
    """

    pattern: str
    """Text of an id, in which the holes are replaced."""
    length: int = 24
    """Number of random alphanumeric characters that replace ``{random}``."""
    native_length: int | None = None
    """Required length of ids that the model wrote, which must also be ASCII letters and digits.

    If None, ids of any form are accepted that APIs can use.
    """

    def __post_init__(self) -> None:
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
        return new_id(self.pattern, self.length, name, index)

    def seeded(self, seed: object) -> Callable[[str, int], str]:
        """Return a function like :meth:`new` that derives each id from the seed, the name and the index.

        >>> IdFormat("call_{random}", length=8).seeded("row 17")("search", 0)
        'call_5GLLi10f'
        """
        return partial(seeded_id, self.pattern, self.length, seed)

    def accepts(self, native: str) -> bool:
        """Return whether an id that the model wrote can be used unchanged."""
        return is_usable_id(native, self.native_length)


OPENAI_ID = IdFormat("call_{random}")
NINE_ALPHANUMERICS = IdFormat("{random}", length=9, native_length=9)
