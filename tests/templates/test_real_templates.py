"""Each family's dialect parses what a real chat template of the family writes.

The templates are those of the models: a round trip through ``render`` would only show that our writer and
our reader agree. ``make templates`` fetches the templates; without them the tests are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import pytest

from paths import TEMPLATES, real
from unspool import Diagnostic, Message, Policies, ToolCall, get_dialect, render
from unspool.conformance.scenarios.dialect_capabilities import Capabilities
from unspool.conformance.scenarios.scenario import make_id
from unspool.templates import ChatTemplate, ChatTemplateError, normalise_history
from unspool.testing import ModelOutput, comparable, run_parser
from unspool.testing._quoted_prompt_laws import every_policy, quotations

pytestmark = real


@dataclass(frozen=True)
class Family:
    """What a template writes, and the dialect that parses it."""

    dialect: str
    end: str
    """The end of the model's turn; the template continues after it."""
    content: Literal["kept", "alone", "reasoning"] = "kept"
    """Text next to calls: kept, written as a turn of its own, or written as reasoning."""
    reasoning: Mapping[str, Any] | None = None
    """Variables with which the template keeps reasoning; None if it never does."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Variables that the template always needs."""
    last: bool = True
    """The turn can be cut out where it is the last message."""
    followed: bool = True
    """The turn can be cut out where results of its calls follow."""
    nulls: bool = True
    """The template writes null; otherwise it leaves the key out."""
    schemas: Literal["all", "flat", "none"] = "all"
    """Tools whose schemas the template can write."""
    sandboxed: tuple[str, str] = ("", "")
    """What the sandbox refuses, and its replacement."""


CHATML_END = "<|im_end|>"
DEEPSEEK_END = "<｜end▁of▁sentence｜>"
THINKING = {"enable_thinking": True}
ALWAYS: Mapping[str, Any] = {}

FAMILIES = {
    # Reasoning is a separate kind of block: see `test_reasoning_blocks_are_rendered`.
    "Apertus-8B-Instruct": Family("apertus", "<|tools_suffix|>"),
    "ByteDance-Seed-OSS": Family("seed_oss", "<seed:eos>", reasoning=ALWAYS),
    "CohereForAI-c4ai-command-r-plus-tool_use": Family("command_r", "]```\n", schemas="flat"),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": Family(
        "cohere", "<|END_OF_TURN_TOKEN|>", content="alone", reasoning=THINKING
    ),
    "GLM-4.6": Family("glm45", "<|observation|>", reasoning=ALWAYS),
    "GigaChat3-10B-A1.8B": Family("gigachat3", "}<|message_sep|>"),
    "Kimi-K2-Thinking": Family(
        "kimi_k2",
        CHATML_END,
        reasoning=ALWAYS,
        sandboxed=("{%- set _ = tool_response_queue.ids.append(formatted_id) -%}", ""),
    ),
    "Kimi-K3": Family("kimi_k3", "<|end_of_msg|>", reasoning=ALWAYS),
    "MiniMax-M1": Family("minimax_m1", "<end_of_sentence>", content="alone"),
    "MiniMax-M2": Family("minimax_m2", "[e~[", reasoning=ALWAYS),
    "MiniMax-M3": Family("minimax_m3", "[e~[", reasoning={"thinking_mode": "enabled"}, nulls=False),
    "Mistral-Small-3.2-24B-Instruct-2506": Family("mistral_v11", "</s>", content="alone"),
    "NVIDIA-Nemotron-Nano-v2": Family("nemotron_json", "<SPECIAL_12>", last=False),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": Family(
        "hermes", CHATML_END, content="alone", schemas="flat"
    ),
    "Qwen-QwQ-32B": Family("hermes", CHATML_END),
    "Qwen-Qwen2.5-7B-Instruct": Family("hermes", CHATML_END),
    "Qwen-Qwen3-0.6B": Family("hermes", CHATML_END, reasoning=ALWAYS),
    "Qwen3-Coder": Family("qwen3_coder", CHATML_END),
    "StepFun3.5-Flash": Family("step3p5", CHATML_END, reasoning=ALWAYS),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": Family("deepseek_v3", DEEPSEEK_END, content="alone"),
    "deepseek-ai-DeepSeek-V3.1": Family("deepseek_v3_1", DEEPSEEK_END),
    "deepseek-ai-DeepSeek-V3.2": Family("deepseek_v3_2", DEEPSEEK_END, reasoning=THINKING),
    "deepseek-ai-DeepSeek-V4": Family("deepseek_v4", DEEPSEEK_END, reasoning=THINKING),
    "fireworks-ai-llama-3-firefunction-v2": Family(
        "firefunction", "<|eot_id|>", variables={"functions": "[]", "datetime": "2024-05-01"}
    ),
    "google-gemma-4-31B-it": Family(
        "gemma4", "<|tool_response>", content="alone", reasoning=THINKING, followed=False
    ),
    "ibm-granite-granite-4.0": Family("granite4", "<|end_of_text|>"),
    "llama-cpp-deepseek-r1": Family("deepseek_v3", DEEPSEEK_END, content="alone", schemas="none"),
    "meetkai-functionary-medium-v3.1": Family("functionary", "<|eom_id|>"),
    "meetkai-functionary-medium-v3.2": Family("functionary_v32", "<|eot_id|>"),
    "meta-llama-Llama-3.1-8B-Instruct": Family("llama3_json", "<|eot_id|>", content="alone"),
    "meta-llama-Llama-3.2-3B-Instruct": Family("llama3_json", "<|eot_id|>", content="alone"),
    "mistralai-Ministral-3-14B-Reasoning-2512": Family("mistral_v11", "</s>", reasoning=ALWAYS),
    "mistralai-Mistral-Nemo-Instruct-2407": Family("mistral_v3", "</s>", content="alone"),
    "moonshotai-Kimi-K2": Family("kimi_k2", CHATML_END),
    "muse-glimmer": Family("muse_glimmer", "<|eot|>", content="alone", reasoning=ALWAYS),
    "openai-gpt-oss-120b": Family("harmony", "<|call|>", content="reasoning", reasoning=ALWAYS),
    "openbmb-MiniCPM5-1B": Family("minicpm5", CHATML_END, reasoning=THINKING),
    "poolside-Laguna-XS.2": Family("poolside_v1", "</assistant>", reasoning=THINKING),
    "tencent-Hy3": Family(
        "hy_v3:opensource", "<｜hy_eos:opensource｜>", reasoning={"reasoning_effort": "high"}
    ),
    "unsloth-Apriel-1.5": Family("apriel", "<|end|>", reasoning={"add_thoughts": True}),
}

ONE_CALL = (
    "GigaChat3-10B-A1.8B",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "openai-gpt-oss-120b",
)
"""Templates that write one call per turn; more calls become more turns."""

NO_CALLS = {
    "LFM2-8B-A1B": "lfm2",
    "LFM2.5-Instruct": "lfm2",
    "google-gemma-2-2b-it": None,
    "ibm-granite-granite-3.3-2B-Instruct": "granite",
    "llama-cpp-rwkv-world": None,
    "microsoft-Phi-3.5-mini-instruct": None,
}
"""Templates that write no calls, and the dialect of models that write calls nevertheless."""


def tool(name: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    described = {key: {"description": "A value.", **schema} for key, schema in properties.items()}
    parameters = {"type": "object", "properties": described, "required": list(properties)[:1]}
    return {
        "type": "function",
        "function": {"name": name, "description": f"Runs {name}.", "parameters": parameters},
    }


STRING = {"type": "string"}
FLAT = [
    tool("get_weather", city=STRING, unit=STRING),
    tool("get_time"),
]
TOOLS = [
    *FLAT,
    tool(
        "save",
        text=STRING,
        empty=STRING,
        digits=STRING,
        json=STRING,
        count={"type": "integer"},
        big={"type": "integer"},
        ratio={"type": "number"},
        on={"type": "boolean"},
        off={"type": "boolean"},
        nothing={"type": ["string", "null"]},
        numbers={"type": "array", "items": {"type": "integer"}},
        words={"type": "array", "items": STRING},
        options={
            "type": "object",
            "properties": {
                "unit": STRING,
                "flags": {"type": "array", "items": {"type": "boolean"}},
                "level": {"type": ["integer", "null"]},
            },
        },
    ),
]

PARIS = "get_weather", {"city": "Paris", "unit": "celsius"}
TIME: tuple[str, dict[str, Any]] = "get_time", {}
TYPED = (
    "save",
    {
        "text": "plain",
        "empty": "",
        "digits": "007",
        "json": '{"a": [1]}',
        "count": 3,
        "big": 12345678901234567890,
        "ratio": -2.5,
        "on": True,
        "off": False,
        "nothing": None,
        "numbers": [1, 20, -3],
        "words": ["3", "it's", 'a "b"'],
        "options": {"unit": "K", "flags": [True, False], "level": None},
    },
)
UNICODE = "get_weather", {"city": "Zürich 東京 🎉 “x” e\u0301 \u200d", "unit": "°C"}
CODE = "save", {"text": "def f(a):\n    return \"<b>\" + 'x' * 2 & a\\n\n\n  ", "count": 1}
THOUGHT = "The user wants the weather.\nI call the tool."


@dataclass(frozen=True)
class Turn:
    """A turn of the model."""

    calls: tuple[tuple[str, dict[str, Any]], ...]
    content: str | None = None
    reasoning: str | None = None

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages as a client sends them, with the results of its calls."""
        calls = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
            }
            for number, (name, arguments) in enumerate(self.calls)
        ]
        message = {"role": "assistant", "content": self.content, "tool_calls": calls}
        if self.reasoning is not None:
            message["reasoning_content"] = self.reasoning
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "Result."} for call in calls]
        return [message, *results]


@dataclass(frozen=True)
class Reading:
    """The result of parsing a turn."""

    reasoning: str | None
    content: str | None
    calls: list[tuple[str, str]]
    notes: list[Diagnostic] = field(default_factory=list)


TURNS = {
    "one call": Turn((PARIS,)),
    "two calls": Turn((PARIS, TIME)),
    "no arguments": Turn((TIME,)),
    "typed": Turn((TYPED,)),
    "unicode": Turn((UNICODE,), "Für 東京: 🎉"),
    "code": Turn((CODE,)),
    "content": Turn((PARIS,), "Let me check."),
    "reasoning": Turn((PARIS,), reasoning=THOUGHT),
    "everything": Turn((PARIS, TIME), "Let me check.\n\nNow.", THOUGHT),
}
HARMLESS = ("stray_closer", "late_id", "unclosed_reasoning")
"""Diagnostics that valid template output causes: a closing reasoning tag without an opening one, ids after
arguments, reasoning that continues after tool results."""
USER = {"role": "user", "content": "What is it?"}


@cache
def load(name: str) -> ChatTemplate:
    source = TEMPLATES[name].read_text("utf-8")
    old, new = FAMILIES[name].sandboxed if name in FAMILIES else ("", "")
    if old:
        assert old in source
        source = source.replace(old, new)
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>")


def split_turn(name: str, turn: Turn, *, thinking: bool, followed: bool) -> tuple[str, str]:
    """Return the prompt, and what the template writes after it for a turn of the model."""
    family, template = FAMILIES[name], load(name)
    variables = {**family.variables, **(family.reasoning or {})} if thinking else {**family.variables}
    tools = {"all": TOOLS, "flat": FLAT, "none": None}[family.schemas]
    history = normalise_history([USER, *turn.messages()], template, dialect=family.dialect)
    if not followed:
        history = history[: 1 + [message["role"] for message in history].index("assistant")]
    prompt = template.render([USER], tools, **variables)
    whole = template.render(history, tools, add_generation_prompt=False, **variables)
    if not whole.startswith(prompt):
        # The prompt opens or closes reasoning, but the history does not: go back to the end of the header.
        same = next(at for at, (one, other) in enumerate(zip(prompt, whole, strict=False)) if one != other)
        header = re.match(r"(?s).*[\n>\]]", prompt[:same])
        assert header, "prompt and history share no prefix"
        prompt = header[0]
    text, end, _ = whole[len(prompt) :].partition(family.end)
    return prompt, text + end


def expected_result(name: str, turn: Turn) -> Reading:
    """Return the expected result: the turn, without what the template does not write."""
    family, wants = FAMILIES[name], load(name).capabilities
    calls = turn.calls[:1] if wants.calls == "one" else turn.calls
    content = turn.content
    reasoning = turn.reasoning if family.reasoning is not None else None
    if family.content == "alone" and content:
        calls, reasoning = (), None  # these templates write calls and reasoning in the next message
    elif family.content == "reasoning":
        reasoning = "\n\n".join(text for text in (reasoning, content) if text) or None
    if family.content == "reasoning":
        content = None
    if not family.nulls:
        calls = tuple((function, without_nulls(arguments)) for function, arguments in calls)
    return Reading(
        reasoning, content, [(function, canonical_json(arguments)) for function, arguments in calls]
    )


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def canonical_json(arguments: object) -> str:
    """Return a canonical spelling for comparison; some templates sort keys."""
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def assert_reads(dialect: str, prompt: str, text: str, wanted: Reading) -> None:
    """Assert that the text gives this result in every chunking."""
    case = ModelOutput(text, tools=TOOLS, prompt=prompt, finish_reason="stop")
    for chunks in ([text], list(text)):
        message = run_parser(get_dialect(dialect), case, chunks).message
        assert message is not None
        calls = [(call.name, canonical_json(json.loads(call.arguments))) for call in message.tool_calls]
        notes = [diagnostic for diagnostic in message.diagnostics if diagnostic.kind not in HARMLESS]
        result = Reading(message.reasoning, message.content, calls, notes)
        assert result == wanted, f"after {prompt[-40:]!r}: {text!r}"
        assert message.finish_reason == ("tool_calls" if calls else "stop")


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.content == "alone"])
def test_text_in_its_own_turn_precedes_calls(name: str) -> None:
    """These templates drop the text of a turn with calls, or write it after the calls."""
    family, template, turn = FAMILIES[name], load(name), TURNS["everything"]
    assert not template.capabilities.content_before_calls
    history = normalise_history([USER, *turn.messages()], template, dialect=family.dialect)
    tools = {"all": TOOLS, "flat": FLAT, "none": None}[family.schemas]
    text = template.render(history, tools, add_generation_prompt=False, **(family.reasoning or {}))
    _, _, text = text.partition(str(USER["content"]))
    parts = ["Let me check.", *([THOUGHT] if family.reasoning is not None else ()), "Paris", "Result."]
    places = [text.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


CASES = [
    pytest.param(
        name,
        title,
        thinking,
        followed,
        id=f"{name}: {title}{', thinking' * thinking}{', followed' * followed}",
    )
    for name, family in FAMILIES.items()
    for title, turn in TURNS.items()
    for thinking in (False, True)
    for followed in (False, True)
    if (family.followed if followed else family.last)
    # Without a switch in the template, the prompts with and without thinking are equal.
    and (thinking if turn.reasoning else not thinking or family.reasoning)
]


@pytest.mark.parametrize(("name", "title", "thinking", "followed"), CASES)
def test_rendered_turn_parses_back(name: str, title: str, thinking: bool, followed: bool) -> None:
    turn = TURNS[title]
    prompt, text = split_turn(name, turn, thinking=thinking, followed=followed)
    assert_reads(FAMILIES[name].dialect, prompt, text, expected_result(name, turn))


SPELT_OTHERWISE = {
    "CohereForAI-c4ai-command-r-plus-tool_use": "an object over several lines",
    "GigaChat3-10B-A1.8B": "a call is a message of a role of its own",
    "Mistral-Small-3.2-24B-Instruct-2506": "ids, which later versions leave out",
    "mistralai-Mistral-Nemo-Instruct-2407": "ids, which the models do not write",
    "muse-glimmer": "the last call ends the turn, and the marker says so",
    "openai-gpt-oss-120b": "the recipient in the other place of the header",
    "unsloth-Apriel-1.5": "ids, which the models do not write",
}
"""Templates whose calls differ in spelling from ``render``, and the difference."""


@pytest.mark.parametrize("name", FAMILIES)
def test_render_matches_the_template(name: str) -> None:
    dialect = get_dialect(FAMILIES[name].dialect)
    rome = "get_weather", {"city": "Rome", "unit": "kelvin"}
    turn = Turn((PARIS,) if name in ONE_CALL else (PARIS, rome))
    _, text = split_turn(name, turn, thinking=False, followed=FAMILIES[name].followed)
    able = Capabilities(dialect)
    calls = [
        ToolCall(make_id(able, function, number), function, json.dumps(arguments))
        for number, (function, arguments) in enumerate(turn.calls)
    ]
    same = render(Message(tool_calls=calls), dialect).strip() in text
    assert same == (name not in SPELT_OTHERWISE), text


def test_every_template_has_an_expectation() -> None:
    assert set(TEMPLATES) == {*FAMILIES, *NO_CALLS}


@pytest.mark.parametrize("name", FAMILIES)
def test_template_with_calls_is_detected(name: str) -> None:
    assert load(name).capabilities.calls == ("one" if name in ONE_CALL else "many")


@pytest.mark.parametrize("name", NO_CALLS)
def test_template_without_calls_is_detected(name: str) -> None:
    template = load(name)
    message = TURNS["one call"].messages()[0] | {"content": "Let me check."}
    assert template.capabilities.calls == "none"
    assert "get_weather" not in template.render([USER, message], add_generation_prompt=False)


@pytest.mark.parametrize("title", TURNS)
@pytest.mark.parametrize(
    ("name", "dialect"), [(name, dialect) for name, dialect in NO_CALLS.items() if dialect]
)
def test_calls_are_written_into_content_where_needed(name: str, dialect: str, title: str) -> None:
    turn, template = TURNS[title], load(name)
    history = normalise_history([USER, turn.messages()[0]], template, dialect=dialect)
    prompt = template.render([USER], TOOLS)
    text = template.render(history, TOOLS, add_generation_prompt=False).removeprefix(prompt)
    # A template that does not know the reasoning markers would leave them in the history forever.
    reasoning = turn.reasoning if name == "LFM2.5-Instruct" else None
    calls = [(function, canonical_json(arguments)) for function, arguments in turn.calls]
    assert_reads(dialect, prompt, text.rstrip("\n"), Reading(reasoning, turn.content, calls))


def test_reasoning_blocks_are_rendered() -> None:
    # Apertus reads reasoning only from structured content.
    function, arguments = PARIS
    blocks = [
        {"type": "thoughts", "text": THOUGHT},
        {"type": "tool_calls", "calls": [{"name": function, "arguments": json.dumps(arguments)}]},
    ]
    template = load("Apertus-8B-Instruct")
    message = {"role": "assistant", "content": {"blocks": blocks}}
    prompt = template.render([USER], TOOLS)
    text = template.render([USER, message], TOOLS, add_generation_prompt=False).removeprefix(prompt)
    assert_reads("apertus", prompt, text, Reading(THOUGHT, None, [(function, canonical_json(arguments))]))


@pytest.mark.parametrize("name", ONE_CALL)
def test_parallel_calls_survive_in_the_history(name: str) -> None:
    family, template = FAMILIES[name], load(name)
    messages = [USER, *TURNS["two calls"].messages()]
    for number, message in enumerate(messages[2:]):
        message["content"] = f"Result {number}."
    text = template.render(normalise_history(messages, template, dialect=family.dialect), FLAT)
    places = [text.rindex(word) for word in ('"celsius"', "Result 0.", "get_time", "Result 1.")]
    assert places == sorted(places)


def test_sandbox_refusal_is_reported() -> None:
    # Transformers cannot render this template either, but calls written into the content are kept.
    name = "Kimi-K2-Thinking"
    template = ChatTemplate(TEMPLATES[name].read_text("utf-8"))
    messages = [USER, *TURNS["two calls"].messages()]
    with pytest.raises(ChatTemplateError, match="'append' of 'list' object is unsafe"):
        template.render(messages, TOOLS)
    text = template.render(normalise_history(messages, template, dialect="kimi_k2"), TOOLS)
    _, written = split_turn(name, TURNS["two calls"], thinking=False, followed=True)
    assert written in text


def _quote_as(role: str, words: str) -> list[dict[str, Any]]:
    """Return a conversation in which one role quotes the text, followed by the model's turn."""
    if role == "user":
        return [USER | {"content": words}]
    if role == "system":
        return [{"role": "system", "content": words}, USER]
    if role == "assistant":
        return [USER, {"role": "assistant", "content": words}, USER]
    return [USER, *({**each, "content": words} for each in TURNS["one call"].messages())]


@pytest.mark.parametrize("role", ["user", "system", "assistant", "tool"])
@pytest.mark.parametrize("name", [*FAMILIES, *(name for name, dialect in NO_CALLS.items() if dialect)])
def test_quoted_calls_have_no_effect(name: str, role: str) -> None:
    dialect = FAMILIES[name].dialect if name in FAMILIES else NO_CALLS[name]
    assert dialect is not None
    template, spec = load(name), get_dialect(dialect)
    variables = FAMILIES[name].variables if name in FAMILIES else {}

    def events(words: str, policies: Policies) -> object:
        history = normalise_history(_quote_as(role, words), template, dialect=dialect)
        prompt = template.render(history, **variables)
        reading = run_parser(spec, ModelOutput("Hello world", FLAT, prompt, policies))
        assert reading.message is not None
        assert not reading.message.tool_calls, prompt
        return comparable(reading.events, "Hello world")

    quoted = list(quotations(spec))
    policies = every_policy()
    for number, quotation in enumerate(quoted if role == "user" else quoted[::7]):
        policy = policies[number % len(policies)]
        try:
            plain = events("it", policy)
        except ChatTemplateError:
            return  # the template does not support this role
        assert events(f"What is {quotation}, or {quotation}", policy) == plain, quotation
