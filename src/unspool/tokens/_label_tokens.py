"""An output as ids: the message, and what every token of it is."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol, runtime_checkable

from .._core.token_ids.labels import BROKEN, KIND, WRITTEN, Label, labels_of, stretches
from .._core.token_ids.tokenizers import AnyTokenizer, as_tokenizer
from ..dialects._declaration import Dialect
from ..dialects._registry import ends_of_turn
from ..errors import UsageError
from ..events import CallArgs, CallEnd, CallStart, Event, FinishReason, Status
from ..message import Message
from ..parser import Parser, ToolList
from ..policies import Policies

Span = tuple[int, int]
"""Tokens, from the first to behind the last."""


@runtime_checkable
class _Array(Protocol):
    """What numpy's arrays and torch's tensors have in common."""

    def tolist(self) -> object: ...


Ids = Sequence[int] | Iterable[int] | _Array
"""Ids in whatever holds them: a list, an array of numpy, a tensor of torch."""


@dataclass(frozen=True, slots=True)
class CallSpan:
    """A call that the model began, whatever became of it; places are in tokens."""

    id: str
    name: str
    arguments: str
    """JSON text; of a broken call as far as it goes."""
    status: Status
    start: int
    """Its first token, ..."""
    end: int
    """... and the one behind its last."""
    name_span: Span
    arguments_span: Span


@dataclass(frozen=True, slots=True)
class TokenDiagnostic:
    """Something that is wrong with the output, or had to be guessed; places are in tokens."""

    kind: str
    """One of ``DIAGNOSTIC_KINDS``."""
    detail: str
    start: int
    end: int
    raw: str = ""
    """For a call that did not make it: what the model wrote."""


class Reading:
    """What ids amount to; :func:`read` makes them."""

    def __init__(
        self,
        message: Message,
        labels: bytes,
        events: list[Event],
        widths: Sequence[int],
    ) -> None:
        self.message = message
        """What the output says."""
        self.labels = labels
        """A :class:`Label` for each id, with the flags ``SHARED`` and ``BROKEN``."""
        self.events = events
        """The events of the parser; their offsets are in the text of the ids, special tokens spelt out."""
        self._widths = widths

    @cached_property
    def _starts(self) -> list[int]:
        """Where the text of each token begins."""
        return list(accumulate(self._widths, initial=0))[:-1]

    def span(self, start: int, end: int) -> Span:
        """The tokens that characters of the text are in."""
        starts, widths = self._starts, self._widths
        if not starts:
            return 0, 0
        if end <= start:
            at = bisect_left(starts, start)
            return at, at
        first = max(bisect_right(starts, start) - 1, 0)
        behind = bisect_left(starts, end)
        while behind < len(starts) and not widths[behind]:
            behind += 1
        return first, behind

    @cached_property
    def spans(self) -> list[Span]:
        """The tokens of each event."""
        return [self.span(event.start, event.end) for event in self.events]

    @cached_property
    def attempts(self) -> list[CallSpan]:
        """Every call that the model began."""
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
        """What is wrong, as in ``message.diagnostics``."""
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
        """A 1 for each token to train on, a 0 for each other.

        :param labels: which to train on; by default all that the model wrote.
        :param broken: whether calls count that are malformed or cut.
        """
        return mask(self.labels, *labels, broken=broken)


def mask(labels: bytes, *which: Label, broken: bool = True) -> bytes:
    """A 1 for each token with one of these labels, by default those of what the model wrote, else a 0.

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
    """Take an output apart, and say what every token of it is.

    :param ids: what the model sampled; behind its end there may be padding: ids below 0, or ``pad``.
    :param prompt_ids: the prompt, or its tail: it says whether the output begins inside reasoning.
    :param pad: the id that sequences are filled up with.

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
        length = behind_last(sampled, pad, end_ids(parser.dialect, tokenizer))
    events = parser.feed_tokens(sampled if length == len(sampled) else sampled[:length])
    events += parser.finish(finish_reason)
    fold = parser.fold()
    shown = fold.push(events)
    labels = labels_of(widths, stretches(events, shown, ends_of_turn(parser.dialect)))
    labels += bytes([Label.PADDING]) * (len(sampled) - length)
    return Reading(fold.message(), labels, events, widths)


def end_ids(dialect: Dialect, tokenizer: AnyTokenizer) -> frozenset[int]:
    """The ids that end a turn of the model."""
    ends = ends_of_turn(dialect)
    special = as_tokenizer(tokenizer).special_tokens()
    return frozenset(id for id, literal in special.items() if literal in ends)


def as_ids(ids: Ids) -> list[int]:
    """Ids as a list of numbers."""
    if isinstance(ids, list):
        return ids
    found = ids.tolist() if isinstance(ids, _Array) else list(ids)
    if not isinstance(found, list) or (found and not isinstance(found[0], int)):
        raise UsageError("ids must be a flat sequence of numbers; give the rows of a batch one by one")
    return found


def is_padding(id: int, pad: int | None) -> bool:
    """Whether an id only fills up a sequence."""
    return id < 0 or id == pad


def behind_last(ids: list[int], pad: int | None, ends: frozenset[int]) -> int:
    """Where the padding begins; what ends a turn may be what sequences are filled up with, too."""
    length = len(ids)
    while length and is_padding(ids[length - 1], pad):
        length -= 1
    if length < len(ids) and ids[length] in ends and not (length and ids[length - 1] in ends):
        length += 1
    return length
