"""The loader of tokenizer files finds the file, and names the package that it needs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unspool._core.token_ids.tokenizer_adapters import as_encoder
from unspool.errors import UsageError
from unspool.models.sources.tokenizer_file import find_tokenizer_file, load_tokenizer


def test_tokenizer_json_is_preferred_to_tekken(tmp_path: Path) -> None:
    assert find_tokenizer_file(tmp_path) is None
    (tmp_path / "tekken.json").touch()
    assert find_tokenizer_file(tmp_path) == tmp_path / "tekken.json"
    (tmp_path / "tokenizer.json").touch()
    assert find_tokenizer_file(tmp_path) == tmp_path / "tokenizer.json"


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
