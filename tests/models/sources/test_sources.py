"""Model sources: the same model is found in every location, and the location is reported."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_detect import HERMES_CALLS, chatml

from gguf_files import write_gguf
from unspool import UsageError, get_dialect
from unspool.cli import main
from unspool.models import detect_model
from unspool.models.sources import find_source

pytest.importorskip("gguf")
HERMES = chatml(HERMES_CALLS)
CONFIG = {"chat_template": HERMES, "eos_token": "<|im_end|>"}


# -- the Hugging Face cache


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HOME", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def download(hub: Path, name: str, commit: str, files: dict[str, object], branch: str = "main") -> Path:
    """Create the files that a download leaves in the cache."""
    model = hub / f"models--{name.replace('/', '--')}"
    snapshot = model / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (model / "blobs").mkdir(exist_ok=True)
    for file, value in files.items():
        blob = model / "blobs" / f"{commit}-{file}"
        blob.write_text(json.dumps(value), encoding="utf-8")
        (snapshot / file).symlink_to(blob)
    if branch:
        (model / "refs").mkdir(exist_ok=True)
        (model / "refs" / branch).write_text(commit, encoding="utf-8")
    return snapshot


FILES: dict[str, object] = {
    "tokenizer_config.json": CONFIG,
    "config.json": {"model_type": "qwen3", "max_position_embeddings": 40960, "eos_token_id": 7},
    "generation_config.json": {"eos_token_id": [151645, 151643]},
}


def test_cached_model_name_is_resolved(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = download(hub, "Qwen/Qwen3-8B", "c0ffee", FILES)
    for name in ("Qwen/Qwen3-8B", str(snapshot), str(snapshot.parent.parent)):
        source = find_source(name)
        assert (source.kind, source.name) == ("hub", "Qwen/Qwen3-8B")
        assert source.template == HERMES
        assert source.directory == snapshot
        assert source.model_type == "qwen3"
        assert source.end_ids == (151645, 151643)
        assert source.context_length == 40960
    assert detect_model("Qwen/Qwen3-8B").dialect is get_dialect("hermes")
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(hub.parent))
    assert find_source("Qwen/Qwen3-8B").directory == snapshot


def test_tokenizer_tokens_are_reported(hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    added = [
        {"id": 7, "content": "<|im_end|>", "special": True},
        {"id": 8, "content": "<tool_call>", "special": False},
    ]
    download(hub, "a/b", "c0ffee", {**FILES, "tokenizer.json": {"added_tokens": added}})
    for command in ("detect", "doctor"):
        main([command, "--json", "a/b"])
        assert json.loads(capsys.readouterr().out)["source"]["tokens"] == {
            "7": {"text": "<|im_end|>", "kind": "special"},
            "8": {"text": "<tool_call>", "kind": "token"},
        }


def test_cache_location_follows_the_hub_variables(hub: Path) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    snapshot = download(hub, "Qwen/Qwen3-8B", "c0ffee", FILES)
    path = huggingface_hub.try_to_load_from_cache("Qwen/Qwen3-8B", "config.json", cache_dir=hub)
    assert path == str(snapshot / "config.json")
    directory = find_source("Qwen/Qwen3-8B").directory
    assert directory is not None
    assert str(directory / "config.json") == path


def test_revisions_are_resolved(hub: Path) -> None:
    old = download(hub, "a/b", "0ld", FILES, branch="v1")
    new = download(hub, "a/b", "fade", FILES)
    alone = download(hub, "a/c", "beef", FILES, branch="")
    assert find_source("a/b").directory == new
    assert find_source("a/b@v1").directory == old
    assert find_source("a/b@0l").directory == old
    assert find_source("a/c").directory == alone
    with pytest.raises(UsageError, match="has no revision v2"):
        find_source("a/b@v2")


def test_name_with_quantisations_is_resolved(hub: Path) -> None:
    snapshot = download(hub, "a/b-GGUF", "c0ffee", {})
    small = write_gguf(snapshot / "b-Q4_K_M.gguf", HERMES)
    large = write_gguf(snapshot / "b-Q8_0.gguf", HERMES)
    assert find_source("a/b-GGUF").weights == small
    assert find_source("a/b-GGUF:q8_0").weights == large
    with pytest.raises(UsageError, match=r"a/b-GGUF: .* has no chat template"):
        find_source("a/b-GGUF:Q6_K")


def test_path_wins_over_a_name(hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    download(hub, "a/b", "c0ffee", FILES)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "chat_template.jinja").write_text(HERMES, encoding="utf-8")
    assert find_source("a/b").kind == "folder"


def test_searched_locations_are_named(hub: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        find_source("org/nothing")
    assert "it is not a path" in str(refusal.value)
    assert str(hub) in str(refusal.value)


# -- standard input


def piped(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_standard_input_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    header = write_gguf(tmp_path / "m.gguf", HERMES).read_bytes()
    for data in (HERMES.encode(), json.dumps(CONFIG).encode(), header + b"weights"):
        piped(data, monkeypatch)
        assert main(["detect", "--json", "-"]) == 0
        detection = json.loads(capsys.readouterr().out)
        assert detection["dialect"] == "hermes"
        assert detection["source"]["origin"] == "standard input"
    piped(header, monkeypatch)
    assert main(["doctor", "-"]) == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a chat template"),
        (b"nothing", "not a chat template"),
        (b"{}", "has no field chat_template"),
        (b"{'a'", "is not JSON"),
        (b"\xff\xfe\x00", "neither UTF-8 text nor a GGUF"),
        (b"GGUF", "ends inside"),
    ],
)
def test_invalid_standard_input_is_refused(
    data: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(data, monkeypatch)
    with pytest.raises(UsageError, match=message):
        find_source("-")
