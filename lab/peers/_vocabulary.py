"""Tokenizer for a dialect: a real vocabulary, with the dialect's markers added as single tokens.

The parsers of an engine need token ids, but the vocabularies of most models are not available offline.
Parsers only look for the ids of markers, so ordinary text can use any vocabulary. Qwen3's vocabulary is used
without its added tokens, and the markers get the ids after the last token of this vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from ._protocol import any_of


@cache
def _base(file: Path) -> tuple[Tokenizer, dict[str, int]]:
    """Load a tokenizer without its added tokens; return the tokenizer and the vocabulary."""
    config = json.loads(file.read_text(encoding="utf-8"))
    config["added_tokens"] = []
    config["post_processor"] = None
    tokenizer = Tokenizer.from_str(json.dumps(config))
    return tokenizer, tokenizer.get_vocab()


class EngineTokenizer:
    """Tokenizer with only those methods of a Hugging Face tokenizer that an engine's parsers use."""

    chat_template = None
    name_or_path = ""
    is_fast = True

    def __init__(self, file: Path, markers: Iterable[str], eos: str, suffix: str = "") -> None:
        """Load the vocabulary, and assign ids to the markers.

        :param file: the path of a ``tokenizer.json``.
        :param markers: the markers, each of which becomes a single token.
        :param eos: the token that ends a turn.
        :param suffix: the suffix of the checkpoint's markers, if it has one.
        """
        self._tokenizer, base = _base(file)
        first = max(base.values()) + 1
        names = dict.fromkeys([*sorted(markers), eos])
        self.markers = {name: first + at for at, name in enumerate(names)}
        # The markers come first, so that linear searches for them are fast.
        self._vocabulary = {**self.markers, **base}
        self._literals = {id: name for name, id in self.markers.items()}
        self._pattern = any_of(list(self.markers))
        self.eos_token = eos
        self.eos_token_id = self.markers[eos]
        self.bos_token = None
        self.bos_token_id = None
        self.all_special_tokens = [eos]
        self.all_special_ids = [self.eos_token_id]
        self.init_kwargs: dict[str, Any] = {"token_suffix": suffix} if suffix else {}
        self.max_token_id = first + len(self.markers) - 1

    @property
    def vocab(self) -> dict[str, int]:
        """Dictionary from each token to its id."""
        return self._vocabulary

    @property
    def vocab_size(self) -> int:
        """Number of tokens, including the markers."""
        return len(self._vocabulary)

    def __len__(self) -> int:
        return len(self._vocabulary)

    def get_vocab(self) -> dict[str, int]:
        """Return a dictionary from each token to its id."""
        return self._vocabulary

    def get_added_vocab(self) -> dict[str, int]:
        """Return a dictionary from each marker to its id."""
        return self.markers

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> int | list[int | None] | None:
        """Return the id of a token, or the ids of several tokens."""
        if isinstance(tokens, str):
            return self._vocabulary.get(tokens)
        return [self._vocabulary.get(token) for token in tokens]

    def encode(self, text: str, **_: object) -> list[int]:
        """Encode text to token ids."""
        ids: list[int] = []
        done = 0
        for match in self._pattern.finditer(text):
            if done < match.start():
                ids += self._tokenizer.encode(text[done : match.start()]).ids
            ids.append(self.markers[match.group()])
            done = match.end()
        if done < len(text):
            ids += self._tokenizer.encode(text[done:]).ids
        return ids

    def decode(self, ids: int | Sequence[int], skip_special_tokens: bool = False, **_: object) -> str:
        """Decode token ids to text."""
        out: list[str] = []
        plain: list[int] = []
        for id in [ids] if isinstance(ids, int) else ids:
            literal = self._literals.get(id)
            if literal is None:
                plain.append(id)
                continue
            out.append(self._tokenizer.decode(plain))
            plain = []
            if not (skip_special_tokens and id in self.all_special_ids):
                out.append(literal)
        return "".join(out) + self._tokenizer.decode(plain)
