"""Family detection for chat templates that other packages contain.

The expected families were read off the templates. Several packages per family, and many versions of one
template, show that detection depends on what a template writes and not on how it is written.
"""

from __future__ import annotations

import pytest

from paths import MORE_TEMPLATES
from unspool import UsageError
from unspool.models.detection.detect_dialect import detect_dialect
from unspool.models.sources import read_source

pytestmark = pytest.mark.skipif(not MORE_TEMPLATES, reason="no chat templates: make templates")

FAMILIES = {
    "apriel": """
        xllamacpp/Apriel-1.6-15b-Thinker-fixed
    """,
    "cohere": """
        axolotl/command_a_rag axolotl/command_a_tool_use xllamacpp/Cohere2MoE
    """,
    "deepseek_v3": """
        axolotl/deepseek_v3 trl/deepseek_r1_distill trl/deepseek_r1_distill_training trl/deepseekv3
        trl/deepseekv3_training xllamacpp/deepseek-ai-DeepSeek-R1-Distill-Llama-8B
    """,
    "deepseek_v4": """
        xllamacpp/deepseek-ai-DeepSeek-V4-Flash-0731
    """,
    "gemma4": """
        axolotl/gemma4 axolotl/gemma4_unified trl/diffusion_gemma trl/diffusion_gemma_training trl/gemma4
        trl/gemma4_v2 trl/gemma4_v3 trl/gemma4_v4 trl/gemma4_v5 xllamacpp/google-gemma-4-31B-it-interleaved
    """,
    "gigachat3": """
        xllamacpp/GigaChat3.1-10B-A1.8B
    """,
    "glm45": """
        trl/glm4moe trl/glm4moe_training
    """,
    "glm47": """
        xllamacpp/GLM-4.7-Flash
    """,
    "granite4": """
        xllamacpp/ibm-granite-granite-4.1
    """,
    "harmony": """
        trl/gptoss trl/gptoss_training xllamacpp/llm-jp-llm-jp-4.1-8b-thinking
    """,
    "hermes": """
        axolotl/exaone4 axolotl/qwen3 axolotl/qwen3_5 axolotl/qwen_25 trl/qwen2_5 trl/qwen2_5_training
        trl/qwen3 trl/qwen3_instruct_2507 trl/qwen3_instruct_2507_training trl/qwen3_training trl/qwen3_vl
        trl/qwen3_vl_training xllamacpp/Bielik-11B-v3.0-Instruct xllamacpp/MiMo-VL
        xllamacpp/NousResearch-Hermes-3-Llama-3.1-8B-tool_use xllamacpp/Reka-Edge
    """,
    "jamba": """
        axolotl/jamba
    """,
    "kimi_k2": """
        xllamacpp/Kimi-K2-Instruct
    """,
    "lfm2": """
        trl/lfm2_2_5 trl/lfm2_2_5_v2 trl/lfm2_2_5_vl trl/lfm2_v2 trl/lfm2_v2_training
        xllamacpp/LFM2.5-8B-A1B
    """,
    "ling3": """
        xllamacpp/Spark2.5 xllamacpp/inclusionai-ling-3.0-flash
    """,
    "llama3_json": """
        axolotl/llama3_2_vision trl/llama3_1 trl/llama3_2 xllamacpp/meta-llama-Llama-3.3-70B-Instruct
    """,
    "llama4_json": """
        axolotl/llama4
    """,
    "mistral_v11": """
        xllamacpp/unsloth-mistral-Devstral-Small-2507
    """,
    "mistral_v3": """
        axolotl/mistral_v2v3 axolotl/mistral_v3_tekken
    """,
    "muse_glimmer": """
        trl/muse_glimmer trl/muse_glimmer_training
    """,
    "nemotron_v3": """
        trl/nemotron_3_5_lightning trl/nemotron_3_5_lightning_training trl/nemotron_3_nano
        trl/nemotron_3_nano_training trl/nemotron_3_super trl/nemotron_3_super_training
        trl/nemotron_3_ultra trl/nemotron_3_ultra_training xllamacpp/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16
    """,
    "poolside_v1": """
        xllamacpp/poolside-Laguna-S-2.1 xllamacpp/poolside-Laguna-XS-2.1
    """,
    "qwen3_coder": """
        trl/qwen3_5_nothink trl/qwen3_5_nothink_training trl/qwen3_5_think trl/qwen3_5_think_training
        trl/qwen3_6 trl/qwen3_6_training trl/qwen3_8 trl/qwen3_8_training xllamacpp/Qwen3.5-4B
    """,
    "solar_open": """
        xllamacpp/upstage-Solar-Open-100B
    """,
}
"""Templates of each dialect."""
NO_CALLS = """
    axolotl/alpaca axolotl/aya axolotl/chatml axolotl/cohere axolotl/deepseek_v2 axolotl/exaone
    axolotl/falcon_h1 axolotl/gemma axolotl/gemma3 axolotl/gemma3n axolotl/llama3 axolotl/llava
    axolotl/metharme axolotl/mistral_v1 axolotl/mistral_v7_tekken axolotl/nemotron_h axolotl/phi_3
    axolotl/phi_35 axolotl/phi_4 axolotl/pixtral axolotl/qwen2_vl trl/cohere trl/cohere2
    trl/cohere2_training trl/cohere_training trl/gemma trl/gemma3 trl/gemma3_training trl/gemma_training
    trl/lfm2 trl/lfm2_training trl/llama3 trl/llama3_training trl/phi3 trl/phi3_5 trl/phi3_5_training
    trl/phi3_training trl/qwen2_5_vl trl/qwen2_5_vl_training xllamacpp/HuggingFaceTB-SmolLM3-3B
"""
"""Templates that leave tool calls out."""
PARTS = """
    trl/idefics3 trl/idefics3_training trl/llava_next trl/llava_next_training trl/smolvlm
    trl/smolvlm_training xllamacpp/IFM-K2-Horizon xllamacpp/google-translategemma-4b-it
"""
"""Templates that want content as parts and write no text."""
UNSEEN = "axolotl/command_a xllamacpp/IFM-K2-Horizon"
"""Templates that write calls only for requests that detection does not probe yet."""
EXPECTED = {name: family for family, names in FAMILIES.items() for name in names.split()}


def test_every_template_has_an_expectation() -> None:
    assert set(MORE_TEMPLATES) == {*EXPECTED, *NO_CALLS.split(), *PARTS.split(), *UNSEEN.split()}


@pytest.mark.parametrize("name", EXPECTED)
def test_family_is_detected(name: str) -> None:
    detection = detect_dialect(read_source(MORE_TEMPLATES[name]))
    assert detection.dialect is not None
    assert detection.dialect.name == EXPECTED[name]


@pytest.mark.parametrize("name", NO_CALLS.split())
def test_template_without_calls_is_detected(name: str) -> None:
    assert not detect_dialect(read_source(MORE_TEMPLATES[name])).renders_calls


@pytest.mark.parametrize("name", PARTS.split())
def test_content_parts_do_not_crash(name: str) -> None:
    try:
        detection = detect_dialect(read_source(MORE_TEMPLATES[name]))
    except UsageError as error:
        assert name.partition("/")[2] in str(error)  # noqa: PT017 - either answer will do
    else:
        assert not detection.renders_calls
