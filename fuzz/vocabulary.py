"""A vocabulary of bytes and of a dialect's markers, and ids as bytes of an input."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from unspool import Dialect
from unspool._core.token_ids.reader import literals
from unspool.dialects._registry import ends_of_turn, find

_MARKER: Final = re.compile(r"\]<\]minimax\[>\[|(?<!\[)<[^<>{}\s]+>|\[/?[A-Z_]{3,}\]")
_SPECIAL: Final = 0xFF
"""Never in UTF-8: behind it stands the number of a special token."""


class Vocabulary:
    """What is asked of a tokenizer, and the way back."""

    def __init__(self, special: Sequence[str]) -> None:
        self.special = special

    def token_bytes(self, id: int) -> bytes:
        """The bytes of a token that is none of the special ones."""
        return bytes([id])

    def special_tokens(self) -> dict[int, str]:
        """Special tokens, by id."""
        return {256 + number: text for number, text in enumerate(self.special)}

    def ids(self, data: bytes) -> list[int]:
        """The ids that bytes stand for: themselves, or special tokens."""
        out: list[int] = []
        rest = iter(data)
        for byte in rest:
            if byte == _SPECIAL and self.special:
                out.append(256 + next(rest, 0) % len(self.special))
            else:
                out.append(byte)
        return out

    def data(self, text: str) -> bytes:
        """The bytes that stand for the ids of a text, its markers as special tokens."""
        if not self.special:
            return text.encode("utf-8", "replace")
        found = re.split(f"({'|'.join(map(re.escape, sorted(self.special, key=len, reverse=True)))})", text)
        numbers = {marker: bytes([_SPECIAL, number]) for number, marker in enumerate(self.special)}
        return b"".join(numbers.get(piece) or piece.encode("utf-8", "replace") for piece in found)

    def text(self, ids: Iterable[int]) -> str:
        """What ids say, special tokens spelt out: bytes between two of them are UTF-8, or replaced."""
        out: list[str] = []
        plain = bytearray()
        for id in (*ids, -1):
            if 0 <= id < 256:
                plain.append(id)
                continue
            out.append(plain.decode("utf-8", "replace"))
            plain.clear()
            if id >= 0:
                out.append(self.special[id - 256])
        return "".join(out)


@cache
def vocabulary(dialect: str, *more: str) -> Vocabulary:
    """That of a dialect."""
    spec: Dialect = find(dialect)
    words = (*literals(spec), *ends_of_turn(spec), *more)
    return Vocabulary(sorted({marker for word in words for marker in _MARKER.findall(word)})[:200])


PLAIN: Final = Vocabulary(())
"""One in which no marker is special."""
