"""Scenarios with up to four parts (text, reasoning and calls) in every possible order.

Some models call tools inside reasoning. Such a call interrupts the reasoning and must be returned as a
call.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Final

from ...testing import RenderedPiece
from ..case_format import TextSegment
from .dialect_capabilities import section_markers
from .sample_parts import PARIS, PING, REASONING, Call, Reasoning, ScenarioPart, weather, write
from .scenario import Draft, DraftEdit, ExpectedCall, Scenario

TITLE: Final = "Order and interleaving"

_MAX_PARTS: Final = 4
_TEXTS: Final = ("Let me see.", "One more thing.")
_REASONINGS: Final = (Reasoning("First, the weather."), Reasoning("Now, the rest.\nStep by step."))
_CALLS: Final = (PARIS, PING, weather("Rome"), write("a.txt", "Hello"))


def _sequences() -> Iterator[str]:
    """Yield every sequence of parts without two adjacent texts of the same channel, which would merge."""
    for length in range(1, _MAX_PARTS + 1):
        for kinds in product("TRC", repeat=length):
            if all(one == "C" or one != other for one, other in pairwise(kinds)):
                yield "".join(kinds)


def _parts(kinds: str) -> list[ScenarioPart]:
    parts_by_kind: dict[str, Iterator[str | Reasoning | Call]] = {
        "T": iter(_TEXTS),
        "R": iter(_REASONINGS),
        "C": iter(_CALLS),
    }
    return [next(parts_by_kind[kind]) for kind in kinds]


_NAMES: Final = {"T": "text", "R": "reasoning", "C": "call"}


def _move_calls_into_reasoning(more: str) -> DraftEdit:
    """Return an edit that moves calls before the reasoning closer and adds more reasoning after the calls."""

    def edit(draft: Draft) -> str | None:
        capabilities = draft.capabilities
        if capabilities.framed:
            return "reasoning is a message, which cannot contain another message"
        if not capabilities.marked and not section_markers(capabilities)[0]:
            return "calls have no marker that could interrupt reasoning"
        closing = draft.find("close", 0)
        calls = [i for i, piece in enumerate(draft.pieces) if piece.kind not in ("open", "text", "close")]
        end = draft.pieces[closing]
        rest = [RenderedPiece("text", f"\n{more}", 0)] if more else []
        draft.pieces[closing : calls[-1] + 1] = [
            *(draft.pieces[i] for i in calls),
            *rest,
            end,
        ]
        if more:
            last = max(i for i, part in enumerate(draft.order) if isinstance(part, ExpectedCall))
            draft.order.insert(last + 1, TextSegment("reasoning", more))
        return None

    return edit


_INTERRUPTS: Final = "A well-formed call inside reasoning is a call, and the reasoning continues after it."
_MORE_REASONING: Final = "So there it is."
_INSIDE_REASONING: Final[tuple[tuple[str, list[ScenarioPart], str], ...]] = (
    ("a call", [REASONING, PARIS], _MORE_REASONING),
    ("a call at its end", [REASONING, PARIS], ""),
    ("two calls", [REASONING, PARIS, PING], _MORE_REASONING),
    ("a call, then text after the reasoning", [REASONING, PARIS, "It is sunny."], _MORE_REASONING),
)

SCENARIOS: Final = (
    *(
        Scenario(
            "order",
            "-".join(_NAMES[kind] for kind in kinds),
            _parts(kinds),
            "The parser returns everything that the model wrote, in the same order.",
        )
        for kinds in _sequences()
    ),
    *(
        Scenario(
            "order", f"inside reasoning: {name}", parts, _INTERRUPTS, (), _move_calls_into_reasoning(more)
        )
        for name, parts, more in _INSIDE_REASONING
    ),
)
