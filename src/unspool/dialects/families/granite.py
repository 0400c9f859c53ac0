"""Dialects of IBM's Granite; almost every version has a different format."""

from dataclasses import replace

from .._declaration import Dialect, Family, Prompt, Writing
from .._family_request_facts import HYBRID, SEEDED, UNSWITCHED, RequestFacts, ThinkingHabits
from .._placed_templates import Section, Wrapper
from ._shared import GLM_BODY, JSON_FIRST, LLAMA_STOPS, QWEN_BODY, THINK_LINES
from .qwen_formats import HERMES, QWEN3_CODER

GRANITE_PROMPT = ("<|end_of_role|>",)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.<function_call> {"name": "get_weather",\
#    "arguments": {"city": "Paris", "days": 3}}<function_call> {"name": "now",\
#    "arguments": {}}
GRANITE_20B_FC = Dialect(
    name="granite_20b_fc",
    family=Family("granite-20b-functioncalling", model_names=("Granite 20B functioncalling",)),
    call=("<function_call> {envelope}", "<function_call>{envelope}"),
    stop=("<|endoftext|>",),
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, thinking=UNSWITCHED),
)

# Sample output:
#   Here is my thought process:The user wants the weather.Here is my response:\
#   <response>
#   Let me check.
#   </response><|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris",\
#    "days": 3}}, {"name": "now", "arguments": {}}]
GRANITE = Dialect(
    name="granite",
    family=Family(
        "Granite 3.x",
        model_names=("Granite 3.*",),
        reasoning_aliases=("granite",),
        fingerprint=("followed by a JSON list of tools",),
    ),
    section=(
        "<|tool_call|>[{calls}]",
        "<tool_call>[{calls}]",
        "<|tool_call|>{calls}",
        "<tool_call>{calls}",
        Section("[{calls}]", only_at_start=True),
    ),
    call=("{envelope}",),
    writing=Writing(between_calls=", "),
    also_accepts=QWEN_BODY + GLM_BODY,
    reasoning=(
        Wrapper("Here is my thought process:{text}Here is my response:", only_at_start=True),
        Wrapper("Here's my thought process:{text}Here's my response:", only_at_start=True),
        "<think>{text}</think>",
    ),
    content=("<response>\n{text}\n</response>",),
    stop=("<|end_of_text|>",),
    prompt=Prompt(ends=GRANITE_PROMPT),
    request=RequestFacts(
        calls_special=False,
        forced=JSON_FIRST,
        thinking=replace(HYBRID, default="off", when_off="read"),
    ),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.
#   <tool_call>
#   {"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}
#   </tool_call>
#   <tool_call>
#   {"name": "now", "arguments": {}}
#   </tool_call>
GRANITE4 = replace(
    HERMES,
    name="granite4",
    family=Family(
        "Granite 4.0 and 4.1",
        model_names=("Granite 4", "Granite 4.0", "Granite 4.1"),
        fingerprint=("<|start_of_role|>",),
    ),
    stop=LLAMA_STOPS,
    prompt=Prompt(ends=GRANITE_PROMPT),
    request=RequestFacts(
        calls_special=True,
        forced=JSON_FIRST,
        eos=("<|end_of_text|>",),
        thinking=UNSWITCHED,
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
GRANITE42 = replace(
    QWEN3_CODER,
    name="granite42",
    family=Family(
        "Granite 4.2",
        model_names=("Granite 4.2",),
        reasoning_aliases=("granite_thinking_parser",),
        fingerprint=("truncate_history_thinking", "defer_loading"),
    ),
    writing=Writing(before_calls="\n", between_calls="\n", section_per_call=True),
    reasoning=THINK_LINES,
    stop=("<|end_of_text|>", "<|im_end|>"),
    request=RequestFacts(
        calls_special=False,
        forced=JSON_FIRST,
        thinking=replace(SEEDED, habits=ThinkingHabits(swap="nothing")),
    ),
)
