"""The parser that callers hold: text or tokens in, events out."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from ._core.arguments.select import compile_dialect
from ._core.compiler.compiled_dialect import CompiledDialect
from ._core.machine import Machine
from ._core.mypyc_types import Unchecked, mypyc_attr
from ._core.schema.tools import Tools, as_tools
from ._core.stages.commit_buffer import CommitBuffer
from ._core.stages.message_builder import MessageBuilder
from ._core.stages.whitespace_filter import WhitespaceFilter
from ._core.start_state import (
    begin_in,
    read_prompt,
    relevant_tail,
    relevant_tail_of,
    usual_tail,
)
from ._core.token_ids.reader import TokenReader
from ._core.token_ids.tokenizers import AnyTokenizer
from .dialects._declaration import Dialect
from .dialects._registry import find
from .errors import UsageError
from .events import CallStart, Channel, Event, FinishReason, Markup, Text
from .message import Message
from .policies import DEFAULTS, STRICT, Policies

ToolList: TypeAlias = Iterable[Mapping[str, object]]
"""The tools of a request, as Chat Completions have them, or the functions in them alone."""

_FINISHED: Final = "this parser has finished; make a new Parser for the next output"
_REASONS: Final = (None, "stop", "length", "tool_calls", "content_filter")


@mypyc_attr(allow_interpreted_subclasses=True)
class Parser:
    """Reads one output of a model as it arrives.

    What becomes of its events is decided by its policies, too: ``tidy`` and ``fold``
    make the stages that follow, and the wires of ``unspool.wire`` are made from a parser.

    >>> parser = Parser("hermes")
    >>> parser.feed("Sure. <tool")
    [Text('content', 'Sure. ', 0:6)]
    >>> parser.feed("box>")
    [Text('content', '<toolbox>', 6:15)]
    """

    def __init__(
        self,
        dialect: str | Dialect,
        *,
        tools: ToolList | None = None,
        prompt: Unchecked["str | Iterable[int] | None"] = None,
        continues: bool = False,
        start_channel: Unchecked[Channel | None] = None,
        tokenizer: Unchecked["AnyTokenizer | None"] = None,
        policies: Unchecked[Policies | None] = None,
        strict: bool = False,
        forced: bool = False,
        keep_raw: bool = True,
        new_id: Callable[[str, int], str] | None = None,
    ) -> None:
        """Prepare to read one output.

        :param dialect: a name (any alias will do) or a dialect value.
        :param tools: the tools of the request.  None: not known; empty: none
            were offered, so that markup of calls is text.
        :param prompt: the rendered prompt or its tail, as text, or as ids if there is
            a tokenizer; the framing that it ends with decides whether the output begins
            inside reasoning, content or a message header.
        :param continues: the prompt ends inside a turn of the model, which the output
            continues: what that turn has begun, such as reasoning or a call, goes on.
            Otherwise nothing that was said in the prompt counts.  A turn begins after the
            last control token that is not the dialect's own; if turns begin with
            plain words instead, give the turn alone as the prompt.
        :param start_channel: where the output begins, instead of a prompt: in
            ``reasoning``, or behind it, in ``content``.
        :param tokenizer: the model's tokenizer, if ids will be fed with
            ``feed_tokens`` or ``feed_decoded``; it also selects the variant of the
            dialect that its vocabulary calls for.
        :param policies: choices where users disagree.
        :param strict: short for the policies that fail loudly.
        :param forced: the request forced a call; see the policy ``forced_finish_reason``.
        :param keep_raw: keep the text of the open call, for the case that it
            turns out malformed; without it ``CallEnd.raw`` is empty.  It is always
            kept under the policy ``commit="call"``.
        :param new_id: gives a call its id, from its name and number, where the
            model gives none; by default ids look as the family's do.  ``seeded_ids``
            makes one whose ids do not differ from one time to the next.
        """
        if strict and policies is not None:
            raise UsageError("give either strict=True or policies, not both")
        if policies is not None and not isinstance(policies, Policies):
            raise UsageError(f"policies must be a Policies value, got {type(policies).__name__}")
        if start_channel is not None and start_channel not in ("reasoning", "content"):
            raise UsageError(
                f"start_channel={start_channel!r}: choose reasoning or content, or give the prompt"
            )
        if start_channel is not None and prompt is not None:
            raise UsageError("give either the prompt or start_channel, not both")
        self.dialect = find(dialect, tokenizer)
        """The dialect being read."""
        self.policies = chosen = STRICT if strict else policies or DEFAULTS
        """The policies in force."""
        self.forced = forced
        """Whether the request forced a call."""
        self._tools = as_tools(tools)
        self._reader = None if tokenizer is None else TokenReader(self.dialect, tokenizer)
        spelling = self.dialect if self._reader is None else self._reader.dialect
        self._syntax = syntax = _syntax(spelling, chosen, self._tools)
        if prompt is None:
            self._tail = usual_tail(syntax)
        else:
            plain = syntax if self._reader is None else _syntax(self.dialect, chosen, self._tools)
            self._tail = self._relevant(prompt, plain, continues=continues)
        self._told: Channel | None = start_channel
        # A gate has nothing else to give back a call from.
        self._keep_raw = keep_raw or chosen.commit == "call"
        self._begin(new_id)

    def _begin(self, new_id: Callable[[str, int], str] | None) -> None:
        """Begin with an output; what the options mean was worked out before."""
        syntax, tail, chosen = self._syntax, self._tail, self.policies
        self._machine = machine = Machine(
            syntax,
            self._tools,
            chosen,
            base=-len(tail),
            keep_raw=self._keep_raw,
            new_id=new_id,
            strip=self._tools.refused,
        )
        self._ledger = machine.ledger
        self._primed: list[Event] = read_prompt(machine, syntax, tail) if tail else []
        if self._told is not None:
            self._primed = begin_in(self._told, machine, syntax)
        self.start_channel: Channel = machine.channel
        """The channel that the output begins in, as the prompt says."""
        self._gate = CommitBuffer(machine, chosen, self.start_channel) if chosen.commit == "call" else None
        if self.dialect.prompt.echo:
            self._primed.append(Text("content", self.dialect.prompt.echo, 0, 0))
        self._clip = bool(tail or self._primed)
        self._finished = False
        self._plain = self._needs_nothing()

    @property
    def pending(self) -> int:
        """Characters that came in and are not accounted for by an event yet."""
        pending = self._machine.pending
        if self._gate is not None:
            pending += self._gate.pending
        return pending if self._reader is None else pending + self._reader.pending

    @property
    def max_pending(self) -> int | None:
        """No more than this many characters are held now; None: until a value closes."""
        if self._gate is not None and self._gate.pending:
            return None
        max_pending = self._machine.max_pending
        # Text that came with ids is held against them, until it is clear which special token it belongs to.
        return (
            max_pending
            if max_pending is None or self._reader is None
            else max_pending + self._reader.max_pending
        )

    @property
    def reasoning_ended(self) -> bool:
        """Whether reasoning is over: it was closed, or content or a call has begun.

        >>> parser = Parser("hermes", start_channel="reasoning")
        >>> parser.reasoning_ended, parser.feed("Hm.</think>")[-1].kind, parser.reasoning_ended
        (False, 'reasoning_close', True)
        """
        return self._machine.reasoning_ended

    @property
    def mode(self) -> str:
        """What the machine is doing, for people: text, trial, payload, tail, between or junk."""
        return self._machine.mode

    def feed(self, text: Unchecked[str]) -> "list[Event]":
        """Take the next piece of output, of any length; returns what it decides."""
        if self._plain and isinstance(text, str):
            return self._ledger.feed(text, self._machine)
        if self._finished:
            raise UsageError(_FINISHED)
        if not isinstance(text, str):
            raise UsageError(
                f"feed() takes text, got {type(text).__name__}; decode bytes, or use feed_tokens() for ids"
            )
        if self._reader is not None:
            raise UsageError(
                "this parser has a tokenizer and reads ids: use feed_tokens(), or make one without it"
            )
        events = self._machine.feed(text)
        if self._clip or self._gate is not None:
            events = self._post(events)
        return events

    def feed_tokens(self, ids: Iterable[int]) -> "list[Event]":
        """Take the next tokens.  Needs ``tokenizer``; spans are in the decoded text."""
        if self._finished:
            raise UsageError(_FINISHED)
        if self._reader is None:
            raise UsageError("feed_tokens() needs the model's tokenizer: Parser(..., tokenizer=...)")
        if self._reader.alignment is not None:
            raise UsageError("feed_decoded() was called before; go on with it: the text says what is shown")
        return self._read_ids(self._reader, self._reader.feed(ids))

    def feed_decoded(self, text: str, ids: Iterable[int]) -> "list[Event]":
        """Take the next text as an engine decoded it, and the ids that it comes from.  Needs ``tokenizer``.

        The text is what is shown; the ids tell a marker from its spelling.  The text may
        lag behind the ids, leave special tokens out, and end before them, where a stop
        string cut it.  Spans are in the text with its special tokens.
        """
        if self._finished:
            raise UsageError(_FINISHED)
        if self._reader is None:
            raise UsageError("feed_decoded() needs the model's tokenizer: Parser(..., tokenizer=...)")
        return self._read_ids(self._reader, self._reader.align(text, ids))

    def finish(self, reason: Unchecked[FinishReason | None] = None) -> "list[Event]":
        """No more output follows.

        :param reason: why generation stopped.  It decides whether a name that
            the output ends with is a call or was cut.
        """
        if self._finished:
            raise UsageError("finish() was called before; a parser reads one output")
        if reason not in _REASONS:
            raise UsageError(
                f"reason={reason!r}: choose one of stop, length, tool_calls, content_filter or None"
            )
        self._finished = True
        self._plain = False
        events = self._machine.feed(self._reader.end()) if self._reader is not None else []
        events += self._machine.finish(reason)
        if self._clip or self._gate is not None or self._reader is not None:
            events = self._post(events)
        return events

    def measure_tokens(self) -> list[int]:
        """How many characters begin in each token: a list that grows with the ids that are fed.

        Together with the spans of events it says which tokens these are.  Ask before the first ids.
        """
        if self._reader is None:
            raise UsageError("measure_tokens() needs the model's tokenizer: Parser(..., tokenizer=...)")
        return self._reader.measure()

    def tidy(self) -> WhitespaceFilter:
        """A stage that takes framing white space out of this parser's events."""
        return WhitespaceFilter(self)

    def fold(self, *, source: str = "") -> MessageBuilder:
        """A stage that puts this parser's events together.

        :param source: the whole output, if it is at hand, for errors that show where.
        """
        return MessageBuilder(self, source=source)

    def message(self, events: "Iterable[Event]") -> Message:
        """The message that all events of an output amount to.

        >>> parser = Parser("hermes")
        >>> parser.message(parser.feed("Hello.") + parser.finish("stop")).content
        'Hello.'
        """
        fold = self.fold()
        fold.push(events)
        return fold.message()

    def _relevant(self, prompt: "str | Iterable[int]", syntax: CompiledDialect, *, continues: bool) -> str:
        """What counts of the prompt, as the machine reads it."""
        reader = self._reader
        if reader is None:
            if not isinstance(prompt, str):
                raise UsageError(
                    f"prompt must be the rendered prompt as text, got {type(prompt).__name__}; "
                    "for its ids the parser needs the model's tokenizer"
                )
            return relevant_tail(prompt, syntax, continues=continues)
        if isinstance(prompt, str):
            return reader.prompt(relevant_tail(prompt, syntax, continues=continues))
        ids = list(prompt)
        return reader.prompt(
            relevant_tail_of(lambda last: reader.spell(ids[-last:]), len(ids), syntax, continues=continues)
        )

    def _read_ids(self, reader: TokenReader, text: str) -> "list[Event]":
        events = self._machine.feed(text)
        if self._clip or self._gate is not None:
            return self._post(events)
        return reader.plain(events)

    def _needs_nothing(self) -> bool:
        """Whether events can go out as the machine makes them, as is so for most of most outputs."""
        return not self._clip and self._gate is None and self._reader is None

    def _post(self, events: list[Event]) -> list[Event]:
        if self._clip:
            if self._primed:
                events = self._primed + events
                self._primed = []
            self._clip = self._machine.before_output
            self._plain = self._needs_nothing()
            events = [event for event in map(_clipped, events) if event is not None]
        if self._reader is not None:
            events = self._reader.plain(events)
        if self._gate is not None:
            events = self._gate.push(events)
        return events


class Outputs:
    """Parsers for one output after the other, most of which have the same options."""

    def __init__(self, policies: Policies | None) -> None:
        self._policies = policies
        self._parser: Parser | None = None  # the last one, and its options
        self._dialect: Dialect | None = None
        self._tools: ToolList | None = None
        self._prompt: str | None = None

    def parser(
        self,
        dialect: Dialect,
        tools: ToolList | None,
        prompt: str | None,
        new_id: Callable[[str, int], str],
    ) -> Parser:
        """One that begins; the one before is over."""
        parser = self._parser
        if (
            parser is None
            or dialect is not self._dialect
            or tools is not self._tools
            or prompt != self._prompt
        ):
            parser = Parser(dialect, tools=tools, prompt=prompt, policies=self._policies, new_id=new_id)
            self._parser, self._dialect, self._tools, self._prompt = parser, dialect, tools, prompt
        else:
            parser._begin(new_id)  # noqa: SLF001 - the same file
        return parser


def _syntax(dialect: Dialect, policies: Policies, tools: Tools) -> CompiledDialect:
    # By position: the cache takes twice as long to look up named arguments.
    return compile_dialect(
        dialect,
        not tools.refused or policies.no_tools == "strip",
        tools.declared,
        policies.calls_in_reasoning == "call",
        policies.malformed_call == "repair",
    )


def _clipped(event: Event) -> Event | None:
    """The part of an event that belongs to the output, not to the prompt."""
    if event.start >= 0:
        return event
    beyond = -event.start
    event.start = 0
    event.end = max(event.end, 0)
    if isinstance(event, (Text, Markup)):
        if not event.end:
            return None
        event.text = event.text[beyond:]
    elif isinstance(event, CallStart):
        event.name_start = max(event.name_start, 0)
        event.name_end = max(event.name_end, 0)
    return event


def parse(
    text: str,
    dialect: str | Dialect,
    *,
    tools: ToolList | None = None,
    prompt: str | None = None,
    continues: bool = False,
    policies: Policies | None = None,
    strict: bool = False,
    finish_reason: FinishReason | None = None,
    new_id: Callable[[str, int], str] | None = None,
) -> Message:
    """Take a whole output apart.  The same machine as for streams, fed once.

    The options are those of ``Parser``; ``finish_reason`` is what ``Parser.finish`` takes.

    >>> parse('<tool_call>{"name": "now", "arguments": {}}</tool_call>', "hermes").tool_calls[0].name
    'now'
    """
    parser = Parser(
        dialect,
        tools=tools,
        prompt=prompt,
        continues=continues,
        policies=policies,
        strict=strict,
        new_id=new_id,
    )
    events = parser.feed(text)
    events += parser.finish(finish_reason)
    fold = parser.fold(source=text)
    fold.push(events)
    return fold.message()


def seeded_ids(seed: str | int, dialect: str | Dialect) -> Callable[[str, int], str]:
    """Ids for ``new_id`` that look as the dialect's do and follow from a seed: the row of a dataset, say.

    >>> text = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    >>> rows = [parse(text, "hermes", new_id=seeded_ids("row 17", "hermes")) for _ in range(2)]
    >>> rows[0] == rows[1]
    True
    """
    return find(dialect).id_format.seeded(seed)
