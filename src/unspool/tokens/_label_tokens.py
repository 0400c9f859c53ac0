"""Labels for the tokens of one output, next to its message and events."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol, runtime_checkable

from .._core.token_ids.labels import BROKEN, KIND, WRITTEN, Label, labels_of, stretches
from .._core.token_ids.tokenizer_adapters import AnyTokenizer, as_tokenizer
from ..dialects._declaration import Dialect
from ..dialects._registry import ends_of_turn
from ..errors import UsageError
from ..events import CallArgs, CallEnd, CallStart, Event, FinishReason, Status
from ..message import Message
from ..parser import Parser, ToolList
from ..policies import Policies

Span = tuple[int, int]
"""Positions of the first token and after the last one."""


@runtime_checkable
class _Array(Protocol):
    """Array of numpy, or tensor of torch."""

    def tolist(self) -> object: ...


Ids = Sequence[int] | Iterable[int] | _Array
"""Ids in a list, an array of numpy, or a tensor of torch."""


@dataclass(frozen=True, slots=True)
class CallSpan:
    """Tool call that the model began, complete or not; positions are in tokens."""

    id: str
    name: str
    arguments: str
    """JSON text; incomplete if the call is broken."""
    status: Status
    start: int
    """Position of its first token."""
    end: int
    """Position after its last token."""
    name_span: Span
    arguments_span: Span


@dataclass(frozen=True, slots=True)
class TokenDiagnostic:
    """Problem of the output, or a guess that the parser made; positions are in tokens."""

    kind: str
    """One of ``DIAGNOSTIC_KINDS``."""
    detail: str
    start: int
    end: int
    raw: str = ""
    """The model's text of a call that could not be parsed."""


class Reading:
    """Message, events and labels of an output; :func:`label_tokens` returns it."""

    def __init__(
        self,
        message: Message,
        labels: bytes,
        events: list[Event],
        widths: Sequence[int],
    ) -> None:
        self.message = message
        """The parsed message."""
        self.labels = labels
        """A :class:`Label` for each id, with the flags ``SHARED`` and ``BROKEN``."""
        self.events = events
        """Events of the parser, with offsets in the text of the ids (special tokens spelled out)."""
        self._widths = widths

    @cached_property
    def _starts(self) -> list[int]:
        """Offset at which the text of each token begins."""
        return list(accumulate(self._widths, initial=0))[:-1]

    def span(self, start: int, end: int) -> Span:
        """Return the span of tokens for a span of characters."""
        starts, widths = self._starts, self._widths
        if not starts:
            return 0, 0
        if end <= start:
            at = bisect_left(starts, start)
            return at, at
        first = max(bisect_right(starts, start) - 1, 0)
        last = bisect_left(starts, end)
        while last < len(starts) and not widths[last]:
            last += 1
        return first, last

    @cached_property
    def spans(self) -> list[Span]:
        """Span of tokens of each event."""
        return [self.span(event.start, event.end) for event in self.events]

    @cached_property
    def attempts(self) -> list[CallSpan]:
        """All calls that the model began, in order."""
        found: list[CallSpan] = []
        head: CallStart | None = None
        pieces: list[str] = []
        for event in self.events:
            if isinstance(event, CallStart):
                head, pieces = event, []
            elif isinstance(event, CallArgs):
                pieces.append(event.json)
            elif isinstance(event, CallEnd) and head is not None:
                start, end = self.span(head.start, event.end)
                name = self.span(head.name_start, head.name_end)
                arguments = self.span(event.args_start, event.args_end)
                found.append(
                    CallSpan(head.id, head.name, "".join(pieces), event.status, start, end, name, arguments)
                )
        return found

    @cached_property
    def diagnostics(self) -> list[TokenDiagnostic]:
        """The diagnostics of the message, with positions in tokens."""
        return [
            TokenDiagnostic(
                diagnostic.kind,
                diagnostic.detail,
                *self.span(diagnostic.start, diagnostic.end),
                diagnostic.raw,
            )
            for diagnostic in self.message.diagnostics
        ]

    def mask(self, *labels: Label, broken: bool = True) -> bytes:
        """Return a training mask: 1 for each token to train on, 0 for all others.

        :param labels: labels to train on; by default all tokens that the model wrote.
        :param broken: whether to include calls that are malformed or truncated.
        """
        return mask(self.labels, *labels, broken=broken)


def mask(labels: bytes, *which: Label, broken: bool = True) -> bytes:
    """Return 1 for each token with one of these labels, 0 for all others.

    Without labels, all tokens count that the model wrote.

    >>> list(mask(bytes([0, 1, 1, 7, 8])))
    [0, 1, 1, 1, 0]
    """
    wanted = frozenset(which or WRITTEN)
    counts = bytes(label & KIND in wanted and (broken or not label & BROKEN) for label in range(256))
    return labels.translate(counts)


def label_tokens(
    ids: Ids,
    dialect: str | Dialect,
    *,
    tokenizer: AnyTokenizer,
    tools: ToolList | None = None,
    prompt_ids: Ids | None = None,
    finish_reason: FinishReason | None = None,
    policies: Policies | None = None,
    new_id: Callable[[str, int], str] | None = None,
    pad: int | None = None,
) -> Reading:
    """Parse an output, and label each of its tokens.

    :param ids: the sampled ids; padding may follow them: negative ids, or ``pad``.
    :param prompt_ids: the prompt, or its tail, which shows whether the output begins inside reasoning.
    :param pad: the id of padding.

    The other options are those of :class:`~unspool.Parser`.
    """
    sampled = as_ids(ids)
    parser = Parser(
        dialect,
        tools=tools,
        prompt=None if prompt_ids is None else as_ids(prompt_ids),
        tokenizer=tokenizer,
        policies=policies,
        new_id=new_id,
    )
    widths = parser.measure_tokens()
    length = len(sampled)
    if length and is_padding(sampled[-1], pad):
        length = start_of_padding(sampled, pad, end_ids(parser.dialect, tokenizer))
    events = parser.feed_tokens(sampled if length == len(sampled) else sampled[:length])
    events += parser.finish(finish_reason)
    fold = parser.fold()
    shown = fold.push(events)
    labels = labels_of(widths, stretches(events, shown, ends_of_turn(parser.dialect)))
    labels += bytes([Label.PADDING]) * (len(sampled) - length)
    return Reading(fold.message(), labels, events, widths)


def end_ids(dialect: Dialect, tokenizer: AnyTokenizer) -> frozenset[int]:
    """Return the ids that end a turn of the model."""
    ends = ends_of_turn(dialect)
    special = as_tokenizer(tokenizer).special_tokens()
    return frozenset(id for id, literal in special.items() if literal in ends)


def as_ids(ids: Ids) -> list[int]:
    """Return ids as a list of integers."""
    if isinstance(ids, list):
        return ids
    found = ids.tolist() if isinstance(ids, _Array) else list(ids)
    if not isinstance(found, list) or (found and not isinstance(found[0], int)):
        raise UsageError("ids must be a flat sequence of integers: pass the rows of a batch one by one")
    return found


def is_padding(id: int, pad: int | None) -> bool:
    """Return whether an id is padding."""
    return id < 0 or id == pad


def start_of_padding(ids: list[int], pad: int | None, ends: frozenset[int]) -> int:
    """Return the position at which the padding begins.

    The id of padding may also end a turn.  Then its first occurrence belongs to the turn.
    """
    length = len(ids)
    while length and is_padding(ids[length - 1], pad):
        length -= 1
    if length < len(ids) and ids[length] in ends and not (length and ids[length - 1] in ends):
        length += 1
    return length
