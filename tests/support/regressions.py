"""Regressions: bugs that users have reported against other parsers, one row per bug.

``ROWS`` has the bugs that a single output shows: text in, message out.  All others (streams, wire formats,
time) are functions in ``test_regressions.py``.

In a text, ``⏵`` marks the chunk boundary that triggered the bug; it is not part of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unspool import Dialect, Policies, list_dialects
from unspool.dialects import Names, Section
from unspool.dialects.parse_templates import template_text
from unspool.events import FinishReason

IDS = {
    "A": "01 02 04 05 07 08 10 11 13 14 16",  # several tokens in one delta
    "B": "01 02 04 05 07 08 10 11 13 14 16",  # reasoning and calls
    "C": "01 02 04 05 07 08 10 11 13 14 16",  # types and schemas
    "D": "01 02 04 05 07 08 10 11 13 14",  # markup leaks
    "E": "01 02 04 05 07 08 10 11 13 14",  # delimiters inside values
    "F": "01 02 04 05 07 08",  # argument deltas doubled or dropped
    "G": "01 02 04 05 07 08 10 11",  # crashes on malformed output
    "H": "01 02 04 05 07 08 10 11",  # unusual or wrong dialect
    "I": "01 02 04 05 07 08 10",  # tool_choice, guided output
    "J": "01 02 04 05 07",  # truncation, finish reasons
    "K": "01 02 04 05 07",  # text around calls, whitespace
    "L": "01 02 04 05 07 08 10",  # the wire
    "M": "01 02 04 05",  # token ids
    "N": "01 02 04 05",  # Unicode
    "O": "01 02 04",  # missing arguments
    "P": "01 02",  # undeclared tools
    "Q": "01 02",  # skip_special_tokens
    "R": "01 02 04 05",  # complexity
}
"""Ids of all rows.  The numbers have gaps, because bugs that were reported twice are one row."""

INCOMPLETE = {
    "M04": "the gateway: ids are unique in a conversation, too, for families that number their calls",
}
"""Rows that are tested in part, with the missing part."""


@dataclass(frozen=True)
class Case:
    """Output of a model with the expected message."""

    dialect: str | Dialect
    raw: str
    calls: Sequence[tuple[str, Any]] = ()  # arguments: a value, or exact JSON text
    content: str | None = None
    reasoning: str | None = None
    finish: FinishReason | None = None  # None: `tool_calls` if there are calls, else `stop`
    diagnostics: Sequence[str] | None = None  # None: not checked
    ids: Sequence[str] | None = None
    order: str = ""  # expected order of parts: r(easoning), c(ontent), t(ool call)
    tools: Sequence[dict[str, Any]] | None = None
    prompt: str | None = None
    backend_reason: FinishReason | None = None  # finish reason of the backend
    policies: Policies | None = None
    label: str = ""  # distinguishes cases of one dialect in test names

    @property
    def name(self) -> str:
        return self.dialect if isinstance(self.dialect, str) else self.dialect.name


@dataclass(frozen=True)
class Row:
    """Bug: where it was reported, what users saw, and cases that must not show it."""

    id: str
    thread: str
    saw: str
    cases: tuple[Case, ...]


def row(id: str, thread: str, saw: str, *cases: Case) -> Row:
    return Row(id, thread, saw, cases)


def tool(name: str, /, **parameters: object) -> dict[str, Any]:
    """Return a tool; parameters are schemas or names of types."""
    schemas = {k: {"type": s} if isinstance(s, str) else s for k, s in parameters.items()}
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": schemas}},
    }


def named(name: str) -> Dialect:
    """Return the dialect of guided output for a named function: nothing but its arguments."""
    return Dialect(
        f"named_{name}",
        call=("{args}",),
        section=(Section("{calls}", only_at_start=True),),
        names=Names(fixed=name),
    )


THINKERS = [
    dialect.name
    for dialect in list_dialects()
    if dialect.reasoning[:1] and "<think>" in template_text(dialect.reasoning[0])
]
"""Dialects with reasoning in <think> tags."""

F = tool("f")
F1 = [("f", {"a": 1})]
TEXT = Policies(calls_in_reasoning="text")


def qwen(name: str, *parameters: tuple[str, str]) -> str:
    """Return a call in the dialect of Qwen3-Coder."""
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


def glm(name: str, *parameters: tuple[str, str]) -> str:
    """Return a call in the dialect of GLM-4.7."""
    body = "".join(f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>" for key, value in parameters)
    return f"<tool_call>{name}{body}</tool_call>"


def minimax(name: str, *parameters: tuple[str, str]) -> str:
    """Return a call in the dialect of MiniMax-M2."""
    body = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in parameters)
    return f'<minimax:tool_call>\n<invoke name="{name}">\n{body}</invoke>\n</minimax:tool_call>'


def hermes(arguments: str, name: str = "f") -> str:
    """Return a call in the dialect of Hermes."""
    return f'<tool_call>\n{{"name":"{name}","arguments":{arguments}}}\n</tool_call>'


def kimi(arguments: str, name: str = "functions.f:0") -> str:
    """Return a call in the dialect of Kimi K2, without the section."""
    return f"<|tool_call_begin|>{name}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def inkling(arguments: str, name: str = "f") -> str:
    """Return a call in the dialect of Inkling."""
    return f'<|content_invoke_tool_json|>{{"name":"{name}","args":{arguments}}}<|end_message|>'


def dsml(*invokes: str) -> str:
    """Return a section of calls in the dialect of DeepSeek V4."""
    return f"<｜DSML｜tool_calls>\n{''.join(invokes)}</｜DSML｜tool_calls>"


def invoke(name: str, *strings: tuple[str, str]) -> str:
    """Return one call for ``dsml``."""
    body = "".join(
        f'<｜DSML｜parameter name="{key}" string="true">{value}</｜DSML｜parameter>\n'
        for key, value in strings
    )
    return f'<｜DSML｜invoke name="{name}">\n{body}</｜DSML｜invoke>\n'


DEEPSEEK_V3_CALL = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>"
STEP3_CALLS = (
    '<steptml:invoke name="w"><steptml:parameter name="city">SF</steptml:parameter></steptml:invoke>',
    '<steptml:invoke name="t"><steptml:parameter name="tz">UTC</steptml:parameter></steptml:invoke>',
)
NULLABLE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
NULLABLE_STRING = {"anyOf": [{"type": "string"}, {"type": "null"}]}
E01 = "<parameter>\n<hello></hello></parameter>\n"
E08 = 'sql(<|"|><|"|><|"|> S <|"|><|"|><|"|>)'
NO_OPENER = "I will look.\n\n" + qwen("Glob", ("pattern", "*.md")).removeprefix("<tool_call>\n")
UNFINISHED = '<tool_call>{"name":"w","arguments":{"c":"aaa'
UNKNOWN = '<tool_call>{"name":"nope","arguments":{'
CHATML = "<|im_start|>system\nCall tools as <tool_call>{...}</tool_call>.<|im_end|>\n<|im_start|>user\n"
TURNS = "hi<|im_end|>\n<|im_start|>assistant\n<think>\nHm.\n</think>\n\nHello!<|im_end|>\n<|im_start|>user\n"

ROWS = [
    # -- several tokens in one delta
    row(
        "A01",
        "vllm#32152",
        "the last brace is dropped",
        Case("hermes", '<tool_call>\n{"name":"f","arguments":{"a":1⏵}}\n</tool_call>', F1),
    ),
    row(
        "A02",
        "vllm PR #35615",
        "one of two parameters is lost",
        Case(
            "qwen3_coder", qwen("f", ("a", "1"), ("b", "2")), [("f", {"a": "1", "b": "2"})], label="strings"
        ),
        Case(
            "qwen3_coder",
            qwen("f", ("a", "1"), ("b", "2")),
            [("f", {"a": 1, "b": 2})],
            tools=[tool("f", a="integer", b="integer")],
            label="integers",
        ),
    ),
    row(
        "A04",
        "vllm#47907",
        "no call at all in a stream",
        Case("granite", '<tool_call>[{"name":"f","arguments":{"a":1}}]', F1),
        Case("gigachat3", '<|function_call|>{"name":"f","arguments":{"a":1}}', F1),
    ),
    row(
        "A05",
        "vllm#48294",
        "the branch for a new call returns nothing, and no delta follows",
        Case("llama3_json", '{"name":"f","parameters":{"a":1}}', F1),
        Case("jamba", '<tool_calls>[{"name":"f","arguments":{"a":1}}]</tool_calls>', F1),
        Case("ernie45", hermes('{"a":1}'), F1),
    ),
    row(
        "A07",
        "vllm#48020",
        "start and end in one delta: the counters agree, and nothing happens",
        *(
            Case(
                dialect,
                f"<｜tool▁calls▁begin｜>{DEEPSEEK_V3_CALL}<｜tool▁calls▁end｜>",
                [("f", {})],
            )
            for dialect in ("deepseek_v3", "deepseek_v3_1")
        ),
    ),
    row(
        "A08",
        "vllm#55195",
        "reasoning and content are glued together, or the marker stays",
        *(Case(dialect, "<think>r</think>c", reasoning="r", content="c") for dialect in THINKERS),
    ),
    row(
        "A10",
        "sglang PR #31860",
        "one of four calls is streamed",
        Case(
            "inkling",
            "<|message_model|>".join(inkling(f'{{"n":{n}}}') for n in range(4)),
            [("f", {"n": n}) for n in range(4)],
        ),
    ),
    row(
        "A11",
        "sglang PR #34925",
        "parameters of the second call end up in the first",
        Case(
            "step3",
            "".join(STEP3_CALLS),
            [("w", {"city": "SF"}), ("t", {"tz": "UTC"})],
            tools=[tool("w", city="string"), tool("t", tz="string")],
            label="bare",
        ),
        Case(
            "step3",
            "<｜tool_calls_begin｜>"
            + "".join(
                f"<｜tool_call_begin｜>function<｜tool_sep｜>{call}<｜tool_call_end｜>"
                for call in STEP3_CALLS
            )
            + "<｜tool_calls_end｜>",
            [("w", {"city": "SF"}), ("t", {"tz": "UTC"})],
            label="framed",
        ),
    ),
    row(
        "A13",
        "rtp-llm PR #694",
        "close and open, fused in one delta, lose a call",
        Case("hermes", hermes('{"a":1}') + "⏵" + hermes("{}", "g"), [*F1, ("g", {})]),
        Case("qwen3_coder", qwen("f", ("a", "1")) + "⏵" + qwen("g"), [("f", {"a": "1"}), ("g", {})]),
    ),
    row(
        "A14",
        "vllm PR #37071",
        "changes of channel inside one engine step are lost",
        Case(
            "harmony",
            "<|channel|>analysis<|message|>r<|end|><|start|>assistant<|channel|>commentary to=functions.f"
            "<|message|>{}<|call|>",
            [("f", {})],
            reasoning="r",
            order="rt",
        ),
    ),
    row(
        "A16",
        "sglang PR #34458",
        "the result depends on the size of the chunks",
        *(
            Case(
                dialect,
                "Let me see.\n\n" + dsml(invoke("f", ("q", "x < y"), ("c", 'a "b"\n')), invoke("g")),
                [("f", {"q": "x < y", "c": 'a "b"\n'}), ("g", {})],
                content="Let me see.",
            )
            for dialect in ("deepseek_v3_2", "deepseek_v4", "deepseek_v41")
        ),
    ),
    # -- reasoning and calls
    row(
        "B01",
        "vllm#39056, #42021, PR #55759",
        "a call inside thinking is swallowed",
        *(
            case
            for dialect in ("qwen3_coder", "nemotron_v3")
            for case in (
                Case(
                    dialect,
                    f"<think>I will call {qwen('f')}\n</think>",
                    [("f", {})],
                    reasoning="I will call",
                    label="call",
                ),
                Case(
                    dialect,
                    f"<think>I will call {qwen('f')}\n</think>",
                    reasoning=f"I will call {qwen('f')}",
                    policies=TEXT,
                    label="text",
                ),
            )
        ),
    ),
    # The report wants the draft ignored because a call follows outside reasoning. A stream cannot know
    # that; by default both are calls, and the policy gives the requested behaviour.
    row(
        "B02",
        "PrimeIntellect renderers#78, PR #80",
        "a duplicate call, no call, or the wrong one of two",
        *(
            case
            for dialect, draft, call in (
                (
                    "hermes",
                    '<tool_call>{"name":"f","arguments":{"x":1}}</tool_call>',
                    '<tool_call>{"name":"f","arguments":{"x":2}}</tool_call>',
                ),
                ("kimi_k2", kimi('{"x":1}'), kimi('{"x":2}', "functions.f:1")),
                (
                    "deepseek_v3",
                    DEEPSEEK_V3_CALL.replace("{}", '{"x":1}'),
                    DEEPSEEK_V3_CALL.replace("{}", '{"x":2}'),
                ),
            )
            for case in (
                Case(
                    dialect,
                    f"<think>draft {draft}</think>{call}",
                    [("f", {"x": 2})],
                    reasoning=f"draft {draft}",
                    policies=TEXT,
                    label="text",
                ),
                Case(
                    dialect,
                    f"<think>draft {draft}</think>{call}",
                    [("f", {"x": 1}), ("f", {"x": 2})],
                    reasoning="draft",
                    label="call",
                ),
            )
        ),
    ),
    row(
        "B04",
        "vllm PRs #35687 #33646; ollama #14477 #15022",
        "without </think> all of it stays reasoning",
        Case(
            "hermes",
            '<think>need f<tool_call>{"name":"f","arguments":{}}</tool_call>',
            [("f", {})],
            reasoning="need f",
        ),
        Case("kimi_k2", f"<think>need f{kimi('{}')}", [("f", {})], reasoning="need f", label="bare"),
        Case(
            "kimi_k2",
            f"<think>need f<|tool_calls_section_begin|>{kimi('{}')}<|tool_calls_section_end|>",
            [("f", {})],
            reasoning="need f",
            label="section",
        ),
    ),
    row(
        "B05",
        "vllm#13125, PR #13025",
        "the template opened <think>, and all reasoning becomes content",
        Case(
            "deepseek_v3",
            "The user greets me.\n</think>\n\nHello!",
            prompt="<｜User｜>Hi<｜Assistant｜><think>\n",
            reasoning="The user greets me.",
            content="Hello!",
        ),
    ),
    row(
        "B07",
        "vllm PRs #45763 #44551",
        "an example or an old </think> in the prompt: reasoning counts as ended",
        Case(
            "hermes",
            "Let me see.\n</think>\n\nok",
            prompt=f"{CHATML}{TURNS}go on<|im_end|>\n<|im_start|>assistant\n<think>\n",
            reasoning="Let me see.",
            content="ok",
            label="open",
        ),
        Case(
            "hermes",
            "ok",
            prompt=f"{CHATML}What does <think> do?<|im_end|>\n<|im_start|>assistant\n",
            content="ok",
            label="not_open",
        ),
        Case(
            "hermes",
            "ok",
            prompt=f"{CHATML}{TURNS}go on<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
            content="ok",
            label="closed",
        ),
        Case(
            "cohere",
            "Hm.<|END_THINKING|><|START_RESPONSE|>ok<|END_RESPONSE|>",
            prompt="<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>a<|END_THINKING|>"
            "<|START_RESPONSE|>b<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"
            "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>go on<|END_OF_TURN_TOKEN|>"
            "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>",
            reasoning="Hm.",
            content="ok",
        ),
    ),
    row(
        "B08",
        "vllm PRs #35230 #39091; dynamo #7225",
        "reasoning without an end becomes content, or is lost",
        *(
            Case(
                dialect,
                "<think>long unfinished",
                reasoning="long unfinished",
                backend_reason="length",
                finish="length",
            )
            for dialect in ("hermes", "qwen3_coder", "nemotron_v3")
        ),
    ),
    # Without ids, the first closing marker ends reasoning; a second one has no opener and is removed.
    row(
        "B10",
        "llama.cpp#27661",
        "cut at a mention of the marker",
        Case(
            "hermes",
            "<think>the tag `</think>` ends it</think>ok",
            reasoning="the tag `",
            content="` ends itok",
            diagnostics=["stray_closer"],
        ),
    ),
    row(
        "B11",
        "llama.cpp PR #24674",
        "the template opened <think>: reasoning leaks",
        Case(
            "nemotron_json",
            'I am\nthinking\n</think>\n<TOOLCALL>[{"name":"f","arguments":{"a":1}}]</TOOLCALL>',
            F1,
            reasoning="I am\nthinking",
            prompt="<SPECIAL_11>Assistant\n<think>\n",
        ),
    ),
    row(
        "B13",
        "vllm PR #45852",
        "the prompt ends inside the channel: mis-routed",
        Case(
            "gemma4",
            "thought text<channel|>answer",
            reasoning="thought text",
            content="answer",
            prompt="<|turn>user\nhi<turn|>\n<|turn>model\n<|channel>thought\n",
        ),
    ),
    row(
        "B14",
        "dynamo PRs #8240 #9995 #10250",
        "reasoning and </think> stay in the content",
        *(
            case
            for dialect in ("glm45", "glm47")
            for case in (
                Case(
                    dialect,
                    "thinking</think>answer",
                    reasoning="thinking",
                    content="answer",
                    prompt="[gMASK]<sop><|user|>\nhi<|assistant|>\n<think>",
                    label="opened",
                ),
                Case(dialect, "thinking</think>answer", content="thinkinganswer", label="stray"),
            )
        ),
    ),
    row(
        "B16",
        "vllm PR #47606, #50528, #51391",
        "a call without thinking before it: the end of the block leaks",
        Case("inkling", inkling("{}") + "<|content_model_end_sampling|>", [("f", {})], label="no_header"),
        Case("inkling", "f" + inkling("{}"), [("f", {})], prompt="<|message_model|>", label="in_header"),
        Case("inkling", "<|message_model|>f" + inkling("{}"), [("f", {})], label="header"),
    ),
    # -- types and schemas
    row(
        "C01",
        "vllm PRs #37831->#38973, #36032; dynamo #7847",
        "a number becomes a string, or is encoded twice",
        *(
            Case(
                "qwen3_coder",
                qwen("f", ("n", text)),
                [("f", {"n": value})],
                label=f"{kind}-{text}",
                tools=[
                    {
                        "type": "function",
                        "function": {
                            "name": "f",
                            "parameters": {
                                "type": "object",
                                "properties": {"n": schema},
                                "$defs": {"count": {"type": ["integer", "null"]}},
                            },
                        },
                    }
                ],
            )
            for kind, schema in {
                "anyOf": NULLABLE,
                "oneOf": {"oneOf": NULLABLE["anyOf"]},
                "allOf": {"allOf": [{"type": ["integer", "null"]}, {"description": "a count"}]},
                "ref": {"$ref": "#/$defs/count"},
                "array": {"type": ["integer", "null"]},
                "nullable": {"type": "integer", "nullable": True},
            }.items()
            for text, value in (("5", 5), ("null", None))
        ),
    ),
    row(
        "C02",
        "vllm PR #39679",
        'null becomes "null"',
        Case(
            "gemma4",
            "<|tool_call>call:f{p:null}<tool_call|>",
            [("f", {"p": None})],
            tools=[tool("f", p=NULLABLE_STRING)],
        ),
    ),
    row(
        "C04",
        "vllm PR #42128",
        "108. is sent as 108 and corrected later, so the JSON is invalid",
        Case(
            "gemma4",
            "<|tool_call>call:f{left:108.⏵0,right:22.8}<tool_call|>",
            [("f", '{"left": 108.0, "right": 22.8}')],
        ),
    ),
    row(
        "C05",
        "vllm PR #43984",
        "Infinity in the arguments, which is not JSON",
        *(
            Case(dialect, text, [("f", {"x": value})], tools=[tool("f", x="number")], label=value)
            for value in ("1e999", "-1e999", "NaN", "Infinity")
            for dialect, text in (("glm47", glm("f", ("x", value))), ("qwen3_coder", qwen("f", ("x", value))))
        ),
    ),
    row(
        "C07",
        "vllm PR #55743; dynamo #9807 #10101; ollama #18341; hermes-agent #40763",
        "digits change",
        *(
            Case(
                dialect,
                text,
                [("f", f'{{"id": {digits}}}')],
                tools=[tool("f", id=kind)],
                label=f"{kind}-{digits}",
            )
            for kind, digits in (
                ("integer", "9223372036854775807"),
                ("number", "9223372036854775807"),
                ("integer", "-123456789012345678901234567890"),
                ("number", "1e20"),
                ("number", "0.1000000000000000055511151231257827"),
            )
            for dialect, text in (
                ("qwen3_coder", qwen("f", ("id", digits))),
                ("glm47", glm("f", ("id", digits))),
                ("minimax_m2", minimax("f", ("id", digits))),
            )
        ),
        Case("hermes", hermes('{"id": 9223372036854775807}'), [("f", '{"id": 9223372036854775807}')]),
    ),
    row(
        "C08",
        "sglang#35564, PR #36688",
        "123abc is streamed bare; a last nested object stays open",
        Case(
            "glm47",
            glm("f", ("x", "123abc")),
            [("f", {"x": "123abc"})],
            tools=[tool("f", x="string")],
            label="string",
        ),
        Case("glm47", glm("f", ("x", "123abc")), [("f", {"x": "123abc"})], tools=[F], label="undeclared"),
        Case(
            "glm47",
            glm("f", ("x", "123abc")),
            [("f", {"x": "123abc"})],
            tools=[tool("f", x="integer")],
            label="integer",
        ),
        Case(
            "glm47",
            glm("f", ("x", "y"), ("o", '{"a":{"b":[1]}}')),
            [("f", {"x": "y", "o": {"a": {"b": [1]}}})],
            tools=[tool("f", x="string", o="object")],
            label="nested",
        ),
    ),
    row(
        "C10",
        "vllm PR #48298",
        "a list without a schema: string here, list there",
        *(
            Case(
                "glm47",
                glm("f", ("n", "[1, 2.5]")),
                [("f", {"n": value})],
                tools=tools,
                policies=policies,
                label=label,
            )
            for label, tools, policies, value in (
                ("no_tools", None, None, "[1, 2.5]"),
                ("no_properties", [F], None, "[1, 2.5]"),
                ("no_tools-json", None, Policies(schemaless_value="json"), [1, 2.5]),
                ("no_properties-json", [F], Policies(schemaless_value="json"), [1, 2.5]),
            )
        ),
    ),
    row(
        "C11",
        "mlx-lm PR #1417",
        "an integer written as 5.0: the call is dropped",
        Case("qwen3_coder", qwen("f", ("n", "5.0")), [("f", {"n": 5})], tools=[tool("f", n="integer")]),
    ),
    row(
        "C13",
        "ds4#569",
        "every value is a string",
        *(
            Case(dialect, glm("f", ("max", "10")), [("f", {"max": 10})], tools=[tool("f", max="number")])
            for dialect in ("glm45", "glm47")
        ),
    ),
    row(
        "C14",
        "llama.cpp PR #21327",
        "a nullable string is parsed as JSON, and fails",
        *(
            Case(dialect, text, [("f", {"name": "Bob"})], tools=[tool("f", name=schema)], label=label)
            for dialect, text in (
                ("qwen3_coder", qwen("f", ("name", "Bob"))),
                ("glm47", glm("f", ("name", "Bob"))),
            )
            for label, schema in (
                ("types", {"type": ["string", "null"]}),
                ("enum", {"enum": ["Bob", "Eve"]}),
                ("nullable_enum", {"enum": ["Bob", None]}),
            )
        ),
    ),
    row(
        "C16",
        "vllm PR #45147",
        "a tool that is not a function crashes the parser",
        *(
            Case(
                dialect,
                text,
                [("f", {"n": value})],
                content="Hi.",
                tools=[{"type": "web_search"}, tool("f", n="integer"), {"type": "mcp", "server_label": "x"}],
            )
            for dialect, text, value in (
                ("hermes", "Hi.\n" + hermes('{"n":1}'), 1),
                ("qwen3_coder", "Hi.\n\n" + qwen("f", ("n", "1")), 1),
            )
        ),
    ),
    # -- markup leaks
    row(
        "D01",
        "vllm#40801, fix #40806",
        "a marker, split over two deltas, leaks half of itself",
        *(
            Case(
                dialect,
                "On it.\n" + dsml(invoke("f", ("q", "x"))).replace("<｜DSML", "<｜DSML⏵", 1),
                [("f", {"q": "x"})],
                content="On it.",
            )
            for dialect in ("deepseek_v3_2", "deepseek_v4", "deepseek_v41")
        ),
    ),
    row(
        "D02",
        "vllm#53227, PR #45877",
        "a close tag without its > is flushed into the value",
        *(
            Case(
                dialect,
                '<｜DSML｜tool_calls><｜DSML｜invoke name="bash"><｜DSML｜parameter name="c" string="true">'
                "ls 2>&1</｜DSML｜parameter⏵></｜DSML｜invoke></｜DSML｜tool_calls>",
                [("bash", {"c": "ls 2>&1"})],
            )
            for dialect in ("deepseek_v3_2", "deepseek_v4", "deepseek_v41")
        ),
    ),
    row(
        "D04",
        "vllm#32587",
        "a header token becomes part of the name",
        Case(
            "harmony",
            "<|channel|>commentary to=functions.q<|channel|>commentary<|message|>{}<|call|>",
            [("q", {})],
        ),
    ),
    row(
        "D05",
        "vllm#28543, #38579",
        "section markers leak, text before them is lost, arguments are cut",
        Case(
            "kimi_k2",
            f"Ok<|tool_calls_section⏵_begin|>{kimi('{}')}<|tool_calls_section_end|>",
            [("f", {})],
            content="Ok",
            ids=["functions.f:0"],
        ),
    ),
    row(
        "D07",
        "vllm PR #48748",
        "the end of the turn appears in the reasoning",
        Case("hermes", "<think>a<|im_end|>", reasoning="a"),
        Case("glm47", "<think>a<|user|>", reasoning="a"),
    ),
    row(
        "D08",
        "dynamo PR #10115",
        "the markers of a good call stay in the content",
        Case("nemotron_json", '<TOOLCALL>[{"name":"f","arguments":{}}]</TOOLCALL>', [("f", {})]),
    ),
    row(
        "D10",
        "ollama PR #15370",
        "a second close tag leaks",
        Case("gemma4", "<|tool_call>call:f{}<tool_call|><tool_call|>Done", [("f", {})], content="Done"),
    ),
    # The parser of another family must treat it entirely as text or entirely as a call.
    row(
        "D11",
        "Rapid-MLX#448",
        "<function leaks although the call is recovered",
        Case(
            "qwen3_coder",
            "<tool_call>\n<func⏵tion=run_tests>\n</function>\n</tool_call>",
            [("run_tests", {})],
        ),
        Case(
            "hermes",
            "<tool_call>\n<func⏵tion=run_tests>\n</function>\n</tool_call>",
            [("run_tests", {})],
        ),
    ),
    row(
        "D13",
        "Rapid-MLX PR #1592",
        "half of an imitated transcript leaks",
        *(
            Case(
                dialect,
                '[Call⏵ing tool: browse({"url":"u"})]',
                content='[Calling tool: browse({"url":"u"})]',
                tools=[tool("browse", url="string")],
            )
            for dialect in ("lfm2", "pythonic")
        ),
    ),
    row(
        "D14",
        "sglang#23071, PR #24995",
        "a chunk shorter than the start tag: the whole call is text",
        Case(
            "minimax_m2",
            '<minimax⏵:tool_call><invoke name="f"><parameter name="a">1</parameter></invoke>'
            "</minimax:tool_call>",
            F1,
            tools=[tool("f", a="integer")],
        ),
    ),
    # -- delimiters inside values
    row(
        "E01",
        "vllm#44060",
        "cut at the first </parameter>",
        Case("minimax_m2", minimax("f", ("content", E01)), [("f", {"content": E01})]),
    ),
    row(
        "E02",
        "Rapid-MLX#1515, #1542; ninfer#138",
        "files that mention </tool_call> cannot be written",
        Case(
            "qwen3_coder",
            qwen("write_file", ("content", "ends with </tool_call> here")),
            [("write_file", {"content": "ends with </tool_call> here"})],
        ),
        Case(
            "qwen3_coder",
            qwen("write_file", ("content", "a </parameter> b </function>\nc")),
            [("write_file", {"content": "a </parameter> b </function>\nc"})],
            label="other_tags",
        ),
    ),
    row(
        "E04",
        "smg PR #1942",
        "cut at the first </arg_value>",
        *(
            Case(dialect, glm("f", ("x", "a </arg_value> b")), [("f", {"x": "a </arg_value> b"})])
            for dialect in ("glm45", "glm47")
        ),
    ),
    row(
        "E05",
        "ollama PR #16937",
        "a brace inside a string is counted",
        *(
            Case(
                dialect,
                f'{{"name":"f","{key}":{{"code":"if (x) {{ y }}"⏵}}}}',
                [("f", {"code": "if (x) { y }"})],
            )
            for dialect, key in (("generic_json", "arguments"), ("llama3_json", "parameters"))
        ),
    ),
    row(
        "E07",
        "sglang PR #16345",
        "a bracket in an argument confuses the separator of calls",
        *(
            Case(
                dialect,
                '[{"name":"a","parameters":{"t":["x"]}},{"name":"b","parameters":{"t":["y"]}}]',
                [("a", {"t": ["x"]}), ("b", {"t": ["y"]})],
            )
            for dialect in ("generic_json", "xlam")
        ),
    ),
    row(
        "E08",
        "vllm#44715, PR #48678",
        "cut at the first delimiter inside; the rest becomes keys",
        Case(
            "gemma4",
            f'<|tool_call>call:run{{code:<|"|>{E08}<|"|>,n:1}}<tool_call|>',
            [("run", {"code": E08, "n": 1})],
        ),
    ),
    row(
        "E10",
        "vllm PR #48171",
        "a call with ] or a line break in a string is dropped",
        *(
            Case(
                dialect, f"{before}{text}{after}", [("bash", {"command": 'grep -F "]" log\nx'})], label=label
            )
            for dialect, before, after in (
                ("pythonic", "", ""),
                ("lfm2", "<|tool_call_start|>", "<|tool_call_end|>"),
            )
            for label, text in (
                ("escape", '[bash(command="grep -F \\"]\\" log\\nx")]'),
                ("line_break", "[bash(command='grep -F \"]\" log\nx')]"),
            )
        ),
    ),
    row(
        "E11",
        "vllm PRs #27701 #28789 #20093; ollama #13905; Rapid-MLX #921",
        "the innermost object is taken for the call",
        Case(
            "llama3_json",
            '{"name":"f","parameters":{"r":{"a":{"b":"c"}}}}',
            [("f", {"r": {"a": {"b": "c"}}})],
        ),
        Case(
            "mistral",
            '[TOOL_CALLS][{"name":"f","arguments":{"r":{"a":{"b":"c"}}}}]',
            [("f", {"r": {"a": {"b": "c"}}})],
            label="array",
        ),
        Case(
            "mistral",
            '[TOOL_CALLS]f[ARGS]{"r":{"a":{"b":"c"}}}',
            [("f", {"r": {"a": {"b": "c"}}})],
            label="v11",
        ),
    ),
    row(
        "E13",
        "smg PR #1899; ollama",
        "XML entities are decoded, or the XML parser fails",
        *(
            Case(dialect, write("f", ("q", "Tom &amp; a<b && c")), [("f", {"q": "Tom &amp; a<b && c"})])
            for dialect, write in (("qwen3_coder", qwen), ("glm47", glm), ("minimax_m2", minimax))
        ),
    ),
    row(
        "E14",
        "llama.cpp PR #24071",
        "any [ counts as the start of a call",
        *(
            Case(dialect, text, content=text, tools=[F], label=label)
            for dialect in ("lfm2", "pythonic")
            for label, text in (
                ("prose", "The list is items = [1, 2]"),
                ("list", "[1, 2] is the list"),
                ("undeclared", "See [g(x=1)] there"),
            )
        ),
    ),
    # -- argument deltas doubled or dropped
    row(
        "F01",
        "sglang#23071",
        "a second entry without a name, and the arguments twice",
        Case(
            "minimax_m2",
            '<minimax:tool_call><invoke name="bash"><parameter name="command">x</parameter>⏵'
            '<parameter name="description">d</parameter></invoke></minimax:tool_call>',
            [("bash", {"command": "x", "description": "d"})],
        ),
    ),
    row(
        "F02",
        "vllm#40195, PR #40197",
        'Smithh" is streamed; arrays get ]]',
        Case(
            "glm47",
            glm("f", ("n", "Smith")),
            [("f", {"n": "Smith"})],
            tools=[tool("f", n=NULLABLE_STRING)],
            label="string",
        ),
        Case(
            "glm47",
            glm("f", ("n", "[[1], [2]]")),
            [("f", {"n": [[1], [2]]})],
            tools=[tool("f", n={"anyOf": [{"type": "array"}, {"type": "null"}]})],
            label="array",
        ),
    ),
    row(
        "F04",
        "vllm PR #13826, #46308; sglang PR #13518",
        "arguments are sent first escaped and then raw",
        Case("llama3_json", '{"name":"f","parameters":{"q":"São"}}', [("f", '{"q":"São"}')]),
        Case("xlam", '[{"name":"f","arguments":{"q":"São"}}]', [("f", '{"q":"São"}')]),
        Case(
            "seed_oss",
            "<seed:tool_call>\n<function=f>\n<parameter=q>São</parameter>\n</function>\n</seed:tool_call>",
            [("f", '{"q": "São"}')],
        ),
    ),
    # -- crashes on malformed output
    row(
        "G01",
        "harmony#38, #60; vllm#23567 #22515 #51977 #57099",
        "an unexpected header raises HarmonyError (status 500)",
        Case(
            "harmony",
            "<|channel|>commentary to=functions.web-browsing <|constrain|>json extra<|message|>{}<|call|>",
            [("web-browsing", {})],
        ),
    ),
    row(
        "G02",
        "vllm PRs #47062 #47379",
        "<|message|> is missing: the output is lost",
        Case(
            "harmony",
            "<|channel|>analysis<|message|>t<|end|><|start|>assistant"
            '<|channel|>final {"answer":"hi"}<|return|>',
            reasoning="t",
            content='{"answer":"hi"}',
        ),
    ),
    row(
        "G04",
        "ollama#17638 #12884",
        "half an array around the arguments: 500",
        Case(
            "harmony",
            "<|channel|>commentary to=functions.apply_patch <|constrain|>json<|message|>"
            '{"input":"*** Begin Patch\\n"}]<|call|>',
            [("apply_patch", {"input": "*** Begin Patch\n"})],
            diagnostics=["trailing_data"],
        ),
    ),
    row(
        "G05",
        "llama.cpp#20260 #24644 #20761 #23838 #20532",
        "text before the call: 500",
        Case("hermes", f"I will look.\n{hermes('{}')}", [("f", {})], content="I will look."),
        Case("qwen3_coder", f"I will look.\n{qwen('f')}", [("f", {})], content="I will look."),
        Case(
            "hermes",
            "I will look.\n<tool_call>look at it</tool_call>",
            content="I will look.\n<tool_call>look at it</tool_call>",
            label="not_a_call",
        ),
    ),
    row(
        "G07",
        "vllm PRs #30555 #27565 #32321",
        "no arguments, or an odd id: IndexError",
        Case("glm45", "<tool_call>f</tool_call>", [("f", {})]),
        Case("glm47", "<tool_call>f</tool_call>", [("f", {})]),
        Case("minimax_m2", minimax("f"), [("f", {})]),
        Case("kimi_k2", kimi("{}", "f"), [("f", {})], label="no_id"),
        Case("kimi_k2", kimi("{}", "functions.f"), [("f", {})], label="no_index"),
        Case("kimi_k2", kimi("", "functions.f:0"), [("f", {})], label="no_arguments"),
    ),
    row(
        "G08",
        "sglang PR #32138",
        "a string instead of an object: 500",
        Case(
            "inkling",
            '<|content_invoke_tool_json|>"a string, not an object"<|end_message|>',
            content='"a string, not an object"',
        ),
    ),
    row(
        "G11",
        "llama.cpp PR #15639",
        "a line break before the call: crash",
        Case("hermes", '\n<tool_call>{"name":"f","arguments":{}}</tool_call>', [("f", {})]),
    ),
    # -- unusual or wrong dialects
    row(
        "H01",
        "ollama#16686 #17353 #18530, PR #17742; vllm #26345; llama.cpp #26793",
        "the model omits the opening marker, and the call leaks as text",
        *(
            Case(
                "qwen3_coder",
                NO_OPENER,
                calls,
                content=content,
                tools=[tool(name, pattern="string")],
                label=label,
            )
            for label, name, calls, content in (
                ("declared", "Glob", [("Glob", {"pattern": "*.md"})], "I will look."),
                (
                    "undeclared",
                    "Grep",
                    (),
                    NO_OPENER,
                ),
            )
        ),
    ),
    row(
        "H02",
        "sglang#40236; dynamo #10133 #10518",
        "no wrapper, half a wrapper, a bad sibling: all is content",
        *(
            case
            for dialect in ("deepseek_v3_2", "deepseek_v4", "deepseek_v41")
            for case in (
                Case(
                    dialect,
                    '<｜DSML｜invoke name="f"></｜DSML｜invoke>',
                    [("f", {})],
                    tools=[F],
                    label="no_section",
                ),
                Case(
                    dialect,
                    f"<｜DSML｜tool_calls>\n{invoke('f')}{invoke('g')}",
                    [("f", {}), ("g", {})],
                    label="section_not_closed",
                ),
                Case(
                    dialect,
                    dsml(
                        invoke("f", ("a", "1")),
                        '<｜DSML｜invoke name="bad">\n{"a": oops}\n</｜DSML｜invoke>\n',
                        invoke("g"),
                    ),
                    [("f", {"a": "1"}), ("g", {})],
                    content='<｜DSML｜invoke name="bad">\n{"a": oops}\n</｜DSML｜invoke>',
                    diagnostics=["malformed_call"],
                    label="sibling",
                ),
            )
        ),
    ),
    row(
        "H04",
        "omlx PR #1886; vllm#53431; sglang#39240",
        "nothing at all, or no arguments",
        Case("gemma4", "<|tool_call>call:f(a=1)<tool_call|>", F1, label="parentheses"),
        Case("gemma4", "<|tool_call>:f{}<tool_call|>", [("f", {})], label="no_call_word"),
        Case(
            "gemma4",
            '<|tool_call>call:f{city:Paris<|"|>}<tool_call|>',
            [("f", {"city": "Paris"})],
            label="no_opening_quote",
        ),
    ),
    row(
        "H05",
        "ollama PR #14656",
        "the model omits </arg_value>, which is an XML error",
        *(
            Case(
                dialect,
                "<tool_call>f<arg_key>city</arg_key><arg_value>Paris</tool_call>",
                [("f", {"city": "Paris"})],
            )
            for dialect in ("glm45", "glm47")
        ),
    ),
    row(
        "H07",
        "vllm PR #47311; mlx-lm #1756",
        "no line break after the name, or one too many: dropped, or part of it",
        *(
            Case(
                dialect,
                f"<tool_call>{name}<arg_key>x</arg_key><arg_value>y</arg_value></tool_call>",
                [("f", {"x": "y"})],
                label=label,
            )
            for dialect in ("poolside_v1", "glm45", "glm47")
            for label, name in (("none", "f"), ("one", "f\n"), ("two", "f\n\n"), ("before", "\nf\n"))
        ),
        *(
            Case(dialect, f"<tool_call>f{tail}</tool_call>", [("f", {})], label=f"no_arguments_{len(tail)}")
            for dialect in ("poolside_v1", "glm45", "glm47")
            for tail in ("", "\n")
        ),
    ),
    row(
        "H08",
        "vllm#22917",
        "text before the list: not parsed",
        Case(
            "pythonic",
            'To find it: [get_date(), get_weather(location="Dublin")]',
            [("get_date", {}), ("get_weather", {"location": "Dublin"})],
            content="To find it:",
            tools=[tool("get_date"), tool("get_weather", location="string")],
        ),
    ),
    row(
        "H10",
        "dynamo PR #9536",
        "the call after ; is dropped",
        Case(
            "llama3_json",
            '<|python_tag|>{"name":"a","parameters":{}};{"name":"b","parameters":{}}',
            [("a", {}), ("b", {})],
        ),
    ),
    # Bare JSON is a call only at the beginning of the answer; elsewhere all of it is text.
    row(
        "H11",
        "atomic-agent PR #40",
        "the first brackets in the prose are taken for the call",
        Case(
            "generic_json",
            '[SFC] means it. [{"name":"f","arguments":{}}]',
            content='[SFC] means it. [{"name":"f","arguments":{}}]',
            tools=[F],
        ),
    ),
    # -- tool_choice, guided output
    row(
        "I02",
        "vllm PR #37258",
        "required, and cut off: 500",
        Case(
            "generic_json",
            '[{"name":"f","parameters":{"a":',
            backend_reason="length",
            finish="length",
            diagnostics=["truncated_call", "missing_closer"],
            label="drop",
        ),
        Case(
            "generic_json",
            '[{"name":"f","parameters":{"a":',
            [("f", '{"a":')],
            backend_reason="length",
            finish="length",
            policies=Policies(truncated_call="call"),
            label="keep",
        ),
    ),
    row(
        "I04",
        "dynamo PR #14556",
        "an argument that is called name becomes the name",
        Case(named("create_user"), '{"name":"Alice"}', [("create_user", {"name": "Alice"})]),
    ),
    row(
        "I07",
        "vllm#55080",
        "no tools: what looks like a call is deleted",
        *(
            Case(dialect, f"Example: {call}", content=f"Example: {call}", tools=())
            for dialect, call in (("qwen3_coder", qwen("f", ("a", "1"))), ("glm45", glm("f", ("a", "1"))))
        ),
    ),
    row(
        "I08",
        "sglang#30925; Rapid-MLX PR #1761",
        "tool_choice=none: markup leaks, or a phantom call",
        *(
            Case(dialect, f"Hi. {call}", content=content, tools=(), policies=policies, label=label)
            for dialect, call in (
                ("glm45", glm("f", ("a", "1"))),
                ("lfm2", "<|tool_call_start|>[f(a=1)]<|tool_call_end|>"),
            )
            for label, policies, content in (
                ("verbatim", None, f"Hi. {call}"),
                ("strip", Policies(no_tools="drop"), "Hi."),
            )
        ),
    ),
    # -- truncation, finish reasons
    row(
        "J01",
        "MiaAI-Lab#55; hermes-agent#7680",
        "finish tool_calls and invalid JSON",
        *(
            Case(
                "hermes",
                UNFINISHED,
                calls,
                content=content,
                backend_reason=reason_,
                finish="length",
                diagnostics=["truncated_call"],
                policies=policies,
                label=f"{policies.truncated_call}-{reason_}",
            )
            for reason_ in ("length", "stop", "tool_calls", None)
            for policies, calls, content in (
                (Policies(), (), None),
                (Policies(truncated_call="text"), (), UNFINISHED),
                (Policies(truncated_call="call"), [("w", '{"c":"aaa')], None),
            )
        ),
        Case(
            "hermes",
            hermes("{}") + UNFINISHED,
            [("f", {})],
            backend_reason="length",
            finish="length",
            diagnostics=["truncated_call"],
            label="second_call",
        ),
        Case(
            "hermes",
            UNFINISHED,
            backend_reason="length",
            finish="length",
            policies=Policies(commit="call"),
            label="commit_call",
        ),
    ),
    row(
        "J02",
        "vllm#31871, PR #32506",
        "finish stop, and raw text",
        Case("hermes", hermes('{"a":1}'), F1, backend_reason="stop", finish="tool_calls"),
    ),
    # By default the message omits a cut call; a diagnostic keeps it, and the policy includes it.
    row(
        "J04",
        "ollama PR #17284, #17274",
        "everything after the tag disappears",
        Case("hermes", UNKNOWN, finish="length", diagnostics=["truncated_call"], label="drop"),
        Case(
            "hermes",
            UNKNOWN,
            content=UNKNOWN,
            finish="length",
            diagnostics=["truncated_call"],
            policies=Policies(truncated_call="text"),
            label="text",
        ),
        Case(
            "hermes",
            UNKNOWN,
            content=UNKNOWN,
            tools=[F],
            policies=Policies(unknown_tool="text"),
            label="unknown_tool",
        ),
    ),
    row(
        "J05",
        "llama.cpp PR #18675",
        "max_tokens=1: 500",
        Case("harmony", "<|channel|>", backend_reason="length", finish="length"),
    ),
    row(
        "J07",
        "sglang PR #31787",
        "held reasoning is dropped at the end",
        Case("inkling", "<|content_thinking|>reasoning with no end", reasoning="reasoning with no end"),
        Case(
            "hermes",
            "<think>reasoning with no </thi",
            reasoning="reasoning with no </thi",
            label="half_a_marker",
        ),
    ),
    # -- text around calls, whitespace
    row(
        "K01",
        "vllm PRs #48846 #42026 #46486; sglang #20543; dynamo #9350",
        "values are trimmed",
        *(
            Case(dialect, write("f", ("q", value)), [("f", {"q": value})], label=label)
            for dialect, write in (("minimax_m2", minimax), ("glm47", glm), ("qwen3_coder", qwen))
            for label, value in (("blank", "hello "), ("both", "  hello  "), ("tab", "\thello"))
        ),
        Case(
            "qwen3_coder", qwen("f", ("q", "\nhello\n\n")), [("f", {"q": "\nhello\n\n"})], label="line_breaks"
        ),
    ),
    row(
        "K02",
        "vllm#56263; sglang PR #32861; dynamo #9629",
        "text after a call: dropped in batch, kept in a stream",
        *(
            Case(dialect, f"{call}Done.", [("f", {})], content=content, policies=policies, label=label)
            for dialect, call in (
                ("hermes", hermes("{}")),
                ("qwen3_coder", qwen("f")),
                ("glm47", glm("f")),
                ("minimax_m2", minimax("f")),
                ("deepseek_v4", dsml(invoke("f"))),
                ("kimi_k2", kimi("{}")),
            )
            for label, policies, content in (
                ("dialect", None, "Done."),
                ("content", Policies(after_calls="text"), "Done."),
                ("drop", Policies(after_calls="drop"), None),
            )
        ),
    ),
    row(
        "K04",
        "sglang PR #9657",
        "tools were offered, none was used: the content is dropped",
        Case("harmony", "<|channel|>final<|message|>hi", content="hi", tools=[F]),
    ),
    # Newlines around markers and spaces before the closing marker are framing.
    row(
        "K05",
        "smg PR #1658; llama.cpp #21085 #22353 #24624",
        "whitespace is removed",
        *(Case(dialect, "<think> a </think>\n\n b", reasoning=" a", content=" b") for dialect in THINKERS),
    ),
    row(
        "K07",
        "sglang PR #25071",
        "text before the section is dropped",
        Case(
            "kimi_k2",
            f"Let me check.<|tool_calls_section_begin|>{kimi('{}')}<|tool_calls_section_end|>",
            [("f", {})],
            content="Let me check.",
            order="ct",
        ),
    ),
    # -- token ids
    row(
        "M02",
        "exo#2281; llxprt#713",
        "the model imitates ids that the client changed in the history, and the call is lost",
        Case(
            "kimi_k2",
            kimi("{}", "functions_read_file_3").removesuffix("<|tool_call_end|>"),
            [("read_file", {})],
            ids=["functions.read_file:3"],
            label="cut",
        ),
        Case(
            "kimi_k2",
            kimi("{}", "functions_read_file_3"),
            [("read_file", {})],
            ids=["functions.read_file:3"],
            label="whole",
        ),
    ),
    # -- Unicode
    row(
        "N02",
        "smg PRs #1676 #1677",
        "offsets in bytes and in characters are confused",
        Case(
            "step3",
            "plain ascii then é <｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
            '<steptml:invoke name="f"><steptml:parameter name="k">é</steptml:parameter></steptml:invoke>'
            "<｜tool_call_end｜><｜tool_calls_end｜>",
            [("f", {"k": "é"})],
            content="plain ascii then é",
        ),
        Case(
            "deepseek_v3_1",
            'plain ascii then é <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"k":"é"}'
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            [("f", '{"k":"é"}')],
            content="plain ascii then é",
        ),
    ),
    row(
        "N05",
        "ollama commit 05ba4ca1f",
        "tags are searched in bytes: text of several bytes breaks",
        Case(
            "qwen3_coder",
            qwen("f", ("q", "При⏵вет")),
            [("f", '{"q": "Привет"}')],
        ),
    ),
    # -- missing arguments
    row(
        "O01",
        "sglang PR #14573",
        "a call without parameters is skipped in a stream",
        *(
            Case(dialect, text, [("get_date", "{}")], tools=[tool("get_date")], label=label)
            for dialect in ("deepseek_v3_2", "deepseek_v4", "deepseek_v41")
            for label, text in (
                ("bare", '<｜DSML｜invoke name="get_date">\n</｜DSML｜invoke>'),
                ("section", dsml(invoke("get_date"))),
            )
        ),
    ),
    row(
        "O02",
        "ollama #11101 #11113 #11233",
        "no key for the arguments: null, or dropped",
        Case("generic_json", '{"name":"f"}', [("f", "{}")], tools=[tool("f")]),
        Case("llama3_json", '{"name":"f"}', [("f", "{}")], tools=[tool("f")]),
        Case("hermes", '<tool_call>{"name":"f"}</tool_call>', [("f", "{}")]),
    ),
    # -- undeclared tools
    row(
        "P01",
        "sglang#40817 PR #12226; smg #1728 #2276",
        "an undeclared tool: dropped or leaked, the loop ends",
        *(
            Case(dialect, text, calls, content=content, tools=[tool("View")], policies=policies, label=label)
            for dialect, text in (
                ("hermes", '<tool_call>{"name":"Read","arguments":{}}</tool_call>'),
                ("minimax_m2", minimax("Read")),
                ("mimo", qwen("Read")),
            )
            for label, policies, calls, content in (
                ("forward", None, [("Read", {})], None),
                ("text", Policies(unknown_tool="text"), (), text),
            )
        ),
    ),
]
"""Bugs that a single output shows."""
