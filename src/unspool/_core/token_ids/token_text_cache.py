"""Cache of token texts, filled on demand because a model uses only a few of its tokens."""

from __future__ import annotations

from typing import Any, Final

CACHE_SIZE: Final = 1 << 20
"""Upper limit of the ids that are cached.

All vocabularies are smaller.  Without a limit, one invalid id could make the list very large.
"""


class TokenTexts:
    """Texts and widths of tokens that consist of complete characters, keyed by id.

    The width of a token is the length of its plain text.  The text of a special token may be a private code
    point, which is shorter.
    """

    __slots__ = ("texts", "widths")

    def __init__(self) -> None:
        self.texts: list[str | None] = []
        self.widths: list[Any] = []  # integers, but typed as Any so that compiled code does not unbox them

    def remember(self, id: int, text: str, width: int) -> None:
        """Store the text and the width of a token."""
        if id >= CACHE_SIZE:
            return
        more = id + 1 - len(self.texts)
        if more > 0:
            self.widths.extend([0] * more)
            self.texts.extend([None] * more)
        self.widths[id] = width  # set before the text, because a thread that finds the text expects the width
        self.texts[id] = text
