"""Order and interleaving: text, reasoning and calls in every sequence of up to four parts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Final

from .meaning import PARIS, PING, Call, Say, Thought, weather, write
from .scenario import Scenario

TITLE: Final = "Order and interleaving"

_LONGEST: Final = 4
_TEXTS: Final = ("Let me see.", "One more thing.")
_THOUGHTS: Final = (Thought("First, the weather."), Thought("Now, the rest.\nStep by step."))
_CALLS: Final = (PARIS, PING, weather("Rome"), write("a.txt", "Hello"))


def _sequences() -> Iterator[str]:
    """Every sequence in which no two neighbours would be one stretch of text."""
    for length in range(1, _LONGEST + 1):
        for kinds in product("TRC", repeat=length):
            if all(one == "C" or one != other for one, other in pairwise(kinds)):
                yield "".join(kinds)


def _parts(kinds: str) -> list[Say]:
    pools: dict[str, Iterator[str | Thought | Call]] = {
        "T": iter(_TEXTS),
        "R": iter(_THOUGHTS),
        "C": iter(_CALLS),
    }
    return [next(pools[kind]) for kind in kinds]


_NAMES: Final = {"T": "text", "R": "reasoning", "C": "call"}

SCENARIOS: Final = tuple(
    Scenario(
        "order",
        "-".join(_NAMES[kind] for kind in kinds),
        _parts(kinds),
        "Everything comes out as it was meant, in its order.",
    )
    for kinds in _sequences()
)
