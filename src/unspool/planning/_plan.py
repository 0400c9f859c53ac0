"""The plan of a request, its inputs, and the constraint for the backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from .._core.machine import OutputStart
from .._core.schema.tools import Tools
from .._core.token_ids.tokenizer_adapters import AnyTokenizer
from ..dialects import Dialect, Mode, RequestFacts
from ..errors import UsageError
from ..grammar import Grammar, Start, grammar_for, guided_schema
from ..parser import Parser
from ..policies import Policies
from ._planned_parser import NewId, PlannedParser
from .derived_dialects import opener
from .request_stages import LeadStrip, NoReasoning, OneCall, ReasoningAsAnswer, Stage

ToolContinuation: TypeAlias = Literal["prompt", "off", "on"]
ToolOutput: TypeAlias = Literal["none", "native", "guided_json"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """Constraint with which the backend enforces the form of the calls in an output.

    The methods build the grammar or the schema each time they are called.
    """

    kind: ToolOutput
    """The kind of constraint: ``none``, ``native`` (grammar of the dialect's markup) or ``guided_json``."""
    dialect: Dialect
    tools: tuple[Mapping[str, object], ...] = ()
    choice: Literal["auto", "required", "named"] = "auto"
    name: str = ""
    """The function that ``tool_choice`` names; empty if it names none."""
    parallel: bool = True
    """True if the model may write more than one call."""
    reasoning: bool = False
    """True if the model may reason first."""
    start: Start = "message"
    """The channel that the prompt has opened; ``message`` if the prompt has opened no channel."""

    def grammar(self) -> Grammar:
        """Return the grammar of the dialect's markup, which can be converted to the format of each engine."""
        self._expect("native", "json_schema()")
        return grammar_for(
            self.dialect,
            self.tools,
            choice=self._choice(),
            parallel=self.parallel,
            reasoning=self.reasoning,
            start=self.start,
        )

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema for the calls; the backend must apply it only after the reasoning."""
        self._expect("guided_json", "grammar()")
        return guided_schema(
            self.tools, choice=self._choice(), parallel=self.parallel, bare=self.choice == "named"
        )

    def _choice(self) -> Any:
        return {"name": self.name} if self.choice == "named" else self.choice

    def _expect(self, kind: ToolOutput, other: str) -> None:
        if self.kind != kind:
            advice = "there is nothing to enforce" if self.kind == "none" else f"use {other}"
            raise UsageError(f"the kind of this constraint is {self.kind!r}: {advice}")


@dataclass(frozen=True, slots=True)
class Inputs:
    """Validated arguments of ``plan()``."""

    family: str
    """The name of the dialect or checkpoint, as the caller passed it."""
    dialect: Dialect
    facts: RequestFacts
    request: Mapping[str, object]
    prompt: str | Sequence[int] | None
    tokenizer: AnyTokenizer | None
    defaults: Mapping[str, object]
    constraints: tuple[Mode, ...]
    continuation: ToolContinuation
    eos_token_ids: tuple[int, ...] | None
    policies: Policies


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions for one request, made by :func:`unspool.plan`."""

    dialect: Dialect
    """The dialect of the model."""
    facts: RequestFacts
    """The request facts of the model's family."""
    reads: Dialect
    """The dialect with which the parser reads the output.

    It is the model's dialect, a copy of that dialect without reasoning, or a dialect for guided JSON.
    """
    tools: tuple[Mapping[str, object], ...]
    """The tools that the model may call."""
    n: int
    """The number of choices."""

    skip_special_tokens: bool
    """True if the detokenizer may strip special tokens."""
    spaces_between_special_tokens: bool
    """True if the detokenizer may put spaces between special tokens."""
    reasoning: bool
    """True if the model reasons."""
    include_reasoning: bool
    """True if the client receives the reasoning."""
    chat_template_kwargs: Mapping[str, object]
    """Variables for the chat template, including the reasoning options that this family's template reads."""
    start: OutputStart
    """Where the output begins: in content, in reasoning, in the header of a message,
    or inside a call that the prompt has begun."""
    tool_output: ToolOutput
    """The form of calls: ``native`` (the dialect's markup), ``guided_json`` (JSON), or ``none`` if there are
    no calls."""
    constraint: Constraint
    """The constraint with which the backend enforces the calls."""
    forced: bool
    """True if the model must call a tool."""
    ignore_eos: bool
    """True if generation continues after the end of the turn."""
    eos: tuple[str, ...]
    """The tokens that end a turn; empty if the request ignores them, or if they are unknown."""
    eos_token_ids: tuple[int, ...] | None
    """The ids of the tokens in ``eos``; None if only the backend knows them."""
    strip: str
    """The marker to strip from the beginning of the content; empty if there is none."""

    why: Mapping[str, str]
    """One sentence for each decision; the keys are names of the plan's attributes, such as ``start``."""
    warnings: tuple[str, ...]
    """Problems that the caller should fix."""

    _inputs: Inputs = field(repr=False)
    _parsed_tools: Tools = field(repr=False, compare=False)
    """The tools in parsed form, shared by the parsers of all choices."""
    _prompt: str | None = field(repr=False)
    _continues: bool = field(repr=False)
    _stages: tuple[str, ...] = field(repr=False)
    _detects_json: bool = field(repr=False)
    """True if the prompt has opened reasoning, but the output may begin with JSON instead."""

    def __repr__(self) -> str:
        shown = [repr(self.dialect.name), f"start={self.start!r}", f"tool_output={self.tool_output!r}"]
        if self.reads is not self.dialect:
            shown.append(f"reads={self.reads.name!r}")
        shown += [name for name in ("reasoning", "forced", "skip_special_tokens") if getattr(self, name)]
        if self.tools:
            shown.append(f"{len(self.tools)} tools")
        if self.warnings:
            shown.append(f"{len(self.warnings)} warnings")
        return f"Plan({', '.join(shown)})"

    def parser(self, *, ids: bool = False, new_id: NewId | None = None) -> Parser:
        """Return a new parser for one choice; each choice needs its own parser.

        :param ids: True if the parser will be fed token ids instead of text.
        :param new_id: a function that makes call ids; see :class:`Parser`.
        """
        tokenizer = self._inputs.tokenizer if ids else None
        if ids and tokenizer is None:
            raise UsageError("parser(ids=True) needs the model's tokenizer: plan(..., tokenizer=...)")
        policies = self._inputs.policies
        if not self._detects_json and not self._stages:
            return Parser(
                self.reads,
                tools=self._parsed_tools,
                prompt=self._prompt,
                continues=self._continues,
                tokenizer=tokenizer,
                policies=policies,
                forced=self.forced,
                new_id=new_id,
            )
        return PlannedParser(
            self.reads,
            tools=self._parsed_tools,
            prompt=self._prompt,
            continues=self._continues,
            tokenizer=tokenizer,
            policies=policies,
            forced=self.forced,
            new_id=new_id,
            reasoning_openers=tuple(map(opener, self.reads.reasoning)) if self._detects_json else None,
            stages=[self._stage(name) for name in self._stages],
        )

    def parsers(self, *, ids: bool = False, new_id: NewId | None = None) -> list[Parser]:
        """Return a list with one parser for each of the ``n`` choices."""
        return [self.parser(ids=ids, new_id=new_id) for _ in range(self.n)]

    def with_prompt(self, prompt: str | Sequence[int]) -> Plan:
        """Return a copy of the plan in which the decisions are based on a rendered prompt.

        :param prompt: the prompt, rendered with ``chat_template_kwargs``.
        """
        from ._build_plan import build_plan

        return build_plan(replace(self._inputs, prompt=prompt))

    def without_request(self) -> Plan:
        """Return a copy of the plan without the conversation and the tools, to save memory."""
        inputs = replace(self._inputs, request=_switches_only(self._inputs.request), prompt=None)
        constraint = replace(self.constraint, tools=())
        return replace(self, tools=(), constraint=constraint, _inputs=inputs, _parsed_tools=Tools(()))

    def with_tools(self, tools: Sequence[Mapping[str, object]]) -> Plan:
        """Return a copy of the plan with the tools that :meth:`without_request` has removed."""
        inputs = replace(self._inputs, request={**self._inputs.request, "tools": tools})
        return replace(self, tools=tuple(tools), _inputs=inputs, _parsed_tools=Tools(tools))

    def __str__(self) -> str:
        lines = [f"{name}: {sentence}" for name, sentence in self.why.items()]
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    def _stage(self, name: str) -> Stage:
        if name == "strip":
            return LeadStrip(self.strip)
        if name == "one_call":
            return OneCall()
        if name == "answer":
            return ReasoningAsAnswer(strict=self.facts.thinking.habits.swap == "nothing")
        return NoReasoning()


def _switches_only(request: Mapping[str, object]) -> dict[str, object]:
    """Return a copy of a request without long text: only fields that hold switches or numbers are kept."""
    return {
        name: value
        for name, value in request.items()
        if name == "tool_choice" or value is None or isinstance(value, (bool, int, float))
    }
