"""What a token is: a byte for each, with numbers that do not change."""

from enum import IntEnum
from typing import Final

from ...events import CallEnd, CallStart, Event, Markup, Text
from ..mypyc_types import i64

VERSION: Final = 1
"""Of the numbers below; tables of labels carry it."""


class Label(IntEnum):
    """What a token belongs to."""

    CONTEXT = 0
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
WRITTEN: Final = tuple(label for label in Label if label not in (Label.CONTEXT, Label.PADDING))
"""What the model wrote."""
_CALL_ROLES: Final = frozenset({"call", "separator", "cut"})
# Plain numbers, which the compiler adds up itself.
_CONTENT: Final = int(Label.CONTENT)
_REASONING: Final = int(Label.REASONING)
_NAME: Final = int(Label.NAME)
_ARGUMENTS: Final = int(Label.ARGUMENTS)
_CALL: Final = int(Label.CALL)
_MARKUP: Final = int(Label.MARKUP)
_END: Final = int(Label.END)

_ALIKE: Final = [bytes([label]) for label in range(256)]

Stretch = tuple[int, int]
"""Characters up to an offset, and their label."""


def stretches(events: list[Event], shown: list[Event], ends: frozenset[str]) -> list[Stretch]:
    """The labels of a text by what was read of it: each behind the one before.

    :param shown: the same events, tidied: text that is not among them only frames.
    :param ends: what ends a turn.
    """
    visible = [(event.start, event.end) for event in shown if isinstance(event, Text)]
    visible.sort()
    first = 0
    head: CallStart | None = None
    out: list[Stretch] = []
    for event in events:
        if isinstance(event, Text):
            label = _REASONING if event.channel == "reasoning" else _CONTENT
            while first < len(visible) and visible[first][0] < event.end:
                start, end = visible[first]
                out.append((start, _MARKUP))
                out.append((min(end, event.end), label))
                if end > event.end:
                    break  # it goes on behind what stands between
                first += 1
            out.append((event.end, _MARKUP))
        elif isinstance(event, Markup):
            if event.text in ends:
                out.append((event.end, _END))
            elif event.kind in _CALL_ROLES:
                out.append((event.end, _CALL + (BROKEN if event.kind == "cut" else 0)))
            else:
                out.append((event.end, _MARKUP))
        elif isinstance(event, CallStart):
            head = event
        elif isinstance(event, CallEnd) and head is not None:
            broken = 0 if event.status == "complete" else BROKEN
            name = [(head.name_start, _CALL + broken), (head.name_end, _NAME + broken)]
            arguments = [(event.args_start, _CALL + broken), (event.args_end, _ARGUMENTS + broken)]
            out += arguments + name if event.args_start < head.name_start else name + arguments
            out.append((event.end, _CALL + broken))
    return out


def labels_of(widths: list[int], found: list[Stretch]) -> bytes:
    """A label for each token, from those of the characters; ``widths``: how many begin in each.

    A token goes by its first character.  One in which no character begins is the middle of the
    character before it, and goes with that.
    """
    out: list[bytes] = []  # of some tokens after the other
    total: i64 = len(widths)
    token: i64 = 0  # the first one without a label,
    start: i64 = 0  # ... and where it begins
    shared: i64 = -1  # the label of the token that the last stretch ended in, if it did: it is not yet out
    last: i64 = 0
    for behind, found_label in found:
        end: i64 = behind
        label: i64 = found_label
        if end <= last:
            continue
        last = end
        if shared >= 0:
            if shared & ~SHARED != label:
                shared |= SHARED
            if start > end:
                continue  # it ends in that token, too
            out.append(_ALIKE[shared])
            shared = -1
        first = token
        while token < total:
            width: i64 = widths[token]
            if start >= end and width:
                break
            start += width
            token += 1
        if start > end and token > first:
            shared = label
            first += 1
        out.append(_ALIKE[label] * (token - first))
    if shared >= 0:
        out.append(_ALIKE[shared])
    return b"".join(out)
