"""The next prompt is the sampled ids plus a suffix: real chat templates in their own vocabularies.

Two laws: the result begins with the given ids, whatever they are; and it equals the encoding of the whole
conversation wherever that keeps them. Otherwise there is no prompt, but a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer

from chatml import CHATML
from paths import MORE_TEMPLATES, TEMPLATES, real
from unspool import UsageError
from unspool._core.token_ids.tokenizer_adapters import Encoder, as_encoder
from unspool.templates import ChatTemplate, ChatTemplateError
from unspool.templates.prefix_stability import TAG, thinking_variables
from unspool.tokens import Extension, extend
from vocabularies import real_vocabulary, trained_on

EVERY = {**TEMPLATES, **MORE_TEMPLATES}

# -- vocabularies


@cache
def tekken() -> Encoder:
    common = pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    path = Path(common.__file__).parent / "data" / "tekken_240911.json"
    return as_encoder(Tekkenizer.from_file(path))


@cache
def trained() -> str:
    return trained_on([path.read_text("utf-8") for path in TEMPLATES.values()], size=700).to_str()


def made_for(texts: Sequence[str]) -> Encoder:
    """Return a vocabulary with every tag of these texts as a token."""
    tokenizer = Tokenizer.from_str(trained())
    tags = sorted({tag for text in texts for tag in re.findall(TAG, text)})
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in tags])
    return as_encoder(tokenizer)


class Model(NamedTuple):
    vocabulary: Callable[[], Any]
    begin: str = ""
    end: str = ""


MODELS = {
    "qwen3": Model(lambda: real_vocabulary("qwen3"), end="<|im_end|>"),
    "llama3_2": Model(lambda: real_vocabulary("llama3_2"), "<|begin_of_text|>", "<|eot_id|>"),
    "deepseek_v3": Model(
        lambda: real_vocabulary("deepseek_v3"), "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
    ),
    "gemma3": Model(lambda: real_vocabulary("gemma3"), "<bos>", "<eos>"),
    "tekken": Model(tekken, "<s>", "</s>"),
}
OWN = {
    "qwen3": """
        Qwen-Qwen3-0.6B Qwen-Qwen2.5-7B-Instruct Qwen3-Coder Qwen-QwQ-32B trl/qwen2_5 trl/qwen2_5_training
        trl/qwen3 trl/qwen3_training trl/qwen3_instruct_2507 trl/qwen3_vl axolotl/chatml
    """,
    "llama3_2": """
        meta-llama-Llama-3.1-8B-Instruct meta-llama-Llama-3.2-3B-Instruct trl/llama3 trl/llama3_training
        xllamacpp/meta-llama-Llama-3.3-70B-Instruct
    """,
    "deepseek_v3": """
        deepseek-ai-DeepSeek-V3.1 deepseek-ai-DeepSeek-V3.2 trl/deepseekv3 trl/deepseekv3_training
        xllamacpp/deepseek-ai-DeepSeek-R1-Distill-Llama-8B
    """,
    "gemma3": "google-gemma-2-2b-it axolotl/gemma3 trl/gemma3 trl/gemma3_training",
    "tekken": """
        Mistral-Small-3.2-24B-Instruct-2506 mistralai-Mistral-Nemo-Instruct-2407 axolotl/mistral_v7_tekken
    """,
}
QUICK = ("qwen3", "llama3_2", "deepseek_v3")
"""Vocabularies that load quickly."""
REAL = [
    pytest.param(name, model, marks=() if number == 0 and model in QUICK else pytest.mark.slow)
    for model, names in OWN.items()
    for number, name in enumerate(names.split())
    if name in EVERY
]

# -- conversations

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Where."}},
                "required": ["city"],
            },
        },
    }
]
QUESTION = {"role": "user", "content": "Weather in Oslo?"}
NEXT = {"role": "user", "content": "And tomorrow?"}


def result(id: str) -> dict[str, Any]:
    return {"role": "tool", "content": "21 degrees, très chaud", "tool_call_id": id, "name": "get_weather"}


@dataclass(frozen=True)
class Rollout:
    """A turn of a model as a template writes it, and what follows."""

    name: str
    template: ChatTemplate
    history: list[dict[str, Any]]
    turn: dict[str, Any]
    new: list[dict[str, Any]]
    variables: dict[str, Any]
    tools: list[Any] | None

    def render(self, messages: list[dict[str, Any]], *, generation: bool) -> str:
        return self.template.render(messages, self.tools, add_generation_prompt=generation, **self.variables)

    def texts(self) -> tuple[str, str, str] | None:
        """Return the prompt, the model's text, and the next prompt; None if the template has no such turn."""
        try:
            prompt = self.render(self.history, generation=True)
            bare = self.render(self.history, generation=False)
            turn = self.render([*self.history, self.turn], generation=False)
            after = self.render([*self.history, self.turn, *self.new], generation=True)
        except ChatTemplateError:
            return None
        if not turn.startswith(prompt):
            return None  # the model could not have written this turn after the prompt
        if prompt == bare and turn.endswith(prompt[-12:]):
            return None  # the template writes the generation header after every turn
        finale = "</s>" if bare.endswith("</s>") and not prompt.startswith(bare) else ""
        return prompt, turn[len(prompt) :].removesuffix(finale).rstrip(), after

    def extend(self, ids: Sequence[int], tokenizer: Any, **more: Any) -> Extension:
        return extend(
            ids, self.new, self.template, tokenizer, tools=self.tools or [], **self.variables, **more
        )


def rollouts(name: str, begin: str = "<s>", end: str = "</s>") -> Iterator[Rollout]:
    template = ChatTemplate(EVERY[name].read_text("utf-8"), bos_token=begin, eos_token=end)
    wants = template.capabilities

    def message(raw: dict[str, Any]) -> dict[str, Any]:
        if raw["role"] in wants.roles_with_parts_only and raw["content"]:
            return {**raw, "content": [{"type": "text", "text": raw["content"]}]}
        return raw

    def turn(id: str, *, thought: bool) -> dict[str, Any]:
        message_: dict[str, Any] = {
            "role": "assistant",
            "content": wants.empty_content if id else "It is raining.",
        }
        if id:
            arguments: object = '{"city": "Oslo"}' if wants.arguments == "string" else {"city": "Oslo"}
            function = {"name": "get_weather", "arguments": arguments}
            message_["tool_calls"] = [{"id": id, "type": "function", "function": function}]
        if thought and wants.reasoning_key == "parts":
            text = [] if id else [{"type": "text", "text": "It is raining."}]
            return {**message_, "content": [{"type": "thinking", "thinking": "Rain, perhaps."}, *text]}
        return message({**message_, wants.reasoning_key: "Rain, perhaps."} if thought else message_)

    for thought in (False, True) if wants.reasoning_key else (False,):
        before = [message(QUESTION), turn("abcdefgh1", thought=thought), message(result("abcdefgh1"))]
        cases = {
            "a tool's result": (before[:1], before[1], before[2:]),
            "a second round": (before, turn("abcdefgh2", thought=thought), [message(result("abcdefgh2"))]),
            "the next question": (before[:1], turn("", thought=thought), [message(NEXT)]),
            "the next question after a round": (before, turn("", thought=thought), [message(NEXT)]),
        }
        variables = thinking_variables(template, on=thought)
        for case, (history, last, new) in cases.items():
            if wants.calls == "none" and case != "the next question":
                continue
            label = f"{case}, {'with' if thought else 'without'} reasoning"
            yield Rollout(
                label, template, history, last, new, variables, TOOLS if wants.calls != "none" else None
            )


# -- laws

DEPENDS = "pass messages="
NO_BORDER = "which is not a special token"


def check_rollout(rollout: Rollout, tokenizer: Encoder, texts: tuple[str, str, str]) -> bool:
    """Return whether there is a next prompt, and assert the laws with and without the last sampled token."""
    prompt, written, after = texts
    sampled = list(tokenizer.encode(written))
    expected = list(tokenizer.encode(after))
    problems = []
    for kept in (sampled, sampled[:-1] if sampled[-1] in tokenizer.special_tokens() else sampled):
        ids = [*tokenizer.encode(prompt), *kept]
        extension = rollout.extend(ids, tokenizer)
        if extension.ids is not None:
            assert extension.ids == [*ids, *extension.suffix]
        keeps = expected[: len(ids)] == ids
        if keeps and extension.ids is None and DEPENDS in extension.why:
            extension = rollout.extend(ids, tokenizer, messages=[*rollout.history, rollout.turn])
        if keeps and NO_BORDER not in extension.why:
            assert extension.ids == expected, (rollout.name, extension.why)
        if not keeps:
            assert extension.ids is None, rollout.name
            assert extension.why
        problems.append(extension.ids is not None)
    return problems[0]


@real
@pytest.mark.parametrize(("name", "model"), REAL, ids=str)
def test_templates_extend_in_their_own_vocabulary(name: str, model: str) -> None:
    tokenizer = as_encoder(MODELS[model].vocabulary())
    for rollout in rollouts(name, MODELS[model].begin, MODELS[model].end):
        texts = rollout.texts()
        if texts is not None:
            check_rollout(rollout, tokenizer, texts)


def every_rollout(name: str) -> dict[str, bool]:
    rollout_texts = [(rollout, rollout.texts()) for rollout in rollouts(name)]
    tokenizer = made_for([text for _, texts in rollout_texts for text in texts or ()])
    return {
        rollout.name: check_rollout(rollout, tokenizer, texts)
        for rollout, texts in rollout_texts
        if texts is not None
    }


FEW = """
    CohereForAI-c4ai-command-r7b-12-2024-tool_use GLM-4.6 MiniMax-M2 google-gemma-4-31B-it muse-glimmer
    NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use microsoft-Phi-3.5-mini-instruct openai-gpt-oss-120b
    unsloth-Apriel-1.5
"""


@real
@pytest.mark.parametrize(
    "name", [name if name in FEW.split() else pytest.param(name, marks=pytest.mark.slow) for name in EVERY]
)
def test_every_template_extends_in_a_made_vocabulary(name: str) -> None:
    every_rollout(name)


# -- examples

THINKING = r"""
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content and loop.last %}<think>{{ message.reasoning_content }}</think>{% endif %}
{{- message.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TAGS = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>", "<|endoftext|>")
PROMPT = "<|im_start|>user\nWeather in Oslo?<|im_end|>\n<|im_start|>assistant\n"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
RESULT = {"role": "tool", "content": "21 degrees"}


@cache
def small_tokenizer() -> Tokenizer:
    tokenizer = trained_on([PROMPT, CALL, "It is raining. And tomorrow?"], size=400)
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    return tokenizer


def encode(text: str) -> list[int]:
    return small_tokenizer().encode(text).ids


def decode(ids: Sequence[int]) -> str:
    return small_tokenizer().decode(ids, skip_special_tokens=False)


def test_tool_result_follows_a_call() -> None:
    extension = extend(encode(PROMPT + CALL + "<|im_end|>"), [RESULT], CHATML, small_tokenizer())
    assert decode(extension.suffix) == "\n<|im_start|>tool\n21 degrees<|im_end|>\n<|im_start|>assistant\n"
    assert extension


@pytest.mark.parametrize("end", ["", "<|im_end|>", "<|im_end|>\n"])
def test_end_of_turn_occurs_once(end: str) -> None:
    extension = extend(encode(PROMPT + "It is raining." + end), [NEXT], CHATML, small_tokenizer())
    assert extension.ids is not None
    assert decode(extension.ids).count("<|im_end|>\n<|im_start|>user\nAnd tomorrow?") == 1


def test_unusual_ids_are_kept() -> None:
    letters = [id for letter in "It is raining." for id in encode(letter)]
    ids = [*encode(PROMPT), *letters, *encode("<|im_end|>")]
    assert letters != encode("It is raining.")
    extension = extend(ids, [NEXT], CHATML, small_tokenizer())
    assert extension.ids == [*ids, *extension.suffix]
    assert (
        extension.suffix
        == extend(encode(PROMPT + "It is raining.<|im_end|>"), [NEXT], CHATML, small_tokenizer()).suffix
    )


def test_arrays_are_accepted() -> None:
    ids = encode(PROMPT + "It is raining.<|im_end|>")
    extension = extend(np.array(ids), [NEXT], CHATML, small_tokenizer())
    assert extension == extend(ids, [NEXT], CHATML, small_tokenizer())
    assert extension.ids is not None
    assert {type(id) for id in extension.ids} == {int}


def test_dropped_reasoning_is_reported() -> None:
    ids = encode(PROMPT + "<think>Rain?</think>It is raining.<|im_end|>")
    extension = extend(ids, [NEXT], THINKING, small_tokenizer())
    assert not extension
    assert extension.difference is not None
    was, now, caret = extension.difference.show().splitlines()
    assert was[caret.index("^") :].startswith("<think>")
    assert now[caret.index("^") :].startswith("Unspool's answer.")
    assert extend(encode(PROMPT + "It is raining.<|im_end|>"), [NEXT], THINKING, small_tokenizer())


@pytest.mark.parametrize(
    ("written", "new", "why"),
    [
        ("", [NEXT], "nothing after it"),
        ("<think>Rain?", [NEXT], "truncated inside its reasoning"),
        ("It is raining.<|endoftext|>", [NEXT], "The ids end with <|endoftext|>"),
        ('<tool_call>\n{"name": "get', [RESULT], "that the template writes after calls"),
        (
            "It is raining.",
            [{"role": "assistant", "content": "It is raining."}],
            "contains a turn of the model",
        ),
    ],
)
def test_missing_prompt_has_a_reason(written: str, new: list[dict[str, Any]], why: str) -> None:
    template = CHATML.replace("assistant\n", "assistant\n{# </think> #}")
    extension = extend(encode(PROMPT + written), new, template, small_tokenizer())
    assert extension == Extension(None, why=extension.why)
    assert why in extension.why


def test_ids_of_another_template_are_not_extended() -> None:
    extension = extend(
        encode("User: Weather in Oslo?\nModel: It is raining."), [NEXT], CHATML, small_tokenizer()
    )
    assert "no turn of the model: in this template, such a turn begins with" in extension.why


def test_border_must_be_a_special_token() -> None:
    plain = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant: "
    extension = extend(
        encode("user: Weather in Oslo?\nassistant: It is raining."), [NEXT], plain, small_tokenizer()
    )
    assert not extension


def test_ambiguous_ids_are_not_guessed() -> None:
    named = r"""{%- set called = namespace(name='') %}
    {%- for message in messages %}<|im_start|>{{ message.role }}
{{- ' ' + called.name if message.role == 'tool' }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}{% set called.name = call.function.name %}
{{- '\n<tool_call>\n' + call.function | tojson + '\n</tool_call>' }}
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
    ids = encode(PROMPT + CALL + "<|im_end|>")
    assert "the call has another name" in extend(ids, [RESULT], named, small_tokenizer()).why
    extension = extend(ids, [{**RESULT, "name": "get_weather"}], named, small_tokenizer())
    assert "<|im_start|>tool get_weather\n21 degrees" in decode(extension.suffix)
    call = {"id": "abcdefgh1", "function": {"name": "get_weather", "arguments": {}}}
    messages = [QUESTION, {"role": "assistant", "content": None, "tool_calls": [call]}]
    assert extend(ids, [RESULT], named, small_tokenizer(), messages=messages) == extension


def test_different_prompt_is_not_a_prefix() -> None:
    ids = encode(PROMPT + "It is raining.<|im_end|>")
    messages = [{"role": "user", "content": "Weather in Rome?"}]
    extension = extend(ids, [NEXT], CHATML, small_tokenizer(), messages=messages)
    assert "do not begin with the prompt" in extension.why
    assert extension.difference is not None
    assert extension.difference.was[extension.difference.at :].startswith("Oslo")


def test_usage_errors_are_raised() -> None:
    with pytest.raises(UsageError, match="new_messages is empty"):
        extend([1], [], CHATML, small_tokenizer())
    with pytest.raises(UsageError, match="cannot encode text"):
        extend([1], [NEXT], CHATML, Deaf())
    with pytest.raises(UsageError, match="1000000"):
        extend([1_000_000], [NEXT], CHATML, small_tokenizer())


class Deaf:
    def token_bytes(self, id: int) -> bytes:
        raise KeyError(id)

    def special_tokens(self) -> dict[int, str]:
        return {}
