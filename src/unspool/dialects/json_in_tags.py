"""A JSON object that holds name and arguments, or an array of them, between markers.

``one_per_tag`` and ``array_in_tags`` are the two shapes; the families differ in
their markers, in the furniture of the turn and in how they reason.
"""

from dataclasses import replace

from .._core.values.ids import NINE_ALPHANUMERICS, IdFormat
from .._core.words.dialect import Dialect
from ._shared import CHATML_STOPS, LLAMA_STOPS


def one_per_tag(opener: str, closer: str) -> tuple[str, ...]:
    """Call templates: one object between markers."""
    return (f"{opener}\n{{envelope}}\n{closer}",)


def array_in_tags(opener: str, closer: str) -> tuple[str, ...]:
    """Sections: an array between markers; the brackets may be missing."""
    return (f"{opener}[{{calls}}]{closer}", f"{opener}{{calls}}{closer}")


HERMES = Dialect(
    name="hermes",
    models="Hermes 2 Pro to 4, Qwen2.5, QwQ, Qwen3, EXAONE 4, SmolLM3",
    aliases=("qwen3_json", "qwen25", "qwen", "qwen3", "json_tools", "qwen3_vl_instruct", "qwen3_vl_thinking"),
    reasoning_aliases=("qwen3", "qwen3_thinking", "holo2", "basic", "base"),
    section=("\n{calls}", "<tool_call>[{calls}]</tool_call>"),
    call=(*one_per_tag("<tool_call>", "</tool_call>"), "{envelope}"),
    sep=("\n", ","),
    stop=(*CHATML_STOPS, "<sep>"),
)
# <scratch_pad> of the goal-oriented Hermes prompt is ordinary content.

TRINITY = replace(
    HERMES,
    name="trinity",
    models="AFM, Trinity",
    aliases=(),
    reasoning_aliases=(),
    stop=CHATML_STOPS,
    fingerprint=("model_type: afmoe", "model_type: arcee"),
)

GRANITE4 = replace(
    HERMES,
    name="granite4",
    models="Granite 4.0 and 4.1",
    aliases=(),
    reasoning_aliases=(),
    stop=LLAMA_STOPS,
    fingerprint=("<|start_of_role|>",),
)

ERNIE45 = replace(
    HERMES,
    name="ernie45",
    models="ERNIE 4.5",
    aliases=(),
    reasoning_aliases=("ernie45",),
    content=("<response>\n{text}\n</response>\n",),
    stop=("</s>",),
    fingerprint=("<response>",),
)

LONGCAT = Dialect(
    name="longcat",
    models="LongCat-Flash",
    section=("\n{calls}",),
    call=(
        *one_per_tag("<longcat_tool_call>", "</longcat_tool_call>"),
        "<longcat_tool_call>{name}\n{params}</longcat_tool_call>",
    ),
    param=("<longcat_arg_key>{key}</longcat_arg_key>\n<longcat_arg_value>{value}</longcat_arg_value>\n",),
    python_values=True,
    reasoning=("<longcat_think>\n{text}\n</longcat_think>\n",),
    stop=("</longcat_s>", "</s>"),
)

K2_HORIZON = Dialect(
    name="k2_horizon",
    models="K2 Horizon",
    section=(
        "<ifm|tool_calls>{calls}</ifm|tool_calls>",
        "<ifm|tool_call>[{calls}]</ifm|tool_call>",
        "{calls}",
    ),
    call=(
        "<ifm|tool_call>{name}\n{params}</ifm|tool_call>",
        "<ifm|tool_call>{envelope}</ifm|tool_call>",
        "{envelope}",
    ),
    sep=("", ","),
    param=(
        "<ifm|arg_key>{key}</ifm|arg_key>\n<ifm|arg_value>{value}</ifm|arg_value>\n",
        "<ifm|arg_key>{key}</ifm|arg_key>\n<ifm|arg_type>{type}</ifm|arg_type>\n<ifm|arg_value>{value}</ifm|arg_value>\n",
    ),
    reasoning=(
        "<ifm|think>{text}</ifm|think>",
        "<ifm|think_fast>{text}</ifm|think_fast>",
        "<ifm|think_faster>{text}</ifm|think_faster>",
    ),
    reasoning_aliases=("k2_horizon",),
    stop=("<ifm|end>", "<|im_end|>"),
)

MISTRAL_ARRAY = "[TOOL_CALLS][{calls}]"

MISTRAL_V11 = Dialect(
    name="mistral_v11",
    models="Mistral tokenizers v11 and later: Small 3.2, Magistral, Ministral 3, Devstral, Large 3",
    aliases=("mistral_v13",),
    section=("{calls}",),
    call=(
        "[TOOL_CALLS]{name}[ARGS]{args}",
        "[TOOL_CALLS]{name}[CALL_ID]{id}[ARGS]{args}",
        "[TOOL_CALLS]{name}{args}",
        "[TOOL_CALLS]{name}[ARGS]",
        "[TOOL_CALLS]{name}",
    ),
    sep=("",),
    reasoning=("[THINK]{text}[/THINK]", "<think>\n{text}\n</think>\n"),
    stop=("</s>", "[/TOOL_CALLS]"),
    id_format=NINE_ALPHANUMERICS,
    keep_blanks=True,
)
MISTRAL_V3 = replace(
    MISTRAL_V11,
    name="mistral_v3",
    models="Mistral tokenizers v2 to v7: 7B v0.3, Mixtral 8x22B, Nemo, Large 2411, Small 3.1",
    aliases=("mistral_v7",),
    section=(MISTRAL_ARRAY, "{calls}"),
    call=("{envelope}", "[TOOL_CALLS]{envelope}"),
    sep=(", ",),
)
MISTRAL = replace(
    MISTRAL_V11,
    name="mistral",
    models="Mistral, Magistral, Ministral, Devstral; any tokenizer version",
    aliases=("ministral",),
    reasoning_aliases=("mistral",),
    section=("{calls}", MISTRAL_ARRAY),
    call=(*MISTRAL_V11.call, *MISTRAL_V3.call),
    sep=("", ","),
    variants=(("[ARGS]", "mistral_v11"), ("[TOOL_CALLS]", "mistral_v3")),
)

INTERNLM2 = Dialect(
    name="internlm2",
    models="InternLM 2 to 3, Intern-S1",
    aliases=("internlm", "interns1"),
    reasoning_aliases=("interns1",),
    call=(
        "<|action_start|><|plugin|>\n{envelope}<|action_end|>",
        "<|action_start|> <|plugin|>\n{envelope}<|action_end|>",
    ),
    args_keys=("parameters", "arguments"),
    stop=CHATML_STOPS,
)

JAMBA = Dialect(
    name="jamba",
    models="Jamba 1.5 to 1.7",
    section=array_in_tags("<tool_calls>", "</tool_calls>"),
    call=("{envelope}",),
    sep=(", ",),
    stop=("<|endoftext|>", "<|eom|>"),
)

HUNYUAN_A13B = replace(
    JAMBA,
    name="hunyuan_a13b",
    models="Hunyuan-A13B and smaller",
    reasoning_aliases=("hunyuan_a13b",),
    reasoning=("<think>\n{text}\n</think>\n",),
    content=("<answer>\n{text}\n</answer>",),
    drop=("助手：",),
    stop=("<|eos|>",),
    fingerprint=("助手：",),
)

APRIEL = replace(
    JAMBA,
    name="apriel",
    models="Apriel 1.5 and 1.6",
    section=(
        *(f"\n{section}" for section in array_in_tags("<tool_calls>", "</tool_calls>")),
        *array_in_tags("<tool_call>", "</tool_call>"),
    ),
    reasoning=(
        "Here are my reasoning steps:\n{text}\n[BEGIN FINAL RESPONSE]\n",
        "<thinking>{text}</thinking>",
    ),
    drop=("[END FINAL RESPONSE]",),
    stop=("<|end|>",),
    fingerprint=("[BEGIN FINAL RESPONSE]",),
)

NEMOTRON_JSON = replace(
    JAMBA,
    name="nemotron_json",
    models="Nemotron v1, Nano v2",
    aliases=("nemotron_deci", "llama_nemotron_json", "llama_nemotron"),
    reasoning_aliases=("nemotron_deci",),
    section=tuple(f"\n{section}" for section in array_in_tags("<TOOLCALL>", "</TOOLCALL>")),
    stop=("<SPECIAL_12>", "<|eot_id|>"),
)

MINIMAX_M1 = replace(
    JAMBA,
    name="minimax_m1",
    models="MiniMax-M1, Text-01",
    section=("\n<tool_calls>\n{calls}\n</tool_calls>", "<tool_calls>[{calls}]</tool_calls>"),
    sep=("\n", ","),
    stop=("<end_of_sentence>",),
)

APERTUS = replace(
    JAMBA,
    name="apertus",
    models="Apertus 2509",
    aliases=("apertus2509",),
    reasoning_aliases=("apertus2509",),
    section=array_in_tags("<|tools_prefix|>", "<|tools_suffix|>"),
    keyed=True,
    reasoning=("<|inner_prefix|>{text}<|inner_suffix|>",),
    stop=("<|assistant_end|>",),
)

GRANITE_20B_FC = Dialect(
    name="granite_20b_fc",
    models="granite-20b-functioncalling",
    call=("<function_call> {envelope}", "<function_call>{envelope}"),
    sep=("",),
    stop=("<|endoftext|>",),
)

GIGACHAT3 = Dialect(
    name="gigachat3",
    models="GigaChat 3.0 and 3.1",
    call=(
        "<|function_call|>{envelope}",
        "<|message_sep|>\n\nfunction call<|role_sep|>\n{envelope}",
        "function call<|role_sep|>\n{envelope}",
    ),
    sep=("",),
    reasoning=(),
    stop=("<|message_sep|>", "</s>"),
    keep_blanks=True,
)

COHERE_THINKING = ("<|START_THINKING|>{text}<|END_THINKING|>",)
COHERE_ANSWERS = ("<|START_RESPONSE|>{text}<|END_RESPONSE|>", "<|START_TEXT|>{text}<|END_TEXT|>")
COHERE_FURNITURE = ("<co>", "</co: {_}>", "<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>")

COHERE = Dialect(
    name="cohere",
    models="Command R7B, Command A, Command A+",
    aliases=("cohere_command3", "cohere_command4"),
    reasoning_aliases=("cohere_command3", "cohere_command4", "cohere_cmd"),
    section=("<|START_ACTION|>[\n    {calls}\n]<|END_ACTION|>", "<|START_ACTION|>{calls}<|END_ACTION|>"),
    call=("{envelope}",),
    sep=(",\n    ",),
    name_keys=("tool_name", "name"),
    args_keys=("parameters", "arguments"),
    id_keys=("tool_call_id", "id"),
    envelope=("id", "name", "args"),
    id_format=IdFormat("{index}"),
    reasoning=COHERE_THINKING,
    content=COHERE_ANSWERS,
    drop=COHERE_FURNITURE,
)

COMMAND_R = Dialect(
    name="command_r",
    models="Command R, Command R+",
    section=("\nAction:\n```json\n[{calls}]\n```", "\nAction:\n```json\n{calls}\n```"),
    call=("{envelope}",),
    sep=(", ",),
    name_keys=("tool_name", "name"),
    args_keys=("parameters", "arguments"),
    null_calls=("directly-answer", "directly_answer"),
    reasoning=(),
    drop=("<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", "<co: {_}>", "</co: {_}>"),
)

FUNCTIONARY = Dialect(
    name="functionary",
    models="Functionary v3.1",
    aliases=("functionary_v31",),
    call=("<function={name}>{args}</function>", "<|python_tag|>{code}"),
    sep=("",),
    reasoning=(),
    stop=LLAMA_STOPS,
)
