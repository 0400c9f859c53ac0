"""Short representations of objects with many fields."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any

_LONGEST = 280
_LONGEST_VALUE = 64


def short_repr(value: Any, *positional: str) -> str:
    """Return a representation of a dataclass instance with only the fields that differ from their defaults.

    Long values and long lists of fields are cut off, so the representation has fewer than 300 characters.

    :param positional: names of the fields whose values are shown first, without field names.
    """
    shown = [_cut(repr(getattr(value, name))) for name in positional]
    for field in fields(value):
        if field.name in positional or not field.repr:
            continue
        own = getattr(value, field.name)
        if own != _default(field):
            shown.append(f"{field.name}={_cut(repr(own))}")
    text = f"{type(value).__name__}({', '.join(shown)})"
    while len(text) > _LONGEST:
        shown.pop()
        text = f"{type(value).__name__}({', '.join(shown)}, ...)"
    return text


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _default(field: Field[Any]) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default
