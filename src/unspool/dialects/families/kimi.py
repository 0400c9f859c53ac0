"""Dialects of Moonshot's Kimi."""

import re
from dataclasses import replace

from .._declaration import Dialect, Family, Names, Prompt, Values
from .._family_request_facts import HYBRID, UNSWITCHED, RequestFacts
from .._id_format import IdFormat
from ._shared import CHATML_STOPS, JSON, NATIVE, THINK_INLINE

KIMI = Dialect(
    name="kimi",
    family=Family("Kimi-VL-Thinking and other early Kimi models", model_names=("Kimi VL",)),
    reasoning=("◁think▷{text}◁/think▷",),
    stop=CHATML_STOPS,
    request=RequestFacts(calls_special=None, forced=JSON, eos=(), thinking=UNSWITCHED),
)

K2_THINKING = replace(HYBRID, special=True, seed="<think>")

KIMI_K2 = Dialect(
    name="kimi_k2",
    family=Family(
        "Kimi K2, K2.5, K2.6",
        model_names=("Kimi K2", "Kimi K2.5", "Kimi K2.6"),
        aliases=("kimik2", "kimi_k25"),
        reasoning_aliases=("kimi_k2", "kimi_k25", "kimi_thinking"),
    ),
    section=(
        "!<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>",
        "!<|tool_call_section_begin|>{calls}<|tool_call_section_end|>",
        "{calls}",
    ),
    call=(
        "<|tool_call_begin|>{name}<|tool_call_argument_begin|>{args}<|tool_call_end|>",
        "<|tool_call_begin|>{name}<|tool_call_argument_begin|>\n<|tool_call_end|>",
        "<|tool_call_begin|>{index}<|tool_call_argument_begin|>{args}<|tool_call_end|>",
        "<|tool_call_begin|>:{index}<|tool_call_argument_begin|>{args}<|tool_call_end|>",
    ),
    sep=("",),
    names=Names(
        forms=(
            "functions.{name}:{index}",
            "{name}:{index}",
            "functions_{name}_{index}",
            "functions.{name}",
            "{name}",
        )
    ),
    id_format=IdFormat("functions.{name}:{index}"),
    reasoning=THINK_INLINE,
    drop=(
        "<|tool_calls_section_begin|>",
        "<|tool_call_section_begin|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
    ),
    stop=CHATML_STOPS,
    request=RequestFacts(
        calls_special=True,
        forced=NATIVE,
        eos=("<|im_end|>", "[EOS]"),
        prompts=("<|im_middle|>",),
        thinking=replace(HYBRID, special=True),
        checkpoints=(("kimi_k25", replace(K2_THINKING, written=True)), ("kimi_thinking", K2_THINKING)),
    ),
)


def _spaced(template: str) -> str:
    """Return a template with spaces around special tokens, which some detokenizers add."""
    return re.sub(r"(<\|(?:open|close)\|>)(\w)", r"\1 \2", re.sub(r"(?<=\w)<\|sep\|>", " <|sep|>", template))


K3_HEAD = '<|open|>call tool="{name}" index="{index}"<|sep|>'

K3_CALLS = (
    f"{K3_HEAD}{{params}}<|close|>call<|sep|>",
    f'{K3_HEAD}<|open|>json type="object"<|sep|>{{args}}<|close|>json<|sep|><|close|>call<|sep|>',
)
K3_PARAM = '<|open|>argument key="{key}" type="{type}"<|sep|>{value}<|close|>argument<|sep|>'
K3_SECTION = "<|open|>tools<|sep|>{calls}<|close|>tools<|sep|>"
K3_THINK = "<|open|>think<|sep|>{text}<|close|>think<|sep|>"
K3_RESPONSE = "<|open|>response<|sep|>{text}<|close|>response<|sep|>"
K3_BROKEN_CLOSER = "<|close|>think"
"""A closing marker without its last token, which models write before the next opening marker."""
K3_ENDS = ("<|close|>message<|sep|>", "<|close|>response<|sep|>")

KIMI_K3 = Dialect(
    name="kimi_k3",
    family=Family("Kimi K3", model_names=("Kimi K3",), reasoning_aliases=("kimi_k3",)),
    section=(
        *(K3_SECTION, _spaced(K3_SECTION)),
        *(K3_BROKEN_CLOSER + K3_SECTION, _spaced(K3_BROKEN_CLOSER + K3_SECTION)),
    ),
    call=(*K3_CALLS, *map(_spaced, K3_CALLS)),
    sep=("",),
    param=(K3_PARAM, _spaced(K3_PARAM)),
    values=Values(unescape=True),
    names=Names(first_index=1),
    reasoning=(K3_THINK, _spaced(K3_THINK)),
    content=(
        *(K3_RESPONSE, _spaced(K3_RESPONSE)),
        *(K3_BROKEN_CLOSER + K3_RESPONSE, _spaced(K3_BROKEN_CLOSER + K3_RESPONSE)),
    ),
    # The opening marker in the prompt has no spaces, but the detokenizer adds spaces to the closing marker.
    drop=(*K3_ENDS, *map(_spaced, (*K3_ENDS, "<|close|>think<|sep|>"))),
    stop=("<|end_of_msg|>",),
    prompt=Prompt(turn=('role="assistant"<|sep|>',)),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=NATIVE,
        eos=("<|end_of_msg|>",),
        prompts=('role="assistant"<|sep|>',),
        thinking=replace(
            HYBRID,
            special=True,
            seed="<|open|>think<|sep|>",
            when_off="read",
            efforts=tuple((word, word) for word in ("none", "low", "high", "max")),
            effort_name="thinking_effort",
            written=True,
            named_off=True,
        ),
    ),
)
