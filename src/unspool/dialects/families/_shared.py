"""Templates and values that several families share."""

from typing import Final

from .._declaration import Dialect, Values
from .._family_request_facts import Mode
from .._placed_templates import Section

CHATML_STOPS = ("<|im_end|>", "<|endoftext|>")
LLAMA_STOPS = ("<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<|end_of_text|>", "<|im_end|>", "</s>")
IM_END = ("<|im_end|>",)

# -- bodies of <tool_call>
# Three formats of calls use the <tool_call> tags.  Models that were trained on several of these formats mix
# them up, and users may select the wrong dialect.  So each of the three dialects also accepts the other two
# formats.

QWEN_PARAM = "<parameter={key}>\n{value}\n</parameter>\n"
GLM_PARAM = "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"

JSON_BODY = (
    Dialect(
        name="hermes",
        section=("{calls}", "<tool_call>[{calls}]</tool_call>"),
        call=("<tool_call>\n{envelope}\n</tool_call>", "{envelope}"),
        separators=(",",),
    ),
)
QWEN_BODY = (
    Dialect(
        name="qwen3_coder",
        section=("<tool_call>\n{calls}\n</tool_call>",),
        call=("<function={name}>\n{params}</function>",),
        param=(QWEN_PARAM,),
        values=Values(python=True),
    ),
)
GLM_BODY = (
    Dialect(name="glm45", call=("<tool_call>{name}\n{params}</tool_call>",), param=(GLM_PARAM,)),
    # A function name without parameters is a call only if there is a tool with this name.
    Dialect(
        name="glm45",
        section=(Section("{calls}", declared_only=True),),
        call=("<tool_call>{name}</tool_call>",),
    ),
)

THINK_LINES = ("<think>\n{text}\n</think>\n",)
THINK_INLINE = ("<think>{text}</think>",)

NATIVE: Final[tuple[Mode, ...]] = ("native",)
NATIVE_FIRST: Final[tuple[Mode, ...]] = ("native", "json")
JSON_FIRST: Final[tuple[Mode, ...]] = ("json", "native")
JSON: Final[tuple[Mode, ...]] = ("json",)
