"""Plans: every decision for a request, and the parsers that follow from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as HuggingFaceTokenizer

from paths import TEMPLATES, real
from unspool import (
    CallStart,
    Diagnostic,
    Dialect,
    Markup,
    Message,
    Parser,
    Policies,
    SpecError,
    Text,
    UnknownDialect,
    UsageError,
    get_dialect,
    list_dialects,
)
from unspool.dialects._registry import built_in_dialects, facts_of
from unspool.models import from_response_template
from unspool.planning import Plan, plan, start_state
from unspool.planning.decide_special_tokens import skipped_tokens
from unspool.templates import ChatTemplate, normalise_history
from unspool.testing import chunkings

PROPERTIES = {
    "a": {"type": "integer", "description": "A number."},
    "name": {"type": "string", "description": "A name."},
}


def function(name: str, properties: Mapping[str, object], **more: object) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    body = {"name": name, "description": f"Does {name}.", "parameters": parameters, **more}
    return {"type": "function", "function": body}


F = function("f", PROPERTIES)
G = function("g", {})
TOOLS = [F, G]
NAMED = {"type": "function", "function": {"name": "f"}}
USER = {"role": "user", "content": "?"}
CHECKPOINTS = {
    name: dialect.name for dialect in built_in_dialects() for name, _ in facts_of(dialect).checkpoints
}
AFTER_TOOL = [
    USER,
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "abcdefghi", "name": "f", "content": "sunny"},
]


def ask(**request: Any) -> dict[str, Any]:
    return {"messages": [USER], **request}


def continued(content: str) -> dict[str, Any]:
    """Return a request to continue this message."""
    messages = [USER, {"role": "assistant", "content": content}]
    return {"messages": messages, "continue_final_message": True}


def with_kwargs(**kwargs: Any) -> dict[str, Any]:
    return ask(chat_template_kwargs=kwargs)


def message(parser: Parser, chunks: Iterable[str]) -> Message:
    """Return the message for an output in these chunks."""
    fold = parser.fold()
    for chunk in chunks:
        fold.feed(parser.feed(chunk))
    fold.feed(parser.finish("stop"))
    return fold.message


def calls(message: Message) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in message.tool_calls]


def read(decided: Plan, text: str) -> Message:
    """Return the message, and assert that every chunking gives the same one."""
    whole = message(decided.parser(), [text])
    for chunks in chunkings(text):
        other = message(decided.parser(), chunks)
        assert (other.reasoning, other.content, calls(other)) == (
            whole.reasoning,
            whole.content,
            calls(whole),
        ), chunks
        assert_tiles(decided, chunks)
    return whole


def assert_tiles(decided: Plan, chunks: Sequence[str]) -> None:
    """Assert that spans cover the input once, in order, and that text matches its span."""
    parser = decided.parser()
    text = "".join(chunks)
    taken = at = 0
    for chunk in chunks:
        taken += len(chunk)
        for event in parser.feed(chunk):
            at = assert_span(event, at, text)
        assert parser.pending >= taken - at
        assert parser.max_pending is None or parser.pending <= parser.max_pending
    for event in parser.finish():
        at = assert_span(event, at, text)
    assert at == len(text)


def assert_span(event: object, at: int, text: str) -> int:
    if isinstance(event, Diagnostic):
        return at
    start, end = getattr(event, "start", -1), getattr(event, "end", -1)
    assert start == at
    if isinstance(event, (Text, Markup)) and end:  # events before the input only repeat the prompt
        assert event.text == text[start:end]
    return int(end)


@cache
def tokenizer(special: tuple[str, ...] = (), added: tuple[str, ...] = ()) -> HuggingFaceTokenizer:
    """Return a tokenizer with bytes, special tokens and added tokens."""
    vocabulary = HuggingFaceTokenizer(models.BPE())
    vocabulary.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    vocabulary.decoder = decoders.ByteLevel()
    vocabulary.train_from_iterator(
        [], trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    )
    vocabulary.add_tokens([AddedToken(token, special=False, normalized=False) for token in added])
    vocabulary.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return vocabulary


# --- PRE.1: special tokens


def test_tokenizer_decides_which_markers_are_special() -> None:
    tagged = ask(tools=TOOLS)
    assert plan("hermes", tagged).skip_special_tokens is False  # some vocabularies flag the tags as special
    qwen = tokenizer(special=("<|im_end|>",), added=("<tool_call>", "</tool_call>", "<think>"))
    assert plan("hermes", tagged, tokenizer=qwen).skip_special_tokens is True
    other = tokenizer(special=("<|im_end|>", "<tool_call>", "</tool_call>"))
    decided = plan("hermes", tagged, tokenizer=other)
    assert decided.skip_special_tokens is False
    assert (
        decided.why["skip_special_tokens"]
        == "keep them: the tokenizer flags </tool_call>, <tool_call> as special"
    )


def test_only_possible_markers_count() -> None:
    vocabulary = tokenizer(special=("<tool_call>", "<|im_end|>"), added=("<think>",))
    assert plan("hermes", ask(), tokenizer=vocabulary).skip_special_tokens is True
    assert (
        plan("hermes", ask(tools=TOOLS, tool_choice="none"), tokenizer=vocabulary).skip_special_tokens is True
    )
    assert plan("hermes", ask(tools=TOOLS), tokenizer=vocabulary).skip_special_tokens is False
    guided = ask(tools=TOOLS, tool_choice="required")
    assert plan("hermes", guided, tokenizer=vocabulary, constraints=("json",)).skip_special_tokens is True
    thinking = tokenizer(special=("<think>", "</think>"))
    assert plan("qwen3", ask(), tokenizer=thinking).skip_special_tokens is False
    assert plan("qwen3", with_kwargs(enable_thinking=False), tokenizer=thinking).skip_special_tokens is True


def test_special_token_inside_a_marker_counts() -> None:
    vocabulary = tokenizer(special=("｜DSML｜",))
    assert plan("deepseek_v4", ask(tools=TOOLS), tokenizer=vocabulary).skip_special_tokens is False
    assert plan("deepseek_v4", ask(), tokenizer=vocabulary).skip_special_tokens is True


def test_string_delimiters_and_wrappers_count() -> None:
    assert (
        plan("gemma4", ask(tools=TOOLS), tokenizer=tokenizer(special=('<|"|>',))).skip_special_tokens is False
    )
    assert plan("kimi_k3", ask(), tokenizer=tokenizer(special=("<|sep|>",))).skip_special_tokens is False
    assert plan("harmony", ask(), tokenizer=tokenizer(special=("<|message|>",))).skip_special_tokens is False


def test_explicit_value_wins_with_a_warning() -> None:
    decided = plan("kimi_k2", ask(tools=TOOLS, skip_special_tokens=True))
    assert decided.skip_special_tokens is True
    assert any("hides markers from the parser" in warning for warning in decided.warnings)
    assert decided.why["skip_special_tokens"] == "the request sets true"
    assert not plan("glm47", ask(tools=TOOLS, skip_special_tokens=True)).warnings
    assert plan("glm47", ask(skip_special_tokens=False)).skip_special_tokens is False


def test_tokenizer_may_declare_skipped_tokens() -> None:
    class Vocabulary:
        def token_bytes(self, id: int) -> bytes:
            raise KeyError(id)

        def special_tokens(self) -> Mapping[int, str]:
            return {0: "<tool_call>"}

    class Telling(Vocabulary):
        def skipped_tokens(self) -> Mapping[int, str]:
            return {}

    class Processor:
        tokenizer = Telling()

    assert skipped_tokens(Vocabulary()) == {"<tool_call>"}  # keeping an additional token does no harm
    assert skipped_tokens(Telling()) == frozenset()
    assert skipped_tokens(Processor()) == frozenset()


# --- PRE.2: reasoning switch


@pytest.mark.parametrize(
    ("name", "kwargs", "on"),
    [
        ("kimi_k25", {"thinking": False}, False),
        ("kimi_k25", {}, True),
        ("kimi_k25", {"thinking": "false"}, False),
        ("kimi_k25", {"thinking": 0}, False),
        ("kimi_k25", {"enable_thinking": False}, False),
        ("nemotron_v3", {"enable_thinking": False}, False),
        # Version 1.2.0 of the taxonomy turned reasoning off here.
        ("nemotron_nano", {"force_nonempty_content": True}, True),
        ("deepseek_r1", {"thinking": False}, False),
        ("deepseek_r1", {"thinking_mode": "chat"}, False),
        ("deepseek_v4", {"thinking_mode": "chat"}, False),
        ("deepseek_v4", {"thinking": True, "thinking_mode": "chat"}, True),
        ("deepseek_v4", {}, True),
        ("deepseek_v3_1", {}, False),
        ("deepseek_v3_1", {"thinking": True}, True),
        ("gemma4", {"enable_thinking": False}, False),
        ("mistral", {}, False),
        ("mistral", {"reasoning_effort": "high"}, True),
        ("mistral", {"reasoning_effort": "none"}, False),
        ("minimax_m3", {"thinking_mode": "disabled"}, False),
        ("minimax_m3", {"thinking_mode": "adaptive"}, True),
        ("hy_v3", {}, False),
        ("qwen3", {"enable_thinking": False}, False),
    ],
)
def test_template_options_switch_reasoning(name: str, kwargs: dict[str, Any], on: bool) -> None:
    assert plan(name, with_kwargs(**kwargs)).reasoning is on
    assert plan(name, ask(chat_template_args=kwargs)).reasoning is on


@pytest.mark.parametrize("word", [True, 1, 2.5, "true", "TRUE", "1", "yes", "On", "enabled"])
def test_true_spellings_switch_reasoning_on(word: object) -> None:
    decided = plan("deepseek_v3_1", with_kwargs(thinking=word))
    assert decided.reasoning
    assert decided.chat_template_kwargs == {"thinking": True, "enable_thinking": True}


@pytest.mark.parametrize("word", [False, 0, "false", "0", "No", "off", "disabled"])
def test_false_spellings_switch_reasoning_off(word: object) -> None:
    decided = plan("qwen3", with_kwargs(enable_thinking=word, other=1))
    assert not decided.reasoning
    assert decided.chat_template_kwargs == {"thinking": False, "enable_thinking": False, "other": 1}


@pytest.mark.parametrize(
    ("name", "request_", "on", "kwargs"),
    [
        ("qwen3", {"thinking": {"type": "disabled"}}, False, {"thinking": False, "enable_thinking": False}),
        ("qwen3", {"reasoning": {"effort": "none"}}, False, {"enable_thinking": False}),
        ("qwen3", {"reasoning": {"enabled": False}}, False, {"enable_thinking": False}),
        ("qwen3", {"reasoning_effort": "low"}, True, {"enable_thinking": True, "reasoning_effort": "low"}),
        ("deepseek_v3_1", {"reasoning_effort": "high"}, True, {"thinking": True}),
        ("kimi_k25", {}, True, {"thinking": True, "enable_thinking": True}),
        ("kimi_k3", {"reasoning_effort": "low"}, True, {"thinking": True, "thinking_effort": "low"}),
        ("minimax_m3", {"thinking": {"type": "enabled"}}, True, {"thinking_mode": "enabled"}),
        ("minimax_m3", {"enable_thinking": False}, False, {"thinking_mode": "disabled"}),
        ("minimax_m3", {"thinking": {"type": "adaptive"}}, True, {"thinking_mode": "adaptive"}),
        ("qwen3", {"thinking": {"type": "adaptive"}}, True, {}),
        ("granite", {"thinking": {"type": "adaptive"}}, True, {"thinking": True}),
        ("llama3_json", {"thinking": {"type": "adaptive"}}, False, {}),
        (
            "harmony",
            {"thinking": {"type": "adaptive"}, "reasoning_effort": "high"},
            True,
            {"reasoning_effort": "high"},
        ),
        (
            "deepseek_v4",
            {"chat_template_kwargs": {"thinking_mode": "Chat"}},
            False,
            {"thinking_mode": "chat"},
        ),
        ("seed_oss", {"thinking": {"type": "disabled"}}, False, {"thinking_budget": 0}),
        ("seed_oss", {"thinking": {"type": "enabled", "budget_tokens": 512}}, True, {"thinking_budget": 512}),
        ("hy_v3", {"reasoning_effort": "none"}, False, {"reasoning_effort": "no_think"}),
        ("hy_v4", {"reasoning_effort": "medium"}, True, {"reasoning_effort": "high"}),
        ("gigachat35", {"chat_template_kwargs": {"reasoning": True}}, True, {"reasoning": True}),
        ("cohere", {"enable_thinking": False}, False, {"reasoning": False, "enable_thinking": False}),
        ("deepseek_v41", {"reasoning_effort": 30}, True, {"reasoning_effort": 30}),
        ("inkling", {"reasoning_effort": 0.0}, False, {"reasoning_effort": 0.0}),
        ("muse_glimmer", {"reasoning_effort": "low"}, True, {"reasoning_strength": "low"}),
        ("granite", {"thinking": True}, True, {"thinking": True}),
    ],
)
def test_reasoning_options_are_translated(
    name: str, request_: dict[str, Any], on: bool, kwargs: dict[str, object]
) -> None:
    decided = plan(name, ask(**request_))
    assert decided.reasoning is on
    assert kwargs.items() <= decided.chat_template_kwargs.items()


def test_deployment_defaults_apply_where_the_request_is_silent() -> None:
    defaults = {"enable_thinking": False, "style": "terse"}
    assert not plan("qwen3", ask(), defaults=defaults).reasoning
    switched = plan("qwen3", with_kwargs(thinking=True), defaults=defaults)
    assert switched.reasoning
    assert switched.chat_template_kwargs["style"] == "terse"
    assert plan("qwen3", ask(reasoning_effort="low"), defaults=defaults).reasoning


def test_minimax_m3_reasons_before_json_only_on_request() -> None:
    for request_ in (ask(tools=TOOLS, tool_choice="required"), ask(response_format={"type": "json_object"})):
        decided = plan("minimax_m3", request_)
        assert not decided.reasoning
        assert decided.chat_template_kwargs["thinking_mode"] == "disabled"
        assert plan("minimax_m3", {**request_, "thinking": True}).reasoning


def test_kimi_k3_does_not_reason_for_a_named_function() -> None:
    decided = plan("kimi_k3", ask(tools=TOOLS, tool_choice=NAMED, thinking=True))
    assert not decided.reasoning
    assert decided.chat_template_kwargs["thinking"] is False
    assert any("ignored" in warning for warning in decided.warnings)


def test_reasoning_markers_are_text_while_off_unless_control_tokens() -> None:
    off = plan("qwen3", with_kwargs(enable_thinking=False))
    assert read(off, "a <think>b</think>").content == "a <think>b</think>"
    soft = read(plan("mistral", ask()), "[THINK]a[/THINK]b")
    assert (soft.reasoning, soft.content) == ("a", "b")


def test_other_template_options_pass() -> None:
    kwargs = {"preserve_thinking": True, "clear_thinking": False, "documents": []}
    assert kwargs.items() <= plan("glm47", with_kwargs(**kwargs)).chat_template_kwargs.items()


# --- PRE.3: start channel

BAR = "｜"
TAILS = [
    # family, request options, end of the prompt, start channel
    ("qwen3", {}, "<|im_start|>assistant\n<think>\n", "reasoning"),
    ("qwen3", {"thinking": False}, "<|im_start|>assistant\n<think>\n\n</think>\n\n", "content"),
    ("qwen3", {}, "<|im_start|>assistant\n", "content"),
    ("qwen3_thinking", {}, "<|im_start|>assistant\n<think>\n", "reasoning"),
    ("qwen3.5", {}, "<|im_start|>assistant\n<think>\n", "reasoning"),
    ("qwen3_coder", {}, "<|im_start|>assistant\n", "content"),
    ("deepseek_r1", {}, "<｜Assistant｜><think>\n", "reasoning"),
    ("deepseek_r1", {}, "<｜tool▁outputs▁end｜>", "content"),
    ("deepseek_v3_1", {"thinking": True}, "<｜Assistant｜><think>", "reasoning"),
    ("deepseek_v3_1", {}, "<｜Assistant｜></think>", "content"),
    ("deepseek_v3_1", {}, "<｜tool▁output▁begin｜>sunny<｜tool▁output▁end｜>", "content"),
    ("deepseek_v3_2", {"thinking": False}, "<｜Assistant｜><think></think>", "content"),
    ("deepseek_v3_2", {}, "</function_results>\n\n<think>", "reasoning"),
    ("deepseek_v4", {"thinking": False}, "<｜Assistant｜></think>", "content"),
    ("deepseek_v4", {}, "<tool_result>sunny</tool_result><｜Assistant｜><think>", "reasoning"),
    ("glm45", {}, "<|assistant|>", "content"),
    ("glm45", {"thinking": False}, "<|assistant|>\n<think></think>", "content"),
    ("glm47", {}, "<|observation|>sunny<|assistant|><think>", "reasoning"),
    ("glm47", {"thinking": False}, "<|assistant|></think>", "content"),
    ("kimi_k2", {}, "<|im_assistant|>assistant<|im_middle|>", "content"),
    ("kimi_k25", {}, "<|im_middle|><think>", "reasoning"),
    ("kimi_k25", {"thinking": False}, "<|im_middle|><think></think>", "content"),
    ("kimi_k3", {}, "<|open|>think<|sep|>", "reasoning"),
    ("kimi_k3", {"thinking": False}, "<|open|>response<|sep|>", "content"),
    ("minimax_m2", {}, "]~b]ai\n<think>\n", "reasoning"),
    ("minimax_m3", {"thinking": True}, "]~b]ai\n<mm:think>", "reasoning"),
    ("minimax_m3", {"thinking": False}, "]~b]ai\n</mm:think>", "content"),
    ("minimax_m3", {}, "]~b]ai\n<think>\n", "content"),
    ("minimax_m3", {}, "]~b]ai\n", "content"),
    ("nemotron_v3", {}, "<|im_start|>assistant\n<think>\n", "reasoning"),
    ("nemotron_v3", {"thinking": False}, "<|im_start|>assistant\n<think></think>", "content"),
    ("nemotron_nano_v2", {}, "<SPECIAL_11>Assistant\n<think>\n", "reasoning"),
    ("step3p5", {}, "<|im_start|>assistant\n<think>\n", "reasoning"),
    ("seed_oss", {}, "<seed:bos>assistant\n", "content"),
    ("seed_oss", {"thinking_budget": 0}, "</seed:cot_budget_reflect>\n</seed:think>", "content"),
    ("gemma4", {}, "<|turn>model\n", "content"),
    ("gemma4", {"thinking": False}, "<|turn>model\n<|channel>thought\n<channel|>", "content"),
    ("gemma4", {}, "<tool_response|><|channel>thought\n", "reasoning"),
    ("gemma4", {}, '<|"|>sunny<|"|>}<tool_response|>', "content"),
    ("hunyuan_a13b", {}, "<|extra_0|>", "content"),
    ("hunyuan_a13b", {"thinking": False}, "<think>\n\n</think>\n", "content"),
    ("hy_v3:opensource", {"reasoning_effort": "low"}, "<think:opensource>", "reasoning"),
    ("hy_v3:opensource", {}, "<think:opensource></think:opensource>", "content"),
    ("cohere", {}, "<|CHATBOT_TOKEN|><|START_THINKING|>", "reasoning"),
    ("cohere_command3", {}, "<|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>", "content"),
    ("cohere_command3", {"enable_thinking": True}, "<|CHATBOT_TOKEN|>", "content"),
    ("poolside_v1", {"thinking": True}, "<assistant>\n<think>", "reasoning"),
    ("poolside_v1", {}, "<assistant>\n</think>", "content"),
    ("laguna_s", {}, "<assistant><think>", "reasoning"),
    ("minicpm5", {"thinking": True}, "<|im_start|>assistant\n<think>\n", "reasoning"),
    ("minicpm5", {}, "<|im_start|>assistant\n", "content"),
    ("apriel", {}, "<|assistant|>\nHere are my reasoning steps:\n", "reasoning"),
    ("magistral", {}, "[/INST]", "content"),
    ("magistral", {}, "[TOOL_RESULTS]sunny[/TOOL_RESULTS]", "content"),
    ("harmony", {}, "<|end|><|start|>assistant", "header"),
    ("harmony", {}, "<|start|>assistant<|channel|>final<|message|>", "content"),
    ("harmony", continued("Once"), "<|start|>assistant<|channel|>final<|message|>Once", "content"),
    ("inkling", {}, "<|end_message|><|message_model|>", "header"),
    ("inkling", {}, "<|message_model|><|content_thinking|>", "reasoning"),
    ("inkling", {}, "<|message_model|><|content_text|>", "content"),
    ("muse_glimmer", {}, "<|eot|><|start|>assistant", "header"),
    ("lfm2", {}, "<|im_start|>assistant\n", "content"),
    ("granite", {}, "<|start_of_role|>assistant<|end_of_role|>", "content"),
    ("llama3_json", {}, "<|start_header_id|>assistant<|end_header_id|>\n\n", "content"),
]


@pytest.mark.parametrize(("name", "request_", "tail", "start"), TAILS)
def test_prompt_decides_the_start_channel(name: str, request_: dict[str, Any], tail: str, start: str) -> None:
    history = "<think>old</think><tool_call>{}</tool_call>"  # earlier turns must not influence the result
    decided = plan(name, ask(**request_), prompt=history + tail)
    assert decided.start == start
    assert decided.why["start"].startswith(f"{start}: the prompt ends with ")
    assert not [warning for warning in decided.warnings if "is not a marker of" not in warning]
    parser = decided.parser()
    texts = [event for event in parser.feed("xyz") if isinstance(event, Text)]
    assert [event.channel for event in texts] == ([] if start == "header" else [start])


@pytest.mark.parametrize("tail", ["<|start|>assistant", ""])
def test_prompt_may_end_with_a_whole_header(tail: str) -> None:
    for channel, start in (("analysis", "reasoning"), ("final", "content")):
        prompt = f"<|end|>{tail}<|channel|>{channel}<|message|>"
        assert plan("harmony", ask(), prompt=prompt).start == start


def test_earlier_turn_does_not_decide() -> None:
    turns = ("assistant\n<think>\nhm", "user\nHi", "assistant\n")
    prompt = "<|im_end|>\n".join(f"<|im_start|>{turn}" for turn in turns)
    assert plan("qwen3_thinking", ask(), prompt=prompt).start == "content"


def test_prompt_wins_over_the_option() -> None:
    decided = plan("minimax_m2", ask(thinking=False), prompt="]~b]ai\n<think>\n")
    assert decided.reasoning
    assert decided.start == "reasoning"
    assert decided.why["reasoning"] == "on: the prompt ends inside reasoning"
    assert any("ignored the switch" in warning for warning in decided.warnings)
    assert read(decided, "hm</think>Hi").reasoning == "hm"
    closed = plan("qwen3", ask(thinking=True), prompt="<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert closed.start == "content"
    assert any("will not reason" in warning for warning in closed.warnings)


def test_prompt_may_be_given_as_ids() -> None:
    vocabulary = tokenizer(added=("<think>",))
    ids = vocabulary.encode("assistant\n<think>\n", add_special_tokens=False).ids
    assert plan("qwen3", ask(), prompt=ids, tokenizer=vocabulary).start == "reasoning"


def test_call_opened_by_the_prompt_continues() -> None:
    opened = '<tool_call>\n{"name": "f", "arguments": {'
    for prompt in (f"<|im_start|>assistant\n{opened}", f"User: <tool_call>?\n\nAssistant: {opened}"):
        decided = plan("hermes", ask(tools=TOOLS, **continued(opened)), prompt=prompt)
        assert decided.start == "call"
        assert calls(message(decided.parser(), ['"a": 1}}\n</tool_call>'])) == [("f", {"a": 1})]
        # Unless the request continues a turn, the text before the output is not the model's.
        other = plan("hermes", ask(tools=TOOLS), prompt=prompt)
        assert other.start == "content"
        assert message(other.parser(), ["Hello world"]).content == "Hello world"


def test_only_the_continued_message_continues() -> None:
    """Where turns begin with plain words, what a user quotes is not part of the turn."""
    head = 'User: What is <think>, or <tool_call>\n{"name": "f", "arguments": {\n\nAssistant:'
    for content, prompt in (
        ("Sure.", f"{head} Sure."),
        (" Sure. ", f"{head} Sure."),  # some templates and engines write it like this
        ("Sure.", f"{head}<think>\n\n</think>\n\nSure."),
    ):
        decided = plan("hermes", ask(tools=TOOLS, **continued(content)), prompt=prompt)
        assert decided.start == "content"
        assert message(decided.parser(), [" Hello world"]).content == " Hello world"
    thought = {"role": "assistant", "content": "", "reasoning_content": "Let me"}
    request = {"messages": [USER, thought], "continue_final_message": True}
    decided = plan("hermes", ask(tools=TOOLS, **request), prompt=f"{head}<think>\nLet me")
    assert decided.start == "reasoning"
    assert message(decided.parser(), [" see.</think>Hello"]).reasoning == " see."


@pytest.mark.parametrize("quoted", ["<think>", '<tool_call>\n{"name": "f", "arguments": {'])
@pytest.mark.parametrize(
    ("last", "written"),
    [
        ({"content": ""}, ""),
        ({"content": " \n"}, " \n"),
        ({"content": None}, ""),
        ({"content": "", "reasoning_content": "Hm."}, ""),  # the template drops the reasoning
        ({"content": "Sure."}, "SURE."),
        ({"content": [{"type": "text", "text": "Well,"}, {"type": "text", "text": "sure."}]}, "Well,\nsure."),
        ({"content": [{"type": "text", "text": "Sure."}]}, "[{'type': 'text', 'text': 'Sure."),
    ],
    ids=["empty", "blank", "none", "reasoning", "changed", "parts", "literal"],
)
def test_quotations_are_not_in_a_continued_message_that_the_template_changes(
    quoted: str, last: dict[str, Any], written: str
) -> None:
    """Where the text of the message is not at the end of the prompt, the messages before it do not count."""
    messages = [USER, {"role": "assistant", **last}]
    request = {"messages": messages, "tools": TOOLS, "continue_final_message": True}
    decided = plan("hermes", request, prompt=f"User: What is {quoted}\n\nAssistant: {written}")
    assert decided.start == "content"
    assert message(decided.parser(), ["Hello world"]).content == "Hello world"


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ('Well.\n\n<tool_call>\n{"name": "f", "arguments": {"city": "Os', None),
        (
            'Well.\n\n<tool_call>\n{"name": "f", "arguments": {"city": "Os',
            'Well.<tool_call>{"name": "f", "arguments": {"city": "Os',
        ),
        (
            '<think>Hm.</think>\n<tool_call>\n{"name": "f", "arguments": {"city": "Os',
            '<tool_call>\n{"name": "f", "arguments": {"city": "Os',
        ),
    ],
    ids=["same", "whitespace", "beginning"],
)
def test_a_call_of_a_continued_message_that_the_template_changes_goes_on(
    content: str, written: str | None
) -> None:
    request = ask(tools=TOOLS, **continued(content))
    decided = plan("hermes", request, prompt=f"User: What is <think>?\n\nAssistant: {written or content}")
    assert decided.start == "call"
    (call,) = message(decided.parser(), ['lo"}}\n</tool_call>']).tool_calls
    assert call.arguments == '{"city": "Oslo"}'


@pytest.mark.parametrize(
    ("message_", "start"),
    [
        ({"content": "Once upon"}, "content"),
        ({"content": "<think>\nLet me"}, "reasoning"),
        ({"content": "<think>a</think>b"}, "content"),
        ({"content": [{"type": "text", "text": "<think>a"}]}, "reasoning"),
        ({"content": "", "reasoning_content": "Let me"}, "reasoning"),
    ],
)
def test_message_to_continue_is_recognised(message_: dict[str, Any], start: str) -> None:
    messages = [USER, {"role": "assistant", **message_}]
    decided = plan("qwen3_thinking", {"messages": messages, "continue_final_message": True})
    assert decided.start == start
    assert (message(decided.parser(), ["and"]).reasoning == "and") is (start == "reasoning")


@pytest.mark.parametrize(
    ("name", "start"),
    [("deepseek_r1", "content"), ("deepseek_v4", "reasoning"), ("glm47", "reasoning"), ("glm45", "content")],
)
def test_tool_result_without_a_prompt_uses_the_table(name: str, start: str) -> None:
    assert plan(name, {"messages": AFTER_TOOL}).start == start


def test_tool_result_default_can_be_overridden() -> None:
    request_ = {"messages": AFTER_TOOL}
    seeded = "<|im_middle|><think>"
    assert plan("kimi_k25", request_, prompt=seeded).start == "reasoning"
    off = plan("kimi_k25", request_, prompt=seeded, tool_continuation_reasoning="off")
    assert off.start == "content"
    assert read(off, "It is sunny.").content == "It is sunny."
    on = plan("deepseek_r1", request_, prompt="<｜tool▁outputs▁end｜>", tool_continuation_reasoning="on")
    assert on.start == "reasoning"
    assert read(on, "Hm.</think>Hi").reasoning == "Hm."
    assert plan("harmony", request_, tool_continuation_reasoning="off").start == "header"
    # This option applies only after a tool result.
    assert plan("kimi_k25", ask(), prompt=seeded, tool_continuation_reasoning="off").start == "reasoning"


REAL = {
    "Apertus-8B-Instruct": "apertus",
    "ByteDance-Seed-OSS": "seed_oss",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "cohere_command3",
    "GLM-4.6": "glm45",
    "GigaChat3-10B-A1.8B": "gigachat3",
    "Kimi-K3": "kimi_k3",
    "LFM2.5-Instruct": "lfm2",
    "MiniMax-M1": "minimax_m1",
    "MiniMax-M2": "minimax_m2",
    "MiniMax-M3": "minimax_m3",
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral_v11",
    "NVIDIA-Nemotron-Nano-v2": "nemotron_nano_v2",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes",
    "Qwen-Qwen2.5-7B-Instruct": "qwen25",
    "Qwen-Qwen3-0.6B": "qwen3",
    "Qwen3-Coder": "qwen3_coder",
    "StepFun3.5-Flash": "step3p5",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek_r1",
    "deepseek-ai-DeepSeek-V3.1": "deepseek_v3_1",
    "deepseek-ai-DeepSeek-V3.2": "deepseek_v3_2",
    "deepseek-ai-DeepSeek-V4": "deepseek_v4",
    "google-gemma-4-31B-it": "gemma4",
    "ibm-granite-granite-3.3-2B-Instruct": "granite",
    "ibm-granite-granite-4.0": "granite4",
    "meetkai-functionary-medium-v3.1": "functionary",
    "meetkai-functionary-medium-v3.2": "functionary_v32",
    "meta-llama-Llama-3.1-8B-Instruct": "llama3_json",
    "mistralai-Ministral-3-14B-Reasoning-2512": "magistral",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral_v3",
    "moonshotai-Kimi-K2": "kimi_k2",
    "muse-glimmer": "muse_glimmer",
    "openai-gpt-oss-120b": "harmony",
    "openbmb-MiniCPM5-1B": "minicpm5",
    "tencent-Hy3": "hy_v3:opensource",
}
"""Templates of real models, and the names under which they are planned."""
OFF_BY_DEFAULT = ("deepseek_r1", "deepseek_v3_2", "deepseek_v4")
"""Engines switch reasoning of these on by default; a template on its own does not."""


@real
@pytest.mark.parametrize("after_tool", [False, True], ids=["user", "tool"])
@pytest.mark.parametrize("on", [None, True, False], ids=["unsaid", "on", "off"])
@pytest.mark.parametrize("name", REAL)
def test_truth_table_agrees_with_templates(name: str, on: bool | None, after_tool: bool) -> None:
    family = REAL[name]
    if on is None and family in OFF_BY_DEFAULT and not (after_tool and family == "deepseek_r1"):
        pytest.skip("the template's default differs from the engines'")
    thinking = plan(family, {}).facts.thinking
    switched = {} if on is None else switch_request(family, on=on)
    if switched is None:
        pytest.skip("the family has no such switch")
    template = ChatTemplate(TEMPLATES[name].read_text("utf-8"), bos_token="", eos_token="")
    messages = AFTER_TOOL if after_tool else [USER]
    guessed = plan(family, {"messages": messages, "tools": TOOLS, **switched})
    history = normalise_history(messages, template, dialect=guessed.dialect)
    kwargs: dict[str, Any] = dict(guessed.chat_template_kwargs)
    prompt = template.render(history, TOOLS, **kwargs)
    decided = guessed.with_prompt(prompt)
    if thinking.habits.caution and on is False and decided.reasoning:
        assert decided.start == "reasoning"  # the template has no switch, so the plan follows the prompt
        return
    assert decided.start == guessed.start
    assert decided.reasoning is guessed.reasoning


def switch_request(family: str, *, on: bool) -> dict[str, Any] | None:
    from unspool.planning._truth_table_page import switch

    return switch(plan(family, {}).facts.thinking, on=on)


# --- PRE.4: calls


@pytest.mark.parametrize(
    ("name", "choice", "text", "expected", "reasoning"),
    [
        ("hermes", "required", '[{"name": "f", "parameters": {"a": 1}}]', [("f", {"a": 1})], None),
        ("hermes", "required", '{"name": "f", "arguments": {"a": 1}}', [("f", {"a": 1})], None),
        (
            "nemotron_v3",
            "required",
            'thinking</think>[{"name": "f", "parameters": {}}]',
            [("f", {})],
            "thinking",
        ),
        ("nemotron_v3", "required", ' \n[{"name": "f", "parameters": {}}]', [("f", {})], None),
        (
            "nemotron_v3",
            "required",
            '<think>hm</think>\n[{"name": "g", "parameters": {}}]',
            [("g", {})],
            "hm",
        ),
        ("hermes", {"name": "f"}, '{"a": 1}', [("f", {"a": 1})], None),
        ("hermes", NAMED, '[{"name": "f", "parameters": {"a": 1}}]', [("f", {"a": 1})], None),
        ("hermes", NAMED, '{"name": "Bob"}', [("f", {"name": "Bob"})], None),
        (
            "hermes",
            NAMED,
            '[{"name": "f", "parameters": {"a": 1}}, {"name": "f", "parameters": {"a": 2}}]',
            [("f", {"a": 1}), ("f", {"a": 2})],
            None,
        ),
        ("deepseek_r1", NAMED, '{"a": 1}', [("f", {"a": 1})], None),
        ("deepseek_r1", NAMED, 'Hm.\n</think>\n\n{"a": 1}', [("f", {"a": 1})], "Hm."),
        (
            "mistral",
            "required",
            '[THINK]x[/THINK][{"name": "f", "parameters": {}}]',
            [("f", {})],
            "x",
        ),
        ("mistral", "required", '[{"name": "f", "arguments": {"a": 1}}]', [("f", {"a": 1})], None),
        ("minimax_append_think", "required", '[{"name": "f", "parameters": {}}]', [("f", {})], None),
        ("passthrough", "required", '[{"name": "f", "parameters": {}}]', [("f", {})], None),
    ],
)
def test_guided_json_is_parsed(
    name: str, choice: Any, text: str, expected: list[tuple[str, Any]], reasoning: str | None
) -> None:
    decided = plan(name, ask(tools=TOOLS, tool_choice=choice), constraints=("json",))
    assert decided.tool_output == "guided_json"
    message_ = read(decided, text)
    assert calls(message_) == expected
    assert message_.reasoning == reasoning
    assert message_.content is None
    assert message_.finish_reason == "tool_calls"


@pytest.mark.parametrize("name", [dialect.name for dialect in list_dialects()])
def test_bare_json_is_not_taken_for_reasoning(name: str) -> None:
    decided = plan(name, ask(tools=TOOLS, tool_choice="required"), constraints=("json",))
    if decided.tool_output == "guided_json":
        assert calls(read(decided, '\n[{"name": "f", "parameters": {"a": 1}}]')) == [("f", {"a": 1})]
    if not plan(name, ask()).dialect.prompt.start:
        answer = plan(name, ask(response_format={"type": "json_object"}))
        shown = read(answer, ' {"a": 1}').content or ""
        assert shown.removeprefix("<think>").strip() == '{"a": 1}'


def test_guided_arguments_stream() -> None:
    decided = plan("deepseek_r1", ask(tools=TOOLS, tool_choice=NAMED), constraints=("json",))
    parser = decided.parser()
    assert parser.feed("  ") == []
    assert parser.pending == 2
    assert any(isinstance(event, CallStart) for event in parser.feed('{"'))


def test_whitespace_only_reasoning_is_reasoning() -> None:
    decided = plan("deepseek_r1", ask(tools=TOOLS, tool_choice=NAMED), constraints=("json",))
    assert read(decided, "  ").tool_calls == ()
    long = " " * 3000
    assert message(decided.parser(), [long, "hm</think>{}"]).reasoning == long + "hm"
    assert message(decided.parser(), list(long + "hm</think>{}")).reasoning == long + "hm"


def test_cut_guided_call_is_a_diagnostic() -> None:
    decided = plan("hermes", ask(tools=TOOLS, tool_choice=NAMED), constraints=("json",))
    message_ = read(decided, '{"name": "Bo')
    assert (message_.tool_calls, message_.finish_reason) == ((), "length")
    assert message_.diagnostics[0].raw == '{"name": "Bo'


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_native_calls_are_read_after_their_reasoning(choice: Any) -> None:
    decided = plan("glm47", ask(tools=TOOLS, tool_choice=choice))
    assert (decided.tool_output, decided.constraint.kind) == ("native", "native")
    assert decided.constraint.start == "reasoning"
    assert decided.constraint.grammar().gbnf()
    assert decided.constraint.grammar().structural_tag()
    with pytest.raises(UsageError, match=r"use grammar\(\)"):
        decided.constraint.json_schema()
    message_ = read(
        decided, "Hm.</think><tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>"
    )
    assert (message_.reasoning, calls(message_)) == ("Hm.", [("f", {"a": 1})])


def test_guided_json_has_a_schema() -> None:
    required = plan("jamba", ask(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)).constraint
    schema = required.json_schema()
    assert (schema["type"], schema["minItems"], schema["maxItems"]) == ("array", 1, 1)
    named = plan("jamba", ask(tools=TOOLS, tool_choice=NAMED)).constraint
    assert named.json_schema()["properties"] == PROPERTIES
    with pytest.raises(UsageError, match=r"use json_schema\(\)"):
        named.grammar()
    with pytest.raises(UsageError, match="nothing to enforce"):
        plan("jamba", ask()).constraint.grammar()


def test_mistral_needs_the_vocabulary_for_its_grammar() -> None:
    forced = ask(tools=TOOLS, tool_choice="required")
    with pytest.raises(UsageError, match=r"pass tokenizer=, or the dialect mistral_v11 or mistral_v3"):
        plan("mistral", forced)
    v11 = tokenizer(special=("[TOOL_CALLS]", "[ARGS]"))
    decided = plan("mistral", forced, tokenizer=v11)
    assert (decided.dialect.name, decided.constraint.kind) == ("mistral_v11", "native")
    v3 = tokenizer(special=("[TOOL_CALLS]",))
    decided = plan("mistral", forced, tokenizer=v3)
    assert (decided.dialect.name, decided.constraint.kind) == ("mistral_v3", "guided_json")
    # This vocabulary has no [THINK], and guided JSON has no [TOOL_CALLS].
    assert decided.skip_special_tokens is True


def test_markup_is_text_without_tools() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    for request_ in (ask(), ask(tools=[]), ask(tools=TOOLS, tool_choice="none")):
        decided = plan("hermes", request_)
        assert (decided.tool_output, decided.forced, decided.constraint.kind) == ("none", False, "none")
        assert read(decided, text).content == text


def test_strict_tools_are_enforced_by_the_grammar() -> None:
    strict = function("g", {}, strict=True)
    decided = plan("hermes", ask(tools=[strict]))
    assert (decided.constraint.kind, decided.constraint.choice) == ("native", "auto")
    assert "strict" in decided.why["tool_output"]
    assert plan("hermes", ask(tools=TOOLS)).constraint.kind == "none"
    for options, why in (
        ({"constraints": ("json",)}, "does not accept grammars"),
        ({"request": ask(tools=[strict], response_format={"type": "json_object"})}, "response_format"),
        ({"request": ask(tools=[strict], guided_regex="a*")}, "guided_regex"),
        ({"dialect": "mistral"}, "the vocabulary decides"),
    ):
        loose = plan(**{"dialect": "hermes", "request": ask(tools=[strict]), **options})  # type: ignore[arg-type]
        assert loose.constraint.kind == "none"
        assert any(f"not enforced: {why}" in w or why in w for w in loose.warnings)


def test_parallel_tool_calls_false_keeps_one_call() -> None:
    decided = plan("hermes", ask(tools=TOOLS, parallel_tool_calls=False))
    one = '<tool_call>\n{"name": "%s", "arguments": {}}\n</tool_call>'
    message_ = read(decided, f"Well. {one % 'f'}\n{one % 'g'} Bye.")
    assert calls(message_) == [("f", {})]
    assert ("extra_call", "g") in [
        (diagnostic.kind, diagnostic.detail) for diagnostic in message_.diagnostics
    ]
    assert message_.finish_reason == "tool_calls"
    assert decided.why["tool_output"].endswith("only the first call is kept")
    assert (
        plan(
            "hermes", ask(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
        ).constraint.parallel
        is False
    )


def test_allowed_tools_restrict_the_choice() -> None:
    choice = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]},
    }
    decided = plan("hermes", ask(tools=TOOLS, tool_choice=choice))
    assert decided.forced
    assert decided.tools == (G,)


def test_dialect_without_calls_warns() -> None:
    decided = plan("kimi", ask(tools=TOOLS))
    assert decided.tool_output == "none"
    assert any("no format for calls" in warning for warning in decided.warnings)


def test_unenforced_forced_call_warns() -> None:
    for name, constraints in (
        ("kimi_k2", ("json",)),
        ("jamba", ()),
        ("harmony_stripped", ("native", "json")),
    ):
        decided = plan(name, ask(tools=TOOLS, tool_choice="required"), constraints=constraints)
        assert (decided.tool_output, decided.constraint.kind) == ("native", "none")
        assert any("nothing enforces it" in warning for warning in decided.warnings)


def test_response_template_can_be_planned() -> None:
    dialect = from_response_template(
        {
            "start_anchor": "<|im_start|>assistant\n",
            "fields": {
                "thinking": {"open": "<t>", "close": "</t>"},
                "tool_calls": {"open": "<call>", "close": "</call>", "content": "json"},
            },
        }
    )
    decided = plan(dialect, ask(tools=TOOLS, tool_choice="required"), prompt="<t>")
    assert decided.skip_special_tokens is False
    assert (decided.start, decided.constraint.kind) == ("reasoning", "native")


# --- PRE.5: stop tokens


def test_end_of_turn_tokens_are_planned() -> None:
    vocabulary = tokenizer(special=("<|return|>", "<|call|>", "<|end|>", "<|endoftext|>", "<|message|>"))
    ids = vocabulary.get_vocab(with_added_tokens=True)
    assert plan("harmony", ask()).eos_token_ids is None
    decided = plan("harmony", ask(), tokenizer=vocabulary)
    assert set(decided.eos_token_ids or ()) >= {ids["<|return|>"], ids["<|call|>"]}
    assert ids["<|end|>"] not in (decided.eos_token_ids or ())
    # Some generation configs list the end-of-message token, which would cut every answer short.
    decided_ = plan(
        "harmony", ask(), tokenizer=vocabulary, eos_token_ids=[ids["<|return|>"], ids["<|end|>"], 3]
    )
    assert decided_.eos_token_ids is not None
    assert set(decided_.eos_token_ids) >= {ids["<|return|>"], ids["<|call|>"], 3}
    assert ids["<|end|>"] not in decided_.eos_token_ids
    assert any("not used as EOS" in warning for warning in decided_.warnings)


def test_end_of_turn_can_be_ignored() -> None:
    decided = plan("hermes", ask(ignore_eos=True), eos_token_ids=[1, 2])
    assert (decided.ignore_eos, decided.eos, decided.eos_token_ids) == (True, (), ())
    assert plan("hermes", ask(), eos_token_ids=7).eos_token_ids == (7,)


def test_foreign_generation_config_warns() -> None:
    vocabulary = tokenizer(special=("<|im_end|>", "<other>"))
    decided = plan("hermes", ask(), tokenizer=vocabulary, eos_token_ids=vocabulary.token_to_id("<other>"))
    assert any("is it the right model?" in warning for warning in decided.warnings)


def test_stop_string_that_is_markup_warns() -> None:
    assert any("markup" in w for w in plan("qwen3", ask(stop=["</think>", "END"])).warnings)
    assert not plan("qwen3", ask(stop="END")).warnings


# --- PRE.6: leading markers

OFF = with_kwargs(enable_thinking=False)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<think>answer", "answer"),
        ("<think>\nhi", "\nhi"),
        ("  <x", "  <x"),
        ("<thi", "<thi"),
        ("\n<think>ok", "ok"),
        ("plain <think> text", "plain <think> text"),
        ("<think>\n</think>\nok", "\nok"),
        ("<think></thi", "</thi"),
        ("<think><think>a", "<think>a"),
        ("", None),
        ("<think>", None),
    ],
)
def test_leading_marker_is_stripped(text: str, content: str | None) -> None:
    decided = plan("nemotron_v3", OFF)
    assert decided.strip == "<think>"
    assert read(decided, text).content == content


def test_leading_marker_is_stripped_before_a_call() -> None:
    decided = plan("nemotron_v3", {**OFF, "tools": TOOLS})
    call = "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
    message_ = read(decided, f"<think></think>{call}")
    assert (message_.content, calls(message_)) == (None, [("f", {"a": 1})])


@pytest.mark.parametrize("lead", ["", "<think>", "\n<think>\n", "<think></think>", "<think>\n\n</think>\n\n"])
@pytest.mark.parametrize("choice", ["required", NAMED])
def test_leading_marker_is_stripped_from_guided_json(lead: str, choice: Any) -> None:
    decided = plan("nemotron_v3", {**OFF, "tools": TOOLS, "tool_choice": choice})
    message_ = read(decided, lead + '[{"name": "f", "parameters": {"a": 1}}]')
    assert (message_.content, calls(message_)) == (None, [("f", {"a": 1})])


def test_stray_closing_marker_is_stripped() -> None:
    assert read(plan("minimax_m3", ask(thinking=False)), "</mm:think>Hi").content == "Hi"
    assert read(plan("minimax_m3", ask()), "</mm:think>Hi").content == "Hi"


def test_choices_are_independent() -> None:
    decided = plan("nemotron_v3", {**OFF, "n": 2})
    first, second = decided.parsers()
    one, other = first.fold(), second.fold()
    for a, b in (("<thi", "<th"), ("nk>a", "is>b")):
        one.feed(first.feed(a))
        other.feed(second.feed(b))
    one.feed(first.finish())
    other.feed(second.finish())
    assert (one.message.content, other.message.content) == ("a", "<this>b")


def test_ids_are_stripped_too() -> None:
    for vocabulary in (tokenizer(special=("<think>",)), tokenizer()):
        decided = plan("nemotron_v3", OFF, tokenizer=vocabulary)
        parser = decided.parser(ids=True)
        fold = parser.fold()
        for id in vocabulary.encode("<think>né", add_special_tokens=False).ids:
            fold.feed(parser.feed_tokens([id]))
        fold.feed(parser.finish())
        assert fold.message.content == "né"


def test_text_with_ids_passes_the_same_stages() -> None:
    vocabulary = tokenizer(special=("</think>",))
    request_ = ask(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    decided = plan("deepseek_r1", request_, tokenizer=vocabulary, constraints=("json",))
    two = '[{"name": "f", "parameters": {"a": 1}}, {"name": "g", "parameters": {}}]'
    for text in (f"é</think>{two}", f"\n{two}", "  "):
        ids = vocabulary.encode(text, add_special_tokens=False).ids
        messages = []
        for decoded in (True, False):
            parser = decided.parser(ids=True, new_id=lambda name, index: f"{name}{index}")
            fold = parser.fold()
            shown = 0
            for place, id in enumerate(ids, 1):
                so_far = vocabulary.decode(ids[:place], skip_special_tokens=False).rstrip("\ufffd")
                fold.feed(parser.feed_decoded(so_far[shown:], [id]) if decoded else parser.feed_tokens([id]))
                shown = max(shown, len(so_far))
            fold.feed(parser.finish("stop"))
            messages.append(fold.message)
        assert messages[0] == messages[1]


def test_text_cut_by_a_stop_string_stays_cut() -> None:
    vocabulary = tokenizer(special=("</think>",))
    request_ = ask(tools=TOOLS, tool_choice="required")
    decided = plan("deepseek_r1", request_, tokenizer=vocabulary, constraints=("json",))
    parser = decided.parser(ids=True)
    fold = parser.fold()
    fold.feed(parser.feed_decoded("", vocabulary.encode("<thi", add_special_tokens=False).ids))
    fold.feed(parser.finish("stop"))
    assert (fold.message.reasoning, fold.message.content) == (None, None)


# --- other request options


def test_ids_and_guided_json_combine() -> None:
    vocabulary = tokenizer(special=("</think>",))
    decided = plan(
        "deepseek_r1",
        ask(tools=TOOLS, tool_choice="required", parallel_tool_calls=False),
        tokenizer=vocabulary,
        constraints=("json",),
    )
    two = '[{"name": "f", "parameters": {"a": 1}}, {"name": "g", "parameters": {}}]'
    for text, reasoning in ((f"é</think>{two}", "é"), (f"\n{two}", None), ("  ", "  ")):
        for step in (1, 1000):
            ids = vocabulary.encode(text, add_special_tokens=False).ids
            parser = decided.parser(ids=True)
            fold = parser.fold()
            at = 0
            for start in range(0, len(ids), step):
                events = parser.feed_tokens(ids[start : start + step])
                for event in events:
                    at = assert_span(event, at, text)
                fold.feed(events)
            events = parser.finish("stop")
            for event in events:
                at = assert_span(event, at, text)
            fold.feed(events)
            assert at == len(text)
            message_ = fold.message
            assert calls(message_) == ([("f", {"a": 1})] if two in text else [])
            assert (message_.reasoning or "").strip() == (reasoning or "").strip()
    with pytest.raises(UsageError, match="this parser has a tokenizer"):
        decided.parser(ids=True).feed("x")
    with pytest.raises(UsageError, match="takes text"):
        decided.parser().feed(b"x")  # type: ignore[arg-type]


def test_unconstrained_answer_is_read() -> None:
    decided = plan("nemotron_v3", with_kwargs(force_nonempty_content=True))
    only = read(decided, "only reasoning")
    assert (only.reasoning, only.content) == (None, "only reasoning")
    closed = read(decided, "only reasoning</think>\n")
    assert (closed.reasoning, closed.content) == (None, "only reasoning")
    answered = read(decided, "hm</think>\nanswer")
    assert (answered.reasoning, answered.content) == ("hm", "answer")
    called = read(
        plan("nemotron_v3", {**with_kwargs(force_nonempty_content=True), "tools": TOOLS}),
        "hm</think><tool_call>\n<function=g>\n</function>\n</tool_call>",
    )
    assert (called.reasoning, called.content, calls(called)) == ("hm", None, [("g", {})])


def test_granite_reads_newlines_as_an_answer() -> None:
    decided = plan("granite42", with_kwargs(force_nonempty_content=True))
    assert read(decided, "hm</think>").content == "hm"
    assert read(decided, "hm</think>\n\n").reasoning == "hm"


def test_reasoning_can_be_hidden() -> None:
    for request_ in (ask(include_reasoning=False), ask(reasoning={"exclude": True})):
        decided = plan("deepseek_r1", request_)
        assert decided.include_reasoning is False
        message_ = read(decided, "hm</think>\n\nHi")
        assert (message_.reasoning, message_.content) == (None, "Hi")


def test_reasoning_can_stay_in_content() -> None:
    for prompt in (None, "<｜Assistant｜><think>\n"):
        decided = plan("deepseek_r1", ask(separate_reasoning=False), prompt=prompt)
        assert read(decided, "hm</think>Hi").content == "hm</think>Hi"


def test_policies_reach_the_parser() -> None:
    decided = plan("hermes", ask(tools=TOOLS), policies=Policies(unknown_tool="text"))
    assert decided.parser().policies.unknown_tool == "text"


def test_checkpoint_and_combined_names_are_planned() -> None:
    assert plan("qwen3_thinking", ask()).dialect.name == "hermes"
    pair = plan("qwen3-coder+qwen3-thinking", ask())
    assert (pair.start, pair.dialect.name) == ("reasoning", "qwen3_coder+hermes")
    assert plan("llama3_json+deepseek_r1", ask()).start == "reasoning"
    assert plan("llama3_json", ask()).start == "content"
    for name, dialect in CHECKPOINTS.items():
        assert plan(name, ask()).dialect.name == dialect


def test_custom_dialect_brings_its_facts() -> None:
    own = Dialect("own", call=("<call>{envelope}</call>",))
    with pytest.raises(SpecError, match="request=RequestFacts"):
        plan(own, ask())
    assert plan(own, ask(), facts=facts_of(get_dialect("hermes"))).reasoning


def test_tokenizer_selects_the_variant() -> None:
    released = tokenizer(special=("<tool_calls:opensource>",))
    decided = plan("hy_v3", ask(reasoning_effort="high"), tokenizer=released)
    assert decided.dialect.name == "hy_v3:opensource"
    assert read(decided, "hm</think:opensource>Hi").reasoning == "hm"


@pytest.mark.parametrize("name", [*(dialect.name for dialect in built_in_dialects()), *CHECKPOINTS])
def test_every_decision_has_a_reason(name: str) -> None:
    for request_ in (ask(), ask(tools=TOOLS), ask(ignore_eos=True, skip_special_tokens=False)):
        decided = plan(name, request_)
        assert list(decided.why) == [
            "skip_special_tokens",
            "reasoning",
            "start",
            "tool_output",
            "eos",
            "strip",
        ]
        assert all(sentence and not sentence.endswith(".") for sentence in decided.why.values())
        assert len(str(decided).splitlines()) >= 6


def test_forced_call_wins_over_a_json_response() -> None:
    """Libraries that ask for structured output send both."""
    both = plan("hermes", ask(tools=TOOLS, tool_choice="required", response_format={"type": "json_object"}))
    call = plan("hermes", ask(tools=TOOLS, tool_choice="required"))
    assert (both.tool_output, both.constraint.kind) == (call.tool_output, call.constraint.kind)
    assert both.warnings == (*call.warnings, "response_format has no effect: tool_choice requires a call")


# --- rejected requests

BLANK: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("name", "request_", "options", "why"),
    [
        # Unknown switches and unknown values.
        (
            "qwen3",
            with_kwargs(enable_reasoning=True),
            {},
            r"unknown reasoning option 'enable_reasoning'.*did",
        ),
        ("qwen3", with_kwargs(think=True), {}, "unknown reasoning option 'think': did you mean thinking"),
        ("qwen3", ask(enable_thinkng=False), {}, "'enable_thinkng': did you mean enable_thinking"),
        ("qwen3", with_kwargs(enable_thinking="perhaps"), {}, "choose true or false"),
        ("qwen3", with_kwargs(thinking_mode="deep"), {}, "accepts disabled, enabled"),
        ("qwen3", with_kwargs(thinking_mode="adaptive"), {}, "thinking_mode='adaptive'"),
        ("qwen3", ask(thinking={"type": "deep"}), {}, r"thinking\.type='deep'"),
        ("qwen3", ask(reasoning={"depth": 3}), {}, "unknown keys depth"),
        ("qwen3", ask(thinking_budget=100), {}, "supports enable_thinking, thinking"),
        ("qwen3", ask(reasoning_effort="extreme"), {}, "qwen3 accepts none, minimal"),
        ("seed_oss", with_kwargs(enable_thinking=False), {}, "seed_oss supports thinking_budget"),
        ("seed_oss", ask(thinking_budget="much"), {}, "a number of tokens"),
        ("seed_oss", ask(reasoning_effort="none"), {}, "supports thinking_budget"),
        ("mistral", ask(thinking=True), {}, "supports reasoning_effort"),
        ("harmony", ask(thinking=False), {}, "always reasons; reasoning_effort sets how much"),
        ("harmony", ask(reasoning_effort="none"), {}, "harmony accepts low, medium, high"),
        ("step3", ask(thinking=False), {}, "step3 always reasons"),
        ("jamba", ask(thinking=True), {}, "jamba has no such option"),
        ("llama3_json", ask(thinking=True), {}, "llama3_json does not reason"),
        ("llama3_json", ask(reasoning_effort="high"), {}, "llama3_json does not reason"),
        ("deepseek_v41", ask(reasoning_effort=101), {}, "or a number from 1 to 100"),
        ("hy_v3", ask(reasoning_effort="medium"), {}, "accepts no_think, none, low, high"),
        ("kimi_k3", ask(reasoning_effort="medium"), {}, "accepts none, low, high, max"),
        ("qwen3", ask(chat_template_kwargs=[1]), {}, "chat_template_kwargs is a list"),
        # Contradictory options.
        ("qwen3", with_kwargs(thinking=True, enable_thinking=False), {}, "contradict each other"),
        ("qwen3", ask(thinking=True, chat_template_kwargs={"thinking": False}), {}, "remove one of them"),
        (
            "qwen3",
            ask(chat_template_args={"a": 1}, chat_template_kwargs={"a": 2}),
            {},
            "chat_template_kwargs sets a=1|chat_template_args sets a=1|remove one of them",
        ),
        ("qwen3", ask(thinking=True, reasoning_effort="none"), {}, "contradict each other"),
        ("kimi_k3", with_kwargs(reasoning_effort="low", thinking_effort="high"), {}, "contradict each other"),
        (
            "hermes",
            ask(tools=TOOLS, tool_choice=NAMED, guided_json={}),
            {},
            "tool_choice naming 'f' and guided_json both constrain",
        ),
        ("hermes", ask(tool_choice="required"), {}, "there are no tools: add tools"),
        ("hermes", ask(tools=[], tool_choice="required"), {}, "there are no tools: add tools"),
        ("hermes", ask(tools=[G], tool_choice=NAMED), {}, "names 'f', but tools has g: add it"),
        ("hermes", ask(tool_choice=NAMED), {}, "names 'f', but there are no tools"),
        (
            "hermes",
            ask(continue_final_message=True, add_generation_prompt=True),
            {},
            "mutually exclusive",
        ),
        ("hermes", ask(continue_final_message=True), {}, "the last message has the role 'user'"),
        ("harmony", ask(separate_reasoning=False), {}, "use include_reasoning=false to hide it"),
        (
            "deepseek_v3_1",
            {"messages": AFTER_TOOL},
            {"tool_continuation_reasoning": "on"},
            "reasoning is off: .*; switch it on",
        ),
        # Prompts of another template.
        ("harmony", ask(), {"prompt": "<|im_start|>assistant\n"}, "use the template of this"),
        ("harmony", ask(), {"prompt": "User: Hi\nAssistant: "}, "outside any message"),
        ("deepseek_v4", ask(), {"prompt": "<|im_start|>assistant\n<think>\n"}, "prompts of deepseek_v4 end"),
        ("glm47", ask(), {"prompt": "<｜User｜>Hi<｜Assistant｜>"}, "use the template of this family"),
        ("hermes", ask(), {"prompt": "<|im_start|>user\nHi<|im_end|>\n"}, "add_generation_prompt=True"),
        ("glm47", ask(), {"prompt": "[gMASK]<sop><|user|>"}, "ends a turn of glm47"),
        # Missing tokenizers.
        ("hermes", ask(), {"prompt": [1, 2, 3]}, "pass the model's tokenizer"),
        (
            "hy_v4",
            ask(tools=TOOLS, tool_choice="required"),
            {},
            "pass tokenizer=, or the dialect hy_v4:opensource",
        ),
        # Other usage errors.
        ("hermes", [], {}, "request is a list"),
        ("hermes", ask(), {"prompt": 7}, "prompt is a int"),
        ("hermes", ask(), {"prompt": b"abc"}, "pass the model's tokenizer"),
        ("hermes", ask(tools="f"), {}, "tools is a str"),
        ("hermes", ask(tools=[{"type": "function"}]), {}, "function without a name"),
        ("hermes", ask(tools=TOOLS, tool_choice="any"), {}, "choose none, auto, required"),
        ("hermes", ask(tools=TOOLS, tool_choice={"type": "custom", "name": "f"}), {}, "name a function as"),
        ("hermes", ask(tools=TOOLS, tool_choice={"type": "allowed_tools"}), {}, "needs a list of tools"),
        (
            "hermes",
            ask(tools=[G], tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [NAMED]}),
            {},
            "allows f, which is not in tools",
        ),
        (
            "hermes",
            ask(tools=TOOLS, tool_choice={"type": "allowed_tools", "tools": [{"name": {}}]}),
            {},
            "which is not in tools",
        ),
        ("hermes", ask(functions=[]), {}, "use tools"),
        ("hermes", ask(function_call="auto"), {}, "use tool_choice"),
        ("hermes", ask(response_format={"type": "xml"}), {}, "response_format"),
        ("hermes", ask(parallel_tool_calls="no"), {}, "parallel_tool_calls='no': choose true or false"),
        ("hermes", ask(skip_special_tokens=1), {}, "skip_special_tokens=1"),
        ("hermes", ask(n=0), {}, "at least 1"),
        ("hermes", ask(n=True), {}, "at least 1"),
        ("hermes", ask(stop=3), {}, "stop=3"),
        ("hermes", {"messages": []}, {}, "messages is empty"),
        ("hermes", {"messages": "Hi"}, {}, "messages is a str"),
        ("hermes", {"messages": ["Hi"]}, {}, "not an object with a role"),
        ("hermes", ask(), {"constraints": "json"}, "a collection of"),
        ("hermes", ask(), {"constraints": ("xml",)}, "a collection of"),
        ("hermes", ask(), {"tool_continuation_reasoning": "maybe"}, "choose one of prompt, off, on"),
        (7, ask(), {}, "name is a string"),
    ],
)
def test_invalid_requests_are_refused(name: Any, request_: Any, options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        plan(name, request_, **options)


def test_unknown_name_suggests_a_dialect() -> None:
    with pytest.raises(UnknownDialect, match="no dialect 'hermess': did you mean hermes"):
        plan("hermess", ask())


def test_ids_need_a_tokenizer() -> None:
    with pytest.raises(UsageError, match="needs the model's tokenizer"):
        plan("hermes", ask()).parser(ids=True)


def test_null_options_are_ignored() -> None:
    assert not plan("llama3_json", ask(thinking=False)).reasoning
    assert plan("step3", ask(thinking=True)).reasoning
    assert plan("qwen3", ask(thinking=None, reasoning_effort=None, tools=None, stop=None, n=None)).reasoning
    overruled = plan("qwen3", ask(enable_thinking=False, reasoning_effort="high"))
    assert not overruled.reasoning
    assert any("takes precedence over" in warning for warning in overruled.warnings)


def test_start_state_follows_the_prompt() -> None:
    dialect = get_dialect("qwen3")
    assert start_state(dialect, "") == "content"
    assert start_state(dialect, "<think>") == "reasoning"
    assert start_state(replace(dialect, reasoning=()), "<think>") == "content"
    assert start_state(dialect, "<tool_call>\n") == "content"
    assert start_state(dialect, "<tool_call>\n", continues=True) == "call"
    assert start_state(get_dialect("harmony"), "<|start|>assistant") == "header"


def test_whole_prompt_without_tools_is_reported() -> None:
    tools = [{"type": "function", "function": {"name": "get_weather"}}]
    request = {"messages": [{"role": "user", "content": "What is the weather?"}], "tools": tools}
    turns = "<|im_start|>user\nWhat is the weather?<|im_end|>\n"
    end = "<|im_start|>assistant\n"
    planned = plan("hermes", request)
    (warning,) = planned.with_prompt(turns + end).warnings
    assert warning.startswith("the prompt does not show the tools (get_weather): ")
    for prompt in (end, f"Tools: get_weather. {turns}{end}"):
        assert planned.with_prompt(prompt).warnings == ()
    assert plan("hermes", request | {"tools": []}, prompt=turns + end).warnings == ()
    assert plan("hermes", request | {"tool_choice": "none"}, prompt=turns + end).warnings == ()
