"""The doctor's training checks: prefix stability, generation marks, prefilled blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paths import TEMPLATES, real
from unspool.cli import main
from unspool.models.detection.probe_tools import FLAT_TOOLS
from unspool.models.detection.template_probe import TemplateProbe
from unspool.models.doctor.diagnose import diagnose
from unspool.models.doctor.training_checks import PREFIX_CASES, MaskMarks, Training, check_training
from unspool.templates import ChatTemplate, ChatTemplateLimit
from unspool.templates import prefix_stability as prefix

CHATML = r"""
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.role == 'assistant' %}{% generation %}{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '\n<tool_call>\n' + call.function | tojson + '\n</tool_call>' }}
{%- endfor %}<|im_end|>{% endgeneration %}{% else %}{{ message.content }}<|im_end|>{% endif %}

{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
FORGETS = CHATML.replace(
    "{{ message.content or '' }}",
    "{% if loop.last and message.reasoning_content %}"
    "<think>{{ message.reasoning_content }}</think>{% endif %}"
    "{{ message.content or '' }}",
)


def check_template(source: str) -> Training:
    return check_training(TemplateProbe(source, {}), FLAT_TOOLS)


def verdicts(checks: Training) -> dict[tuple[str, bool], str]:
    return {(case.appended, case.thinking): case.verdict for case in checks.prefixes}


def test_uniform_template_keeps_the_prefix() -> None:
    assert verdicts(check_template(CHATML)) == {(case, False): "kept" for case in PREFIX_CASES}


def test_reasoning_only_in_the_last_message_breaks_the_prefix() -> None:
    checks = check_template(FORGETS)
    assert verdicts(checks) == {
        (case, thinking): "broken" if thinking else "kept"
        for case in PREFIX_CASES
        for thinking in (False, True)
    }
    difference = checks.prefixes[-1].difference
    assert difference is not None
    assert difference.was[difference.at :].startswith("<think>Unspool's thought.")


def test_prompt_only_block_breaks_turns_without_reasoning() -> None:
    checks = check_template(
        FORGETS.replace("<|im_start|>assistant\n", "<|im_start|>assistant\n<think></think>")
    )
    assert checks.empty_block == "<think></think>"
    assert verdicts(checks)["the next question", False] == "broken"


def test_prefilled_reasoning_leaves_no_turn_without_it() -> None:
    opens = FORGETS.replace("<|im_start|>assistant\n", "<|im_start|>assistant\n<think>")
    checks = check_template(opens)
    assert verdicts(checks)["the next question", False] == "opens"
    assert checks.empty_block == ""


def test_different_end_of_turn_breaks_the_prefix() -> None:
    ends = CHATML.replace("<|im_end|>{% endg", "{{ '<|return|>' if loop.last else '<|im_end|>' }}{% endg")
    prefix = check_template(ends).prefixes[-1]
    assert prefix.difference is not None
    assert prefix.difference.was.endswith("Unspool's answer.<|return|>")


# -- labels


def test_generation_marks_cover_their_content() -> None:
    assert check_template(CHATML).mask == MaskMarks(answer=True, end_of_turn=True, calls=True)


def test_end_of_turn_outside_the_marks_is_found() -> None:
    outside = CHATML.replace("<|im_end|>{% endgeneration %}", "{% endgeneration %}<|im_end|>")
    assert check_template(outside).mask == MaskMarks(answer=True, end_of_turn=False, calls=True)


def test_template_without_marks_has_no_mask() -> None:
    bare = CHATML.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    assert check_template(bare).mask == MaskMarks(answer=False)


@pytest.mark.parametrize("inside", [True, False])
def test_template_written_block_may_be_marked(inside: bool) -> None:
    block = "{{ '<think></think>' if not message.reasoning_content }}"
    pair = f"{{% generation %}}{block}" if inside else f"{block}{{% generation %}}"
    assert check_template(FORGETS.replace("{% generation %}", pair)).mask.empty_block is inside


def test_spans_are_what_the_marks_enclose() -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    text, spans = ChatTemplate(CHATML).render_with_spans(messages, add_generation_prompt=False)
    assert text == ChatTemplate(CHATML).render(messages, add_generation_prompt=False)
    assert [text[start:end] for start, end in spans] == ["Hello<|im_end|>"]


# -- real templates

KEPT, BROKEN, OPENS = "kept", "broken", "opens"
REAL = {
    "Qwen-Qwen3-0.6B": (BROKEN, BROKEN, BROKEN, KEPT, KEPT, BROKEN),
    "Qwen-Qwen2.5-7B-Instruct": (KEPT, KEPT, KEPT),
    "ByteDance-Seed-OSS": (KEPT,) * 6,
    "CohereForAI-c4ai-command-r-plus-tool_use": (BROKEN,) * 3,  # the instructions always come last
    "GLM-4.6": (KEPT, KEPT, KEPT, KEPT, KEPT, BROKEN),
    "MiniMax-M2": (OPENS, OPENS, OPENS, KEPT, KEPT, BROKEN),
    # Tool definitions stand before the last question.
    "Mistral-Small-3.2-24B-Instruct-2506": (KEPT, KEPT, BROKEN),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": (KEPT, BROKEN, KEPT),  # a newline after a tool result
    "deepseek-ai-DeepSeek-V3.1": (KEPT, KEPT, KEPT, KEPT, KEPT, BROKEN),
    "google-gemma-4-31B-it": (BROKEN, KEPT, BROKEN, KEPT, KEPT, BROKEN),
    "meta-llama-Llama-3.2-3B-Instruct": (KEPT, KEPT, KEPT),
    "openai-gpt-oss-120b": (KEPT, KEPT, BROKEN, KEPT, KEPT, BROKEN),  # <|return|> becomes <|end|>
}


@real
@pytest.mark.parametrize("name", REAL)
def test_real_templates_are_checked(name: str) -> None:
    checks = check_template(TEMPLATES[name].read_text("utf-8"))
    assert tuple(case.verdict for case in checks.prefixes) == REAL[name]


# -- the report


def test_report_shows_the_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chat_template.jinja"
    path.write_text(FORGETS, "utf-8")
    page = diagnose(path).markdown()
    assert "| the next question | kept | **broken** |" in page
    assert "<think>Unspool's thought." in page
    assert "^\n~~~~" in page
    assert "`{% generation %}` marks what the model writes." in page
    main(["doctor", "--json", str(path)])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)["training"]
    assert report["generation"].pop("empty_block") is None
    assert set(report["generation"].values()) == {True}
    broken = [case for case in report["prefix"] if case["verdict"] == "broken"]
    assert {case["appended"] for case in broken} == set(PREFIX_CASES)
    assert all(len(case["difference"]["was"]) <= 60 for case in broken)


# -- hostile renderings: quadratic scanning would take hours


def test_long_run_of_tags_is_linear() -> None:
    run = "<think>" * 300_000
    assert prefix._seed(f"{run}x", prefix.ReasoningMarkers("<think>", "</think>")) == ""
    assert prefix._seed(f"{run}x<think>\n", prefix.ReasoningMarkers("<think>", "</think>")) == "<think>\n"
    renderer = prefix.ConversationRenderer(TemplateProbe(CHATML, {}), None, {})
    called = {"role": "assistant", "content": "", "tool_calls": [{}]}
    assert renderer._end(called, f"{run}x") == ""
    assert renderer._end(called, f"{run}x</tool_call>\n<|im_end|>\n") == "</tool_call>\n<|im_end|>\n"


def test_probe_output_is_bounded() -> None:
    with pytest.raises(ChatTemplateLimit, match="max_length"):
        TemplateProbe("{{ 'x' * 99999 }}", {}).render([])
