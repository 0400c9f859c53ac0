"""Ids of calls: the model's own where they can be used, else new ones; none occurs twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..dialects._id_format import IdFormat
from .new_ids import new_id, usable


class CallIds:
    """The ids of one output."""

    __slots__ = ("_length", "_make", "_native_length", "_pattern", "_taken", "native")

    def __init__(self, form: IdFormat, make: Callable[[str, int], str] | None, *, native: bool) -> None:
        """``make``: gives a new id, from the function's name and a number; None: the form does."""
        self._native_length: Final = form.native_length
        self._pattern: Final = form.pattern
        self._length: Final = form.length
        self._make: Final = make
        self._taken: set[str] = set()
        self.native: Final = native
        """Whether the model's own are wanted."""

    def use(self, native: str) -> bool:
        """Whether this id of the model's can be used; if so, it is taken."""
        free = self.native and native not in self._taken and usable(native, self._native_length)
        if free:
            self._taken.add(native)
        return free

    def new(self, name: str, index: int) -> str:
        """An id that nobody has."""
        make = self._make
        while True:
            fresh = new_id(self._pattern, self._length, name, index) if make is None else make(name, index)
            if fresh not in self._taken:
                self._taken.add(fresh)
                return fresh
            index += 1
