"""Tencent's Hunyuan; since Hy3 every tag carries a suffix that depends on the checkpoint."""

import re
from dataclasses import replace

from .._declaration import Dialect, Family
from .._request_facts import HYBRID, RequestFacts, Thinking
from ._shared import JSON_FIRST, NATIVE, THINK_INLINE, THINK_LINES

HUNYUAN_A13B = Dialect(
    name="hunyuan_a13b",
    family=Family(
        "Hunyuan-A13B and smaller",
        model_names=("Hunyuan",),
        reasoning_aliases=("hunyuan_a13b",),
        fingerprint=("助手：",),
    ),
    section=("<tool_calls>[{calls}]</tool_calls>", "<tool_calls>{calls}</tool_calls>"),
    call=("{envelope}",),
    sep=(", ",),
    reasoning=THINK_LINES,
    content=("<answer>\n{text}\n</answer>",),
    drop=("助手：",),
    stop=("<|eos|>",),
    request=RequestFacts(calls_special="no", forced=JSON_FIRST, eos=("<|eos|>",), thinking=HYBRID),
)

PARAM_LINES = "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"
HY_THINKING = Thinking(
    special="no",
    default="on",
    switches=("reasoning_effort",),
    seed="<think>",
    after_tool="same",
    when_off="text",
    strip="n/a",
    efforts=(
        *(("no_think", "no_think"), ("none", "no_think"), ("minimal", "low"), ("low", "low")),
        *((word, "high") for word in ("medium", "high", "xhigh", "max")),
    ),
    effort_off=("no_think", "none"),
)
SUFFIXES = ("", ":opensource", ":6124c78e")
"""What the tags of the released checkpoints end with.  Without a tokenizer nobody knows which it is."""


def spelt(templates: tuple[str, ...], *suffixes: str) -> tuple[str, ...]:
    """The templates that have no suffix yet, with each of these in every tag."""
    plain = [template for template in templates if ":" not in template]
    return tuple(re.sub("(｜?>)", rf"{suffix}\1", template) for suffix in suffixes for template in plain)


HY_V4_FACTS = RequestFacts(
    calls_special="no",
    forced=NATIVE,
    eos=("<｜hy_eos｜>",),
    prompts=spelt(("<｜hy_Assistant｜>",), *SUFFIXES),
    thinking=HY_THINKING,
)
HY_V3_FACTS = replace(
    HY_V4_FACTS,
    forced=JSON_FIRST,
    thinking=replace(
        HY_THINKING,
        default="off",
        efforts=(("no_think", "no_think"), ("none", "no_think"), ("low", "low"), ("high", "high")),
    ),
)

HY_V3 = Dialect(
    name="hy_v3",
    family=Family(
        "Hy3",
        model_names=("Hy3",),
        aliases=("hunyuan",),
        reasoning_aliases=("hy_v3", "hunyuan"),
        variants=(("<tool_calls:opensource>", "hy_v3:opensource"),),
    ),
    section=(*spelt(("<tool_calls>\n{calls}</tool_calls>",), *SUFFIXES), "?{calls}"),
    call=spelt(
        (
            "<tool_call>{name}<tool_sep>\n{params}</tool_call>\n",
            "<tool_call>{name}{params}</tool_call>",
        ),
        *SUFFIXES,
    ),
    sep=("",),
    param=spelt((PARAM_LINES,), *SUFFIXES),
    reasoning=spelt(THINK_INLINE, *SUFFIXES),
    stop=spelt(("<｜hy_eos｜>",), *SUFFIXES),
    request=HY_V3_FACTS,
)

HY_V4 = replace(
    HY_V3,
    name="hy_v4",
    family=Family(
        "Hy4",
        model_names=("Hy4",),
        aliases=("hy4",),
        reasoning_aliases=("hy_v4",),
        variants=(
            ("<tool_calls:opensource>", "hy_v4:opensource"),
            ("<tool_calls:6124c78e>", "hy_v4:6124c78e"),
        ),
    ),
    section=(*spelt(("<tool_calls>{calls}</tool_calls>",), *SUFFIXES), "?{calls}"),
    call=spelt(
        (
            "<tool_call>{name}{params}</tool_call>",
            "<tool_call>{name}<tool_sep>{params}</tool_call>",
        ),
        *SUFFIXES,
    ),
    param=spelt(("<arg_key>{key}</arg_key><arg_value>{value}</arg_value>", PARAM_LINES), *SUFFIXES),
    request=HY_V4_FACTS,
)


def suffixed(dialect: Dialect, facts: RequestFacts, suffix: str, models: str) -> Dialect:
    """The same dialect with one suffix only."""
    return replace(
        dialect,
        name=dialect.name + suffix,
        family=Family(models),
        section=spelt(dialect.section, suffix),
        call=spelt(dialect.call, suffix),
        param=spelt(dialect.param, suffix),
        reasoning=spelt(dialect.reasoning, suffix),
        stop=spelt(dialect.stop, suffix),
        request=replace(
            facts,
            eos=spelt(facts.eos, suffix),
            prompts=spelt(facts.prompts, suffix),
            thinking=replace(facts.thinking, seed=spelt((facts.thinking.seed,), suffix)[0]),
        ),
    )


HY_V3_OPENSOURCE = suffixed(HY_V3, HY_V3_FACTS, ":opensource", "Hy3, released tokenizer")
HY_V4_OPENSOURCE = suffixed(HY_V4, HY_V4_FACTS, ":opensource", "Hy4, released tokenizer")
HY_V4_6124C78E = suffixed(HY_V4, HY_V4_FACTS, ":6124c78e", "Hy4, checkpoint 6124c78e")
