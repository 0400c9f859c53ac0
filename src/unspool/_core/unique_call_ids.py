"""Unique ids for the calls of one output: the model's own ids if they are usable, otherwise generated ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..dialects._id_format import IdFormat


class CallIds:
    """Registry that keeps the call ids of one output unique."""

    __slots__ = ("_accepts", "_make", "_taken", "native")

    def __init__(self, form: IdFormat, make: Callable[[str, int], str] | None, *, native: bool) -> None:
        """Create an empty registry.

        :param form: the format of ids in the model's family.
        :param make: a function that generates an id from the name of the called tool and an index; default:
            generate ids in the format ``form``.
        :param native: whether to use the ids that the model writes.
        """
        self._accepts: Final = form.accepts
        self._make: Final = form.new if make is None else make
        self._taken: set[str] = set()
        self.native: Final = native
        """True if ids that the model writes are used."""

    def use(self, native: str) -> bool:
        """Reserve an id that the model wrote; return False if it cannot be used."""
        free = self.native and native not in self._taken and self._accepts(native)
        if free:
            self._taken.add(native)
        return free

    def new(self, name: str, index: int) -> str:
        """Generate an id that no other call of this output has."""
        while True:
            fresh = self._make(name, index)
            if fresh not in self._taken:
                self._taken.add(fresh)
                return fresh
            # The id may depend only on the index, and the model may have written it; try the next index.
            index += 1
