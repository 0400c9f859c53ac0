"""Conversations that requests refer back to, as many as there is room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class Store:
    """Conversations, by the id of the response that they end with.

    They live in memory, encoded, so that their size is known and nobody changes
    them.  Where there is no more room, those go first that nobody has asked for.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._size = 0
        self._kept: dict[str, bytes] = {}

    def put(self, id: str, items: Sequence[Mapping[str, Any]]) -> None:
        """Keep a conversation."""
        data = msgspec.json.encode(items)
        if len(data) > self._room:
            return
        self._kept[id] = data
        self._size += len(data)
        while self._size > self._room:
            self._size -= len(self._kept.pop(next(iter(self._kept))))

    def get(self, id: str) -> list[dict[str, Any]] | None:
        """A conversation, if it is still there."""
        data = self._kept.pop(id, None)
        if data is None:
            return None
        self._kept[id] = data  # it is the youngest again
        items: list[dict[str, Any]] = msgspec.json.decode(data)
        return items
