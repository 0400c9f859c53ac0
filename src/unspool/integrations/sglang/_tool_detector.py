"""Tool detector, which parses tool calls in the output after reasoning has been removed.

SGLang creates a new detector for each output.  SGLang passes the output to the detector either as a whole
(``detect_and_parse``) or chunk by chunk (``parse_streaming_increment``, then ``finish``).  SGLang also reads
some attributes of the detector directly, such as ``prev_tool_call_arr``.  These attributes are implemented as
properties whose values come from a ``_CallReader``, which does the parsing.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, wraps
from typing import Any, ClassVar, Final

from ...dialects import Dialect, facts_of
from ...dialects.parse_templates import template_text
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
from ...planning.request_stages import OneCall
from ...policies import Policies
from .._deltas import Delta, DeltaEncoder
from .._diagnostic_log import DiagnosticLog
from .._registered_parser_names import DETECTED, NamesOnDemand, names_on_command_line
from . import _compat as compat
from ._dialect_of_parser_name import (
    REGISTERED_NAMES,
    is_unspool_name,
    names_to_replace,
    policies_of,
    resolve_dialect,
)
from ._turn_context import current_turn

diagnostics: Final = DiagnosticLog(compat.log)


class _CallReader:
    """Reader that separates the calls and the content of one output."""

    def __init__(
        self,
        dialect: Dialect,
        tools: Sequence[Mapping[str, object]] | None,
        policies: Policies,
        *,
        one_call: bool,
    ) -> None:
        self._parser = Parser(dialect, tools=tools, start_channel="content", policies=policies)
        self._deltas = DeltaEncoder(self._parser)
        self._one_call = OneCall() if one_call else None
        self._arguments: list[list[str]] = []  # joined only when read, to avoid quadratic time
        self.names: list[str] = []
        """The function names of the calls so far."""
        self.open_call: int | None = None
        """Index of the call that is not closed yet; None if all calls are closed."""
        self.truncated: set[int] = set()
        """Indices of truncated calls."""
        self.malformed: set[int] = set()
        """Indices of malformed calls."""

    def feed(self, text: str) -> Delta:
        """Read the next chunk of the output; return the new content and the new parts of calls."""
        if self._one_call is not None:
            self._one_call.add_raw(text)
        return self._encode(self._parser.feed(text))

    def finish(self, reason: FinishReason | None) -> Delta:
        """End the output; return the remaining content and parts of calls."""
        return self._encode(self._parser.finish(reason))

    @property
    def arguments(self) -> list[str]:
        """The arguments of each call, as far as they have arrived."""
        return ["".join(pieces) for pieces in self._arguments]

    @property
    def finish_reason(self) -> FinishReason:
        """The finish reason of the output."""
        return self._deltas.finish_reason

    def report(self) -> None:
        """Log the diagnostics of the output."""
        diagnostics.report(self._parser.dialect.name, self._deltas.diagnostics)

    def _encode(self, events: list[Event]) -> Delta:
        if self._one_call is not None:
            events = self._one_call.feed(events)
        # Fast path: most steps have only one CallArgs event, which does not change the state of the calls.
        if len(events) != 1 or not isinstance(events[0], CallArgs):
            events = list(map(self._follow, events))
        delta = self._deltas.feed(events)
        for call in delta.calls:
            if call.name is not None:
                self.names.append(call.name)
                self._arguments.append([])
            self._arguments[call.index].append(call.arguments)
        return delta

    def _follow(self, event: Event) -> Event:
        """Update the state of the calls; return the event, with reasoning converted to content.

        If the server has no reasoning parser, reasoning and its markers must stay in the content.
        """
        if isinstance(event, CallStart):
            self.open_call = event.index
        elif isinstance(event, CallEnd):
            self.open_call = None
            if event.status != "complete":
                (self.truncated if event.status == "truncated" else self.malformed).add(event.index)
        elif (isinstance(event, Text) and event.channel == "reasoning") or (
            isinstance(event, Markup) and event.kind in ("reasoning_open", "reasoning_close")
        ):
            return Text("content", event.text, event.start, event.end)
        return event


class ToolDetector:
    """Mixin for SGLang's detector classes, which replaces their parsing methods.

    If the detector replaces one of SGLang's own parsers, it is derived from the class of that parser.  So
    everything except parsing works as before.
    """

    name: ClassVar[str] = ""
    sglang: ClassVar[compat.ToolClasses]
    accepts: ClassVar[frozenset[str]] = frozenset()
    """The parameter names of the base class's constructor."""

    def __init__(self, tokenizer: object | None = None, **options: Any) -> None:
        if tokenizer is not None and "tokenizer" in self.accepts:
            options["tokenizer"] = tokenizer
        self._reader: _CallReader | None = None
        super().__init__(**options)
        self._tokenizer = tokenizer
        self._checked_text: tuple[str, bool] = ("", False)
        """The text of the most recent call of ``has_tool_call``, and the result."""
        self.request_tools: Sequence[Any] | None = None
        """The tools of the request, which SGLang does not pass to ``has_tool_call``."""
        self._converted_tools: tuple[object, list[dict[str, Any]] | None] = (None, None)
        if is_unspool_name(self.name):
            self.bot_token, self.eot_token = _call_markers(self.dialect)

    @cached_property
    def dialect(self) -> Dialect:
        """The dialect of the outputs."""
        turn = current_turn()
        other = turn.reasoning_parser if turn is not None and turn.tool_parser == self.name else None
        return resolve_dialect(self.name, other if other in REGISTERED_NAMES else None, self._tokenizer)

    @cached_property
    def policies(self) -> Policies:
        """The policies for the outputs."""
        return policies_of(self.dialect, self._tokenizer)

    # -- parsing

    def has_tool_call(self, text: str) -> bool:
        """Return whether text contains calls or other markup that clients must not see."""
        if self._checked_text[0] != text:
            turn = current_turn()
            tools = self._as_mappings(self.request_tools)
            reader = _CallReader(self.dialect, tools, self.policies, one_call=False)
            deltas = (reader.feed(text), reader.finish(None if turn is None else turn.finish_reason))
            content = "".join(delta.content for delta in deltas)
            self._checked_text = (text, bool(reader.names) or content != text)
        return self._checked_text[1]

    def detect_and_parse(self, text: str, tools: Sequence[Any]) -> Any:
        """Parse a whole output, and return SGLang's result object."""
        self._reader = None
        content = self._get_reader(tools).feed(text).content + self._finish(tools).content
        calls = [
            self.sglang.item(tool_index=index, name=call["name"], parameters=call["arguments"])
            for index, call in enumerate(self.prev_tool_call_arr)
        ]
        return self.sglang.result(normal_text=content, calls=calls)

    def parse_streaming_increment(self, new_text: str, tools: Sequence[Any]) -> Any:
        """Parse the next chunk of a streamed output, and return SGLang's result object."""
        return self._result((self._reader or self._get_reader(tools)).feed(new_text))

    def finish(self, tools: Sequence[Any]) -> Any:
        """End the stream, and return the text that was held back."""
        return self._result(self._finish(tools))

    # The server reads the following attributes of a detector.  SGLang's classes assign these attributes in
    # `__init__`, so each property needs a setter, which ignores the value.

    @property
    def prev_tool_call_arr(self) -> list[dict[str, str]]:
        """The names and arguments of the calls, as far as they were sent to the client."""
        if self._reader is None:
            return []
        pairs = zip(self._reader.names, self._reader.arguments, strict=True)
        return [{"name": name, "arguments": arguments} for name, arguments in pairs]

    @prev_tool_call_arr.setter
    def prev_tool_call_arr(self, value: object) -> None:
        del value

    @property
    def streamed_args_for_tool(self) -> list[str]:
        """The arguments of each call, as far as they were sent to the client."""
        return [] if self._reader is None else self._reader.arguments

    @streamed_args_for_tool.setter
    def streamed_args_for_tool(self, value: object) -> None:
        del value

    @property
    def current_tool_id(self) -> int:
        """Index of the last call; -1 before the first call."""
        return -1 if self._reader is None else len(self._reader.names) - 1

    @current_tool_id.setter
    def current_tool_id(self, value: object) -> None:
        del value

    @property
    def incomplete_tool_call_indices(self) -> set[int]:
        """Indices of calls that the server must not report as complete."""
        reader = self._reader
        if reader is None:
            return set()
        turn = current_turn()
        responses = turn is not None and turn.responses
        broken = reader.truncated | reader.malformed if responses else set(reader.truncated)
        return broken if reader.open_call is None else broken | {reader.open_call}

    def _finish(self, tools: Sequence[Any]) -> Delta:
        reader, turn = self._get_reader(tools), current_turn()
        delta = reader.finish(None if turn is None else turn.finish_reason)
        reader.report()
        if turn is not None and reader.finish_reason == "length":
            turn.mark_truncated()
        return delta

    def _get_reader(self, tools: Sequence[Any]) -> _CallReader:
        if self._reader is None:
            turn = current_turn()
            self._reader = _CallReader(
                self.dialect,
                self._as_mappings(tools),
                self.policies,
                one_call=turn is not None and turn.one_call,
            )
        return self._reader

    def _as_mappings(self, tools: Sequence[Any] | None) -> list[dict[str, Any]] | None:
        """Convert a list of tools to mappings; the result is cached for the most recent list."""
        if self._converted_tools[0] is not tools:
            self._converted_tools = (tools, None if tools is None else _as_mappings(tools))
        return self._converted_tools[1]

    def _result(self, delta: Delta) -> Any:
        make = self.sglang.item
        items = []
        for call in delta.calls:  # faster than a comprehension for a single call
            items.append(make(tool_index=call.index, name=call.name, parameters=call.arguments))  # noqa: PERF401
        return self.sglang.result(normal_text=delta.content, calls=items)

    # -- grammars

    def supports_structural_tag(self) -> bool:
        """Return whether unspool has a grammar for forced calls in the dialect's format."""
        if "native" not in facts_of(self.dialect).forced or not compat.has_structural_tags():
            return False
        turn = current_turn()
        return turn is None or turn.compiles_tags

    def get_structural_tag(
        self,
        tools: Sequence[Any] | None = None,
        tool_choice: Any = "auto",
        thinking_mode: bool = False,
        parallel_tool_calls: bool = True,
        **_: Any,
    ) -> Any:
        """Return a structural tag that allows only valid outputs of the dialect; None if there is none."""
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

        turn = current_turn()
        if turn is None or not turn.reasoning_parser:
            return tag(reasoning=thinking_mode)
        # If there is a reasoning parser, the server applies the grammar only after reasoning.
        turn.tag_with_reasoning = lambda: tag(reasoning=True)
        return tag(reasoning=False)

    def _tag(self, grammar: Grammar) -> Any:
        tag = grammar.structural_tag()
        start = self.dialect.prompt.start
        if self.dialect.frame is not None and start:
            # The prompt already contains the start of the first message.  But if the first message is
            # reasoning, the model itself writes the start of the next message, so the grammar allows it.
            opener = {"type": "optional", "content": {"type": "const_string", "value": start}}
            tag["format"] = {"type": "sequence", "elements": [opener, tag["format"]]}
        return compat.structural_tag(tag)

    def structure_info(self) -> Any:
        """Raise an error, because SGLang calls this only for detectors without structural tags."""
        raise NotImplementedError("unspool has no structure info: call get_structural_tag()")


def register(sglang: compat.ToolClasses) -> None:
    """Register detectors under unspool's names, and under SGLang's names that the user wants to replace."""
    own = names_to_replace(list(sglang.registry))
    listed = (DETECTED, *names_on_command_line())  # some releases list the names of the registry
    detectors = {name: _detector(sglang, name, sglang.base) for name in listed}
    detectors |= {name: _detector(sglang, name, sglang.registry[name]) for name in own}
    registry = NamesOnDemand(
        {**sglang.registry, **detectors}, lambda name, _: _detector(sglang, name, sglang.base)
    )
    sglang.set_registry(registry)
    REGISTERED_NAMES.update(detectors)
    _pass_tools_to_detectors(sglang.parser)


def _pass_tools_to_detectors(parser: Any) -> None:
    """Wrap the parser's constructor, so that every new detector receives the tools of the request."""
    make = parser.__init__

    @wraps(make)
    def __init__(self: Any, tools: Sequence[Any], *args: Any, **options: Any) -> None:  # noqa: N807
        make(self, tools, *args, **options)
        if isinstance(self.detector, ToolDetector):
            self.detector.request_tools = self.tools or []

    parser.__init__ = __init__


def _detector(sglang: compat.ToolClasses, name: str, base: Any) -> type:
    accepts = frozenset(inspect.signature(base).parameters)
    members = {
        "name": name,
        "sglang": sglang,
        "accepts": accepts,
        "parses_without_tools": staticmethod(lambda: _is_framed(name) or base.parses_without_tools()),
    }
    return type(f"Unspool_{name}", (ToolDetector, base), members)


def _is_framed(name: str) -> bool:
    """Return whether each message in the dialect has a header, so that every answer contains markup."""
    return name != DETECTED and resolve_dialect(name, None, None).frame is not None


def _as_mappings(tools: Iterable[Any]) -> list[dict[str, Any]]:
    return [tool if isinstance(tool, dict) else tool.model_dump() for tool in tools]


def _call_markers(dialect: Dialect) -> tuple[str, str]:
    """Return the markers that open and close calls, or two empty strings."""
    for template in (*dialect.section, *dialect.call):
        before, _, after = template_text(template).partition("{")
        end = after.rpartition("}")[2].strip()
        if before.strip() and end:
            return before.strip(), end
    return "", ""
