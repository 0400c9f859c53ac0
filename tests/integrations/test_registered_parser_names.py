"""Parser names of the plug-ins: one listed name, and names of dialects that are resolved when looked up."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool import list_dialects
from unspool.integrations._registered_parser_names import (
    NamesOnDemand,
    dialect_name,
    names_on_command_line,
)


@pytest.mark.parametrize("prefix", ["unspool:", "unspool_"])
def test_prefix_names_every_dialect(prefix: str) -> None:
    for dialect in list_dialects():
        assert dialect_name(prefix + dialect.name) == dialect.name
    assert dialect_name(f"{prefix}deepseek_r1") == "deepseek_r1"
    assert dialect_name(f"{prefix}nonsense") is None


@pytest.mark.parametrize("name", ["hermes", "unspooled", "", "unspool-hermes"])
def test_other_names_are_not_ours(name: str) -> None:
    assert dialect_name(name) is None


def test_names_on_the_command_line_are_found(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "tool-call-parser: unspool_kimi_k2\nreasoning-parser: unspool:nonsense\n", encoding="utf-8"
    )
    arguments = [
        "serve",
        "--tool-call-parser=unspool:hy_v4:opensource",
        "--reasoning-parser",
        "unspool:hermes",
    ]
    assert names_on_command_line(arguments) == {
        "unspool:hy_v4:opensource": "hy_v4:opensource",
        "unspool:hermes": "hermes",
    }
    assert names_on_command_line(["--config", str(config)]) == {"unspool_kimi_k2": "kimi_k2"}
    assert names_on_command_line([f"--config={config}"]) == {"unspool_kimi_k2": "kimi_k2"}
    assert names_on_command_line(["--config"]) == {}
    assert names_on_command_line([]) == {}


def test_registry_lists_only_its_entries_and_resolves_dialects() -> None:
    registry = NamesOnDemand({"hermes": "theirs"}, lambda name, dialect: f"{name} is {dialect}")
    assert "unspool:hermes" in registry
    assert "unspool:nonsense" not in registry
    assert list(registry) == ["hermes"]
    assert registry["hermes"] == "theirs"
    assert registry.get("unspool_hermes") == "unspool_hermes is hermes"
    assert registry["unspool:hermes"] == "unspool:hermes is hermes"
    assert registry["unspool:hermes"] is registry["unspool:hermes"]
    assert list(registry) == ["hermes"]
    assert registry.get("unspool:nonsense") is None
    with pytest.raises(KeyError):
        registry["nonsense"]
