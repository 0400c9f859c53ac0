"""What engines have for each dialect: the names of their parsers, and where those fall short.

Names are those of the registries of the releases in ``VERSIONS``.  What a
parser reads was tried: ``render`` wrote two calls, the engine's own parser read
them.  For llama.cpp, whose parser follows from the template, the grammar that
it builds was held against the call that the family's template writes.
``tests/models/test_engine_parsers.py`` does this again where the engines are installed;
what parsers make of outputs that are not plain, ``tools/coming_from.py`` counts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

EngineName: TypeAlias = Literal["vllm", "sglang", "llama.cpp"]
LlamaCpp: TypeAlias = Literal["reads", "untried", "none"]
Verdict: TypeAlias = Literal["fine", "wrong", "nothing"]
"""What a parser makes of calls."""

VERSIONS: Final[Mapping[EngineName, str]] = {
    "vllm": "0.32.0",
    "sglang": "0.5.23",
    "llama.cpp": "xllamacpp 2026.10.11549",
}
"""The releases that all of this was taken from."""


class EngineParsers(NamedTuple):
    """The parsers that read a dialect; empty: the engine has none."""

    vllm: str
    vllm_reasoning: str
    sglang: str
    sglang_reasoning: str
    llama_cpp: LlamaCpp
    """``reads``: with a template of this family; ``untried``: there was no template to try."""


def _row(text: str, llama_cpp: LlamaCpp) -> EngineParsers:
    """Four names, ``-`` for none."""
    vllm, vllm_reasoning, sglang, sglang_reasoning = ("" if name == "-" else name for name in text.split())
    return EngineParsers(vllm, vllm_reasoning, sglang, sglang_reasoning, llama_cpp)


_NO_PARSER: Final = "- - - -"

PARSERS: Final[Mapping[str, EngineParsers]] = {
    # dialect: vLLM's calls and reasoning, SGLang's calls and reasoning; llama.cpp
    # JSON in tags.
    "hermes": _row("hermes qwen3 qwen qwen3", "reads"),
    "trinity": _row("hermes deepseek_r1 trinity deepseek-r1", "untried"),
    "granite4": _row("granite4 - hermes -", "reads"),
    "ernie45": _row("ernie45 ernie45 qwen -", "untried"),
    "longcat": _row("longcat - - -", "untried"),
    "k2_horizon": _row("k2_horizon k2_horizon k2_horizon k2_horizon", "untried"),
    "mistral": _row("mistral mistral mistral mistral", "reads"),
    "mistral_v11": _row("mistral mistral mistral mistral", "reads"),
    "mistral_v3": _row("mistral mistral mistral mistral", "reads"),
    "internlm2": _row("internlm qwen3 interns1 interns1", "untried"),
    "jamba": _row("jamba - - -", "untried"),
    "hunyuan_a13b": _row("hunyuan_a13b hunyuan_a13b - -", "untried"),
    "apriel": _row("jamba - - -", "reads"),
    "nemotron_json": _row("- deepseek_r1 - deepseek-r1", "reads"),
    "minimax_m1": _row("- deepseek_r1 - deepseek-r1", "reads"),
    "apertus": _row("apertus - apertus2509 apertus2509", "reads"),
    "granite_20b_fc": _row("granite-20b-fc - - -", "untried"),
    "gigachat3": _row("gigachat3 - gigachat3 -", "reads"),
    "cohere": _row("cohere_command4 cohere_command4 cohere_command4 cohere_command4", "untried"),
    "command_r": _row(_NO_PARSER, "reads"),
    "functionary": _row(_NO_PARSER, "reads"),
    # JSON without markers.
    "llama3_json": _row("llama3_json - llama3 -", "reads"),
    "llama4_json": _row("llama4_json - llama3 -", "untried"),
    "granite": _row("granite granite - -", "none"),
    "phi4mini": _row("phi4_mini_json - - -", "untried"),
    "firefunction": _row("phi4_mini_json - - -", "reads"),
    "xlam": _row("xlam - - -", "untried"),
    "generic_json": _row(_NO_PARSER, "untried"),
    # Other notations.
    "pythonic": _row("pythonic - pythonic -", "none"),
    "watt": _row("pythonic - pythonic -", "none"),
    "lfm2": _row("lfm2 qwen3 lfm2 qwen3", "reads"),
    "sarashina": _row(_NO_PARSER, "untried"),
    "minicpm": _row(_NO_PARSER, "untried"),
    "gemma4": _row("gemma4 gemma4 gemma4 gemma4", "reads"),
    "functiongemma": _row("functiongemma - - -", "untried"),
    # Tags.
    "qwen3_coder": _row("qwen3_coder qwen3 qwen3_coder qwen3", "reads"),
    "nemotron_v3": _row("qwen3_coder nemotron_v3 qwen3_coder nemotron_3", "untried"),
    "granite42": _row("qwen3_coder granite_thinking_parser qwen3_coder granite_thinking_parser", "untried"),
    "step3p5": _row("step3p5 step3p5 step3p5 step3p5", "reads"),
    "mimo": _row("mimo qwen3 mimo mimo", "untried"),
    "minicpmv": _row("qwen3_coder minicpmv qwen3_coder qwen3", "untried"),
    "seed_oss": _row("seed_oss seed_oss - -", "reads"),
    "glm45": _row("glm45 glm45 glm glm45", "reads"),
    "glm47": _row("glm47 glm47 glm47 glm45", "untried"),
    "ling3": _row("ling3 ling3 ling3 ling3", "untried"),
    "poolside_v1": _row("poolside_v1 poolside_v1 poolside_v1 poolside_v1", "reads"),
    "spark25": _row("glm47 qwen3 spark25 qwen3", "untried"),
    "iquest_q1": _row("- - iquest_q1 iquest_q1", "untried"),
    "hy_v3": _row("hy_v3 hy_v3 hunyuan hunyuan", "untried"),
    "hy_v3:opensource": _row("hy_v3 hy_v3 hunyuan hunyuan", "reads"),
    "hy_v4": _row("hy_v4 hy_v4 hunyuan hunyuan", "untried"),
    "hy_v4:opensource": _row("hy_v4 hy_v4 hunyuan hunyuan", "untried"),
    "hy_v4:6124c78e": _row("hy_v4 hy_v4 hunyuan hunyuan", "untried"),
    "minimax_m2": _row("minimax_m2 minimax_m2 minimax-m2 minimax", "reads"),
    "minimax_m3": _row("minimax_m3 minimax_m3 minimax-m3 minimax-m3", "reads"),
    "dots": _row("dots qwen3 dots dots", "untried"),
    "minicpm5": _row("minicpm5 qwen3 minicpm5 qwen3", "reads"),
    "step3": _row("step3 step3 step3 step3", "untried"),
    "deepseek_v3_2": _row("deepseek_v32 deepseek_v3 deepseekv32 deepseek-v3", "reads"),
    "deepseek_v4": _row("deepseek_v4 deepseek_v4 deepseekv4 deepseek-v4", "reads"),
    "deepseek_v41": _row("deepseek_v41 deepseek_v41 deepseekv41 deepseek-v41", "untried"),
    "gigachat35": _row("- - gigachat35 gigachat35", "untried"),
    "cohere_cofl": _row(_NO_PARSER, "untried"),
    # Control tokens.
    "deepseek_v3": _row("deepseek_v3 deepseek_r1 deepseekv3 deepseek-r1", "reads"),
    "deepseek_v3_1": _row("deepseek_v31 deepseek_v3 deepseekv31 deepseek-v3", "reads"),
    "kimi_k2": _row("kimi_k2 kimi_k2 kimi_k2 kimi_k2", "reads"),
    "kimi_k3": _row("kimi_k3 kimi_k3 kimi_k3 kimi_k3", "reads"),
    "solar_open": _row(_NO_PARSER, "untried"),
    "inkling": _row("inkling inkling inkling inkling", "untried"),
    "plamo3": _row("plamo3 plamo3 - -", "untried"),
    # Messages with headers.
    "harmony": _row("openai openai_gptoss gpt-oss gpt-oss", "reads"),
    "harmony_stripped": _row(_NO_PARSER, "none"),
    "beam": _row("- - beam beam", "untried"),
    "muse_glimmer": _row("muse_glimmer muse_glimmer muse muse", "reads"),
    "functionary_v32": _row(_NO_PARSER, "reads"),
    # Without calls.
    "kimi": _row("- - - kimi", "untried"),
    "passthrough": _row(_NO_PARSER, "untried"),
    "minimax_append_think": _row("- minimax_m2_append_think - minimax-append-think", "untried"),
    # Whatever a tokenizer's response template says.
    "response_template": _row("hf hf response_template response_template", "untried"),
}
"""Each built-in dialect."""

_NEITHER: Final = _row(_NO_PARSER, "untried")


class _Variant(NamedTuple):
    """Checkpoints that share a dialect, but have a parser of their own."""

    dialect: str
    marker: str
    """What their template contains."""
    parsers: EngineParsers


_VARIANTS: Final = (
    _Variant("cohere", "<|START_TEXT|>", PARSERS["cohere"]),
    _Variant(
        "cohere",
        "<|START_RESPONSE|>",
        _row("cohere_command3 cohere_command3 cohere_command4 cohere_command4", "reads"),
    ),
    _Variant("pythonic", "<|header_start|>", _row("llama4_pythonic - pythonic -", "none")),
    _Variant("pythonic", "<function_calls>", _row("olmo3 olmo3 - -", "none")),
)


class Caveat(NamedTuple):
    """What a parser does to well-formed output of its own family; seen."""

    engine: EngineName
    parser: str
    """Empty: llama.cpp, whose parsers have no names."""
    text: str
    dialect: str = ""
    """The only dialect that it concerns."""
    marker: str = ""
    """What the template contains if it concerns it."""
    reasoning: bool = False
    """It concerns models that reason."""


_ONE_CALL: Final = "It finds no call in an answer with two"
_MENTION: Final = "An answer that only mentions <tool_call> ends there (streamed)"
_MELODY: Final = "It needs a package that vLLM does not bring: pip install 'cohere-melody>=0.14.0'"
_NO_ARGUMENTS: Final = "Arguments that are an empty object come out as an empty string"
_REQUEST: Final = "It takes reasoning out only of requests that switch it on"

CAVEATS: Final = (
    Caveat("vllm", "cohere_command3", _MELODY),
    Caveat("vllm", "cohere_command4", _MELODY),
    Caveat("vllm", "cohere_command3", _NO_ARGUMENTS),
    Caveat("vllm", "cohere_command4", _NO_ARGUMENTS),
    Caveat("vllm", "hermes", _MENTION),
    Caveat("vllm", "hermes", "A broken call between good ones makes text of all of them (not streamed)"),
    Caveat("vllm", "phi4_mini_json", "It finds no call (streamed)"),
    Caveat("vllm", "internlm", "It fails on an answer with two calls"),
    Caveat("vllm", "gigachat3", _ONE_CALL),
    Caveat("vllm", "functiongemma", "It drops arguments that are not strings, numbers for example"),
    Caveat(
        "vllm", "ernie45", "With the reasoning parser on, it finds no call behind <response>", reasoning=True
    ),
    Caveat(
        "vllm",
        "hunyuan_a13b",
        "With the reasoning parser on, it finds no call behind <answer>",
        reasoning=True,
    ),
    Caveat("vllm", "granite", "Its reasoning parser leaves <response> in the content", reasoning=True),
    Caveat("vllm", "minicpm5", "It drops the text before a call"),
    Caveat("vllm", "phi4_mini_json", "It drops the text before a call"),
    Caveat("vllm", "pythonic", "It finds no call behind text"),
    Caveat("vllm", "llama4_pythonic", "It finds no call behind text"),
    Caveat("vllm", "deepseek_v31", _REQUEST, reasoning=True),
    Caveat("vllm", "deepseek_v32", _REQUEST, reasoning=True),
    Caveat("vllm", "hy_v3", _REQUEST, reasoning=True),
    Caveat("vllm", "poolside_v1", _REQUEST, reasoning=True),
    Caveat("sglang", "qwen", _MENTION),
    Caveat("sglang", "gpt-oss", "The text before a call comes twice (streamed)"),
    Caveat("sglang", "gigachat3", _ONE_CALL),
    Caveat(
        "sglang",
        "interns1",
        "It needs the blank that detokenizers put between <|action_start|> and <|plugin|>: leave "
        "spaces_between_special_tokens at true",
    ),
    Caveat(
        "sglang",
        "mistral",
        "It finds no call where no blank follows [TOOL_CALLS]",
        dialect="mistral_v3",
    ),
    Caveat(
        "sglang",
        "cohere_command4",
        "It is made for <|START_TEXT|>: an answer in <|START_RESPONSE|> is lost, or keeps its markers",
        marker="<|START_RESPONSE|>",
    ),
    Caveat(
        "llama.cpp",
        "",
        "The grammar that it derives from this template asks for [ARGS] twice: it reads no call",
        dialect="mistral_v11",
        marker="[CALL_ID]",
    ),
)


class Defect(NamedTuple):
    """What an engine's own parsers make of an output that is another matter of right and wrong than of taste.

    Counted by ``tools/coming_from.py``, which fails where this is out of date.
    """

    engine: EngineName
    topic: str
    """Which of its outputs showed it ..."""
    outcomes: tuple[str, ...]
    """... and as what."""
    text: str
    """For people."""
    whole: frozenset[str]
    """Dialects in whose answers it shows ..."""
    streamed: frozenset[str]
    """... and in whose streams."""

    def where(self, dialect: str) -> str:
        """In which answers of a dialect it shows, in words; empty: in none."""
        shows = (dialect in self.streamed, dialect in self.whole)
        return {(True, True): "always", (True, False): "streamed", (False, True): "not streamed"}.get(
            shows, ""
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
        "A call that the length limit cut comes out as if it were whole",
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
        "A value ends at a closing tag inside it, and the rest of it is lost",
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
        "Text behind a call breaks its arguments",
        whole="functiongemma",
        streamed="functiongemma gigachat3 jamba llama3_json llama4_json mistral mistral_v11",
    ),
    _defect(
        "vllm",
        "text after a call",
        "no call",
        "A call with text behind it is not found",
        whole="ernie45 gigachat3 pythonic xlam",
        streamed="phi4mini",
    ),
    _defect(
        "sglang",
        "a call truncated by the length limit",
        "a complete call",
        "A call that the length limit cut comes out as if it were whole",
        whole="granite42 nemotron_v3 qwen3_coder step3p5",
        streamed="hermes llama3_json minimax_m2 step3 trinity",
    ),
    _defect(
        "sglang",
        "a call with broken JSON",
        "a call with other arguments",
        "A call with broken JSON comes out as a call with other arguments",
        whole="",
        streamed="hermes llama3_json trinity",
    ),
    _defect(
        "sglang",
        "a closing tag inside a value",
        "ends the value | no value",
        "A value ends at a closing tag inside it, and the rest of it is lost",
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
        "Text behind a call breaks its arguments",
        whole="",
        streamed="gigachat3",
    ),
    _defect(
        "sglang",
        "text after a call",
        "no call",
        "A call with text behind it is not found",
        whole="gigachat3 mistral_v3",
        streamed="mistral_v3",
    ),
    _defect(
        "sglang",
        "a call with broken JSON",
        "deltas that violate the API",
        "A call with broken JSON makes deltas that break the API",
        whole="",
        streamed="internlm2",
    ),
    _defect(
        "sglang",
        "an undeclared tool",
        "deltas that violate the API",
        "A call of a tool that was not declared makes deltas that break the API",
        whole="",
        streamed="gemma4 internlm2",
    ),
)
"""Those that cost a client a call, part of one, or its trust; the worst first."""


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
"""Parsers of vLLM that are taken for another's most often."""

DIFFERS: Final[Mapping[tuple[str, str], Verdict]] = {
    ("deepseek_v3", "deepseek_v31"): "nothing",
    ("functionary", "qwen3_coder"): "wrong",
    ("lfm2", "pythonic"): "nothing",
}
"""What these make of a dialect, where that is not what our dialect of their name makes of it."""

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
"""Reasoning parsers that take an answer without any marker for reasoning, if nothing else tells them."""


def parsers_for(dialect: str, template: str = "") -> EngineParsers:
    """What engines have for a dialect: ``tools+reasoning`` takes its reasoning from the second."""
    calls, _, reasoning = dialect.partition("+")
    row = PARSERS.get(calls, _NEITHER)
    for variant in _VARIANTS:
        if variant.dialect == calls and variant.marker in template:
            row = variant.parsers
            break
    if reasoning:
        other = PARSERS.get(reasoning, _NEITHER)
        row = row._replace(vllm_reasoning=other.vllm_reasoning, sglang_reasoning=other.sglang_reasoning)
    return row


# -- how to start a server


class Flags(NamedTuple):
    """How to start a server."""

    command: str
    """With the engine's own parsers."""
    notes: tuple[str, ...] = ()
    """What to know about these."""
    instead: str = ""
    """With ours, where the engine's own are known to be wrong, or it has none."""
    because: tuple[str, ...] = ()
    """What they are known to do."""


class Serving(NamedTuple):
    """What a command line depends on."""

    dialect: str
    model: str
    """The model's directory."""
    template: str
    """The chat template."""
    template_file: str
    """Its file, where an engine might take another one."""
    calls: bool
    """The dialect has calls."""
    reasons: bool
    """The template has something to do with reasoning."""
    weights: str = "MODEL.gguf"
    """The model's file for llama.cpp."""


def flags(serving: Serving) -> dict[EngineName, Flags]:
    """How to start each engine, and what to know about it."""
    parsers = parsers_for(serving.dialect, serving.template)
    model = shlex.quote(serving.model)
    vllm = [f"vllm serve {model}"]
    vllm += [f"--enable-auto-tool-choice --tool-call-parser {parsers.vllm}"] if parsers.vllm else []
    sglang = [f"sglang serve --model-path {model}"]
    sglang += [f"--tool-call-parser {parsers.sglang}"] if parsers.sglang else []
    return {
        "vllm": _serve("vllm", vllm, parsers.vllm, parsers.vllm_reasoning, serving),
        "sglang": _serve("sglang", sglang, parsers.sglang, parsers.sglang_reasoning, serving),
        "llama.cpp": _llama_cpp(parsers.llama_cpp, serving),
    }


def _serve(engine: EngineName, parts: list[str], tool: str, reasoning: str, serving: Serving) -> Flags:
    notes: list[str] = []
    alone = serving.calls and not tool
    if serving.reasons and reasoning and not alone:
        parts.append(f"--reasoning-parser {reasoning}")
    if serving.template_file:
        parts.append(f"--chat-template {shlex.quote(serving.template_file)}")
    if alone:
        notes.append(
            "It has no parser for these calls: start it so, ask /v1/completions with "
            "skip_special_tokens=false, and parse with unspool"
        )
    elif serving.reasons and not reasoning:
        notes.append("It has no parser for this reasoning: unspool takes it out of the content")
    notes += _caveats(engine, tool, serving)
    because = (*notes, *_defects(engine, serving))
    instead = _ours(engine, serving) if because else ""
    return Flags(" ".join(parts), tuple(notes), instead, because if instead else ())


def _ours(engine: EngineName, serving: Serving) -> str:
    """How to start it with our parsers inside; empty if the dialect is not one of ours."""
    calls, _, reasoning = serving.dialect.partition("+")
    if calls not in PARSERS or calls == "response_template" or not serving.calls:
        return ""
    model = shlex.quote(serving.model)
    start = (
        f"vllm serve {model} --enable-auto-tool-choice"
        if engine == "vllm"
        else f"sglang serve --model-path {model}"
    )
    parts = [start, f"--tool-call-parser unspool_{calls}"]
    if serving.reasons:
        parts.append(f"--reasoning-parser unspool_{reasoning or calls}")
    if serving.template_file:
        parts.append(f"--chat-template {shlex.quote(serving.template_file)}")
    return " ".join(parts)


def _defects(engine: EngineName, serving: Serving) -> Iterator[str]:
    dialect = serving.dialect.partition("+")[0]
    for defect in DEFECTS:
        where = defect.where(dialect)
        if defect.engine == engine and where:
            yield defect.text if where == "always" else f"{defect.text} ({where})"


def _llama_cpp(reads: LlamaCpp, serving: Serving) -> Flags:
    # --jinja comes first: before it, only templates that are built in are taken.
    parts = [f"llama-server -m {shlex.quote(serving.weights)} --jinja"]
    notes: list[str] = []
    if serving.template_file:
        parts.append(f"--chat-template-file {shlex.quote(serving.template_file)}")
    if reads == "none":
        parts.append("--skip-chat-parsing --special")
        notes.append("It does not read these calls: with these flags they come as text, for unspool to parse")
    elif reads == "untried":
        notes.append("It derives its parser from the template; for this family that was not tried")
    return Flags(" ".join(parts), (*notes, *_caveats("llama.cpp", "", serving)))


def _caveats(engine: EngineName, parser: str, serving: Serving) -> list[str]:
    calls = serving.dialect.partition("+")[0]
    return [
        caveat.text
        for caveat in CAVEATS
        if (caveat.engine, caveat.parser) == (engine, parser)
        and caveat.dialect in ("", calls)
        and caveat.marker in serving.template
        and (serving.reasons or not caveat.reasoning)
    ]
