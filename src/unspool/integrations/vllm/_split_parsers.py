"""The two halves that vLLM registers by name: a reasoning parser and a tool parser.

Where both are ours, ``unified.py`` reads the output and the halves stand for
their names; the engine core still asks the reasoning half where reasoning ends.
Beside a half of others, or in an engine that composes no parsers, each does its
part of the work alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ..._core.stages.reasoning_splitter import ReasoningSplit, ReasoningSplitter
from ...parser import Parser
from ...planning import Plan
from ...planning._derived_dialects import closer, opener
from .._deltas import Deltas
from . import _compat as compat
from ._delta_messages import message_of
from ._model_dialect import speech_of
from ._requests import WHOLE, Planner, is_awaited, variables


class ReasoningPart(compat.ReasoningParser):
    """Says where reasoning ends, and takes it out of an output."""

    engine_based_streaming: ClassVar[bool] = True
    speaks: ClassVar[str]
    """The dialect, as it is registered."""

    def __init__(
        self,
        tokenizer: Any,
        *args: Any,
        chat_template_kwargs: Mapping[str, object] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        self._speech = speech_of(tokenizer, None, self.speaks)
        self._kwargs = chat_template_kwargs or {}
        self._in_server = "model_config" in kwargs  # the engine core has none to give
        self._plan: Plan | None = None
        self._prompt: str | None = None
        self._half: ReasoningSplitter | None = None
        self._rest = ""

    @property
    def reasoning_start_str(self) -> str | None:
        templates = self._speech.dialect.reasoning
        return opener(templates[0]) or None if templates else None

    @property
    def reasoning_end_str(self) -> str | None:
        templates = self._speech.dialect.reasoning
        return closer(templates[0]) or None if templates else None

    @property
    def plan(self) -> Plan:
        """What the request's template variables say about reasoning."""
        if self._plan is None:
            self._plan = self._speech.plan({"chat_template_kwargs": variables(self._kwargs)})
        return self._plan

    def adjust_request(self, request: Any) -> Any:
        if not self.plan.skip_special_tokens:
            request.skip_special_tokens = False
        return request

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Whether reasoning is over; for an engine that has a grammar, whether it is not to be waited for."""
        if self._in_server:
            return self._is_over(input_ids, expected=self.plan.reasoning)
        return self.lets_grammar_begin(input_ids)

    def lets_grammar_begin(self, prompt: Sequence[int]) -> bool:
        """Whether a grammar is to begin right behind this prompt."""
        return WHOLE in self._kwargs or self._is_over(prompt, expected=is_awaited(self.plan))

    def _is_over(self, ids: Sequence[int], *, expected: bool) -> bool:
        ids = self._speech.turn(ids)
        reasoning = self._speech.reasoning
        return reasoning.ended(ids) or not (expected or reasoning.begins(ids))

    def is_reasoning_end_streaming(self, input_ids: Sequence[int], delta_ids: Iterable[int]) -> bool:
        """Whether a grammar is to begin here: not inside a call that ends reasoning by beginning."""
        delta = list(delta_ids)
        return self._speech.reasoning.ended_by(input_ids, delta) and self._speech.closes(input_ids, delta)

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        end = self._speech.reasoning.end(input_ids, start_channel="reasoning")
        return [] if end is None else input_ids[end:]

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        return self._speech.reasoning.count(token_ids)

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        if not self.plan.reasoning:
            return None, model_output
        half = self._new(begun=self._prompt is None and self._is_begun(model_output))
        found, last = half.feed(model_output), half.finish()
        return found.reasoning + last.reasoning or None, found.rest + last.rest or None

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Sequence[int]) -> None:
        self._prompt = self.model_tokenizer.decode(list(self._speech.turn(prompt_token_ids)))

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> Any:
        if self._half is None:
            self._half = self._new()
        return self._message(self._half, self._half.feed(delta_text))

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Whether reasoning is over, and what is held back would be content."""
        return self._half is not None and self._half.parser.reasoning_ended

    def finish_streaming(self) -> Any:
        """What is held back."""
        half, self._half = self._half, None
        return None if half is None else self._message(half, half.finish(), last=True)

    def _is_begun(self, text: str) -> bool:
        """Whether reasoning closes before it opens: the prompt opened it, which nobody shows us."""
        start, end = self.reasoning_start_str, self.reasoning_end_str
        if not start or not end:
            return False
        return end in text and start not in text.partition(end)[0]

    def _new(self, *, begun: bool = False) -> ReasoningSplitter:
        if begun or (self._prompt is None and self.plan.start == "reasoning"):
            return ReasoningSplitter(self._speech.dialect, start_channel="reasoning")
        return ReasoningSplitter(self._speech.dialect, prompt=self._prompt)

    def _message(self, half: ReasoningSplitter, found: ReasoningSplit, *, last: bool = False) -> Any:
        """The rest waits until reasoning is over: before that, it is the header of a message."""
        self._rest += found.rest
        rest = ""
        if half.parser.reasoning_ended or (last and half.parser.dialect.frame is None):
            rest, self._rest = self._rest, ""
        if not found.reasoning and not rest:
            return None
        return compat.DeltaMessage(reasoning=found.reasoning or None, content=rest or None)


class ToolPart(compat.ToolParser):
    """Takes calls out of what is behind reasoning."""

    engine_based_streaming: ClassVar[bool] = True
    supports_required_and_named: ClassVar[bool] = False
    """Forced calls are written as the model writes calls, held to its own format by a grammar."""
    speaks: ClassVar[str]
    """The dialect, as it is registered."""

    def __init__(self, tokenizer: Any, tools: list[Any] | None = None) -> None:
        super().__init__(tokenizer, tools)
        self._speech = speech_of(tokenizer, self.speaks, None)
        self._planner = Planner(self._speech, calls=True, reasoning=False, strict=False)
        self._parser: Parser | None = None
        self._deltas: Deltas | None = None

    def adjust_request(self, request: Any) -> Any:
        return self._planner.adjust(request, {})

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        parser = self._begin(request)
        found = Deltas(parser).push(parser.feed(model_output) + parser.finish())
        calls = [
            compat.ToolCall(
                id=call.id, function=compat.FunctionCall(name=call.name or "", arguments=call.arguments)
            )
            for call in found.calls
        ]
        return compat.ExtractedToolCallInformation(
            tools_called=bool(calls), tool_calls=calls, content=found.content or None
        )

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any:
        if self._parser is None or self._deltas is None:
            self._parser = self._begin(request)
            self._deltas = Deltas(self._parser)
        return message_of(self._deltas.push(self._parser.feed(delta_text)))

    def finish_streaming(self) -> Any:
        """What is held back."""
        parser, deltas = self._parser, self._deltas
        self._parser = self._deltas = None
        return None if parser is None or deltas is None else message_of(deltas.push(parser.finish()))

    def _begin(self, request: Any) -> Parser:
        made = self._planner.plan(request, {})
        return Parser(made.reads, tools=made.tools, start_channel="content", policies=self._speech.policies)
