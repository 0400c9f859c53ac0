"""What requests refer back to: responses and conversations, as many as there is room for.

Whatever is kept has a head, which says what it is, and items in their order, each
under an id of its own.  It belongs to an owner, who is named by the API key, and
nobody else finds it.  Where there is no more room, those go first that have not been
asked for the longest.

This store is in memory and lives as long as the process; ``sqlite_store.py`` has the
one that outlives it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from .decoding import SMALL, VALUES
from .encoding import encoded

Item: TypeAlias = dict[str, Any]
Found = TypeVar("Found")
Given: TypeAlias = Mapping[str, Any]
"""What is to be kept; an item has an ``id``."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that was kept, as it was given."""

    head: dict[str, Any]
    items: list[Item]
    size: int
    """Bytes that it takes."""


Grown: TypeAlias = Callable[[int], None]
"""Is told the size of each thing that a request refers back to; refuses if that is too much."""

_MANY: Final = 64
"""So many items are encoded off the loop."""


class Store(Protocol):
    """Keeps things for their owners."""

    async def start(self) -> None:
        """Get ready."""
        ...

    async def stop(self) -> None:
        """Let go of everything."""
        ...

    async def put(self, owner: str, id: str, head: Given, items: Sequence[Given]) -> bool:
        """Keep this, instead of what was kept under the id; whether there was room."""
        ...

    async def get(self, owner: str, id: str) -> Kept | None:
        """What is kept, if it is still there."""
        ...

    async def extend(self, owner: str, id: str, items: Sequence[Given]) -> bool:
        """Add items at the end, whoever else does so, too; whether they are kept now."""
        ...

    async def change(self, owner: str, id: str, head: Given) -> bool:
        """Give it another head; whether it is there."""
        ...

    async def delete(self, owner: str, id: str, item: str | None = None) -> bool:
        """Forget it, or one item of it; whether that was there."""
        ...

    async def item(self, owner: str, id: str) -> Item | None:
        """The item of that id, in whatever it is kept."""
        ...


class _Entry:
    """Something that is kept, encoded: its size is known, and nobody changes it."""

    __slots__ = ("by_id", "head", "items", "size")

    def __init__(self, head: bytes, items: list[tuple[str, bytes]]) -> None:
        self.head = head
        self.items = items
        self.by_id = dict(items)
        self.size = len(head) + sum(len(data) for _, data in items)

    def kept(self) -> Kept:
        return Kept(decoded(self.head), [decoded(data) for _, data in self.items], self.size)


class MemoryStore:
    """Keeps things in memory."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._size = 0
        self._kept: dict[tuple[str, str], _Entry] = {}
        self._places: dict[tuple[str, str], tuple[str, str]] = {}
        """Where an item is kept; where there are several, the last."""

    async def start(self) -> None:
        """Nothing to do."""

    async def stop(self) -> None:
        """Nothing to do: what is kept is gone with the process."""

    async def put(self, owner: str, id: str, head: Given, items: Sequence[Given]) -> bool:
        """Keep this."""
        entry = await _apart(len(items) > _MANY, lambda: _Entry(encoded(head), encoded_items(items)))
        self._drop((owner, id))
        return self._place((owner, id), entry)

    async def get(self, owner: str, id: str) -> Kept | None:
        """What is kept."""
        entry = self._kept.pop((owner, id), None)
        if entry is None:
            return None
        self._kept[owner, id] = entry  # it is the youngest again
        return await _apart(entry.size > SMALL, entry.kept)

    async def extend(self, owner: str, id: str, items: Sequence[Given]) -> bool:
        """Add items."""
        more = await _apart(len(items) > _MANY, lambda: encoded_items(items))
        entry = self._kept.get((owner, id))
        if entry is None:
            return False
        entry.items += more
        entry.by_id.update(more)
        return self._grow((owner, id), entry, sum(len(data) for _, data in more), more)

    async def change(self, owner: str, id: str, head: Given) -> bool:
        """Give it another head."""
        entry = self._kept.get((owner, id))
        if entry is None:
            return False
        before, entry.head = entry.head, encoded(head)
        return self._grow((owner, id), entry, len(entry.head) - len(before), ())

    async def delete(self, owner: str, id: str, item: str | None = None) -> bool:
        """Forget it, or one item of it."""
        entry = self._drop((owner, id))
        if entry is None or item is None:
            return entry is not None
        left = [one for one in entry.items if one[0] != item]
        self._place((owner, id), _Entry(entry.head, left))
        return len(left) < len(entry.items)

    async def item(self, owner: str, id: str) -> Item | None:
        """The item of that id."""
        place = self._places.get((owner, id))
        if place is None:
            return None
        data = self._kept[place].by_id[id]
        return await _apart(len(data) > SMALL, lambda: decoded(data))

    def _place(self, key: tuple[str, str], entry: _Entry) -> bool:
        if entry.size > self._room:
            return False
        self._size += entry.size
        self._settle(key, entry, entry.items)
        return True

    def _grow(self, key: tuple[str, str], entry: _Entry, size: int, new: Sequence[tuple[str, bytes]]) -> bool:
        """In place: what was there before may be a thousand times as much."""
        entry.size += size
        self._size += size
        if entry.size > self._room:
            self._drop(key)
            return False
        self._settle(key, entry, new)
        return True

    def _settle(self, key: tuple[str, str], entry: _Entry, new: Sequence[tuple[str, bytes]]) -> None:
        """It is the youngest, its new items are found, and those go for which there is no room any more."""
        self._kept.pop(key, None)
        self._kept[key] = entry
        for id, _ in new:
            self._places[key[0], id] = key
        while self._size > self._room:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[str, str]) -> _Entry | None:
        entry = self._kept.pop(key, None)
        if entry is not None:
            self._size -= entry.size
            for id, _ in entry.items:
                if self._places.get((key[0], id)) == key:
                    del self._places[key[0], id]
        return entry


async def _apart(large: bool, work: Callable[[], Found]) -> Found:
    """Do something off the loop if it is large, and else after others had their turn: there may be many."""
    if large:
        return await asyncio.to_thread(work)
    await asyncio.sleep(0)
    return work()


def decoded(data: bytes) -> dict[str, Any]:
    """A value that was kept."""
    try:
        found: dict[str, Any] = VALUES.decode(data)
    except msgspec.DecodeError:
        found = json.loads(data)
    return found


def encoded_items(items: Sequence[Given]) -> list[tuple[str, bytes]]:
    """Items as they are kept, with their ids."""
    return [(str(item["id"]), encoded(item)) for item in items]
