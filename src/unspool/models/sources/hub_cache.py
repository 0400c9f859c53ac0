"""Models in the cache of the Hugging Face hub, by their names.

The cache holds a directory ``models--ORG--NAME`` for each model: ``refs`` has a file
for each branch with the commit it stood at, ``snapshots`` a directory for each commit.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from ...errors import UsageError
from .model_directory import from_directory
from .source import Source

_NAME: Final = re.compile(
    r"(?P<name>[\w.-]+/[\w.-]+)(?::(?P<quantisation>[\w.-]+))?(?:@(?P<revision>[\w./-]+))?"
)


def cache_directory() -> Path:
    """Where downloaded models are."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable]).expanduser()
    home = os.environ.get("HF_HOME")
    if not home:
        home = str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(home).expanduser() / "hub"


def from_hub(text: str) -> Source | None:
    """The model of that name; None: it is not there.

    ``org/model``, and behind it ``:Q8_0`` or ``@revision`` where there are several.
    """
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    directory = cache_directory() / f"models--{found['name'].replace('/', '--')}"
    if not directory.is_dir():
        return None
    snapshot = _snapshot(directory, found["revision"] or "")
    try:
        source = from_directory(snapshot, found["quantisation"] or "")
    except UsageError as error:
        raise UsageError(f"{found['name']}: {error}") from error
    return replace(source, kind="hub", name=found["name"])


def snapshot_in(path: Path) -> tuple[Path, str] | None:
    """If a directory is a model's in the cache: the snapshot to read, and the model's name."""
    if path.name.startswith("models--") and (path / "snapshots").is_dir():
        return _snapshot(path, ""), path.name.removeprefix("models--").replace("--", "/", 1)
    if path.parent.name == "snapshots" and path.parent.parent.name.startswith("models--"):
        return path, path.parent.parent.name.removeprefix("models--").replace("--", "/", 1)
    return None


def _snapshot(directory: Path, revision: str) -> Path:
    snapshots = directory / "snapshots"
    reference = directory / "refs" / (revision or "main")
    if reference.is_file():
        found = snapshots / reference.read_text(encoding="utf-8").strip()
        if found.is_dir():
            return found
    there = sorted(snapshots.iterdir()) if snapshots.is_dir() else []
    if revision:
        named = [each for each in there if each.name.startswith(revision)]
        if len(named) == 1:
            return named[0]
        raise UsageError(f"{directory} has no revision {revision}: download it, or leave it out")
    if not there:
        raise UsageError(f"{directory} holds no files yet: download the model again")
    # A model that was downloaded by its commit has no branch.
    return max(there, key=lambda each: each.stat().st_mtime)
