"""Readers for values that clients write in messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...errors import UsageError


def joined_text(content: object, *keys: str) -> str | None:
    """Return the text of ``content``: a string unchanged, or the joined texts of a list of parts.

    :param keys: members of a part that may contain its text, in order of preference.
    """
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        raise UsageError(f"content must be text or a list of parts, not {type(content).__name__}")
    texts = []
    for part in content:
        if isinstance(part, Mapping):
            found = next((part[key] for key in keys if isinstance(part.get(key), str)), "")
            texts.append(str(found))
        else:
            texts.append(str(part))
    return "".join(texts)


def as_json(arguments: object) -> str:
    """Return the arguments of a call as JSON text."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps({} if arguments is None else arguments, ensure_ascii=False)


def mapping(value: object, what: str) -> Mapping[str, Any]:
    """Return ``value`` if it is a mapping, else raise ``UsageError``."""
    if not isinstance(value, Mapping):
        advice = ": pass the result of its model_dump()" if hasattr(value, "model_dump") else ""
        raise UsageError(f"{what} must be a mapping, not {type(value).__name__}{advice}")
    return value
