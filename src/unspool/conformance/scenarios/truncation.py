"""Scenarios in which the output is truncated, with a cut at every meaningful position.

All text before the cut is kept. The expected result depends on the position of the cut:

in text or reasoning         the text up to the cut
in a marker                  a fragment: nothing, or its raw text
before the end of the name   a fragment
up to the last value         a truncated call
after the arguments          a complete call; in dialects with tags, where only the
                             closing marker shows that no argument follows,
                             a truncated call is also correct
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from ...testing import RenderedPiece
from ..case_format import TextSegment, Unfinished
from .dialect_capabilities import Capabilities
from .sample_parts import PARIS, Call, Reasoning, weather
from .scenario import Draft, DraftEdit, ExpectedCall, ExpectedPart, Scenario, expected_arguments

TITLE: Final = "Truncation"

_REASONING: Final = Reasoning("Somebody wants to know the weather.")
_TEXT: Final = "Let me look."
_SECOND: Final = weather("Reykjavik")

CutPosition = Callable[[Draft], tuple[int, int] | None]
"""Function that returns where to cut: the index of a rendered piece, and the number of its characters to
keep."""


def _cut_inside(kind: str, part: int, share: float) -> CutPosition:
    """Return a function that finds a cut inside a rendered piece.

    :param share: the share of the piece to keep: 0.0 cuts before the piece, 1.0 after it.
    """

    def locate(draft: Draft) -> tuple[int, int] | None:
        number = draft.find(kind, part)
        if number < 0:
            return None
        length = len(draft.pieces[number].text)
        kept_length = round(length * share)
        return number, min(max(kept_length, 1), length - 1) if 0 < share < 1 else kept_length

    return locate


def _cut_after(word: str, part: int, offset: int = 0) -> CutPosition:
    """Return a function that finds a cut at the end of a word in a part.

    :param offset: the number of characters by which to move the cut; negative numbers move it back.
    """

    def locate(draft: Draft) -> tuple[int, int] | None:
        for number, piece in enumerate(draft.pieces):
            if piece.part == part and word in piece.text:
                kept_length = piece.text.index(word) + len(word) + offset
                return (number, kept_length) if 0 < kept_length <= len(piece.text) else None
        return None

    return locate


def _truncate(locate: CutPosition) -> DraftEdit:
    def edit(draft: Draft) -> str | None:
        found = locate(draft)
        if found is None:
            return "it has no text at this position"
        number, kept_length = found
        draft.order = _parts_before_cut(draft, number, kept_length)
        pieces = draft.pieces[:number]
        last = draft.pieces[number]
        draft.pieces = [*pieces, RenderedPiece(last.kind, last.text[:kept_length], last.part)]
        draft.finish_reason = "length"
        broken = [part for part in draft.order if isinstance(part, Unfinished)]
        called = any(isinstance(part, ExpectedCall) for part in draft.order)
        closing = last.kind == "tail" or (last.kind == "payload" and kept_length == len(last.text))
        # The finish reason may be tool_calls because of the complete call, or length because of the
        # truncation.
        draft.any_finish = bool(broken) and (called or closing)
        return None

    return edit


def _parts_before_cut(draft: Draft, number: int, kept_length: int) -> list[ExpectedPart]:
    """Return the parts that are expected if the output ends at the cut."""
    piece = draft.pieces[number]
    outcomes = _expected_by_part(draft)
    order = [outcome for part, outcome in outcomes.items() if part < piece.part and outcome is not None]
    expected = outcomes.get(piece.part)
    whole_piece = kept_length == len(piece.text)
    match piece.kind:
        case "text":
            if kept_length and isinstance(expected, TextSegment):
                echo = expected.text.removesuffix(piece.text.strip())
                order.append(TextSegment(expected.channel, echo + piece.text[:kept_length].strip()))
            return order
        case "close":
            order += [expected] if expected is not None else []
            return order if whole_piece else [*order, Unfinished("fragment", piece.text[:kept_length])]
        case "open":
            return order if whole_piece else [*order, Unfinished("fragment", piece.text[:kept_length])]
    return order + _call_before_cut(draft, number, kept_length, expected)


def _expected_by_part(draft: Draft) -> dict[int, ExpectedPart | None]:
    """Return the expected parts, keyed by their index in the scenario."""
    order = iter(draft.order)
    parts = sorted({piece.part for piece in draft.pieces})
    return {part: next(order, None) for part in parts}


def _call_before_cut(
    draft: Draft, number: int, kept_length: int, expected: ExpectedPart | None
) -> list[ExpectedPart]:
    piece = draft.pieces[number]
    whole_piece = kept_length == len(piece.text)
    first = min(i for i, other in enumerate(draft.pieces) if other.part == piece.part)
    raw = "".join(other.text for other in draft.pieces[first:number]) + piece.text[:kept_length]
    if not isinstance(expected, ExpectedCall):
        return []
    sent = _sendable_arguments(expected.call, draft.capabilities, piece.text[:kept_length])
    truncated = Unfinished("truncated", raw, expected.call.name, sent)
    match piece.kind:
        case "section_open" | "separator":
            return [Unfinished("fragment", raw)]
        case "head" | "payload":
            if piece.kind == "head" and draft.capabilities.framed and not whole_piece:
                return [Unfinished("fragment", raw)]
            if expected.call.name in raw[:-1]:
                whole = piece.kind == "payload" and whole_piece and not draft.capabilities.tagged
                return [expected] if whole else [truncated]
            return [Unfinished("fragment", raw)]
        case "tail":
            closed = whole_piece or not draft.capabilities.tagged
            return (
                [expected, *([] if whole_piece else [Unfinished("fragment", piece.text[:kept_length])])]
                if closed
                else [truncated]
            )
    return [expected, *([] if whole_piece else [Unfinished("fragment", piece.text[:kept_length])])]


def _sendable_arguments(call: Call, capabilities: Capabilities, text: str) -> str:
    """Return the longest arguments that a stream may have sent before the cut.

    For example, if a parameter is cut after ``Paris<``, the ``<`` may belong to the value or to the closing
    tag. A stream may send this ``<`` or hold it back, so the returned arguments include it.
    """
    arguments = expected_arguments(call, capabilities)
    for value in reversed(list(call.arguments.values())):
        _, found, following = text.rpartition(str(value))
        if found:
            end = arguments.index(value) + len(value)
            tail = json.dumps(following)[1:-1] if capabilities.tagged and len(following) == 1 else ""
            return arguments[:end] + tail if tail else arguments
    return arguments


_IN_REASONING: Final[dict[str, CutPosition]] = {
    "in the marker that opens reasoning": _cut_inside("open", 0, 0.5),
    "after the marker that opens reasoning": _cut_inside("open", 0, 1.0),
    "in reasoning": _cut_after("Somebody wants to know", 0),
    "after reasoning": _cut_inside("text", 0, 1.0),
    "in the marker that closes reasoning": _cut_inside("close", 0, 0.5),
    "after the marker that closes reasoning": _cut_inside("close", 0, 1.0),
    "in the marker that opens the answer": _cut_inside("open", 1, 0.5),
}
_IN_TEXT: Final[dict[str, CutPosition]] = {
    "in the marker that opens the text": _cut_inside("open", 0, 0.5),
    "in the text": _cut_after("Let me", 0),
    "after the text": _cut_after(_TEXT, 0),
    "in the marker that closes the text": _cut_inside("close", 0, 0.5),
}


def _positions_in_first_call(part: int) -> dict[str, CutPosition]:
    return {
        "in the marker that opens the calls": _cut_inside("section_open", part, 0.5),
        "after the marker that opens the calls": _cut_inside("section_open", part, 1.0),
        "in the head of the call, a quarter": _cut_inside("head", part, 0.25),
        "in the head of the call, half": _cut_inside("head", part, 0.5),
        "in the name": _cut_after("get_weather", part, -4),
        "after the name": _cut_after("get_weather", part),
        "after the head of the call": _cut_inside("head", part, 1.0),
        "in the first key": _cut_after("city", part, -2),
        "after the first key": _cut_after("city", part),
        "before the first value": _cut_after("Paris", part, -5),
        "in the first value": _cut_after("Paris", part, -2),
        "after the first value": _cut_after("Paris", part),
        "in the second key": _cut_after("unit", part, -1),
        "in the second value": _cut_after("celsius", part, -3),
        "after the last value": _cut_after("celsius", part),
        "one character after the last value": _cut_after("celsius", part, 1),
        "after the arguments": _cut_inside("payload", part, 1.0),
        "in the marker that ends the call": _cut_inside("tail", part, 0.5),
        "after the call": _cut_inside("tail", part, 1.0),
        "in the marker that ends the calls": _cut_inside("section_close", part, 0.5),
    }


_IN_SECOND: Final[dict[str, CutPosition]] = {
    "between the calls": _cut_inside("separator", 1, 0.5),
    "before the second call": _cut_inside("separator", 1, 1.0),
    "in the head of the second call": _cut_inside("head", 1, 0.5),
    "in the name of the second call": _cut_after("get_weather", 1, -4),
    "after the head of the second call": _cut_inside("head", 1, 1.0),
    "in the value of the second call": _cut_after("Reyk", 1),
    "after the arguments of the second call": _cut_inside("payload", 1, 1.0),
    "in the marker that ends the second call": _cut_inside("tail", 1, 0.5),
    "after the second call": _cut_inside("tail", 1, 1.0),
    "in the marker after the second call": _cut_inside("section_close", 1, 0.5),
}

RULE: Final = (
    "Everything before the cut is kept; a truncated call is not complete, and half a marker has no effect."
)

SCENARIOS: Final = tuple(
    Scenario("truncation", name, parts, RULE, (), _truncate(locate))
    for parts, places, pattern in (
        ((_REASONING, _TEXT), _IN_REASONING, "{}"),
        ((_TEXT,), _IN_TEXT, "{}"),
        ((PARIS,), _positions_in_first_call(0), "{}"),
        ((_TEXT, PARIS), _positions_in_first_call(1), "{}, after text"),
        ((_REASONING, PARIS), _positions_in_first_call(1), "{}, after reasoning"),
        ((PARIS, _SECOND), _IN_SECOND, "{}"),
    )
    for name, locate in ((pattern.format(name), locate) for name, locate in places.items())
)
