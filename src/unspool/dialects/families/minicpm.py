"""Dialects of MiniCPM; every generation has a different format."""

from dataclasses import replace

from .._declaration import Dialect, Family, Values, Writing
from .._family_request_facts import HYBRID, SEEDED, UNSWITCHED, RequestFacts
from ._shared import CHATML_STOPS, GLM_BODY, IM_END, JSON_FIRST, THINK_LINES
from .qwen_formats import QWEN3_CODER

# Sample output:
#   <|thought_start|>The user wants the weather.<|thought_end|>Let me check.\
#   <|tool_call_start|>
#   ```python
#   get_weather(city="Paris", days=3)
#   now()
#   ```
#   <|tool_call_end|>
MINICPM = Dialect(
    name="minicpm",
    family=Family("MiniCPM 3 and 4", model_names=("MiniCPM3", "MiniCPM4")),
    section=(
        "<|tool_call_start|>\n```python\n{calls}\n```\n<|tool_call_end|>",
        "<|tool_call_start|>[{calls}]<|tool_call_end|>",
        "<|tool_call_start|>{calls}<|tool_call_end|>",
    ),
    call=("{name}{args:python}", "{envelope}"),
    writing=Writing(between_calls="\n"),
    separators=(",",),
    reasoning=("<|thought_start|>{text}<|thought_end|>",),
    stop=CHATML_STOPS,
    request=RequestFacts(
        calls_special=True, forced=JSON_FIRST, eos=IM_END, thinking=replace(UNSWITCHED, special=True)
    ),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.
#   <function name="get_weather"><param name="city">Paris</param>\
#   <param name="days">3</param></function>
#   <function name="now"></function>
MINICPM5 = Dialect(
    name="minicpm5",
    family=Family("MiniCPM5", model_names=("MiniCPM5",)),
    # The second template is for detokenizers that omit the space in the first one.
    call=('<function name="{name}">{params}</function>', '<functionname="{name}">{params}</function>'),
    writing=Writing(before_calls="\n", between_calls="\n"),
    param=(
        '<param name="{key}">{value}</param>',
        '<param name="{key}"><![CDATA[{value}]]></param>',
        '<paramname="{key}">{value}</param>',
    ),
    values=Values(python=True, wrappers=("arguments", "properties")),
    stop=CHATML_STOPS,
    request=RequestFacts(
        calls_special=True,
        forced=JSON_FIRST,
        eos=IM_END,
        thinking=replace(SEEDED, special=True, default="model"),
    ),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#   Let me check.
#   <tool_call>
#   <function=get_weather>
#   <parameter=city>
#   Paris
#   </parameter>
#   <parameter=days>
#   3
#   </parameter>
#   </function>
#   </tool_call>
#   <tool_call>
#   <function=now>
#   </function>
#   </tool_call>
MINICPMV = replace(
    QWEN3_CODER,
    name="minicpmv",
    family=Family(
        "MiniCPM-V 4.5 and later",
        model_names=("MiniCPM V 4.5",),
        reasoning_aliases=("minicpmv",),
        fingerprint=("model_type: minicpmv",),
    ),
    call=(*QWEN3_CODER.call, "{envelope}"),
    writing=Writing(before_calls="\n", between_calls="\n", section_per_call=True),
    also_accepts=GLM_BODY,
    reasoning=THINK_LINES,
    drop=tuple(f"<{bar}reserved_{number}{bar}>" for number in (12, 13, 14, 15) for bar in ("", "|")),
    request=RequestFacts(
        calls_special=False, forced=JSON_FIRST, eos=IM_END, thinking=replace(HYBRID, when_off="read")
    ),
)
