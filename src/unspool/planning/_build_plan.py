"""The plan of one request: what the backend is told, and how its output is read.

Six decisions, each made in one function and explained in one sentence:

=====  ===================================================================
PRE.1  whether the detokenizer may strip special tokens
PRE.2  whether the model reasons
PRE.3  where its output begins
PRE.4  how calls are enforced, and what they are then read as
PRE.5  what ends the output
PRE.6  which marker is taken off the beginning of the content
=====  ===================================================================

What a family's templates and engines do is data (``dialects/_request_facts.py``).  Where the
rendered prompt is known, it has the last word: a template may have been edited,
and a model goes on from what it reads, not from what we believe it was told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .._core.schema.tools import Tools
from .._core.token_ids.tokenizers import AnyTokenizer, as_tokenizer
from ..dialects._declaration import Dialect
from ..dialects._registry import checkpoint, facts_of, find, get_dialect, plain_name
from ..dialects._request_facts import MODEL, Mode, RequestFacts
from ..errors import UsageError
from ..policies import Policies
from ._derived_dialects import guided, opener, without_reasoning
from ._plan import (
    Constraint,
    Continuation,
    Inputs,
    OutputStart,
    Plan,
    ToolOutput,
)
from ._prompt_end import (
    DEFAULTS,
    check_prompt,
    closes_reasoning,
    continued_turn,
    opens_content,
    prompt_text,
    relevant,
    start_state,
    tail,
)
from ._request import read_request
from ._special_tokens import stripped_markers
from ._thinking import read_switches

if TYPE_CHECKING:
    from ..grammar import Start

_CONSTRAINTS: Final[tuple[Mode, ...]] = ("native", "json")
_NO_DEFAULTS: Final[Mapping[str, object]] = {}
WHY: Final = ("skip_special_tokens", "reasoning", "start", "tool_output", "eos", "strip")
"""The decisions, PRE.1 to PRE.6."""


def plan(
    dialect: str | Dialect,
    request: Mapping[str, object],
    *,
    prompt: str | Sequence[int] | None = None,
    tokenizer: AnyTokenizer | None = None,
    defaults: Mapping[str, object] = _NO_DEFAULTS,
    constraints: Collection[str] = _CONSTRAINTS,
    tool_continuation_reasoning: Continuation = "prompt",
    eos_token_ids: int | Iterable[int] | None = None,
    policies: Policies = DEFAULTS,
    facts: RequestFacts | None = None,
) -> Plan:
    r"""Decide what a request means for the backend and for the parser.

    :param dialect: a name, also of a checkpoint or a reasoning parser (``deepseek_r1``,
        ``qwen3_coder+qwen3_thinking``), or a dialect value.
    :param request: the body of a chat completion.
    :param prompt: the rendered prompt or its tail, as text or ids; it decides where the
        output begins.  Without it the family's habits do.
    :param tokenizer: the model's tokenizer; it decides which markers are special tokens.
    :param defaults: template variables of the deployment.
    :param constraints: what the backend can hold a model to: ``native`` grammars
        (structural tags, GBNF), ``json`` schemas.
    :param tool_continuation_reasoning: where the output begins after the result of a tool:
        as the prompt says, never or always inside reasoning.
    :param eos_token_ids: ``eos_token_id`` of the model's generation config.
    :param policies: for the parsers.
    :param facts: another row of the truth table than the dialect's own.

    >>> decided = plan("deepseek_r1", {"messages": [{"role": "user", "content": "Hi"}]})
    >>> decided.start
    'reasoning'
    >>> print(decided.why["start"])
    reasoning: no prompt was given, and templates of deepseek_r1 seed '<think>\n'
    """
    family, found, row = _resolve(dialect, tokenizer, facts)
    if tool_continuation_reasoning not in ("prompt", "off", "on"):
        raise UsageError(
            f"tool_continuation_reasoning={tool_continuation_reasoning!r}: choose one of prompt, off, on"
        )
    if isinstance(constraints, str) or not set(constraints) <= set(_CONSTRAINTS):
        raise UsageError(f"constraints={constraints!r}: a collection of 'native' and 'json'")
    ids = (eos_token_ids,) if isinstance(eos_token_ids, int) else eos_token_ids
    return decide(
        Inputs(
            family=family,
            dialect=found,
            facts=row,
            request=request,
            prompt=prompt,
            tokenizer=tokenizer,
            defaults=defaults,
            constraints=tuple(mode for mode in _CONSTRAINTS if mode in constraints),
            continuation=tool_continuation_reasoning,
            eos_token_ids=None if ids is None else tuple(ids),
            policies=policies,
        )
    )


def decide(inputs: Inputs) -> Plan:
    """The plan for these inputs."""
    return _Planner(inputs).plan()


def _resolve(
    dialect: str | Dialect, tokenizer: AnyTokenizer | None, facts: RequestFacts | None
) -> tuple[str, Dialect, RequestFacts]:
    """What the caller calls it, the dialect, and its row; names of checkpoints have rows of their own."""
    if isinstance(dialect, Dialect):
        found = find(dialect, tokenizer)
        return found.name, found, facts or facts_of(found)
    if not isinstance(dialect, str):
        raise UsageError(f"a dialect's name is a string, got {type(dialect).__name__}")
    calls, plus, reasoning = dialect.partition("+")
    found = get_dialect(_spoken(calls) + plus + _spoken(reasoning), tokenizer=tokenizer)
    row = facts or facts_of(found)
    shared = checkpoint(reasoning if plus else calls)
    if shared is not None and facts is None:
        row = replace(row, thinking=shared[1])
    return plain_name(dialect), found, row


def _spoken(name: str) -> str:
    """The dialect of a checkpoint; any other name as it is."""
    shared = checkpoint(name)
    return name if shared is None else shared[0]


class _Planner:
    """One plan being made."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.family = inputs.family
        self.dialect = inputs.dialect
        self.facts = inputs.facts
        self.thinking = inputs.facts.thinking
        self.request = read_request(inputs.request)
        self.wish = read_switches(self.family, self.thinking, inputs.request, inputs.defaults)
        self.prompt = prompt_text(inputs.prompt, inputs.tokenizer)
        self.continues = self.request.prefill is not None
        self.turn = self.turn_so_far()
        self.kwargs = self.wish.kwargs
        self.why: dict[str, str] = {}
        self.warnings = list(self.wish.warnings)
        if self.request.overruled:
            self.warnings.append(f"{self.request.overruled} has no effect: tool_choice demands a call")

    def turn_so_far(self) -> str | None:
        """Return what counts of the prompt, or of the message to be continued; None: neither is known."""
        begun = self.request.prefill
        if begun is None:
            return None if self.prompt is None else relevant(self.dialect, self.prompt)
        if self.prompt is None:
            return relevant(self.dialect, begun, continues=True) if begun else None
        return continued_turn(self.dialect, self.prompt, begun or self.request.prefilled_reasoning)

    def plan(self) -> Plan:
        request = self.request
        if self.prompt is not None:
            self.warnings += check_prompt(
                self.family, self.dialect, self.facts, self.prompt, continues=self.continues
            )
        gate = self.gate()
        start = self.start(gate)
        reasoning = gate or start == "reasoning"
        if reasoning != gate:
            self.why["reasoning"] = "on: the prompt ends inside reasoning"
            self.warnings.append(
                f"the prompt ends inside reasoning although {self.wish.said or 'it is off by default'}: "
                "the template did not heed the switch, and the model will reason"
            )
        elif self.wish.on and self.prompt is not None and closes_reasoning(self.dialect, self.prompt):
            self.warnings.append(
                f"the prompt closes reasoning although {self.wish.said}: "
                "the template did not heed the switch, and the model will not reason"
            )
        output = self.tool_output()
        reads_reasoning = self.reads_reasoning(reasoning)
        strip = self.strip(reasoning)
        skip = self.skip_special_tokens(output, reads_reasoning)
        eos, ids = self.eos()
        self.check_stops()
        json_first = output == "guided_json" or request.json_answer or bool(request.guided)
        return Plan(
            dialect=self.dialect,
            facts=self.facts,
            reads=self.reads(output, reads_reasoning, strip),
            tools=request.tools,
            n=request.n,
            skip_special_tokens=skip,
            spaces_between_special_tokens=skip,
            reasoning=reasoning,
            include_reasoning=request.include_reasoning,
            chat_template_kwargs=self.kwargs,
            start=start,
            tool_output=output,
            constraint=self.constraint(output, reasoning, start),
            forced=request.forced,
            ignore_eos=request.ignore_eos,
            eos=eos,
            eos_token_ids=ids,
            strip=strip,
            why={name: self.why[name] for name in WHY},
            warnings=tuple(dict.fromkeys(self.warnings)),
            _inputs=self.inputs,
            _known=Tools(request.tools),
            _prompt=self.parser_prompt(start, output, reads_reasoning),
            _continues=self.continues,
            _stages=self.stages(strip, output),
            _shape=json_first and start == "reasoning" and reads_reasoning,
        )

    # -- PRE.1: special tokens

    def skip_special_tokens(self, output: ToolOutput, reads_reasoning: bool) -> bool:
        because, otherwise = self.needed(calls=output == "native", reasoning=reads_reasoning)
        asked = self.request.skip_special_tokens
        if asked is None:
            why = f"keep them: {because}" if because else f"the backend's default: {otherwise}"
            self.why["skip_special_tokens"] = why
            return not because
        self.why["skip_special_tokens"] = f"the request says {str(asked).lower()}"
        if asked and because:
            self.warnings.append(
                f"skip_special_tokens=true blinds the parser: {because}; leave it out, or set it to false"
            )
        return asked

    def needed(self, *, calls: bool, reasoning: bool) -> tuple[str, str]:
        """Why markers must be kept, if they must; and what to say if not."""
        tokenizer = self.inputs.tokenizer
        if tokenizer is not None:
            tokens = stripped_markers(self.dialect, tokenizer, calls=calls, reasoning=reasoning)
            more = ", ..." if len(tokens) > 3 else ""
            return (
                f"the tokenizer flags {', '.join(tokens[:3])}{more} as special" if tokens else "",
                "the tokenizer flags no marker that can occur as special",
            )
        kinds = {
            "calls": calls and self.facts.calls_special == "yes",
            "reasoning": reasoning and self.thinking.special == "yes",
            "answers": self.facts.answers_special == "yes",
        }
        active = " and ".join(kind for kind, special in kinds.items() if special)
        return (
            f"the markers of {active} in {self.family} are special tokens" if active else "",
            "no marker that can occur is known to be a special token",
        )

    # -- PRE.2: the gate

    def gate(self) -> bool:
        """Whether the model is to reason, before the prompt is looked at."""
        thinking, wish, request = self.thinking, self.wish, self.request
        if thinking.default == "n/a":
            return self.gated(False, f"{self.family} does not reason")
        if not request.separate_reasoning:
            if self.dialect.frame is not None:
                raise UsageError(
                    f"separate_reasoning=false: reasoning of {self.family} is a message of its own and "
                    "cannot be left in the content; use include_reasoning=false to hide it"
                )
            return self.gated(False, "the request wants reasoning left in the content (separate_reasoning)")
        if thinking.named_off and request.choice == "named":
            if wish.on:
                self.warnings.append(f"{wish.said} is ignored: {self.family} does not reason in named calls")
            return self.gated(False, f"{self.family} does not reason where the function is named", tell=True)
        if wish.on is not None:
            if not wish.on and thinking.caution:
                self.warnings.append(thinking.caution)
            return self.gated(wish.on, f"the request says {wish.said}")
        if thinking.json_off and not wish.said and (request.forced or request.json_answer):
            why = f"{self.family} does not reason before forced calls and JSON unless told to"
            return self.gated(False, why, tell=True)
        habit = {
            "on": "is on unless the request says otherwise",
            "off": "is off unless the request says otherwise",
            "model": "is up to the model",
            "always": "cannot be switched off",
        }[thinking.default]
        return self.gated(thinking.default != "off", f"reasoning of {self.family} {habit}")

    def gated(self, on: bool, why: str, *, tell: bool = False) -> bool:
        """``tell``: the request did not say so, so the template must hear it from us."""
        self.why["reasoning"] = f"{'on' if on else 'off'}: {why}"
        if tell:
            spelt = read_switches(self.family, self.thinking, {"thinking": on}, {}).kwargs
            self.kwargs = {**self.kwargs, **spelt}
        return on

    def reads_reasoning(self, reasoning: bool) -> bool:
        """Whether markers of reasoning mean anything in the output."""
        if not self.request.separate_reasoning or self.thinking.default == "n/a":
            return False
        return reasoning or self.thinking.when_off == "read"

    # -- PRE.3: where the output begins

    def start(self, gate: bool) -> OutputStart:
        request, thinking, family = self.request, self.thinking, self.family
        if request.after_tool and self.inputs.continuation != "prompt":
            return self.continued(self.inputs.continuation, gate)
        if self.prompt is not None:
            found = start_state(self.dialect, self.turn or "", continues=self.continues)
            if found == "reasoning" and not request.separate_reasoning:
                found = "content"
            return self.starts(found, f"the prompt ends with {tail(self.prompt)!r}")
        if request.prefill is not None:
            if request.prefilled_reasoning and gate and self.dialect.reasoning:
                return self.starts("reasoning", "the message to continue has reasoning and no content")
            found = start_state(self.dialect, self.dialect.prompt.start + request.prefill, continues=True)
            return self.starts(found, f"the message to continue ends with {tail(request.prefill)!r}")
        if self.dialect.prompt.start:
            return self.starts("header", f"no prompt was given, and those of {family} end in a header")
        why = f"templates of {family} seed nothing"
        if thinking.inside and not gate:
            why = "reasoning is off"
        elif thinking.inside and thinking.default == "model" and not self.wish.on:
            why += " where the model decides"
        elif thinking.inside and request.after_tool and thinking.after_tool == "nothing":
            why += " after the result of a tool"
        elif thinking.inside:
            why = f"templates of {family} seed {thinking.seed!r}"
            return self.starts("reasoning", f"no prompt was given, and {why}")
        return self.starts("content", f"no prompt was given, and {why}")

    def starts(self, start: OutputStart, why: str) -> OutputStart:
        self.why["start"] = f"{start}: {why}"
        return start

    def continued(self, continuation: Continuation, gate: bool) -> OutputStart:
        """After the result of a tool, where the caller knows better than the prompt."""
        why = f"tool_continuation_reasoning={continuation}"
        if self.dialect.prompt.start:
            return self.starts("header", f"{why}, but output of {self.family} begins in a header")
        if continuation == "off":
            return self.starts("content", why)
        if not gate or not self.dialect.reasoning:
            raise UsageError(
                f"{why}, but reasoning is {self.why['reasoning']}: "
                "switch it on, or use tool_continuation_reasoning='prompt'"
            )
        return self.starts("reasoning", why)

    def parser_prompt(self, start: OutputStart, output: ToolOutput, reads_reasoning: bool) -> str | None:
        """The prompt that puts the parser where the output begins."""
        known = self.turn
        if self.request.after_tool and self.inputs.continuation != "prompt":
            known = None
        if start == "header":
            return known
        if start == "reasoning" and known is None:
            return self.thinking.seed if self.thinking.inside else opener(self.dialect.reasoning[0])
        if start == "reasoning":
            return known
        if known is None or output == "guided_json":
            return ""
        # Without the markers of reasoning, one of a call further up would count as the last.
        needed = start == "call" or reads_reasoning or opens_content(self.dialect, known)
        return known if needed else ""

    # -- PRE.4: calls

    def tool_output(self) -> ToolOutput:
        """What calls will look like."""
        request = self.request
        if request.choice == "none":
            return self.outputs("none", "the request offers no tools, or forbids to call them")
        if request.choice == "auto":
            return self.auto()
        spelt = "a call is required" if request.choice == "required" else f"{request.name} must be called"
        wanted, able = self.facts.forced, self.inputs.constraints
        mode = next((mode for mode in wanted if mode in able), None)
        if mode is None:
            needs = "cannot be held to it" if wanted == ("none",) else f"needs {' or '.join(wanted)}"
            self.warnings.append(
                f"{spelt}, but nothing enforces it: {self.family} {needs}, "
                f"and the backend takes {' or '.join(able) or 'no'} constraints"
            )
            return self.outputs("native", f"{spelt}, unconstrained")
        if mode == "json":
            return self.outputs("guided_json", f"{spelt}, held to a JSON schema")
        if self.ambiguous():
            names = " or ".join(dict.fromkeys(variant for _, variant in self.dialect.family.variants))
            raise UsageError(
                f"{spelt}, but how {self.family} writes calls depends on the vocabulary: pass tokenizer=, "
                f"or name {names}"
            )
        return self.outputs("native", f"{spelt}, held to the grammar of {self.dialect.name}")

    def ambiguous(self) -> bool:
        """Whether only the vocabulary could tell how calls are written."""
        return self.inputs.tokenizer is None and bool(self.dialect.family.variants)

    def auto(self) -> ToolOutput:
        if self.facts.calls_special == "n/a":
            self.warnings.append(f"{self.family} has no calls of its own: the tools will not be called")
            return self.outputs("none", f"{self.family} has no calls of its own")
        why = "calls are welcome"
        if self.request.strict:
            obstacle = self.obstacle()
            if obstacle:
                self.warnings.append(f"strict tools are not enforced: {obstacle}")
            else:
                why += f", and strict tools hold them to the grammar of {self.dialect.name}"
        return self.outputs("native", why)

    def obstacle(self) -> str:
        """What keeps strict tools from being enforced while calls are optional."""
        request = self.request
        if request.json_answer or request.guided:
            return f"{request.guided or 'response_format'} already constrains the output"
        if "native" not in self.inputs.constraints:
            return "the backend takes no grammars, and JSON alone would force a call"
        if self.ambiguous():
            return f"how {self.family} writes calls depends on the vocabulary; pass tokenizer="
        return ""

    def outputs(self, output: ToolOutput, why: str) -> ToolOutput:
        if output != "none" and not self.request.parallel:
            why += "; only the first call counts"
        self.why["tool_output"] = f"{output}: {why}"
        return output

    def constraint(self, output: ToolOutput, reasoning: bool, start: OutputStart) -> Constraint:
        request = self.request
        enforced = (
            "native" in self.facts.forced and "native" in self.inputs.constraints
            if request.forced
            else request.strict and not self.obstacle()
        )
        if output == "none" or (output == "native" and not enforced):
            return Constraint("none", self.dialect)
        begun: Start = "message"
        if start == "reasoning":
            begun = "reasoning"
        elif self.prompt is not None and opens_content(self.dialect, self.prompt):
            begun = "content"
        return Constraint(
            output,
            self.dialect,
            request.tools,
            "auto" if request.choice == "none" else request.choice,
            request.name,
            request.parallel,
            reasoning,
            begun,
        )

    def reads(self, output: ToolOutput, reads_reasoning: bool, strip: str) -> Dialect:
        if output == "guided_json":
            return guided(self.dialect, self.request.name, reads_reasoning, strip)
        return self.dialect if reads_reasoning else without_reasoning(self.dialect)

    # -- PRE.5: the end

    def eos(self) -> tuple[tuple[str, ...], tuple[int, ...] | None]:
        family = self.family
        if self.request.ignore_eos:
            self.why["eos"] = "the request ignores the end of the turn"
            return (), ()
        names = tuple(eos for eos in self.facts.eos if eos != MODEL)
        ids = self.vocabulary()
        known = [ids[name] for name in names if name in ids]
        ours = f"those of {family} in the vocabulary"
        given = self.inputs.eos_token_ids
        if given is None:
            self.why["eos"] = f"{ours if known else 'the backend knows them'}; no generation config was given"
            return names, tuple(known) or None
        # What ends a message in the middle of a turn must not end the turn.
        ends = self.dialect.frame.ends if self.dialect.frame is not None else ()
        inner = {ids[end]: end for end in ends if end in ids and end not in names}
        wrong = ", ".join(inner[id] for id in given if id in inner)
        if wrong:
            self.warnings.append(f"{wrong} ends a message of {family}, not the turn: not used as EOS")
        if known and not set(known).intersection(given):
            self.warnings.append(
                f"the generation config has none of the tokens that end a turn of {family} "
                f"({', '.join(names)}): is it the right model?"
            )
        self.why["eos"] = f"the generation config's{f', and {ours}' if known else ''}"
        return names, tuple(dict.fromkeys([*(id for id in given if id not in inner), *known]))

    def vocabulary(self) -> dict[str, int]:
        """Ids of the tokens that are matched as a whole."""
        if self.inputs.tokenizer is None:
            return {}
        return {token: id for id, token in as_tokenizer(self.inputs.tokenizer).special_tokens().items()}

    def check_stops(self) -> None:
        for stop in self.request.stop:
            if any(stop and stop in template for template in (*self.dialect.reasoning, *self.dialect.call)):
                self.warnings.append(f"stop={stop!r} is markup of {self.family}: the output will end there")

    # -- PRE.6: what is taken off the beginning

    def strip(self, reasoning: bool) -> str:
        marker = self.thinking.strip
        if marker == "n/a":
            self.why["strip"] = f"nothing: output of {self.family} needs none"
        elif reasoning:
            self.why["strip"] = "nothing: reasoning is on, so its markers are read"
        elif not self.request.separate_reasoning:
            self.why["strip"] = "nothing: the request wants reasoning left in the content"
        else:
            self.why["strip"] = f"{marker}: {self.family} may begin with it although reasoning is off"
            return marker
        return ""

    def stages(self, strip: str, output: ToolOutput) -> tuple[str, ...]:
        """What the events go through, in order."""
        request = self.request
        wanted = {
            # In guided output the marker is part of the section that is read.
            "strip": bool(strip) and output != "guided_json",
            "one_call": not request.parallel and output != "none",
            "answer": self.wish.nonempty,
            "no_reasoning": not request.include_reasoning,
        }
        return tuple(name for name, active in wanted.items() if active)
