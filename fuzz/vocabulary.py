"""Vocabulary of bytes and of a dialect's markers, and an encoding of token ids as input bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from unspool import Dialect
from unspool.dialects._registry import ends_of_turn, find
from unspool.dialects.list_templates_and_markers import dialect_texts

_MARKER: Final = re.compile(r"\]<\]minimax\[>\[|(?<!\[)<[^<>{}\s]+>|\[/?[A-Z_]{3,}\]")
_SPECIAL: Final = 0xFF
"""Byte that never occurs in UTF-8; the number of a special token follows it."""


class Vocabulary:
    """Tokenizer of bytes and special tokens, with the reverse mapping."""

    def __init__(self, special: Sequence[str]) -> None:
        self.special = special

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of an ordinary token."""
        return bytes([id])

    def special_tokens(self) -> dict[int, str]:
        """Return the special tokens by id."""
        return {256 + number: text for number, text in enumerate(self.special)}

    def ids(self, data: bytes) -> list[int]:
        """Decode input bytes to ids: a byte is its own id, an escape stands for a special token."""
        out: list[int] = []
        rest = iter(data)
        for byte in rest:
            if byte == _SPECIAL and self.special:
                out.append(256 + next(rest, 0) % len(self.special))
            else:
                out.append(byte)
        return out

    def data(self, text: str) -> bytes:
        """Encode a text as input bytes, with its markers as special tokens."""
        if not self.special:
            return text.encode("utf-8", "replace")
        found = re.split(f"({'|'.join(map(re.escape, sorted(self.special, key=len, reverse=True)))})", text)
        numbers = {marker: bytes([_SPECIAL, number]) for number, marker in enumerate(self.special)}
        return b"".join(numbers.get(piece) or piece.encode("utf-8", "replace") for piece in found)

    def text(self, ids: Iterable[int]) -> str:
        """Decode ids to text, with special tokens spelled out and invalid UTF-8 between them replaced."""
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
    """Return the vocabulary of a dialect."""
    spec: Dialect = find(dialect)
    words = (*dialect_texts(spec), *ends_of_turn(spec), *more)
    return Vocabulary(sorted({marker for word in words for marker in _MARKER.findall(word)})[:200])


PLAIN: Final = Vocabulary(())
"""Vocabulary without special tokens."""
