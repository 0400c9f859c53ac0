"""Tables of the engines' own parsers: the parser for each dialect, and the parsers' known defects.

The names of the parsers are the names under which the releases in ``VERSIONS`` register them.  Every entry
was tested: unspool rendered two calls, and the engine's own parser had to parse them correctly.  llama.cpp
has no named parsers; it builds a grammar from the chat template.  So calls that the template rendered were
checked against that grammar.

``tests/models/test_engine_parsers.py`` repeats these tests if the engines are installed.
``lab/coming_from.py`` counts the defects on malformed outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

EngineName: TypeAlias = Literal["vllm", "sglang", "llama.cpp"]
LlamaCppSupport: TypeAlias = Literal["reads", "untried", "none"]
"""Support for a dialect's calls in llama.cpp.

``reads`` means that llama.cpp parses the calls, and ``none`` that it does not.  ``untried`` means that no
chat template was available for a test.
"""
ReadingResult: TypeAlias = Literal["fine", "wrong", "nothing"]
"""Result of parsing calls: ``fine`` (all calls correct), ``wrong`` (some calls wrong) or ``nothing`` (no
calls found)."""

VERSIONS: Final[Mapping[EngineName, str]] = {
    "vllm": "0.32.0",
    "sglang": "0.5.23",
    "llama.cpp": "xllamacpp 2026.10.11549",
}
"""The engine releases that these tables describe."""


class EngineParsers(NamedTuple):
    """Names of the engines' parsers for a dialect; a name is empty if the engine has no such parser."""

    vllm: str
    """vLLM's tool parser."""
    vllm_reasoning: str
    """vLLM's reasoning parser."""
    sglang: str
    """SGLang's tool parser."""
    sglang_reasoning: str
    """SGLang's reasoning parser."""
    llama_cpp: LlamaCppSupport
    """Support in llama.cpp, which has no named parsers."""


def _row(
    vllm: str | None,
    vllm_reasoning: str | None,
    sglang: str | None,
    sglang_reasoning: str | None,
    llama_cpp: LlamaCppSupport,
) -> EngineParsers:
    return EngineParsers(vllm or "", vllm_reasoning or "", sglang or "", sglang_reasoning or "", llama_cpp)


PARSERS: Final[Mapping[str, EngineParsers]] = {
    # Columns: vLLM's tool and reasoning parsers, SGLang's tool and reasoning parsers, support in llama.cpp.
    #
    # Calls as JSON between markers.
    "hermes": _row("hermes", "qwen3", "qwen", "qwen3", "reads"),
    "trinity": _row("hermes", "deepseek_r1", "trinity", "deepseek-r1", "untried"),
    "granite4": _row("granite4", None, "hermes", None, "reads"),
    "ernie45": _row("ernie45", "ernie45", "qwen", None, "untried"),
    "longcat": _row("longcat", None, None, None, "untried"),
    "k2_horizon": _row("k2_horizon", "k2_horizon", "k2_horizon", "k2_horizon", "untried"),
    "mistral": _row("mistral", "mistral", "mistral", "mistral", "reads"),
    "mistral_v11": _row("mistral", "mistral", "mistral", "mistral", "reads"),
    "mistral_v3": _row("mistral", "mistral", "mistral", "mistral", "reads"),
    "internlm2": _row("internlm", "qwen3", "interns1", "interns1", "untried"),
    "jamba": _row("jamba", None, None, None, "untried"),
    "hunyuan_a13b": _row("hunyuan_a13b", "hunyuan_a13b", None, None, "untried"),
    "apriel": _row("jamba", None, None, None, "reads"),
    "nemotron_json": _row(None, "deepseek_r1", None, "deepseek-r1", "reads"),
    "minimax_m1": _row(None, "deepseek_r1", None, "deepseek-r1", "reads"),
    "apertus": _row("apertus", None, "apertus2509", "apertus2509", "reads"),
    "granite_20b_fc": _row("granite-20b-fc", None, None, None, "untried"),
    "gigachat3": _row("gigachat3", None, "gigachat3", None, "reads"),
    "cohere": _row("cohere_command4", "cohere_command4", "cohere_command4", "cohere_command4", "untried"),
    "command_r": _row(None, None, None, None, "reads"),
    "functionary": _row(None, None, None, None, "reads"),
    # Calls as JSON without markers.
    "llama3_json": _row("llama3_json", None, "llama3", None, "reads"),
    "llama4_json": _row("llama4_json", None, "llama3", None, "untried"),
    "granite": _row("granite", "granite", None, None, "none"),
    "phi4mini": _row("phi4_mini_json", None, None, None, "untried"),
    "firefunction": _row("phi4_mini_json", None, None, None, "reads"),
    "xlam": _row("xlam", None, None, None, "untried"),
    "generic_json": _row(None, None, None, None, "untried"),
    # Calls in Python's notation, and other notations.
    "pythonic": _row("pythonic", None, "pythonic", None, "none"),
    "watt": _row("pythonic", None, "pythonic", None, "none"),
    "lfm2": _row("lfm2", "qwen3", "lfm2", "qwen3", "reads"),
    "sarashina": _row(None, None, None, None, "untried"),
    "minicpm": _row(None, None, None, None, "untried"),
    "gemma4": _row("gemma4", "gemma4", "gemma4", "gemma4", "reads"),
    "functiongemma": _row("functiongemma", None, None, None, "untried"),
    # Calls as tags.
    "qwen3_coder": _row("qwen3_coder", "qwen3", "qwen3_coder", "qwen3", "reads"),
    "nemotron_v3": _row("qwen3_coder", "nemotron_v3", "qwen3_coder", "nemotron_3", "untried"),
    "granite42": _row(
        "qwen3_coder", "granite_thinking_parser", "qwen3_coder", "granite_thinking_parser", "untried"
    ),
    "step3p5": _row("step3p5", "step3p5", "step3p5", "step3p5", "reads"),
    "mimo": _row("mimo", "qwen3", "mimo", "mimo", "untried"),
    "minicpmv": _row("qwen3_coder", "minicpmv", "qwen3_coder", "qwen3", "untried"),
    "seed_oss": _row("seed_oss", "seed_oss", None, None, "reads"),
    "glm45": _row("glm45", "glm45", "glm", "glm45", "reads"),
    "glm47": _row("glm47", "glm47", "glm47", "glm45", "untried"),
    "ling3": _row("ling3", "ling3", "ling3", "ling3", "untried"),
    "poolside_v1": _row("poolside_v1", "poolside_v1", "poolside_v1", "poolside_v1", "reads"),
    "spark25": _row("glm47", "qwen3", "spark25", "qwen3", "untried"),
    "iquest_q1": _row(None, None, "iquest_q1", "iquest_q1", "untried"),
    "hy_v3": _row("hy_v3", "hy_v3", "hunyuan", "hunyuan", "untried"),
    "hy_v3:opensource": _row("hy_v3", "hy_v3", "hunyuan", "hunyuan", "reads"),
    "hy_v4": _row("hy_v4", "hy_v4", "hunyuan", "hunyuan", "untried"),
    "hy_v4:opensource": _row("hy_v4", "hy_v4", "hunyuan", "hunyuan", "untried"),
    "hy_v4:6124c78e": _row("hy_v4", "hy_v4", "hunyuan", "hunyuan", "untried"),
    "minimax_m2": _row("minimax_m2", "minimax_m2", "minimax-m2", "minimax", "reads"),
    "minimax_m3": _row("minimax_m3", "minimax_m3", "minimax-m3", "minimax-m3", "reads"),
    "dots": _row("dots", "qwen3", "dots", "dots", "untried"),
    "minicpm5": _row("minicpm5", "qwen3", "minicpm5", "qwen3", "reads"),
    "step3": _row("step3", "step3", "step3", "step3", "untried"),
    "deepseek_v3_2": _row("deepseek_v32", "deepseek_v3", "deepseekv32", "deepseek-v3", "reads"),
    "deepseek_v4": _row("deepseek_v4", "deepseek_v4", "deepseekv4", "deepseek-v4", "reads"),
    "deepseek_v41": _row("deepseek_v41", "deepseek_v41", "deepseekv41", "deepseek-v41", "untried"),
    "gigachat35": _row(None, None, "gigachat35", "gigachat35", "untried"),
    "cohere_cofl": _row(None, None, None, None, "untried"),
    # Calls between special tokens.
    "deepseek_v3": _row("deepseek_v3", "deepseek_r1", "deepseekv3", "deepseek-r1", "reads"),
    "deepseek_v3_1": _row("deepseek_v31", "deepseek_v3", "deepseekv31", "deepseek-v3", "reads"),
    "kimi_k2": _row("kimi_k2", "kimi_k2", "kimi_k2", "kimi_k2", "reads"),
    "kimi_k3": _row("kimi_k3", "kimi_k3", "kimi_k3", "kimi_k3", "reads"),
    "solar_open": _row(None, None, None, None, "untried"),
    "inkling": _row("inkling", "inkling", "inkling", "inkling", "untried"),
    "plamo3": _row("plamo3", "plamo3", None, None, "untried"),
    # Messages with headers.
    "harmony": _row("openai", "openai_gptoss", "gpt-oss", "gpt-oss", "reads"),
    "harmony_stripped": _row(None, None, None, None, "none"),
    "beam": _row(None, None, "beam", "beam", "untried"),
    "muse_glimmer": _row("muse_glimmer", "muse_glimmer", "muse", "muse", "reads"),
    "functionary_v32": _row(None, None, None, None, "reads"),
    # No calls.
    "kimi": _row(None, None, None, "kimi", "untried"),
    "passthrough": _row(None, None, None, None, "untried"),
    "minimax_append_think": _row(None, "minimax_m2_append_think", None, "minimax-append-think", "untried"),
    # Declared by the tokenizer.
    "response_template": _row("hf", "hf", "response_template", "response_template", "untried"),
}
"""The parsers for each built-in dialect."""

_NO_PARSERS: Final = _row(None, None, None, None, "untried")


class _Variant(NamedTuple):
    """Checkpoints that share a dialect with other models, but need different parsers in an engine."""

    dialect: str
    marker: str
    """Text in the chat templates of these checkpoints."""
    parsers: EngineParsers


_VARIANTS: Final = (
    _Variant("cohere", "<|START_TEXT|>", PARSERS["cohere"]),
    _Variant(
        "cohere",
        "<|START_RESPONSE|>",
        _row("cohere_command3", "cohere_command3", "cohere_command4", "cohere_command4", "reads"),
    ),
    _Variant("pythonic", "<|header_start|>", _row("llama4_pythonic", None, "pythonic", None, "none")),
    _Variant("pythonic", "<function_calls>", _row("olmo3", "olmo3", None, None, "none")),
)


class Caveat(NamedTuple):
    """Error that an engine's parser makes even on well-formed output of its own model family."""

    engine: EngineName
    parser: str
    """The name of the parser; empty for llama.cpp, which has no named parsers."""
    text: str
    dialect: str = ""
    """The only affected dialect; empty if the error affects all dialects of the parser."""
    marker: str = ""
    """Text that identifies the affected chat templates; empty if all templates are affected."""
    reasoning: bool = False
    """True if the error affects only models with reasoning."""


_ONE_CALL: Final = "It finds no call in an answer that has two"
_MENTION: Final = "An answer that mentions <tool_call> in its text ends there (streamed)"
_MELODY: Final = "It needs a package that vLLM does not install: pip install 'cohere-melody>=0.14.0'"
_NO_ARGUMENTS: Final = "Empty arguments ({}) become an empty string"
_REQUEST: Final = "It separates reasoning only in requests that switch reasoning on"

CAVEATS: Final = (
    Caveat("vllm", "cohere_command3", _MELODY),
    Caveat("vllm", "cohere_command4", _MELODY),
    Caveat("vllm", "cohere_command3", _NO_ARGUMENTS),
    Caveat("vllm", "cohere_command4", _NO_ARGUMENTS),
    Caveat("vllm", "hermes", _MENTION),
    Caveat("vllm", "hermes", "One broken call turns all calls of the answer into text (not streamed)"),
    Caveat("vllm", "phi4_mini_json", "It finds no call (streamed)"),
    Caveat("vllm", "internlm", "It fails on an answer with two calls"),
    Caveat("vllm", "gigachat3", _ONE_CALL),
    Caveat("vllm", "functiongemma", "It drops arguments that are not strings, numbers for example"),
    Caveat(
        "vllm", "ernie45", "With the reasoning parser on, it finds no call after <response>", reasoning=True
    ),
    Caveat(
        "vllm",
        "hunyuan_a13b",
        "With the reasoning parser on, it finds no call after <answer>",
        reasoning=True,
    ),
    Caveat("vllm", "granite", "Its reasoning parser leaves <response> in the content", reasoning=True),
    Caveat("vllm", "minicpm5", "It drops the text before a call"),
    Caveat("vllm", "phi4_mini_json", "It drops the text before a call"),
    Caveat("vllm", "pythonic", "It finds no call after text"),
    Caveat("vllm", "llama4_pythonic", "It finds no call after text"),
    Caveat("vllm", "deepseek_v31", _REQUEST, reasoning=True),
    Caveat("vllm", "deepseek_v32", _REQUEST, reasoning=True),
    Caveat("vllm", "hy_v3", _REQUEST, reasoning=True),
    Caveat("vllm", "poolside_v1", _REQUEST, reasoning=True),
    Caveat("sglang", "qwen", _MENTION),
    Caveat("sglang", "gpt-oss", "Text before a call is sent twice (streamed)"),
    Caveat("sglang", "gigachat3", _ONE_CALL),
    Caveat(
        "sglang",
        "interns1",
        "It needs the space that detokenizers put between <|action_start|> and <|plugin|>, so keep "
        "spaces_between_special_tokens=true",
    ),
    Caveat(
        "sglang",
        "mistral",
        "It finds no call if [TOOL_CALLS] is not followed by a space",
        dialect="mistral_v3",
    ),
    Caveat(
        "sglang",
        "cohere_command4",
        "It expects <|START_TEXT|>, so an answer in <|START_RESPONSE|> is lost or keeps its markers",
        marker="<|START_RESPONSE|>",
    ),
    Caveat(
        "llama.cpp",
        "",
        "The grammar that it derives from this template requires [ARGS] twice, so it reads no call",
        dialect="mistral_v11",
        marker="[CALL_ID]",
    ),
)


class Defect(NamedTuple):
    """Error in an engine's own parsers that changes or loses a tool call.

    ``lab/coming_from.py`` counts these errors, and fails if the table ``DEFECTS`` is out of date.
    """

    engine: EngineName
    topic: str
    """The topic of the test outputs on which the parser made the error."""
    outcomes: tuple[str, ...]
    """The outcomes that count as this error, by their names in ``lab/coming_from.py``."""
    text: str
    """The description for users."""
    whole: frozenset[str]
    """Dialects whose non-streamed answers show this defect."""
    streamed: frozenset[str]
    """Dialects whose streamed answers show this defect."""

    def where(self, dialect: str) -> str:
        """Return ``always``, ``streamed`` or ``not streamed`` for a dialect; empty if it is not affected."""
        occurs = (dialect in self.streamed, dialect in self.whole)
        return {(True, True): "always", (True, False): "streamed", (False, True): "not streamed"}.get(
            occurs, ""
        )


def _defect(engine: EngineName, topic: str, outcomes: str, text: str, *, whole: str, streamed: str) -> Defect:
    return Defect(
        engine,
        topic,
        tuple(outcomes.split(" | ")),
        text,
        frozenset(whole.split()),
        frozenset(streamed.split()),
    )


DEFECTS: Final = (
    _defect(
        "vllm",
        "a call truncated by the length limit",
        "a complete call",
        "A call that the length limit cuts off looks complete",
        whole=(
            "apertus deepseek_v3_2 deepseek_v4 deepseek_v41 functiongemma gemma4 glm45 glm47 "
            "granite42 hy_v3 hy_v3:opensource ling3 minicpmv minimax_m2 minimax_m3 nemotron_v3 "
            "qwen3_coder seed_oss step3p5"
        ),
        streamed="gemma4 internlm2 jamba minimax_m3 poolside_v1",
    ),
    _defect(
        "vllm",
        "a closing tag inside a value",
        "ends the value | no value",
        "A value ends at a closing tag inside it, and the rest of the value is lost",
        whole=(
            "deepseek_v3_2 deepseek_v4 deepseek_v41 dots glm45 glm47 granite42 hy_v3 "
            "hy_v3:opensource hy_v4 hy_v4:6124c78e hy_v4:opensource k2_horizon ling3 minicpm5 "
            "minicpmv minimax_m2 muse_glimmer nemotron_v3 poolside_v1 qwen3_coder seed_oss step3 "
            "step3p5"
        ),
        streamed=(
            "deepseek_v3_2 deepseek_v4 deepseek_v41 dots glm45 glm47 granite42 hy_v3 "
            "hy_v3:opensource hy_v4 hy_v4:6124c78e hy_v4:opensource k2_horizon ling3 minicpm5 "
            "minicpmv minimax_m2 muse_glimmer nemotron_v3 poolside_v1 qwen3_coder seed_oss step3 "
            "step3p5"
        ),
    ),
    _defect(
        "vllm",
        "text after a call",
        "broken arguments",
        "Text after a call breaks the arguments of the call",
        whole="functiongemma",
        streamed="functiongemma gigachat3 jamba llama3_json llama4_json mistral mistral_v11",
    ),
    _defect(
        "vllm",
        "text after a call",
        "no call",
        "A call with text after it is not found",
        whole="ernie45 gigachat3 pythonic xlam",
        streamed="phi4mini",
    ),
    _defect(
        "sglang",
        "a call truncated by the length limit",
        "a complete call",
        "A call that the length limit cuts off looks complete",
        whole="granite42 nemotron_v3 qwen3_coder step3p5",
        streamed="hermes llama3_json minimax_m2 step3 trinity",
    ),
    _defect(
        "sglang",
        "a call with broken JSON",
        "a call with other arguments",
        "A call with broken JSON becomes a call with other arguments",
        whole="",
        streamed="hermes llama3_json trinity",
    ),
    _defect(
        "sglang",
        "a closing tag inside a value",
        "ends the value | no value",
        "A value ends at a closing tag inside it, and the rest of the value is lost",
        whole=(
            "deepseek_v3_2 deepseek_v4 deepseek_v41 dots gigachat35 glm45 glm47 granite42 hy_v3 "
            "hy_v3:opensource hy_v4 hy_v4:6124c78e hy_v4:opensource iquest_q1 k2_horizon ling3 "
            "minicpm5 minimax_m2 muse_glimmer nemotron_v3 poolside_v1 qwen3_coder spark25 step3 "
            "step3p5"
        ),
        streamed=(
            "deepseek_v3_2 deepseek_v4 deepseek_v41 dots gigachat35 glm45 glm47 granite42 hy_v3 "
            "hy_v3:opensource hy_v4 hy_v4:6124c78e hy_v4:opensource iquest_q1 k2_horizon ling3 "
            "minicpm5 minimax_m2 muse_glimmer nemotron_v3 poolside_v1 qwen3_coder spark25 step3 "
            "step3p5"
        ),
    ),
    _defect(
        "sglang",
        "text after a call",
        "broken arguments",
        "Text after a call breaks the arguments of the call",
        whole="",
        streamed="gigachat3",
    ),
    _defect(
        "sglang",
        "text after a call",
        "no call",
        "A call with text after it is not found",
        whole="gigachat3 mistral_v3",
        streamed="mistral_v3",
    ),
    _defect(
        "sglang",
        "a call with broken JSON",
        "deltas that violate the API",
        "A call with broken JSON produces deltas that violate the API",
        whole="",
        streamed="internlm2",
    ),
    _defect(
        "sglang",
        "an undeclared tool",
        "deltas that violate the API",
        "A call of an undeclared tool produces deltas that violate the API",
        whole="",
        streamed="gemma4 internlm2",
    ),
)
"""The known defects; the most serious ones come first."""


COMMON_PARSERS: Final = (
    "hermes",
    "qwen3_coder",
    "llama3_json",
    "mistral",
    "pythonic",
    "deepseek_v3",
    "deepseek_v31",
    "glm45",
    "kimi_k2",
)
"""The vLLM parsers that users most often choose for a model of another family."""

DIFFERS: Final[Mapping[tuple[str, str], ReadingResult]] = {
    ("deepseek_v3", "deepseek_v31"): "nothing",
    ("functionary", "qwen3_coder"): "wrong",
    ("lfm2", "pythonic"): "nothing",
}
"""Results of vLLM parsers on the output of other dialects, keyed by dialect and parser.

A result is listed only if it differs from that of unspool's dialect with the parser's name.
"""

ASSUME_OPEN: Final[Mapping[EngineName, frozenset[str]]] = {
    "vllm": frozenset(
        (
            *(
                "cohere_command4",
                "deepseek_r1",
                "deepseek_v4",
                "deepseek_v41",
                "ernie45",
                "glm45",
                "glm47",
                "holo2",
            ),
            *(
                "hy_v4",
                "granite_thinking_parser",
                "kimi_k2",
                "kimi_k3",
                "ling3",
                "mimo",
                "minicpmv",
                "minimax_m2",
            ),
            *("nemotron_v3", "plamo3", "qwen3", "seed_oss", "step3", "step3p5"),
        )
    ),
    "sglang": frozenset(
        (
            *(
                "cohere_command4",
                "deepseek-r1",
                "gigachat35",
                "iquest_q1",
                "k2_horizon",
                "kimi_k3",
                "minimax",
            ),
            *("qwen3-thinking", "step3", "step3p5"),
        )
    ),
}
"""Reasoning parsers that treat an answer without markers as reasoning, unless the request says otherwise."""


def parsers_for(dialect: str, template: str = "") -> EngineParsers:
    """Return the engines' parsers for a dialect or a combination such as ``hermes+deepseek_r1``.

    :param template: the chat template, which identifies checkpoints that have separate parsers.
    """
    calls, _, reasoning = dialect.partition("+")
    row = PARSERS.get(calls, _NO_PARSERS)
    for variant in _VARIANTS:
        if variant.dialect == calls and variant.marker in template:
            row = variant.parsers
            break
    if reasoning:
        second = PARSERS.get(reasoning, _NO_PARSERS)
        row = row._replace(vllm_reasoning=second.vllm_reasoning, sglang_reasoning=second.sglang_reasoning)
    return row
