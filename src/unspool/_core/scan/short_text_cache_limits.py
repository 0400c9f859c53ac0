"""Size limits of the caches for short strings.

Models write tokens, so the same short strings occur again and again.  Several modules cache the results of a
pure function for such strings.  Each cache is stored next to the tables that the function reads.
"""

from __future__ import annotations

from typing import Final

FEW: Final = 256
"""Maximum number of entries in most caches."""
MANY: Final = 1024
"""Maximum number of entries in a cache for chunks of text or of values, which are repeated often."""
_LONGEST: Final = 64
"""Maximum length of a string in a cache; longer strings are rarely repeated."""


def has_room(size: int, text: str, limit: int = FEW) -> bool:
    """Return whether to add ``text`` to a cache that has ``size`` entries.  Caches never evict an entry."""
    return size < limit and len(text) <= _LONGEST
