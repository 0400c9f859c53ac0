"""Dialects of NVIDIA's Nemotron."""

from dataclasses import replace

from .._declaration import Dialect, Family, Prompt, Writing
from .._family_request_facts import ALWAYS, SEEDED, UNSWITCHED, RequestFacts
from ._shared import IM_END, JSON_FIRST, THINK_LINES
from .qwen_formats import QWEN3_CODER

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.
#   <TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}},\
#    {"name": "now", "arguments": {}}]</TOOLCALL>
NEMOTRON_JSON = Dialect(
    name="nemotron_json",
    family=Family(
        "Nemotron v1, Nano v2",
        model_names=(
            "Llama 3.1 Nemotron",
            "Llama 3.3 Nemotron",
            "Nemotron Nano v2",
            "Nemotron Nano 9B v2",
            "Nemotron Nano 12B v2",
        ),
        aliases=("nemotron_deci", "llama_nemotron_json", "llama_nemotron"),
        reasoning_aliases=("nemotron_deci",),
    ),
    section=("<TOOLCALL>[{calls}]</TOOLCALL>", "<TOOLCALL>{calls}</TOOLCALL>"),
    call=("{envelope}",),
    writing=Writing(before_calls="\n", between_calls=", "),
    stop=("<SPECIAL_12>", "<|eot_id|>"),
    prompt=Prompt(turn=("<SPECIAL_11>",)),
    request=RequestFacts(
        calls_special=False,
        forced=JSON_FIRST,
        eos=("<|eot_id|>", "<SPECIAL_12>"),
        thinking=UNSWITCHED,
        checkpoints=(("nemotron_nano_v2", ALWAYS),),
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
NEMOTRON_V3 = replace(
    QWEN3_CODER,
    name="nemotron_v3",
    family=Family(
        "Nemotron 3 and 3.5",
        model_names=("Nemotron 3", "Nemotron 3.5"),
        aliases=("nemotron_nano", "nemotron", "nemotron_3_nano", "nemotron_3.5_nano"),
        reasoning_aliases=("nemotron_v3", "nemotron_3", "nemotron3", "nano_v3"),
        fingerprint=("truncate_history_thinking",),
    ),
    writing=Writing(before_calls="\n", between_calls="\n", section_per_call=True),
    reasoning=THINK_LINES,
    request=RequestFacts(
        calls_special=False, forced=JSON_FIRST, eos=IM_END, thinking=replace(SEEDED, strip="<think>")
    ),
)
