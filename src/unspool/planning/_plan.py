"""The values that a plan is made of and made into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from .._core.schema.tools import Tools
from .._core.token_ids.tokenizers import AnyTokenizer
from ..dialects._declaration import Dialect
from ..dialects._request_facts import Mode, RequestFacts
from ..errors import UsageError
from ..grammar import Grammar, Start, grammar_for, guided_schema
from ..parser import Parser
from ..policies import Policies
from ._choice_parser import (
    LeadStrip,
    NewId,
    NoReasoning,
    OneCall,
    PlannedParser,
    ReasoningAsAnswer,
    Stage,
)
from ._derived_dialects import opener

OutputStart: TypeAlias = Literal["content", "reasoning", "header", "call"]
Continuation: TypeAlias = Literal["prompt", "off", "on"]
ToolOutput: TypeAlias = Literal["none", "native", "guided_json"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """What the backend is to hold the model to, so that it calls as it was asked to.

    Nothing is compiled before one of the methods is called.
    """

    kind: ToolOutput
    """Nothing; a grammar of the dialect's own markup; a JSON schema."""
    dialect: Dialect
    tools: tuple[Mapping[str, object], ...] = ()
    choice: Literal["auto", "required", "named"] = "auto"
    name: str = ""
    """The function of a named choice."""
    parallel: bool = True
    """Whether several calls may come."""
    reasoning: bool = False
    """Whether reasoning may come first."""
    start: Start = "message"
    """What the prompt has opened."""

    def grammar(self) -> Grammar:
        """The grammar of the dialect's own markup: ``.structural_tag()``, ``.gbnf()``."""
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
        """The schema of the calls, for the output behind any reasoning."""
        self._expect("guided_json", "grammar()")
        return guided_schema(
            self.tools, choice=self._choice(), parallel=self.parallel, bare=self.choice == "named"
        )

    def _choice(self) -> Any:
        return {"name": self.name} if self.choice == "named" else self.choice

    def _expect(self, kind: ToolOutput, other: str) -> None:
        if self.kind != kind:
            instead = "there is nothing to enforce" if self.kind == "none" else f"use {other}"
            raise UsageError(f"this constraint is of the kind {self.kind!r}: {instead}")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a plan is made of."""

    family: str
    """What the caller called it."""
    dialect: Dialect
    facts: RequestFacts
    request: Mapping[str, object]
    prompt: str | Sequence[int] | None
    tokenizer: AnyTokenizer | None
    defaults: Mapping[str, object]
    constraints: tuple[Mode, ...]
    continuation: Continuation
    eos_token_ids: tuple[int, ...] | None
    policies: Policies


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions around one request; :func:`unspool.plan` makes them."""

    dialect: Dialect
    """How the model writes."""
    facts: RequestFacts
    """Its row of the truth table."""
    reads: Dialect
    """What the output is read as: the dialect, the dialect without its reasoning, or JSON."""
    tools: tuple[Mapping[str, object], ...]
    """The tools that may be called."""
    n: int
    """How many choices there will be."""

    skip_special_tokens: bool
    """What to tell the detokenizer ..."""
    spaces_between_special_tokens: bool
    """... and whether it may put blanks between those it keeps."""
    reasoning: bool
    """Whether the model is to reason."""
    include_reasoning: bool
    """Whether the client is to see it."""
    chat_template_kwargs: Mapping[str, object]
    """Variables to render the chat template with, in the family's own spelling."""
    start: OutputStart
    """Where the output begins: in the answer, inside reasoning, in the header of a message,
    or inside a call that the prompt began."""
    tool_output: ToolOutput
    """What calls look like: there are none, the dialect's own markup, bare JSON."""
    constraint: Constraint
    """What holds the model to it."""
    forced: bool
    """Whether there must be a call."""
    ignore_eos: bool
    """Whether generation goes on past the end of the turn."""
    eos: tuple[str, ...]
    """The tokens that end a turn; empty if they are to be ignored, or unknown."""
    eos_token_ids: tuple[int, ...] | None
    """Their ids; None: the backend must know them."""
    strip: str
    """The marker to take off the beginning of the content; empty: none."""

    why: Mapping[str, str]
    """A sentence for each decision, by the name of its attribute."""
    warnings: tuple[str, ...]
    """What the caller should know."""

    _inputs: Inputs = field(repr=False)
    _known: Tools = field(repr=False, compare=False)
    """The tools, read once for the parsers of all choices."""
    _prompt: str | None = field(repr=False)
    _continues: bool = field(repr=False)
    _stages: tuple[str, ...] = field(repr=False)
    _shape: bool = field(repr=False)

    def parser(self, *, ids: bool = False, new_id: NewId | None = None) -> Parser:
        """A parser for one choice; every choice needs its own.

        :param ids: it will be fed token ids, not text.
        :param new_id: gives calls their ids, see :class:`Parser`.
        """
        tokenizer = self._inputs.tokenizer if ids else None
        if ids and tokenizer is None:
            raise UsageError("parser(ids=True) needs the model's tokenizer: plan(..., tokenizer=...)")
        policies = self._inputs.policies
        if not self._shape and not self._stages:
            return Parser(
                self.reads,
                tools=self._known,
                prompt=self._prompt,
                continues=self._continues,
                tokenizer=tokenizer,
                policies=policies,
                forced=self.forced,
                new_id=new_id,
            )
        return PlannedParser(
            self.reads,
            tools=self._known,
            prompt=self._prompt,
            continues=self._continues,
            tokenizer=tokenizer,
            policies=policies,
            forced=self.forced,
            new_id=new_id,
            shape=tuple(map(opener, self.reads.reasoning)) if self._shape else None,
            stages=[self._stage(name) for name in self._stages],
        )

    def parsers(self, *, ids: bool = False, new_id: NewId | None = None) -> list[Parser]:
        """A parser for each of the ``n`` choices."""
        return [self.parser(ids=ids, new_id=new_id) for _ in range(self.n)]

    def with_prompt(self, prompt: str | Sequence[int]) -> Plan:
        """The same plan, now that the prompt is rendered (with ``chat_template_kwargs``)."""
        from ._build_plan import decide

        return decide(replace(self._inputs, prompt=prompt))

    def without_request(self) -> Plan:
        """The same plan without the conversation and the tools, which may be large: to be kept."""
        inputs = replace(self._inputs, request=_small(self._inputs.request), prompt=None)
        constraint = replace(self.constraint, tools=())
        return replace(self, tools=(), constraint=constraint, _inputs=inputs, _known=Tools(()))

    def with_tools(self, tools: Sequence[Mapping[str, object]]) -> Plan:
        """A plan that was kept, with its tools again: it reads as it did."""
        inputs = replace(self._inputs, request={**self._inputs.request, "tools": tools})
        return replace(self, tools=tuple(tools), _inputs=inputs, _known=Tools(tools))

    def __str__(self) -> str:
        lines = [f"{name}: {sentence}" for name, sentence in self.why.items()]
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    def _stage(self, name: str) -> Stage:
        if name == "strip":
            return LeadStrip(self.strip)
        if name == "one_call":
            return OneCall()
        if name == "answer":
            return ReasoningAsAnswer(strict=self.facts.thinking.swap == "nothing")
        return NoReasoning()


def _small(request: Mapping[str, object]) -> dict[str, object]:
    """What of a request is a switch, and not something to read."""
    return {
        name: value
        for name, value in request.items()
        if name == "tool_choice" or value is None or isinstance(value, (bool, int, float))
    }
