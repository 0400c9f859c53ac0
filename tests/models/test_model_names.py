"""Model names: a name alone leads to a dialect, with the reason."""

from __future__ import annotations

import pytest
from test_detect import EXPECTED, HINTS

from unspool import list_dialects
from unspool.dialects.model_names import known_model, models_like, words


@pytest.mark.parametrize("name", EXPECTED)
def test_name_agrees_with_the_template(name: str) -> None:
    """The names of real templates are those of their models."""
    expected = EXPECTED[name] or HINTS.get(name)
    match = known_model(name)
    assert (match.dialect.name if match else None) == (expected and expected.partition(":")[0])


@pytest.mark.parametrize("dialect", list_dialects(), ids=lambda dialect: dialect.name)
def test_every_declared_name_is_found(dialect: object) -> None:
    for name in dialect.family.model_names:  # type: ignore[attr-defined]
        pattern_name = name.replace("*", "7")
        for spelling in (
            pattern_name,
            pattern_name.upper(),
            pattern_name.replace(" ", "-") + "-8B-Instruct",
            f"org/{pattern_name}:8b",
        ):
            match = known_model(spelling)
            assert match is not None
            assert match.dialect is dialect
            assert match.model in name


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("qwen3:8b", "hermes"),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", "hermes"),
        ("qwen3-coder:30b", "qwen3_coder"),
        ("unsloth/Qwen3.5-9B-GGUF", "qwen3_coder"),
        ("qwen3_5_moe", "qwen3_coder"),
        ("hf.co/bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M", "llama3_json"),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "hermes"),
        ("nvidia/Llama-3.1-Nemotron-Nano-8B-v1", "nemotron_json"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek_v3"),
        ("mistral-small3.2:24b", "mistral_v11"),
        ("gpt-oss:20b", "harmony"),
        ("gemma3:4b", None),
        ("my-helper", None),
        ("llama", None),
        ("", None),
    ],
)
def test_informal_names_are_found(name: str, dialect: str | None) -> None:
    match = known_model(name)
    assert (match.dialect.name if match else None) == dialect


def test_similar_names_are_listed() -> None:
    names = models_like("qwen3")
    assert (names[0].model, names[0].dialect.name) == ("Qwen3", "hermes")
    assert {"Qwen3 Coder", "Qwen3.5"} < {each.model for each in names}
    assert len({(each.model, each.dialect.name) for each in names}) == len(names)
    assert [each.dialect.name for each in models_like("openai-gptoss")] == ["harmony"]
    assert [each.why for each in models_like("deepseek_v31")] == ["deepseek_v31 is one of its aliases"]
    assert not models_like("nothing at all")
    assert not models_like("")


def test_words_normalise_names() -> None:
    assert words("Qwen3-Coder-30B_A3B") == words("qwen 3 coder 30b a3b")
    assert words("qwen3_5") == words("Qwen3.5")
