"""Labels for the tokens of a conversation, which identify the model's turns and the parts of each turn.

A turn begins with an *opener*: the text that the model's chat template writes before a message of each role.
An opener must contain a special token; otherwise a user could fake a turn by writing its opener as ordinary
text.  If a template has openers without special tokens, :func:`conversation` raises an error.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core.token_ids.detokenizer import PRIVATE, Detokenizer
from .._core.token_ids.labels import Label, LabelFlag
from .._core.token_ids.tokenizer_adapters import AnyTokenizer, as_tokenizer, assign_code_points, substitute
from ..dialects import Dialect, find
from ..errors import UsageError
from ..parser import ToolList
from ..templates import turn_openers
from ._label_tokens import Ids, Reading, as_ids, end_ids, is_padding, label_tokens, start_of_padding

if TYPE_CHECKING:
    from ..templates import ChatTemplate

Openers = Mapping[str, str]
"""Mapping from the text that begins a turn to the role of the turn."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation; positions are in tokens."""

    role: str
    """``user``, ``assistant`` or ``tool``; ``system`` for everything before the first opener."""
    start: int
    """Position of the turn's first token, which is part of the opener."""
    end: int
    """Position after the last token of the turn."""
    reading: Reading | None = None
    """The parsed output if the model wrote this turn; its positions are relative to ``written``."""
    written: int = 0
    """Position of the first token that the model wrote in this turn."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Labels and turns of a conversation; :func:`conversation` returns it."""

    labels: bytes
    """A :class:`Label` for each id, with flags (:class:`LabelFlag`) added."""
    turns: tuple[Turn, ...]
    """The turns, in order and without padding."""


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

    :param ids: the token ids of the conversation, with or without padding at both ends.
    :param template: the model's chat template, from which the openers of turns are derived.
    :param openers: an alternative to ``template``: a mapping from the texts that begin turns to the roles of
        these turns, such as ``{"<|im_start|>user\n": "user", "<|im_start|>assistant\n": "assistant"}``.
    :param tools: the tools of the request.
    :param pad: the id of the padding token; negative ids are also padding.
    :param kwargs: additional template variables, such as ``enable_thinking``.
    """
    all_ids = as_ids(ids)
    spec = find(dialect, tokenizer)
    if openers is None:
        if template is None:
            raise UsageError(
                "cannot split a conversation without openers: pass template=, or openers={text: role, ...}"
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
            beginning = bytes([Label.END])  # this opener begins with the token that ends the model's turn
        else:
            beginning = b"\0"
        opener = bytearray(beginning * bool(mark.length) + bytes(mark.length)[1:])
        if mark.shared and opener:
            opener[-1] |= LabelFlag.SHARED
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
    """Role and position of a turn; positions and lengths are in tokens."""

    role: str
    start: int
    length: int
    """Length of the turn's opener."""
    shared: bool
    """True if the last token of the opener also contains the beginning of the message."""
    end: int


def _marks(
    ids: list[int], openers: Openers, tokenizer: AnyTokenizer, ends: frozenset[int]
) -> Iterator[_Mark]:
    """Yield the turns in order; all text before the first opener is a turn with the role ``system``."""
    vocabulary = as_tokenizer(tokenizer)
    code_points = assign_code_points(openers, vocabulary)
    roles = {substitute(opener, code_points): role for opener, role in openers.items()}
    for opener, role in roles.items():
        if not PRIVATE.search(opener):
            raise UsageError(
                f"the opener {opener!r} of role {role} contains no special token of this vocabulary, so "
                "a user could write the same text: pass openers= with special tokens"
            )
    decoder = Detokenizer(vocabulary, code_points)
    widths = decoder.measure()
    text = decoder.decode(ids)
    starts = list(accumulate(widths, initial=0))
    found = [_Mark("system", 0, 0, False, len(ids))]
    # One opener may be a prefix of another opener, so use the longest match.
    for match in re.finditer("|".join(map(re.escape, sorted(roles, key=len, reverse=True))), text):
        role = roles[match[0]]
        opener_start, opener_end = (
            decoder.offsets.to_text(match.start()),
            decoder.offsets.to_text(match.end()),
        )
        start, after = bisect_left(starts, opener_start), bisect_left(starts, opener_end)
        last = found[-1]
        if role == last.role == "assistant" and ends.isdisjoint(ids[last.start + last.length : start]):
            continue  # another message header in the model's turn, and not a new turn
        found[-1] = last._replace(end=start)
        found.append(_Mark(role, start, after - start, starts[after] != opener_end, len(ids)))
    return (mark for mark in found if mark.start < mark.end)
