"""The parser of one choice, as vLLM's server asks for it: reasoning, content and calls by one machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...parser import Parser
from ...tokens import ReasoningCounter
from .._deltas import Deltas
from .._engine import DiagnosticLog
from . import _compat as compat
from ._delta_messages import mend_anthropic, message_of
from ._model_dialect import speech_of
from ._parser_classes import log
from ._requests import Planner, is_tagged
from ._split_parsers import ReasoningPart, ToolPart

PROBLEMS = DiagnosticLog(log)


class UnspoolParser(compat.Parser):
    """Reads what a model writes, with unspool.  One for each choice of a request."""

    always_adjust_request: ClassVar[bool] = True
    calls_of: ClassVar[str | None] = None
    """The dialect of the tool parser, and of the reasoning parser, as they are registered."""
    reasoning_of: ClassVar[str | None] = None
    strict: ClassVar[bool] = False
    """Whether the server holds calls of all tools to their schemas (``--tool-strict-level``)."""

    def __init__(
        self,
        tokenizer: Any,
        tools: list[Any] | None = None,
        *args: Any,
        chat_template_kwargs: Mapping[str, object] | None = None,
        model_config: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            tokenizer,
            tools,
            *args,
            chat_template_kwargs=chat_template_kwargs,
            model_config=model_config,
            **kwargs,
        )
        self._kwargs = chat_template_kwargs or {}
        self._model_config = model_config
        self._speech = speech_of(tokenizer, self.calls_of, self.reasoning_of)
        self._planner = Planner(
            self._speech,
            calls=self.calls_of is not None,
            reasoning=self.reasoning_of is not None,
            strict=self.strict,
        )
        self._prompt: Sequence[int] | None = None
        self._parser: Parser | None = None
        self._deltas: Deltas | None = None
        self._by_ids = True
        self._count: ReasoningCounter | None = None

    def adjust_request(self, request: Any) -> Any:
        return self._planner.adjust(request, self._kwargs)

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        self._prompt = prompt_token_ids

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Asked of prompts, for the sake of a grammar."""
        part = self._reasoning_parser
        return part is None or part.lets_grammar_begin(input_ids)

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        if self.reasoning_of is None:
            return 0
        prompt = None if self._prompt is None else self._speech.turn(self._prompt)
        if self._parser is None:
            return self._speech.reasoning.count(token_ids, prompt=prompt)
        # In the middle of a stream: some clients are told after every token.
        if self._count is None:
            self._count = self._speech.reasoning.counter(prompt=prompt)
        self._count.feed(token_ids[self._count.fed :])
        return self._count.total

    def parse(
        self,
        model_output: str,
        request: Any,
        enable_auto_tools: bool = False,
        model_output_token_ids: Sequence[int] = (),
    ) -> tuple[str | None, str | None, list[Any] | None]:
        by_ids = bool(model_output_token_ids) and not is_tagged(request)
        parser = self._begin(request, by_ids=by_ids)
        deltas = Deltas(parser)
        if by_ids:
            ids = self._speech.without_end(model_output, model_output_token_ids)
            events = parser.feed_decoded(model_output, ids)
        else:
            events = parser.feed(model_output)
        delta = deltas.push(events + parser.finish())
        self._report(deltas, request, streaming=False)
        calls: list[Any] = [
            compat.FunctionCall(id=call.id, name=call.name or "", arguments=call.arguments)
            for call in delta.calls
        ]
        if self._cut(request, model_output_token_ids):
            calls = CutCalls(calls)
        return delta.reasoning or None, delta.content or None, calls or None

    def parse_delta(
        self,
        delta_text: str,
        delta_token_ids: list[int],
        request: Any,
        prompt_token_ids: list[int] | None = None,
        *,
        finished: bool,
    ) -> Any:
        parser, deltas = self._parser, self._deltas
        if parser is None or deltas is None:
            if prompt_token_ids is not None:
                self._prompt = prompt_token_ids
            self._by_ids = not is_tagged(request)
            parser = self._parser = self._begin(request, by_ids=self._by_ids)
            deltas = self._deltas = Deltas(parser)
        if self._by_ids:
            ids = self._speech.without_end(delta_text, delta_token_ids) if finished else delta_token_ids
            events = parser.feed_decoded(delta_text, ids)
        else:
            events = parser.feed(delta_text)
        if finished:
            events += parser.finish()
        delta = deltas.push(events)
        if finished:
            self._parser = self._deltas = self._count = None  # what comes now is another turn
            self._report(deltas, request, streaming=True)
        return message_of(delta)

    def _begin(self, request: Any, *, by_ids: bool) -> Parser:
        """A parser for the next output."""
        self._initialize_history_tool_call_cnt(request)
        before = self._stream_state.history_tool_call_cnt
        new = self._speech.dialect.id_format.new
        made = self._planner.plan(request, self._kwargs, self._prompt)
        return made.parser(
            ids=by_ids, new_id=(lambda name, index: new(name, before + index)) if before else None
        )

    def _cut(self, request: Any, ids: Sequence[int]) -> bool:
        """Whether generation ended because no more was allowed; who asks for a whole answer is not told."""
        if not ids or self._speech.is_end(ids[-1]):
            return False
        names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        most = next((limit for name in names if (limit := getattr(request, name, None)) is not None), None)
        longest = getattr(self._model_config, "max_model_len", None)
        return len(ids) == most or (longest is not None and len(self._prompt or ()) + len(ids) >= longest)

    def _report(self, deltas: Deltas, request: Any, *, streaming: bool) -> None:
        PROBLEMS.report(self._speech.dialect.name, deltas.notes)
        if compat.record_tool_parser_invocation is not None and self.calls_of is not None:
            compat.record_tool_parser_invocation(
                is_tool_called=deltas.called, is_streaming=streaming, request=request
            )


class CutCalls(list[Any]):
    """The calls of an output that was cut off.

    The server makes ``tool_calls`` of the finish reason of a whole answer wherever it counts a call,
    also where the engine says ``length``; of a stream it does not.  Here it counts none.
    """

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return any(True for _ in self)


def compose(tools: type[ToolPart] | None, reasoning: type[ReasoningPart] | None, *, strict: bool) -> Any:
    """The class of a server's parsers."""
    mend_anthropic()
    return type(
        "UnspoolParser",
        (UnspoolParser,),
        {
            "reasoning_parser_cls": reasoning,
            "tool_parser_cls": tools,
            "calls_of": None if tools is None else tools.speaks,
            "reasoning_of": None if reasoning is None else reasoning.speaks,
            "strict": strict,
        },
    )
