"""How much work a grammar may be.

A schema of a few lines can stand for more rules than there is memory (unions in unions, definitions
that refer to each other twice), and a request brings its own.  So what is made is counted, and what
is nested is measured before anything is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..errors import UsageError

LARGEST: Final = 500_000
"""So much work may a grammar be, by its values, members and alternatives.  An enum of 100,000 fits, and so do
10,000 tools."""
DEEPEST: Final = 100
"""So many objects and arrays may stand in each other in the JSON of a schema."""
DEEPEST_TAGS: Final = DEEPEST // 2
"""So many parameters may stand in each other, where values are written as tags in tags."""


class GrammarTooLarge(UsageError):
    """A grammar of more parts than ``LARGEST``."""


class Budget:
    """What is left of a grammar's parts."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = LARGEST

    def spend(self, parts: int = 1) -> None:
        """Make so many more."""
        self._left -= parts
        if self._left < 0:
            raise GrammarTooLarge(
                f"the grammar of these tools has more than {LARGEST:,} parts; offer fewer tools, "
                "or schemas with fewer alternatives"
            )

    def measure(self, schema: object) -> None:
        """Refuse a schema that is too large, or nested too deep."""
        level = [schema]
        depth = 0
        while level:
            depth += 1
            if depth > DEEPEST:
                raise UsageError(
                    f"the schema of a tool is nested more than {DEEPEST} levels deep; "
                    "put what is inside into $defs, and refer to it"
                )
            self.spend(len(level))
            level = [inner for outer in level for inner in _inside(outer)]


def _inside(value: object) -> list[object]:
    """The objects and arrays directly in one."""
    found = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    )
    return [inner for inner in found if isinstance(inner, (Mapping, list, tuple))]
