"""Decision PRE.4: how calls are enforced, and how the parser reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._core.machine import OutputStart
from ..dialects import Dialect
from ..errors import UsageError
from ._context import PlanContext
from ._plan import Constraint, ToolOutput
from .derived_dialects import guided, without_reasoning
from .prompt_end import opens_content

if TYPE_CHECKING:
    from ..grammar import Start


def decide_tool_output(context: PlanContext) -> ToolOutput:
    """Return the form in which the model writes calls: ``none``, ``native`` or ``guided_json``."""
    request = context.request
    if request.choice == "none":
        output, why = _no_calls()
    elif request.choice == "auto":
        output, why = _optional_calls(context)
    else:
        output, why = _required_calls(context)
    if output != "none" and not request.parallel:
        why += "; only the first call is kept"
    context.why["tool_output"] = f"{output}: {why}"
    return output


def _no_calls() -> tuple[ToolOutput, str]:
    return "none", "the request offers no tools, or forbids calls"


def _optional_calls(context: PlanContext) -> tuple[ToolOutput, str]:
    if context.facts.calls_special is None:
        context.warnings.append(
            f"{context.family} has no format for calls, so the model cannot call the tools"
        )
        return "none", f"{context.family} has no format for calls"
    why = "calls are optional"
    if context.request.strict:
        obstacle = _strict_obstacle(context)
        if obstacle:
            context.warnings.append(f"strict tools are not enforced: {obstacle}")
        else:
            why += f", and strict tools hold them to the grammar of {context.dialect.name}"
    return "native", why


def _strict_obstacle(context: PlanContext) -> str:
    """Return the reason why ``strict`` cannot be enforced for optional calls; empty if it can be enforced."""
    request = context.request
    if request.json_answer or request.guided:
        return f"{request.guided or 'response_format'} already constrains the output"
    if "native" not in context.inputs.constraints:
        return "the backend does not accept grammars, and a JSON schema alone would require a call"
    if context.needs_vocabulary:
        return f"the vocabulary decides how {context.family} writes calls; pass tokenizer="
    return ""


def _required_calls(context: PlanContext) -> tuple[ToolOutput, str]:
    request, family = context.request, context.family
    requirement = "a call is required" if request.choice == "required" else f"{request.name} must be called"
    supported, available = context.facts.forced, context.inputs.constraints
    constraint = next((constraint for constraint in supported if constraint in available), None)
    if constraint is None:
        needs = "cannot be constrained" if supported == ("none",) else f"needs {' or '.join(supported)}"
        context.warnings.append(
            f"{requirement}, but nothing enforces it: {family} {needs}, "
            f"and the backend accepts {' or '.join(available) or 'no'} constraints"
        )
        return "native", f"{requirement}, unconstrained"
    if constraint == "json":
        return "guided_json", f"{requirement}, enforced by a JSON schema"
    if context.needs_vocabulary:
        names = " or ".join(dict.fromkeys(variant for _, variant in context.dialect.family.variants))
        raise UsageError(
            f"{requirement}, but the vocabulary decides how {family} writes calls; pass tokenizer=, "
            f"or the dialect {names}"
        )
    return "native", f"{requirement}, enforced by the grammar of {context.dialect.name}"


def make_constraint(
    context: PlanContext, output: ToolOutput, *, reasoning: bool, start: OutputStart
) -> Constraint:
    """Return the constraint with which the backend enforces calls, or a constraint of kind ``none``."""
    request = context.request
    if request.forced:
        enforced = "native" in context.facts.forced and "native" in context.inputs.constraints
    else:
        enforced = request.strict and not _strict_obstacle(context)
    if output == "none" or (output == "native" and not enforced):
        return Constraint("none", context.dialect)
    grammar_start: Start = "message"
    if start == "reasoning":
        grammar_start = "reasoning"
    elif context.prompt is not None and opens_content(context.dialect, context.prompt):
        grammar_start = "content"
    return Constraint(
        output,
        context.dialect,
        request.tools,
        "auto" if request.choice == "none" else request.choice,
        request.name,
        request.parallel,
        reasoning,
        grammar_start,
    )


def output_dialect(context: PlanContext, output: ToolOutput, *, reads_reasoning: bool, strip: str) -> Dialect:
    """Return the dialect with which the parser reads the output."""
    if output == "guided_json":
        return guided(context.dialect, context.request.name, reads_reasoning, strip)
    return context.dialect if reads_reasoning else without_reasoning(context.dialect)


def output_stages(context: PlanContext, strip: str, output: ToolOutput) -> tuple[str, ...]:
    """Return the names of the stages that this plan needs, in the order in which they run."""
    request = context.request
    stages = {
        # With guided JSON, no stage is needed, because the dialect's section contains the marker to strip.
        "strip": bool(strip) and output != "guided_json",
        "one_call": not request.parallel and output != "none",
        "answer": context.reasoning_options.force_nonempty_content,
        "no_reasoning": not request.include_reasoning,
    }
    return tuple(name for name, active in stages.items() if active)
