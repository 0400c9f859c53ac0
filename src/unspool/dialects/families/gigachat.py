"""Dialects of Sber's GigaChat."""

from dataclasses import replace

from .._declaration import Dialect, Family
from .._family_request_facts import ALWAYS, NO_REASONING, SEEDED, RequestFacts
from ._shared import JSON_FIRST
from .deepseek import dsml

GIGACHAT_EOS = ("<|message_sep|>", "</s>")
GIGACHAT_PROMPT = ("assistant<|role_sep|>",)

GIGACHAT3 = Dialect(
    name="gigachat3",
    family=Family("GigaChat 3.0 and 3.1", model_names=("GigaChat 3", "GigaChat 3.0", "GigaChat 3.1")),
    call=(
        "<|function_call|>{envelope}",
        "<|message_sep|>\n\nfunction call<|role_sep|>\n{envelope}",
        "function call<|role_sep|>\n{envelope}",
    ),
    sep=("",),
    reasoning=(),
    drop=(
        "<|function_call|>",
        "<|message_sep|>\n\n{_}<|role_sep|>\n",
        "function call<|role_sep|>\n",
        "<|role_sep|>\n",
    ),
    stop=GIGACHAT_EOS,
    keep_whitespace=True,
    request=RequestFacts(
        calls_special=True,
        forced=JSON_FIRST,
        eos=GIGACHAT_EOS,
        prompts=GIGACHAT_PROMPT,
        thinking=NO_REASONING,
    ),
)

GIGACHAT35 = replace(
    dsml(
        "gigachat35",
        Family("GigaChat 3.5", model_names=("GigaChat 3.5",), reasoning_aliases=("gigachat35",)),
        RequestFacts(
            calls_special=True,
            forced=JSON_FIRST,
            eos=GIGACHAT_EOS,
            prompts=GIGACHAT_PROMPT,
            thinking=replace(SEEDED, seed="<think>", default="off", switches=("reasoning",)),
            checkpoints=(("gigachat35_reasoning", replace(ALWAYS, seed="<think>")),),
        ),
        ("｜GCML｜",),
        "tool_calls",
    ),
    reasoning=("<think>\n{text}\n</think>\n\n",),
    stop=GIGACHAT_EOS,
)
