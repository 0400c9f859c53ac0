"""Dialects of Moonshot's Kimi."""

from dataclasses import replace

from .._declaration import Dialect, Family, Habits, Names, Prompt
from .._family_request_facts import HYBRID, UNSWITCHED, RequestFacts, ThinkingHabits
from .._id_format import IdFormat
from .._placed_templates import Section
from ._shared import CHATML_STOPS, JSON, NATIVE, THINK_INLINE

# Sample output:
#   ◁think▷The user wants the weather.◁/think▷Let me check.
KIMI = Dialect(
    name="kimi",
    family=Family("Kimi-VL-Thinking and other early Kimi models", model_names=("Kimi VL",)),
    reasoning=("◁think▷{text}◁/think▷",),
    stop=CHATML_STOPS,
    request=RequestFacts(calls_special=None, forced=JSON, eos=(), thinking=UNSWITCHED),
)

K2_THINKING = replace(HYBRID, special=True, seed="<think>")

# Sample output:
#   <think>The user wants the weather.</think>Let me check.\
#   <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0\
#   <|tool_call_argument_begin|>{"city": "Paris", "days": 3}<|tool_call_end|>\
#   <|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}\
#   <|tool_call_end|><|tool_calls_section_end|>
KIMI_K2 = Dialect(
    name="kimi_k2",
    family=Family(
        "Kimi K2, K2.5, K2.6",
        model_names=("Kimi K2", "Kimi K2.5", "Kimi K2.6"),
        aliases=("kimik2", "kimi_k25"),
        reasoning_aliases=("kimi_k2", "kimi_k25", "kimi_thinking"),
    ),
    section=(
        Section("<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>", ends_reasoning=True),
        Section("<|tool_call_section_begin|>{calls}<|tool_call_section_end|>", ends_reasoning=True),
        "{calls}",
    ),
    call=(
        "<|tool_call_begin|>{name}<|tool_call_argument_begin|>{args}<|tool_call_end|>",
        "<|tool_call_begin|>{name}<|tool_call_argument_begin|>\n<|tool_call_end|>",
        "<|tool_call_begin|>{index}<|tool_call_argument_begin|>{args}<|tool_call_end|>",
        "<|tool_call_begin|>:{index}<|tool_call_argument_begin|>{args}<|tool_call_end|>",
    ),
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
    prompt=Prompt(ends=("<|im_middle|>",)),
    request=RequestFacts(
        calls_special=True,
        forced=NATIVE,
        eos=("<|im_end|>", "[EOS]"),
        thinking=replace(HYBRID, special=True),
        checkpoints=(
            ("kimi_k25", replace(K2_THINKING, habits=ThinkingHabits(written=True))),
            ("kimi_thinking", K2_THINKING),
        ),
    ),
)

K3_HEAD = '<|open|>call tool="{name}" index="{index}"<|sep|>'

# Sample output:
#   <|open|>think<|sep|>The user wants the weather.<|close|>think<|sep|>\
#   <|open|>response<|sep|>Let me check.<|close|>response<|sep|><|open|>tools<|sep|>\
#   <|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city"\
#    type="string"<|sep|>Paris<|close|>argument<|sep|><|open|>argument key="days"\
#    type="number"<|sep|>3<|close|>argument<|sep|><|close|>call<|sep|><|open|>call\
#    tool="now" index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>
KIMI_K3 = Dialect(
    name="kimi_k3",
    family=Family("Kimi K3", model_names=("Kimi K3",), reasoning_aliases=("kimi_k3",)),
    # Models sometimes leave out the last token of the closing marker of reasoning.
    section=(
        "<|open|>tools<|sep|>{calls}<|close|>tools<|sep|>",
        "<|close|>think<|open|>tools<|sep|>{calls}<|close|>tools<|sep|>",
    ),
    call=(
        f"{K3_HEAD}{{params}}<|close|>call<|sep|>",
        f'{K3_HEAD}<|open|>json type="object"<|sep|>{{args}}<|close|>json<|sep|><|close|>call<|sep|>',
    ),
    param=('<|open|>argument key="{key}" type="{type}"<|sep|>{value}<|close|>argument<|sep|>',),
    reasoning=("<|open|>think<|sep|>{text}<|close|>think<|sep|>",),
    content=(
        "<|open|>response<|sep|>{text}<|close|>response<|sep|>",
        "<|close|>think<|open|>response<|sep|>{text}<|close|>response<|sep|>",
    ),
    # The opening marker in the prompt has no spaces, but the detokenizer adds spaces to the closing marker.
    drop=("<|close|>message<|sep|>", "<|close|>response<|sep|>", "<|close|> think <|sep|>"),
    habits=Habits(first_index=1, unescape=True, tolerates_spaces=True),
    stop=("<|end_of_msg|>",),
    prompt=Prompt(ends=('role="assistant"<|sep|>',), begins_turn=True),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=NATIVE,
        thinking=replace(
            HYBRID,
            special=True,
            seed="<|open|>think<|sep|>",
            when_off="read",
            efforts=tuple((word, word) for word in ("none", "low", "high", "max")),
            habits=ThinkingHabits(effort_name="thinking_effort", written=True, named_off=True),
        ),
    ),
)
