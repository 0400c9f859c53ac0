"""Size limits of the caches for short texts.

Models write tokens, so the same few characters come again and again.  Several modules cache the result
of a pure function of such a text, next to the tables that the function reads.
"""

from __future__ import annotations

from typing import Final

FEW: Final = 256
"""Maximum number of entries in a cache."""
MANY: Final = 1024
"""Maximum number of entries in a cache for pieces of text and values, which repeat often."""
_LONGEST: Final = 64
"""Maximum length of a text in a cache; longer ones hardly ever come again."""


def has_room(kept: int, text: str, room: int = FEW) -> bool:
    """Return whether to add a text to a cache with ``kept`` entries.  Entries are never evicted."""
    return kept < room and len(text) <= _LONGEST
