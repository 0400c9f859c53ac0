"""Construction of the plan for one request: settings for the backend, and for the parser of its output.

The plan consists of six decisions, each made by one module and explained by one sentence in ``Plan.why``:

=====  ========================================  ===========================
PRE.1  may the detokenizer strip special tokens  ``decide_special_tokens``
PRE.2  does the model reason                     ``_decide_reasoning``
PRE.3  where does the output begin               ``_decide_output_start``
PRE.4  how are calls enforced and read           ``_decide_tool_output``
PRE.5  which tokens end the output               ``_decide_end_tokens``
PRE.6  which marker is stripped from the content ``_decide_reasoning``
=====  ========================================  ===========================

The facts about a family's templates and engines are data (``dialects/_family_request_facts.py``).  The
rendered prompt takes precedence over these facts and over the options in the request, because the model
continues this prompt, whose template may have been edited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from .._core.schema.tools import Tools
from .._core.token_ids.tokenizer_adapters import AnyTokenizer
from ..dialects import Dialect, Mode, RequestFacts, checkpoint, facts_of, find, get_dialect, plain_name
from ..errors import UsageError
from ..policies import PolicyChoice, as_policies
from ._context import PlanContext
from ._decide_end_tokens import decide_eos, warn_about_stops
from ._decide_output_start import decide_start, parser_prompt
from ._decide_reasoning import decide_reasoning, decide_strip, decide_switch, reads_reasoning
from ._decide_tool_output import (
    decide_tool_output,
    make_constraint,
    output_dialect,
    output_stages,
)
from ._plan import Inputs, Plan, ToolContinuation
from .decide_special_tokens import decide_skip_special_tokens
from .prompt_end import check_prompt, check_tools_shown

_CONSTRAINTS: Final[tuple[Mode, ...]] = ("native", "json")
_NO_DEFAULTS: Final[Mapping[str, object]] = {}
DECISIONS: Final = ("skip_special_tokens", "reasoning", "start", "tool_output", "eos", "strip")
"""The keys of ``Plan.why``, in the order of the decisions PRE.1 to PRE.6."""


def plan(
    dialect: str | Dialect,
    request: Mapping[str, object],
    *,
    prompt: str | Sequence[int] | None = None,
    tokenizer: AnyTokenizer | None = None,
    defaults: Mapping[str, object] = _NO_DEFAULTS,
    constraints: Collection[str] = _CONSTRAINTS,
    tool_continuation_reasoning: ToolContinuation = "prompt",
    eos_token_ids: int | Iterable[int] | None = None,
    policies: PolicyChoice | None = None,
    facts: RequestFacts | None = None,
) -> Plan:
    r"""Return the plan for a request: the settings of the backend and of the parser.

    :param dialect: the name of a dialect, a checkpoint or a reasoning parser (``deepseek_r1``,
        ``qwen3_coder+qwen3_thinking``), or a :class:`Dialect`.
    :param request: the body of a chat completion request.
    :param prompt: the rendered prompt or the end of it, as text or token ids.  The prompt shows where the
        output begins.  Without a prompt, the plan assumes what the family's templates usually render.
    :param tokenizer: the model's tokenizer, which shows which markers are special tokens.
    :param defaults: the deployment's default template variables.
    :param constraints: the kinds of constraints that the backend supports: ``native`` for grammars
        (structural tags, GBNF), ``json`` for JSON schemas.
    :param tool_continuation_reasoning: whether an output that follows a tool result begins inside reasoning:
        ``off`` (never), ``on`` (always) or ``prompt`` (if the prompt opens reasoning).
    :param eos_token_ids: the ``eos_token_id`` of the model's generation config.
    :param policies: the policies for the plan's parsers.
    :param facts: request facts to use instead of the dialect's own.

    >>> decided = plan("deepseek_r1", {"messages": [{"role": "user", "content": "Hi"}]})
    >>> decided.start
    'reasoning'
    >>> print(decided.why["start"])
    reasoning: no prompt was given, and prompts of deepseek_r1 end with '<think>\n'
    """
    family, declaration, family_facts = _resolve(dialect, tokenizer, facts)
    if tool_continuation_reasoning not in ("prompt", "off", "on"):
        raise UsageError(
            f"tool_continuation_reasoning={tool_continuation_reasoning!r}: choose one of prompt, off, on"
        )
    if isinstance(constraints, str) or not set(constraints) <= set(_CONSTRAINTS):
        raise UsageError(f"constraints={constraints!r}: pass a collection of 'native' and 'json'")
    ids = (eos_token_ids,) if isinstance(eos_token_ids, int) else eos_token_ids
    return build_plan(
        Inputs(
            family=family,
            dialect=declaration,
            facts=family_facts,
            request=request,
            prompt=prompt,
            tokenizer=tokenizer,
            defaults=defaults,
            constraints=tuple(kind for kind in _CONSTRAINTS if kind in constraints),
            continuation=tool_continuation_reasoning,
            eos_token_ids=None if ids is None else tuple(ids),
            policies=as_policies(policies),
        )
    )


def _resolve(
    dialect: str | Dialect, tokenizer: AnyTokenizer | None, facts: RequestFacts | None
) -> tuple[str, Dialect, RequestFacts]:
    """Return the dialect's name for error messages, the dialect itself, and its request facts.

    A checkpoint uses the dialect of its family, but has its own reasoning options.
    """
    if isinstance(dialect, Dialect):
        declaration = find(dialect, tokenizer)
        return declaration.name, declaration, facts or facts_of(declaration)
    if isinstance(dialect, Mapping):
        raise UsageError("the arguments are swapped: call plan(dialect, request)")
    if not isinstance(dialect, str):
        raise UsageError(f"a dialect's name is a string, got {type(dialect).__name__}")
    calls, plus, reasoning = dialect.partition("+")
    declaration = get_dialect(_dialect_name(calls) + plus + _dialect_name(reasoning), tokenizer=tokenizer)
    family_facts = facts or facts_of(declaration)
    entry = checkpoint(reasoning if plus else calls)
    if entry is not None and facts is None:
        family_facts = replace(family_facts, thinking=entry[1])
    return plain_name(dialect), declaration, family_facts


def _dialect_name(name: str) -> str:
    """Return the dialect of a checkpoint, or the name itself if it is not a checkpoint."""
    entry = checkpoint(name)
    return name if entry is None else entry[0]


def build_plan(inputs: Inputs) -> Plan:
    """Make all decisions for these inputs, and return the plan.

    The order of the decisions follows from their dependencies:

    1. Where the output begins depends on the reasoning options.
    2. Whether the model reasons depends on where the output begins.
    3. All other decisions depend on whether the model reasons.
    """
    context = PlanContext(inputs)
    request = context.request
    if context.prompt is not None:
        context.warnings += check_prompt(
            context.family, context.dialect, context.facts, context.prompt, continues=context.continues
        )
        context.warnings += check_tools_shown(inputs.prompt, request.tools, inputs.request)
    switched_on = decide_switch(context)
    start = decide_start(context, switched_on=switched_on)
    reasoning = decide_reasoning(context, switched_on=switched_on, start=start)
    output = decide_tool_output(context)
    reads = reads_reasoning(context, reasoning=reasoning)
    strip = decide_strip(context, reasoning=reasoning)
    skip = decide_skip_special_tokens(context, calls=output == "native", reasoning=reads)
    eos, eos_token_ids = decide_eos(context)
    warn_about_stops(context)
    may_begin_with_json = output == "guided_json" or request.json_answer or bool(request.guided)
    return Plan(
        dialect=context.dialect,
        facts=context.facts,
        reads=output_dialect(context, output, reads_reasoning=reads, strip=strip),
        tools=request.tools,
        n=request.n,
        skip_special_tokens=skip,
        spaces_between_special_tokens=skip,
        reasoning=reasoning,
        include_reasoning=request.include_reasoning,
        chat_template_kwargs=context.template_kwargs,
        start=start,
        tool_output=output,
        constraint=make_constraint(context, output, reasoning=reasoning, start=start),
        forced=request.forced,
        ignore_eos=request.ignore_eos,
        eos=eos,
        eos_token_ids=eos_token_ids,
        strip=strip,
        why={name: context.why[name] for name in DECISIONS},
        warnings=tuple(dict.fromkeys(context.warnings)),
        _inputs=inputs,
        _parsed_tools=Tools(request.tools),
        _prompt=parser_prompt(context, start, output, reads_reasoning=reads),
        _continues=context.continues,
        _stages=output_stages(context, strip, output),
        _detects_json=may_begin_with_json and start == "reasoning" and reads,
    )
