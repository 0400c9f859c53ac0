"""Dialects of Google's Gemma; arguments have unquoted keys, and strings are between special tokens."""

from dataclasses import replace

from .._declaration import Dialect, Family, Prompt, Values, Writing
from .._family_request_facts import HYBRID, NO_REASONING, RequestFacts
from .._placed_templates import Section, Wrapper
from ._shared import JSON_FIRST

# Sample output:
#   <|channel>thought
#   The user wants the weather.
#   <channel|>Let me check.<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}\
#   <tool_call|><|tool_call>call:now{}<tool_call|>
GEMMA4 = Dialect(
    name="gemma4",
    family=Family(
        "Gemma 4",
        model_names=("Gemma 4",),
        aliases=("gemma_4", "gemma4_no_thinking"),
        reasoning_aliases=("gemma4",),
    ),
    section=(
        "<|tool_call>{calls}<tool_call|>",
        Section("{calls}<tool_call|>", only_at_start=True, declared_only=True),
    ),
    call=("call:{name}{args}", ":{name}{args}"),
    writing=Writing(section_per_call=True),
    args="bare",
    values=Values(quote='<|"|>'),
    reasoning=(
        "<|channel>thought\n{text}\n<channel|>",
        "<|channel>{text}<channel|>",
        Wrapper("thought\n{text}<channel|>", only_at_start=True),
    ),
    stop=("<turn|>", "<|tool_response>", "<eos>"),
    prompt=Prompt(ends=("<|turn>model",), turn=("<|turn>", "<tool_response|>")),
    request=RequestFacts(
        calls_special=True,
        forced=JSON_FIRST,
        eos=("<turn|>", "<eos>", "<|tool_response>"),
        thinking=replace(HYBRID, special=True, when_off="read"),
    ),
)

# Sample output:
#   Let me check.<start_function_call>call:get_weather{city:<escape>Paris\
#   <escape>,days:3}<end_function_call><start_function_call>call:now{}\
#   <end_function_call>
FUNCTIONGEMMA = Dialect(
    name="functiongemma",
    family=Family("FunctionGemma", model_names=("FunctionGemma",), aliases=("function_gemma",)),
    call=("<start_function_call>call:{name}{args}<end_function_call>",),
    args="bare",
    values=Values(quote="<escape>"),
    reasoning=(),
    stop=("<end_of_turn>", "<start_function_response>", "<eos>"),
    keep_whitespace=True,
    prompt=Prompt(ends=("<start_of_turn>model",)),
    request=RequestFacts(
        calls_special=True,
        forced=JSON_FIRST,
        eos=("<end_of_turn>", "<start_function_response>"),
        thinking=NO_REASONING,
    ),
)
