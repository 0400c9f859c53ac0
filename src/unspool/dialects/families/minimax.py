"""Dialects of MiniMax."""

from dataclasses import replace

from .._declaration import Dialect, Family, Habits, Prompt, Writing
from .._family_request_facts import NO_REASONING, UNSWITCHED, RequestFacts, Thinking, ThinkingHabits
from .._placed_templates import Section
from ._shared import JSON, JSON_FIRST, NATIVE_FIRST
from .deepseek import DEEPSEEK_THINKING

MINIMAX_EOS = ("[e~[",)
MINIMAX_PROMPT = ("]~b]ai",)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.
#   <tool_calls>
#   {"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}
#   {"name": "now", "arguments": {}}
#   </tool_calls>
MINIMAX_M1 = Dialect(
    name="minimax_m1",
    family=Family("MiniMax-M1, Text-01", model_names=("MiniMax M1", "MiniMax Text 01")),
    section=("<tool_calls>\n{calls}\n</tool_calls>", "<tool_calls>[{calls}]</tool_calls>"),
    call=("{envelope}",),
    writing=Writing(before_calls="\n", between_calls="\n"),
    separators=(",",),
    stop=("<end_of_sentence>",),
    prompt=Prompt(turn=("<beginning_of_sentence>",)),
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, thinking=UNSWITCHED),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.
#   <minimax:tool_call>
#   <invoke name="get_weather">
#   <parameter name="city">Paris</parameter>
#   <parameter name="days">3</parameter>
#   </invoke>
#   <invoke name="now">
#   </invoke>
#   </minimax:tool_call>
MINIMAX_M2 = Dialect(
    name="minimax_m2",
    family=Family(
        "MiniMax-M2", model_names=("MiniMax M2", "MiniMax M2.*"), reasoning_aliases=("minimax_m2", "minimax")
    ),
    section=("<minimax:tool_call>\n{calls}</minimax:tool_call>", Section("{calls}", declared_only=True)),
    call=('<invoke name="{name}">\n{params}</invoke>\n',),
    writing=Writing(before_calls="\n"),
    param=('<parameter name="{key}">{value}</parameter>\n',),
    stop=MINIMAX_EOS,
    prompt=Prompt(ends=MINIMAX_PROMPT, begins_turn=True),
    request=RequestFacts(
        calls_special=False,
        forced=NATIVE_FIRST,
        thinking=replace(
            DEEPSEEK_THINKING,
            seed="<think>\n",
            habits=ThinkingHabits(
                caution="the template of MiniMax M2 has no switch, so the model reasons all the same"
            ),
        ),
    ),
)

# Sample output:
#   Let me check.
MINIMAX_APPEND_THINK = Dialect(
    name="minimax_append_think",
    family=Family(
        "MiniMax-M2 for clients that parse reasoning themselves", aliases=("minimax_m2_append_think",)
    ),
    reasoning=(),
    # The opening marker is in the prompt, but clients of this dialect expect to see it in the output.
    habits=Habits(echo="<think>"),
    prompt=Prompt(ends=MINIMAX_PROMPT),
    request=RequestFacts(calls_special=None, forced=JSON, eos=MINIMAX_EOS, thinking=NO_REASONING),
)

MINIMAX_NAMESPACE = "]<]minimax[>["

# Sample output:
#   <mm:think>The user wants the weather.</mm:think>Let me check.\
#   ]<]minimax[>[<tool_call>
#   ]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>Paris\
#   ]<]minimax[>[</city>]<]minimax[>[<days>3]<]minimax[>[</days>\
#   ]<]minimax[>[</invoke>
#   ]<]minimax[>[<invoke name="now">]<]minimax[>[</invoke>
#   ]<]minimax[>[</tool_call>
MINIMAX_M3 = Dialect(
    name="minimax_m3",
    family=Family(
        "MiniMax-M3",
        model_names=("MiniMax M3",),
        aliases=("minimax_m3_nom",),
        reasoning_aliases=("minimax_m3",),
    ),
    section=(f"{MINIMAX_NAMESPACE}<tool_call>\n{{calls}}{MINIMAX_NAMESPACE}</tool_call>",),
    call=(f'{MINIMAX_NAMESPACE}<invoke name="{{name}}">{{params}}{MINIMAX_NAMESPACE}</invoke>\n',),
    param=(f"{MINIMAX_NAMESPACE}<{{key}}>{{value}}{MINIMAX_NAMESPACE}</{{key}}>",),
    habits=Habits(nested=True, list_key="item"),
    reasoning=("<mm:think>{text}</mm:think>",),
    drop=(MINIMAX_NAMESPACE,),
    stop=MINIMAX_EOS,
    prompt=Prompt(ends=MINIMAX_PROMPT, begins_turn=True),
    request=RequestFacts(
        calls_special=True,
        forced=JSON_FIRST,
        thinking=Thinking(
            special=True,
            default="model",
            switches=("thinking_mode", "thinking", "enable_thinking"),
            seed="<mm:think>",
            after_tool="same",
            when_off="text",
            strip="</mm:think>",
            modes=(("enabled", True), ("disabled", False), ("adaptive", None)),
            habits=ThinkingHabits(json_off=True),
        ),
    ),
)
