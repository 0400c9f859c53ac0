"""Chunkings: the ways in which an output may arrive.

``whole``        in one delta
``characters``   each character in a delta of its own
``tokens``       cut where a tokenizer cuts it
``two``          in two, at every place (of a short output; else at a few places)
``random``       in random pieces, empty ones among them, the same in every run
``burst``        a first token, nothing for a while, then all the rest in one delta,
                 as speculative decoding and slow networks give it

``tokens`` uses the tokenizer of ``mistral_common`` where that is installed, and
otherwise cuts words, numbers, blanks and signs as byte-pair vocabularies do.
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

SHORT: Final = 64
"""An output of this length is cut in two at every place ..."""
PLACES: Final = 8
"""... a longer one at this many."""
RANDOM: Final = 3
"""How many random ways there are."""
HUGE: Final = 4000
"""A longer output is cut into this many pieces at most, for the sake of parsers that are not linear."""

_TOKEN: Final = re.compile(r" ?[^\W\d_]{1,6}|\d{1,3}| ?[^\w\s]{1,3}|\s+|_|.", re.DOTALL)


def _whole(text: str) -> Iterator[Chunks]:
    yield (text,)


def _characters(text: str) -> Iterator[Chunks]:
    size = -(-len(text) // HUGE) or 1
    yield tuple(text[at : at + size] for at in range(0, len(text), size))


def _tokens(text: str) -> Iterator[Chunks]:
    yield tuple(_cut_into_tokens(text))


def _two(text: str) -> Iterator[Chunks]:
    places: Sequence[int] = range(1, len(text))
    if len(text) > SHORT:
        places = sorted(_random(text, "two").sample(places, PLACES))
    for at in places:
        yield text[:at], text[at:]


def _at_random(text: str) -> Iterator[Chunks]:
    rng = _random(text, "random")
    for longest in (3, 9, 40)[:RANDOM]:
        longest = max(longest, len(text) * longest // HUGE)  # noqa: PLW2901 - the same, for huge texts
        cuts = [0]
        while cuts[-1] < len(text):
            cuts.append(min(len(text), cuts[-1] + rng.randint(0, longest)))
        yield tuple(text[a:b] for a, b in pairwise(cuts))


def _burst(text: str) -> Iterator[Chunks]:
    first = next(iter(_cut_into_tokens(text[:40])), "")
    yield first, "", "", text[len(first) :]


CHUNKINGS: Final[dict[str, Callable[[str], Iterator[Chunks]]]] = {
    "whole": _whole,
    "characters": _characters,
    "tokens": _tokens,
    "two": _two,
    "random": _at_random,
    "burst": _burst,
}
"""Every chunking, by name."""


def chunked(text: str, chunking: str) -> Iterator[Chunks]:
    """The ways of cutting a text that go by this name.

    >>> list(chunked("Hi there", "tokens"))
    [('Hi', ' there')]
    """
    try:
        cut = CHUNKINGS[chunking]
    except KeyError:
        raise UsageError(f"no chunking {chunking!r}: choose from {', '.join(CHUNKINGS)}") from None
    return cut(text)


def _random(text: str, what: str) -> Random:
    return Random(f"{what} {text}")  # noqa: S311 - reproducible, not secret


def _cut_into_tokens(text: str) -> list[str]:
    tokenizer = _tokenizer()
    if tokenizer is None or len(text) > HUGE:
        return _TOKEN.findall(text)
    out: list[str] = []
    held = b""
    for id in tokenizer.encode(text, bos=False, eos=False):
        held += tokenizer.id_to_byte_piece(id)
        try:
            out.append(held.decode())
        except UnicodeDecodeError:
            continue  # a detokenizer waits for the rest of the character
        held = b""
    # A normalising tokenizer would test another text.
    return out if "".join(out) == text else _TOKEN.findall(text)


@cache
def _tokenizer() -> Any:
    """Tekken, out of the package that brings its vocabulary; None where it is not installed."""
    spec = importlib.util.find_spec("mistral_common")
    if spec is None or spec.origin is None:
        return None
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    files = sorted((Path(spec.origin).parent / "data").glob("tekken*.json"))
    return Tekkenizer.from_file(str(files[-1])) if files else None
