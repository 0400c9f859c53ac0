"""Ids of calls: the model's own where they can be used, else new ones; none occurs twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..values.ids import IdFormat


class CallIds:
    """The ids of one output."""

    __slots__ = ("_form", "_make", "_taken", "native")

    def __init__(self, form: IdFormat, make: Callable[[str, int], str], *, native: bool) -> None:
        """``make``: gives a new id, from the function's name and a number."""
        self._form: Final = form
        self._make: Final = make
        self._taken: set[str] = set()
        self.native: Final = native
        """Whether the model's own are wanted."""

    def use(self, native: str) -> bool:
        """Whether this id of the model's can be used; if so, it is taken."""
        usable = self.native and native not in self._taken and self._form.accepts(native)
        if usable:
            self._taken.add(native)
        return usable

    def new(self, name: str, index: int) -> str:
        """An id that nobody has."""
        fresh = self._make(name, index)
        while fresh in self._taken:
            index += 1
            fresh = self._make(name, index)
        self._taken.add(fresh)
        return fresh
