"""JSON without markers of its own: it counts where it begins the answer, or in a known wrapper."""

from dataclasses import replace

from .._core.words.dialect import Dialect
from ._shared import LLAMA_STOPS

LLAMA3_JSON = Dialect(
    name="llama3_json",
    models="Llama 3.1 to 3.3",
    aliases=("llama3", "llama"),
    section=("^{calls}", "<|python_tag|>{calls}"),
    call=("{envelope}", "<|python_tag|>{name}.call{args:python}"),
    sep=("; ", ","),
    args_keys=("parameters", "arguments"),
    reasoning=(),
    drop=("<|python_tag|>",),
    stop=LLAMA_STOPS,
)

LLAMA4_JSON = replace(
    LLAMA3_JSON,
    name="llama4_json",
    models="Llama 4 with the JSON template",
    aliases=(),
    section=("^{calls}", "<|python_start|>{calls}<|python_end|>", "<|python_tag|>{calls}"),
    call=("{envelope}",),
    fingerprint=("<|header_start|>",),
)

GRANITE = Dialect(
    name="granite",
    models="Granite 3.x",
    reasoning_aliases=("granite",),
    section=(
        "<|tool_call|>[{calls}]",
        "<tool_call>[{calls}]",
        "<|tool_call|>{calls}",
        "<tool_call>{calls}",
        "^[{calls}]",
    ),
    call=("{envelope}",),
    sep=(", ",),
    reasoning=(
        "^Here is my thought process:{text}Here is my response:",
        "^Here's my thought process:{text}Here's my response:",
        "<think>{text}</think>",
    ),
    content=("<response>\n{text}\n</response>",),
    stop=("<|end_of_text|>",),
    fingerprint=("followed by a JSON list of tools",),
)

PHI4MINI = Dialect(
    name="phi4mini",
    models="Phi-4-mini",
    aliases=("phi4_mini_json", "phi4"),
    section=("functools[{calls}]", "functools{calls}", "<|tool_call|>[{calls}]<|/tool_call|>"),
    call=("{envelope}",),
    sep=(", ",),
    stop=("<|end|>", "<|endoftext|>"),
)

FIREFUNCTION = replace(
    PHI4MINI,
    name="firefunction",
    models="firefunction v1 and v2",
    aliases=(),
    section=(" functools[{calls}]", "functools[{calls}]", "functools{calls}"),
    reasoning=(),
    stop=LLAMA_STOPS,
    fingerprint=("<|start_header_id|>",),
)

XLAM = Dialect(
    name="xlam",
    models="xLAM",
    section=(
        "^[{calls}]",
        "<tool_call>[{calls}]</tool_call>",
        "[TOOL_CALLS][{calls}]",
        "```json\n[{calls}]\n```",
        "```\n[{calls}]\n```",
    ),
    call=("{envelope}",),
    sep=(", ",),
    stop=LLAMA_STOPS,
    fingerprint=("tool_call_name",),
)

GENERIC_JSON = Dialect(
    name="generic_json",
    models="guided output, unknown models",
    aliases=("json", "default"),
    section=("^[{calls}]", "^{calls}", "```json\n[{calls}]\n```", "```json\n{calls}\n```"),
    call=("{envelope}",),
    sep=(", ", ";"),
    name_keys=("name", "function"),
    stop=LLAMA_STOPS,
)
