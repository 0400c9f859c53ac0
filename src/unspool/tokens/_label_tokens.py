"""Labels for the tokens of one output, together with the parsed message and the events."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol, runtime_checkable

from .._core.token_ids.labels import LABEL_MASK, WRITTEN, Label, LabelFlag, labels_of, stretches
from .._core.token_ids.tokenizer_adapters import AnyTokenizer, as_tokenizer
from ..dialects import Dialect, ends_of_turn
from ..errors import UsageError
from ..events import CallArgs, CallEnd, CallStart, Event, FinishReason, Status
from ..message import Message
from ..parser import Parser, ToolList
from ..policies import PolicyChoice

Span = tuple[int, int]
"""Position of the first token, and position after the last token."""


@runtime_checkable
class Array(Protocol):
    """NumPy array or PyTorch tensor."""

    def tolist(self) -> object: ...


Ids = Sequence[int] | Iterable[int] | Array
"""Token ids in an iterable such as a list, a NumPy array or a PyTorch tensor."""


@dataclass(frozen=True, slots=True)
class CallSpan:
    """Complete or incomplete tool call; positions are in tokens."""

    id: str
    name: str
    arguments: str
    """JSON text of the arguments, which is incomplete if the call is malformed or truncated."""
    status: Status
    start: int
    """Position of the first token of the call."""
    end: int
    """Position after the last token of the call."""
    name_span: Span
    arguments_span: Span


@dataclass(frozen=True, slots=True)
class TokenDiagnostic:
    """Diagnostic of the parser about a problem in the output; positions are in tokens."""

    kind: str
    """One of ``DIAGNOSTIC_KINDS``."""
    detail: str
    start: int
    end: int
    raw: str = ""
    """The source text of a call that could not be parsed, as the model wrote it."""


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
        """A :class:`Label` for each id, with flags (:class:`LabelFlag`) added."""
        self.events = events
        """The parser's events; offsets refer to the decoded text of the ids, including special tokens."""
        self._widths = widths

    @cached_property
    def _starts(self) -> list[int]:
        """The start of each token's text, as an offset in the decoded text."""
        return list(accumulate(self._widths, initial=0))[:-1]

    def span(self, start: int, end: int) -> Span:
        """Return the span, in tokens, that contains the characters from ``start`` to ``end``."""
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
        """The span of each event, in tokens."""
        return [self.span(event.start, event.end) for event in self.events]

    @cached_property
    def attempts(self) -> list[CallSpan]:
        """All calls that the model began, complete or not, in order."""
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
        """Return a training mask that is 1 for each token to train on, and 0 for all other tokens.

        :param labels: labels of the tokens to train on; by default, all tokens that the model wrote.
        :param broken: whether to include calls that are malformed or truncated.
        """
        return mask(self.labels, *labels, broken=broken)


def mask(labels: bytes, *which: Label, broken: bool = True) -> bytes:
    """Return a mask that is 1 for each token with one of the given labels, and 0 for all other tokens.

    Without labels, the mask is 1 for each token that the model wrote.

    >>> list(mask(bytes([0, 1, 1, 7, 8])))
    [0, 1, 1, 1, 0]
    """
    wanted = frozenset(which or WRITTEN)
    counts = bytes(
        label & LABEL_MASK in wanted and (broken or not label & LabelFlag.BROKEN) for label in range(256)
    )
    return labels.translate(counts)


def label_tokens(
    ids: Ids,
    dialect: str | Dialect,
    *,
    tokenizer: AnyTokenizer,
    tools: ToolList | None = None,
    prompt: str | Ids | None = None,
    prompt_ids: Ids | None = None,
    finish_reason: FinishReason | None = None,
    policies: PolicyChoice | None = None,
    new_id: Callable[[str, int], str] | None = None,
    pad: int | None = None,
) -> Reading:
    """Parse an output, and return the message, the events and a label for each token.

    :param ids: the sampled ids, with or without padding at the end.
    :param prompt: the prompt, or its end, as text or ids.  It determines whether the output begins inside
        reasoning.
    :param prompt_ids: the prompt as ids, instead of ``prompt``.
    :param pad: the id of the padding token; negative ids are also padding.

    The other parameters have the same meaning as in :class:`~unspool.Parser`.
    """
    sampled = as_ids(ids)
    if prompt is not None and prompt_ids is not None:
        raise UsageError("pass either prompt= or prompt_ids=, not both")
    if prompt is None:
        prompt = prompt_ids
    parser = Parser(
        dialect,
        tools=tools,
        prompt=prompt if prompt is None or isinstance(prompt, str) else as_ids(prompt),
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
    shown = fold.feed(events)
    labels = labels_of(widths, stretches(events, shown, ends_of_turn(parser.dialect)))
    labels += bytes([Label.PADDING]) * (len(sampled) - length)
    return Reading(fold.message, labels, events, widths)


def end_ids(dialect: Dialect, tokenizer: AnyTokenizer) -> frozenset[int]:
    """Return the ids that end a turn of the model."""
    ends = ends_of_turn(dialect)
    special = as_tokenizer(tokenizer).special_tokens()
    return frozenset(id for id, literal in special.items() if literal in ends)


def as_ids(ids: Ids) -> list[int]:
    """Convert ids to a list of integers."""
    if isinstance(ids, list):
        return ids
    found = ids.tolist() if isinstance(ids, Array) else list(ids)
    if not isinstance(found, list) or (found and not isinstance(found[0], int)):
        raise UsageError("ids must be a flat sequence of integers: pass the rows of a batch one by one")
    return found


def is_padding(id: int, pad: int | None) -> bool:
    """Return whether ``id`` is padding: a negative id, or ``pad``."""
    return id < 0 or id == pad


def start_of_padding(ids: list[int], pad: int | None, ends: frozenset[int]) -> int:
    """Return the position at which the padding begins.

    If the padding token can also end a turn, the first padding token belongs to the turn.
    """
    length = len(ids)
    while length and is_padding(ids[length - 1], pad):
        length -= 1
    if length < len(ids) and ids[length] in ends and not (length and ids[length - 1] in ends):
        length += 1
    return length
