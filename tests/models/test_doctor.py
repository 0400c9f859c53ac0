"""The doctor: valid setups give no findings; faults are named with a fix."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from test_detect import ENVELOPE, EXPECTED, HERMES_CALLS, HINTS, SYNTHETIC, chatml, each

from paths import TEMPLATES, real
from unspool import UsageError, get_dialect
from unspool.cli import main
from unspool.models.doctor import diagnose as doctor
from unspool.models.doctor.diagnose import diagnose
from unspool.models.doctor.report import Diagnosis, Finding
from unspool.models.sources import read_source
from unspool.models.sources.source import Vocabulary

LLAMA = (
    "{%- for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content or '' }}"
    "{% if m.tool_calls %}"
    + each('{"name": "{{ f.name }}", "parameters": {{ f.arguments | tojson }}}', "; ")
    + "{% endif %}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
TOKENS = {
    "<|im_start|>": True,
    "<|im_end|>": True,
    "<tool_call>": False,
    "</tool_call>": False,
    "<think>": False,
    "</think>": False,
}
"""Tokens of a vocabulary like Qwen's, and whether they are flagged as special."""

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Create a model directory; None leaves a file out."""

    def directory(
        template: str | None = chatml(HERMES_CALLS),
        tokens: Mapping[str, bool] | None = TOKENS,
        eos: object = (101,),
        config: Mapping[str, object] | None = None,
    ) -> Path:
        def write(name: str, value: object) -> None:
            (tmp_path / name).write_text(json.dumps(value), encoding="utf-8")

        if template is not None:
            (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
        if tokens is not None:
            added = [
                {"id": id, "content": token, "special": special}
                for id, (token, special) in enumerate(tokens.items(), 100)
            ]
            write("tokenizer.json", {"version": "1.0", "added_tokens": added, "model": {"vocab": {}}})
        if eos is not None:
            write("generation_config.json", {"eos_token_id": eos})
        write("tokenizer_config.json", {"eos_token": "<|im_end|>", **(config or {})})
        return tmp_path

    return directory


def texts_of(report: Diagnosis, level: str) -> list[str]:
    return [finding.text for finding in report.findings if finding.level == level]


# -- a working setup


def test_healthy_model_has_no_findings(make: Make) -> None:
    directory = make()
    report = diagnose(directory)
    assert report.healthy
    assert report.findings == ()
    assert report.dialect is get_dialect("hermes")
    assert report.tokenizer == str(directory / "tokenizer.json")
    markers = {marker.text: (marker.role, marker.kind, marker.ids) for marker in report.markers}
    assert markers["<tool_call>"] == ("call", "token", (102,))
    assert markers["<think>"] == ("reasoning", "token", (104,))
    assert markers["<|im_end|>"] == ("end", "special", (101,))


def test_typical_requests_are_planned(make: Make) -> None:
    cases = {case.name: case for case in diagnose(make()).cases}
    assert list(cases) == [
        "no tools",
        "tools",
        "required",
        "named",
        "JSON answer",
        "reasoning on",
        "reasoning off",
        "after a tool",
    ]
    for case in cases.values():
        assert list(case.decisions) == [
            "skip_special_tokens",
            "reasoning",
            "start",
            "tool_output",
            "eos",
            "strip",
        ]
    assert cases["no tools"].settings["tool_output"] == "none"
    assert cases["tools"].settings["tool_output"] == "native"
    assert cases["required"].settings["constraint"] == "native"
    assert cases["reasoning off"].settings["reasoning"] is False
    assert cases["tools"].settings["skip_special_tokens"] is True
    assert "the prompt ends with" in cases["tools"].decisions["start"]


def test_flags_are_recommended(make: Make) -> None:
    directory = make()
    flags = diagnose(directory).flags
    assert flags["vllm"].command == (
        f"vllm serve {directory} --enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3"
    )
    assert flags["sglang"].command == (
        f"sglang serve --model-path {directory} --tool-call-parser qwen --reasoning-parser qwen3"
    )
    assert flags["llama.cpp"].command == "llama-server -m MODEL.gguf --jinja"


def test_model_without_reasoning_needs_no_reasoning_parser(make: Make) -> None:
    flags = diagnose(make(chatml(HERMES_CALLS).replace("reasoning_content", "unread"))).flags
    assert "--reasoning-parser" not in flags["vllm"].command


def test_checkpoint_with_prefilled_reasoning_is_planned_so(make: Make) -> None:
    report = diagnose(make(chatml(HERMES_CALLS, seed="<think>\n")))
    assert report.checkpoint == "qwen3_thinking"
    assert report.healthy
    assert {case.settings["start"] for case in report.cases} == {"reasoning"}
    assert not any(case.warnings for case in report.cases)
    assert any("does not see the prompt" in finding.text for finding in report.breaks)


# -- mismatched settings


def test_missing_tokenizer_is_reported(make: Make) -> None:
    directory = make(tokens=None)
    report = diagnose(directory)
    assert not report.healthy
    (finding,) = (finding for finding in report.findings if finding.level == "problem")
    assert "There is no tokenizer" in finding.text
    assert finding.fix == f"Put tokenizer.json (or tekken.json) into {directory}"
    assert {marker.kind for marker in report.markers} == {"unknown"}
    (stripped,) = (each for each in report.breaks if "skip_special_tokens" in each.text)
    assert "if they are special tokens" in stripped.text
    assert stripped.level == "warning"


def test_template_alone_lists_what_is_missing() -> None:
    report = diagnose(chatml(HERMES_CALLS))
    assert report.healthy
    (finding,) = report.findings
    assert finding.level == "warning"
    assert finding.fix == "Pass the model directory with its tokenizer.json"


def test_template_of_another_model_is_reported(make: Make) -> None:
    report = diagnose(make(LLAMA))
    assert not report.healthy
    assert report.dialect is get_dialect("llama3_json")
    (problem,) = (finding for finding in report.findings if finding.level == "problem")
    assert problem.text == (
        "The template renders <|start_header_id|>, <|end_header_id|> and <|eot_id|>, which are not tokens of "
        "the vocabulary, so the model sees ordinary pieces of text instead."
    )
    assert problem.fix == "Use the chat template and the tokenizer of the same model"


@pytest.mark.parametrize("eos", [100, [100], [100, 105]])
def test_end_of_turn_that_does_not_stop_generation_is_reported(make: Make, eos: object) -> None:
    report = diagnose(make(eos=eos))
    (finding,) = (finding for finding in report.findings if finding.level == "problem")
    assert "so the model runs on, except in engines that stop at the tokenizer's eos_token" in finding.text
    assert finding.fix == "Add 101 to eos_token_id in generation_config.json"


def test_missing_generation_config_is_reported(make: Make) -> None:
    report = diagnose(make(eos=None))
    assert report.healthy
    assert any("vLLM and SGLang do" in text for text in texts_of(report, "note"))
    (finding,) = diagnose(make(eos=None, config={"eos_token": "<|endoftext|>"})).findings
    assert finding.level == "warning"
    assert finding.text.endswith("generation does not stop at the end of a turn.")
    assert finding.fix == "Add eos_token_id with the id of <|im_end|> (101)"


def test_two_templates_are_reported(make: Make) -> None:
    directory = make(config={"chat_template": LLAMA})
    report = diagnose(directory)
    (warning,) = texts_of(report, "warning")
    assert "tokenizer_config.json differs from it and has the dialect llama3_json" in warning
    assert f"--chat-template {directory / 'chat_template.jinja'}" in report.flags["vllm"].command
    report = diagnose(make(config={"chat_template": chatml(HERMES_CALLS) + "{# 2 #}"}))
    (note,) = texts_of(report, "note")
    assert note.endswith("tokenizer_config.json differs from it; both have the same dialect.")
    report = diagnose(make(config={"chat_template": chatml("")}))
    assert any("renders no tool calls" in text for text in texts_of(report, "warning"))
    report = diagnose(make(config={"chat_template": "{{ messages[0].no.thing }}"}))
    assert any("cannot be used" in text for text in texts_of(report, "warning"))


def test_double_bos_is_reported(make: Make) -> None:
    report = diagnose(
        make("{{ bos_token }}" + chatml(HERMES_CALLS), config={"bos_token": "<s>", "add_bos_token": True})
    )
    (note,) = texts_of(report, "note")
    assert note == "Both the template and the tokenizer add <s> to the start of a prompt."


def test_template_rejected_by_transformers_is_reported(make: Make) -> None:
    report = diagnose(make("{% set x = [] %}" + chatml("{% set _ = x.append(1) %}" + HERMES_CALLS)))
    assert report.dialect is get_dialect("hermes")
    (problem,) = texts_of(report, "problem")
    assert problem.startswith("Histories with calls: Transformers cannot render the template")


def test_template_without_calls_that_mentions_them_is_reported(make: Make) -> None:
    source = chatml("").replace("Tools: ", "List of tools: [").replace("reasoning_content", "unread")
    tokens = {**TOKENS, "<|tool_call_start|>": True, "<|tool_call_end|>": True}
    report = diagnose(make(source, tokens))
    assert report.healthy
    assert report.dialect is get_dialect("lfm2")
    (finding,) = report.findings
    assert finding.fix == "Pass the history through normalise_history(..., dialect='lfm2')"
    assert "--tool-call-parser lfm2" in report.flags["vllm"].command


def test_our_parser_is_recommended_with_reasons(make: Make) -> None:
    page = diagnose(make()).markdown()
    assert "Known faults of its own parsers:" in page
    assert "- An answer that mentions `<tool_call>` in its text ends there (streamed)." in page
    assert "--tool-call-parser unspool_hermes \\\n    --reasoning-parser unspool_hermes" in page


def test_inferred_dialect_is_reported(make: Make) -> None:
    report = diagnose(make(chatml(SYNTHETIC["parameters in tags"][0])))
    assert report.healthy
    assert report.detection.inferred
    assert any("inferred" in text for text in texts_of(report, "warning"))
    assert [case.name for case in report.cases][:2] == ["no tools", "tools"]
    assert report.flags["vllm"].notes[0].startswith("It has no parser for these calls")
    assert "INFERRED = Dialect(" in report.markdown()


def test_unreadable_calls_are_reported(make: Make) -> None:
    calls = each("<{{ f.name }}>{{ f.arguments.values() | list }}</{{ f.name }}>")
    report = diagnose(make(chatml(calls).replace("reasoning_content", "unread")))
    assert not report.healthy
    assert report.dialect is None
    assert report.flags == {}
    assert "get_weather" in texts_of(report, "problem")[0]
    assert "No dialect reads these calls" in report.markdown()


# -- settings that break output


def breaks(report: Diagnosis, text: str) -> Finding:
    (finding,) = (finding for finding in report.breaks if text in finding.text)
    return finding


def test_stripped_special_tokens_are_reported(make: Make) -> None:
    assert "no harm" in breaks(diagnose(make()), "skip_special_tokens").text
    special = dict.fromkeys(TOKENS, True)
    finding = breaks(diagnose(make(tokens=special)), "skip_special_tokens")
    assert finding.level == "problem"
    assert finding.text == (
        "skip_special_tokens=true (the default of detokenizers) removes </tool_call>, <tool_call>, </think>, "
        "<think>: no call is found; reasoning stays in the content."
    )
    assert "skip_special_tokens=false" in finding.fix


def test_optional_special_token_is_reported(make: Make) -> None:
    special = {
        "<|start_header_id|>": True,
        "<|end_header_id|>": True,
        "<|eot_id|>": True,
        "<|python_tag|>": True,
    }
    finding = breaks(diagnose(make(LLAMA, special, eos=[102])), "skip_special_tokens")
    assert finding.level == "warning"
    assert finding.text.startswith(
        "skip_special_tokens=true removes <|python_tag|>, which the model writes only"
    )


def test_parser_of_another_family_is_reported(make: Make) -> None:
    finding = breaks(diagnose(make()), "--tool-call-parser")
    assert finding.level == "problem"
    assert "qwen3_coder" in finding.text
    assert "hermes" not in finding.text


def test_missing_reasoning_parser_is_reported(make: Make) -> None:
    report = diagnose(make())
    assert breaks(report, "No --reasoning-parser").level == "warning"
    # SGLang's parser of the same name requires the marker.
    assert breaks(report, "reported as reasoning").text.startswith("--reasoning-parser qwen3 of vLLM: ")


def test_model_without_reasoning_gets_no_reasoning_findings(make: Make) -> None:
    report = diagnose(make(chatml(HERMES_CALLS).replace("reasoning_content", "unread")))
    assert not any("reasoning" in finding.text for finding in report.breaks)


# -- vocabularies


def test_vocabulary_in_the_configuration_is_read(make: Make) -> None:
    added = {"7": {"content": "<think>", "special": True}, "x": {}, "8": {"content": " "}}
    report = diagnose(make(tokens=None, config={"added_tokens_decoder": added}))
    assert report.tokenizer.startswith("added_tokens_decoder of")
    assert {marker.text: marker.ids for marker in report.markers}["<think>"] == (7,)


def test_vocabulary_selects_the_variant(make: Make) -> None:
    directory = make(chatml("[TOOL_CALLS][" + each(ENVELOPE, ", ") + "]"), tokens=None)
    tekken = {"special_tokens": [{"rank": 9, "token_str": "[TOOL_CALLS]", "is_control": True}]}
    (directory / "tekken.json").write_text(json.dumps(tekken), encoding="utf-8")
    report = diagnose(directory)
    assert report.tokenizer == str(directory / "tekken.json")
    assert report.dialect is not None
    assert report.dialect.name.startswith("mistral_v3")
    (marker,) = (marker for marker in report.markers if "TOOL_CALLS" in marker.text)
    assert (marker.kind, marker.ids) == ("special", (9,))


def test_split_markers_are_reported() -> None:
    vocabulary = Vocabulary("here", {1: "<a>", 2: "<b>", 3: "<a><b>"}, [1])
    with pytest.raises(LookupError):
        vocabulary.token_bytes(1)
    examination = doctor._Doctor(read_source(chatml(HERMES_CALLS)))
    examination.vocabulary = vocabulary
    assert examination.marker("<a><b>x<b>", "call")[2:] == ("token", (3, 2))
    assert examination.marker("<a>x<b>", "call")[2:] == ("mixed", (1, 2))
    assert examination.marker("x", "call")[2:] == ("text", ())


def test_broken_tokenizer_is_an_error(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make()
    (directory / "tokenizer.json").write_text('{"added_tokens": [', encoding="utf-8")
    assert main(["doctor", str(directory)]) == 2
    assert "tokenizer.json is not JSON" in capsys.readouterr().err


# -- the command line


def test_doctor_prints_a_page(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(make())]) == 0
    page = capsys.readouterr().out
    for heading in (
        "# hermes",
        "## Setup",
        "## Markers",
        "## Plans of typical requests",
        "## Server settings that break the output",
        "## Flags",
    ):
        assert f"{heading}\n" in page
    assert r"| `<\|im_end\|>` | end | special token | 101 |" in page
    assert "| tools | may be stripped | on | content | native | nothing | nothing |" in page


def test_doctor_fails_on_problems(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(make(tokens=None))]) == 1
    assert "The setup has problems. Change this:" in capsys.readouterr().out


def test_doctor_prints_json(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", str(make(eos=[100]))]) == 1
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert report["healthy"] is False
    assert report["dialect"] == "hermes"
    assert report["findings"][0]["level"] == "problem"
    assert report["flags"]["vllm"]["command"].startswith("vllm serve")
    assert "--tool-call-parser unspool_hermes" in report["flags"]["vllm"]["instead"]
    assert report["flags"]["vllm"]["because"]
    assert report["flags"]["llama.cpp"]["instead"] == ""
    assert {"name", "decisions", "warnings", "settings"} == set(report["requests"][0])


def test_detect_prints_a_page(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make()
    assert main(["detect", str(directory)]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"# hermes\n\nTemplate: {directory / 'chat_template.jinja'}. Confidence: 0.95.")
    assert "Runners-up: " in page


def test_detect_prints_a_declaration(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", str(make(chatml(SYNTHETIC["an array in tags"][0])))]) == 0
    page = capsys.readouterr().out
    assert "**Warning**: this dialect was inferred" in page
    assert 'section=("<calls>[{calls}]</calls>",),' in page


def test_detect_reports_missing_calls(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", str(make(chatml("")))]) == 0
    assert capsys.readouterr().out.startswith("# This template does not render tool calls\n")


def test_detect_prints_json(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", "--json", str(make())]) == 0
    assert json.loads(capsys.readouterr().out)["dialect"] == "hermes"


@pytest.mark.parametrize("command", ["detect", "doctor"])
@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no chat template: add chat_template.jinja"),
        ("{% for m in messages %}", "chat template"),
        ("{{ messages | length }}", "leaves out the user's message"),
    ],
)
def test_unusable_templates_are_refused(
    make: Make, capsys: pytest.CaptureFixture[str], command: str, template: str | None, message: str
) -> None:
    assert main([command, str(make(template))]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["detect", "doctor"])
@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "no/such/model",
            "does not exist: it is not a path",
        ),
        ("Qwen/Qwen3-8B", "not a model in"),
        ("templates/qwen.jinja", "does not exist: pass a chat template"),
        ("/dev/null", "is neither a file nor a directory"),
    ],
)
def test_missing_path_is_refused(
    command: str, path: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, path]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.gguf", "ends inside its GGUF header"),
        ("tokenizer.json", "does not contain a chat template: pass the model directory"),
        ("notes.txt", "is not a chat template"),
        ("other.json", "has no field chat_template"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        diagnose(tmp_path / name)


def test_directory_with_only_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF\x03")
    with pytest.raises(UsageError, match="ends inside its GGUF header"):
        diagnose(tmp_path)


def test_markers_with_backticks_are_escaped() -> None:
    page = diagnose(chatml(each("<x>\n```json\n" + ENVELOPE + "\n```</x>", "\n"))).markdown()
    assert "| ```` ```json ```` |" in page


def test_commands_have_one_flag_per_line(make: Make) -> None:
    assert (
        " \\\n    --tool-call-parser hermes \\\n    --reasoning-parser qwen3\n~~~~\n"
        in diagnose(make()).markdown()
    )


# -- real templates


@real
@pytest.mark.parametrize("name", EXPECTED)
def test_real_templates_are_diagnosed(name: str) -> None:
    report = diagnose(TEMPLATES[name])
    expected = EXPECTED[name] or HINTS.get(name)
    assert (report.dialect.name if report.dialect else None) == expected
    assert all(case.decisions for case in report.cases), "no typical request may be rejected"
    assert bool(report.cases) == bool(expected)
    assert json.dumps(report.to_dict())
    assert report.markdown().startswith("# ")
