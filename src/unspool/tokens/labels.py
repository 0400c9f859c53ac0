"""What a token is: a byte for each, with numbers that do not change."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final

from .._core.values.events import CallEnd, CallStart, Event, Markup, Text

VERSION: Final = 1
"""Of the numbers below; tables of labels carry it."""


class Label(IntEnum):
    """What a token belongs to."""

    GIVEN = 0
    """Not the model's: a prompt, a tool's result."""
    CONTENT = 1
    REASONING = 2
    NAME = 3
    """The name of a call."""
    ARGUMENTS = 4
    """The arguments of a call, in whatever notation."""
    CALL = 5
    """The rest of a call, and what holds calls together."""
    MARKUP = 6
    """What frames anything else, white space included."""
    END = 7
    """The end of the turn."""
    PADDING = 8


SHARED: Final = 64
"""Added where the token also holds the beginning of what follows: it goes by its first character."""
BROKEN: Final = 128
"""Added inside a call that is malformed or cut."""
KIND: Final = 63
"""``label & KIND`` is a :class:`Label`."""
WRITTEN: Final = tuple(label for label in Label if label not in (Label.GIVEN, Label.PADDING))
"""What the model wrote."""
_CALL_ROLES: Final = frozenset({"call", "separator", "cut"})

Stretch = tuple[int, int]
"""Characters up to an offset, and their label."""


def stretches(events: Iterable[Event], shown: Iterable[Event], ends: frozenset[str]) -> Iterator[Stretch]:
    """The labels of a text by what was read of it: each behind the one before.

    :param shown: the same events, tidied: text that is not among them only frames.
    :param ends: what ends a turn.
    """
    visible = sorted((event.start, event.end) for event in shown if isinstance(event, Text))
    first = 0
    head: CallStart | None = None
    for event in events:
        if isinstance(event, Text):
            label = Label.REASONING if event.channel == "reasoning" else Label.CONTENT
            while first < len(visible) and visible[first][0] < event.end:
                start, end = visible[first]
                yield start, Label.MARKUP
                yield min(end, event.end), label
                if end > event.end:
                    break  # it goes on behind what stands between
                first += 1
            yield event.end, Label.MARKUP
        elif isinstance(event, Markup):
            if event.text in ends:
                yield event.end, Label.END
            elif event.role in _CALL_ROLES:
                yield event.end, Label.CALL + (BROKEN if event.role == "cut" else 0)
            else:
                yield event.end, Label.MARKUP
        elif isinstance(event, CallStart):
            head = event
        elif isinstance(event, CallEnd) and head is not None:
            broken = 0 if event.status == "complete" else BROKEN
            name = (head.name_start, head.name_end, Label.NAME)
            arguments = (event.args_start, event.args_end, Label.ARGUMENTS)
            for start, end, label in sorted((name, arguments)):
                yield start, Label.CALL + broken
                yield end, label + broken
            yield event.end, Label.CALL + broken


def labels_of(starts: Sequence[int], widths: Sequence[int], found: Iterable[Stretch]) -> bytearray:
    """A label for each token, from those of the characters.

    A token goes by its first character.  One in which no character begins is the middle of the
    character before it, and goes with that.
    """
    out = bytearray()
    total = len(widths)
    token = 0  # the first one without a label
    shared = -1  # the token that the last stretch ended in, if it did
    last = 0
    for end, label in found:
        if end <= last:
            continue
        last = end
        if shared >= 0:
            if out[shared] & ~SHARED != label:
                out[shared] |= SHARED
            shared = -1
        begun = token
        token = bisect_left(starts, end, token)
        while token < total and not widths[token]:
            token += 1
        out += bytes([label]) * (token - begun)
        if token and starts[token - 1] + widths[token - 1] > end:
            shared = token - 1
    return out
