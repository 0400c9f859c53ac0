"""Every engine's name for a dialect resolves to that dialect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unspool import Dialect, Parser, UsageError, get_dialect, list_dialects, register
from unspool.dialects._registry import facts_of
from unspool.dialects._validation import check_facts

NAMES = {
    "apertus": "apertus apertus2509",
    "beam": "beam",
    "cohere": "cohere cohere_cmd cohere_command3 cohere_command4",
    "deepseek_v3": "cogito deepseek deepseek-r1 deepseek-v3 deepseek_r1 deepseek_v3 deepseekv3",
    "deepseek_v3_1": "deepseek3 deepseek31 deepseek_v31 deepseek_v3_1 deepseekv31",
    "deepseek_v3_2": "deepseek32 deepseek_v32 deepseek_v3_2 deepseekv32",
    "deepseek_v4": "deepseek-v4 deepseek_v4 deepseekv4",
    "deepseek_v41": "deepseek-v41 deepseek_v41 deepseekv41",
    "dots": "dots",
    "ernie45": "ernie45",
    "functiongemma": "function_gemma functiongemma",
    "gemma4": "gemma-4 gemma4 gemma4-no-thinking",
    "generic_json": "default json",
    "gigachat3": "gigachat3",
    "gigachat35": "gigachat35",
    "glm45": "glm glm45 glm45_moe",
    "glm47": "glm-4.7 glm-ocr glm47 glm47_moe",
    "granite": "granite",
    "granite4": "granite4",
    "granite42": "granite_thinking_parser",
    "granite_20b_fc": "granite-20b-fc",
    "harmony": "gpt-oss gpt_oss harmony openai openai_gptoss",
    "hermes": (
        "hermes holo2 json_tools qwen qwen25 qwen3 qwen3-thinking qwen3-vl-instruct qwen3-vl-thinking "
        "qwen3_json qwen3_thinking"
    ),
    "hunyuan_a13b": "hunyuan_a13b",
    "hy_v3": "hunyuan hy_v3",
    "hy_v4": "hy_v4",
    "inkling": "inkling",
    "internlm2": "internlm interns1",
    "iquest_q1": "iquest_q1",
    "jamba": "jamba",
    "k2_horizon": "k2_horizon",
    "kimi": "kimi",
    "kimi_k2": "kimi_k2 kimi_k25 kimi_thinking kimik2",
    "kimi_k3": "kimi-k3 kimi_k3",
    "lfm2": "lfm2 lfm2-thinking",
    "ling3": "ling3",
    "llama3_json": "llama llama3 llama3_json",
    "llama4_json": "llama4_json",
    "longcat": "longcat",
    "mimo": "mimo",
    "minicpm5": "minicpm5",
    "minicpmv": "minicpmv",
    "minimax_append_think": "minimax-append-think minimax_append_think minimax_m2_append_think",
    "minimax_m2": "minimax minimax-m2 minimax_m2",
    "minimax_m3": "minimax-m3 minimax-m3-nom minimax_m3 minimax_m3_nom",
    "mistral": "ministral mistral",
    "muse_glimmer": "glimmer muse muse_glimmer",
    "nemotron_json": "llama_nemotron_json nemotron_deci nemotron_json",
    "nemotron_v3": (
        "nano_v3 nemotron nemotron-3-nano nemotron-3.5-nano nemotron3 nemotron_3 nemotron_nano nemotron_v3"
    ),
    "passthrough": "passthrough",
    "phi4mini": "phi4 phi4_mini_json",
    "plamo3": "plamo3",
    "poolside_v1": "laguna poolside-v1 poolside_v1",
    "pythonic": "llama4_pythonic olmo3 olmo3-think pythonic",
    "qwen3_coder": "nanbeige ornith qwen3-coder qwen3.5 qwen3_coder qwen3_xml qwen_coder qwen_xml",
    "sarashina": "sarashina",
    "seed_oss": "seed_oss",
    "spark25": "spark25",
    "step3": "step3",
    "step3p5": "step3p5",
    "trinity": "trinity",
    "xlam": "xlam",
}
"""Names of tool and reasoning parsers in vLLM, SGLang, Dynamo, SMG, Ollama and mlx-lm."""


@pytest.mark.parametrize(("dialect", "names"), NAMES.items())
def test_engine_parser_names_are_aliases(dialect: str, names: str) -> None:
    for name in names.split():
        assert get_dialect(name).name == dialect
        assert get_dialect(name.upper().replace("_", "-")).name == dialect
        assert Parser(name).dialect.name == dialect


def test_every_name_belongs_to_one_dialect() -> None:
    every = [name for dialect in list_dialects() for name in (dialect.name, *dialect.family.aliases)]
    assert len(every) == len(set(every))


def test_dialects_agree_with_their_request_facts() -> None:
    """The facts of third-party dialects are checked when they are registered."""
    for dialect in list_dialects():
        check_facts(dialect, facts_of(dialect))


def test_calls_and_reasoning_of_two_dialects_combine() -> None:
    pair = get_dialect("hermes+kimi")
    assert pair.call == get_dialect("hermes").call
    assert pair.reasoning == get_dialect("kimi").reasoning


@pytest.mark.parametrize("name", ["hf", "response_template"])
def test_tokenizer_template_decides_the_variant(name: str) -> None:
    with pytest.raises(UsageError, match="from_response_template"):
        get_dialect(name)


def test_replaced_dialect_takes_effect() -> None:
    old = register(Dialect("mine", call=("<call>{envelope}</call>",), request="hermes"))
    assert Parser("mine").dialect is old
    new = register(replace(old, call=("<tool>{envelope}</tool>",)), replace=True)
    assert Parser("mine").dialect is new
