"""Readers of text and JSON files, with errors that say what to do."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ...errors import UsageError


def read_json(path: Path) -> dict[str, object]:
    """Return the object in a JSON file."""
    return json_object(read_text(path), str(path))


def json_object(text: str, origin: str) -> dict[str, object]:
    """Return the JSON object that a text holds.

    :param origin: the place of the text, for errors.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{origin} is not JSON ({error}): download it again") from error
    if not isinstance(value, dict):
        raise UsageError(f"{origin} does not hold a JSON object: is it the right file?")
    return value


def read_text(path: Path) -> str:
    """Return the text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: give a chat template or JSON, not weights") from error


def is_directory(path: Path) -> bool:
    """Return whether a path is a directory; False if the file system does not allow such a name."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_readable(path: Path) -> bool:
    """Return whether a path is a file that may be read; files of a service may belong to another user."""
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except OSError:
        return False
