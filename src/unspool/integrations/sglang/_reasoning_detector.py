"""The detector of reasoning: takes it out, and leaves the rest of an output to the detector of calls."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from ..._core.stages.reasoning_splitter import ReasoningSplitter
from ...dialects._declaration import Dialect
from ...dialects._registry import facts_of
from ...dialects._request_facts import Thinking
from ...events import FinishReason
from ...parser import Parser
from ...planning._derived_dialects import closer, opener
from .._deltas import Deltas
from .._engine import DETECTED, offered
from . import _compat as compat
from ._names import STANDING, dialect_of, is_ours, taken_over
from ._tool_detector import diagnostics
from ._turn_context import Turn, current


class Separated:
    """Reasoning and content of an output that nobody looks for calls in."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._deltas = Deltas(parser)

    def feed(self, text: str) -> tuple[str, str]:
        """More of the output: what it adds to reasoning and content."""
        delta = self._deltas.push(self._parser.feed(text))
        return delta.reasoning, delta.content

    def finish(self, reason: FinishReason | None) -> tuple[str, str]:
        """No more output follows."""
        delta = self._deltas.push(self._parser.finish(reason))
        diagnostics.report(self._parser.dialect.name, self._deltas.notes)
        return delta.reasoning, delta.content


class Untouched:
    """Reasoning, and the rest of an output with its markup, for the detector of calls.

    Only line breaks around reasoning, where the rest begins, are no part of it.
    """

    def __init__(self, half: ReasoningSplitter) -> None:
        self._half = half
        self._fed = 0
        self._begun = False
        self._blanks = ""
        """What the rest begins with, until it is known whether reasoning is next to it."""

    def feed(self, text: str) -> tuple[str, str]:
        """More of the output: what it adds to reasoning and to the rest."""
        if self._begun:
            return self._half.feed(text)
        self._fed += len(text)
        found = self._half.feed(text)
        return found.reasoning, self._first(found.rest, over=False)

    def finish(self, reason: FinishReason | None) -> tuple[str, str]:
        """No more output follows."""
        found = self._half.finish(reason)
        return found.reasoning, found.rest if self._begun else self._first(found.rest, over=True)

    def _first(self, rest: str, *, over: bool) -> str:
        rest = self._blanks + rest
        if not over and (not rest or rest.isspace()):
            self._blanks = rest
            return ""
        self._begun = True
        parser = self._half.parser
        beside_reasoning = parser.start_channel == "reasoning" or self._fed - parser.pending > len(rest)
        return rest.lstrip("\r\n") if beside_reasoning else rest


class ReasoningDetector:
    """Stands before a class of SGLang's, and reads in its place; see ``ToolDetector``."""

    name: ClassVar[str] = ""
    world: ClassVar[compat.ReasoningWorld]
    accepts: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self, tokenizer: object | None = None, tool_call_parser_active: bool = False, **options: Any
    ) -> None:
        turn = current()
        other = turn.tool if turn is not None and turn.reasoning == self.name else None
        self.dialect = dialect_of(other if other in STANDING else None, self.name, tokenizer)
        told = {"tokenizer": tokenizer, "tool_call_parser_active": tool_call_parser_active}
        options |= {name: value for name, value in told.items() if value and name in self.accepts}
        if is_ours(self.name):
            start, end = markers(self.dialect)
            options |= {"think_start_token": start, "think_end_token": end}
            options["reasoning_default"] = switch(facts_of(self.dialect).thinking)
        super().__init__(**options)
        self._calls_follow = tool_call_parser_active
        self._turn = turn
        self._streaming: Separated | Untouched | None = None
        self._kept = ""
        self._answered = False

    # -- reading

    def detect_and_parse(self, text: str) -> Any:
        """A whole output: the same reading, in one piece."""
        reader = self._reader()
        first, last = reader.feed(text), reader.finish(self._reason())
        reasoning, content = first[0] + last[0], first[1] + last[1]
        if self._answers() and not content:
            reasoning, content = "", reasoning
        return self.world.result(normal_text=content, reasoning_text=reasoning)

    def parse_streaming_increment(self, new_text: str) -> Any:
        """The next piece of an output."""
        if self._streaming is None:
            self._streaming = self._reader()
        reasoning, content = self._streaming.feed(new_text)
        if reasoning or self._kept:
            return self._streamed(reasoning, content, over=False)
        self._answered = self._answered or bool(content)
        return self.world.result(normal_text=content, reasoning_text="")

    def finish(self) -> Any:
        """The stream is over."""
        if self._streaming is None:
            self._streaming = self._reader()
        return self._streamed(*self._streaming.finish(self._reason()), over=True)

    def _streamed(self, reasoning: str, content: str, *, over: bool) -> Any:
        self._answered = self._answered or bool(content)
        self._kept += reasoning
        if over and self._answers() and not self._answered:
            reasoning, content, self._kept = "", self._kept, ""
        elif not getattr(self, "stream_reasoning", True):
            reasoning = ""
            if over or self._answered:
                reasoning, self._kept = self._kept, ""
        elif not self._answers():
            self._kept = ""
        return self.world.result(normal_text=content, reasoning_text=reasoning)

    def _answers(self) -> bool:
        """Whether reasoning that nothing follows is the answer."""
        return bool(getattr(self, "_force_nonempty_content", False))

    def _reason(self) -> FinishReason | None:
        turn = current()
        return None if turn is None else turn.reason

    def _reader(self) -> Separated | Untouched:
        options = self._begins(self._turn)
        if self._calls_follow:
            return Untouched(ReasoningSplitter(self.dialect, **options))
        return Separated(Parser(self.dialect, tools=[], **options))

    def _begins(self, turn: Turn | None) -> dict[str, Any]:
        """Where the output begins: as the prompt says, or else as SGLang believes."""
        if turn is not None and turn.prompt is not None:
            return turn.begins(self.dialect, turn.prompt)
        if self.dialect.frame is not None or not self.dialect.reasoning:
            return {}
        return {"start_channel": "reasoning" if getattr(self, "_in_reasoning", False) else "content"}

    # -- what the scheduler counts

    def get_think_end_token_ids(self, tokenizer: Any) -> Any:
        """The ids of what ends reasoning."""
        end = getattr(self, "think_end_token", "")
        return super().get_think_end_token_ids(tokenizer) if end else []  # type: ignore[misc]

    def get_self_opened_think_start_token_ids(self, tokenizer: Any) -> Any:
        """The ids of what begins it, where the model may write that by itself."""
        if not is_ours(self.name):
            return super().get_self_opened_think_start_token_ids(tokenizer)  # type: ignore[misc]
        start = getattr(self, "think_start_token", "")
        return tokenizer.encode(start, add_special_tokens=False) if start else None


def register(world: compat.ReasoningWorld) -> None:
    """Put a detector under each of our names, and under those of SGLang's own that are to be ours."""
    own = taken_over(list(world.registry))
    made = {name: _detector(world, name, world.base) for name in (DETECTED, *offered())}
    made |= {name: _detector(world, name, world.registry[name]) for name in own}
    world.registry.update(made)
    STANDING.update(made)


def _detector(world: compat.ReasoningWorld, name: str, base: type) -> type:
    accepts = frozenset(inspect.signature(base).parameters)
    members = {"name": name, "world": world, "accepts": accepts}
    return type(f"Unspool_{name}", (ReasoningDetector, base), members)


def markers(dialect: Dialect) -> tuple[str, str]:
    """What begins and what ends reasoning; nothing where there is none."""
    if dialect.reasoning:
        return opener(dialect.reasoning[0]), closer(dialect.reasoning[0])
    frame = dialect.frame
    if frame is not None:
        for route in frame.routes:
            if route.into == "reasoning" and route.header:
                return route.header + frame.sep, frame.ends[0] if frame.ends else ""
    return "", ""


def switch(thinking: Thinking) -> str:
    """What SGLang calls the way in which a family is told to reason."""
    if thinking.default == "always":
        return "always"
    named = [name for name in thinking.switches if name in ("enable_thinking", "thinking")]
    if thinking.default == "on":
        return named[0] if named else "always"
    if thinking.default == "off" and not named and "reasoning_effort" in thinking.switches:
        return "mistral"
    return f"explicit_{named[0] if named else 'thinking'}"
