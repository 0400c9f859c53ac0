"""Dialects of GLM, and of other families that write keys and values in separate tags."""

from dataclasses import replace

from .._declaration import Dialect, Family, Prompt, Values, Writing
from .._family_request_facts import ALWAYS, HYBRID, SEEDED, RequestFacts
from .._placed_templates import Section
from ._shared import (
    GLM_PARAM,
    JSON_BODY,
    JSON_FIRST,
    NATIVE,
    NATIVE_FIRST,
    QWEN_BODY,
    THINK_INLINE,
)

GLM_EOS = ("<|endoftext|>", "<|user|>", "<|observation|>")
GLM_PROMPT = ("<|assistant|>",)
GLM_STOPS = ("<|user|>", "<|observation|>", "<|endoftext|>", "<|assistant|>")
GLM_SEEDED = replace(SEEDED, seed="<think>")
GLM_ALSO_ACCEPTS = JSON_BODY + QWEN_BODY
GLM_VALUES = Values(escaped_newlines=True)

# Sample output:
#   <think>The user wants the weather.</think>
#   Let me check.
#   <tool_call>get_weather
#   <arg_key>city</arg_key>
#   <arg_value>Paris</arg_value>
#   <arg_key>days</arg_key>
#   <arg_value>3</arg_value>
#   </tool_call>
#   <tool_call>now
#   </tool_call>
GLM45 = Dialect(
    name="glm45",
    family=Family(
        "GLM-4.5, 4.6",
        model_names=("GLM 4.5", "GLM 4.6"),
        aliases=("glm", "glm45_moe", "glm4"),
        reasoning_aliases=("glm45",),
        fingerprint=("[gMASK]<sop>",),
    ),
    call=("<tool_call>{name}\n{params}</tool_call>",),
    writing=Writing(before_calls="\n", between_calls="\n"),
    param=(GLM_PARAM,),
    values=GLM_VALUES,
    also_accepts=GLM_ALSO_ACCEPTS,
    reasoning=("<think>{text}</think>\n",),
    stop=GLM_STOPS,
    prompt=Prompt(ends=GLM_PROMPT),
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, eos=GLM_EOS, thinking=HYBRID),
)

# Small Laguna models sometimes write a call inside the tag for a role, such as <user>.
LAGUNA_ROLES = (
    Dialect(
        name="poolside_v1",
        section=tuple(
            Section(f"<{role}>\n{{calls}}\n</{role}>", declared_only=True) for role in ("user", "system")
        ),
        call=(*GLM45.call, "<tool_call>{name}</tool_call>", "{envelope}"),
        param=GLM45.param,
    ),
)

# Sample output:
#   <think>The user wants the weather.</think>
#   Let me check.
#   <tool_call>get_weather
#   <arg_key>city</arg_key>
#   <arg_value>Paris</arg_value>
#   <arg_key>days</arg_key>
#   <arg_value>3</arg_value>
#   </tool_call>
#   <tool_call>now
#   </tool_call>
POOLSIDE_V1 = replace(
    GLM45,
    name="poolside_v1",
    family=Family(
        "Laguna",
        model_names=("Laguna",),
        aliases=("laguna",),
        reasoning_aliases=("poolside_v1",),
        fingerprint=("All available function signatures are listed below",),
    ),
    also_accepts=GLM_ALSO_ACCEPTS + LAGUNA_ROLES,
    stop=("</assistant>", "〈|EOS|〉"),
    prompt=Prompt(ends=("<assistant>",), begins_turn=True),
    request=RequestFacts(
        calls_special=True,
        forced=NATIVE_FIRST,
        eos=("</assistant>",),
        thinking=replace(GLM_SEEDED, default="off"),
        checkpoints=(("laguna_s", GLM_SEEDED),),
    ),
)

# -- dialects without newlines between the tags

# Sample output:
#   <think>The user wants the weather.</think>Let me check.<tool_call>get_weather\
#   <arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>days</arg_key>\
#   <arg_value>3</arg_value></tool_call><tool_call>now</tool_call>
GLM47 = Dialect(
    name="glm47",
    family=Family(
        "GLM-4.7, GLM-5",
        model_names=("GLM 4.7", "GLM 5", "GLM 5.*"),
        aliases=("glm47_moe", "glm_4.7", "glm_4_7", "glm_ocr"),
        reasoning_aliases=("glm47",),
        fingerprint=("[gMASK]<sop>",),
    ),
    call=("<tool_call>{name}{params}</tool_call>",),
    param=("<arg_key>{key}</arg_key><arg_value>{value}</arg_value>", GLM_PARAM),
    values=GLM_VALUES,
    also_accepts=GLM_ALSO_ACCEPTS,
    reasoning=THINK_INLINE,
    stop=GLM_STOPS,
    prompt=Prompt(ends=GLM_PROMPT),
    request=RequestFacts(
        calls_special=False,
        forced=NATIVE_FIRST,
        eos=GLM_EOS,
        thinking=GLM_SEEDED,
        checkpoints=(("glm53", replace(ALWAYS, seed="<think>", switches=("reasoning_effort",))),),
    ),
)

# Sample output:
#   <think>The user wants the weather.</think>Let me check.<tool_call>get_weather\
#   <arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>days</arg_key>\
#   <arg_value>3</arg_value></tool_call><tool_call>now</tool_call>
LING3 = replace(
    GLM47,
    name="ling3",
    family=Family(
        "Ling 3, Ring-2.6",
        model_names=("Ling 3", "Ling 3.*", "Ring 2.6"),
        aliases=("ling",),
        reasoning_aliases=("ling3",),
        fingerprint=("<|role_end|>", "model_type: bailing"),
    ),
    stop=("<|role_end|>", "<|endoftext|>"),
    prompt=Prompt(),
    request=RequestFacts(calls_special=False, forced=NATIVE, eos=(), thinking=GLM_SEEDED),
)

# Sample output:
#   <think>The user wants the weather.</think>Let me check.<tool_call>get_weather\
#   <arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>days</arg_key>\
#   <arg_value>3</arg_value></tool_call><tool_call>now</tool_call>
SPARK25 = replace(
    GLM47,
    name="spark25",
    family=Family(
        "Spark-X2.5", model_names=("Spark X2.5", "Spark2.5"), fingerprint=("model_type: spark2_5",)
    ),
    stop=("<end>", "<|im_end|>"),
    prompt=Prompt(),
    request=RequestFacts(calls_special=False, forced=NATIVE, eos=(), thinking=HYBRID),
)

# Sample output:
#   <think>The user wants the weather.</think>Let me check.\
#   <iquest_tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>\
#   <arg_key>days</arg_key><arg_value>3</arg_value></iquest_tool_call>\
#   <iquest_tool_call>now</iquest_tool_call>
IQUEST_Q1 = replace(
    GLM47,
    name="iquest_q1",
    family=Family(
        "IQuest-Q1", model_names=("IQuest Q1",), aliases=("iquest",), reasoning_aliases=("iquest_q1",)
    ),
    call=("<iquest_tool_call>{name}{params}</iquest_tool_call>",),
    also_accepts=(),
    stop=("<|iquest_end|>", "<|endoftext|>"),
    prompt=Prompt(ends=("<|iquest_assistant|>",)),
    request=RequestFacts(
        calls_special=True,
        forced=JSON_FIRST,
        eos=("<|iquest_end|>",),
        thinking=GLM_SEEDED,
    ),
)
