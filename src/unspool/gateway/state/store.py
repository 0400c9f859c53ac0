"""Stored responses, conversations and threads, within a bound of bytes.

A kept entry has a kind, a head and items in their order, each under an id of its own.
It belongs to an owner, who is named by the API key, and no other owner finds it.
Everything is kept encoded, with its size and the number of its values: a request that
refers back to something is charged for it before anything is decoded.  A store never
encodes or decodes, so its own steps are short.

Where the bound is reached, the owner who keeps the most makes room: of its entries, the
one goes that has not been used for the longest time.  An owner who keeps less than its
share loses nothing to others.

The store in this module is in memory and lives as long as the process;
``sqlite_store.py`` has one that survives a restart.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

import msgspec

from ..http.json_decoding import VALUES, values_of
from ..http.json_encoding import encode_json

Item: TypeAlias = dict[str, Any]


class Weight(NamedTuple):
    """The cost of something that is kept."""

    size: int
    """Bytes."""
    values: int
    """As :func:`values_of` counts them."""


class Row(NamedTuple):
    """An item as it is kept."""

    id: str
    data: bytes
    values: int


class Packed(NamedTuple):
    """An entry to keep, encoded."""

    kind: str
    head: bytes
    rows: Sequence[Row]
    previous: str = ""
    """The id of the entry that it continues."""


class Kept(NamedTuple):
    """An entry that is kept, without its items."""

    kind: str
    head: bytes
    previous: str
    weight: Weight
    """Of all items, without the head."""


class Store(Protocol):
    """Entries of all owners."""

    async def start(self) -> None:
        """Get ready."""
        ...

    async def stop(self) -> None:
        """Release everything."""
        ...

    async def put(self, owner: str, id: str, packed: Packed) -> bool:
        """Keep an entry in place of the one under this id; return whether there was room."""
        ...

    async def get(self, owner: str, id: str) -> Kept | None:
        """Return the entry without its items, and mark it as used."""
        ...

    async def rows(self, owner: str, id: str, start: int = 0, stop: int | None = None) -> list[Row]:
        """Return items by their positions."""
        ...

    async def page(
        self, owner: str, id: str, after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row] | None:
        """Return at most ``limit`` items that follow ``after``; None if that item is not there."""
        ...

    async def item(self, owner: str, id: str, item: str) -> Row | None:
        """Return one item of an entry."""
        ...

    async def extend(self, owner: str, id: str, rows: Sequence[Row]) -> bool:
        """Add items at the end, also while others do; return whether they are kept now."""
        ...

    async def change(self, owner: str, id: str, head: bytes) -> bool:
        """Replace the head; return whether the entry is there."""
        ...

    async def delete(self, owner: str, id: str, item: str | None = None) -> bool:
        """Delete an entry, or one item of it; return whether that was there."""
        ...

    async def weigh(self, owner: str, items: Sequence[str]) -> dict[str, Weight]:
        """Return the weights of those of these items that are kept in any entry."""
        ...

    async def find(self, owner: str, items: Sequence[str]) -> dict[str, bytes]:
        """Return those of these items that are kept in any entry."""
        ...


_BLOCK: Final = 1000
"""Items that are looked up or forgotten before others have their turn."""


class _Entry:
    """An entry in memory."""

    __slots__ = (
        "at",
        "head",
        "holes",
        "id",
        "kind",
        "previous",
        "repeated",
        "rows",
        "size",
        "values",
    )

    def __init__(self, id: str, packed: Packed) -> None:
        self.id = id
        self.kind = packed.kind
        self.previous = packed.previous
        self.head = packed.head
        self.size = len(packed.head)
        self.values = 0
        self.rows: list[Row | None] = []
        """None where an item was deleted."""
        self.holes = 0
        self.at: dict[str, int] = {}
        """The last position of each id."""
        self.repeated: set[str] = set()
        """Ids that clients gave to several items."""
        self.add(packed.rows)

    def add(self, rows: Sequence[Row]) -> None:
        ids = [row.id for row in rows]
        positions = dict(zip(ids, range(len(self.rows), len(self.rows) + len(ids)), strict=True))
        self.repeated |= self.at.keys() & positions.keys()
        if len(positions) < len(ids):
            self.repeated |= {id for id, count in Counter(ids).items() if count > 1}
        self.at |= positions
        self.rows += rows
        self.size += sum([len(row.data) for row in rows])
        self.values += sum([row.values for row in rows])

    def remove(self, item: str) -> bool:
        at = self.at.pop(item, None)
        if at is None:
            return False
        positions: Iterable[int] = (at,)
        if item in self.repeated:
            self.repeated.remove(item)
            positions = [n for n, row in enumerate(self.rows) if row is not None and row.id == item]
        for position in positions:
            row = self.rows[position]
            assert row is not None  # noqa: S101 - what has a position is there
            self.rows[position] = None
            self.holes += 1
            self.size -= len(row.data)
            self.values -= row.values
        if self.holes > len(self.rows) // 2 + _BLOCK:
            self.rows = list(self.listed(0, None))
            self.holes = 0
            self.at = {row.id: at for at, row in enumerate(self.rows) if row is not None}
        return True

    def row(self, item: str) -> Row | None:
        at = self.at.get(item)
        return None if at is None else self.rows[at]

    def listed(self, start: int, stop: int | None) -> list[Row]:
        rows = list(filter(None, self.rows)) if self.holes else self.rows
        return cast("list[Row]", rows[start:stop])


class _Owner:
    """The entries of one owner."""

    def __init__(self) -> None:
        self.size = 0
        self.entries: dict[str, _Entry] = {}
        """The one first that has not been used for the longest time."""
        self.places: dict[str, _Entry] = {}
        """The entry that an item was added to last."""

    def row(self, item: str) -> Row | None:
        entry = self.places.get(item)
        if entry is None or self.entries.get(entry.id) is not entry:
            return None
        return entry.row(item)


class MemoryStore:
    """Entries in memory."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._size = 0
        self._owners: dict[str, _Owner] = {}
        self._stale: deque[tuple[_Owner, _Entry]] = deque()
        """Entries that are gone, and whose items still have places."""

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing: the entries are gone with the process."""

    def _entry(self, owner: str, id: str) -> _Entry | None:
        found = self._owners.get(owner)
        return None if found is None else found.entries.get(id)

    async def put(self, owner: str, id: str, packed: Packed) -> bool:
        """Keep an entry."""
        entry = _Entry(id, packed)
        own = self._owners.setdefault(owner, _Owner())
        self._drop(own, id)
        self._grow(own, entry.size)
        return self._settle(own, entry, packed.rows)

    async def get(self, owner: str, id: str) -> Kept | None:
        """Return the entry without its items."""
        await asyncio.sleep(0)  # a chain of entries is long: others have their turn in between
        entry = self._entry(owner, id)
        if entry is None:
            return None
        entries = self._owners[owner].entries
        entries[id] = entries.pop(id)
        return Kept(
            entry.kind, entry.head, entry.previous, Weight(entry.size - len(entry.head), entry.values)
        )

    async def rows(self, owner: str, id: str, start: int = 0, stop: int | None = None) -> list[Row]:
        """Return items by their positions."""
        entry = self._entry(owner, id)
        return [] if entry is None else entry.listed(start, stop)

    async def page(
        self, owner: str, id: str, after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row] | None:
        """Return some items."""
        entry = self._entry(owner, id)
        if entry is None or (after is not None and after not in entry.at):
            return None
        step = -1 if newest_first else 1
        at = (len(entry.rows) - 1 if newest_first else 0) if after is None else entry.at[after] + step
        end = -1 if newest_first else len(entry.rows)
        found = (row for place in range(at, end, step) if (row := entry.rows[place]) is not None)
        return list(islice(found, limit))

    async def item(self, owner: str, id: str, item: str) -> Row | None:
        """Return one item of an entry."""
        entry = self._entry(owner, id)
        return None if entry is None else entry.row(item)

    async def extend(self, owner: str, id: str, rows: Sequence[Row]) -> bool:
        """Add items."""
        entry = self._entry(owner, id)
        if entry is None:
            return False
        before = entry.size
        entry.add(rows)
        own = self._owners[owner]
        self._grow(own, entry.size - before)
        return self._settle(own, entry, rows)

    async def change(self, owner: str, id: str, head: bytes) -> bool:
        """Replace the head."""
        entry = self._entry(owner, id)
        if entry is None:
            return False
        before = entry.size
        entry.size += len(head) - len(entry.head)
        entry.head = head
        own = self._owners[owner]
        self._grow(own, entry.size - before)
        return self._settle(own, entry, ())

    async def delete(self, owner: str, id: str, item: str | None = None) -> bool:
        """Delete an entry, or one item of it."""
        entry = self._entry(owner, id)
        if entry is None:
            return False
        own = self._owners[owner]
        if item is None:
            self._drop(own, id)
            return True
        before = entry.size
        found = entry.remove(item)
        if found and own.places.get(item) is entry:
            del own.places[item]
        self._grow(own, entry.size - before)
        self._settle(own, entry, ())
        return found

    async def weigh(self, owner: str, items: Sequence[str]) -> dict[str, Weight]:
        """Return the weights of items."""
        return {row.id: Weight(len(row.data), row.values) for row in await self._find(owner, items)}

    async def find(self, owner: str, items: Sequence[str]) -> dict[str, bytes]:
        """Return items."""
        return {row.id: row.data for row in await self._find(owner, items)}

    async def _find(self, owner: str, items: Sequence[str]) -> list[Row]:
        own = self._owners.setdefault(owner, _Owner())
        found: list[Row] = []
        for at in range(0, len(items), _BLOCK):
            await asyncio.sleep(0)
            found += [row for item in items[at : at + _BLOCK] if (row := own.row(item)) is not None]
        return found

    def _grow(self, own: _Owner, size: int) -> None:
        own.size += size
        self._size += size

    def _settle(self, own: _Owner, entry: _Entry, new: Sequence[Row]) -> bool:
        """Make an entry the youngest, and room for it; return whether it is still there."""
        own.entries.pop(entry.id, None)
        own.entries[entry.id] = entry
        own.places |= dict.fromkeys([row.id for row in new], entry)
        if entry.size > self._room:
            self._drop(own, entry.id)
        while self._size > self._room:
            _, largest = max((one.size, owner) for owner, one in self._owners.items())
            self._drop(self._owners[largest], next(iter(self._owners[largest].entries)))
        self._sweep(2 * len(new) + _BLOCK)
        return own.entries.get(entry.id) is entry

    def _drop(self, own: _Owner, id: str) -> None:
        entry = own.entries.pop(id, None)
        if entry is not None:
            self._grow(own, -entry.size)
            entry.rows = []
            self._stale.append((own, entry))
            self._sweep(_BLOCK)

    def _sweep(self, most: int) -> None:
        """Forget places of items that are gone: not all at once, because they may be very many."""
        while self._stale and most > 0:
            own, entry = self._stale[0]
            while entry.at and most > 0:
                item, _ = entry.at.popitem()
                if own.places.get(item) is entry:
                    del own.places[item]
                most -= 1
            if not entry.at:
                self._stale.popleft()


# -- encoding: for whoever calls a store, off the event loop where that is large


def pack(
    kind: str, head: Mapping[str, Any], items: Iterable[Mapping[str, Any]] = (), previous: str = ""
) -> Packed:
    """Encode an entry."""
    return Packed(kind, encode_json(head), pack_items(items), previous)


def pack_items(items: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Encode items, each of which has an ``id``."""
    rows = []
    for item in items:
        data = encode_json(item)
        rows.append(Row(str(item["id"]), data, values_of(data)))
    return rows


def decoded(data: bytes) -> dict[str, Any]:
    """Return a value that was kept."""
    try:
        found: dict[str, Any] = VALUES.decode(data)
    except msgspec.DecodeError:
        found = json.loads(data)
    return found
