"""Size limits of the caches for short strings.

Models write tokens, so the same short strings occur again and again.  Several modules cache the results of a
pure function for such strings, next to the tables that the function reads.
"""

from __future__ import annotations

from typing import Final

FEW: Final = 256
"""Maximum number of entries in a cache."""
MANY: Final = 1024
"""Maximum number of entries in a cache for pieces of text and values, which repeat often."""
_LONGEST: Final = 64
"""Maximum length of a string in a cache; longer strings are rarely repeated."""


def has_room(kept: int, text: str, room: int = FEW) -> bool:
    """Return whether to add ``text`` to a cache that has ``kept`` entries.  Entries are never evicted."""
    return kept < room and len(text) <= _LONGEST
