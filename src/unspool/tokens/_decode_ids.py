"""Access to tokenizers of any package, for modules outside ``unspool._core``."""

from collections.abc import Iterable

from .._core.token_ids.detokenizer import Detokenizer
from .._core.token_ids.tokenizer_adapters import Tokenizer, as_tokenizer

__all__ = ["as_tokenizer", "decode"]


def decode(ids: Iterable[int], tokenizer: Tokenizer) -> str:
    """Return the text of token ids, including special tokens."""
    return Detokenizer(tokenizer, {}).decode(ids)
