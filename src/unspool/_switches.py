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

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from ._errors import SpecError

if TYPE_CHECKING:
    from ._dialect import Dialect

Answer: TypeAlias = Literal["yes", "no", "n/a"]
Default: TypeAlias = Literal["on", "off", "model", "always", "n/a"]
AfterTool: TypeAlias = Literal["same", "nothing", "n/a"]
WhenOff: TypeAlias = Literal["text", "read", "n/a"]
Mode: TypeAlias = Literal["native", "json", "none"]

BOOLEANS: Final = ("thinking", "enable_thinking", "reasoning")
"""Switches that are true or false; the first two are two names of one."""
SWITCHES: Final = (*BOOLEANS, "thinking_mode", "reasoning_effort", "thinking_budget")
"""Every switch that some family's template reads."""
HEADER: Final = "header"
"""Seed of the families whose output begins in a message header."""
MODEL: Final = "model"
"""End-of-sequence tokens that only the model's generation config knows."""
ANY: Final = "any"
"""The dialect is spoken under many templates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """How a family is told to reason, and where its output begins.

    >>> Thinking(
    ...     special="no", default="on", switches=("enable_thinking",), seed="<think>", after_tool="same",
    ...     when_off="text", strip="n/a",
    ... ).default
    'on'
    """

    special: Answer
    """Whether the markers of reasoning are special tokens, where no tokenizer can be asked."""
    default: Default
    """What a request gets that says nothing: reasoning is on or off; ``model``: the model
    decides and nothing is seeded; ``always``: it cannot be switched off."""
    switches: tuple[str, ...]
    """Which of :data:`SWITCHES` the family understands; empty: none."""
    seed: str
    """What the template writes into the prompt when reasoning is on, so that the output
    begins inside; empty: nothing, the model opens it; ``header``: the output begins in a
    message header."""
    after_tool: AfterTool
    """What it seeds after the result of a tool: the same, or nothing."""
    when_off: WhenOff
    """What markers of reasoning are while it is switched off: text, or still read,
    because they are control tokens that no model writes by accident."""
    strip: str
    """A marker to remove from the beginning of the content while reasoning is off."""

    modes: tuple[tuple[str, bool | None], ...] = ()
    """Words of ``thinking_mode`` besides enabled and disabled; None: the model decides."""
    efforts: tuple[tuple[str, str], ...] = ()
    """Words of ``reasoning_effort`` and what the template calls them; empty: any of OpenAI's."""
    numeric_effort: tuple[float, float] | None = None
    """Least and greatest number that ``reasoning_effort`` may be."""
    effort_off: tuple[str, ...] = ("none",)
    """Efforts that switch reasoning off."""
    effort_name: str = "reasoning_effort"
    """What the template calls the effort."""
    written: bool = False
    """A request that says nothing is rendered with the switch on."""
    json_off: bool = False
    """Off by default where the request forces a call or a JSON answer."""
    named_off: bool = False
    """Off where the request names the function to call."""
    swap: Literal["blank", "nothing"] = "blank"
    """What may follow the end of reasoning for ``force_nonempty_content`` to make it the answer."""
    caution: str = ""
    """What to tell those who switch reasoning off."""
    passes: tuple[str, ...] = ()
    """Other variables of its templates whose names look like switches."""

    def __post_init__(self) -> None:
        _check_word("special", self.special, get_args(Answer))
        _check_word("default", self.default, get_args(Default))
        _check_word("after_tool", self.after_tool, get_args(AfterTool))
        _check_word("when_off", self.when_off, get_args(WhenOff))
        for switch in self.switches:
            _check_word("switches", switch, SWITCHES)
        if not self.strip:
            raise SpecError("strip is empty: write n/a where nothing is to be stripped")
        if self.default == "n/a" and (self.switches or self.seed not in ("n/a", HEADER)):
            raise SpecError("default='n/a' means that there is no reasoning: no switches, seed='n/a'")
        if self.default in ("on", "off") and not self.switches:
            raise SpecError(f"default={self.default!r} needs switches, or say 'always' or 'model'")

    @property
    def inside(self) -> bool:
        """Whether the output begins inside reasoning where it is on and no prompt is known."""
        return self.seed not in ("", "n/a", HEADER)

    def off_when(self) -> str:
        """When the gate fires, in words.

        >>> FACTS["seed_oss"].thinking.off_when()
        'thinking_budget=0'
        """
        if self.default == "n/a":
            return "n/a"
        if not self.switches:
            return "never"
        words = [f"{name}=false" for name in self.switches if name in BOOLEANS]
        words += [f"thinking_mode={word}" for word, on in self.modes if on is False]
        if "reasoning_effort" in self.switches and self.default != "always":
            words += [f"{self.effort_name}={word}" for word in self.effort_off]
        if "thinking_budget" in self.switches:
            words.append("thinking_budget=0")
        if self.default == "off":
            words.append("nothing said")
        return ", ".join(words) or "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """A row of the truth table: what a request must know about a family.

    No cell has a default: what does not apply is ``n/a``.
    """

    calls_special: Answer
    """Whether the markers of calls are special tokens, where no tokenizer can be asked."""
    answers_special: Answer
    """Whether even a plain answer comes in special tokens and words between them."""
    required: tuple[Mode, ...]
    """How ``tool_choice=required`` is enforced, best first: the dialect's own grammar,
    guided JSON; ``none``: not at all."""
    named: tuple[Mode, ...]
    """The same for a named function."""
    eos: tuple[str, ...]
    """What ends a turn: tokens, or ``model`` where only the generation config knows."""
    prompts: tuple[str, ...]
    """What its templates end a prompt with, before any seed; ``any``: too many to tell."""
    thinking: Thinking
    """Reasoning."""

    def __post_init__(self) -> None:
        _check_word("calls_special", self.calls_special, get_args(Answer))
        _check_word("answers_special", self.answers_special, get_args(Answer))
        for name, cell in (("required", self.required), ("named", self.named)):
            for mode in cell:
                _check_word(name, mode, get_args(Mode))
        for name, words in (
            ("required", self.required),
            ("named", self.named),
            ("eos", self.eos),
            ("prompts", self.prompts),
        ):
            if isinstance(words, str) or not words or not all(words):
                raise SpecError(f"{name}={words!r}: a tuple of at least one word; there are no empty cells")
        if not isinstance(self.thinking, Thinking):
            raise SpecError(f"thinking must be a Thinking value, got {type(self.thinking).__name__}")


def _check_word(cell: str, word: str, allowed: tuple[str, ...]) -> None:
    if word not in allowed:
        raise SpecError(f"{cell}={word!r}: choose one of {', '.join(allowed)}")


# -- reasoning, by habit

NO_REASONING: Final = Thinking(
    special="n/a", default="n/a", switches=(), seed="n/a", after_tool="n/a", when_off="n/a", strip="n/a"
)
UNSWITCHED: Final = Thinking(
    special="no", default="model", switches=(), seed="", after_tool="same", when_off="n/a", strip="n/a"
)
"""Read where it comes; nothing turns it on or off."""
HYBRID: Final = Thinking(
    special="no",
    default="on",
    switches=("enable_thinking", "thinking"),
    seed="",
    after_tool="same",
    when_off="text",
    strip="n/a",
)
"""On unless the request says no; the model opens it."""
SEEDED: Final = replace(HYBRID, seed="<think>\n")
"""On unless the request says no; the template opens it."""
ALWAYS: Final = Thinking(
    special="no",
    default="always",
    switches=(),
    seed="<think>\n",
    after_tool="same",
    when_off="n/a",
    strip="n/a",
)
FRAMED: Final = replace(UNSWITCHED, special="yes", default="always", seed=HEADER)

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
