"""Decisions PRE.2 and PRE.6: whether the model reasons, and which marker is stripped from the content.

A request can switch reasoning on or off, but the rendered prompt takes precedence.
``decide_switch`` reads the switch, and ``decide_reasoning`` overrides it if the prompt
ends inside reasoning.
"""

from __future__ import annotations

from .._core.machine import OutputStart
from ..errors import UsageError
from ._context import PlanContext
from .prompt_end import closes_reasoning
from .reasoning_options import read_reasoning_options

_DEFAULTS = {
    "on": "is on unless the request turns it off",
    "off": "is off unless the request turns it on",
    "model": "is up to the model",
    "always": "cannot be turned off",
}


def decide_switch(context: PlanContext) -> bool:
    """Return whether reasoning is on: the request's choice or, without one, the family's default."""
    family, thinking = context.family, context.thinking
    options, request = context.reasoning_options, context.request
    if thinking.default is None:
        return _explain(context, False, f"{family} does not reason")
    if not request.separate_reasoning:
        if context.dialect.frame is not None:
            raise UsageError(
                f"separate_reasoning=false: {family} writes reasoning as a separate message, which "
                "cannot stay in the content; use include_reasoning=false to hide it"
            )
        return _explain(context, False, "the request keeps reasoning in the content (separate_reasoning)")
    if thinking.habits.named_off and request.choice == "named":
        if options.on:
            context.warnings.append(
                f"{options.source} is ignored: {family} does not reason before named calls"
            )
        _switch_template(context, False)
        return _explain(context, False, f"{family} does not reason if tool_choice names the function")
    if options.on is not None:
        if not options.on and thinking.habits.caution:
            context.warnings.append(thinking.habits.caution)
        return _explain(context, options.on, f"the request sets {options.source}")
    if thinking.habits.json_off and not options.source and (request.forced or request.json_answer):
        _switch_template(context, False)
        why = (
            f"{family} does not reason before required calls and JSON answers unless the request asks for it"
        )
        return _explain(context, False, why)
    why = f"reasoning of {family} {_DEFAULTS[thinking.default]}"
    return _explain(context, thinking.default != "off", why)


def _explain(context: PlanContext, on: bool, why: str) -> bool:
    context.why["reasoning"] = f"{'on' if on else 'off'}: {why}"
    return on


def _switch_template(context: PlanContext, on: bool) -> None:
    """Set the template variables that turn reasoning on or off; they replace those in the request."""
    options = read_reasoning_options(context.family, context.thinking, {"thinking": on}, {})
    context.template_kwargs = {**context.template_kwargs, **options.kwargs}


def decide_reasoning(context: PlanContext, *, switched_on: bool, start: OutputStart) -> bool:
    """Return whether the model reasons; add a warning if the prompt contradicts the request."""
    options = context.reasoning_options
    reasoning = switched_on or start == "reasoning"
    if reasoning != switched_on:
        context.why["reasoning"] = "on: the prompt ends inside reasoning"
        context.warnings.append(
            f"the prompt ends inside reasoning although {options.source or 'it is off by default'}: "
            "the template ignored the switch, and the model will reason"
        )
    elif options.on and context.prompt is not None and closes_reasoning(context.dialect, context.prompt):
        context.warnings.append(
            f"the prompt closes reasoning although {options.source}: "
            "the template ignored the switch, and the model will not reason"
        )
    return reasoning


def reads_reasoning(context: PlanContext, *, reasoning: bool) -> bool:
    """Return True if the parser recognises reasoning markers, False if it treats them as ordinary text."""
    if not context.request.separate_reasoning or context.thinking.default is None:
        return False
    return reasoning or context.thinking.when_off == "read"


def decide_strip(context: PlanContext, *, reasoning: bool) -> str:
    """Return the marker to strip from the beginning of the content; empty if there is none.

    Some models write a reasoning marker even while reasoning is off.
    """
    marker = context.thinking.strip
    if marker is None:
        context.why["strip"] = f"nothing: output of {context.family} does not need it"
    elif reasoning:
        context.why["strip"] = "nothing: reasoning is on, so the parser reads its markers"
    elif not context.request.separate_reasoning:
        context.why["strip"] = "nothing: the request keeps reasoning in the content"
    else:
        context.why["strip"] = f"{marker}: {context.family} may write it although reasoning is off"
        return marker
    return ""
