"""Calls in a notation that is neither JSON nor tags: Python's, and Gemma's."""

from dataclasses import replace

from .._core.words.dialect import Dialect
from ._shared import CHATML_STOPS, LLAMA_STOPS

PYTHONIC = Dialect(
    name="pythonic",
    models="Llama 4, Llama 3.2, ToolACE, Olmo 3",
    aliases=("llama4_pythonic", "olmo3", "olmo3_think"),
    reasoning_aliases=("olmo3",),
    section=(
        "^[{calls}]",
        "?[{calls}]",
        "^<|python_start|>[{calls}]<|python_end|>",
        "<function_calls>\n[{calls}]\n</function_calls>",
        "<function_calls>\n{calls}\n</function_calls>",
        "```tool_code\n[{calls}]\n```",
        "```tool_code\n{calls}\n```",
        "```tool_code\nprint([{calls}])\n```",
        "```tool_code\nprint({calls})\n```",
    ),
    call=("{name}{args}",),
    sep=(", ",),
    args="python",
    stop=LLAMA_STOPS,
)

WATT = replace(
    PYTHONIC,
    name="watt",
    models="Watt-tool",
    aliases=(),
    reasoning_aliases=(),
    section=("^[{calls}]",),
    call=("{name}{args}", "{envelope}"),
    reasoning=(),
    fingerprint=("watt-tool",),  # no template is known: by this it loses to pythonic
)

LFM2 = Dialect(
    name="lfm2",
    models="LFM2, LFM2.5",
    aliases=("lfm2_thinking", "lfm2.5"),
    section=("<|tool_call_start|>[{calls}]<|tool_call_end|>", "<|tool_call_start|>{calls}<|tool_call_end|>"),
    call=("{name}{args}", "{envelope}"),
    sep=(", ",),
    args="loose",
    stop=CHATML_STOPS,
    fingerprint=("<|tool_list_start|>", "List of tools: ["),
)

SARASHINA = Dialect(
    name="sarashina",
    models="Sarashina",
    section=("<|tool_calls|>[{calls}]", "<|tool_calls|>{calls}", "^[{calls}]"),
    call=("{envelope:python}",),
    sep=(", ",),
    reasoning=(),
    drop=("<|tool_calls|>",),
    stop=("</s>",),
)

MINICPM = Dialect(
    name="minicpm",
    models="MiniCPM 3 and 4",
    section=(
        "<|tool_call_start|>\n```python\n{calls}\n```\n<|tool_call_end|>",
        "<|tool_call_start|>[{calls}]<|tool_call_end|>",
        "<|tool_call_start|>{calls}<|tool_call_end|>",
    ),
    call=("{name}{args:python}", "{envelope}"),
    sep=("\n", ","),
    reasoning=("<|thought_start|>{text}<|thought_end|>",),
    stop=CHATML_STOPS,
)

GEMMA4 = Dialect(
    name="gemma4",
    models="Gemma 4",
    aliases=("gemma_4", "gemma4_no_thinking"),
    reasoning_aliases=("gemma4",),
    section=("<|tool_call>{calls}<tool_call|>",),
    section_per_call=True,
    call=("call:{name}{args}", ":{name}{args}"),
    sep=("",),
    args="bare",
    quote='<|"|>',
    reasoning=("<|channel>thought\n{text}\n<channel|>", "<|channel>{text}<channel|>"),
    stop=("<turn|>", "<|tool_response>", "<eos>"),
)

FUNCTIONGEMMA = Dialect(
    name="functiongemma",
    models="FunctionGemma",
    aliases=("function_gemma",),
    call=("<start_function_call>call:{name}{args}<end_function_call>",),
    sep=("",),
    args="bare",
    quote="<escape>",
    reasoning=(),
    stop=("<end_of_turn>", "<start_function_response>", "<eos>"),
    keep_blanks=True,
)
