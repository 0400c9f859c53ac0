"""Dialects of Tencent's Hunyuan.  Since Hy3, every tag has a suffix that depends on the checkpoint."""

import re
from collections.abc import Iterable
from dataclasses import replace

from .._declaration import Dialect, Family, Prompt, Writing
from .._family_request_facts import HYBRID, RequestFacts, Thinking
from .._placed_templates import Section
from ..parse_templates import TemplateT, template_text, with_text
from ._shared import JSON_FIRST, NATIVE, THINK_INLINE, THINK_LINES

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#   <answer>
#   Let me check.
#   </answer><tool_calls>[{"name": "get_weather", "arguments": {"city": "Paris",\
#    "days": 3}}, {"name": "now", "arguments": {}}]</tool_calls>
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
    writing=Writing(between_calls=", "),
    reasoning=THINK_LINES,
    content=("<answer>\n{text}\n</answer>",),
    drop=("助手：",),
    stop=("<|eos|>",),
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, thinking=HYBRID),
)

PARAM_LINES = "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"
HY_THINKING = Thinking(
    special=False,
    default="on",
    switches=("reasoning_effort",),
    seed="<think>",
    after_tool="same",
    when_off="text",
    strip=None,
    efforts=(
        *(("no_think", "no_think"), ("none", "no_think"), ("minimal", "low"), ("low", "low")),
        *((word, "high") for word in ("medium", "high", "xhigh", "max")),
    ),
    effort_off=("no_think", "none"),
)
SUFFIXES = ("", ":opensource", ":6124c78e")
"""Suffixes in the released checkpoints.  Only the tokenizer shows which suffix a model uses."""


def with_suffixes(templates: Iterable[TemplateT], *suffixes: str) -> tuple[TemplateT, ...]:
    """Return the templates for each suffix, with the suffix added to every tag.

    Templates that already have a suffix are ignored.
    """
    plain = [template for template in templates if ":" not in template_text(template)]
    return tuple(
        with_text(template, re.sub("(｜?>)", rf"{suffix}\1", template_text(template)))
        for suffix in suffixes
        for template in plain
    )


HY_V4_FACTS = RequestFacts(
    calls_special=False,
    forced=NATIVE,
    eos=("<｜hy_eos｜>",),
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

# Sample output:
#   <think>The user wants the weather.</think>Let me check.<tool_calls>
#   <tool_call>get_weather<tool_sep>
#   <arg_key>city</arg_key>
#   <arg_value>Paris</arg_value>
#   <arg_key>days</arg_key>
#   <arg_value>3</arg_value>
#   </tool_call>
#   <tool_call>now<tool_sep>
#   </tool_call>
#   </tool_calls>
HY_V3 = Dialect(
    name="hy_v3",
    family=Family(
        "Hy3",
        model_names=("Hy3",),
        aliases=("hunyuan",),
        reasoning_aliases=("hy_v3", "hunyuan"),
        variants=(("<tool_calls:opensource>", "hy_v3:opensource"),),
    ),
    section=(
        *with_suffixes(("<tool_calls>\n{calls}</tool_calls>",), *SUFFIXES),
        Section("{calls}", declared_only=True),
    ),
    call=with_suffixes(
        (
            "<tool_call>{name}<tool_sep>\n{params}</tool_call>\n",
            "<tool_call>{name}{params}</tool_call>",
        ),
        *SUFFIXES,
    ),
    param=with_suffixes((PARAM_LINES,), *SUFFIXES),
    reasoning=with_suffixes(THINK_INLINE, *SUFFIXES),
    stop=with_suffixes(("<｜hy_eos｜>",), *SUFFIXES),
    prompt=Prompt(ends=with_suffixes(("<｜hy_Assistant｜>",), *SUFFIXES)),
    request=HY_V3_FACTS,
)

# Sample output:
#   <think>The user wants the weather.</think>Let me check.<tool_calls>\
#   <tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>\
#   <arg_key>days</arg_key><arg_value>3</arg_value></tool_call>\
#   <tool_call>now</tool_call></tool_calls>
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
    section=(
        *with_suffixes(("<tool_calls>{calls}</tool_calls>",), *SUFFIXES),
        Section("{calls}", declared_only=True),
    ),
    call=with_suffixes(
        (
            "<tool_call>{name}{params}</tool_call>",
            "<tool_call>{name}<tool_sep>{params}</tool_call>",
        ),
        *SUFFIXES,
    ),
    param=with_suffixes(("<arg_key>{key}</arg_key><arg_value>{value}</arg_value>", PARAM_LINES), *SUFFIXES),
    request=HY_V4_FACTS,
)


def suffixed(dialect: Dialect, facts: RequestFacts, suffix: str, models: str) -> Dialect:
    """Return the variant of a dialect in which all tags have the given suffix."""
    return replace(
        dialect,
        name=dialect.name + suffix,
        family=Family(models),
        section=with_suffixes(dialect.section, suffix),
        call=with_suffixes(dialect.call, suffix),
        param=with_suffixes(dialect.param, suffix),
        reasoning=with_suffixes(dialect.reasoning, suffix),
        stop=with_suffixes(dialect.stop, suffix),
        prompt=Prompt(ends=with_suffixes(dialect.prompt.ends, suffix)),
        request=replace(
            facts,
            eos=None,
            thinking=replace(facts.thinking, seed=with_suffixes((facts.thinking.seed,), suffix)[0]),
        ),
    )


# Sample output:
#   <think:opensource>The user wants the weather.</think:opensource>Let me check.\
#   <tool_calls:opensource>
#   <tool_call:opensource>get_weather<tool_sep:opensource>
#   <arg_key:opensource>city</arg_key:opensource>
#   <arg_value:opensource>Paris</arg_value:opensource>
#   <arg_key:opensource>days</arg_key:opensource>
#   <arg_value:opensource>3</arg_value:opensource>
#   </tool_call:opensource>
#   <tool_call:opensource>now<tool_sep:opensource>
#   </tool_call:opensource>
#   </tool_calls:opensource>
HY_V3_OPENSOURCE = suffixed(HY_V3, HY_V3_FACTS, ":opensource", "Hy3, released tokenizer")
# Sample output:
#   <think:opensource>The user wants the weather.</think:opensource>Let me check.\
#   <tool_calls:opensource><tool_call:opensource>get_weather\
#   <arg_key:opensource>city</arg_key:opensource>\
#   <arg_value:opensource>Paris</arg_value:opensource>\
#   <arg_key:opensource>days</arg_key:opensource>\
#   <arg_value:opensource>3</arg_value:opensource></tool_call:opensource>\
#   <tool_call:opensource>now</tool_call:opensource></tool_calls:opensource>
HY_V4_OPENSOURCE = suffixed(HY_V4, HY_V4_FACTS, ":opensource", "Hy4, released tokenizer")
# Sample output:
#   <think:6124c78e>The user wants the weather.</think:6124c78e>Let me check.\
#   <tool_calls:6124c78e><tool_call:6124c78e>get_weather\
#   <arg_key:6124c78e>city</arg_key:6124c78e>\
#   <arg_value:6124c78e>Paris</arg_value:6124c78e>\
#   <arg_key:6124c78e>days</arg_key:6124c78e>\
#   <arg_value:6124c78e>3</arg_value:6124c78e></tool_call:6124c78e>\
#   <tool_call:6124c78e>now</tool_call:6124c78e></tool_calls:6124c78e>
HY_V4_6124C78E = suffixed(HY_V4, HY_V4_FACTS, ":6124c78e", "Hy4, checkpoint 6124c78e")
