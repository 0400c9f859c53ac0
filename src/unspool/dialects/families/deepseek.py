"""Dialects of DeepSeek.

Models up to V3.1 write calls between control tokens.  Later models write calls in XML tags with a prefix, as
GigaChat does.
"""

from dataclasses import replace

from .._declaration import Dialect, Family, Values
from .._family_request_facts import RequestFacts, Thinking
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
DEEPSEEK_RESULTS = (
    "<｜tool▁outputs▁begin｜>{text}<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>{text}<｜tool▁output▁end｜>",
)
"""Templates of tool results; a model should not write tool results, so they are removed from its output."""
DEEPSEEK_SECTION = ("<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>", "{calls}")
R1_THINKING = replace(
    DEEPSEEK_THINKING,
    seed="<think>\n",
    after_tool="nothing",
    caution="the template of DeepSeek R1 has no switch, so the model may reason all the same",
)

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
    drop=DEEPSEEK_RESULTS,
    stop=DEEPSEEK_STOPS,
    request=RequestFacts(
        calls_special=False,
        forced=NATIVE_FIRST,
        eos=DEEPSEEK_EOS,
        prompts=DEEPSEEK_PROMPT,
        thinking=DEEPSEEK_HYBRID,
        checkpoints=(("deepseek_r1", R1_THINKING),),
    ),
)

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
    sep=("",),
    reasoning=THINK_INLINE,
    drop=DEEPSEEK_RESULTS,
    stop=DEEPSEEK_STOPS,
    request=RequestFacts(
        calls_special=False,
        forced=NATIVE_FIRST,
        eos=DEEPSEEK_EOS,
        prompts=DEEPSEEK_PROMPT,
        thinking=DEEPSEEK_HYBRID,
    ),
)

# -- XML tags with a prefix; the attribute `string` shows whether a value is a string

DSML_CALLS = (
    '<%invoke name="{name}">\n{params}</%invoke>\n',
    '<%invoke name="{name}">\n{args}\n</%invoke>\n',
    '<%invoke name="{name}"/>\n',
)


def dsml(name: str, family: Family, request: RequestFacts, tags: tuple[str, ...], *sections: str) -> Dialect:
    """Return a dialect whose tags have a prefix.

    :param tags: accepted prefixes of the tags; ``render`` writes the first one.
    :param sections: accepted names of the tag around the calls; ``render`` writes the first one.
    """
    wrapped = [f"\n\n<{tag}{section}>\n{{calls}}</{tag}{section}>" for section in sections for tag in tags]
    param = '<%parameter name="{key}" string="{string}">{value}</%parameter>\n'
    return Dialect(
        name=name,
        family=family,
        section=(*wrapped, Section("{calls}", declared_only=True)),
        call=tuple(template.replace("%", tag) for tag in tags for template in DSML_CALLS),
        sep=("",),
        param=tuple(param.replace("%", tag) for tag in tags),
        values=Values(wrappers=("arguments", "input")),
        reasoning=THINK_INLINE,
        stop=DEEPSEEK_EOS,
        request=request,
    )


DEEPSEEK_V3_2 = dsml(
    "deepseek_v3_2",
    Family(
        "DeepSeek-V3.2",
        model_names=("DeepSeek V3.2",),
        aliases=("deepseek_v32", "deepseekv32", "deepseek32"),
        reasoning_aliases=("deepseek_v3_2",),
    ),
    RequestFacts(
        calls_special=True,
        forced=NATIVE_FIRST,
        eos=DEEPSEEK_EOS,
        prompts=DEEPSEEK_PROMPT,
        thinking=DEEPSEEK_THINKING,
    ),
    ("｜DSML｜",),
    "function_calls",
    "tool_calls",
)
DEEPSEEK_V4 = dsml(
    "deepseek_v4",
    Family(
        "DeepSeek-V4, V4-Flash",
        model_names=("DeepSeek V4",),
        aliases=("deepseekv4",),
        reasoning_aliases=("deepseek_v4", "deepseekv4"),
    ),
    RequestFacts(
        calls_special=False,
        forced=NATIVE_FIRST,
        eos=DEEPSEEK_EOS,
        prompts=DEEPSEEK_PROMPT,
        thinking=replace(DEEPSEEK_THINKING, switches=(*DEEPSEEK_THINKING.switches, "reasoning_effort")),
    ),
    ("｜DSML｜",),
    "tool_calls",
    "function_calls",
)
DEEPSEEK_V41 = dsml(
    "deepseek_v41",
    Family(
        "DeepSeek-V4.1",
        model_names=("DeepSeek V4.1",),
        aliases=("deepseekv41", "deepseek_v4_1"),
        reasoning_aliases=("deepseek_v41",),
    ),
    RequestFacts(
        calls_special=True,
        forced=NATIVE_FIRST,
        eos=DEEPSEEK_EOS,
        prompts=DEEPSEEK_PROMPT,
        thinking=replace(
            DEEPSEEK_THINKING,
            switches=("thinking", "enable_thinking", "reasoning_effort"),
            modes=(),
            efforts=tuple((word, word) for word in ("none", "low", "high", "xhigh", "max")),
            numeric_effort=(1, 100),
        ),
    ),
    ("｜DSML｜ ", "｜DSML｜"),
    "calls",
    "tool_calls",
    "function_calls",
)
