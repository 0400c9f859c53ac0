"""``unspool serve MODEL`` finds the settings for a model and prints them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gguf_files import write_gguf
from ollama_store import Store
from scripted_server import answering
from unspool import UsageError, gateway
from unspool.cli import main
from unspool.gateway import settings_from_model as finding
from unspool.gateway.settings import Settings, load_settings
from unspool.gateway.settings_from_model import resolve_sources

pytest.importorskip("gguf")
pytest.importorskip("jinja2")

HERMES = """{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n' + call.function | tojson + '\\n</tool_call>' }}
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "models"))


def changed(**options: Any) -> dict[str, object]:
    """Return the settings that differ from the defaults."""
    return resolve_sources(Settings(**options)).settings.shown()


def test_complete_settings_are_not_probed() -> None:
    settings = Settings(upstream="chat", url="http://127.0.0.1:9", dialect="hermes")
    assert resolve_sources(settings).settings is settings
    assert not resolve_sources(settings).notes


def test_gguf_file_runs_embedded(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "Qwen3-8B-Q4_K_M.gguf", HERMES)
    assert changed(source=str(path)) == {"file": str(path), "model": "Qwen3-8B", "dialect": "hermes"}
    notes = resolve_sources(Settings(source=str(path))).notes
    assert notes[0] == f"Qwen3-8B: a GGUF file, architecture qwen3, made for 4,096 tokens ({path})."
    assert "runs in this process with llama.cpp and 4,096 tokens" in notes[1]
    assert notes[2].startswith("It writes calls as hermes: hermes recovers exactly the calls")


def test_explicit_settings_win(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", HERMES)
    changes = changed(source=str(path), model="mine", dialect="qwen3_coder", context=512)
    assert changes == {"file": str(path), "model": "mine", "dialect": "qwen3_coder", "context": 512}


EIGHT_BILLION = {
    "add_block_count": (36,),
    "add_head_count_kv": (8,),
    "add_key_length": (128,),
    "add_value_length": (128,),
}


@pytest.mark.parametrize(
    ("gigabytes", "length", "context", "slots"),
    [
        (64, 2048, 2048, 2),
        (64, 40960, 32768, 2),
        (24, 40960, 32768, 1),
        (16, 40960, 28672, 1),
        (16, 8192, 8192, 2),
        (1, 40960, 4096, 1),
    ],
)
def test_context_size_fits_agents_and_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gigabytes: int,
    length: int,
    context: int,
    slots: int,
) -> None:
    monkeypatch.setattr(finding, "memory_bytes", lambda: gigabytes << 30)
    path = write_gguf(tmp_path / "m.gguf", HERMES, context_length=length, more=EIGHT_BILLION)
    settings = resolve_sources(Settings(source=str(path))).settings
    assert (settings.context, settings.slots) == (context, slots)
    assert resolve_sources(Settings(source=str(path), context=512)).settings.context == 512


def test_available_memory_is_detected() -> None:
    assert finding.memory_bytes() > 1 << 28


def test_ollama_model_runs_embedded(tmp_path: Path) -> None:
    Store(tmp_path / "models").add("registry.ollama.ai/library/qwen3/8b", jinja=HERMES)
    changes = changed(source="qwen3:8b")
    assert changes["model"] == "qwen3:8b"
    assert str(changes["file"]).startswith(str(tmp_path / "models" / "blobs" / "sha256-"))


def test_template_without_tools_is_reported(tmp_path: Path) -> None:
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    path = write_gguf(tmp_path / "m.gguf", template)
    settled = resolve_sources(Settings(source=str(path)))
    assert settled.settings.dialect == "auto"  # left for the gateway to decide from the template
    assert settled.notes[2].startswith("The template does not render tools")
    hinted = write_gguf(tmp_path / "h.gguf", template + "{# <tool_call> </tool_call> #}")
    assert (
        resolve_sources(Settings(source=str(hinted)))
        .notes[2]
        .startswith("It writes calls as hermes: the template mentions")
    )


def test_configured_template_selects_the_dialect(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
    file = tmp_path / "chat_template.jinja"
    file.write_text(HERMES, encoding="utf-8")
    settled = resolve_sources(Settings(source=str(path), template=str(file)))
    assert settled.settings.dialect == "hermes"
    assert settled.notes[2].startswith("It writes calls as hermes: hermes recovers")


def test_weights_without_a_template_are_refused(tmp_path: Path) -> None:
    Store(tmp_path / "models").add("registry.ollama.ai/library/qwen3/8b", go="{{ .Prompt }}")
    with pytest.raises(UsageError, match=r"has no chat template.*or pass Ollama's URL instead"):
        resolve_sources(Settings(source="qwen3:8b"))
    file = tmp_path / "chat_template.jinja"
    file.write_text(HERMES, encoding="utf-8")
    assert changed(source="qwen3:8b", template=str(file))["template"] == str(file)


def test_model_without_gguf_needs_an_engine(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(HERMES, encoding="utf-8")
    with pytest.raises(UsageError, match="serve the model with another engine"):
        resolve_sources(Settings(source=str(tmp_path)))
    changes = changed(source=str(tmp_path), url="http://127.0.0.1:9")
    assert changes == {
        "upstream": "completions",
        "url": "http://127.0.0.1:9",
        "model_dir": str(tmp_path),
        "dialect": "hermes",
    }


def test_standard_input_is_refused() -> None:
    with pytest.raises(UsageError, match="standard input cannot be served"):
        resolve_sources(Settings(source="-"))


# -- servers

PROPS = {"default_generation_settings": {"n_ctx": 8192}, "chat_template": HERMES, "model_path": "/x.gguf"}


def card(name: str, root: str) -> dict[str, Any]:
    return {"/v1/models": {"data": [{"id": name, "owned_by": "vllm", "root": root, "max_model_len": 4096}]}}


def test_llama_cpp_server_is_recognised() -> None:
    with answering({"/props": PROPS}) as url:
        expected = {"upstream": "completions", "url": url, "engine": "llamacpp", "dialect": "hermes"}
        assert changed(source=f"{url}/v1") == expected
        notes = resolve_sources(Settings(source=url)).notes
    assert notes[1].startswith(f"Requests go to {url} (llama.cpp); the gateway renders the prompt")


def test_vllm_with_local_files_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(HERMES, encoding="utf-8")
    with answering(card("m", str(tmp_path))) as url:
        assert changed(source=url) == {
            "upstream": "completions",
            "url": url,
            "engine": "vllm",
            "upstream_model": "m",
            "model_dir": str(tmp_path),
            "dialect": "hermes",
        }


def test_vllm_with_remote_files_is_recognised() -> None:
    with answering(card("m", "Qwen/Qwen3-Coder-30B")) as url:
        expected = {"upstream": "chat", "url": url, "engine": "vllm", "upstream_model": "m"}
        assert changed(source=url) == {**expected, "dialect": "qwen3_coder"}
        assert changed(source=url, dialect="hermes") == {**expected, "dialect": "hermes"}
    with answering(card("m", "mine")) as url:
        with pytest.raises(UsageError, match=r"There is no dialect for these names: m, mine.*Set dialect"):
            resolve_sources(Settings(source=url))
        assert changed(source=url, dialect="hermes")["dialect"] == "hermes"


def test_sglang_with_a_parser_is_reported() -> None:
    info = {"model_path": "mine", "is_generation": True, "tool_call_parser": "qwen3_coder"}
    with answering({"/model_info": info}) as url:
        changes = changed(source=url)
    assert (changes["upstream"], changes["engine"], changes["dialect"]) == ("chat", "sglang", "qwen3_coder")


def test_remote_ollama_is_used_through_its_chat_api() -> None:
    answers = {
        "/api/version": {"version": "0.13.0"},
        "/api/tags": {"models": [{"model": "qwen3:8b"}]},
        "/api/show": {"template": "{{ .Prompt }}", "details": {"family": "qwen3"}},
    }
    with answering(answers) as url:
        expected = {"upstream": "chat", "url": url, "engine": "ollama", "upstream_model": "qwen3:8b"}
        assert changed(source=url) == {**expected, "dialect": "hermes"}


# -- where the source may be given


def test_each_model_of_a_file_may_have_a_source(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", HERMES)
    config = tmp_path / "unspool.toml"
    config.write_text(
        f'[models.small]\nsource = "{path}"\n\n[models.large]\nupstream = "chat"\nurl = "http://h"\n'
        'dialect = "hermes"\n',
        encoding="utf-8",
    )
    settled = resolve_sources(load_settings(environment={}, config=str(config)))
    small, large = settled.settings.each()
    assert (small.model, small.file, small.dialect, small.source) == ("small", str(path), "hermes", "")
    assert large.url == "http://h"
    assert len(settled.notes) == 3


def test_serve_prints_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_gguf(tmp_path / "m.gguf", HERMES)
    # This address is reserved for documentation, so the gateway cannot listen on it, and must not say so.
    assert main(["serve", str(path), "--host", "203.0.113.1", "--api-keys", "k"]) == 2
    printed = capsys.readouterr().err
    assert "cannot listen on 203.0.113.1" in printed
    assert "Point an agent" not in printed
    said: list[str] = []

    def serve(settings: Settings, *, on_listening: Callable[[str], None], reload: Any) -> int:
        on_listening("http://127.0.0.1:1234")
        said.append(capsys.readouterr().err)
        assert reload() == settings
        said.append(capsys.readouterr().err)
        return 0

    monkeypatch.setattr(gateway, "serve", serve, raising=False)
    assert main(["serve", str(path)]) == 0
    assert "m: a GGUF file" in said[0]
    assert "Point an agent at http://127.0.0.1:1234/v1" in said[0]
    assert said[1] == ""
    assert main(["serve", "no/such"]) == 2
    assert capsys.readouterr().err.startswith("unspool: no/such does not exist")


def test_source_is_in_json_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_gguf(tmp_path / "m.gguf", HERMES)
    for command in ("detect", "doctor"):
        assert main([command, "--json", str(path)]) == 0
        source = json.loads(capsys.readouterr().out)["source"]
        assert (source["kind"], source["context_length"], source["end_ids"]) == ("gguf", 4096, [3])
        assert source["tokens"]["3"] == {"text": "<|im_end|>", "kind": "special"}
        assert source["tokens"]["4"] == {"text": "<tool_call>", "kind": "token"}
