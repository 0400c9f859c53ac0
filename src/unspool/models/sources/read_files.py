"""Reading of text and JSON files, with error messages that suggest a fix."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ...errors import UsageError


def read_json(path: Path) -> dict[str, object]:
    """Read a JSON file that contains an object."""
    return json_object(read_text(path), str(path))


def json_object(text: str, origin: str) -> dict[str, object]:
    """Parse text as a JSON object.

    :param origin: a description of where the text comes from, for error messages.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{origin} is not JSON ({error}): download it again") from error
    if not isinstance(value, dict):
        raise UsageError(f"{origin} does not contain a JSON object: is it the right file?")
    return value


def read_text(path: Path) -> str:
    """Read a UTF-8 text file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: pass a chat template or JSON, not weights") from error


def is_directory(path: Path) -> bool:
    """Return whether a path is a directory; False if the path is not a valid name on this file system."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_readable(path: Path) -> bool:
    """Return whether a path is a file that this user is allowed to read."""
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except OSError:
        return False
