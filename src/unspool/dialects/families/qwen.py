"""Dialects of Qwen, and of other families that use one of Qwen's two formats of calls."""

from dataclasses import replace

from .._declaration import Dialect, Family, Prompt, Values
from .._family_request_facts import ALWAYS, HYBRID, SEEDED, UNSWITCHED, RequestFacts
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
# One Hermes prompt asks for a <scratch_pad>; the text in a scratch pad is ordinary content.

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
    section=("\n{calls}", "<tool_call>[{calls}]</tool_call>"),
    call=("<tool_call>\n{envelope}\n</tool_call>", "{envelope}"),
    sep=("\n", ","),
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

TRINITY = replace(
    HERMES,
    name="trinity",
    family=Family(
        "AFM, Trinity", model_names=("Trinity", "AFM"), fingerprint=("model_type: afmoe", "model_type: arcee")
    ),
    stop=CHATML_STOPS,
    request=RequestFacts(calls_special=True, forced=JSON_FIRST, eos=(), thinking=UNSWITCHED),
)

ERNIE45 = replace(
    HERMES,
    name="ernie45",
    family=Family(
        "ERNIE 4.5", model_names=("ERNIE 4.5",), reasoning_aliases=("ernie45",), fingerprint=("<response>",)
    ),
    content=("<response>\n{text}\n</response>\n",),
    stop=("</s>",),
    prompt=Prompt(turn=("Assistant:",)),
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, eos=("</s>",), thinking=SEEDED),
)

# -- tagged parameters, with the name in the tag

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
    section=("\n\n<tool_call>\n{calls}\n</tool_call>", "?{calls}"),
    section_per_call=True,
    call=("<function={name}>\n{params}</function>",),
    param=(QWEN_PARAM,),
    also_accepts=JSON_BODY + GLM_BODY,
    values=Values(python=True),
    stop=CHATML_STOPS,
    request=RequestFacts(
        calls_special=False,
        forced=NATIVE_FIRST,
        eos=CHATML_STOPS,
        thinking=HYBRID,
        checkpoints=(("qwen3.5", SEEDED), ("qwen_3_5", SEEDED)),
    ),
)

QWEN_SECTION = ("\n<tool_call>\n{calls}\n</tool_call>", "?{calls}")
"""Templates of a section that begins with one newline; Qwen's own template has two newlines there."""

# MiMo writes no newlines between tags and values.  Qwen's template accepts values with and without
# newlines, so MiMo uses the same template, although `render` then writes the newlines.  In a call without
# any newline after its head, the second template applies, and newlines around a value are data.
MIMO = replace(
    QWEN3_CODER,
    name="mimo",
    family=Family(
        "MiMo-V2",
        model_names=("MiMo V2", "MiMo V2.*"),
        reasoning_aliases=("mimo",),
        fingerprint=("model_type: mimo_v2",),
    ),
    section=QWEN_SECTION,
    param=(QWEN_PARAM, "<parameter={key}>{value}</parameter>"),
    reasoning=THINK_LINES,
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, eos=(), thinking=HYBRID),
)

SEED_OSS = replace(
    QWEN3_CODER,
    name="seed_oss",
    family=Family("Seed-OSS", model_names=("Seed OSS",), reasoning_aliases=("seed_oss",)),
    section=("\n\n<seed:tool_call>\n{calls}\n</seed:tool_call>", "?{calls}"),
    param=("<parameter={key}>{value}</parameter>\n",),
    also_accepts=(),
    reasoning=("<seed:think>{text}</seed:think>\n",),
    stop=("<seed:eos>",),
    prompt=Prompt(turn=("<seed:bos>",)),
    request=RequestFacts(
        calls_special=False,
        forced=JSON_FIRST,
        eos=("<seed:eos>",),
        prompts=("<seed:bos>assistant",),
        thinking=replace(HYBRID, switches=("thinking_budget",)),
    ),
)
