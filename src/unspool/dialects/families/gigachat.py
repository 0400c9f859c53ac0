"""Dialects of Sber's GigaChat."""

from dataclasses import replace

from .._declaration import Dialect, Family, Prompt, Values, Writing
from .._family_request_facts import ALWAYS, NO_REASONING, SEEDED, RequestFacts
from .._placed_templates import Section
from ._shared import JSON_FIRST

GIGACHAT_EOS = ("<|message_sep|>", "</s>")
GIGACHAT_PROMPT = ("assistant<|role_sep|>",)

# Sample output:
#   Let me check.<|function_call|>{"name": "get_weather",\
#    "arguments": {"city": "Paris", "days": 3}}<|function_call|>{"name": "now",\
#    "arguments": {}}
GIGACHAT3 = Dialect(
    name="gigachat3",
    family=Family("GigaChat 3.0 and 3.1", model_names=("GigaChat 3", "GigaChat 3.0", "GigaChat 3.1")),
    call=(
        "<|function_call|>{envelope}",
        "<|message_sep|>\n\nfunction call<|role_sep|>\n{envelope}",
        "function call<|role_sep|>\n{envelope}",
    ),
    reasoning=(),
    drop=(
        "<|function_call|>",
        "<|message_sep|>\n\n{_}<|role_sep|>\n",
        "function call<|role_sep|>\n",
        "<|role_sep|>\n",
    ),
    stop=GIGACHAT_EOS,
    keep_whitespace=True,
    prompt=Prompt(ends=GIGACHAT_PROMPT),
    request=RequestFacts(
        calls_special=True,
        forced=JSON_FIRST,
        thinking=NO_REASONING,
    ),
)

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   Let me check.
#
#   <｜GCML｜tool_calls>
#   <｜GCML｜invoke name="get_weather">
#   <｜GCML｜parameter name="city" string="true">Paris</｜GCML｜parameter>
#   <｜GCML｜parameter name="days" string="false">3</｜GCML｜parameter>
#   </｜GCML｜invoke>
#   <｜GCML｜invoke name="now">
#   </｜GCML｜invoke>
#   </｜GCML｜tool_calls>
GIGACHAT35 = Dialect(
    name="gigachat35",
    family=Family("GigaChat 3.5", model_names=("GigaChat 3.5",), reasoning_aliases=("gigachat35",)),
    section=("<｜GCML｜tool_calls>\n{calls}</｜GCML｜tool_calls>", Section("{calls}", declared_only=True)),
    call=(
        '<｜GCML｜invoke name="{name}">\n{params}</｜GCML｜invoke>\n',
        '<｜GCML｜invoke name="{name}">\n{args}\n</｜GCML｜invoke>\n',
        '<｜GCML｜invoke name="{name}"/>\n',
    ),
    writing=Writing(before_calls="\n\n"),
    param=('<｜GCML｜parameter name="{key}" string="{string}">{value}</｜GCML｜parameter>\n',),
    values=Values(wrappers=("arguments", "input")),
    stop=GIGACHAT_EOS,
    prompt=Prompt(ends=GIGACHAT_PROMPT),
    request=RequestFacts(
        calls_special=True,
        forced=JSON_FIRST,
        thinking=replace(SEEDED, seed="<think>", default="off", switches=("reasoning",)),
        checkpoints=(("gigachat35_reasoning", replace(ALWAYS, seed="<think>")),),
    ),
)
