"""Dialects of Cohere's Command models."""

from dataclasses import replace

from .._declaration import Dialect, Envelope, Family, Habits, Prompt, Writing
from .._family_request_facts import NO_REASONING, RequestFacts, Thinking
from .._id_format import IdFormat
from ._shared import JSON_FIRST, NATIVE_FIRST

COHERE_EOS = ("<|END_OF_TURN_TOKEN|>",)
COHERE_PROMPT = ("<|CHATBOT_TOKEN|>",)
COHERE_REASONING = ("<|START_THINKING|>{text}<|END_THINKING|>",)
COHERE_CONTENT = ("<|START_RESPONSE|>{text}<|END_RESPONSE|>", "<|START_TEXT|>{text}<|END_TEXT|>")
COHERE_DROPPED = ("<co>", "</co: {_}>", "<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>")
COHERE_THINKING = Thinking(
    special=True,
    default="on",
    switches=("reasoning", "enable_thinking", "reasoning_effort"),
    seed="<|START_THINKING|>",
    after_tool="same",
    when_off="read",
    strip=None,
)
COMMAND3_THINKING = replace(
    COHERE_THINKING, default="off", switches=("enable_thinking", "reasoning_effort"), seed=""
)

# Sample output:
#   <|START_THINKING|>The user wants the weather.<|END_THINKING|>\
#   <|START_RESPONSE|>Let me check.<|END_RESPONSE|><|START_ACTION|>[
#       {"tool_call_id": "0", "tool_name": "get_weather",\
#    "parameters": {"city": "Paris", "days": 3}},
#       {"tool_call_id": "1", "tool_name": "now", "parameters": {}}
#   ]<|END_ACTION|>
COHERE = Dialect(
    name="cohere",
    family=Family(
        "Command R7B, Command A, Command A+",
        model_names=("Command R7B", "Command A"),
        aliases=("cohere_command3", "cohere_command4"),
        reasoning_aliases=("cohere_command3", "cohere_command4", "cohere_cmd"),
    ),
    section=("<|START_ACTION|>[\n    {calls}\n]<|END_ACTION|>", "<|START_ACTION|>{calls}<|END_ACTION|>"),
    call=("{envelope}",),
    writing=Writing(between_calls=",\n    "),
    envelope=Envelope(
        name_keys=("tool_name", "name"),
        args_keys=("parameters", "arguments"),
        id_keys=("tool_call_id", "id"),
        order=("id", "name", "args"),
    ),
    id_format=IdFormat("{index}"),
    reasoning=COHERE_REASONING,
    content=COHERE_CONTENT,
    drop=COHERE_DROPPED,
    prompt=Prompt(ends=COHERE_PROMPT, begins_turn=True),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=NATIVE_FIRST,
        eos=COHERE_EOS,
        thinking=COHERE_THINKING,
        checkpoints=(("cohere_command3", COMMAND3_THINKING),),
    ),
)

# Sample output:
#   <|START_THINKING|>The user wants the weather.<|END_THINKING|>\
#   <|START_RESPONSE|>Let me check.<|END_RESPONSE|><cofl:tool_calls>\
#   <cofl:tool_call id="0" name="get_weather">\
#   <cofl:value name="city" type="raw">Paris</cofl:value>\
#   <cofl:value name="days" type="json">3</cofl:value></cofl:tool_call>\
#   <cofl:tool_call id="1" name="now"></cofl:tool_call></cofl:tool_calls>
COHERE_COFL = Dialect(
    name="cohere_cofl",
    family=Family("Command models with the cofl template"),
    section=("<cofl:tool_calls>{calls}</cofl:tool_calls>",),
    call=('<cofl:tool_call id="{id}" name="{name}">{params}</cofl:tool_call>',),
    param=(
        '<cofl:value name="{key}" type="{type}">{value}</cofl:value>',
        '<cofl:value type="{type}">{value}</cofl:value>',
        '<cofl:tool_param name="{key}" string="{string}">{value}</cofl:tool_param>',
    ),
    habits=Habits(nested=True, type_words=("raw", "json", "json", "json", "list", "dict")),
    id_format=IdFormat("{index}"),
    reasoning=COHERE_REASONING,
    content=COHERE_CONTENT,
    drop=COHERE_DROPPED,
    prompt=Prompt(ends=COHERE_PROMPT, begins_turn=True),
    request=RequestFacts(
        calls_special=False,
        answers_special=True,
        forced=NATIVE_FIRST,
        eos=COHERE_EOS,
        thinking=COHERE_THINKING,
    ),
)

# Sample output:
#   Let me check.
#   Action:
#   ```json
#   [{"tool_name": "get_weather", "parameters": {"city": "Paris", "days": 3}},\
#    {"tool_name": "now", "parameters": {}}]
#   ```
COMMAND_R = Dialect(
    name="command_r",
    family=Family("Command R, Command R+", model_names=("Command R",)),
    section=("Action:\n```json\n[{calls}]\n```", "Action:\n```json\n{calls}\n```"),
    call=("{envelope}",),
    writing=Writing(before_calls="\n", between_calls=", "),
    envelope=Envelope(name_keys=("tool_name", "name"), args_keys=("parameters", "arguments")),
    habits=Habits(null_calls=("directly-answer", "directly_answer")),
    reasoning=(),
    drop=("<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", "<co: {_}>", "</co: {_}>"),
    prompt=Prompt(ends=COHERE_PROMPT, begins_turn=True),
    request=RequestFacts(
        calls_special=False,
        forced=JSON_FIRST,
        eos=COHERE_EOS,
        thinking=NO_REASONING,
    ),
)
