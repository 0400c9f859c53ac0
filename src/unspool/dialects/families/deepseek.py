"""Dialects of DeepSeek.

Models up to V3.1 write calls between control tokens.  Later models write calls in XML tags with a prefix, as
GigaChat does.
"""

from dataclasses import replace

from .._declaration import Dialect, Family, Habits, Prompt, Values, Writing
from .._family_request_facts import RequestFacts, Thinking, ThinkingHabits
from .._placed_templates import Section
from ._shared import NATIVE_FIRST, THINK_INLINE

DEEPSEEK_EOS = ("<｜end▁of▁sentence｜>",)
DEEPSEEK_PROMPT = ("<｜Assistant｜>",)
DEEPSEEK_THINKING = Thinking(
    special=False,
    default="on",
    switches=("thinking", "enable_thinking", "thinking_mode"),
    seed="<think>",
    after_tool="same",
    when_off="text",
    strip=None,
    modes=(("chat", False), ("thinking", True)),
)
DEEPSEEK_HYBRID = replace(DEEPSEEK_THINKING, default="off", after_tool="nothing")

# -- control tokens

DEEPSEEK_STOPS = (
    *DEEPSEEK_EOS,
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
)
# A model should not write tool results, so they are removed from its output.
DEEPSEEK_HABITS = Habits(
    drop_text=(
        "<｜tool▁outputs▁begin｜>{text}<｜tool▁outputs▁end｜>",
        "<｜tool▁output▁begin｜>{text}<｜tool▁output▁end｜>",
    )
)
DEEPSEEK_SECTION = ("<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>", "{calls}")
R1_THINKING = replace(
    DEEPSEEK_THINKING,
    seed="<think>\n",
    after_tool="nothing",
    habits=ThinkingHabits(
        caution="the template of DeepSeek R1 has no switch, so the model may reason all the same"
    ),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function\
#   <｜tool▁sep｜>get_weather
#   ```json
#   {"city": "Paris", "days": 3}
#   ```<｜tool▁call▁end｜>
#   <｜tool▁call▁begin｜>function<｜tool▁sep｜>now
#   ```json
#   {}
#   ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
DEEPSEEK_V3 = Dialect(
    name="deepseek_v3",
    family=Family(
        "DeepSeek-V3-0324, R1-0528",
        model_names=("DeepSeek V3", "DeepSeek R1"),
        aliases=("deepseekv3", "deepseek", "cogito"),
        reasoning_aliases=("deepseek_r1", "qwq"),
    ),
    section=DEEPSEEK_SECTION,
    call=(
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{args}\n```<｜tool▁call▁end｜>",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```\n{args}\n```<｜tool▁call▁end｜>",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n{args}<｜tool▁call▁end｜>",
    ),
    writing=Writing(between_calls="\n"),
    habits=DEEPSEEK_HABITS,
    stop=DEEPSEEK_STOPS,
    prompt=Prompt(ends=DEEPSEEK_PROMPT),
    request=RequestFacts(
        calls_special=False,
        forced=NATIVE_FIRST,
        eos=DEEPSEEK_EOS,
        thinking=DEEPSEEK_HYBRID,
        checkpoints=(("deepseek_r1", R1_THINKING),),
    ),
)

# Sample output:
#   <think>The user wants the weather.</think>Let me check.<｜tool▁calls▁begin｜>\
#   <｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris", "days": 3}\
#   <｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>\
#   <｜tool▁calls▁end｜>
DEEPSEEK_V3_1 = Dialect(
    name="deepseek_v3_1",
    family=Family(
        "DeepSeek-V3.1, V3.2-Exp",
        model_names=("DeepSeek V3.1", "DeepSeek V3.2 Exp"),
        aliases=("deepseek_v31", "deepseekv31", "deepseek31", "deepseek3"),
        reasoning_aliases=("deepseek_v3", "deepseek_v3_1", "deepseek_v31"),
    ),
    section=DEEPSEEK_SECTION,
    call=(
        "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{args}<｜tool▁call▁end｜>",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{args}\n```<｜tool▁call▁end｜>",
    ),
    reasoning=THINK_INLINE,
    habits=DEEPSEEK_HABITS,
    stop=DEEPSEEK_STOPS,
    prompt=Prompt(ends=DEEPSEEK_PROMPT),
    request=RequestFacts(
        calls_special=False,
        forced=NATIVE_FIRST,
        eos=DEEPSEEK_EOS,
        thinking=DEEPSEEK_HYBRID,
    ),
)

# -- XML tags with a prefix; the attribute `string` shows whether a value is a string

# Sample output:
#   <think>The user wants the weather.</think>Let me check.
#
#   <｜DSML｜function_calls>
#   <｜DSML｜invoke name="get_weather">
#   <｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>
#   <｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>
#   </｜DSML｜invoke>
#   <｜DSML｜invoke name="now">
#   </｜DSML｜invoke>
#   </｜DSML｜function_calls>
DEEPSEEK_V3_2 = Dialect(
    name="deepseek_v3_2",
    family=Family(
        "DeepSeek-V3.2",
        model_names=("DeepSeek V3.2",),
        aliases=("deepseek_v32", "deepseekv32", "deepseek32"),
        reasoning_aliases=("deepseek_v3_2",),
    ),
    section=(
        "<｜DSML｜function_calls>\n{calls}</｜DSML｜function_calls>",
        "<｜DSML｜tool_calls>\n{calls}</｜DSML｜tool_calls>",
        Section("{calls}", declared_only=True),
    ),
    call=(
        '<｜DSML｜invoke name="{name}">\n{params}</｜DSML｜invoke>\n',
        '<｜DSML｜invoke name="{name}">\n{args}\n</｜DSML｜invoke>\n',
        '<｜DSML｜invoke name="{name}"/>\n',
    ),
    writing=Writing(before_calls="\n\n"),
    param=('<｜DSML｜parameter name="{key}" string="{string}">{value}</｜DSML｜parameter>\n',),
    values=Values(wrappers=("arguments", "input")),
    reasoning=THINK_INLINE,
    stop=DEEPSEEK_EOS,
    prompt=Prompt(ends=DEEPSEEK_PROMPT),
    request=RequestFacts(
        calls_special=True,
        forced=NATIVE_FIRST,
        thinking=DEEPSEEK_THINKING,
    ),
)

# Sample output:
#   <think>The user wants the weather.</think>Let me check.
#
#   <｜DSML｜tool_calls>
#   <｜DSML｜invoke name="get_weather">
#   <｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>
#   <｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>
#   </｜DSML｜invoke>
#   <｜DSML｜invoke name="now">
#   </｜DSML｜invoke>
#   </｜DSML｜tool_calls>
DEEPSEEK_V4 = replace(
    DEEPSEEK_V3_2,
    name="deepseek_v4",
    family=Family(
        "DeepSeek-V4, V4-Flash",
        model_names=("DeepSeek V4",),
        aliases=("deepseekv4",),
        reasoning_aliases=("deepseek_v4", "deepseekv4"),
    ),
    section=(
        "<｜DSML｜tool_calls>\n{calls}</｜DSML｜tool_calls>",
        "<｜DSML｜function_calls>\n{calls}</｜DSML｜function_calls>",
        Section("{calls}", declared_only=True),
    ),
    request=RequestFacts(
        calls_special=False,
        forced=NATIVE_FIRST,
        thinking=replace(DEEPSEEK_THINKING, switches=(*DEEPSEEK_THINKING.switches, "reasoning_effort")),
    ),
)

# Sample output:
#   <think>The user wants the weather.</think>Let me check.
#
#   <｜DSML｜ calls>
#   <｜DSML｜ invoke name="get_weather">
#   <｜DSML｜ parameter name="city" string="true">Paris</｜DSML｜ parameter>
#   <｜DSML｜ parameter name="days" string="false">3</｜DSML｜ parameter>
#   </｜DSML｜ invoke>
#   <｜DSML｜ invoke name="now">
#   </｜DSML｜ invoke>
#   </｜DSML｜ calls>
DEEPSEEK_V41 = replace(
    DEEPSEEK_V3_2,
    name="deepseek_v41",
    family=Family(
        "DeepSeek-V4.1",
        model_names=("DeepSeek V4.1",),
        aliases=("deepseekv41", "deepseek_v4_1"),
        reasoning_aliases=("deepseek_v41",),
    ),
    section=(
        "<｜DSML｜ calls>\n{calls}</｜DSML｜ calls>",
        "<｜DSML｜calls>\n{calls}</｜DSML｜calls>",
        "<｜DSML｜ tool_calls>\n{calls}</｜DSML｜ tool_calls>",
        "<｜DSML｜tool_calls>\n{calls}</｜DSML｜tool_calls>",
        "<｜DSML｜ function_calls>\n{calls}</｜DSML｜ function_calls>",
        "<｜DSML｜function_calls>\n{calls}</｜DSML｜function_calls>",
        Section("{calls}", declared_only=True),
    ),
    call=(
        '<｜DSML｜ invoke name="{name}">\n{params}</｜DSML｜ invoke>\n',
        '<｜DSML｜ invoke name="{name}">\n{args}\n</｜DSML｜ invoke>\n',
        '<｜DSML｜ invoke name="{name}"/>\n',
        *DEEPSEEK_V3_2.call,
    ),
    param=(
        '<｜DSML｜ parameter name="{key}" string="{string}">{value}</｜DSML｜ parameter>\n',
        *DEEPSEEK_V3_2.param,
    ),
    request=RequestFacts(
        calls_special=True,
        forced=NATIVE_FIRST,
        thinking=replace(
            DEEPSEEK_THINKING,
            switches=("thinking", "enable_thinking", "reasoning_effort"),
            modes=(),
            efforts=tuple((word, word) for word in ("none", "low", "high", "xhigh", "max")),
            habits=ThinkingHabits(numeric_effort=(1, 100)),
        ),
    ),
)
