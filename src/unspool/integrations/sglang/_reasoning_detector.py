"""Reasoning detector, which extracts reasoning from an output and leaves the rest to the tool detector.

SGLang creates a new detector for each output.  SGLang passes the output to the detector either as a whole
(``detect_and_parse``) or chunk by chunk (``parse_streaming_increment``, then ``finish``).  If the server also
has a tool call parser, the detector must leave the markup of calls unchanged (``_MarkupKeeper``).  Otherwise,
the detector also parses calls and removes them from the content (``_ContentReader``).
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from ...dialects import Dialect, Thinking, facts_of
from ...events import FinishReason
from ...parser import Parser
from ...planning.derived_dialects import closer, opener
from ...stages import ReasoningSplitter
from .._deltas import DeltaEncoder
from .._registered_parser_names import DETECTED, NamesOnDemand, names_on_command_line
from . import _compat as compat
from ._dialect_of_parser_name import (
    REGISTERED_NAMES,
    is_unspool_name,
    names_to_replace,
    policies_of,
    resolve_dialect,
)
from ._tool_detector import diagnostics
from ._turn_context import Turn, current_turn


class _ContentReader:
    """Reader that separates reasoning and content, for servers without a tool call parser."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._deltas = DeltaEncoder(parser)

    def feed(self, text: str) -> tuple[str, str]:
        """Read the next chunk of the output; return the new reasoning and the new content."""
        delta = self._deltas.feed(self._parser.feed(text))
        return delta.reasoning, delta.content

    def finish(self, reason: FinishReason | None) -> tuple[str, str]:
        """End the output; return the remaining reasoning and content."""
        delta = self._deltas.feed(self._parser.finish(reason))
        diagnostics.report(self._parser.dialect.name, self._deltas.diagnostics)
        return delta.reasoning, delta.content


class _MarkupKeeper:
    """Reader that extracts reasoning and returns the rest of the output with its markup.

    The tool detector parses this rest.  Newlines between reasoning and the rest are removed.
    """

    def __init__(self, splitter: ReasoningSplitter) -> None:
        self._splitter = splitter
        self._fed_length = 0
        self._rest_started = False
        self._leading_space = ""
        """Whitespace at the start of the text after reasoning, which is held back until more text arrives."""

    def feed(self, text: str) -> tuple[str, str]:
        """Read the next chunk of the output; return the new reasoning and the new text outside reasoning."""
        if self._rest_started:
            return self._splitter.feed(text)
        self._fed_length += len(text)
        split = self._splitter.feed(text)
        return split.reasoning, self._start_rest(split.rest, final=False)

    def finish(self, reason: FinishReason | None) -> tuple[str, str]:
        """End the output; return the remaining reasoning and the remaining text outside reasoning."""
        split = self._splitter.finish(reason)
        return split.reasoning, split.rest if self._rest_started else self._start_rest(split.rest, final=True)

    def _start_rest(self, rest: str, *, final: bool) -> str:
        """Return the first text after reasoning, without newlines at its start."""
        rest = self._leading_space + rest
        if not final and (not rest or rest.isspace()):
            self._leading_space = rest
            return ""
        self._rest_started = True
        parser = self._splitter.parser
        # The text in ``rest`` follows reasoning if the output begins inside reasoning, or if the parser has
        # consumed more characters than ``rest`` contains.  The additional characters were reasoning and
        # markers.
        follows_reasoning = parser.start_channel == "reasoning" or self._fed_length - parser.pending > len(
            rest
        )
        return rest.lstrip("\r\n") if follows_reasoning else rest


class ReasoningDetector:
    """Mixin for SGLang's detector classes, which replaces their parsing methods."""

    name: ClassVar[str] = ""
    sglang: ClassVar[compat.ReasoningClasses]
    accepts: ClassVar[frozenset[str]] = frozenset()
    """The parameter names of the base class's constructor."""

    def __init__(
        self, tokenizer: object | None = None, tool_call_parser_active: bool = False, **options: Any
    ) -> None:
        turn = current_turn()
        other = turn.tool_parser if turn is not None and turn.reasoning_parser == self.name else None
        self.dialect = resolve_dialect(other if other in REGISTERED_NAMES else None, self.name, tokenizer)
        passed_on = {"tokenizer": tokenizer, "tool_call_parser_active": tool_call_parser_active}
        options |= {name: value for name, value in passed_on.items() if value and name in self.accepts}
        self._policies = policies_of(self.dialect, tokenizer)
        if is_unspool_name(self.name):
            start, end = reasoning_markers(self.dialect)
            options |= {"think_start_token": start, "think_end_token": end}
            options["reasoning_default"] = reasoning_default(facts_of(self.dialect).thinking)
        super().__init__(**options)
        self._calls_follow = tool_call_parser_active
        self._turn = turn
        self._reader: _ContentReader | _MarkupKeeper | None = None
        self._held_reasoning = ""
        self._has_content = False

    # -- parsing

    def detect_and_parse(self, text: str) -> Any:
        """Parse a whole output, and return SGLang's result object."""
        reader = self._new_reader()
        first, last = reader.feed(text), reader.finish(self._finish_reason())
        reasoning, content = first[0] + last[0], first[1] + last[1]
        if self._reasoning_may_be_answer() and not content:
            reasoning, content = "", reasoning
        return self.sglang.result(normal_text=content, reasoning_text=reasoning)

    def parse_streaming_increment(self, new_text: str) -> Any:
        """Parse the next chunk of a streamed output, and return SGLang's result object."""
        if self._reader is None:
            self._reader = self._new_reader()
        reasoning, content = self._reader.feed(new_text)
        if reasoning or self._held_reasoning:
            return self._result(reasoning, content, final=False)
        self._has_content = self._has_content or bool(content)
        return self.sglang.result(normal_text=content, reasoning_text="")

    def finish(self) -> Any:
        """End the stream, and return the text that was held back."""
        if self._reader is None:
            self._reader = self._new_reader()
        return self._result(*self._reader.finish(self._finish_reason()), final=True)

    def _result(self, reasoning: str, content: str, *, final: bool) -> Any:
        """Create SGLang's result object for one step.

        Reasoning is held back in two cases: if the server does not stream reasoning (``stream_reasoning``),
        or if reasoning must become the content when the output has no other content
        (``_force_nonempty_content``).
        """
        self._has_content = self._has_content or bool(content)
        self._held_reasoning += reasoning
        if final and self._reasoning_may_be_answer() and not self._has_content:
            reasoning, content, self._held_reasoning = "", self._held_reasoning, ""
        elif not getattr(self, "stream_reasoning", True):
            reasoning = ""
            if final or self._has_content:
                reasoning, self._held_reasoning = self._held_reasoning, ""
        elif not self._reasoning_may_be_answer():
            self._held_reasoning = ""
        return self.sglang.result(normal_text=content, reasoning_text=reasoning)

    def _reasoning_may_be_answer(self) -> bool:
        """Return whether reasoning must become the content of an output without other content."""
        return bool(getattr(self, "_force_nonempty_content", False))

    def _finish_reason(self) -> FinishReason | None:
        turn = current_turn()
        return None if turn is None else turn.finish_reason

    def _new_reader(self) -> _ContentReader | _MarkupKeeper:
        options = self._start_options(self._turn) | {"policies": self._policies}
        if self._calls_follow:
            turn = self._turn  # SGLang's own detectors know only the markup of calls
            only_calls = turn is not None and turn.tool_parser not in REGISTERED_NAMES
            return _MarkupKeeper(ReasoningSplitter(self.dialect, **options, only_calls=only_calls))
        return _ContentReader(Parser(self.dialect, tools=[], **options))

    def _start_options(self, turn: Turn | None) -> dict[str, Any]:
        """Return the parser options that set the start channel of the output.

        The options are derived from the prompt or, if the prompt is unknown, from SGLang's state.
        """
        if turn is not None and turn.prompt is not None:
            return turn.parser_start(self.dialect, turn.prompt)
        if self.dialect.frame is not None or not self.dialect.reasoning:
            return {}
        return {"start_channel": "reasoning" if getattr(self, "_in_reasoning", False) else "content"}

    # -- token ids for SGLang's scheduler

    def get_think_end_token_ids(self, tokenizer: Any) -> Any:
        """Return the token ids of the closing reasoning marker."""
        end = getattr(self, "think_end_token", "")
        return super().get_think_end_token_ids(tokenizer) if end else []  # type: ignore[misc]

    def get_self_opened_think_start_token_ids(self, tokenizer: Any) -> Any:
        """Return the token ids of the opening reasoning marker, for models that write this marker."""
        if not is_unspool_name(self.name):
            return super().get_self_opened_think_start_token_ids(tokenizer)  # type: ignore[misc]
        start = getattr(self, "think_start_token", "")
        return tokenizer.encode(start, add_special_tokens=False) if start else None


def register(sglang: compat.ReasoningClasses) -> None:
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


def _detector(sglang: compat.ReasoningClasses, name: str, base: type) -> type:
    accepts = frozenset(inspect.signature(base).parameters)
    members = {"name": name, "sglang": sglang, "accepts": accepts}
    return type(f"Unspool_{name}", (ReasoningDetector, base), members)


def reasoning_markers(dialect: Dialect) -> tuple[str, str]:
    """Return the markers that open and close reasoning, or two empty strings."""
    if dialect.reasoning:
        return opener(dialect.reasoning[0]), closer(dialect.reasoning[0])
    frame = dialect.frame
    if frame is not None:
        for route in frame.routes:
            if route.into == "reasoning" and route.header:
                return route.header + frame.sep, frame.ends[0] if frame.ends else ""
    return "", ""


def reasoning_default(thinking: Thinking) -> str:
    """Return SGLang's name for the way in which requests turn reasoning on or off."""
    if thinking.default == "always":
        return "always"
    named = [name for name in thinking.switches if name in ("enable_thinking", "thinking")]
    if thinking.default == "on":
        return named[0] if named else "always"
    if thinking.default == "off" and not named and "reasoning_effort" in thinking.switches:
        return "mistral"
    return f"explicit_{named[0] if named else 'thinking'}"
