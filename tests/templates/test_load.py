"""Chat templates loaded from files, directories and the Hugging Face cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gguf_files import write_gguf
from unspool import UsageError
from unspool.models import read_source
from unspool.templates import ChatTemplate

TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
CONFIG = {"chat_template": TEMPLATE, "bos_token": "<s>", "eos_token": {"content": "</s>"}}


def rendered(template: ChatTemplate) -> str:
    return template.render([{"role": "user", "content": "Hi"}])


def test_template_is_loaded_from_a_directory_and_its_files(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(CONFIG), "utf-8")
    assert rendered(ChatTemplate.load(tmp_path)) == "<s>Hi</s>"
    assert rendered(ChatTemplate.load(str(tmp_path / "tokenizer_config.json"))) == "<s>Hi</s>"
    assert rendered(ChatTemplate.load(tmp_path, eos_token="<end>")) == "<s>Hi<end>"
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE, "utf-8")
    assert rendered(ChatTemplate.load(tmp_path / "chat_template.jinja")) == "Hi"


def test_template_is_loaded_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "models--org--model" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer_config.json").write_text(json.dumps(CONFIG), "utf-8")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert rendered(ChatTemplate.load("org/model")) == "<s>Hi</s>"


def test_template_is_loaded_from_a_gguf_file(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    file = write_gguf(tmp_path / "model.gguf", TEMPLATE)
    assert rendered(ChatTemplate.load(file)).endswith("Hi<|im_end|>")


def test_template_is_loaded_from_a_source(tmp_path: Path) -> None:
    source = read_source({"chat_template": TEMPLATE, "eos_token": "</s>"})
    assert rendered(ChatTemplate.load(source)) == "Hi</s>"
    with pytest.raises(UsageError, match=r"pass unspool\.models\.find_source\('http://localhost:1'\)"):
        ChatTemplate.load("http://localhost:1")


@pytest.mark.parametrize("source", ["http://localhost:1", "https://localhost:1/v1", "-"])
def test_template_is_not_loaded_from_a_server(source: str) -> None:
    with pytest.raises(UsageError, match=r"(is a URL, not|is not) a file"):
        ChatTemplate.load(source)


def test_text_of_a_template_is_not_loaded() -> None:
    with pytest.raises(UsageError, match=r"pass it to ChatTemplate\(\)"):
        ChatTemplate.load(TEMPLATE)


def test_missing_model_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        ChatTemplate.load(tmp_path / "none")
    (tmp_path / "Modelfile").write_text('FROM x\nTEMPLATE """{{ .Prompt }}"""\n', "utf-8")
    with pytest.raises(UsageError, match="has no Jinja template"):
        ChatTemplate.load(tmp_path / "Modelfile")
