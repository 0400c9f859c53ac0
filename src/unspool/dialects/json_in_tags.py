"""A JSON object that holds name and arguments, between markers."""

from .._dialect import Dialect
from .._ids import NINE_ALPHANUMERICS

CHATML_STOPS = ("<|im_end|>", "<|endoftext|>")

HERMES = Dialect(
    name="hermes",
    models="Hermes 2 Pro to 4, Qwen2.5, QwQ, Qwen3, EXAONE 4, SmolLM3",
    aliases=(
        "qwen3_json", "qwen25", "qwen", "json_tools",
        "qwen3_vl_instruct", "qwen3_vl_thinking",
    ),
    reasoning_aliases=("qwen3", "qwen3_thinking", "holo2"),
    section=("\n{calls}", "<tool_call>[{calls}]</tool_call>"),
    call=("<tool_call>\n{envelope}\n</tool_call>", "{envelope}"),
    sep=("\n", ","),
    stop=(*CHATML_STOPS, "<sep>"),
)  # fmt: skip
# <scratch_pad> of the goal-oriented Hermes prompt is ordinary content.

MISTRAL = Dialect(
    name="mistral",
    models="Mistral, Magistral, Ministral, Devstral; any tokenizer version",
    aliases=("ministral",),
    reasoning_aliases=("mistral",),
    section=("{calls}", "[TOOL_CALLS][{calls}]"),
    call=(
        "[TOOL_CALLS]{name}[ARGS]{args}",
        "[TOOL_CALLS]{name}[CALL_ID]{id}[ARGS]{args}",
        "[TOOL_CALLS]{name}{args}",
        "[TOOL_CALLS]{name}[ARGS]",
        "[TOOL_CALLS]{name}",
        "[TOOL_CALLS]{envelope}",
        "{envelope}",
    ),
    sep=("", ","),
    reasoning=("[THINK]{text}[/THINK]", "<think>{text}</think>"),
    stop=("</s>", "[/TOOL_CALLS]"),
    id_format=NINE_ALPHANUMERICS,
    keep_blanks=True,
)
