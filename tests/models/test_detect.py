"""Detection: every real chat template maps to its family's dialect, and unknown ones are inferred.

The expected families were written down by hand from the catalogue of formats. ``make templates`` fetches
the templates; without them only synthetic templates are tested.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from paths import TEMPLATES, real
from unspool import Dialect, Message, Parser, SpecError, ToolCall, UsageError, get_dialect, list_dialects
from unspool import parse as parse_output
from unspool._core.render.example_output import EXAMPLE, EXAMPLE_TOOLS
from unspool._core.render.message import render
from unspool.dialects import Envelope, Habits, IdFormat, Section, Values, Wrapper, Writing
from unspool.dialects._family_request_facts import RequestFacts, Thinking
from unspool.dialects._registry import facts_of
from unspool.dialects._validation import check_facts
from unspool.models import detect_model, detect_server
from unspool.models.convert.python_source import python_source
from unspool.models.detection.detect_dialect import detect, detect_dialect
from unspool.models.detection.infer_dialect_from_template import infer_dialect
from unspool.models.detection.probe_tools import TOOLS, RenderedTurn
from unspool.models.detection.result import Detection
from unspool.models.sources import Source, read_source
from unspool.templates import ChatTemplate, ChatTemplateError

EXPECTED = {
    "Apertus-8B-Instruct": "apertus",
    "ByteDance-Seed-OSS": "seed_oss",
    "CohereForAI-c4ai-command-r-plus-tool_use": "command_r",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "cohere",
    "GLM-4.6": "glm45",
    "GigaChat3-10B-A1.8B": "gigachat3",
    "Kimi-K2-Thinking": "kimi_k2",
    "Kimi-K3": "kimi_k3",
    "LFM2-8B-A1B": None,
    "LFM2.5-Instruct": None,
    "MiniMax-M1": "minimax_m1",
    "MiniMax-M2": "minimax_m2",
    "MiniMax-M3": "minimax_m3",
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral_v11",
    "NVIDIA-Nemotron-Nano-v2": "nemotron_json",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes",
    "Qwen-QwQ-32B": "hermes",
    "Qwen-Qwen2.5-7B-Instruct": "hermes",
    "Qwen-Qwen3-0.6B": "hermes",
    "Qwen3-Coder": "qwen3_coder",
    "StepFun3.5-Flash": "step3p5",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek_v3",
    "deepseek-ai-DeepSeek-V3.1": "deepseek_v3_1",
    "deepseek-ai-DeepSeek-V3.2": "deepseek_v3_2",
    "deepseek-ai-DeepSeek-V4": "deepseek_v4",
    "fireworks-ai-llama-3-firefunction-v2": "firefunction",
    "google-gemma-2-2b-it": None,
    "google-gemma-4-31B-it": "gemma4",
    "ibm-granite-granite-3.3-2B-Instruct": None,
    "ibm-granite-granite-4.0": "granite4",
    "llama-cpp-deepseek-r1": "deepseek_v3",
    "llama-cpp-rwkv-world": None,
    "meetkai-functionary-medium-v3.1": "functionary",
    "meetkai-functionary-medium-v3.2": "functionary_v32",
    "meta-llama-Llama-3.1-8B-Instruct": "llama3_json",
    "meta-llama-Llama-3.2-3B-Instruct": "llama3_json",
    "microsoft-Phi-3.5-mini-instruct": None,
    "mistralai-Ministral-3-14B-Reasoning-2512": "mistral_v11",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral_v3",
    "moonshotai-Kimi-K2": "kimi_k2",
    "muse-glimmer": "muse_glimmer",
    "openai-gpt-oss-120b": "harmony",
    "openbmb-MiniCPM5-1B": "minicpm5",
    "poolside-Laguna-XS.2": "poolside_v1",
    "tencent-Hy3": "hy_v3:opensource",
    "unsloth-Apriel-1.5": "apriel",
}
"""The family of each template; None if it renders no tool calls."""

HINTS = {"LFM2-8B-A1B": "lfm2", "LFM2.5-Instruct": "lfm2", "ibm-granite-granite-3.3-2B-Instruct": "granite"}
"""Templates that render no calls but mention them."""

SEEDS = {
    "MiniMax-M2": "<think>\n",
    "NVIDIA-Nemotron-Nano-v2": "<think>\n",
    "StepFun3.5-Flash": "<think>\n",
    "llama-cpp-deepseek-r1": "<think>\n",
    "Kimi-K3": "<|open|>think<|sep|>",
}
"""Templates that open reasoning in the prompt of a request without options."""

BEYOND_INFERENCE = {
    "Kimi-K3",  # content and reasoning are written in the same kind of block as calls
    "google-gemma-4-31B-it",  # its own notation of arguments
    "meetkai-functionary-medium-v3.2",  # messages with headers
    "openai-gpt-oss-120b",  # messages with headers
}


def path(name: str) -> Path:
    return TEMPLATES[name]


@cache
def detection(name: str) -> Detection:
    return detect_dialect(read_source(path(name)))


# -- real templates


@real
def test_every_template_has_an_expectation() -> None:
    assert set(TEMPLATES) == set(EXPECTED)


@real
@pytest.mark.parametrize("name", EXPECTED)
def test_family_is_detected(name: str) -> None:
    detection_ = detection(name)
    assert (detection_.dialect.name if detection_.dialect else None) == EXPECTED[name]
    assert detection_.renders_calls == (EXPECTED[name] is not None)
    assert not detection_.inferred
    assert detection_.evidence
    if EXPECTED[name] is None:
        assert detection_.evidence[0] == "This template renders no tool calls."
        assert detection_.hint == HINTS.get(name, "")
    else:
        assert 0.8 <= detection_.confidence <= 1
        assert EXPECTED[name] not in detection_.runners_up


@real
@pytest.mark.parametrize("name", EXPECTED)
def test_detection_renders_few_conversations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No dialect parses the rendered text more than twice, and few conversations are rendered."""
    counts = {"read": 0, "written": 0}

    def counting(what: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            counts[what] += 1
            return work(*arguments, **options)

        return counted

    monkeypatch.setattr(Parser, "__init__", counting("read", Parser.__init__))
    monkeypatch.setattr(ChatTemplate, "render", counting("written", ChatTemplate.render))
    detect_dialect(read_source(path(name)))
    assert counts["read"] or EXPECTED[name] is None
    assert counts["read"] <= 2 * len(list_dialects())
    assert 0 < counts["written"] <= 40


@real
@pytest.mark.parametrize("name", EXPECTED)
def test_reasoning_is_detected(name: str) -> None:
    detection_ = detection(name)
    assert detection_.reasoning.read
    assert detection_.reasoning.seed == SEEDS.get(name, "")
    assert (detection_.reasoning.begins == "reasoning") == (name in SEEDS)
    assert detection_.renders_reasoning == bool(detection_.reasoning.key)
    if detection_.reasoning.key:
        assert detection_.reasoning.opener
        assert detection_.reasoning.closer


@real
def test_reasoning_markers_and_switches_are_detected() -> None:
    reasoning = detection("Qwen-Qwen3-0.6B").reasoning
    assert (reasoning.key, reasoning.opener, reasoning.closer) == ("reasoning_content", "<think>", "</think>")
    assert reasoning.switches == ("enable_thinking",)
    assert detection("ByteDance-Seed-OSS").reasoning.switches == ("thinking_budget",)
    assert detection("mistralai-Ministral-3-14B-Reasoning-2512").reasoning.key == "parts"


@real
def test_template_rejected_by_transformers_is_reported() -> None:
    (warning,) = detection("Kimi-K2-Thinking").warnings
    assert "append" in warning
    assert warning.startswith("Histories with calls:")
    (warning,) = detection("fireworks-ai-llama-3-firefunction-v2").warnings
    assert warning.startswith("Any request:")
    assert not detection("Qwen3-Coder").warnings


@real
@pytest.mark.parametrize("name", [name for name, family in EXPECTED.items() if family])
def test_unknown_templates_are_inferred(name: str) -> None:
    detection_ = detect_dialect(read_source(path(name)), dialects=())
    assert detection_.renders_calls
    if name in BEYOND_INFERENCE:
        assert detection_.dialect is None
        assert detection_.confidence == 0
        return
    assert detection_.inferred
    assert detection_.dialect is not None
    read = parse_output(detection_.turn, detection_.dialect, tools=TOOLS, prompt="")
    assert [call.name for call in read.tool_calls] == ["get_weather", "find_place"][: len(read.tool_calls)]
    assert json.loads(read.tool_calls[0].arguments) == {"city": "Zürich", "days": 3}
    assert evaluated(detection_.declaration) == detection_.dialect
    assert facts_of(detection_.dialect) is detection_.dialect.request
    check_facts(detection_.dialect, detection_.dialect.request)


@real
@pytest.mark.parametrize(
    ("name", "call", "section"),
    [
        ("Qwen-Qwen3-0.6B", "<tool_call>\n{envelope}\n</tool_call>", "{calls}"),
        ("unsloth-Apriel-1.5", "{envelope}", "<tool_calls>[{calls}]</tool_calls>"),
        ("GLM-4.6", "<tool_call>{name}\n{params}</tool_call>", "{calls}"),
        (
            "deepseek-ai-DeepSeek-V3.1",
            "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{args}<｜tool▁call▁end｜>",
            "<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>",
        ),
    ],
)
def test_inferred_templates_belong_to_the_family(name: str, call: str, section: str) -> None:
    inferred = detect_dialect(read_source(path(name)), dialects=()).dialect
    assert inferred is not None
    assert inferred.call == (call,)
    assert inferred.section == (section,)


# -- synthetic templates

LINES = Writing(between_calls="\n")

CHATML = """\
{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}<|im_end|>
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content or '' }}{% if m.tool_calls %}CALLS{% endif %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
SEED{% endif %}"""


def chatml(calls: str, seed: str = "") -> str:
    """Return a ChatML template that writes calls in the given way."""
    return CHATML.replace("CALLS", calls).replace("SEED", seed)


LINE = "{{ '\\n' }}"
"""Jinja removes the newline after a block."""


def each(call: str, between: str = "") -> str:
    """Return a template fragment that repeats the template of one call."""
    return (
        "{% for c in m.tool_calls %}{% set f = c.function %}"
        + call
        + "{% if not loop.last %}"
        + between
        + "{% endif %}{% endfor %}"
    )


ENVELOPE = '{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}'
HERMES_CALLS = LINE + each("<tool_call>\n" + ENVELOPE + "\n</tool_call>", LINE)
PARAMS = (
    "{% for k, v in f.arguments.items() %}<p k={{ k }}>{{ v if v is string else v | tojson }}</p>{% endfor %}"
)
SYNTHETIC: Mapping[str, tuple[str, Dialect]] = {
    "an object in tags": (
        each("<invoke>" + ENVELOPE + "</invoke>", LINE),
        Dialect("x", call=("<invoke>{envelope}</invoke>",), writing=LINES),
    ),
    "an array in tags": (
        LINE + "<calls>[" + each(ENVELOPE, ", ") + "]</calls>",
        Dialect(
            "x",
            section=("<calls>[{calls}]</calls>",),
            call=("{envelope}",),
            writing=Writing(before_calls="\n", between_calls=", "),
        ),
    ),
    "name and arguments between markers": (
        "<|calls|>" + each("<|name|>{{ f.name }}<|args|>{{ f.arguments | tojson }}<|done|>") + "<|/calls|>",
        Dialect(
            "x",
            section=("<|calls|>{calls}<|/calls|>",),
            call=("<|name|>{name}<|args|>{args}<|done|>",),
        ),
    ),
    "ids and numbers": (
        each("<|call|>{{ c.id }}<|{{ loop.index }}|>{{ f.name }}<|args|>{{ f.arguments | tojson }}<|end|>"),
        Dialect(
            "x",
            call=("<|call|>{id}<|{index}|>{name}<|args|>{args}<|end|>",),
            habits=Habits(first_index=1),
        ),
    ),
    "parameters in tags": (
        each("<run f={{ f.name }}>" + PARAMS + "</run>", LINE),
        Dialect(
            "x", call=("<run f={name}>{params}</run>",), param=("<p k={key}>{value}</p>",), writing=LINES
        ),
    ),
    "parameters with types": (
        each(
            '<do name="{{ f.name }}">{% for k, v in f.arguments.items() %}'
            "<arg key=\"{{ k }}\" string=\"{{ 'true' if v is string else 'false' }}\">"
            "{{ v if v is string else v | tojson }}</arg>{% endfor %}</do>"
        ),
        Dialect(
            "x",
            call=('<do name="{name}">{params}</do>',),
            param=('<arg key="{key}" string="{string}">{value}</arg>',),
        ),
    ),
    "Python": (
        "<py>["
        + each(
            "{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}={{ v | tojson }}"
            "{% if not loop.last %}, {% endif %}{% endfor %})",
            ", ",
        )
        + "]</py>",
        Dialect(
            "x",
            section=("<py>[{calls}]</py>",),
            call=("{name}{args}",),
            writing=Writing(between_calls=", "),
            args="python",
        ),
    ),
    "other keys": (
        "<act>" + each('{"fn": "{{ f.name }}", "with": {{ f.arguments | tojson }}}', ";") + "</act>",
        Dialect(
            "x",
            section=("<act>{calls}</act>",),
            call=("{envelope}",),
            writing=Writing(between_calls=";"),
            envelope=Envelope(name_keys=("fn", "name"), args_keys=("with", "arguments", "parameters")),
        ),
    ),
    "keyed by the function": (
        "<act>[" + each('{"{{ f.name }}": {{ f.arguments | tojson }}}', ", ") + "]</act>",
        Dialect(
            "x",
            section=("<act>[{calls}]</act>",),
            call=("{envelope}",),
            writing=Writing(between_calls=", "),
            envelope=Envelope(keyed=True),
        ),
    ),
}


@pytest.mark.parametrize("kind", SYNTHETIC)
def test_dialect_is_inferred_from_a_template(kind: str) -> None:
    calls, expected = SYNTHETIC[kind]
    with pytest.warns(UserWarning, match="inferred"):
        detection_ = detect(chatml(calls), dialects=())
    assert detection_.dialect is not None
    assert replace(detection_.dialect, request=None) == replace(
        expected, name="inferred", stop=("<|im_end|>",)
    )
    assert detection_.inferred
    assert evaluated(detection_.declaration) == detection_.dialect
    facts = facts_of(detection_.dialect)
    check_facts(detection_.dialect, facts)
    assert facts.eos == ("<|im_end|>",)
    assert 0 < detection_.confidence < 0.8


def test_registered_dialects_do_not_claim_synthetic_templates() -> None:
    for kind, (calls, _) in SYNTHETIC.items():
        detection_ = detect_dialect(read_source(chatml(calls)))
        assert detection_.inferred, (kind, detection_.dialect)


def test_inferred_dialect_reads_prefilled_reasoning() -> None:
    detection_ = detect_dialect(read_source(chatml(SYNTHETIC["an object in tags"][0], seed="<think>\n")))
    assert detection_.dialect is not None
    assert detection_.dialect.reasoning == ("<think>\n{text}\n</think>\n\n",)
    assert detection_.reasoning.seed == "<think>\n"
    facts = facts_of(detection_.dialect)
    check_facts(detection_.dialect, facts)
    assert facts.thinking.seed == "<think>\n"
    message = parse_output("Hm.\n</think>\n\nHi", detection_.dialect, prompt=detection_.prompt)
    assert (message.reasoning, message.content) == ("Hm.", "Hi")


def test_uninferable_template_gives_no_dialect() -> None:
    detection_ = detect(chatml(each("Please run {{ f.name | reverse }} now.")))
    assert not detection_.renders_calls
    detection_ = detect(chatml(each("<{{ f.name }}>{{ f.arguments.values() | list }}</{{ f.name }}>")))
    assert detection_.dialect is None
    assert detection_.renders_calls
    assert "No dialect could be inferred from this template, either." in detection_.evidence
    assert "get_weather" in detection_.turn


RENDERED = [dialect.name for dialect in list_dialects() if dialect.call and dialect.frame is None]
NEVER_INFERRED = {"cohere_cofl", "functiongemma", "gemma4", "kimi_k3"}


@pytest.mark.parametrize("name", RENDERED)
def test_inference_recovers_our_own_dialects(name: str) -> None:
    """``render`` serves as a template, too: the inferred dialect parses what it writes."""
    dialect = get_dialect(name)

    def write(message: Message) -> RenderedTurn:
        for variant in (message, replace(message, reasoning=None)):
            try:
                return RenderedTurn("", render(variant, dialect), "")
            except UsageError:
                continue
        return RenderedTurn("", "", "")

    inference = infer_dialect(write)
    assert (inference is None) == (name in NEVER_INFERRED)
    if inference is not None:
        message = Message(tool_calls=EXAMPLE.tool_calls)
        text = render(message, dialect)
        read = parse_output(text, inference.dialect, tools=EXAMPLE_TOOLS)
        assert [call.name for call in read.tool_calls] == ["get_weather", "now"]
        assert json.loads(read.tool_calls[0].arguments) == {"city": "Paris", "days": 3}
        assert not read.content


def evaluated(source: str) -> object:
    """Evaluate a pasted declaration."""
    words = (
        *(Dialect, Envelope, Habits, IdFormat, RequestFacts, Section, Thinking, Values, Wrapper),
        Writing,
    )
    names: dict[str, object] = {word.__name__: word for word in words}
    exec(source, names)  # noqa: S102 - our own
    return names["INFERRED"]


def test_printed_declaration_omits_defaults() -> None:
    dialect = Dialect(
        "my-model", call=("<c a='1'>\n{envelope}</c>",), writing=LINES, envelope=Envelope(keyed=True)
    )
    assert python_source(dialect) == (
        "MY_MODEL = Dialect(\n"
        '    name="my-model",\n'
        "    call=(\"<c a='1'>\\n{envelope}</c>\",),\n"
        "    envelope=Envelope(keyed=True),\n"
        '    writing=Writing(between_calls="\\n"),\n'
        ")"
    )
    for registered in list_dialects():
        assert f'name="{registered.name}"' in python_source(registered)


# -- content as parts

PARTS = (
    "{% for p in m.content %}{{ p.text if p.type == 'text' else '<image>' if p.type == 'image' }}{% endfor %}"
)
STRICT_PARTS = "{% if m.content is string %}{{ raise_exception('Parts!') }}{% endif %}" + PARTS


@pytest.mark.parametrize("content", [PARTS, STRICT_PARTS], ids=["left out", "refused"])
@pytest.mark.parametrize("calls", ["", HERMES_CALLS], ids=["no calls", "calls"])
def test_template_that_reads_only_parts_is_detected(content: str, calls: str) -> None:
    source = chatml(calls).replace("{{ m.content or '' }}", content)
    detection_ = detect(source)
    assert detection_.renders_calls == bool(calls)
    if calls:
        assert detection_.dialect is get_dialect("hermes")
        assert not detection_.warnings
    assert any("assistant, system, tool, user" in sentence for sentence in detection_.evidence)
    assert "What is the weather like?" in detection_.prompt


def test_template_that_reads_text_gets_text() -> None:
    source = chatml(HERMES_CALLS).replace(
        "{{ m.content or '' }}",
        "{% if m.content is string %}{{ m.content }}{% else %}" + PARTS + "{% endif %}",
    )
    assert not any("list of parts" in sentence for sentence in detect(source).evidence)


# -- similar dialects


def test_copy_of_another_dialect_loses() -> None:
    detection_ = detect(chatml(HERMES_CALLS))
    assert detection_.dialect is get_dialect("hermes")
    assert "trinity" in detection_.runners_up
    assert detection_.confidence > 0.9


@pytest.mark.parametrize(
    ("model_type", "family"), [("afmoe", "trinity"), ("qwen3", "hermes"), ("", "hermes")]
)
def test_model_type_distinguishes_look_alikes(tmp_path: Path, model_type: str, family: str) -> None:
    (tmp_path / "chat_template.jinja").write_text(chatml(HERMES_CALLS), encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}), encoding="utf-8")
    detection_ = detect_model(tmp_path)
    assert detection_.dialect is get_dialect(family)
    assert any(f"model_type: {model_type}" in sentence for sentence in detection_.evidence) == (
        family == "trinity"
    )


# -- reasoning


def test_reasoning_of_another_dialect_is_combined() -> None:
    bare = each('{"name": "{{ f.name }}", "parameters": {{ f.arguments | tojson }}}', "; ")
    detection_ = detect(chatml(bare))
    assert detection_.dialect is not None
    assert detection_.dialect.name == "llama3_json+hermes"
    assert detection_.dialect == get_dialect("llama3_json+hermes")
    assert detection_.reasoning.read


def test_template_that_only_reasons_is_detected() -> None:
    source = chatml("").replace("{% if m.tool_calls %}{% endif %}", "")
    detection_ = detect(source)
    assert not detection_.renders_calls
    assert detection_.evidence[0] == "This template renders no tool calls."
    assert detection_.dialect is not None
    assert detection_.dialect == get_dialect("passthrough+hermes")
    assert detection_.reasoning.key == "reasoning_content"


def test_prefilled_reasoning_alone_is_detected() -> None:
    source = chatml(each("[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}"), seed="<mm:think>")
    detection_ = detect(source.replace("reasoning_content", "nothing"))
    assert detection_.dialect is not None
    assert detection_.dialect.name == "mistral_v11+minimax_m3"
    assert detection_.reasoning.begins == "reasoning"


# -- variants


@pytest.mark.parametrize(("tokens", "variant"), [(("[TOOL_CALLS]",), "mistral_v3"), ((), "mistral")])
def test_vocabulary_selects_the_variant(tokens: tuple[str, ...], variant: str) -> None:
    class Vocabulary:
        def token_bytes(self, id: int) -> bytes:
            raise KeyError(id)

        def special_tokens(self) -> Mapping[int, str]:
            return dict(enumerate(tokens))

    source = chatml("[TOOL_CALLS][" + each(ENVELOPE, ", ") + "]")
    dialects = [get_dialect("mistral")]
    detection_ = detect(source, tokenizer=Vocabulary(), dialects=dialects)
    assert detection_.dialect is not None
    assert detection_.dialect.name == variant


# -- kinds of sources


def test_every_kind_of_source_is_read(tmp_path: Path) -> None:
    source = chatml(HERMES_CALLS)
    config = {"chat_template": source, "eos_token": {"content": "<|im_end|>"}, "bos_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "template.jinja").write_text(source, encoding="utf-8")
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": source}), encoding="utf-8")
    for model in (
        source,
        config,
        tmp_path,
        str(tmp_path),
        tmp_path / "tokenizer_config.json",
        tmp_path / "template.jinja",
        tmp_path / "chat_template.json",
    ):
        found = detect_model if model not in (source, config) else detect
        assert found(model).dialect is get_dialect("hermes")  # type: ignore[arg-type]
    assert read_source(config).tokens == {"eos_token": "<|im_end|>"}


ONE_LINE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


@pytest.mark.parametrize("length", [1, 100, 5000])
def test_one_line_template_is_not_a_path(length: int) -> None:
    source = ONE_LINE + "." * length
    assert read_source(source).template == source
    assert not detect(source).renders_calls


def test_text_source_does_not_depend_on_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "{{ messages[0].content }}"
    Path(name).write_text(chatml(HERMES_CALLS), encoding="utf-8")
    assert read_source(name).template == name
    assert read_source(Path(name)).template == chatml(HERMES_CALLS)


def test_tool_template_is_preferred_among_named_templates() -> None:
    named = [
        {"name": "default", "template": chatml("").replace("<think>", "")},
        {"name": "tool_use", "template": chatml(HERMES_CALLS)},
    ]
    model = read_source({"chat_template": named})
    assert detect_dialect(model).dialect is get_dialect("hermes")
    assert list(model.others) == ["the template 'default'"]
    assert read_source({"chat_template": named[:1]}).template == named[0]["template"]


def test_response_template_is_used_where_no_dialect_matches() -> None:
    calls, expected = SYNTHETIC["an object in tags"]
    fields = {
        "thinking": {"open": "<think>", "close": "</think>"},
        "content": {"close": "<|im_end|>"},
        "tool_calls": {"open": "<invoke>", "close": "</invoke>", "content": "json"},
    }
    config = {
        "chat_template": chatml(calls),
        "response_template": {"start_anchor": "<|im_start|>assistant\n", "fields": fields},
    }
    detection_ = detect(config)
    assert not detection_.inferred
    assert detection_.dialect is not None
    assert detection_.dialect.name.partition("+")[0] == "response_template"
    assert detection_.dialect.call == expected.call
    assert any("response template" in sentence for sentence in detection_.evidence)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("no/such/file", "is not a chat template: .* detect_model"),
        (Path("no/such/file.jinja"), "detect_model"),
        ("http://127.0.0.1:9", "detect_server"),
        ("just\nsome text", "is not a chat template"),
        ("x" * 5000, "is not a chat template"),
        ({"model_max_length": 4096}, "has no field chat_template"),
        (7, "takes the text of a chat template"),
        ("{{ messages | length }}", "leaves out the user's message"),
        ("{% for m in messages %}{{ m.nothing.more }}{% endfor %}", "does not render a conversation"),
        ("{{ raise_exception('Not for chats') }}", "Not for chats"),
    ],
)
def test_invalid_sources_are_refused(source: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        detect(source)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("no/such/file", "does not exist"),
        (
            "Qwen/Qwen3-8B",
            "does not exist: .* Its name suggests the dialect hermes: run `unspool dialects Qwen/Q",
        ),
        (Path("no/such/file.jinja"), "does not exist"),
        ("x" * 300, "cannot read x+: File name too long"),
        ("http://127.0.0.1:9", "call unspool.models.detect_server"),
        ("{{ messages }}", "call detect"),
        ("-", "call detect"),
    ],
)
def test_invalid_models_are_refused(source: str | Path, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        detect_model(source)


def test_invalid_addresses_are_refused() -> None:
    with pytest.raises(UsageError, match="not a server address"):
        detect_server("127.0.0.1:8000")


def test_truncated_template_is_refused() -> None:
    with pytest.raises(ChatTemplateError, match="line"):
        detect(chatml(HERMES_CALLS)[:-40])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", b"{", "is not JSON"),
        ("x.json", b"[]", "does not contain a JSON object"),
        ("x.bin", b"\xff\xfe", "is not UTF-8 text"),
        ("x.txt", b"text", "is not a chat template"),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        detect_model(tmp_path / name)


def test_directory_without_a_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"add chat_template\.jinja"):
        detect_model(tmp_path)


def test_broken_response_template_is_ignored() -> None:
    config = {"chat_template": chatml(SYNTHETIC["Python"][0]), "response_template": {"fields": {}}}
    assert detect_dialect(read_source(config)).inferred
    with pytest.raises(SpecError):
        Dialect("")


def test_detection_converts_to_json() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detection_ = detect(chatml(SYNTHETIC["other keys"][0]))
    value = json.loads(json.dumps(detection_.to_dict()))
    assert value["dialect"] == "inferred"
    assert value["declaration"].startswith("INFERRED = Dialect(")
    assert value["reasoning"]["opener"] == "<think>"
    assert detect(chatml(HERMES_CALLS)).to_dict()["declaration"] == ""


def test_model_description_is_hashable() -> None:
    model = Source(chatml(HERMES_CALLS), "here")
    assert detect_dialect(model).dialect is get_dialect("hermes")
    call = ToolCall("a", "get_weather", "{}")
    assert detect_dialect(model, dialects=[get_dialect("hermes")]).runners_up == ()
    assert call.name in str(TOOLS)


def test_configuration_is_detected_from_its_text() -> None:
    call = "\n<tool_call>\n{{ c.function | tojson }}\n</tool_call>"
    config = {"chat_template": chatml(f"{{% for c in m.tool_calls %}}{call}{{% endfor %}}")}
    with warnings.catch_warnings(action="ignore"):
        found, expected = detect(json.dumps(config)), detect(config)
    assert found.dialect is not None
    assert found.dialect == expected.dialect
