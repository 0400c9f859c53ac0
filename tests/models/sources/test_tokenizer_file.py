"""The loader of tokenizer files finds the file, and names the package that it needs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from unspool._core.token_ids.tokenizer_adapters import as_encoder
from unspool.errors import UsageError
from unspool.models.sources.load_tokenizer import find_tokenizer_file, load_tokenizer
from unspool.models.sources.source import Source
from unspool.models.sources.special_tokens import load_vocabulary


def test_tokenizer_json_is_preferred_to_tekken(tmp_path: Path) -> None:
    assert find_tokenizer_file(tmp_path) is None
    (tmp_path / "tekken.json").touch()
    assert find_tokenizer_file(tmp_path) == tmp_path / "tekken.json"
    (tmp_path / "tokenizer.json").touch()
    assert find_tokenizer_file(tmp_path) == tmp_path / "tokenizer.json"


def test_special_tokens_come_from_the_tokenizer_of_the_model(tmp_path: Path) -> None:
    entry = {"id": 7, "content": "<tool_call>", "special": True}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"added_tokens": [entry]}), encoding="utf-8")
    in_folder = load_vocabulary(Source("", "a folder", directory=tmp_path))
    assert in_folder is not None
    assert in_folder.special_tokens() == {7: "<tool_call>"}
    # A file beside others may belong to another model, unless its configuration was found there, too.
    template = tmp_path / "chat_template.jinja"
    assert load_vocabulary(Source("", "a file", file=template)) is None
    beside = load_vocabulary(Source("", "a file", file=template, config={"a": 1}))
    assert beside is not None
    assert beside.special_tokens() == {7: "<tool_call>"}


def test_tekken_file_is_loaded(tmp_path: Path) -> None:
    common = pytest.importorskip("mistral_common")
    data = Path(common.__file__).parent / "data" / "tekken_240911.json"
    tekken = tmp_path / "tekken.json"
    tekken.symlink_to(data)
    assert as_encoder(load_tokenizer(tekken)).encode("a")


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("tokenizer.json", "tokenizers", "tokenizers"), ("tekken.json", "mistral_common", "mistral")],
)
def test_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for module in [module for module in sys.modules if module.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(UsageError, match=rf"{name} needs a package: pip install 'unspool\[{extra}\]'"):
        load_tokenizer(tmp_path / name)
