"""What each token of a vocabulary is in text, as far as it was needed: a model uses few of them."""

from __future__ import annotations

from typing import Any, Final

LARGEST: Final = 1 << 20
"""Tokens beyond are not remembered: no vocabulary is so large, and the lists would be."""


class TokenTexts:
    """By id, of tokens that are whole characters: the text, and how many characters that stands for.

    The two differ where a code point stands for a special token.
    """

    __slots__ = ("texts", "widths")

    def __init__(self) -> None:
        self.texts: list[str | None] = []
        self.widths: list[Any] = []  # numbers, which are handed on as they are

    def remember(self, id: int, text: str, width: int) -> None:
        """What a token is."""
        if id >= LARGEST:
            return
        more = id + 1 - len(self.texts)
        if more > 0:
            self.widths.extend([0] * more)
            self.texts.extend([None] * more)
        self.widths[id] = width  # before the text, by which other threads know that the token is known
        self.texts[id] = text
