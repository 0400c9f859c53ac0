"""Dialects of StepFun's Step."""

from dataclasses import replace

from .._declaration import Dialect, Family, Writing
from .._family_request_facts import ALWAYS, RequestFacts
from .._placed_templates import Section
from ._shared import CHATML_STOPS, IM_END, JSON_FIRST, THINK_LINES
from .qwen_formats import QWEN3_CODER

STEP3_INVOKE = '<steptml:invoke name="{name}">\n{params}</steptml:invoke>\n'

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.<｜tool_calls_begin｜>
#   <｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather">
#   <steptml:parameter name="city">Paris</steptml:parameter>
#   <steptml:parameter name="days">3</steptml:parameter>
#   </steptml:invoke>
#   <｜tool_call_end｜>
#   <｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="now">
#   </steptml:invoke>
#   <｜tool_call_end｜><｜tool_calls_end｜>
STEP3 = Dialect(
    name="step3",
    family=Family("Step-3", model_names=("Step 3",), reasoning_aliases=("step3",)),
    section=("<｜tool_calls_begin｜>\n{calls}<｜tool_calls_end｜>", "{calls}"),
    call=(
        f"<｜tool_call_begin｜>function<｜tool_sep｜>{STEP3_INVOKE}<｜tool_call_end｜>",
        f"<｜tool_call_begin｜>{STEP3_INVOKE}<｜tool_call_end｜>",
        STEP3_INVOKE,
    ),
    writing=Writing(between_calls="\n"),
    separators=("<｜tool_sep｜>",),
    param=('<steptml:parameter name="{key}">{value}</steptml:parameter>\n',),
    stop=CHATML_STOPS,
    request=RequestFacts(calls_special=True, forced=JSON_FIRST, eos=(), thinking=ALWAYS),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#   Let me check.<tool_call>
#   <function=get_weather>
#   <parameter=city>
#   Paris
#   </parameter>
#   <parameter=days>
#   3
#   </parameter>
#   </function>
#   </tool_call><tool_call>
#   <function=now>
#   </function>
#   </tool_call>
STEP3P5 = replace(
    QWEN3_CODER,
    name="step3p5",
    family=Family("Step-3.5", model_names=("Step 3.5", "StepFun 3.5"), reasoning_aliases=("step3p5",)),
    section=("<tool_call>\n{calls}\n</tool_call>", Section("{calls}", declared_only=True)),
    writing=Writing(section_per_call=True),
    reasoning=THINK_LINES,
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, eos=IM_END, thinking=ALWAYS),
)
