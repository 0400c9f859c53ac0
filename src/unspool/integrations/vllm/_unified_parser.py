"""Combined parser for reasoning, content and calls; vLLM's server creates one for each choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...parser import Parser
from ...tokens import ReasoningCounter
from .._deltas import DeltaEncoder
from .._diagnostic_log import DiagnosticLog
from . import _compat as compat
from ._delta_messages import to_delta_message
from ._model_format import log_format, model_format
from ._parser_classes import log
from ._plan_requests import Planner, StrictLevel, has_structural_tag, strict_level
from ._reasoning_and_tool_parsers import UnspoolReasoningParser, UnspoolToolParser
from ._server_patches import patch_servers

diagnostics = DiagnosticLog(log)


class UnspoolParser(compat.Parser):
    """Combined parser for one choice of a request."""

    always_adjust_request: ClassVar[bool] = True
    tool_dialect: ClassVar[str | None] = None
    """The dialect name of the tool parser; None if the server has no tool parser."""
    reasoning_dialect: ClassVar[str | None] = None
    """The dialect name of the reasoning parser; None if the server has no reasoning parser."""
    level: ClassVar[StrictLevel] = "auto"
    """What the server enforces in requests with optional calls (``--tool-strict-level``)."""

    def __init__(
        self,
        tokenizer: Any,
        tools: list[Any] | None = None,
        *args: Any,
        chat_template_kwargs: Mapping[str, object] | None = None,
        model_config: Any = None,
        **kwargs: Any,
    ) -> None:
        self._model = model_format(tokenizer, self.tool_dialect, self.reasoning_dialect)
        log_format(
            self._model, calls=self.tool_dialect is not None, reasoning=self.reasoning_dialect is not None
        )
        super().__init__(
            tokenizer,
            tools,
            *args,
            chat_template_kwargs=chat_template_kwargs,
            model_config=model_config,
            **kwargs,
        )
        self._kwargs = chat_template_kwargs or {}
        self._planner = Planner(
            self._model,
            calls=self.tool_dialect is not None,
            reasoning=self.reasoning_dialect is not None,
            level=self.level,
        )
        self._prompt: Sequence[int] | None = None
        self._parser: Parser | None = None
        self._deltas: DeltaEncoder | None = None
        self._by_ids = True
        self._reasoning_counter: ReasoningCounter | None = None

    def adjust_request(self, request: Any) -> Any:
        return self._planner.adjust(request, self._kwargs)

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        self._prompt = prompt_token_ids

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Return whether a grammar applies to the whole output; ``input_ids`` are the prompt's token ids."""
        reasoning_parser = self._reasoning_parser
        return reasoning_parser is None or reasoning_parser.starts_grammar(input_ids)

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        if self.reasoning_dialect is None:
            return 0
        prompt = None if self._prompt is None else self._model.last_turn(self._prompt)
        if self._parser is None:
            return self._model.reasoning.count(token_ids, prompt=prompt)
        # During a stream, the server may call this method after every token, so count only the new tokens.
        if self._reasoning_counter is None:
            self._reasoning_counter = self._model.reasoning.counter(prompt=prompt)
        self._reasoning_counter.feed(token_ids[self._reasoning_counter.fed :])
        return self._reasoning_counter.total

    def parse(
        self,
        model_output: str,
        request: Any,
        enable_auto_tools: bool = False,
        model_output_token_ids: Sequence[int] = (),
    ) -> tuple[str | None, str | None, list[Any] | None]:
        by_ids = bool(model_output_token_ids) and not has_structural_tag(request)
        parser = self._new_parser(request, by_ids=by_ids)
        deltas = DeltaEncoder(parser)
        if by_ids:
            ids = self._model.without_end(model_output, model_output_token_ids)
            events = parser.feed_decoded(model_output, ids)
        else:
            events = parser.feed(model_output)
        delta = deltas.feed(events + parser.finish())
        self._report(deltas, request, streaming=False)
        calls: list[Any] = [
            compat.FunctionCall(id=call.id, name=call.name or "", arguments=call.arguments)
            for call in delta.calls
        ]
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
            self._by_ids = not has_structural_tag(request)
            parser = self._parser = self._new_parser(request, by_ids=self._by_ids)
            deltas = self._deltas = DeltaEncoder(parser)
        if self._by_ids:
            ids = self._model.without_end(delta_text, delta_token_ids) if finished else delta_token_ids
            events = parser.feed_decoded(delta_text, ids)
        else:
            events = parser.feed(delta_text)
        if finished:
            events += parser.finish()
        delta = deltas.feed(events)
        if finished:
            self._parser = self._deltas = self._reasoning_counter = None  # ready for another output
            self._report(deltas, request, streaming=True)
        return to_delta_message(delta)

    def _new_parser(self, request: Any, *, by_ids: bool) -> Parser:
        """Create a parser for the next output; new call ids continue the numbering of earlier calls."""
        self._initialize_history_tool_call_cnt(request)
        before = self._stream_state.history_tool_call_cnt
        new = self._model.dialect.id_format.new
        plan = self._planner.plan(request, self._kwargs, self._prompt)
        return plan.parser(
            ids=by_ids, new_id=(lambda name, index: new(name, before + index)) if before else None
        )

    def _report(self, deltas: DeltaEncoder, request: Any, *, streaming: bool) -> None:
        diagnostics.report(self._model.dialect.name, deltas.diagnostics)
        if compat.record_tool_parser_invocation is not None and self.tool_dialect is not None:
            compat.record_tool_parser_invocation(
                is_tool_called=deltas.has_calls, is_streaming=streaming, request=request
            )


def compose(
    tools: type[UnspoolToolParser] | None,
    reasoning: type[UnspoolReasoningParser] | None,
    *,
    tool_strict_level: object = None,
) -> Any:
    """Create the combined parser class for a server with these parsers.

    :param tool_strict_level: vLLM's value of ``--tool-strict-level``, whose type depends on the release.
    """
    patch_servers(UnspoolParser)
    return type(
        "UnspoolParser",
        (UnspoolParser,),
        {
            "reasoning_parser_cls": reasoning,
            "tool_parser_cls": tools,
            "tool_dialect": None if tools is None else tools.dialect_name,
            "reasoning_dialect": None if reasoning is None else reasoning.dialect_name,
            "level": strict_level(tool_strict_level),
        },
    )


def with_reasoning_parser(composed: Any) -> Any:
    """Return a subclass of vLLM's combined parser for use with unspool's reasoning parser.

    The subclass tells the reasoning parser whether vLLM's parser of calls follows, and what the prompt is.
    Since 0.33, vLLM's own class passes the prompt, too; the subclass does so in older releases.
    """
    only_calls = not hasattr(composed.tool_parser_cls, "dialect_name")

    class WithReasoningParser(composed):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._reasoning_parser.only_calls = only_calls

        def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
            self._reasoning_parser.set_prompt_token_ids(prompt_token_ids)

        def parse_delta(
            self,
            delta_text: str,
            delta_token_ids: list[int],
            request: Any,
            prompt_token_ids: list[int] | None = None,
            *,
            finished: bool,
        ) -> Any:
            half = self._reasoning_parser
            half.stream_ends = finished
            if prompt_token_ids is not None and not self._stream_state.prompt_reasoning_checked:
                half.set_prompt_token_ids(prompt_token_ids)
            if only_calls and self._stream_state.reasoning_ended:
                delta_text = half.content_after_reasoning(delta_text)
            return super().parse_delta(
                delta_text, delta_token_ids, request, prompt_token_ids, finished=finished
            )

    WithReasoningParser.__name__ = composed.__name__
    return WithReasoningParser
