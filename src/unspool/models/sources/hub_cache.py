"""Lookup of models by name in the Hugging Face cache.

The cache has a directory ``models--ORG--NAME`` for each model.  In this directory, ``refs`` has a file with
the commit of each branch, and ``snapshots`` has a directory for each commit.
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
    """Return the directory in which Hugging Face tools store downloaded models."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable]).expanduser()
    home = os.environ.get("HF_HOME")
    if not home:
        home = str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(home).expanduser() / "hub"


def from_hub(text: str) -> Source | None:
    """Return the source for a model in the cache; None if the model is not in the cache.

    :param text: ``org/model``, optionally with a quantisation (``:Q8_0``) or a revision (``@main``).
    """
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    directory = cache_directory() / f"models--{match['name'].replace('/', '--')}"
    if not directory.is_dir():
        return None
    snapshot = _snapshot(directory, match["revision"] or "")
    try:
        source = from_directory(snapshot, match["quantisation"] or "")
    except UsageError as error:
        raise UsageError(f"{match['name']}: {error}") from error
    return replace(source, kind="hub", name=match["name"])


def snapshot_in(path: Path) -> tuple[Path, str] | None:
    """Return the snapshot directory and the model name for a path in a cache; None for any other path."""
    if path.name.startswith("models--") and (path / "snapshots").is_dir():
        return _snapshot(path, ""), path.name.removeprefix("models--").replace("--", "/", 1)
    if path.parent.name == "snapshots" and path.parent.parent.name.startswith("models--"):
        return path, path.parent.parent.name.removeprefix("models--").replace("--", "/", 1)
    return None


def _snapshot(directory: Path, revision: str) -> Path:
    snapshots = directory / "snapshots"
    reference = directory / "refs" / (revision or "main")
    if reference.is_file():
        snapshot = snapshots / reference.read_text(encoding="utf-8").strip()
        if snapshot.is_dir():
            return snapshot
    existing = sorted(snapshots.iterdir()) if snapshots.is_dir() else []
    if revision:
        named = [each for each in existing if each.name.startswith(revision)]
        if len(named) == 1:
            return named[0]
        raise UsageError(f"{directory} has no revision {revision}: download it, or leave the revision out")
    if not existing:
        raise UsageError(f"{directory} has no files: download the model again")
    # If a model was downloaded by its commit, `refs` has no branch for it.  So use the newest snapshot.
    return max(existing, key=lambda each: each.stat().st_mtime)
