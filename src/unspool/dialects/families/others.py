"""Dialects of families that have only one dialect."""

from dataclasses import replace

from .._declaration import Dialect, Envelope, Family, Habits, Prompt, Values, Writing
from .._family_request_facts import (
    ALWAYS,
    FRAMED,
    HYBRID,
    NO_REASONING,
    SEEDED,
    UNSWITCHED,
    RequestFacts,
    Thinking,
    ThinkingHabits,
)
from .._id_format import IdFormat
from .._placed_templates import Section, Wrapper
from ._shared import (
    CHATML_STOPS,
    GLM_BODY,
    IM_END,
    JSON_FIRST,
    NATIVE,
    NATIVE_FIRST,
    QWEN_BODY,
)

# -- calls as JSON objects

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.<|action_start|><|plugin|>
#   {"name": "get_weather", "parameters": {"city": "Paris", "days": 3}}\
#   <|action_end|>
#   <|action_start|><|plugin|>
#   {"name": "now", "parameters": {}}<|action_end|>
INTERNLM2 = Dialect(
    name="internlm2",
    family=Family(
        "InternLM 2 to 3, Intern-S1",
        model_names=("InternLM2", "InternLM2.5", "InternLM3", "Intern S1"),
        aliases=("internlm", "interns1"),
        reasoning_aliases=("interns1",),
    ),
    call=(
        "<|action_start|><|plugin|>\n{envelope}<|action_end|>",
        "<|action_start|> <|plugin|>\n{envelope}<|action_end|>",
    ),
    writing=Writing(between_calls="\n"),
    envelope=Envelope(args_keys=("parameters", "arguments")),
    stop=CHATML_STOPS,
    request=RequestFacts(calls_special=True, forced=JSON_FIRST, eos=IM_END, thinking=HYBRID),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.<tool_calls>[{"name": "get_weather", "arguments": {"city": "Paris",\
#    "days": 3}}, {"name": "now", "arguments": {}}]</tool_calls>
JAMBA = Dialect(
    name="jamba",
    family=Family("Jamba 1.5 to 1.7", model_names=("Jamba",)),
    section=("<tool_calls>[{calls}]</tool_calls>", "<tool_calls>{calls}</tool_calls>"),
    call=("{envelope}",),
    writing=Writing(between_calls=", "),
    stop=("<|endoftext|>", "<|eom|>"),
    request=RequestFacts(calls_special=True, forced=JSON_FIRST, thinking=UNSWITCHED),
)

# Sample output:
#   Here are my reasoning steps:
#   The user wants the weather.
#   [BEGIN FINAL RESPONSE]
#   Let me check.
#   <tool_calls>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}},\
#    {"name": "now", "arguments": {}}]</tool_calls>
APRIEL = Dialect(
    name="apriel",
    family=Family("Apriel 1.5 and 1.6", model_names=("Apriel",), fingerprint=("[BEGIN FINAL RESPONSE]",)),
    section=(
        "<tool_calls>[{calls}]</tool_calls>",
        "<tool_calls>{calls}</tool_calls>",
        "<tool_call>[{calls}]</tool_call>",
        "<tool_call>{calls}</tool_call>",
    ),
    call=("{envelope}",),
    writing=Writing(before_calls="\n", between_calls=", "),
    also_accepts=QWEN_BODY + GLM_BODY,
    reasoning=(
        "Here are my reasoning steps:\n{text}\n[BEGIN FINAL RESPONSE]\n",
        # The chat template writes this block directly after the answer, in the middle of a line.
        Wrapper("<thinking>{text}</thinking>", mid_line=True),
    ),
    drop=("[END FINAL RESPONSE]",),
    stop=("<|end|>",),
    prompt=Prompt(ends=("<|assistant|>",)),
    request=RequestFacts(
        calls_special=False,
        forced=JSON_FIRST,
        thinking=replace(ALWAYS, seed="Here are my reasoning steps:\n"),
    ),
)

# Sample output:
#   <|inner_prefix|>The user wants the weather.<|inner_suffix|>Let me check.\
#   <|tools_prefix|>[{"get_weather": {"city": "Paris", "days": 3}},\
#    {"now": {}}]<|tools_suffix|>
APERTUS = Dialect(
    name="apertus",
    family=Family(
        "Apertus 2509", model_names=("Apertus",), aliases=("apertus2509",), reasoning_aliases=("apertus2509",)
    ),
    section=(
        "<|tools_prefix|>[{calls}]<|tools_suffix|>",
        "<|tools_prefix|>{calls}<|tools_suffix|>",
    ),
    call=("{envelope}",),
    writing=Writing(between_calls=", "),
    envelope=Envelope(keyed=True),
    reasoning=("<|inner_prefix|>{text}<|inner_suffix|>",),
    stop=("<|assistant_end|>",),
    prompt=Prompt(ends=("<|assistant_start|>",)),
    request=RequestFacts(
        calls_special=True,
        forced=JSON_FIRST,
        thinking=replace(HYBRID, special=True, default="off", when_off="read"),
    ),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.functools[{"name": "get_weather", "arguments": {"city": "Paris",\
#    "days": 3}}, {"name": "now", "arguments": {}}]
PHI4MINI = Dialect(
    name="phi4mini",
    family=Family("Phi-4-mini", model_names=("Phi 4 mini",), aliases=("phi4_mini_json", "phi4")),
    section=("functools[{calls}]", "functools{calls}", "<|tool_call|>[{calls}]<|/tool_call|>"),
    call=("{envelope}",),
    writing=Writing(between_calls=", "),
    stop=("<|end|>", "<|endoftext|>"),
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, thinking=UNSWITCHED),
)

# Sample output:
#   <|content_thinking|>The user wants the weather.<|end_message|>\
#   <|content_text|>Let me check.<|end_message|>\
#   <|content_invoke_tool_json|>{"name": "get_weather", "args": {"city": "Paris",\
#    "days": 3}}<|end_message|><|content_invoke_tool_json|>{"name": "now",\
#    "args": {}}<|end_message|>
INKLING = Dialect(
    name="inkling",
    family=Family("Inkling", model_names=("Inkling",), reasoning_aliases=("inkling",)),
    call=(
        "<|content_invoke_tool_json|>{envelope}<|end_message|>",
        "<|message_model|>{_}<|content_invoke_tool_json|>{envelope}<|end_message|>",
    ),
    envelope=Envelope(args_keys=("args", "arguments", "parameters")),
    reasoning=(
        "<|content_thinking|>{text}<|end_message|>",
        "<|message_model|>{_}<|content_thinking|>{text}<|end_message|>",
    ),
    content=tuple(
        f"{header}<|content_{kind}|>{{text}}<|end_message|>"
        for kind in ("text", "invoke_tool_text", "tool_error", "xml")
        for header in ("", "<|message_model|>{_}")
    ),
    drop=(
        "<|message_model|>",
        "<|message_system|>",
        "<|message_user|>",
        "<|message_tool|>",
        "<|content_invoke_tool_json|>",
    ),
    prompt=Prompt(ends=("<|message_model|>",), opens_message=True, begins_turn=True),
    stop=("<|content_model_end_sampling|>",),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=NATIVE,
        thinking=replace(
            FRAMED,
            default="on",
            switches=("reasoning_effort",),
            when_off="read",
            habits=ThinkingHabits(numeric_effort=(0.0, 1.0)),
        ),
    ),
)

# -- calls as Python code

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.<|tool_call_start|>[get_weather(city="Paris", days=3),\
#    now()]<|tool_call_end|>
LFM2 = Dialect(
    name="lfm2",
    family=Family(
        "LFM2, LFM2.5",
        model_names=("LFM2", "LFM2.5"),
        aliases=("lfm2_thinking", "lfm2.5"),
        fingerprint=("<|tool_list_start|>", "List of tools: ["),
    ),
    section=(
        "<|tool_call_start|>[{calls}]<|tool_call_end|>",
        "<|tool_call_start|>{calls}<|tool_call_end|>",
        Section("[{calls}]<|tool_call_end|>", only_at_start=True, declared_only=True),
    ),
    call=("{name}{args}", "{envelope}"),
    writing=Writing(between_calls=", "),
    args="loose",
    habits=Habits(
        repeated_calls=(
            "[{calls}]<|tool_call_end|>",
            "{calls}]<|tool_call_end|>",
            "{calls}<|tool_call_end|>",
        )
    ),
    stop=CHATML_STOPS,
    request=RequestFacts(calls_special=True, forced=JSON_FIRST, eos=IM_END, thinking=UNSWITCHED),
)

# Sample output:
#   Let me check.<|tool_calls|>[{"name": "get_weather",\
#    "arguments": {"city": "Paris", "days": 3}}, {"name": "now", "arguments": {}}]
SARASHINA = Dialect(
    name="sarashina",
    family=Family("Sarashina", model_names=("Sarashina",)),
    section=("<|tool_calls|>[{calls}]", "<|tool_calls|>{calls}", Section("[{calls}]", only_at_start=True)),
    call=("{envelope:python}",),
    writing=Writing(between_calls=", "),
    reasoning=(),
    drop=("<|tool_calls|>",),
    stop=("</s>",),
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, thinking=NO_REASONING),
)

# -- calls with the name before the arguments

# Sample output:
#   <|think|>The user wants the weather.<|end|><|content|>Let me check.<|end|>\
#   <|tool_calls|><|tool_call:begin|>0<|tool_call:name|>get_weather\
#   <|tool_call:args|>{"city": "Paris", "days": 3}<|tool_call:end|>\
#   <|tool_call:begin|>1<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|>\
#   <|calls|>
SOLAR_OPEN = Dialect(
    name="solar_open",
    family=Family("Solar-Open", model_names=("Solar Open",)),
    section=("<|tool_calls|>{calls}<|calls|>", "{calls}"),
    call=("<|tool_call:begin|>{id}<|tool_call:name|>{name}<|tool_call:args|>{args}<|tool_call:end|>",),
    id_format=IdFormat("{random}", length=10),
    reasoning=("<|think|>{text}<|end|>",),
    content=("<|content|>{text}<|end|>",),
    drop=("<|begin|>assistant",),
    stop=("<|end|>", "<|calls|>", "<|flush|>"),
    prompt=Prompt(ends=("<|begin|>assistant",), begins_turn=True),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=NATIVE,
        eos=(),
        thinking=Thinking(
            special=True,
            default="on",
            switches=("reasoning_effort",),
            seed="",
            after_tool="same",
            when_off="read",
            strip=None,
            efforts=(
                ("none", "minimal"),
                *((word, word) for word in ("minimal", "low", "medium", "high")),
            ),
            effort_off=("none", "minimal", "low"),
        ),
    ),
)

PLAMO_HEAD = (
    "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{name}<|plamo:end_tool_name:plamo|>"
    "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
)
PLAMO_TAIL = "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"

# Sample output:
#   <|plamo:begin_think:plamo|>The user wants the weather.\
#   <|plamo:end_think:plamo|>Let me check.<|plamo:begin_tool_requests:plamo|>\
#   <|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>get_weather\
#   <|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>\
#   <|plamo:constrain|>json<|plamo:msg|>{"city": "Paris", "days": 3}\
#   <|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>\
#   <|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>now\
#   <|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>\
#   <|plamo:constrain|>json<|plamo:msg|>{}<|plamo:end_tool_arguments:plamo|>\
#   <|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>
PLAMO3 = Dialect(
    name="plamo3",
    family=Family("PLaMo 3", model_names=("PLaMo 3",), reasoning_aliases=("plamo3",)),
    section=("<|plamo:begin_tool_requests:plamo|>{calls}<|plamo:end_tool_requests:plamo|>",),
    call=(PLAMO_HEAD + "{args}" + PLAMO_TAIL, PLAMO_HEAD + "\n" + PLAMO_TAIL),
    reasoning=("<|plamo:begin_think:plamo|>{text}<|plamo:end_think:plamo|>",),
    stop=("<|plamo:tag|>",),
    request=RequestFacts(
        calls_special=True,
        forced=NATIVE_FIRST,
        eos=(),
        thinking=replace(SEEDED, special=True, seed="<|plamo:begin_think:plamo|>", when_off="read"),
    ),
)

# -- calls with tagged parameters

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.
#   <dots_function_call>
#   <invoke name="get_weather">
#   <parameter name="city">Paris</parameter>
#   <parameter name="days">3</parameter>
#   </invoke>
#   <invoke name="now">
#   </invoke>
#   </dots_function_call>
DOTS = Dialect(
    name="dots",
    family=Family("dots", model_names=("dots",), aliases=("dots3",), reasoning_aliases=("dots",)),
    section=("<dots_function_call>\n{calls}</dots_function_call>",),
    call=('<invoke name="{name}">\n{params}</invoke>\n', "{envelope}"),
    writing=Writing(before_calls="\n"),
    param=('<parameter name="{key}">{value}</parameter>\n',),
    stop=CHATML_STOPS,
    request=RequestFacts(calls_special=False, forced=NATIVE, eos=(), thinking=HYBRID),
)

# Sample output:
#   <longcat_think>
#   The user wants the weather.
#   </longcat_think>
#   Let me check.
#   <longcat_tool_call>
#   {"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}
#   </longcat_tool_call>
#   <longcat_tool_call>
#   {"name": "now", "arguments": {}}
#   </longcat_tool_call>
LONGCAT = Dialect(
    name="longcat",
    family=Family("LongCat-Flash", model_names=("LongCat",)),
    call=(
        "<longcat_tool_call>\n{envelope}\n</longcat_tool_call>",
        "<longcat_tool_call>{name}\n{params}</longcat_tool_call>",
    ),
    writing=Writing(before_calls="\n", between_calls="\n"),
    param=("<longcat_arg_key>{key}</longcat_arg_key>\n<longcat_arg_value>{value}</longcat_arg_value>\n",),
    values=Values(python=True),
    reasoning=("<longcat_think>\n{text}\n</longcat_think>\n",),
    stop=("</longcat_s>", "</s>"),
    prompt=Prompt(turn=("ASSISTANT:",)),
    request=RequestFacts(calls_special=True, forced=JSON_FIRST, eos=(), thinking=UNSWITCHED),
)

# Sample output:
#   <ifm|think>The user wants the weather.</ifm|think>Let me check.<ifm|tool_calls>\
#   <ifm|tool_call>get_weather
#   <ifm|arg_key>city</ifm|arg_key>
#   <ifm|arg_value>Paris</ifm|arg_value>
#   <ifm|arg_key>days</ifm|arg_key>
#   <ifm|arg_value>3</ifm|arg_value>
#   </ifm|tool_call><ifm|tool_call>now
#   </ifm|tool_call></ifm|tool_calls>
K2_HORIZON = Dialect(
    name="k2_horizon",
    family=Family("K2 Horizon", model_names=("K2 Horizon",), reasoning_aliases=("k2_horizon",)),
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
    separators=(",",),
    param=(
        "<ifm|arg_key>{key}</ifm|arg_key>\n<ifm|arg_value>{value}</ifm|arg_value>\n",
        "<ifm|arg_key>{key}</ifm|arg_key>\n<ifm|arg_type>{type}</ifm|arg_type>\n<ifm|arg_value>{value}</ifm|arg_value>\n",
    ),
    reasoning=(
        "<ifm|think>{text}</ifm|think>",
        "<ifm|think_fast>{text}</ifm|think_fast>",
        "<ifm|think_faster>{text}</ifm|think_faster>",
    ),
    stop=("<ifm|end>", "<|im_end|>"),
    request=RequestFacts(
        calls_special=True,
        forced=NATIVE_FIRST,
        eos=(),
        thinking=Thinking(
            special=True,
            default="always",
            switches=("reasoning_effort",),
            seed="",
            after_tool="same",
            when_off=None,
            strip=None,
            efforts=(("low", "low"), ("medium", "medium"), ("high", "high")),
        ),
    ),
)
