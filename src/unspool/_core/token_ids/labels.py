"""Labels of tokens.  A label is one byte, whose meaning is the same in all versions of this library."""

from enum import IntEnum, IntFlag
from typing import Final

from ...events import CallEnd, CallStart, Event, Markup, Text
from ..mypyc_types import i64

VERSION: Final = 1
"""Version of the label values, which is stored in every table of labels."""


class Label(IntEnum):
    """Part of an output or of a conversation to which a token belongs."""

    CONTEXT = 0
    """Text that the model did not write, such as a prompt or the result of a tool."""
    CONTENT = 1
    REASONING = 2
    NAME = 3
    """The function name in a call."""
    ARGUMENTS = 4
    """The arguments of a call, in the model's notation."""
    CALL = 5
    """The markup of a call or of a section of calls."""
    MARKUP = 6
    """All other markup, and the whitespace next to it."""
    END = 7
    """The marker that ends the turn."""
    PADDING = 8


class LabelFlag(IntFlag):
    """Flags that can be combined with the :class:`Label` of a token."""

    SHARED = 64
    """The token belongs to several parts; the label is that of the first part."""
    BROKEN = 128
    """The token is in a call that is malformed or truncated."""


LABEL_MASK: Final = 63
"""Mask that removes the flags: ``Label(value & LABEL_MASK)``."""
WRITTEN: Final = tuple(label for label in Label if label not in (Label.CONTEXT, Label.PADDING))
"""Labels of the tokens that the model wrote."""
_CALL_ROLES: Final = frozenset({"call", "separator", "cut"})
# Plain integers, because compiled code adds these without boxing, unlike members of an enum.
_CONTENT: Final = int(Label.CONTENT)
_REASONING: Final = int(Label.REASONING)
_NAME: Final = int(Label.NAME)
_ARGUMENTS: Final = int(Label.ARGUMENTS)
_CALL: Final = int(Label.CALL)
_MARKUP: Final = int(Label.MARKUP)
_END: Final = int(Label.END)
_SHARED: Final = int(LabelFlag.SHARED)
_BROKEN: Final = int(LabelFlag.BROKEN)

_ALIKE: Final = [bytes([label]) for label in range(256)]

Stretch = tuple[int, int]
"""End offset and label of a piece of text that begins where the previous piece ends."""


def stretches(events: list[Event], visible_events: list[Event], ends: frozenset[str]) -> list[Stretch]:
    """Return consecutive stretches that cover the text of an output, each with its label.

    :param events: all events of the output.
    :param visible_events: the same events without formatting whitespace, which is labelled as markup.
    :param ends: markers that end a turn.
    """
    visible = [(event.start, event.end) for event in visible_events if isinstance(event, Text)]
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
                    break  # a later event contains the rest of this visible text
                first += 1
            out.append((event.end, _MARKUP))
        elif isinstance(event, Markup):
            if event.text in ends:
                out.append((event.end, _END))
            elif event.kind in _CALL_ROLES:
                out.append((event.end, _CALL + (_BROKEN if event.kind == "cut" else 0)))
            else:
                out.append((event.end, _MARKUP))
        elif isinstance(event, CallStart):
            head = event
        elif isinstance(event, CallEnd) and head is not None:
            broken = 0 if event.status == "complete" else _BROKEN
            name = [(head.name_start, _CALL + broken), (head.name_end, _NAME + broken)]
            arguments = [(event.args_start, _CALL + broken), (event.args_end, _ARGUMENTS + broken)]
            # The offsets must ascend, but some models write the arguments before the name.
            out += arguments + name if event.args_start < head.name_start else name + arguments
            out.append((event.end, _CALL + broken))
    return out


def labels_of(widths: list[int], text_labels: list[Stretch]) -> bytes:
    """Return a label for each token.

    A token has the label of the first character that begins in it.  A token in which no character begins has
    the label of the character that it continues.

    :param widths: number of characters that begin in each token.
    :param text_labels: labels of the text, from :func:`stretches`.
    """
    out: list[bytes] = []  # labels of the tokens so far, as runs of equal labels
    total: i64 = len(widths)
    token: i64 = 0  # The first token without a label.
    start: i64 = 0  # The offset of the first token without a label.
    # If the last stretch ended inside a token, this is the label of that token, which is not in `out` yet.
    shared: i64 = -1
    last: i64 = 0
    for stretch_end, stretch_label in text_labels:
        end: i64 = stretch_end
        label: i64 = stretch_label
        if end <= last:
            continue
        last = end
        if shared >= 0:
            if shared & ~_SHARED != label:
                shared |= _SHARED
            if start > end:
                continue  # this stretch ends in the same token as the one before it
            out.append(_ALIKE[shared])
            shared = -1
        # Find the tokens that begin before the end of the stretch.  A token without width continues a
        # character of the token before it, so both tokens belong to the same stretch.
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
