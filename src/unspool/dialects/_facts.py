"""What a request must know about each family, as one table.

A dialect says how a model writes.  What the model is told, and by whom, is
another matter: which switch turns its reasoning off, what its template seeds,
which of its markers a detokenizer strips, how it is forced to call.  Those
facts stand here, a row per dialect with every cell filled in, and nowhere else;
``plan`` reads them, ``docs/truth-table.md`` is generated from them.

Cells are words that people can read.  ``n/a`` is one of them; a row without a
cell cannot be built, and a dialect without a row cannot be registered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .._core.values.errors import SpecError
from .._core.words.facts import (
    ALWAYS,
    ANY,
    FRAMED,
    HEADER,
    HYBRID,
    MODEL,
    NO_REASONING,
    SEEDED,
    UNSWITCHED,
    Answer,
    Default,
    Mode,
    RequestFacts,
    Thinking,
)

if TYPE_CHECKING:
    from .._core.words.dialect import Dialect

_CHAT: Final = (("chat", False), ("thinking", True))
_DEEPSEEK: Final = Thinking(
    special="no",
    default="on",
    switches=("thinking", "enable_thinking", "thinking_mode"),
    seed="<think>",
    after_tool="same",
    when_off="text",
    strip="n/a",
    modes=_CHAT,
)
_COHERE: Final = Thinking(
    special="yes",
    default="on",
    switches=("reasoning", "enable_thinking", "reasoning_effort"),
    seed="<|START_THINKING|>",
    after_tool="same",
    when_off="read",
    strip="n/a",
)
_MISTRAL: Final = Thinking(
    special="yes",
    default="off",
    switches=("reasoning_effort",),
    seed="",
    after_tool="same",
    when_off="read",
    strip="n/a",
)
_NEMOTRON: Final = replace(SEEDED, strip="<think>")
_OPENAI_EFFORTS: Final = tuple((word, word) for word in ("low", "medium", "high"))
_HY_EFFORTS: Final = {
    "hy_v3": (("no_think", "no_think"), ("none", "no_think"), ("low", "low"), ("high", "high")),
    "hy_v4": (
        *(("no_think", "no_think"), ("none", "no_think"), ("minimal", "low"), ("low", "low")),
        *((word, "high") for word in ("medium", "high", "xhigh", "max")),
    ),
}

# -- rows

_NATIVE: Final[tuple[Mode, ...]] = ("native",)
_NATIVE_FIRST: Final[tuple[Mode, ...]] = ("native", "json")
_JSON_FIRST: Final[tuple[Mode, ...]] = ("json", "native")
_JSON: Final[tuple[Mode, ...]] = ("json",)

_IM_END: Final = ("<|im_end|>",)
_LLAMA_EOS: Final = ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")
_LLAMA4_EOS: Final = ("<|eot|>", "<|eom|>")
_DEEPSEEK_EOS: Final = ("<｜end▁of▁sentence｜>",)
_GLM_EOS: Final = ("<|endoftext|>", "<|user|>", "<|observation|>")
_COHERE_EOS: Final = ("<|END_OF_TURN_TOKEN|>",)
_MINIMAX_EOS: Final = ("[e~[",)
_DEEPSEEK_PROMPT: Final = ("<｜Assistant｜>",)
_GLM_PROMPT: Final = ("<|assistant|>",)
_GRANITE_PROMPT: Final = ("<|end_of_role|>",)
_CHATBOT_PROMPT: Final = ("<|CHATBOT_TOKEN|>",)
_FRAME_PROMPT: Final = ("<|start|>assistant",)
_MINIMAX_PROMPT: Final = ("]~b]ai",)


def _row(
    calls_special: Answer,
    forced: tuple[Mode, ...],
    eos: tuple[str, ...],
    thinking: Thinking,
    *,
    prompts: tuple[str, ...] = (ANY,),
    answers_special: Answer = "no",
) -> RequestFacts:
    """A row in the shape that most of the table has."""
    return RequestFacts(
        calls_special=calls_special,
        answers_special=answers_special,
        required=forced,
        named=forced,
        eos=eos,
        prompts=prompts,
        thinking=thinking,
    )


def _hy(version: str, suffix: str, forced: tuple[Mode, ...], default: Default) -> RequestFacts:
    """Tencent's checkpoints differ in the suffix of their tags."""
    return _row(
        "no",
        forced,
        (f"<｜hy_eos{suffix}｜>",),
        Thinking(
            special="no",
            default=default,
            switches=("reasoning_effort",),
            seed=f"<think{suffix}>",
            after_tool="same",
            when_off="text",
            strip="n/a",
            efforts=_HY_EFFORTS[version],
            effort_off=("no_think", "none"),
        ),
        prompts=(f"<｜hy_Assistant{suffix}｜>",),
    )


FACTS: Final[dict[str, RequestFacts]] = {
    # Objects in tags.
    "hermes": _row("yes", _NATIVE_FIRST, _IM_END, HYBRID),
    "trinity": _row("yes", _JSON_FIRST, (MODEL,), UNSWITCHED),
    "granite4": _row("yes", _JSON_FIRST, ("<|end_of_text|>",), UNSWITCHED, prompts=_GRANITE_PROMPT),
    "ernie45": _row("no", _JSON_FIRST, ("</s>",), SEEDED),
    "longcat": _row("yes", _JSON_FIRST, (MODEL,), UNSWITCHED),
    "k2_horizon": _row(
        "yes",
        _NATIVE_FIRST,
        (MODEL,),
        Thinking(
            special="yes",
            default="always",
            switches=("reasoning_effort",),
            seed="",
            after_tool="same",
            when_off="n/a",
            strip="n/a",
            efforts=_OPENAI_EFFORTS,
        ),
    ),
    "mistral": _row("yes", _NATIVE_FIRST, ("</s>",), _MISTRAL),
    "mistral_v11": _row("yes", _NATIVE_FIRST, ("</s>",), _MISTRAL),
    "mistral_v3": _row("yes", _JSON_FIRST, ("</s>",), _MISTRAL),
    "internlm2": _row("yes", _JSON_FIRST, _IM_END, HYBRID),
    "jamba": _row("yes", _JSON_FIRST, ("<|endoftext|>", "<|eom|>"), UNSWITCHED),
    "hunyuan_a13b": _row("no", _JSON_FIRST, ("<|eos|>",), HYBRID),
    "apriel": _row(
        "no",
        _JSON_FIRST,
        ("<|end|>",),
        replace(ALWAYS, seed="Here are my reasoning steps:\n"),
        prompts=_GLM_PROMPT,
    ),
    "nemotron_json": _row("no", _JSON_FIRST, ("<|eot_id|>", "<SPECIAL_12>"), UNSWITCHED),
    "minimax_m1": _row("no", _JSON_FIRST, ("<end_of_sentence>",), UNSWITCHED),
    "apertus": _row(
        "yes",
        _JSON_FIRST,
        ("<|assistant_end|>",),
        replace(HYBRID, special="yes", default="off", when_off="read"),
        prompts=("<|assistant_start|>",),
    ),
    "granite_20b_fc": _row("no", _JSON_FIRST, ("<|endoftext|>",), UNSWITCHED),
    "gigachat3": _row(
        "yes", _JSON_FIRST, ("<|message_sep|>", "</s>"), NO_REASONING, prompts=("assistant<|role_sep|>",)
    ),
    "cohere": _row(
        "yes", _NATIVE_FIRST, _COHERE_EOS, _COHERE, prompts=_CHATBOT_PROMPT, answers_special="yes"
    ),
    "command_r": _row("no", _JSON_FIRST, _COHERE_EOS, NO_REASONING, prompts=_CHATBOT_PROMPT),
    "functionary": _row("yes", _NATIVE_FIRST, ("<|eot_id|>", "<|eom_id|>"), NO_REASONING),
    # JSON without markers.
    "llama3_json": _row("yes", _NATIVE_FIRST, _LLAMA_EOS, NO_REASONING),
    "llama4_json": _row("no", _JSON_FIRST, _LLAMA4_EOS, NO_REASONING),
    "granite": _row(
        "no",
        _JSON_FIRST,
        ("<|end_of_text|>",),
        replace(HYBRID, default="off", when_off="read"),
        prompts=_GRANITE_PROMPT,
    ),
    "phi4mini": _row("no", _JSON_FIRST, ("<|end|>", "<|endoftext|>"), UNSWITCHED),
    "firefunction": _row("no", _JSON_FIRST, ("<|eot_id|>",), NO_REASONING),
    "xlam": _row("no", _JSON_FIRST, (MODEL,), UNSWITCHED),
    "generic_json": _row("no", _JSON_FIRST, (MODEL,), UNSWITCHED),
    # Other notations.
    "pythonic": _row("no", _JSON_FIRST, _LLAMA4_EOS, UNSWITCHED),
    "watt": _row("no", _JSON_FIRST, ("<|eot_id|>",), NO_REASONING),
    "lfm2": _row("yes", _JSON_FIRST, _IM_END, UNSWITCHED),
    "sarashina": _row("no", _JSON_FIRST, ("</s>",), NO_REASONING),
    "minicpm": _row("yes", _JSON_FIRST, _IM_END, replace(UNSWITCHED, special="yes")),
    "gemma4": _row(
        "yes",
        _JSON_FIRST,
        ("<turn|>", "<eos>", "<|tool_response>"),
        replace(HYBRID, special="yes", when_off="read"),
        prompts=("<|turn>model",),
    ),
    "functiongemma": _row(
        "yes",
        _JSON_FIRST,
        ("<end_of_turn>", "<start_function_response>"),
        NO_REASONING,
        prompts=("<start_of_turn>model",),
    ),
    # Tags.
    "qwen3_coder": _row("no", _NATIVE_FIRST, ("<|im_end|>", "<|endoftext|>"), HYBRID),
    "nemotron_v3": _row("no", _JSON_FIRST, _IM_END, _NEMOTRON),
    "granite42": _row("no", _JSON_FIRST, ("<|end_of_text|>", "<|im_end|>"), replace(SEEDED, swap="nothing")),
    "step3p5": _row("no", _JSON_FIRST, _IM_END, ALWAYS),
    "mimo": _row("no", _JSON_FIRST, (MODEL,), HYBRID),
    "minicpmv": _row("no", _JSON_FIRST, _IM_END, replace(HYBRID, when_off="read")),
    "seed_oss": _row(
        "no",
        _JSON_FIRST,
        ("<seed:eos>",),
        replace(HYBRID, switches=("thinking_budget",)),
        prompts=("<seed:bos>assistant",),
    ),
    "glm45": _row("no", _JSON_FIRST, _GLM_EOS, HYBRID, prompts=_GLM_PROMPT),
    "glm47": _row("no", _NATIVE_FIRST, _GLM_EOS, replace(SEEDED, seed="<think>"), prompts=_GLM_PROMPT),
    "ling3": _row("no", _NATIVE, (MODEL,), replace(SEEDED, seed="<think>")),
    "poolside_v1": _row(
        "yes",
        _NATIVE_FIRST,
        ("</assistant>",),
        replace(SEEDED, seed="<think>", default="off"),
        prompts=("<assistant>",),
    ),
    "spark25": _row("no", _NATIVE, (MODEL,), HYBRID),
    "iquest_q1": _row(
        "yes",
        _JSON_FIRST,
        ("<|iquest_end|>",),
        replace(SEEDED, seed="<think>"),
        prompts=("<|iquest_assistant|>",),
    ),
    "hy_v3": _hy("hy_v3", "", _JSON_FIRST, "off"),
    "hy_v3:opensource": _hy("hy_v3", ":opensource", _JSON_FIRST, "off"),
    "hy_v4": _hy("hy_v4", "", _NATIVE, "on"),
    "hy_v4:opensource": _hy("hy_v4", ":opensource", _NATIVE, "on"),
    "hy_v4:6124c78e": _hy("hy_v4", ":6124c78e", _NATIVE, "on"),
    "minimax_m2": _row(
        "no",
        _NATIVE_FIRST,
        _MINIMAX_EOS,
        replace(
            _DEEPSEEK,
            seed="<think>\n",
            caution="the template of MiniMax M2 has no switch, so the model reasons all the same",
        ),
        prompts=_MINIMAX_PROMPT,
    ),
    "dots": _row("no", _NATIVE, (MODEL,), HYBRID),
    "minicpm5": _row("yes", _JSON_FIRST, _IM_END, replace(SEEDED, special="yes", default="model")),
    "step3": _row("yes", _JSON_FIRST, (MODEL,), ALWAYS),
    "deepseek_v3_2": _row("yes", _NATIVE_FIRST, _DEEPSEEK_EOS, _DEEPSEEK, prompts=_DEEPSEEK_PROMPT),
    "deepseek_v4": _row(
        "no",
        _NATIVE_FIRST,
        _DEEPSEEK_EOS,
        replace(_DEEPSEEK, switches=(*_DEEPSEEK.switches, "reasoning_effort")),
        prompts=_DEEPSEEK_PROMPT,
    ),
    "deepseek_v41": _row(
        "yes",
        _NATIVE_FIRST,
        _DEEPSEEK_EOS,
        replace(
            _DEEPSEEK,
            switches=("thinking", "enable_thinking", "reasoning_effort"),
            modes=(),
            efforts=tuple((word, word) for word in ("none", "low", "high", "xhigh", "max")),
            numeric_effort=(1, 100),
        ),
        prompts=_DEEPSEEK_PROMPT,
    ),
    "gigachat35": _row(
        "yes",
        _JSON_FIRST,
        ("<|message_sep|>", "</s>"),
        replace(SEEDED, seed="<think>", default="off", switches=("reasoning",)),
        prompts=("assistant<|role_sep|>",),
    ),
    "cohere_cofl": _row(
        "no", _NATIVE_FIRST, _COHERE_EOS, _COHERE, prompts=_CHATBOT_PROMPT, answers_special="yes"
    ),
    "minimax_m3": _row(
        "yes",
        _JSON_FIRST,
        _MINIMAX_EOS,
        Thinking(
            special="yes",
            default="model",
            switches=("thinking_mode", "thinking", "enable_thinking"),
            seed="<mm:think>",
            after_tool="same",
            when_off="text",
            strip="</mm:think>",
            modes=(("enabled", True), ("disabled", False), ("adaptive", None)),
            json_off=True,
        ),
        prompts=_MINIMAX_PROMPT,
    ),
    # Control tokens.
    "deepseek_v3": _row(
        "no",
        _NATIVE_FIRST,
        _DEEPSEEK_EOS,
        replace(_DEEPSEEK, default="off", after_tool="nothing"),
        prompts=_DEEPSEEK_PROMPT,
    ),
    "deepseek_v3_1": _row(
        "no",
        _NATIVE_FIRST,
        _DEEPSEEK_EOS,
        replace(_DEEPSEEK, default="off", after_tool="nothing"),
        prompts=_DEEPSEEK_PROMPT,
    ),
    "kimi_k2": _row(
        "yes", _NATIVE, ("<|im_end|>", "[EOS]"), replace(HYBRID, special="yes"), prompts=("<|im_middle|>",)
    ),
    "kimi_k3": _row(
        "yes",
        _NATIVE,
        ("<|end_of_msg|>",),
        replace(
            HYBRID,
            special="yes",
            seed="<|open|>think<|sep|>",
            when_off="read",
            efforts=tuple((word, word) for word in ("none", "low", "high", "max")),
            effort_name="thinking_effort",
            written=True,
            named_off=True,
        ),
        prompts=('role="assistant"<|sep|>',),
        answers_special="yes",
    ),
    "solar_open": _row(
        "yes",
        _NATIVE,
        (MODEL,),
        Thinking(
            special="yes",
            default="on",
            switches=("reasoning_effort",),
            seed="",
            after_tool="same",
            when_off="read",
            strip="n/a",
            efforts=(
                ("none", "minimal"),
                *((word, word) for word in ("minimal", "low", "medium", "high")),
            ),
            effort_off=("none", "minimal", "low"),
        ),
        prompts=("<|begin|>assistant",),
        answers_special="yes",
    ),
    "inkling": _row(
        "yes",
        _NATIVE,
        ("<|content_model_end_sampling|>",),
        replace(
            FRAMED, default="on", switches=("reasoning_effort",), when_off="read", numeric_effort=(0.0, 1.0)
        ),
        prompts=("<|message_model|>",),
        answers_special="yes",
    ),
    "plamo3": _row(
        "yes",
        _NATIVE_FIRST,
        (MODEL,),
        replace(SEEDED, special="yes", seed="<|plamo:begin_think:plamo|>", when_off="read"),
    ),
    # Messages with headers.
    "harmony": _row(
        "yes",
        _NATIVE,
        ("<|return|>", "<|call|>", "<|endoftext|>"),
        replace(FRAMED, switches=("reasoning_effort",), efforts=_OPENAI_EFFORTS),
        prompts=_FRAME_PROMPT,
        answers_special="yes",
    ),
    "harmony_stripped": _row(
        "no",
        ("none",),
        (MODEL,),
        replace(ALWAYS, switches=("reasoning_effort",), efforts=_OPENAI_EFFORTS, seed=""),
        prompts=_FRAME_PROMPT,
    ),
    "beam": _row(
        "yes", _NATIVE, ("<|return|>", "<|call|>"), FRAMED, prompts=_FRAME_PROMPT, answers_special="yes"
    ),
    "muse_glimmer": _row(
        "yes",
        _NATIVE,
        ("<|eot|>",),
        replace(FRAMED, switches=("reasoning_effort",), effort_name="reasoning_strength"),
        prompts=_FRAME_PROMPT,
        answers_special="yes",
    ),
    "functionary_v32": _row("no", _NATIVE, ("<|eot_id|>", "<|eom_id|>"), replace(NO_REASONING, seed=HEADER)),
    # Without calls.
    "kimi": _row("n/a", _JSON, (MODEL,), UNSWITCHED),
    "passthrough": _row("n/a", _JSON, (MODEL,), NO_REASONING),
    "minimax_append_think": _row("n/a", _JSON, _MINIMAX_EOS, NO_REASONING, prompts=_MINIMAX_PROMPT),
    # Whatever a tokenizer's response template says.
    "response_template": _row("yes", _NATIVE, (MODEL,), replace(UNSWITCHED, special="yes")),
}
"""The rows of the built-in dialects, in the order of their modules."""

FAMILIES: Final[dict[str, tuple[str, Thinking]]] = {
    "deepseek_r1": (
        "deepseek_v3",
        replace(
            _DEEPSEEK,
            seed="<think>\n",
            after_tool="nothing",
            caution="the template of DeepSeek R1 has no switch, so the model may reason all the same",
        ),
    ),
    "qwen3_thinking": ("hermes", ALWAYS),
    "qwen3_vl_thinking": ("hermes", ALWAYS),
    "qwq": ("hermes", ALWAYS),
    "holo2": ("hermes", SEEDED),
    "basic": ("hermes", UNSWITCHED),
    "base": ("hermes", UNSWITCHED),
    "qwen3.5": ("qwen3_coder", SEEDED),
    "qwen_3_5": ("qwen3_coder", SEEDED),
    "kimi_k25": ("kimi_k2", replace(HYBRID, special="yes", seed="<think>", written=True)),
    "kimi_thinking": ("kimi_k2", replace(HYBRID, special="yes", seed="<think>")),
    "nemotron_nano_v2": ("nemotron_json", ALWAYS),
    "glm53": ("glm47", replace(ALWAYS, seed="<think>", switches=("reasoning_effort",))),
    "laguna_s": ("poolside_v1", replace(SEEDED, seed="<think>")),
    "magistral": ("mistral", replace(_MISTRAL, default="always", switches=(), when_off="n/a")),
    "gigachat35_reasoning": ("gigachat35", replace(ALWAYS, seed="<think>")),
    "cohere_command3": (
        "cohere",
        replace(_COHERE, default="off", switches=("enable_thinking", "reasoning_effort"), seed=""),
    ),
}
"""Checkpoints and reasoning parsers that share a dialect with others but are switched or
seeded in another way: the dialect, and what takes the place of its ``thinking``."""

ROLE_MARKERS: Final = frozenset(
    marker for facts in FACTS.values() for marker in facts.prompts if marker != ANY
).union(("<|im_start|>assistant", "<|start_header_id|>assistant<|end_header_id|>", "[/INST]"))
"""What prompts end with, of whatever family."""


def facts_of(dialect: Dialect) -> RequestFacts:
    """The row of a dialect: the one it brings along, or the one of its name.

    A dialect may name another one whose row is its own, too.  ``tools+reasoning``
    has the row of the first with the reasoning of the second.
    """
    own = dialect.request
    if isinstance(own, RequestFacts):
        return own
    calls, plus, reasoning = (own or dialect.name).partition("+")
    row = FACTS.get(calls)
    if row is None:
        what = f"request={own!r} names no row" if own else f"dialect {dialect.name!r} has no row"
        raise SpecError(
            f"{what} in the truth table: declare Dialect({dialect.name!r}, ..., request=RequestFacts(...)), "
            "or request='hermes' if it is told the same as that one"
        )
    if not plus:
        return row
    other = FACTS.get(reasoning)
    return row if other is None else replace(row, thinking=other.thinking)


def check_facts(dialect: Dialect) -> RequestFacts:
    """The row of a dialect that is about to be registered; it must fit what the dialect declares."""
    facts = facts_of(dialect)
    frame = dialect.frame
    routes = () if frame is None else tuple(route.into for route in frame.routes)
    calls = bool(dialect.call) or any(into.startswith("{") for into in routes)
    reasoning = bool(dialect.reasoning) or "reasoning" in routes
    thinking = facts.thinking
    for wrong, why in (
        ((facts.calls_special == "n/a") == calls, "calls_special is n/a exactly where there are no calls"),
        (not calls and "native" in facts.required + facts.named, "there is no native call to force"),
        (
            (thinking.default == "n/a") == reasoning,
            "thinking.default is n/a exactly where there is no reasoning",
        ),
        (
            thinking.inside and not any(seeds(template, thinking.seed) for template in dialect.reasoning),
            f"thinking.seed={thinking.seed!r} opens none of its reasoning templates",
        ),
        (
            thinking.seed == HEADER and not dialect.start,
            "thinking.seed is 'header', but the dialect has no start",
        ),
    ):
        if wrong:
            raise SpecError(f"dialect {dialect.name!r} contradicts its row in the truth table: {why}")
    return facts


def seeds(template: str, seed: str) -> bool:
    """Whether a seed is the opener of a wrapper."""
    return template.lstrip("^?").partition("{text}")[0].strip() == seed.strip()
