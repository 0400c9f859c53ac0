"""Dialects of Llama, and of fine-tuned Llama models that write calls in other formats."""

from dataclasses import replace

from .._declaration import Dialect, Envelope, Family, Frame, Prompt, Route, Writing
from .._family_request_facts import NO_REASONING, UNSWITCHED, RequestFacts
from .._placed_templates import Section
from ._shared import (
    GLM_BODY,
    JSON_BODY,
    JSON_FIRST,
    LLAMA_STOPS,
    NATIVE,
    NATIVE_FIRST,
    QWEN_BODY,
)

LLAMA4_EOS = ("<|eot|>", "<|eom|>")
PYTHON_MARKERS = ("<|python_start|>", "<|python_end|>", "<|python_tag|>")
"""Markers around calls.  They are removed from the output if there are no calls between them."""
FUNCTIONARY_EOS = ("<|eot_id|>", "<|eom_id|>")

# Sample output:
#   {"name": "get_weather", "parameters": {"city": "Paris", "days": 3}};\
#    {"name": "now", "parameters": {}}
LLAMA3_JSON = Dialect(
    name="llama3_json",
    family=Family(
        "Llama 3.1 to 3.3", model_names=("Llama 3.1", "Llama 3.2", "Llama 3.3"), aliases=("llama3", "llama")
    ),
    section=(Section("{calls}", only_at_start=True), "<|python_tag|>{calls}"),
    call=("{envelope}", "<|python_tag|>{name}.call{args:python}"),
    writing=Writing(between_calls="; "),
    separators=(",",),
    envelope=Envelope(args_keys=("parameters", "arguments")),
    reasoning=(),
    drop=("<|python_tag|>",),
    stop=LLAMA_STOPS,
    request=RequestFacts(
        calls_special=True,
        forced=NATIVE_FIRST,
        eos=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
        thinking=NO_REASONING,
    ),
)

# Sample output:
#   {"name": "get_weather", "parameters": {"city": "Paris", "days": 3}};\
#    {"name": "now", "parameters": {}}
LLAMA4_JSON = replace(
    LLAMA3_JSON,
    name="llama4_json",
    family=Family("Llama 4 with the JSON template", fingerprint=("<|header_start|>",)),
    section=(
        Section("{calls}", only_at_start=True),
        "<|python_start|>{calls}<|python_end|>",
        "<|python_tag|>{calls}",
    ),
    call=("{envelope}",),
    drop=PYTHON_MARKERS,
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, eos=LLAMA4_EOS, thinking=NO_REASONING),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.[get_weather(city="Paris", days=3), now()]
PYTHONIC = Dialect(
    name="pythonic",
    family=Family(
        "Llama 4, Llama 3.2, ToolACE, Olmo 3",
        model_names=("Llama 4", "ToolACE", "Olmo 3"),
        aliases=("llama4_pythonic", "olmo3", "olmo3_think"),
        reasoning_aliases=("olmo3",),
    ),
    section=(
        Section("[{calls}]", only_at_start=True),
        Section("[{calls}]", declared_only=True),
        "<|python_start|>[{calls}]<|python_end|>",
        "<|python_tag|>[{calls}]",
        "<function_calls>\n[{calls}]\n</function_calls>",
        "<function_calls>\n{calls}\n</function_calls>",
        "```tool_code\n[{calls}]\n```",
        "```tool_code\n{calls}\n```",
        "```tool_code\nprint([{calls}])\n```",
        "```tool_code\nprint({calls})\n```",
    ),
    call=("{name}{args}",),
    writing=Writing(between_calls=", "),
    args="python",
    drop=PYTHON_MARKERS,
    stop=LLAMA_STOPS,
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, eos=LLAMA4_EOS, thinking=UNSWITCHED),
)

# Sample output:
#   [get_weather(city="Paris", days=3), now()]
WATT = replace(
    PYTHONIC,
    name="watt",
    family=Family(
        "Watt-tool", model_names=("Watt tool",), fingerprint=("watt-tool",)
    ),  # Watt-tool's chat template is unknown, so detection by template returns pythonic
    section=(Section("[{calls}]", only_at_start=True),),
    call=("{name}{args}", "{envelope}"),
    reasoning=(),
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, eos=("<|eot_id|>",), thinking=NO_REASONING),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   [{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}},\
#    {"name": "now", "arguments": {}}]
XLAM = Dialect(
    name="xlam",
    family=Family("xLAM", model_names=("xLAM",), fingerprint=("tool_call_name",)),
    section=(
        Section("[{calls}]", only_at_start=True),
        "<tool_call>[{calls}]</tool_call>",
        "[TOOL_CALLS][{calls}]",
        "```json\n[{calls}]\n```",
        "```\n[{calls}]\n```",
    ),
    call=("{envelope}",),
    writing=Writing(between_calls=", "),
    also_accepts=JSON_BODY + QWEN_BODY + GLM_BODY,
    stop=LLAMA_STOPS,
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, eos=(), thinking=UNSWITCHED),
)

# Sample output:
#   Let me check. functools[{"name": "get_weather", "arguments": {"city": "Paris",\
#    "days": 3}}, {"name": "now", "arguments": {}}]
FIREFUNCTION = Dialect(
    name="firefunction",
    family=Family(
        "firefunction v1 and v2", model_names=("firefunction",), fingerprint=("<|start_header_id|>",)
    ),
    section=(" functools[{calls}]", "functools[{calls}]", "functools{calls}"),
    call=("{envelope}",),
    writing=Writing(between_calls=", "),
    reasoning=(),
    stop=LLAMA_STOPS,
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, eos=("<|eot_id|>",), thinking=NO_REASONING),
)

# Sample output:
#   Let me check.<function=get_weather>{"city": "Paris", "days": 3}</function>\
#   <function=now>{}</function>
FUNCTIONARY = Dialect(
    name="functionary",
    family=Family(
        "Functionary v3.1",
        model_names=("Functionary v3.1", "Functionary small v3.1", "Functionary medium v3.1"),
        aliases=("functionary_v31",),
    ),
    call=("<function={name}>{args}</function>", "<|python_tag|>{code}"),
    reasoning=(),
    stop=LLAMA_STOPS,
    request=RequestFacts(calls_special=True, forced=NATIVE_FIRST, eos=FUNCTIONARY_EOS, thinking=NO_REASONING),
)

# Sample output:
#   all
#   Let me check.>>>get_weather
#   {"city": "Paris", "days": 3}>>>now
#   {}
FUNCTIONARY_V32 = Dialect(
    name="functionary_v32",
    family=Family(
        "Functionary v3.2",
        model_names=("Functionary v3.2", "Functionary small v3.2", "Functionary medium v3.2"),
    ),
    frame=Frame(
        open=(">>>",),
        sep="\n",
        ends=(),
        fields=(">>>{to}",),
        routes=(
            Route({"to": "all"}, "content", "all"),
            Route({"to": "{name}"}, "{args}", "{name}"),
        ),
    ),
    reasoning=(),
    prompt=Prompt(ends=(">>>",), opens_message=True),
    stop=LLAMA_STOPS,
    request=RequestFacts(
        calls_special=False,
        forced=NATIVE,
        eos=FUNCTIONARY_EOS,
        thinking=NO_REASONING,
    ),
)
