"""A trajectory of several turns: which of its tokens the model wrote, and what they are.

Where a turn begins is read off the model's template, which is asked what it writes
before the words of each role.  Only special tokens count: a user who spells one out
begins no turn.  Where a template tells roles apart by words alone, nobody can tell
them from what people write, and that is an error.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core.token_ids.detokenizer import PRIVATE, Detokenizer
from .._core.token_ids.labels import SHARED, Label
from .._core.token_ids.tokenizers import AnyTokenizer, as_tokenizer, assign_code_points, substitute
from ..chat_templates._turn_openers import turn_openers
from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ..errors import UsageError
from ..parser import ToolList
from ._label_tokens import Ids, Reading, as_ids, behind_last, end_ids, is_padding, label_tokens

if TYPE_CHECKING:
    from ..chat_templates import ChatTemplate

Openers = Mapping[str, str]
"""What begins a turn, and whose it is."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one role said; places are in tokens."""

    role: str
    """``system`` (all before the first opener), ``user``, ``assistant`` or ``tool``."""
    start: int
    """Its first token, which opens it, ..."""
    end: int
    """... and the one behind its last."""
    reading: Reading | None = None
    """What the model wrote, if it is its turn; places in it count from ``written``."""
    written: int = 0
    """Where the model began to write."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What ids of several turns amount to; :func:`conversation` makes them."""

    labels: bytes
    """A :class:`Label` for each id, with the flags ``SHARED`` and ``BROKEN``."""
    turns: tuple[Turn, ...]
    """One after the other, without padding."""


def conversation(
    ids: Ids,
    dialect: str | Dialect,
    *,
    tokenizer: AnyTokenizer,
    template: "ChatTemplate | None" = None,
    openers: Openers | None = None,
    tools: ToolList | None = None,
    pad: int | None = None,
    **kwargs: Any,
) -> Conversation:
    r"""Take a trajectory apart: the turns, what the model wrote in its own, and a label for every token.

    :param ids: prompt and output of one or more rounds; there may be padding on both sides.
    :param template: the model's chat template, which is asked what begins a turn.
    :param openers: what begins the turns of each role, instead of a template, such as
        ``{"<|im_start|>user\n": "user", "<|im_start|>assistant\n": "assistant"}``.
    :param tools: the tools of the request.
    :param pad: the id that sequences are filled up with; ids below 0 are padding, too.
    :param kwargs: further variables for the template, such as ``enable_thinking``.
    """
    given = as_ids(ids)
    spec = find(dialect, tokenizer)
    if openers is None:
        if template is None:
            raise UsageError(
                "where do turns begin?  Give the model's template, or openers={...} with a text for each role"
            )
        openers = turn_openers(template, spec, **kwargs)
    ends = end_ids(spec, tokenizer)
    last = behind_last(given, pad, ends)
    first = next((at for at in range(last) if not is_padding(given[at], pad)), last)
    known = given[first:last]
    labels = bytearray([Label.PADDING]) * first
    turns: list[Turn] = []
    for mark in _marks(known, openers, tokenizer, ends):
        start, end = first + mark.start, first + mark.end
        if turns and turns[-1].role == "assistant" and labels[-1] != Label.END and known[mark.start] in ends:
            beginning = bytes([Label.END])  # the model ends its turn with what begins the next
        else:
            beginning = b"\0"
        opener = bytearray(beginning * bool(mark.length) + bytes(mark.length)[1:])
        if mark.shared and opener:
            opener[-1] |= SHARED
        labels += opener
        if mark.role != "assistant":
            labels += bytes(end - len(labels))
            turns.append(Turn(mark.role, start, end))
            continue
        written = known[mark.start + mark.length : mark.end]
        over = next((number for number, id in enumerate(written, 1) if id in ends), len(written))
        prompt = known[: mark.start + mark.length]
        reading = label_tokens(written[:over], spec, tokenizer=tokenizer, tools=tools, prompt_ids=prompt)
        turns.append(Turn(mark.role, start, end, reading, len(labels)))
        labels += reading.labels
        labels += bytes(end - len(labels))
    labels += bytes([Label.PADDING]) * (len(given) - last)
    return Conversation(bytes(labels), tuple(turns))


class _Mark(NamedTuple):
    """Where a turn begins, in tokens."""

    role: str
    start: int
    length: int
    """Of its opener."""
    shared: bool
    """The last token of the opener also holds what follows."""
    end: int


def _marks(
    ids: list[int], openers: Openers, tokenizer: AnyTokenizer, ends: frozenset[int]
) -> Iterator[_Mark]:
    """The turns of ids; what stands before the first is the system's."""
    vocabulary = as_tokenizer(tokenizer)
    code_points = assign_code_points(openers, vocabulary)
    roles = {substitute(opener, code_points): role for opener, role in openers.items()}
    for opener, role in roles.items():
        if not PRIVATE.search(opener):
            raise UsageError(
                f"the opener {opener!r} of {role} holds no special token of this vocabulary, so that anybody "
                "could have written it: these turns cannot be told apart"
            )
    decoder = Detokenizer(vocabulary, code_points)
    widths = decoder.measure()
    text = decoder.whole(ids)
    starts = list(accumulate(widths, initial=0))
    found = [_Mark("system", 0, 0, False, len(ids))]
    for match in re.finditer("|".join(map(re.escape, sorted(roles, key=len, reverse=True))), text):
        role = roles[match[0]]
        place, behind = decoder.offsets.to_text(match.start()), decoder.offsets.to_text(match.end())
        start, after = bisect_left(starts, place), bisect_left(starts, behind)
        last = found[-1]
        if role == last.role == "assistant" and ends.isdisjoint(ids[last.start + last.length : start]):
            continue  # a further message of the same turn, which the model began itself
        found[-1] = last._replace(end=start)
        found.append(_Mark(role, start, after - start, starts[after] != behind, len(ids)))
    return (mark for mark in found if mark.start < mark.end)
