"""Parameters in tags; types come from the tool's schema or from an attribute.

Four functions give most of the families: ``qwen`` (the name in the tag),
``glm`` (key and value in tags of their own), ``hy`` (the same in a section,
with a suffix that depends on the checkpoint) and ``dsml`` (XML with a
namespace and a ``string`` attribute).
"""

from dataclasses import replace

from .._core.values.ids import IdFormat
from .._core.words.dialect import Dialect
from ._shared import CHATML_STOPS, DEEPSEEK_EOS, THINK, THINK_INLINE
from .json_in_tags import COHERE_ANSWERS, COHERE_FURNITURE, COHERE_THINKING

# -- the name in the tag

QWEN3_CODER = Dialect(
    name="qwen3_coder",
    models="Qwen3-Coder, Qwen3.5 to 3.8, Nanbeige",
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
    section=("\n\n<tool_call>\n{calls}\n</tool_call>", "?{calls}"),
    section_per_call=True,
    call=("<function={name}>\n{params}</function>",),
    param=("<parameter={key}>\n{value}\n</parameter>\n",),
    python_values=True,
    stop=CHATML_STOPS,
)


def qwen(
    name: str, models: str, before: str = "\n", between: str = "\n", **names: tuple[str, ...]
) -> Dialect:
    """Qwen's calls with other white space around them."""
    return replace(
        QWEN3_CODER,
        name=name,
        models=models,
        aliases=names.get("aliases", ()),
        reasoning_aliases=names.get("reasoning_aliases", ()),
        section=(f"{before}<tool_call>\n{{calls}}\n</tool_call>", "?{calls}"),
        sep=(between,),
        reasoning=("<think>\n{text}\n</think>\n",),
        fingerprint=names.get("fingerprint", ()),
    )


NEMOTRON_V3 = qwen(
    "nemotron_v3",
    "Nemotron 3 and 3.5",
    aliases=("nemotron_nano", "nemotron", "nemotron_3_nano", "nemotron_3.5_nano"),
    reasoning_aliases=("nemotron_v3", "nemotron_3", "nemotron3", "nano_v3"),
    fingerprint=("truncate_history_thinking",),
)
GRANITE42 = replace(
    qwen("granite42", "Granite 4.2", reasoning_aliases=("granite_thinking_parser",)),
    stop=("<|end_of_text|>", "<|im_end|>"),
    fingerprint=("truncate_history_thinking", "defer_loading"),
)
STEP3P5 = qwen("step3p5", "Step-3.5", before="", between="", reasoning_aliases=("step3p5",))
# Mimo puts values directly between the tags; those with Qwen's line feeds around them are read as well,
# and since a template says both at once, they are what is written.
MIMO = qwen("mimo", "MiMo-V2", reasoning_aliases=("mimo",), fingerprint=("model_type: mimo_v2",))
MINICPMV = replace(
    qwen("minicpmv", "MiniCPM-V 4.5 and later", reasoning_aliases=("minicpmv",)),
    call=(*QWEN3_CODER.call, "{envelope}"),
    drop=tuple(f"<{bar}reserved_{number}{bar}>" for number in (12, 13, 14, 15) for bar in ("", "|")),
    fingerprint=("model_type: minicpmv",),
)
SEED_OSS = replace(
    QWEN3_CODER,
    name="seed_oss",
    models="Seed-OSS",
    aliases=(),
    reasoning_aliases=("seed_oss",),
    section=("\n\n<seed:tool_call>\n{calls}\n</seed:tool_call>", "?{calls}"),
    param=("<parameter={key}>{value}</parameter>\n",),
    reasoning=("<seed:think>{text}</seed:think>\n",),
    stop=("<seed:eos>",),
)

# -- key and value in tags of their own


def glm(
    name: str,
    models: str,
    stop: tuple[str, ...],
    line: str = "",
    tag: str = "tool_call",
    **names: tuple[str, ...],
) -> Dialect:
    """GLM's calls; ``line`` is what its template puts between the tags."""
    return Dialect(
        name=name,
        models=models,
        aliases=names.get("aliases", ()),
        reasoning_aliases=names.get("reasoning_aliases", ()),
        section=(f"{line}{{calls}}",),
        sep=(line,),
        call=(f"<{tag}>{{name}}{line}{{params}}</{tag}>",),
        param=(
            f"<arg_key>{{key}}</arg_key>{line}<arg_value>{{value}}</arg_value>{line}",
            "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n",
        ),
        reasoning=(f"<think>{{text}}</think>{line}",),
        stop=stop,
        fingerprint=names.get("fingerprint", ()),
    )


GLM_STOPS = ("<|user|>", "<|observation|>", "<|endoftext|>", "<|assistant|>")

GLM45 = glm(
    "glm45",
    "GLM-4.5, 4.6",
    GLM_STOPS,
    line="\n",
    aliases=("glm", "glm45_moe", "glm4"),
    reasoning_aliases=("glm45",),
    fingerprint=("[gMASK]<sop>",),
)
GLM47 = glm(
    "glm47",
    "GLM-4.7, GLM-5",
    GLM_STOPS,
    aliases=("glm47_moe", "glm_4.7", "glm_4_7", "glm_ocr"),
    reasoning_aliases=("glm47",),
    fingerprint=("[gMASK]<sop>",),
)
LING3 = glm(
    "ling3",
    "Ling 3, Ring-2.6",
    ("<|role_end|>", "<|endoftext|>"),
    aliases=("ling",),
    reasoning_aliases=("ling3",),
    fingerprint=("<|role_end|>", "model_type: bailing"),
)
POOLSIDE_V1 = glm(
    "poolside_v1",
    "Laguna",
    ("</assistant>", "〈|EOS|〉"),
    line="\n",
    aliases=("laguna",),
    reasoning_aliases=("poolside_v1",),
    fingerprint=("All available function signatures are listed below",),
)
SPARK25 = glm("spark25", "Spark-X2.5", ("<end>", "<|im_end|>"), fingerprint=("model_type: spark2_5",))
IQUEST_Q1 = glm(
    "iquest_q1",
    "IQuest-Q1",
    ("<|iquest_end|>", "<|endoftext|>"),
    tag="iquest_tool_call",
    aliases=("iquest",),
    reasoning_aliases=("iquest_q1",),
)


def hy(name: str, models: str, suffix: str, line: str, *calls: str, **names: tuple[str, ...]) -> Dialect:
    """Tencent's calls; every tag carries the suffix of the checkpoint."""
    key = f"<arg_key{suffix}>{{key}}</arg_key{suffix}>"
    value = f"<arg_value{suffix}>{{value}}</arg_value{suffix}>"
    return Dialect(
        name=name + suffix,
        models=models,
        aliases=names.get("aliases", ()),
        reasoning_aliases=names.get("reasoning_aliases", ()),
        section=(f"<tool_calls{suffix}>{line}{{calls}}</tool_calls{suffix}>",),
        sep=("",),
        call=tuple(template.replace("%", suffix) for template in calls),
        # The tag that opens the value may be forgotten.
        param=(f"{key}{line}{value}{line}", f"{key}\n{value}\n", f"{key}{{value}}</arg_value{suffix}>"),
        reasoning=(f"<think{suffix}>{{text}}</think{suffix}>",),
        stop=(f"<｜hy_eos{suffix}｜>",),
    )


HY_V3_CALLS = (
    "<tool_call%>{name}<tool_sep%>\n{params}</tool_call%>\n",
    "<tool_call%>{name}{params}</tool_call%>",
)
HY_V4_CALLS = (
    "<tool_call%>{name}{params}</tool_call%>",
    "<tool_call%>{name}<tool_sep%>{params}</tool_call%>",
)

HY_V3_OPENSOURCE = hy("hy_v3", "Hy3, released tokenizer", ":opensource", "\n", *HY_V3_CALLS)
HY_V3 = replace(
    hy("hy_v3", "Hy3", "", "\n", *HY_V3_CALLS, aliases=("hunyuan",), reasoning_aliases=("hy_v3", "hunyuan")),
    variants=(("<tool_calls:opensource>", "hy_v3:opensource"),),
)
HY_V4_OPENSOURCE = hy("hy_v4", "Hy4, released tokenizer", ":opensource", "", *HY_V4_CALLS)
HY_V4_6124C78E = hy("hy_v4", "Hy4, checkpoint 6124c78e", ":6124c78e", "", *HY_V4_CALLS)
HY_V4 = replace(
    hy("hy_v4", "Hy4", "", "", *HY_V4_CALLS, aliases=("hy4",), reasoning_aliases=("hy_v4",)),
    variants=(("<tool_calls:opensource>", "hy_v4:opensource"), ("<tool_calls:6124c78e>", "hy_v4:6124c78e")),
)

# -- attributes

INVOKE = ('<invoke name="{name}">\n{params}</invoke>\n',)
INVOKE_PARAM = ('<parameter name="{key}">{value}</parameter>\n',)

MINIMAX_M2 = Dialect(
    name="minimax_m2",
    models="MiniMax-M2",
    reasoning_aliases=("minimax_m2", "minimax"),
    section=("\n<minimax:tool_call>\n{calls}</minimax:tool_call>", "?{calls}"),
    call=INVOKE,
    sep=("",),
    param=INVOKE_PARAM,
    stop=("[e~[",),
)

DOTS = Dialect(
    name="dots",
    models="dots",
    aliases=("dots3",),
    reasoning_aliases=("dots",),
    section=("\n<dots_function_call>\n{calls}</dots_function_call>",),
    call=(*INVOKE, "{envelope}"),
    sep=("",),
    param=INVOKE_PARAM,
    stop=CHATML_STOPS,
)

MINICPM5 = Dialect(
    name="minicpm5",
    models="MiniCPM5",
    section=("\n{calls}",),
    # A detokenizer may swallow the blank.
    call=('<function name="{name}">{params}</function>', '<functionname="{name}">{params}</function>'),
    param=(
        '<param name="{key}">{value}</param>',
        '<param name="{key}"><![CDATA[{value}]]></param>',
        '<paramname="{key}">{value}</param>',
    ),
    python_values=True,
    stop=CHATML_STOPS,
)

STEP3_INVOKE = '<steptml:invoke name="{name}">\n{params}</steptml:invoke>\n<｜tool_call_end｜>'
STEP3 = Dialect(
    name="step3",
    models="Step-3",
    reasoning_aliases=("step3",),
    section=("<｜tool_calls_begin｜>\n{calls}<｜tool_calls_end｜>", "{calls}"),
    call=(
        f"<｜tool_call_begin｜>function<｜tool_sep｜>{STEP3_INVOKE}",
        f"<｜tool_call_begin｜>{STEP3_INVOKE}",
        STEP3_INVOKE.removesuffix("<｜tool_call_end｜>"),
    ),
    sep=("\n", "<｜tool_sep｜>"),
    param=('<steptml:parameter name="{key}">{value}</steptml:parameter>\n',),
    stop=CHATML_STOPS,
)


DSML_CALLS = (
    '<%invoke name="{name}">\n{params}</%invoke>\n',
    '<%invoke name="{name}">\n{args}\n</%invoke>\n',
    '<%invoke name="{name}"/>\n',
)


def dsml(
    name: str,
    models: str,
    tags: tuple[str, ...],
    sections: tuple[str, ...],
    stop: tuple[str, ...] = (DEEPSEEK_EOS,),
    **names: tuple[str, ...],
) -> Dialect:
    """XML in a namespace; an attribute says whether a value is a string."""
    wrapped = [f"\n\n<{tag}{section}>\n{{calls}}</{tag}{section}>" for section in sections for tag in tags]
    return Dialect(
        name=name,
        models=models,
        aliases=names.get("aliases", ()),
        reasoning_aliases=names.get("reasoning_aliases", ()),
        section=(*wrapped, "?{calls}"),
        call=tuple(template.replace("%", tag) for tag in tags for template in DSML_CALLS),
        sep=("",),
        param=tuple(
            f'<{tag}parameter name="{{key}}" string="{{string}}">{{value}}</{tag}parameter>\n' for tag in tags
        ),
        reasoning=THINK_INLINE,
        stop=stop,
    )


DEEPSEEK_V3_2 = dsml(
    "deepseek_v3_2",
    "DeepSeek-V3.2",
    ("｜DSML｜",),
    ("function_calls", "tool_calls"),
    aliases=("deepseek_v32", "deepseekv32", "deepseek32"),
    reasoning_aliases=("deepseek_v3_2",),
)
DEEPSEEK_V4 = dsml(
    "deepseek_v4",
    "DeepSeek-V4, V4-Flash",
    ("｜DSML｜",),
    ("tool_calls", "function_calls"),
    aliases=("deepseekv4",),
    reasoning_aliases=("deepseek_v4", "deepseekv4"),
)
DEEPSEEK_V41 = dsml(
    "deepseek_v41",
    "DeepSeek-V4.1",
    ("｜DSML｜ ", "｜DSML｜"),
    ("calls", "tool_calls", "function_calls"),
    aliases=("deepseekv41", "deepseek_v4_1"),
    reasoning_aliases=("deepseek_v41",),
)
GIGACHAT35 = replace(
    dsml(
        "gigachat35",
        "GigaChat 3.5",
        ("｜GCML｜",),
        ("tool_calls",),
        stop=("<|message_sep|>", "</s>"),
        reasoning_aliases=("gigachat35",),
    ),
    reasoning=THINK,
)

# -- values made of values

COHERE_COFL = Dialect(
    name="cohere_cofl",
    models="Command models with the cofl template",
    section=("<cofl:tool_calls>{calls}</cofl:tool_calls>",),
    call=('<cofl:tool_call id="{id}" name="{name}">{params}</cofl:tool_call>',),
    sep=("",),
    nested=True,
    param=(
        '<cofl:value name="{key}" type="{type}">{value}</cofl:value>',
        '<cofl:value type="{type}">{value}</cofl:value>',
        '<cofl:tool_param name="{key}" string="{string}">{value}</cofl:tool_param>',
    ),
    type_words=("raw", "json", "json", "json", "list", "dict"),
    id_format=IdFormat("{index}"),
    reasoning=COHERE_THINKING,
    content=COHERE_ANSWERS,
    drop=COHERE_FURNITURE,
)

MINIMAX_NAMESPACE = "]<]minimax[>["

MINIMAX_M3 = Dialect(
    name="minimax_m3",
    models="MiniMax-M3",
    aliases=("minimax_m3_nom",),
    reasoning_aliases=("minimax_m3",),
    section=(f"{MINIMAX_NAMESPACE}<tool_call>\n{{calls}}{MINIMAX_NAMESPACE}</tool_call>",),
    call=(f'{MINIMAX_NAMESPACE}<invoke name="{{name}}">{{params}}{MINIMAX_NAMESPACE}</invoke>\n',),
    sep=("",),
    param=(f"{MINIMAX_NAMESPACE}<{{key}}>{{value}}{MINIMAX_NAMESPACE}</{{key}}>",),
    nested=True,
    list_key="item",
    reasoning=("<mm:think>{text}</mm:think>",),
    drop=(MINIMAX_NAMESPACE,),
    stop=("[e~[",),
)
