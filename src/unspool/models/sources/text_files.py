"""Files as text and as JSON, with errors that say what to do."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ...errors import UsageError


def read_json(path: Path) -> dict[str, object]:
    """The object in a JSON file."""
    return json_object(read_text(path), str(path))


def json_object(text: str, origin: str) -> dict[str, object]:
    """The object that a text is."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{origin} is not JSON ({error}): download it again") from error
    if not isinstance(value, dict):
        raise UsageError(f"{origin} holds no JSON object: is it the right file?")
    return value


def read_text(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: a template or JSON is needed, not weights") from error


def is_directory(path: Path) -> bool:
    """Whether there is one; no file system has one of any name."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_readable(path: Path) -> bool:
    """Whether there is a file that may be read: those of a service belong to its user."""
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except OSError:
        return False
