"""Events as values: equal, hashable, copied, pickled, and joined where only chunking split them."""

from __future__ import annotations

import copy
import pickle
from typing import Any, get_args

import pytest

from unspool import CallArgs, CallEnd, CallStart, Diagnostic, Event, Finish, Markup, Text
from unspool.events import _Event, normalise

EXAMPLES: list[Event] = [
    Text("content", "Hi.", 0, 3),
    Text("reasoning", "", 3, 3),
    CallStart(0, "now", "call_1", 3, 9),
    CallArgs(0, '{"tz": "Oslo"', 9, 20),
    CallEnd(0, "malformed", "<tool_call>", 20, 31),
    Markup("reasoning_open", "<think>", 31, 38),
    Diagnostic("repaired", "a comma", 38, 38),
    Diagnostic("cut_head", "no name", 38, 38, "<tool_"),
    Finish("length", 38),
    Finish(None, 38),
]
each = pytest.mark.parametrize("event", EXAMPLES, ids=repr)


def test_union_has_every_event() -> None:
    assert set(get_args(Event)) == set(_Event.__subclasses__()) == {type(event) for event in EXAMPLES}


@each
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_event_can_be_pickled(event: Event, protocol: int) -> None:
    data = pickle.dumps(event, protocol)
    assert b"_core" not in data, "both builds, and the next version, find the class by its public name"
    again: Event = pickle.loads(data)  # noqa: S301 - our own
    assert type(again) is type(event)
    assert again == event
    assert fields(again) == fields(event)


@each
def test_event_can_be_copied(event: Event) -> None:
    for again in (copy.copy(event), copy.deepcopy(event)):
        assert again is not event
        assert again == event
        assert hash(again) == hash(event)
        assert fields(again) == fields(event)


def fields(event: Event) -> dict[str, Any]:
    names = [name for name in dir(event) if not name.startswith("_") and name != "to_dict"]
    assert {"start", "end"} < set(names)
    return {name: getattr(event, name) for name in names}


def test_different_events_are_not_equal() -> None:
    for number, event in enumerate(EXAMPLES):
        assert [other == event for other in EXAMPLES].index(True) == number
        assert event != fields(event)


# -- joining events


class Counted(str):
    """Text that counts the characters copied while it is joined."""

    __slots__ = ()
    copied = 0

    def __add__(self, other: str) -> Counted:
        joined = Counted(super().__add__(other))
        Counted.copied += len(joined)
        return joined


@pytest.mark.parametrize(
    "piece",
    [
        lambda text, at: Text("content", text, at, at + 1),
        lambda text, at: CallArgs(0, text, at, at + 1),
        lambda text, at: Markup("call", text, at, at + 1),
    ],
)
def test_normalising_copies_each_character_once(piece: Any) -> None:
    """Text that grows by one piece at a time would take quadratic time."""
    count = 300
    Counted.copied = 0
    (joined,) = normalise(piece(Counted("x"), at) for at in range(count))
    assert (joined.start, joined.end, joined._key()[1]) == (0, count, "x" * count)
    assert Counted.copied <= count


def test_only_adjacent_events_of_one_kind_are_joined() -> None:
    apart: list[Event] = [
        Text("content", "a", 0, 1),
        Text("reasoning", "b", 1, 2),
        CallStart(0, "f", "", 2, 3),
        CallArgs(0, "{", 3, 4),
        CallEnd(0, "truncated", "", 4, 4),
        CallStart(1, "f", "", 4, 5),
        CallArgs(1, "{", 5, 6),
        Diagnostic("late_id", "x", 6, 6),
        CallArgs(1, "}", 6, 7),
        CallEnd(1, "complete", "", 7, 7),
        Markup("call", "<", 7, 8),
        Markup("message_boundary", ">", 8, 9),
        Finish("stop", 9),
    ]
    assert normalise(apart) == apart
    assert normalise([]) == []
    assert normalise(event for event in [Text("content", "a", 0, 1), Text("content", "b", 1, 2)]) == [
        Text("content", "ab", 0, 2)
    ]
