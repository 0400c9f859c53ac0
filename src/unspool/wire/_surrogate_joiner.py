"""Joining of surrogate pairs that a server has split between two chunks."""

from __future__ import annotations

from typing import Any


class SurrogateJoiner:
    """Joiner of surrogate pairs whose halves a server has sent in two different chunks.

    The first half is stored until a later chunk has the second half at the same path.
    """

    def __init__(self) -> None:
        self._pending: dict[tuple[object, ...], str] = {}
        """First halves of surrogate pairs, keyed by the path of their string in the chunk."""

    def join(self, value: Any, path: tuple[object, ...] = ()) -> Any:
        """Return a chunk with only complete characters; store a first half at the end of a string."""
        if isinstance(value, dict):
            return {_merge_pairs(key): self.join(one, (*path, key)) for key, one in value.items()}
        if isinstance(value, list):
            return [self.join(one, (*path, _entry_index(one, i))) for i, one in enumerate(value)]
        if not isinstance(value, str):
            return value
        text = self._pending.pop(path, "") + value
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._pending[path] = text[-1]
            text = text[:-1]
        return _merge_pairs(text)


def _merge_pairs(text: str) -> str:
    """Merge surrogate pairs into characters, and replace lone surrogates."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _entry_index(entry: object, position: int) -> object:
    """Return the ``index`` field of a choice or tool call; for other list entries, return the position."""
    index = entry.get("index") if isinstance(entry, dict) else None
    return index if isinstance(index, int) else position
