"""Labels for the tokens of a conversation: which ones the model wrote, and what they are.

The beginnings of turns come from the model's chat template: the text that it writes before the
message of each role.  Only special tokens count, so that a user who spells one out does not begin a
turn.  If a template separates the roles by words alone, users could write the same words, and the
function raises an error.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core.token_ids.detokenizer import PRIVATE, Detokenizer
from .._core.token_ids.labels import SHARED, Label
from .._core.token_ids.tokenizer_adapters import AnyTokenizer, as_tokenizer, assign_code_points, substitute
from ..chat_templates._turn_openers import turn_openers
from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ..errors import UsageError
from ..parser import ToolList
from ._label_tokens import Ids, Reading, as_ids, end_ids, is_padding, label_tokens, start_of_padding

if TYPE_CHECKING:
    from ..chat_templates import ChatTemplate

Openers = Mapping[str, str]
"""Role of a turn, by the text that begins it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation; positions are in tokens."""

    role: str
    """``system`` (all before the first opener), ``user``, ``assistant`` or ``tool``."""
    start: int
    """Position of its first token, which belongs to the opener."""
    end: int
    """Position after its last token."""
    reading: Reading | None = None
    """The model's output, if it is a turn of the model; its positions count from ``written``."""
    written: int = 0
    """Position of the first token that the model wrote."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Labels and turns of a conversation; :func:`conversation` returns it."""

    labels: bytes
    """A :class:`Label` for each id, with the flags ``SHARED`` and ``BROKEN``."""
    turns: tuple[Turn, ...]
    """The turns in order, without padding."""


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
    r"""Split a conversation into turns, parse the model's turns, and label every token.

    :param ids: prompt and output of one or more rounds, with or without padding at both ends.
    :param template: the model's chat template, which determines how turns begin.
    :param openers: the text that begins the turns of each role, instead of a template, such as
        ``{"<|im_start|>user\n": "user", "<|im_start|>assistant\n": "assistant"}``.
    :param tools: the tools of the request.
    :param pad: the id of padding; negative ids are padding, too.
    :param kwargs: further variables for the template, such as ``enable_thinking``.
    """
    all_ids = as_ids(ids)
    spec = find(dialect, tokenizer)
    if openers is None:
        if template is None:
            raise UsageError(
                "the beginnings of turns are not known: pass template=, or openers={...} with a text per role"
            )
        openers = turn_openers(template, spec, **kwargs)
    ends = end_ids(spec, tokenizer)
    last = start_of_padding(all_ids, pad, ends)
    first = next((at for at in range(last) if not is_padding(all_ids[at], pad)), last)
    known = all_ids[first:last]
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
        length = next((number for number, id in enumerate(written, 1) if id in ends), len(written))
        prompt = known[: mark.start + mark.length]
        reading = label_tokens(written[:length], spec, tokenizer=tokenizer, tools=tools, prompt_ids=prompt)
        turns.append(Turn(mark.role, start, end, reading, len(labels)))
        labels += reading.labels
        labels += bytes(end - len(labels))
    labels += bytes([Label.PADDING]) * (len(all_ids) - last)
    return Conversation(bytes(labels), tuple(turns))


class _Mark(NamedTuple):
    """Beginning and end of a turn, in tokens."""

    role: str
    start: int
    length: int
    """Length of its opener."""
    shared: bool
    """Whether the last token of the opener also contains the text after it."""
    end: int


def _marks(
    ids: list[int], openers: Openers, tokenizer: AnyTokenizer, ends: frozenset[int]
) -> Iterator[_Mark]:
    """Yield the turns; all text before the first opener belongs to the system."""
    vocabulary = as_tokenizer(tokenizer)
    code_points = assign_code_points(openers, vocabulary)
    roles = {substitute(opener, code_points): role for opener, role in openers.items()}
    for opener, role in roles.items():
        if not PRIVATE.search(opener):
            raise UsageError(
                f"the opener {opener!r} of role {role} has no special token of this vocabulary, so a user "
                "could write it, too: pass openers= with special tokens"
            )
    decoder = Detokenizer(vocabulary, code_points)
    widths = decoder.measure()
    text = decoder.whole(ids)
    starts = list(accumulate(widths, initial=0))
    found = [_Mark("system", 0, 0, False, len(ids))]
    for match in re.finditer("|".join(map(re.escape, sorted(roles, key=len, reverse=True))), text):
        role = roles[match[0]]
        opener_start, opener_end = (
            decoder.offsets.to_text(match.start()),
            decoder.offsets.to_text(match.end()),
        )
        start, after = bisect_left(starts, opener_start), bisect_left(starts, opener_end)
        last = found[-1]
        if role == last.role == "assistant" and ends.isdisjoint(ids[last.start + last.length : start]):
            continue  # another message of the same turn, whose header the model wrote
        found[-1] = last._replace(end=start)
        found.append(_Mark(role, start, after - start, starts[after] != opener_end, len(ids)))
    return (mark for mark in found if mark.start < mark.end)
