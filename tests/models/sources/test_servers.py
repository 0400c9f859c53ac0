"""Running servers as model sources, recognised by their endpoints.

The replies are those of vLLM 0.32, SGLang 0.5.23 and Ollama's documentation; the gateway's tests use a real
llama.cpp.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_detect import HERMES_CALLS, chatml
from test_ollama_store import GO_CODER, GO_HERMES
from test_sources import FILES, download

from gguf_files import write_gguf
from ollama_store import Store
from scripted_server import Answers, answering
from unspool import UsageError
from unspool.cli import main
from unspool.models import detect_server
from unspool.models.doctor.diagnose import diagnose
from unspool.models.sources import find_source

pytest.importorskip("gguf")
HERMES = chatml(HERMES_CALLS)


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "models"))
    monkeypatch.delenv("UNSPOOL_UPSTREAM_KEY", raising=False)


# -- llama.cpp


def props(**more: object) -> Answers:
    return {
        "/props": {
            "default_generation_settings": {"n_ctx": 8192},
            "total_slots": 1,
            "model_path": "/elsewhere/Qwen3-8B-Q4_K_M.gguf",
            "chat_template": HERMES,
            "bos_token": "",
            "eos_token": "<|im_end|>",
            **more,
        }
    }


def test_llama_cpp_is_recognised(tmp_path: Path) -> None:
    with answering(props()) as url:
        for address in (url, f"{url}/", f"{url}/v1"):
            source = find_source(address)
            assert (source.kind, source.engine, source.url) == ("server", "llamacpp", url)
            assert source.name == "Qwen3-8B"
            assert source.template == HERMES
            assert source.tokens == {"eos_token": "<|im_end|>"}
            assert source.context_length == 8192
            assert source.vocabulary is None
        assert main(["detect", url]) == 0
    # The model's file is on this machine, so its tokens are known, too.
    path = write_gguf(tmp_path / "m.gguf", "{{ messages[0].content }}")
    with answering(props(model_path=str(path), chat_template_tool_use="{{ messages }}")) as url:
        source = find_source(url)
    assert source.vocabulary is not None
    assert source.end_ids == (3,)
    assert source.template == "{{ messages }}"
    assert source.others == {"the template 'default'": HERMES}


# -- vLLM and SGLang


def cards(*names: str, root: str = "") -> dict[str, Any]:
    entries = [
        {"id": name, "object": "model", "owned_by": "vllm", "root": root or name, "max_model_len": 32768}
        for name in names
    ]
    return {"/v1/models": {"object": "list", "data": entries}, "/version": {"version": "0.32.0"}}


def test_vllm_with_a_cached_model_is_resolved(tmp_path: Path) -> None:
    snapshot = download(tmp_path / "hub", "Qwen/Qwen3-8B", "c0ffee", FILES)
    with answering(cards("qwen", root="Qwen/Qwen3-8B")) as url:
        source = find_source(url)
        assert (source.engine, source.name, source.directory) == ("vllm", "qwen", snapshot)
        assert source.template == HERMES
        assert source.context_length == 32768
        assert diagnose(url).dialect is not None


def test_vllm_with_a_directory_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "chat_template.jinja").write_text(HERMES, encoding="utf-8")
    with answering(cards("m", root=str(tmp_path / "m"))) as url:
        assert find_source(url).directory == tmp_path / "m"


def test_vllm_tokenizer_is_used() -> None:
    answers = {"/tokenizer_info": {"chat_template": HERMES, "eos_token": "<|im_end|>"}}
    with answering({**cards("m"), **answers}) as url:
        source = find_source(url)
    assert source.template == HERMES
    assert source.origin == f"{url}/tokenizer_info"
    assert source.tokens == {"eos_token": "<|im_end|>"}


def test_vllm_with_a_remote_model_is_explained() -> None:
    with answering(cards("Qwen/Qwen3-Coder-30B-A3B-Instruct", "lora")) as url:
        detection = detect_server(url)
        assert detection.dialect is not None
        assert detection.dialect.name == "qwen3_coder"
        assert not detection.tried
        assert find_source(f"{url}#lora").name == "lora"
        with pytest.raises(UsageError, match="has no model x; it has Qwen"):
            find_source(f"{url}#x")
    with answering(cards("mine")) as url:
        assert detect_server(url).dialect is None


def sglang(**more: object) -> Answers:
    info = {
        "model_path": "mine",
        "tokenizer_path": "mine",
        "served_model_name": "mine",
        "is_generation": True,
    }
    return {
        "/model_info": {**info, "model_type": "llama", "tool_call_parser": None, **more},
        "/server_info": {"context_length": 4096, "version": "0.5.23", "chat_template": None},
        "/v1/models": {"data": [{"id": "mine", "owned_by": "sglang", "root": "mine", "max_model_len": 4096}]},
    }


@pytest.mark.parametrize("prefix", ["", "get_"])
def test_sglang_is_recognised(tmp_path: Path, prefix: str) -> None:
    def named(answers: Answers) -> Answers:
        return {path.replace("/", f"/{prefix}", 1): answer for path, answer in answers.items()}

    with answering(named(sglang(tool_call_parser="qwen3_coder"))) as url:
        source = find_source(url)
        assert (source.engine, source.name, source.context_length) == ("sglang", "mine", 4096)
        dialect = detect_server(url).dialect
        assert dialect is not None
        assert dialect.name == "qwen3_coder"
    snapshot = download(tmp_path / "hub", "Qwen/Qwen3-8B", "c0ffee", FILES)
    with answering(named(sglang(model_path="Qwen/Qwen3-8B", tokenizer_path="Qwen/Qwen3-8B"))) as url:
        assert find_source(url).directory == snapshot


# -- Ollama


def ollama(
    *names: str, loaded: tuple[str, ...] = (), modelfile: str = "", template: str = GO_HERMES
) -> Answers:
    def show(body: dict[str, Any]) -> Any:
        if body["model"] not in names:
            return None
        return {
            "modelfile": modelfile,
            "parameters": 'stop                           "<|im_end|>"',
            "template": GO_HERMES,
            "details": {"format": "gguf", "family": "qwen3", "families": ["qwen3"]},
            "model_info": {
                "general.architecture": "qwen3",
                "qwen3.context_length": 40960,
                "tokenizer.ggml.eos_token_id": 1,
                "tokenizer.ggml.tokens": ["a", "<|im_end|>"],
                "tokenizer.ggml.token_type": [1, 3],
            },
            "capabilities": ["completion", "tools", "thinking"],
        }

    return {
        "/api/version": {"version": "0.13.0"},
        "/api/tags": {"models": [{"name": name, "model": name} for name in names]},
        "/api/ps": {"models": [{"name": name, "model": name} for name in loaded]},
        "/api/show": show,
    }


def test_remote_ollama_is_recognised() -> None:
    with answering(ollama("qwen3:8b", modelfile="FROM /elsewhere/blob\n")) as url:
        source = find_source(url)
        assert (source.engine, source.name, source.families) == ("ollama", "qwen3:8b", ("qwen3",))
        assert source.go_template == GO_HERMES
        assert source.context_length == 40960
        assert source.end_ids == (1,)
        assert source.vocabulary is not None
        assert source.vocabulary.skipped_tokens() == {1: "<|im_end|>"}
        dialect = detect_server(url).dialect
    assert dialect is not None
    assert dialect.name == "hermes"


def test_local_ollama_is_resolved(tmp_path: Path) -> None:
    store = Store(tmp_path / "models")
    store.add("registry.ollama.ai/library/qwen3/8b", jinja=HERMES)
    weights = find_source("qwen3:8b").weights
    modelfile = f'# made by ollama\n\nFROM {weights}\nTEMPLATE """{GO_CODER}"""\nPARSER x\n'
    with answering(ollama("mine", modelfile=modelfile)) as url:
        source = find_source(url)
    assert source.template == HERMES
    assert source.weights == weights
    assert source.parser == "x"
    assert url in source.origin


def test_ollama_with_several_models_needs_a_name() -> None:
    with answering(ollama("a", "qwen3:8b")) as url:
        with pytest.raises(
            UsageError, match=rf"several models \(a, qwen3:8b\); add one to the address, as in {url}#a"
        ):
            find_source(url)
        assert find_source(f"{url}#qwen3:8b").name == "qwen3:8b"
        with pytest.raises(UsageError, match="has no model b"):
            find_source(f"{url}#b")
    with answering(ollama("a", "b", loaded=("b",))) as url:
        assert find_source(url).name == "b"
    with answering(ollama()) as url, pytest.raises(UsageError, match="has no models; download"):
        find_source(url)


# -- unspool's own gateway


def test_gateway_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    listed = [{"id": name, "owned_by": "unspool", "dialect": name} for name in ("glm45", "hermes")]
    with answering({"/v1/models": {"data": listed}, "/api/version": {"version": "0.13.0"}}) as url:
        assert (find_source(url).engine, find_source(url).name) == ("unspool", "glm45")
        found = detect_server(f"{url}#hermes")
        assert found.dialect is not None
        assert found.dialect.name == "hermes"
        assert main(["detect", f"{url}#hermes"]) == 0
        with pytest.raises(UsageError, match="has no model qwen; it has glm45, hermes"):
            find_source(f"{url}#qwen")
    page = capsys.readouterr().out
    assert "served by an unspool gateway" in page
    assert "The gateway is configured for the dialect hermes." in page


# -- other servers


def test_unrecognised_servers_are_refused() -> None:
    with answering({}) as url, pytest.raises(UsageError, match="is not a vLLM, SGLang"):
        find_source(url)
    with (
        answering({"/props": b"[", "/v1/models": [1]}) as url,
        pytest.raises(UsageError, match="is not a vLLM"),
    ):
        find_source(url)
    with pytest.raises(UsageError, match=r"does not answer .*is the server running"):
        find_source(url)
    with answering({"/v1/models": {"data": [{"id": "gpt-oss-20b", "owned_by": "someone"}]}}) as url:
        assert find_source(url).engine == "openai"
        dialect = detect_server(url).dialect
    assert dialect is not None
    assert dialect.name == "harmony"


def test_keys_are_sent_and_required(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(props(), key="secret") as url:
        with pytest.raises(UsageError, match="it requires an API key: set UNSPOOL_UPSTREAM_KEY"):
            find_source(url)
        monkeypatch.setenv("UNSPOOL_UPSTREAM_KEY", "secret")
        assert find_source(url).template == HERMES
