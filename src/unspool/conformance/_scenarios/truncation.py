"""Truncation: the output ends, at every place where that means something.

What has come is kept.  What the cut leaves of a call or a marker follows these
rules, by the place of the cut:

in text or reasoning         the text up to the cut
in a marker                  a fragment: nothing, or its raw text
before a call's name ends    a fragment, too
from there to its last value the call is truncated
behind the arguments         the call is complete, unless its closing marker is
                             what shows that no further argument follows
                             (tagged dialects): then either is right
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from .._cases import Stretch, Unfinished
from .capabilities import Able
from .message_parts import PARIS, Call, Thought, weather
from .rendering import Wording
from .scenario import Draft, Meant, Outcome, Scenario, Twist, arguments_of

TITLE: Final = "Truncation"

_THOUGHT: Final = Thought("Somebody wants to know the weather.")
_TEXT: Final = "Let me look."
_SECOND: Final = weather("Reykjavik")

Place = Callable[[Draft], tuple[int, int] | None]
"""Where to cut: the number of a piece, and how much of it is kept."""


def _inside(role: str, part: int, share: float) -> Place:
    """Inside the piece; at 0.0, before it; at 1.0, behind it."""

    def place(draft: Draft) -> tuple[int, int] | None:
        number = draft.find(role, part)
        if number < 0:
            return None
        length = len(draft.pieces[number].text)
        kept = round(length * share)
        return number, min(max(kept, 1), length - 1) if 0 < share < 1 else kept

    return place


def _behind(word: str, part: int, more: int = 0) -> Place:
    """Behind a word of the part, or some characters further or less far."""

    def place(draft: Draft) -> tuple[int, int] | None:
        for number, piece in enumerate(draft.pieces):
            if piece.part == part and word in piece.text:
                kept = piece.text.index(word) + len(word) + more
                return (number, kept) if 0 < kept <= len(piece.text) else None
        return None

    return place


def _cut(place: Place) -> Twist:
    def twist(draft: Draft) -> str | None:
        found = place(draft)
        if found is None:
            return "it writes nothing there"
        number, kept = found
        draft.order = _left(draft, number, kept)
        pieces = draft.pieces[:number]
        last = draft.pieces[number]
        draft.pieces = [*pieces, Wording(last.role, last.text[:kept], last.part)]
        draft.finish_reason = "length"
        broken = [part for part in draft.order if isinstance(part, Unfinished)]
        called = any(isinstance(part, Meant) for part in draft.order)
        closing = last.role == "tail" or (last.role == "payload" and kept == len(last.text))
        # Whether a call that is whole counts more than the cut behind it is up to the parser.
        draft.any_finish = bool(broken) and (called or closing)
        return None

    return twist


def _left(draft: Draft, number: int, kept: int) -> list[Outcome]:
    """What must come out of the pieces before the cut."""
    piece = draft.pieces[number]
    outcomes = _outcomes(draft)
    order = [outcome for part, outcome in outcomes.items() if part < piece.part and outcome is not None]
    own = outcomes.get(piece.part)
    done = kept == len(piece.text)
    match piece.role:
        case "text":
            if kept and isinstance(own, Stretch):
                echo = own.text.removesuffix(piece.text.strip())
                order.append(Stretch(own.channel, echo + piece.text[:kept].strip()))
            return order
        case "close":
            order += [own] if own is not None else []
            return order if done else [*order, Unfinished("fragment", piece.text[:kept])]
        case "open":
            return order if done else [*order, Unfinished("fragment", piece.text[:kept])]
    return order + _call_left(draft, number, kept, own)


def _outcomes(draft: Draft) -> dict[int, Outcome | None]:
    """What must come out of each part of the meaning."""
    order = iter(draft.order)
    parts = sorted({piece.part for piece in draft.pieces})
    return {part: next(order, None) for part in parts}


def _call_left(draft: Draft, number: int, kept: int, own: Outcome | None) -> list[Outcome]:
    piece = draft.pieces[number]
    done = kept == len(piece.text)
    first = min(i for i, other in enumerate(draft.pieces) if other.part == piece.part)
    raw = "".join(other.text for other in draft.pieces[first:number]) + piece.text[:kept]
    if not isinstance(own, Meant):
        return []
    sent = _may_be_sent(own.call, draft.able, piece.text[:kept])
    truncated = Unfinished("truncated", raw, own.call.name, sent)
    match piece.role:
        case "section_open" | "separator":
            return [Unfinished("fragment", raw)]
        case "head" | "payload":
            if piece.role == "head" and draft.able.framed and not done:
                return [Unfinished("fragment", raw)]
            if own.call.name in raw[:-1]:
                whole = piece.role == "payload" and done and not draft.able.tagged
                return [own] if whole else [truncated]
            return [Unfinished("fragment", raw)]
        case "tail":
            closed = done or not draft.able.tagged
            return (
                [own, *([] if done else [Unfinished("fragment", piece.text[:kept])])]
                if closed
                else [truncated]
            )
    return [own, *([] if done else [Unfinished("fragment", piece.text[:kept])])]


def _may_be_sent(call: Call, able: Able, written: str) -> str:
    """The arguments that a stream may have sent.

    Where nothing is escaped, a character behind a value may be of the value as well
    as of the tag that ends it.
    """
    arguments = arguments_of(call, able)
    for value in reversed(list(call.arguments.values())):
        _, found, behind = written.rpartition(str(value))
        if found:
            end = arguments.index(value) + len(value)
            tail = json.dumps(behind)[1:-1] if able.tagged and len(behind) == 1 else ""
            return arguments[:end] + tail if tail else arguments
    return arguments


_IN_REASONING: Final[dict[str, Place]] = {
    "in the marker that opens reasoning": _inside("open", 0, 0.5),
    "behind the marker that opens reasoning": _inside("open", 0, 1.0),
    "in reasoning": _behind("Somebody wants to know", 0),
    "behind reasoning": _inside("text", 0, 1.0),
    "in the marker that closes reasoning": _inside("close", 0, 0.5),
    "behind the marker that closes reasoning": _inside("close", 0, 1.0),
    "in the marker that opens the answer": _inside("open", 1, 0.5),
}
_IN_TEXT: Final[dict[str, Place]] = {
    "in the marker that opens the text": _inside("open", 0, 0.5),
    "in the text": _behind("Let me", 0),
    "behind the text": _behind(_TEXT, 0),
    "in the marker that closes the text": _inside("close", 0, 0.5),
}


def _in_first(part: int) -> dict[str, Place]:
    return {
        "in the marker that opens the calls": _inside("section_open", part, 0.5),
        "behind the marker that opens the calls": _inside("section_open", part, 1.0),
        "in the head of the call, a quarter": _inside("head", part, 0.25),
        "in the head of the call, half": _inside("head", part, 0.5),
        "in the name": _behind("get_weather", part, -4),
        "behind the name": _behind("get_weather", part),
        "behind the head of the call": _inside("head", part, 1.0),
        "in the first key": _behind("city", part, -2),
        "behind the first key": _behind("city", part),
        "before the first value": _behind("Paris", part, -5),
        "in the first value": _behind("Paris", part, -2),
        "behind the first value": _behind("Paris", part),
        "in the second key": _behind("unit", part, -1),
        "in the second value": _behind("celsius", part, -3),
        "behind the last value": _behind("celsius", part),
        "one character behind the last value": _behind("celsius", part, 1),
        "behind the arguments": _inside("payload", part, 1.0),
        "in the marker that ends the call": _inside("tail", part, 0.5),
        "behind the call": _inside("tail", part, 1.0),
        "in the marker that ends the calls": _inside("section_close", part, 0.5),
    }


_IN_SECOND: Final[dict[str, Place]] = {
    "between the calls": _inside("separator", 1, 0.5),
    "before the second call": _inside("separator", 1, 1.0),
    "in the head of the second call": _inside("head", 1, 0.5),
    "in the name of the second call": _behind("get_weather", 1, -4),
    "behind the head of the second call": _inside("head", 1, 1.0),
    "in the value of the second call": _behind("Reyk", 1),
    "behind the arguments of the second call": _inside("payload", 1, 1.0),
    "in the marker that ends the second call": _inside("tail", 1, 0.5),
    "behind the second call": _inside("tail", 1, 1.0),
    "in the marker behind the second call": _inside("section_close", 1, 0.5),
}

RULE: Final = "What has come is kept; half a call is none, and half a marker says nothing."

SCENARIOS: Final = tuple(
    Scenario("truncation", name, parts, RULE, (), _cut(place))
    for parts, places, what in (
        ((_THOUGHT, _TEXT), _IN_REASONING, "{}"),
        ((_TEXT,), _IN_TEXT, "{}"),
        ((PARIS,), _in_first(0), "{}"),
        ((_TEXT, PARIS), _in_first(1), "{}, after text"),
        ((_THOUGHT, PARIS), _in_first(1), "{}, after reasoning"),
        ((PARIS, _SECOND), _IN_SECOND, "{}"),
    )
    for name, place in ((what.format(name), place) for name, place in places.items())
)
