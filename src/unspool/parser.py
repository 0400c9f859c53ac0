"""Streaming parser, which converts text or token ids to events.

``Parser`` connects the parts of the core, in this order, for one output:

1. ``TokenReader`` turns token ids into text, if there is a tokenizer.
2. ``Machine`` turns text into events.
3. ``_finish_events`` removes text that belongs to the prompt, and restores the text of special tokens.
4. ``CommitBuffer`` holds each call until it is complete, under the policy ``commit="call"``.

Most parsers need only the second step, so ``feed`` passes text directly to the machine if possible.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from ._core.compile_cache import compiled_dialect
from ._core.compiler.compiled_dialect import CompiledDialect
from ._core.machine import Machine
from ._core.mypyc_types import Unchecked, mypyc_attr
from ._core.read_prompt_end import (
    read_prompt,
    relevant_tail,
    relevant_tail_of,
    start_in_channel,
    usual_tail,
)
from ._core.schema.tools import Tools, as_tools
from ._core.stages.message_builder import MessageBuilder
from ._core.stages.unread_calls import UnreadCalls
from ._core.stages.whitespace_filter import WhitespaceFilter
from ._core.stages.whole_call_buffer import CommitBuffer
from ._core.token_ids.reader import TokenReader
from ._core.token_ids.tokenizer_adapters import AnyTokenizer
from .dialects import Dialect, find, is_dialect
from .errors import UnknownDialect, UsageError
from .events import CallStart, Channel, Event, FinishReason, Markup, Text
from .message import Message
from .policies import Policies, PolicyChoice, as_policies

__all__ = [
    "Parser",
    "ToolList",
    "parse",
    "seeded_ids",
]

ToolList: TypeAlias = Iterable[Mapping[str, object]]
"""Tools of a request, in the format of Chat Completions; or only the ``function`` object of each tool."""

_FINISHED: Final = "finish() was called before; create a new Parser for the next output"
_REASONS: Final = (None, "stop", "length", "tool_calls", "content_filter")


@mypyc_attr(allow_interpreted_subclasses=True)
class Parser:
    """Streaming parser for one output of a model.

    ``tidy``, ``fold`` and the encoders of ``unspool.wire`` process the parser's events further, and apply the
    parser's policies.

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
        policies: Unchecked["PolicyChoice | None"] = None,
        forced: bool = False,
        keep_raw: bool = True,
        new_id: Callable[[str, int], str] | None = None,
    ) -> None:
        """Create a parser for one output.

        :param dialect: name or alias of a dialect, or a ``Dialect``.
        :param tools: the tools of the request.  None means that the tools are unknown.  An empty list means
            that the request offered no tools; markup of calls is then treated as text.
        :param prompt: the rendered prompt, or the end of it, as text; or as token ids if ``tokenizer`` is
            passed.  The markers at the end of the prompt show whether the output begins inside reasoning,
            content or the header of a message.
        :param continues: whether the prompt ends inside a turn of the model, and the output continues this
            turn, even in the middle of reasoning or of a call.  A turn begins after the last control token
            that does not belong to the dialect.  If turns begin with ordinary words instead, pass only the
            unfinished turn as the prompt.
        :param start_channel: the channel in which the output begins, for callers that do not pass ``prompt``:
            ``reasoning``, or ``content`` if the reasoning is already over.
        :param tokenizer: the model's tokenizer, needed for ``feed_tokens`` and ``feed_decoded``.  It
            also selects the variant of the dialect that fits its vocabulary.
        :param policies: choices for cases without a single right answer: a :class:`Policies` object, the name
            of a preset such as ``strict`` or ``vllm``, or a mapping.
        :param forced: whether the request forced a call; see
            ``unspool.wire.WireOptions.forced_finish_reason``.
        :param keep_raw: whether to keep the text of the open call.  ``CallEnd.raw`` contains this text if the
            call turns out to be malformed or truncated.  Always on under the policy ``commit="call"``.
        :param new_id: a function that returns an id for a call to which the model gave no id.  Its arguments
            are the name of the function and the index of the call.  By default, ids have the format of the
            model family.  ``seeded_ids`` returns a function for reproducible ids.
        """
        if start_channel is not None and start_channel not in ("reasoning", "content"):
            raise UsageError(
                f"start_channel={start_channel!r}: choose reasoning or content, or pass prompt= instead"
            )
        if start_channel is not None and prompt is not None:
            raise UsageError("pass either prompt= or start_channel=, not both")
        self.dialect = find(dialect, tokenizer)
        """Dialect of the output."""
        self.policies: Policies = as_policies(policies)
        """Policies that the parser applies."""
        self.forced = forced
        """True if the request forced a call."""
        self._tools = as_tools(tools)
        self._reader = None if tokenizer is None else TokenReader(self.dialect, tokenizer)
        # With a tokenizer, each special token is a single code point, in the templates and in the input.
        spelling = self.dialect if self._reader is None else self._reader.dialect
        self._compiled = compiled = _compiled_for(spelling, self.policies, self._tools)
        if prompt is None:
            self._tail = usual_tail(compiled)
        else:
            by_text = (
                compiled if self._reader is None else _compiled_for(self.dialect, self.policies, self._tools)
            )
            self._tail = self._relevant_tail(prompt, by_text, continues=continues)
        self._given_start: Channel | None = start_channel
        # The commit buffer needs the raw text of a call that it turns back into text.
        self._keep_raw = keep_raw or self.policies.commit == "call"
        self._start(new_id)

    def _start(self, new_id: Callable[[str, int], str] | None) -> None:
        """Prepare for a new output, with the options that ``__init__`` has stored."""
        compiled, tail, policies = self._compiled, self._tail, self.policies
        self._machine = machine = Machine(
            compiled,
            self._tools,
            policies,
            base=-len(tail),
            keep_raw=self._keep_raw,
            new_id=new_id,
            remove_calls=self._tools.refused,
            unread_calls=UnreadCalls(self.dialect, self._tools, policies.calls_in_reasoning == "call")
            if compiled.has_calls and not self._tools.refused
            else None,
        )
        self._first_events: list[Event] = read_prompt(machine, compiled, tail) if tail else []
        if self._given_start is not None:
            self._first_events = start_in_channel(self._given_start, machine, compiled)
        self.start_channel: Channel = machine.channel
        """Channel in which the output begins, according to the prompt."""
        self._commit_buffer = (
            CommitBuffer(machine, policies, self.start_channel) if policies.commit == "call" else None
        )
        if self.dialect.habits.echo:
            self._first_events.append(Text("content", self.dialect.habits.echo, 0, 0))
        # True while events may still belong to the prompt, and while `_first_events` are not returned yet.
        self._at_start = bool(tail or self._first_events)
        self._finished = False
        self._is_direct = self._can_be_direct()

    @property
    def tools(self) -> ToolList:
        """Functions that the request declares."""
        return self._tools

    @property
    def pending(self) -> int:
        """Number of input characters that are not part of any event yet."""
        pending = self._machine.pending
        if self._commit_buffer is not None:
            pending += self._commit_buffer.pending
        return pending if self._reader is None else pending + self._reader.pending

    @property
    def max_pending(self) -> int | None:
        """Upper bound on ``pending`` in the current state; None if it can grow until a value or call ends."""
        if self._commit_buffer is not None and self._commit_buffer.pending:
            return None
        max_pending = self._machine.max_pending
        if max_pending is None or self._reader is None:
            return max_pending
        # Text that was fed with token ids is held back until the positions of the special tokens are clear.
        return max_pending + self._reader.max_pending

    @property
    def reasoning_ended(self) -> bool:
        """True if the reasoning was closed, or if content or a call has begun.

        >>> parser = Parser("hermes", start_channel="reasoning")
        >>> parser.reasoning_ended, parser.feed("Hm.</think>")[-1].kind, parser.reasoning_ended
        (False, 'reasoning_close', True)
        """
        return self._machine.reasoning_ended

    @property
    def mode(self) -> str:
        """Name of the machine's mode, for display: text, matching, arguments, tail, between or recovery."""
        return self._machine.mode

    def feed(self, text: Unchecked[str]) -> "list[Event]":
        """Read the next chunk of the output, of any length, and return the events that are now certain."""
        # This line runs for every delta; `isinstance` would take twice as long.
        if self._is_direct and type(text) is str:
            return self._machine.feed(text)
        if self._finished:
            raise UsageError(_FINISHED)
        if not isinstance(text, str):
            raise UsageError(
                f"feed() takes text, got {type(text).__name__}; decode bytes, or use feed_tokens() for ids"
            )
        if self._reader is not None:
            raise UsageError(
                "this parser has a tokenizer: call feed_tokens(), or create a parser without tokenizer="
            )
        return self._finish_events(self._machine.feed(text))

    def feed_tokens(self, ids: Iterable[int]) -> "list[Event]":
        """Read the next token ids and return the events that are now certain.  Requires ``tokenizer``.

        The offsets of events refer to the decoded text.
        """
        if self._finished:
            raise UsageError(_FINISHED)
        if self._reader is None:
            raise UsageError("feed_tokens() needs the model's tokenizer: Parser(..., tokenizer=...)")
        if self._reader.alignment is not None:
            raise UsageError("feed_decoded() was called before; use it for the whole output")
        return self._finish_events(self._machine.feed(self._reader.feed(ids)))

    def feed_decoded(self, text: str, ids: Iterable[int]) -> "list[Event]":
        """Read the next text that an engine has decoded, together with its token ids.

        Requires ``tokenizer``.  Events contain the decoded text.  The ids are needed to distinguish a marker
        from text that merely looks like a marker.  The text may arrive later than its ids, may lack special
        tokens, and may end before the ids do, at a stop string.  The offsets of events refer to the text with
        all special tokens in it.
        """
        if self._finished:
            raise UsageError(_FINISHED)
        if self._reader is None:
            raise UsageError("feed_decoded() needs the model's tokenizer: Parser(..., tokenizer=...)")
        return self._finish_events(self._machine.feed(self._reader.align(text, ids)))

    def finish(self, reason: Unchecked[FinishReason | None] = None) -> "list[Event]":
        """End the output and return the last events.

        :param reason: the reason why generation stopped.  If the output ends with a function's name, this
            reason shows whether the name was cut off.
        """
        if self._finished:
            raise UsageError("finish() was called before; create a new Parser for the next output")
        if reason not in _REASONS:
            raise UsageError(
                f"reason={reason!r}: choose one of stop, length, tool_calls, content_filter or None"
            )
        self._finished = True
        self._is_direct = False
        events = self._machine.feed(self._reader.finish()) if self._reader is not None else []
        events += self._machine.finish(reason)
        return self._finish_events(events)

    def measure_tokens(self) -> list[int]:
        """Return a list with the number of characters that begin in each token; each feed extends the list.

        Use the list to convert offsets of events to token indices.  Call this method before the first
        feed.
        """
        if self._reader is None:
            raise UsageError("measure_tokens() needs the model's tokenizer: Parser(..., tokenizer=...)")
        return self._reader.measure()

    def tidy(self) -> WhitespaceFilter:
        """Return a filter that removes formatting whitespace from the events of this parser."""
        return WhitespaceFilter(self)

    def fold(self, *, source: str = "") -> MessageBuilder:
        """Return a builder that collects the events of this parser into a message.

        :param source: the whole output, if it is known, so that errors can quote it.
        """
        return MessageBuilder(self, source=source)

    def message(self, events: "Iterable[Event]") -> Message:
        """Build the message from all events of an output.

        >>> parser = Parser("hermes")
        >>> parser.message(parser.feed("Hello.") + parser.finish("stop")).content
        'Hello.'
        """
        builder = self.fold()
        builder.feed(events)
        return builder.message

    def _relevant_tail(
        self, prompt: "str | Iterable[int]", compiled: CompiledDialect, *, continues: bool
    ) -> str:
        """Return the part of the prompt that the machine must read, converted like the machine's input.

        :param compiled: the dialect, compiled with special tokens as text, as they are in a prompt.
        """
        reader = self._reader
        if reader is None:
            if not isinstance(prompt, str):
                raise UsageError(
                    f"prompt must be the rendered prompt as text, got {type(prompt).__name__}; "
                    "to pass token ids, also pass tokenizer="
                )
            return relevant_tail(prompt, compiled, continues=continues)
        if isinstance(prompt, str):
            return reader.prompt(relevant_tail(prompt, compiled, continues=continues))
        ids = list(prompt)
        return reader.prompt(
            relevant_tail_of(lambda last: reader.spell(ids[-last:]), len(ids), compiled, continues=continues)
        )

    def _can_be_direct(self) -> bool:
        """Return whether ``feed`` can return the machine's events without further processing."""
        return not self._at_start and self._commit_buffer is None and self._reader is None

    def _finish_events(self, events: list[Event]) -> list[Event]:
        """Apply steps 3 and 4 of the module's docstring to events of the machine."""
        if self._at_start:
            if self._first_events:
                events = self._first_events + events
                self._first_events = []
            self._at_start = self._machine.before_output
            self._is_direct = not self._finished and self._can_be_direct()
            events = [event for event in map(_without_prompt, events) if event is not None]
        if self._reader is not None:
            events = self._reader.plain(events)
        if self._commit_buffer is not None:
            events = self._commit_buffer.feed(events)
        return events


class Outputs:
    """Factory of parsers for many outputs; if the options stay the same, the last parser is reused."""

    def __init__(self, policies: PolicyChoice | None) -> None:
        self._policies = policies
        self._parser: Parser | None = None  # the last parser; the next three attributes are its options
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
        """Return a parser for the next output; the parser returned before must not be used again."""
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
            parser._start(new_id)  # noqa: SLF001 - the same file
        return parser


def _compiled_for(dialect: Dialect, policies: Policies, tools: Tools) -> CompiledDialect:
    """Return a dialect that was compiled for the policies and the tools of a request."""
    # The options are positional, because the cache is twice as slow with keyword arguments.
    return compiled_dialect(
        dialect,
        not tools.refused or policies.no_tools == "drop",
        tools.declared,
        policies.calls_in_reasoning == "call",
        policies.malformed_call == "repair",
        policies.bare_calls,
    )


def _without_prompt(event: Event) -> Event | None:
    """Remove the prompt's text from an event; return None if the event contains nothing else."""
    if event.start >= 0:
        return event
    in_prompt = -event.start
    event.start = 0
    event.end = max(event.end, 0)
    if isinstance(event, (Text, Markup)):
        if not event.end:
            return None
        event.text = event.text[in_prompt:]
    elif isinstance(event, CallStart):
        event.name_start = max(event.name_start, 0)
        event.name_end = max(event.name_end, 0)
    return event


def parse(
    text: Unchecked["str | Iterable[int]"],
    dialect: str | Dialect,
    *,
    tools: ToolList | None = None,
    prompt: Unchecked["str | Iterable[int] | None"] = None,
    continues: bool = False,
    start_channel: Unchecked[Channel | None] = None,
    tokenizer: Unchecked["AnyTokenizer | None"] = None,
    policies: Unchecked["PolicyChoice | None"] = None,
    finish_reason: FinishReason | None = None,
    new_id: Callable[[str, int], str] | None = None,
) -> Message:
    """Parse a complete output and return the message.

    The whole output is fed to a streaming parser at once.  The options are those of ``Parser``.

    :param text: the output as text; or as token ids, if ``tokenizer`` is passed.
    :param finish_reason: the reason why generation stopped, as for ``Parser.finish``.

    >>> parse('<tool_call>{"name": "now", "arguments": {}}</tool_call>', "hermes").tool_calls[0].name
    'now'
    """
    try:
        parser = Parser(
            dialect,
            tools=tools,
            prompt=prompt,
            continues=continues,
            start_channel=start_channel,
            tokenizer=tokenizer,
            policies=policies,
            new_id=new_id,
        )
    except UnknownDialect:
        if isinstance(text, str) and len(text) < 100 and is_dialect(text):
            raise UsageError(f"the arguments are swapped: call parse(text, {text!r})") from None
        raise
    if isinstance(text, Dialect):
        raise UsageError("the arguments are swapped: call parse(text, dialect)")
    if isinstance(text, str):
        if tokenizer is not None:
            raise UsageError("with tokenizer=, parse() takes token ids: leave tokenizer= out to parse text")
        events = parser.feed(text)
    elif tokenizer is None or isinstance(text, bytes):
        raise UsageError(
            f"parse() takes text, got {type(text).__name__}: decode bytes; "
            "for token ids, also pass tokenizer="
        )
    else:
        events = parser.feed_tokens(text)
    events += parser.finish(finish_reason)
    builder = parser.fold(source=text if isinstance(text, str) else "")
    builder.feed(events)
    return builder.message


def seeded_ids(seed: str | int, dialect: str | Dialect) -> Callable[[str, int], str]:
    """Return a function for ``new_id`` that derives ids from a seed, in the format of the dialect.

    >>> text = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    >>> rows = [parse(text, "hermes", new_id=seeded_ids("row 17", "hermes")) for _ in range(2)]
    >>> rows[0] == rows[1]
    True
    """
    return find(dialect).id_format.seeded(seed)
