"""Dialects of Mistral; the format of calls depends on the version of the tokenizer."""

from dataclasses import replace

from .._declaration import Dialect, Family, Writing
from .._family_request_facts import RequestFacts, Thinking
from .._id_format import NINE_ALPHANUMERICS
from ._shared import JSON_FIRST, NATIVE_FIRST

MISTRAL_THINKING = Thinking(
    special=True,
    default="off",
    switches=("reasoning_effort",),
    seed="",
    after_tool="same",
    when_off="read",
    strip=None,
)
MISTRAL_ARRAY = "[TOOL_CALLS][{calls}]"

# Sample output:
#   [THINK]The user wants the weather.[/THINK]Let me check.\
#   [TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 3}[TOOL_CALLS]now[ARGS]{}
MISTRAL_V11 = Dialect(
    name="mistral_v11",
    family=Family(
        "Mistral tokenizers v11 and later: Small 3.2, Magistral, Ministral 3, Devstral, Large 3",
        model_names=("Mistral Small 3.2", "Magistral", "Ministral 3", "Devstral", "Mistral Large 3"),
        aliases=("mistral_v13",),
    ),
    call=(
        "[TOOL_CALLS]{name}[ARGS]{args}",
        "[TOOL_CALLS]{name}[CALL_ID]{id}[ARGS]{args}",
        "[TOOL_CALLS]{name}{args}",
        "[TOOL_CALLS]{name}[ARGS]",
        "[TOOL_CALLS]{name}",
        "[TOOL_CALLS]{index}{args}",
        "[TOOL_CALLS]{name}{args}[/TOOL_CALLS]",
    ),
    reasoning=("[THINK]{text}[/THINK]", "<think>\n{text}\n</think>\n"),
    stop=("</s>", "[/TOOL_CALLS]"),
    id_format=NINE_ALPHANUMERICS,
    keep_whitespace=True,
    request=RequestFacts(calls_special=True, forced=NATIVE_FIRST, eos=("</s>",), thinking=MISTRAL_THINKING),
)

# Sample output:
#   [THINK]The user wants the weather.[/THINK]Let me check.[TOOL_CALLS]\
#   [{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}},\
#    {"name": "now", "arguments": {}}]
MISTRAL_V3 = replace(
    MISTRAL_V11,
    name="mistral_v3",
    family=Family(
        "Mistral tokenizers v2 to v7: 7B v0.3, Mixtral 8x22B, Nemo, Large 2411, Small 3.1",
        model_names=(
            "Mistral 7B Instruct v0.3",
            "Mixtral 8x22B",
            "Mistral Nemo",
            "Mistral Large 2411",
            "Mistral Small 3.1",
        ),
        aliases=("mistral_v7",),
    ),
    section=(MISTRAL_ARRAY, "{calls}"),
    call=("{envelope}", "[TOOL_CALLS]{envelope}", "[TOOL_CALLS]{envelope}[/TOOL_CALLS]"),
    writing=Writing(between_calls=", "),
    request=RequestFacts(calls_special=True, forced=JSON_FIRST, eos=("</s>",), thinking=MISTRAL_THINKING),
)

# Sample output:
#   [THINK]The user wants the weather.[/THINK]Let me check.\
#   [TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 3}[TOOL_CALLS]now[ARGS]{}
MISTRAL = replace(
    MISTRAL_V11,
    name="mistral",
    family=Family(
        "Mistral, Magistral, Ministral, Devstral; any tokenizer version",
        model_names=("Mistral", "Ministral", "Mixtral", "Codestral"),
        aliases=("ministral",),
        reasoning_aliases=("mistral",),
        variants=(("[ARGS]", "mistral_v11"), ("[TOOL_CALLS]", "mistral_v3")),
    ),
    section=("{calls}", MISTRAL_ARRAY),
    call=(*MISTRAL_V11.call, *MISTRAL_V3.call),
    separators=(",",),
    request=RequestFacts(
        calls_special=True,
        forced=NATIVE_FIRST,
        eos=("</s>",),
        thinking=MISTRAL_THINKING,
        checkpoints=(("magistral", replace(MISTRAL_THINKING, default="always", switches=(), when_off=None)),),
    ),
)
