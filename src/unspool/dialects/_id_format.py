"""Call ids: how a family spells them, and which of the model's own are usable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from .._core.new_ids import is_usable_id, new_id, seeded_id
from ..errors import SpecError

_LONGEST: Final = 256


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

        if not 0 < self.length <= _LONGEST:
            raise SpecError(f"ids of {self.length} random characters: from 1 to {_LONGEST} are useful")

    def new(self, name: str, index: int) -> str:
        """An id for the call ``index`` of the function ``name``."""
        return new_id(self.pattern, self.length, name, index)

    def seeded(self, seed: object) -> Callable[[str, int], str]:
        """The same as ``new``, but an id follows from the seed, the name and the index.

        >>> IdFormat("call_{random}", length=8).seeded("row 17")("search", 0)
        'call_5GLLi10f'
        """
        return partial(seeded_id, self.pattern, self.length, seed)

    def accepts(self, native: str) -> bool:
        """Whether an id that the model wrote can be used as it is."""
        return is_usable_id(native, self.native_length)


OPENAI_ID = IdFormat("call_{random}")
NINE_ALPHANUMERICS = IdFormat("{random}", length=9, native_length=9)
