"""Cache of the texts of tokens, filled on demand because a model uses few of its tokens."""

from __future__ import annotations

from typing import Any, Final

CACHE_SIZE: Final = 1 << 20
"""Number of ids that are cached.  No vocabulary is that large, and one wrong id would make a huge list."""


class TokenTexts:
    """Texts and widths of tokens that consist of whole characters, by id.

    The width is the length of the plain text.  It differs from the length of ``text`` where a code
    point stands for a special token.
    """

    __slots__ = ("texts", "widths")

    def __init__(self) -> None:
        self.texts: list[str | None] = []
        self.widths: list[Any] = []  # integers; typed as Any so that the compiled code does not unbox them

    def remember(self, id: int, text: str, width: int) -> None:
        """Store the text and the width of a token."""
        if id >= CACHE_SIZE:
            return
        more = id + 1 - len(self.texts)
        if more > 0:
            self.widths.extend([0] * more)
            self.texts.extend([None] * more)
        self.widths[id] = width  # set before the text, whose presence tells other threads that both are set
        self.texts[id] = text
