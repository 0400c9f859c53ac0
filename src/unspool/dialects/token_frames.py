"""Calls and blocks framed by control tokens."""

from .._core.values.ids import IdFormat
from .._core.words.dialect import Dialect
from ._shared import CHATML_STOPS, DEEPSEEK_EOS, THINK_INLINE

DEEPSEEK_STOPS = (
    DEEPSEEK_EOS,
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
)
DEEPSEEK_SECTION = ("<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>", "{calls}")

DEEPSEEK_V3 = Dialect(
    name="deepseek_v3",
    models="DeepSeek-V3-0324, R1-0528",
    aliases=("deepseekv3", "deepseek", "cogito"),
    reasoning_aliases=("deepseek_r1", "qwq"),
    section=DEEPSEEK_SECTION,
    call=tuple(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{name}}\n{fence}<｜tool▁call▁end｜>"
        for fence in ("```json\n{args}\n```", "```\n{args}\n```", "{args}")
    ),
    reasoning=("<think>\n{text}\n</think>\n\n",),
    stop=DEEPSEEK_STOPS,
)

DEEPSEEK_V3_1 = Dialect(
    name="deepseek_v3_1",
    models="DeepSeek-V3.1, V3.2-Exp",
    aliases=("deepseek_v31", "deepseekv31", "deepseek31", "deepseek3"),
    reasoning_aliases=("deepseek_v3", "deepseek_v3_1", "deepseek_v31"),
    section=DEEPSEEK_SECTION,
    call=(
        "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{args}<｜tool▁call▁end｜>",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{args}\n```<｜tool▁call▁end｜>",
    ),
    sep=("",),
    reasoning=THINK_INLINE,
    stop=DEEPSEEK_STOPS,
)

KIMI_K2 = Dialect(
    name="kimi_k2",
    models="Kimi K2, K2.5, K2.6",
    aliases=("kimik2", "kimi_k25"),
    reasoning_aliases=("kimi_k2", "kimi_k25", "kimi_thinking"),
    section=(
        "<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>",
        "<|tool_call_section_begin|>{calls}<|tool_call_section_end|>",
        "{calls}",
    ),
    call=(
        "<|tool_call_begin|>{name}<|tool_call_argument_begin|>{args}<|tool_call_end|>",
        "<|tool_call_begin|>{name}<|tool_call_argument_begin|>\n<|tool_call_end|>",
    ),
    sep=("",),
    name_forms=(
        "functions.{name}:{index}",
        "{name}:{index}",
        "functions_{name}_{index}",
        "functions.{name}",
        "{name}",
    ),
    id_format=IdFormat("functions.{name}:{index}"),
    after_calls="drop",
    reasoning=THINK_INLINE,
    stop=CHATML_STOPS,
)


def kimi_block(word: str) -> str:
    """A channel of Kimi K3."""
    return f"<|open|>{word}<|sep|>{{text}}<|close|>{word}<|sep|>"


KIMI_K3 = Dialect(
    name="kimi_k3",
    models="Kimi K3",
    reasoning_aliases=("kimi_k3",),
    section=("<|open|>tools<|sep|>{calls}<|close|>tools<|sep|>",),
    call=tuple(
        f'<|open|>call tool="{{name}}" index="{{index}}"<|sep|>{payload}<|close|>call<|sep|>'
        for payload in ("{params}", '<|open|>json type="object"<|sep|>{args}<|close|>json<|sep|>')
    ),
    sep=("",),
    param=('<|open|>argument key="{key}" type="{type}"<|sep|>{value}<|close|>argument<|sep|>',),
    first_index=1,
    unescape=True,
    reasoning=(kimi_block("think"),),
    content=(kimi_block("response"),),
    drop=("<|close|>message<|sep|>", "<|close|>response<|sep|>"),
    stop=("<|end_of_msg|>",),
)

SOLAR_OPEN = Dialect(
    name="solar_open",
    models="Solar-Open",
    section=("<|tool_calls|>{calls}<|calls|>", "{calls}"),
    call=("<|tool_call:begin|>{id}<|tool_call:name|>{name}<|tool_call:args|>{args}<|tool_call:end|>",),
    sep=("",),
    id_format=IdFormat("{random}", length=10),
    reasoning=("<|think|>{text}<|end|>",),
    content=("<|content|>{text}<|end|>",),
    drop=("<|begin|>assistant",),
    stop=("<|end|>", "<|calls|>", "<|flush|>"),
)

INKLING_HEADERS = ("", "<|message_model|>{_}")

INKLING = Dialect(
    name="inkling",
    models="Inkling",
    reasoning_aliases=("inkling",),
    call=tuple(
        f"{header}<|content_invoke_tool_json|>{{envelope}}<|end_message|>" for header in INKLING_HEADERS
    ),
    sep=("",),
    args_keys=("args", "arguments", "parameters"),
    reasoning=tuple(f"{header}<|content_thinking|>{{text}}<|end_message|>" for header in INKLING_HEADERS),
    content=tuple(
        f"{header}<|content_{kind}|>{{text}}<|end_message|>"
        for kind in ("text", "invoke_tool_text", "tool_error", "xml")
        for header in INKLING_HEADERS
    ),
    drop=("<|message_model|>", "<|content_invoke_tool_json|>"),
    start="<|message_model|>",
    stop=("<|content_model_end_sampling|>",),
)


def plamo(word: str) -> str:
    """One of PLaMo's markers."""
    return f"<|plamo:{word}:plamo|>"


PLAMO_HEAD = (
    plamo("begin_tool_request") + plamo("begin_tool_name") + "{name}" + plamo("end_tool_name")
    + plamo("begin_tool_arguments") + "<|plamo:constrain|>json<|plamo:msg|>"
)  # fmt: skip
PLAMO_TAIL = plamo("end_tool_arguments") + plamo("end_tool_request")

PLAMO3 = Dialect(
    name="plamo3",
    models="PLaMo 3",
    reasoning_aliases=("plamo3",),
    section=(plamo("begin_tool_requests") + "{calls}" + plamo("end_tool_requests"),),
    call=(PLAMO_HEAD + "{args}" + PLAMO_TAIL, PLAMO_HEAD + "\n" + PLAMO_TAIL),
    sep=("",),
    reasoning=(plamo("begin_think") + "{text}" + plamo("end_think"),),
    stop=("<|plamo:tag|>",),
)
