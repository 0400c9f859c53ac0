"""Limits on the size of grammars.

A schema of a few lines can expand to more rules than fit into memory.  Examples are
nested unions, and chains of definitions that each refer to the next one twice.
Schemas come from requests, so they are not trusted.  A ``Budget`` therefore checks
the nesting depth of a schema before a grammar is built, and counts the parts of the
grammar while it is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..errors import UsageError

LARGEST: Final = 500_000
"""Maximum number of parts (values, members, alternatives) of a grammar.

A grammar of this size is enough for an enum of 100,000 values, or for 10,000 tools.
"""
DEEPEST: Final = 100
"""Maximum nesting of objects and arrays in the JSON of a schema."""
DEEPEST_TAGS: Final = DEEPEST // 2
"""Maximum nesting of parameters, in dialects that write nested values as nested tags."""


class GrammarTooLarge(UsageError):
    """Error for a grammar with more than ``LARGEST`` parts."""


class Budget:
    """Counter that limits how many parts are added to a grammar."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = LARGEST

    def spend(self, parts: int = 1) -> None:
        """Count additional parts; raise ``GrammarTooLarge`` if there are too many."""
        self._left -= parts
        if self._left < 0:
            raise GrammarTooLarge(
                f"the grammar of these tools has more than {LARGEST:,} parts; offer fewer tools, "
                "or schemas with fewer alternatives"
            )

    def check_schema(self, schema: object) -> None:
        """Raise an error if a schema is too large or nested too deeply."""
        level = [schema]
        depth = 0
        while level:
            depth += 1
            if depth > DEEPEST:
                raise UsageError(
                    f"the schema of a tool is nested more than {DEEPEST} levels deep; "
                    "move the inner schemas to $defs and refer to them"
                )
            self.spend(len(level))
            level = [inner for outer in level for inner in _nested(outer)]


def _nested(value: object) -> list[object]:
    """Return the objects and arrays that are direct children of a value."""
    items = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    )
    return [inner for inner in items if isinstance(inner, (Mapping, list, tuple))]
