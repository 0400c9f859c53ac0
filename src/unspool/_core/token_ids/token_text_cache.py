"""Cache of token texts.  A text is cached on first use, because most outputs use only a few tokens."""

from __future__ import annotations

from typing import Any, Final

CACHE_SIZE: Final = 1 << 20
"""Limit on token ids; only the texts of smaller ids are cached.

All vocabularies are smaller.  Without a limit, one invalid id could make the list very large.
"""


class TokenTexts:
    """Texts and widths of tokens that consist of complete characters, keyed by id.

    The text of a special token may be a private code point.  The width of a token is always the length of its
    plain text.
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
        self.widths[id] = width  # set first, because another thread that finds the text also reads the width
        self.texts[id] = text
