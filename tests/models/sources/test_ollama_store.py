"""Ollama's models: the template of the weights first, then names, then markers, or an explanation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_detect import HERMES_CALLS, chatml

from gguf_files import write_gguf
from ollama_store import Store
from unspool import UsageError, get_dialect
from unspool.cli import main
from unspool.models import detect_model
from unspool.models.doctor.diagnose import diagnose
from unspool.models.sources import find_source, read_source
from unspool.models.sources.ollama import is_go_template

pytest.importorskip("gguf")
HERMES = chatml(HERMES_CALLS)

GO = """{{- if .System }}<|im_start|>system
{{ .System }}{{ end }}
{{- range .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}
{{- range .ToolCalls }}%s{{ end }}<|im_end|>
{{ end }}"""
GO_PLAIN = GO % ""
ENVELOPE = '{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}'
GO_HERMES = GO % f"<tool_call>\n{ENVELOPE}\n</tool_call>"
PARAMETERS = (
    "{{ range $k, $v := .Function.Arguments }}<parameter={{ $k }}>\n{{ $v }}\n</parameter>\n{{ end }}"
)
GO_CODER = GO % (f"<tool_call>\n<function={{{{ .Function.Name }}}}>\n{PARAMETERS}</function>\n</tool_call>")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return Store(tmp_path / "models")


def test_template_of_the_weights_is_preferred(store: Store) -> None:
    store.add(
        "registry.ollama.ai/library/qwen3/8b",
        jinja=HERMES,
        go=GO_CODER,
        params={"stop": ["<|im_end|>"], "num_ctx": 4096},
        model_families=["qwen3", "other"],
    )
    source = find_source("qwen3:8b")
    assert (source.kind, source.name) == ("ollama", "qwen3:8b")
    assert source.template == HERMES
    assert source.go_template == GO_CODER
    assert source.families == ("qwen3", "other")
    assert source.parameters == {"stop": ["<|im_end|>"], "num_ctx": 4096}
    assert source.context_length == 4096
    assert source.end_ids == (3,)
    assert source.weights is not None
    assert "the weights of Ollama's qwen3:8b" in source.origin
    assert detect_model("qwen3:8b").dialect is get_dialect("hermes")
    assert detect_model("qwen3:8b").tried
    assert diagnose("qwen3:8b").healthy


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("registry.ollama.ai/library/qwen3/latest", "qwen3"),
        ("registry.ollama.ai/library/qwen3/8b", "qwen3:8b"),
        ("registry.ollama.ai/someone/qwen3/latest", "someone/qwen3"),
        ("hf.co/org/qwen3-GGUF/Q4_K_M", "hf.co/org/qwen3-GGUF:Q4_K_M"),
        ("localhost:5000/a/b/c", "localhost:5000/a/b:c"),
    ],
)
def test_model_names_are_resolved(store: Store, where: str, name: str) -> None:
    store.add(where, jinja=HERMES)
    assert find_source(name).template == HERMES


def test_default_store_locations_are_searched(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("registry.ollama.ai/library/qwen3/latest", jinja=HERMES)
    monkeypatch.delenv("OLLAMA_MODELS")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / ".ollama").mkdir(parents=True)
    (tmp_path / "models").rename(tmp_path / "home" / ".ollama" / "models")
    assert find_source("qwen3").template == HERMES


@pytest.mark.parametrize(
    ("name", "config", "go", "dialect"),
    [
        ("helper", {"parser": "qwen3-coder"}, GO_PLAIN, "qwen3_coder"),
        ("qwen3", {}, GO_HERMES, "hermes"),
        ("qwen3-coder", {}, GO_CODER, "qwen3_coder"),
        ("qwen3-coder", {}, "", "qwen3_coder"),
        ("helper", {"model_family": "gptoss"}, "", "harmony"),
        ("helper", {"model_family": "llama", "architecture": "llama"}, GO_HERMES, "hermes"),
        ("helper", {"model_family": "llama", "architecture": "llama"}, GO_CODER, "qwen3_coder"),
        # The model's name and its template disagree; the template decides.
        ("qwen3-mine", {}, GO_CODER, "qwen3_coder"),
        ("helper", {"model_family": "llama", "architecture": "llama"}, GO_PLAIN, None),
        ("helper", {"model_family": "llama", "architecture": "llama"}, "", None),
    ],
)
def test_model_is_recognised_without_a_jinja_template(
    store: Store, name: str, config: dict[str, Any], go: str, dialect: str | None
) -> None:
    store.add(f"registry.ollama.ai/library/{name}/latest", go=go, **config)
    detection = detect_model(name)
    assert (detection.dialect.name if detection.dialect else None) == dialect
    assert not detection.tried
    assert 0 < detection.confidence < 1 if dialect else detection.confidence == 0
    assert main(["detect", name]) == int(dialect is None)
    report = diagnose(name)
    assert report.healthy == (dialect is not None)
    assert report.training is None
    assert report.markdown()
    assert json.dumps(report.to_dict())


def test_unrecognised_model_is_reported_honestly(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.add("registry.ollama.ai/library/helper/latest", go=GO_PLAIN, architecture="llama")
    assert main(["detect", "helper"]) == 1
    page = capsys.readouterr().out
    assert page.startswith("# The dialect is unknown")
    assert "There is no dialect for these names: helper:latest, llama." in page
    assert "The Go template does not contain the markers of any dialect." in page
    assert "Pass the chat template" in page


def test_incomplete_download_is_used_as_far_as_possible(store: Store) -> None:
    store.add("registry.ollama.ai/library/qwen3/8b", jinja=HERMES, go=GO_HERMES)
    for blob in (store.directory / "blobs").iterdir():
        blob.unlink()
    detection = detect_model("qwen3:8b")
    assert detection.dialect is get_dialect("hermes")
    assert detection.evidence[-1] == "Its name contains Qwen3 (qwen3:8b)."


@pytest.mark.parametrize("digest", ["sha256:../../x", "sha256:12", "", "md5:0"])
def test_manifest_cannot_lead_outside_the_store(store: Store, digest: str) -> None:
    path = store.directory / "manifests/registry.ollama.ai/library/x/latest"
    path.parent.mkdir(parents=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": digest}
    path.write_text(json.dumps({"layers": [layer, 5, None], "config": "?"}), encoding="utf-8")
    source = find_source("x")
    assert source.weights is None
    assert not source.template


def test_searched_locations_are_named(store: Store) -> None:
    for name in ("nothing:1b", "a/nothing"):
        with pytest.raises(UsageError) as refusal:
            find_source(name)
        assert str(store.directory) in str(refusal.value)


# -- Modelfiles

TEMPLATE = f'TEMPLATE """{GO_CODER}"""\n'


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("FROM ./m.gguf\n", "hermes"),
        ("# a comment\n\nfrom ./m.gguf\nPARAMETER stop <|im_end|>\n" + TEMPLATE, "hermes"),
        ("FROM qwen3:8b\n", "hermes"),
        ("FROM helper\n" + TEMPLATE, "qwen3_coder"),
        ("FROM elsewhere\n" + TEMPLATE, "qwen3_coder"),
        ("FROM ./nowhere.gguf\nPARSER harmony\n", "harmony"),
        ("FROM ./nowhere.gguf\n", None),
    ],
)
def test_modelfiles_are_resolved(store: Store, tmp_path: Path, text: str, dialect: str | None) -> None:
    store.add("registry.ollama.ai/library/qwen3/8b", jinja=HERMES)
    store.add("registry.ollama.ai/library/helper/latest", architecture="llama")
    write_gguf(tmp_path / "m.gguf", HERMES)
    path = tmp_path / "Modelfile"
    path.write_text(text, encoding="utf-8")
    detection = detect_model(path)
    assert (detection.dialect.name if detection.dialect else None) == dialect


def test_unterminated_value_extends_to_the_end() -> None:
    rest = "{{ .Prompt }}\nPARSER hermes\nSYSTEM x"
    source = read_source(f'FROM x\nTEMPLATE """{rest}')
    assert (source.name, source.go_template, source.parser) == ("x", rest, "")


def test_modelfile_settings_are_read(store: Store, tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", HERMES)
    path = tmp_path / "Modelfile"
    path.write_text(
        f'FROM ./m.gguf\n{TEMPLATE}PARAMETER stop "<|im_end|>"\nPARAMETER stop <x>\n'
        'PARAMETER num_ctx 8192\nSYSTEM """You are\nFROM nowhere"""\n',
        encoding="utf-8",
    )
    detection = read_source(path)
    assert detection.weights == tmp_path / "m.gguf"
    assert detection.template == HERMES
    assert detection.go_template == GO_CODER
    assert detection.parameters == {"stop": ["<|im_end|>", "<x>"], "num_ctx": ["8192"]}


@pytest.mark.parametrize(
    "text", [GO_PLAIN, GO_HERMES, "{{ .Prompt }}", "{{- range $i, $m := .Messages }}x{{ end }}"]
)
def test_go_templates_are_recognised(text: str) -> None:
    assert is_go_template(text)
    assert read_source(text).go_template == text
    assert not read_source(text).template


def test_real_jinja_templates_are_not_taken_for_go() -> None:
    from paths import MORE_TEMPLATES, TEMPLATES

    for path in (*TEMPLATES.values(), *MORE_TEMPLATES.values()):
        assert not is_go_template(path.read_text(encoding="utf-8")), path


def test_name_that_is_no_valid_path_is_a_model_name(tmp_path: Path) -> None:
    path = tmp_path / "Modelfile"
    path.write_text(f"FROM {'x' * 5000}\n", encoding="utf-8")
    assert find_source(str(path)).name == "x" * 5000
