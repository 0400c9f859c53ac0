"""Order and interleaving: text, reasoning and calls in every sequence of up to four parts.

And calls inside reasoning: models do call tools while they think.  Such a call
interrupts the reasoning, and is a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Final

from .._cases import Stretch
from .capabilities import section_markers
from .message_parts import PARIS, PING, THOUGHT, Call, Say, Thought, weather, write
from .rendering import Wording
from .scenario import Draft, Meant, Scenario, Twist

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


def _inside(more: str) -> Twist:
    """The calls before the end of the reasoning, and more of it behind them."""

    def twist(draft: Draft) -> str | None:
        able = draft.able
        if able.framed:
            return "reasoning is a message, in which there is no other"
        if not able.marked and not section_markers(able)[0]:
            return "calls have no marker that could interrupt reasoning"
        closing = draft.find("close", 0)
        calls = [i for i, piece in enumerate(draft.pieces) if piece.role not in ("open", "text", "close")]
        end = draft.pieces[closing]
        rest = [Wording("text", f"\n{more}", 0)] if more else []
        draft.pieces[closing : calls[-1] + 1] = [
            *(draft.pieces[i] for i in calls),
            *rest,
            end,
        ]
        if more:
            last = max(i for i, part in enumerate(draft.order) if isinstance(part, Meant))
            draft.order.insert(last + 1, Stretch("reasoning", more))
        return None

    return twist


_INTERRUPTS: Final = "A well-formed call inside reasoning is a call, and the reasoning goes on behind it."
_AGAIN: Final = "So there it is."
_WITHIN: Final[tuple[tuple[str, list[Say], str], ...]] = (
    ("a call", [THOUGHT, PARIS], _AGAIN),
    ("a call at its end", [THOUGHT, PARIS], ""),
    ("two calls", [THOUGHT, PARIS, PING], _AGAIN),
    ("a call, and text behind it all", [THOUGHT, PARIS, "It is sunny."], _AGAIN),
)

SCENARIOS: Final = (
    *(
        Scenario(
            "order",
            "-".join(_NAMES[kind] for kind in kinds),
            _parts(kinds),
            "Everything comes out as it was meant, in its order.",
        )
        for kinds in _sequences()
    ),
    *(
        Scenario("order", f"inside reasoning: {name}", parts, _INTERRUPTS, (), _inside(more))
        for name, parts, more in _WITHIN
    ),
)
