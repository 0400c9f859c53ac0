"""The two parsers that vLLM registers by name: a reasoning parser and a tool parser.

If both parsers are unspool's, ``_unified_parser.py`` parses the output.  In this case, the tool parser only
provides its name, and the engine core asks the reasoning parser whether reasoning has ended.  If only one
parser is unspool's, or if the engine cannot combine parsers, each class parses its own part of the output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ...parser import Parser
from ...planning import Plan
from ...planning.derived_dialects import closer, opener
from ...stages import ReasoningSplit, ReasoningSplitter
from .._deltas import DeltaEncoder
from . import _compat as compat
from ._delta_messages import to_delta_message
from ._model_format import log_format, model_format
from ._plan_requests import GRAMMAR_COVERS_REASONING, Planner, expects_reasoning, set_variables


class UnspoolReasoningParser(compat.ReasoningParser):
    """Reasoning parser for one dialect."""

    engine_based_streaming: ClassVar[bool] = True
    dialect_name: ClassVar[str]
    """The name under which the dialect is registered."""

    def __init__(
        self,
        tokenizer: Any,
        *args: Any,
        chat_template_kwargs: Mapping[str, object] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        self._model = model_format(tokenizer, None, self.dialect_name)
        log_format(self._model, calls=False, reasoning=True)
        self._kwargs = chat_template_kwargs or {}
        self._plan: Plan | None = None
        self._prompt: str | None = None
        self._splitter: ReasoningSplitter | None = None
        self._rest = ""
        self.only_calls = False
        """True if the parser of calls is vLLM's, which knows only the markup of calls."""
        self.stream_ends = False
        """True in the last step of a stream, if the combined parser sets it."""

    @property
    def reasoning_start_str(self) -> str | None:
        templates = self._model.dialect.reasoning
        return opener(templates[0]) or None if templates else None

    @property
    def reasoning_end_str(self) -> str | None:
        templates = self._model.dialect.reasoning
        return closer(templates[0]) or None if templates else None

    @property
    def plan(self) -> Plan:
        """A plan based only on the request's template variables."""
        if self._plan is None:
            self._plan = self._model.plan({"chat_template_kwargs": set_variables(self._kwargs)})
        return self._plan

    def adjust_request(self, request: Any) -> Any:
        if not self.plan.skip_special_tokens:
            request.skip_special_tokens = False
        return request

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Return whether reasoning has ended; ``input_ids`` are the prompt's token ids.

        vLLM asks this for two purposes.  To decide whether a grammar applies from the first token, vLLM asks
        a parser that does not know the prompt, in the engine core or in the server.  To decide whether this
        parser reads the output at all, vLLM asks it after ``set_prompt_token_ids``.  This parser always reads
        the output, because a model may write reasoning that its prompt does not announce.
        """
        return self._prompt is None and self.starts_grammar(input_ids)

    def starts_grammar(self, prompt: Sequence[int]) -> bool:
        """Return whether the engine should apply a grammar from the first token of the output."""
        if GRAMMAR_COVERS_REASONING in self._kwargs:
            return True
        prompt = self._model.last_turn(prompt)
        reasoning = self._model.reasoning
        return reasoning.ended(prompt) or not (expects_reasoning(self.plan) or reasoning.begins(prompt))

    def is_reasoning_end_streaming(self, input_ids: Sequence[int], delta_ids: Iterable[int]) -> bool:
        """Return whether the engine should apply a grammar to the output after these ids.

        If a call ends reasoning without a closing marker, the result is False, because the call has already
        begun and it is too late for a grammar.
        """
        delta = list(delta_ids)
        ended = self._model.reasoning.ended_by(input_ids, delta)
        return ended and self._model.closes_reasoning(input_ids, delta)

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        dialect = self._model.dialect
        if not dialect.reasoning and dialect.frame is None:
            return input_ids
        end = self._model.reasoning.end(input_ids, start_channel="reasoning")
        return [] if end is None else input_ids[end:]

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        return self._model.reasoning.count(token_ids)

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        splitter = self._new_splitter(opened=self._prompt is None and self._closes_first(model_output))
        first, last = splitter.feed(model_output), splitter.finish()
        return first.reasoning + last.reasoning or None, first.rest + last.rest or None

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """Take the prompt, which shows where the output begins."""
        self.adjust_initial_state_from_prompt(prompt_token_ids)

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Sequence[int]) -> None:
        self._prompt = self.model_tokenizer.decode(list(self._model.last_turn(prompt_token_ids)))

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> Any:
        if self._splitter is None:
            self._splitter = self._new_splitter()
        return self._message(self._splitter, self._splitter.feed(delta_text))

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Return whether reasoning has ended.  If it has, the text that was held back is content."""
        return self._splitter is not None and self._splitter.parser.reasoning_ended

    def finish_streaming(self) -> Any:
        """End the stream, and return a message with the text that was held back, if any.

        vLLM also calls this method when reasoning has ended.  If vLLM's parser of calls follows, the splitter
        then continues (``content_after_reasoning``).
        """
        splitter = self._splitter
        if splitter is None:
            return None
        if self.only_calls and splitter.parser.reasoning_ended and not self.stream_ends:
            return self._message(splitter, ReasoningSplit("", ""))
        self._splitter = None
        return self._message(splitter, splitter.finish(), final=True)

    def content_after_reasoning(self, text: str) -> str:
        """Return the next text after reasoning for vLLM's parser of calls, which knows no other markup."""
        splitter = self._splitter
        if splitter is None:
            return text
        splits = [splitter.feed(text)]
        if self.stream_ends:
            splits.append(splitter.finish())
            self._splitter = None
        return "".join(split.reasoning + split.rest for split in splits)

    def _closes_first(self, text: str) -> bool:
        """Return whether the text contains a closing reasoning marker without an opening marker before it.

        In this case, the prompt must have opened reasoning.  vLLM does not pass the prompt to this parser.
        """
        start, end = self.reasoning_start_str, self.reasoning_end_str
        if not start or not end:
            return False
        return end in text and start not in text.partition(end)[0]

    def _new_splitter(self, *, opened: bool = False) -> ReasoningSplitter:
        dialect, policies = self._model.dialect, self._model.policies
        start: dict[str, Any] = {"prompt": self._prompt}
        if opened or (self._prompt is None and self.plan.start == "reasoning"):
            start = {"start_channel": "reasoning"}
        return ReasoningSplitter(dialect, **start, policies=policies, only_calls=self.only_calls)

    def _message(self, splitter: ReasoningSplitter, split: ReasoningSplit, *, final: bool = False) -> Any:
        """Create vLLM's message for one step; return None if the step adds nothing.

        Text outside reasoning is held back until reasoning has ended, because such text belongs to the header
        of a message.
        """
        self._rest += split.rest
        rest = ""
        if splitter.parser.reasoning_ended or (final and splitter.parser.dialect.frame is None):
            rest, self._rest = self._rest, ""
        if not split.reasoning and not rest:
            return None
        return compat.DeltaMessage(reasoning=split.reasoning or None, content=rest or None)


class UnspoolToolParser(compat.ToolParser):
    """Tool parser for one dialect, which parses the output after reasoning."""

    engine_based_streaming: ClassVar[bool] = True
    supports_required_and_named: ClassVar[bool] = False
    """False disables vLLM's own format for forced calls, because unspool's grammar enforces the model's
    format."""
    dialect_name: ClassVar[str]
    """The name under which the dialect is registered."""

    def __init__(self, tokenizer: Any, tools: list[Any] | None = None) -> None:
        super().__init__(tokenizer, tools)
        self._model = model_format(tokenizer, self.dialect_name, None)
        log_format(self._model, calls=True, reasoning=False)
        self._planner = Planner(self._model, calls=True, reasoning=False)
        self._parser: Parser | None = None
        self._deltas: DeltaEncoder | None = None

    def adjust_request(self, request: Any) -> Any:
        return self._planner.adjust(request, {})

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        parser = self._new_parser(request)
        delta = DeltaEncoder(parser).feed(parser.feed(model_output) + parser.finish())
        calls = [
            compat.ToolCall(
                id=call.id, function=compat.FunctionCall(name=call.name or "", arguments=call.arguments)
            )
            for call in delta.calls
        ]
        return compat.ExtractedToolCallInformation(
            tools_called=bool(calls), tool_calls=calls, content=delta.content or None
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
            self._parser = self._new_parser(request)
            self._deltas = DeltaEncoder(self._parser)
        return to_delta_message(self._deltas.feed(self._parser.feed(delta_text)))

    def finish_streaming(self) -> Any:
        """End the stream, and return a delta with the text that was held back."""
        parser, deltas = self._parser, self._deltas
        self._parser = self._deltas = None
        return None if parser is None or deltas is None else to_delta_message(deltas.feed(parser.finish()))

    def _new_parser(self, request: Any) -> Parser:
        plan = self._planner.plan(request, {})
        return Parser(plan.reads, tools=plan.tools, start_channel="content", policies=self._model.policies)
