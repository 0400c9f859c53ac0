"""The detector of calls: what is left of an output behind its reasoning."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, wraps
from typing import Any, ClassVar, Final

from ...dialects._declaration import Dialect
from ...dialects._registry import facts_of
from ...events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    FinishReason,
    Markup,
    Text,
)
from ...grammar import Grammar, grammar_for
from ...parser import Parser
from ...planning._choice_parser import OneCall
from .._deltas import Delta, Deltas
from .._engine import DETECTED, DiagnosticLog, offered
from . import _compat as compat
from ._resolve_dialect import STANDING, dialect_of, is_ours, taken_over
from ._turn_context import current

diagnostics: Final = DiagnosticLog(compat.log)


class CallReader:
    """Reads the calls and the content of one output."""

    def __init__(
        self, dialect: Dialect, tools: Sequence[Mapping[str, object]] | None, *, one_call: bool
    ) -> None:
        self._parser = Parser(dialect, tools=tools, start_channel="content")
        self._deltas = Deltas(self._parser)
        self._one = OneCall() if one_call else None
        self._arguments: list[list[str]] = []
        self.names: list[str] = []
        """Of the calls so far."""
        self.open: int | None = None
        """The call that is being written."""
        self.cut: set[int] = set()
        self.malformed: set[int] = set()

    def feed(self, text: str) -> Delta:
        """More of the output: what it adds to the content, and to the calls."""
        if self._one is not None:
            self._one.see(text)
        return self._read(self._parser.feed(text))

    def finish(self, reason: FinishReason | None) -> Delta:
        """No more output follows."""
        return self._read(self._parser.finish(reason))

    @property
    def finish_reason(self) -> FinishReason:
        """How the output ended."""
        return self._deltas.finish_reason

    def report(self) -> None:
        """Say what was wrong with it."""
        diagnostics.report(self._parser.dialect.name, self._deltas.notes)

    def _read(self, events: list[Event]) -> Delta:
        if self._one is not None:
            events = self._one.push(events)
        if len(events) != 1 or not isinstance(events[0], CallArgs):
            events = list(map(self._seen, events))
        delta = self._deltas.push(events)
        for call in delta.calls:
            if call.name is not None:
                self.names.append(call.name)
                self._arguments.append([])
            self._arguments[call.index].append(call.arguments)
        return delta

    def _seen(self, event: Event) -> Event:
        """Follow an event; reasoning is content here: it is in the text where nobody wanted it apart."""
        if isinstance(event, CallStart):
            self.open = event.index
        elif isinstance(event, CallEnd):
            self.open = None
            if event.status != "complete":
                (self.cut if event.status == "truncated" else self.malformed).add(event.index)
        elif (isinstance(event, Text) and event.channel == "reasoning") or (
            isinstance(event, Markup) and event.kind in ("reasoning_open", "reasoning_close")
        ):
            return Text("content", event.text, event.start, event.end)
        return event

    @property
    def arguments(self) -> list[str]:
        """Of each call, as far as they were handed on; joined when asked for, so that time stays linear."""
        return ["".join(pieces) for pieces in self._arguments]


class ToolDetector:
    """Stands before a class of SGLang's, and reads in its place.

    Under one of SGLang's own names that class is the one it had there, so that
    whatever the server asks of it but reading goes on as before.
    """

    name: ClassVar[str] = ""
    world: ClassVar[compat.ToolWorld]
    accepts: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, tokenizer: object | None = None, **options: Any) -> None:
        if tokenizer is not None and "tokenizer" in self.accepts:
            options["tokenizer"] = tokenizer
        self._reader: CallReader | None = None
        super().__init__(**options)
        self._tokenizer = tokenizer
        self._looked: tuple[str, bool] = ("", False)
        self.told: Sequence[Any] | None = None
        """The tools of the request, where they are known before the text is."""
        self._offered: tuple[object, list[dict[str, Any]] | None] = (None, None)
        if is_ours(self.name):
            self.bot_token, self.eot_token = _markers(self.dialect)

    @cached_property
    def dialect(self) -> Dialect:
        """What is read."""
        turn = current()
        other = turn.reasoning if turn is not None and turn.tool == self.name else None
        return dialect_of(self.name, other if other in STANDING else None, self._tokenizer)

    # -- reading

    def has_tool_call(self, text: str) -> bool:
        """Whether the text is not what clients are to see as it is."""
        if self._looked[0] != text:
            turn = current()
            reader = CallReader(self.dialect, self._mappings(self.told), one_call=False)
            found = (reader.feed(text), reader.finish(None if turn is None else turn.reason))
            content = "".join(delta.content for delta in found)
            self._looked = (text, bool(reader.names) or content != text)
        return self._looked[1]

    def detect_and_parse(self, text: str, tools: Sequence[Any]) -> Any:
        """A whole output: the same reading, in one piece."""
        self._reader = None
        content = self._reading(tools).feed(text).content + self._finish(tools).content
        calls = [
            self.world.item(tool_index=index, name=call["name"], parameters=call["arguments"])
            for index, call in enumerate(self.prev_tool_call_arr)
        ]
        return self.world.result(normal_text=content, calls=calls)

    def parse_streaming_increment(self, new_text: str, tools: Sequence[Any]) -> Any:
        """The next piece of an output."""
        return self._streamed((self._reader or self._reading(tools)).feed(new_text))

    def finish(self, tools: Sequence[Any]) -> Any:
        """The stream is over."""
        return self._streamed(self._finish(tools))

    # What the server reads of a detector's state.  Its classes have attributes for it, and set them first.

    @property
    def prev_tool_call_arr(self) -> list[dict[str, str]]:
        """The calls so far; nothing of them is left to be sent."""
        if self._reader is None:
            return []
        pairs = zip(self._reader.names, self._reader.arguments, strict=True)
        return [{"name": name, "arguments": arguments} for name, arguments in pairs]

    @prev_tool_call_arr.setter
    def prev_tool_call_arr(self, value: object) -> None:
        del value

    @property
    def streamed_args_for_tool(self) -> list[str]:
        """The arguments that were sent."""
        return [] if self._reader is None else self._reader.arguments

    @streamed_args_for_tool.setter
    def streamed_args_for_tool(self, value: object) -> None:
        del value

    @property
    def current_tool_id(self) -> int:
        """The number of the last call."""
        return -1 if self._reader is None else len(self._reader.names) - 1

    @current_tool_id.setter
    def current_tool_id(self, value: object) -> None:
        del value

    @property
    def incomplete_tool_call_indices(self) -> set[int]:
        """Calls that are not to look complete."""
        reader = self._reader
        if reader is None:
            return set()
        turn = current()
        broken = reader.cut | reader.malformed if turn is not None and turn.responses else set(reader.cut)
        return broken if reader.open is None else broken | {reader.open}

    def _finish(self, tools: Sequence[Any]) -> Delta:
        reader, turn = self._reading(tools), current()
        delta = reader.finish(None if turn is None else turn.reason)
        reader.report()
        if turn is not None and reader.finish_reason == "length":
            turn.was_cut()
        return delta

    def _reading(self, tools: Sequence[Any]) -> CallReader:
        if self._reader is None:
            turn = current()
            self._reader = CallReader(
                self.dialect, self._mappings(tools), one_call=turn is not None and turn.one_call
            )
        return self._reader

    def _mappings(self, tools: Sequence[Any] | None) -> list[dict[str, Any]] | None:
        """The tools as mappings; made once, as whoever asks has the same list."""
        if self._offered[0] is not tools:
            self._offered = (tools, None if tools is None else _as_mappings(tools))
        return self._offered[1]

    def _streamed(self, delta: Delta) -> Any:
        make = self.world.item
        items = []
        for call in delta.calls:  # nearly always one: a comprehension costs more than the loop
            items.append(make(tool_index=call.index, name=call.name, parameters=call.arguments))  # noqa: PERF401
        return self.world.result(normal_text=delta.content, calls=items)

    # -- what the model is held to

    def supports_structural_tag(self) -> bool:
        """Whether a forced call is held to the dialect's own form, by a grammar of ours."""
        if "native" not in facts_of(self.dialect).forced or not compat.has_structural_tags():
            return False
        turn = current()
        return turn is None or turn.compiles_tags

    def get_structural_tag(
        self,
        tools: Sequence[Any] | None = None,
        tool_choice: Any = "auto",
        thinking_mode: bool = False,
        parallel_tool_calls: bool = True,
        **_: Any,
    ) -> Any:
        """The grammar of what may be written, from the templates that are read."""
        if not self.supports_structural_tag():
            return None
        function = getattr(tool_choice, "function", None)

        def tag(*, reasoning: bool) -> Any:
            inside = reasoning and thinking_mode and facts_of(self.dialect).thinking.inside
            grammar = grammar_for(
                self.dialect,
                _as_mappings(tools or ()),
                choice=tool_choice if function is None else {"name": function.name},
                parallel=parallel_tool_calls is not False,
                reasoning=reasoning,
                start="reasoning" if inside and self.dialect.frame is None else "message",
            )
            return self._tag(grammar)

        turn = current()
        if turn is None or not turn.reasoning:
            return tag(reasoning=thinking_mode)
        # Where there is a parser of reasoning, the server lets the grammar begin behind reasoning.
        turn.reasoned_tag = lambda: tag(reasoning=True)
        return tag(reasoning=False)

    def _tag(self, grammar: Grammar) -> Any:
        tag = grammar.structural_tag()
        start = self.dialect.prompt.start
        if self.dialect.frame is not None and start:
            # Behind a message of reasoning the next one begins; the prompt has begun the first.
            begun = {"type": "optional", "content": {"type": "const_string", "value": start}}
            tag["format"] = {"type": "sequence", "elements": [begun, tag["format"]]}
        return compat.structural_tag(tag)

    def structure_info(self) -> Any:
        """Not asked: there is a grammar, or a schema."""
        raise NotImplementedError("unspool gives structural tags")


def register(world: compat.ToolWorld) -> None:
    """Put a detector under each of our names, and under those of SGLang's own that are to be ours."""
    own = taken_over(list(world.registry))
    made = {name: _detector(world, name, world.base) for name in (DETECTED, *offered())}
    made |= {name: _detector(world, name, world.registry[name]) for name in own}
    world.registry.update(made)
    STANDING.update(made)
    _tell_tools(world.parser)


def _tell_tools(parser: Any) -> None:
    """A detector is asked about a text before it is told the tools; its parser knows them."""
    make = parser.__init__

    @wraps(make)
    def __init__(self: Any, tools: Sequence[Any], *args: Any, **options: Any) -> None:  # noqa: N807
        make(self, tools, *args, **options)
        if isinstance(self.detector, ToolDetector):
            self.detector.told = self.tools or []

    parser.__init__ = __init__


def _detector(world: compat.ToolWorld, name: str, base: Any) -> type:
    accepts = frozenset(inspect.signature(base).parameters)
    members = {
        "name": name,
        "world": world,
        "accepts": accepts,
        "parses_without_tools": staticmethod(lambda: _framed(name) or base.parses_without_tools()),
    }
    return type(f"Unspool_{name}", (ToolDetector, base), members)


def _framed(name: str) -> bool:
    """Whether even an answer without calls has markup that a parser must take off."""
    return name != DETECTED and dialect_of(name, None, None).frame is not None


def _as_mappings(tools: Iterable[Any]) -> list[dict[str, Any]]:
    return [tool if isinstance(tool, dict) else tool.model_dump() for tool in tools]


def _markers(dialect: Dialect) -> tuple[str, str]:
    """What begins and what ends calls, for those who look for it."""
    for template in (*dialect.section, *dialect.call):
        before, _, after = template.lstrip("^").partition("{")
        end = after.rpartition("}")[2].strip()
        if before.strip() and end:
            return before.strip(), end
    return "", ""
