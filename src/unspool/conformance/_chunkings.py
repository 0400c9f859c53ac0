"""Chunkings, which are ways to split an output into the chunks of a stream.

``whole``        a single chunk
``characters``   one chunk per character
``tokens``       one chunk per token of a tokenizer
``two``          two chunks, split at every position of a short output, and at some
                 positions of a long output
``random``       random chunks, some of them empty; the seed is fixed, so every run is
                 the same
``burst``        a first token, two empty chunks, then the rest in one chunk, which
                 happens with speculative decoding and slow networks

``tokens`` uses the tokenizer of ``mistral_common`` if this package is installed. Otherwise, it splits the
output into words, numbers, whitespace and punctuation, similar to a byte-pair tokenizer.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from ..errors import UsageError

Chunks: TypeAlias = tuple[str, ...]

SHORT_LENGTH: Final = 64
"""Maximum length of an output that ``two`` splits at every position."""
SPLIT_COUNT: Final = 8
"""Number of positions at which ``two`` splits a longer output."""
RANDOM_COUNT: Final = 3
"""Number of variants that the chunking ``random`` has for each output."""
MAX_PIECES: Final = 4000
"""Maximum number of chunks per output, because parsers that take quadratic time would otherwise be too slow.
"""

_TOKEN: Final = re.compile(r" ?[^\W\d_]{1,6}|\d{1,3}| ?[^\w\s]{1,3}|\s+|_|.", re.DOTALL)


def _keep_whole(text: str) -> Iterator[Chunks]:
    yield (text,)


def _split_characters(text: str) -> Iterator[Chunks]:
    size = -(-len(text) // MAX_PIECES) or 1
    yield tuple(text[at : at + size] for at in range(0, len(text), size))


def _split_tokens(text: str) -> Iterator[Chunks]:
    yield tuple(_tokenize(text))


def _split_in_two(text: str) -> Iterator[Chunks]:
    positions: Sequence[int] = range(1, len(text))
    if len(text) > SHORT_LENGTH:
        positions = sorted(_seeded_random(text, "two").sample(positions, SPLIT_COUNT))
    for at in positions:
        yield text[:at], text[at:]


def _split_randomly(text: str) -> Iterator[Chunks]:
    rng = _seeded_random(text, "random")
    for longest in (3, 9, 40)[:RANDOM_COUNT]:
        longest = max(longest, len(text) * longest // MAX_PIECES)  # noqa: PLW2901 - for huge texts
        cuts = [0]
        while cuts[-1] < len(text):
            cuts.append(min(len(text), cuts[-1] + rng.randint(0, longest)))
        yield tuple(text[a:b] for a, b in pairwise(cuts))


def _burst_after_first_token(text: str) -> Iterator[Chunks]:
    first = next(iter(_tokenize(text[:40])), "")
    yield first, "", "", text[len(first) :]


CHUNKINGS: Final[dict[str, Callable[[str], Iterator[Chunks]]]] = {
    "whole": _keep_whole,
    "characters": _split_characters,
    "tokens": _split_tokens,
    "two": _split_in_two,
    "random": _split_randomly,
    "burst": _burst_after_first_token,
}
"""Mapping from the name of each chunking to the function that splits an output in this way."""


def chunked(text: str, chunking: str) -> Iterator[Chunks]:
    """Yield all variants of a chunking for an output; each variant is a tuple of chunks.

    >>> list(chunked("Hi there", "tokens"))
    [('Hi', ' there')]
    """
    try:
        cut = CHUNKINGS[chunking]
    except KeyError:
        raise UsageError(f"unknown chunking {chunking!r}; choose from {', '.join(CHUNKINGS)}") from None
    return cut(text)


def _seeded_random(text: str, purpose: str) -> Random:
    return Random(f"{purpose} {text}")  # noqa: S311 - reproducible, not secret


def _tokenize(text: str) -> list[str]:
    tokenizer = _tokenizer()
    if tokenizer is None or len(text) > MAX_PIECES:
        return _TOKEN.findall(text)
    out: list[str] = []
    pending = b""
    for id in tokenizer.encode(text, bos=False, eos=False):
        pending += tokenizer.id_to_byte_piece(id)
        try:
            out.append(pending.decode())
        except UnicodeDecodeError:
            continue  # incomplete character: wait for its other bytes, as a detokenizer does
        pending = b""
    # If the tokenizer has normalized its input, the chunks do not add up to the original text.
    return out if "".join(out) == text else _TOKEN.findall(text)


@cache
def _tokenizer() -> Any:
    """Load the Tekken tokenizer from ``mistral_common``; return None if the package is not installed."""
    spec = importlib.util.find_spec("mistral_common")
    if spec is None or spec.origin is None:
        return None
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    files = sorted((Path(spec.origin).parent / "data").glob("tekken*.json"))
    return Tekkenizer.from_file(str(files[-1])) if files else None
