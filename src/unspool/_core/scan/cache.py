"""What is remembered of texts that have come before.

Models write tokens, so the same few characters come again and again.  What becomes
of them is found out once and kept in a table, beside what it follows from: a state
of the text, the literals that end a value, a state of the JSON scanner.
"""

from __future__ import annotations

from typing import Final

FEW: Final = 256
"""Room in a table."""
MANY: Final = 1024
"""The same for pieces of values: texts repeat themselves, code above all."""
_LONGEST: Final = 64
"""No longer texts are kept: they hardly come again."""


def has_room(kept: int, text: str, room: int = FEW) -> bool:
    """Whether a table with so many texts in it takes another one.  The first ones stay."""
    return kept < room and len(text) <= _LONGEST
