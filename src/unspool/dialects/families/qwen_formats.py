"""Dialects of Qwen, and of other families that use one of Qwen's two formats of calls."""

from dataclasses import replace

from .._declaration import Dialect, Family, Prompt, Values, Writing
from .._family_request_facts import ALWAYS, HYBRID, SEEDED, UNSWITCHED, RequestFacts
from .._placed_templates import Section
from ._shared import (
    CHATML_STOPS,
    GLM_BODY,
    IM_END,
    JSON_BODY,
    JSON_FIRST,
    NATIVE_FIRST,
    QWEN_BODY,
    QWEN_PARAM,
    THINK_LINES,
)

# -- a JSON object in tags
# One Hermes prompt asks the model to write a <scratch_pad>.  The text in a scratch pad is ordinary content.

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
HERMES = Dialect(
    name="hermes",
    family=Family(
        "Hermes 2 Pro to 4, Qwen2.5, QwQ, Qwen3, EXAONE 4, SmolLM3",
        model_names=(
            "Hermes 2 Pro",
            "Hermes 3",
            "Hermes 4",
            "Hermes 4.*",
            "Qwen2.5",
            "QwQ",
            "Qwen3",
            "EXAONE 4",
            "EXAONE 4.*",
            "SmolLM3",
        ),
        aliases=(
            "qwen3_json",
            "qwen25",
            "qwen",
            "qwen3",
            "json_tools",
            "qwen3_vl_instruct",
            "qwen3_vl_thinking",
        ),
        reasoning_aliases=("qwen3", "qwen3_thinking", "holo2", "basic", "base"),
    ),
    section=("{calls}", "<tool_call>[{calls}]</tool_call>"),
    call=("<tool_call>\n{envelope}\n</tool_call>", "{envelope}"),
    writing=Writing(before_calls="\n", between_calls="\n"),
    separators=(",",),
    also_accepts=QWEN_BODY + GLM_BODY,
    stop=(*CHATML_STOPS, "<sep>"),
    request=RequestFacts(
        calls_special=True,
        forced=NATIVE_FIRST,
        eos=IM_END,
        thinking=HYBRID,
        checkpoints=(
            ("qwen3_thinking", ALWAYS),
            ("qwen3_vl_thinking", ALWAYS),
            ("qwq", ALWAYS),
            ("holo2", SEEDED),
            ("basic", UNSWITCHED),
            ("base", UNSWITCHED),
        ),
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
TRINITY = replace(
    HERMES,
    name="trinity",
    family=Family(
        "AFM, Trinity", model_names=("Trinity", "AFM"), fingerprint=("model_type: afmoe", "model_type: arcee")
    ),
    stop=CHATML_STOPS,
    request=RequestFacts(calls_special=True, forced=JSON_FIRST, eos=(), thinking=UNSWITCHED),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   <response>
#   Let me check.
#   </response>
#   <tool_call>
#   {"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}
#   </tool_call>
#   <tool_call>
#   {"name": "now", "arguments": {}}
#   </tool_call>
ERNIE45 = replace(
    HERMES,
    name="ernie45",
    family=Family(
        "ERNIE 4.5", model_names=("ERNIE 4.5",), reasoning_aliases=("ernie45",), fingerprint=("<response>",)
    ),
    content=("<response>\n{text}\n</response>\n",),
    stop=("</s>",),
    prompt=Prompt(turn=("Assistant:",)),
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, thinking=SEEDED),
)

# -- tagged parameters, with the name in the tag

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.
#
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
QWEN3_CODER = Dialect(
    name="qwen3_coder",
    family=Family(
        "Qwen3-Coder, Qwen3.5 to 3.8, Nanbeige",
        model_names=("Qwen3 Coder", "Qwen3.5", "Qwen3.6", "Qwen3.7", "Qwen3.8", "Nanbeige"),
        aliases=(
            "qwen3_xml",
            "nanbeige",
            "qwen_xml",
            "qwen_coder",
            "qwen3.5",
            "ornith",
            "qwen_3_coder",
            "qwen_3_5",
            "qwen3_tagged",
        ),
        reasoning_aliases=("nanbeige",),
    ),
    section=("<tool_call>\n{calls}\n</tool_call>", Section("{calls}", declared_only=True)),
    call=("<function={name}>\n{params}</function>",),
    writing=Writing(before_calls="\n\n", between_calls="\n", section_per_call=True),
    param=(QWEN_PARAM,),
    also_accepts=JSON_BODY + GLM_BODY,
    values=Values(python=True),
    stop=CHATML_STOPS,
    request=RequestFacts(
        calls_special=False,
        forced=NATIVE_FIRST,
        thinking=HYBRID,
        checkpoints=(("qwen3.5", SEEDED), ("qwen_3_5", SEEDED)),
    ),
)

# MiMo writes no newlines between tags and values.  Qwen's template accepts values with and without
# newlines, so MiMo uses the same template, although `render` then writes the newlines.  In a call without
# a newline after its head, the second template of `param` applies, and newlines around a value are data.
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
MIMO = replace(
    QWEN3_CODER,
    name="mimo",
    family=Family(
        "MiMo-V2",
        model_names=("MiMo V2", "MiMo V2.*"),
        reasoning_aliases=("mimo",),
        fingerprint=("model_type: mimo_v2",),
    ),
    writing=Writing(before_calls="\n", between_calls="\n", section_per_call=True),
    param=(QWEN_PARAM, "<parameter={key}>{value}</parameter>"),
    reasoning=THINK_LINES,
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, eos=(), thinking=HYBRID),
)

# Sample output:
#   <seed:think>The user wants the weather.</seed:think>
#   Let me check.
#
#   <seed:tool_call>
#   <function=get_weather>
#   <parameter=city>Paris</parameter>
#   <parameter=days>3</parameter>
#   </function>
#   </seed:tool_call>
#   <seed:tool_call>
#   <function=now>
#   </function>
#   </seed:tool_call>
SEED_OSS = replace(
    QWEN3_CODER,
    name="seed_oss",
    family=Family("Seed-OSS", model_names=("Seed OSS",), reasoning_aliases=("seed_oss",)),
    section=("<seed:tool_call>\n{calls}\n</seed:tool_call>", Section("{calls}", declared_only=True)),
    param=("<parameter={key}>{value}</parameter>\n",),
    also_accepts=(),
    reasoning=("<seed:think>{text}</seed:think>\n",),
    stop=("<seed:eos>",),
    prompt=Prompt(ends=("<seed:bos>assistant",), turn=("<seed:bos>",)),
    request=RequestFacts(
        calls_special=False,
        forced=JSON_FIRST,
        thinking=replace(HYBRID, switches=("thinking_budget",)),
    ),
)
