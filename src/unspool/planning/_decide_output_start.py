"""Decision PRE.3: where the output begins.

If a prompt is given, its end shows where the output begins.  Otherwise the plan assumes that the prompt ends
as the family's own templates render it.  This assumption is wrong if the template was edited.
"""

from __future__ import annotations

from .._core.machine import OutputStart
from ..errors import UsageError
from ._context import PlanContext
from ._plan import ToolOutput
from .derived_dialects import opener
from .prompt_end import opens_content, start_state, tail


def decide_start(context: PlanContext, *, switched_on: bool) -> OutputStart:
    """Return where the output begins.

    :param switched_on: True if reasoning is on according to the request or the family's default.
    """
    request, dialect = context.request, context.dialect
    if _ignores_prompt(context):
        start, why = _start_after_tool(context, switched_on=switched_on)
    elif context.prompt is not None:
        start = start_state(dialect, context.turn or "", continues=context.continues)
        if start == "reasoning" and not request.separate_reasoning:
            start = "content"
        why = f"the prompt ends with {tail(context.prompt)!r}"
    elif request.prefill is not None:
        if request.prefilled_reasoning and switched_on and dialect.reasoning:
            start, why = "reasoning", "the message to continue has reasoning and no content"
        else:
            start = start_state(dialect, dialect.prompt.start + request.prefill, continues=True)
            why = f"the message to continue ends with {tail(request.prefill)!r}"
    elif dialect.prompt.start:
        start, why = "header", f"no prompt was given, and prompts of {context.family} end in a header"
    else:
        start, habit = _start_by_habit(context, switched_on=switched_on)
        why = f"no prompt was given, and {habit}"
    context.why["start"] = f"{start}: {why}"
    return start


def _ignores_prompt(context: PlanContext) -> bool:
    return context.request.after_tool and context.inputs.continuation != "prompt"


def _start_after_tool(context: PlanContext, *, switched_on: bool) -> tuple[OutputStart, str]:
    """Return where the output begins if ``tool_continuation_reasoning`` determines it, and the reason."""
    why = f"tool_continuation_reasoning={context.inputs.continuation}"
    if context.dialect.prompt.start:
        return "header", f"{why}, but output of {context.family} begins in a header"
    if context.inputs.continuation == "off":
        return "content", why
    if not switched_on or not context.dialect.reasoning:
        raise UsageError(
            f"{why}, but reasoning is {context.why['reasoning']}; "
            "switch it on, or use tool_continuation_reasoning='prompt'"
        )
    return "reasoning", why


def _start_by_habit(context: PlanContext, *, switched_on: bool) -> tuple[OutputStart, str]:
    """Return where the output begins after a prompt from the family's own templates, and the reason."""
    family, thinking = context.family, context.thinking
    if thinking.inside:
        if not switched_on:
            return "content", "reasoning is off"
        if thinking.default == "model" and not context.reasoning_options.on:
            return "content", f"prompts of {family} do not open reasoning if the model decides"
        if context.request.after_tool and thinking.after_tool == "nothing":
            return "content", f"prompts of {family} do not open reasoning after a tool result"
        return "reasoning", f"prompts of {family} end with {thinking.seed!r}"
    return "content", f"prompts of {family} do not open reasoning"


def parser_prompt(
    context: PlanContext, start: OutputStart, output: ToolOutput, *, reads_reasoning: bool
) -> str | None:
    """Return the prompt that makes the parser start where the output begins."""
    turn = None if _ignores_prompt(context) else context.turn
    if start == "header":
        return turn
    if start == "reasoning":
        if turn is not None:
            return turn
        return context.thinking.seed if context.thinking.inside else opener(context.dialect.reasoning[0])
    if turn is None or output == "guided_json":
        return ""
    # A parser that ignores reasoning markers may take an earlier call marker for the last marker in
    # the prompt, and start in the wrong state.  An empty prompt avoids this.
    needs_turn = start == "call" or reads_reasoning or opens_content(context.dialect, turn)
    return turn if needs_turn else ""
