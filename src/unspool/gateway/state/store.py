"""Store for responses, conversations and threads, with a maximum size in bytes.

An entry has a kind, a head (an encoded object with the entry's own fields), and a list of items, each
with its own id.  Each entry belongs to one tenant (one API key), and other tenants cannot find
the entry.

All data is stored in encoded form, together with its size and its number of JSON values.  If a request
refers to stored data, the size of this data is added to the size of the request before anything is
decoded.  A store neither encodes nor decodes, so its operations never block the event loop for long.

If the store is full, the tenant that stores the most data makes room: its least recently used entry is
deleted.  So no tenant loses entries because of a tenant that stores more data.

:class:`MemoryStore` loses its entries when the process ends; ``sqlite_store.py`` contains a store that
survives a restart.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

import msgspec

from ..http.json_decoding import VALUES
from ..http.json_encoding import encode_json
from ..http.json_limits import count_values

Item: TypeAlias = dict[str, Any]


class Weight(NamedTuple):
    """Size of stored data and its number of JSON values, which together determine the decoding time."""

    size: int
    """Size in bytes."""
    values: int
    """Number of JSON values, as :func:`count_values` counts them."""


class Row(NamedTuple):
    """Stored item."""

    id: str
    data: bytes
    values: int


class Packed(NamedTuple):
    """Encoded entry, ready to be stored."""

    kind: str
    head: bytes
    rows: Sequence[Row]
    previous: str = ""
    """Id of the entry that this entry continues; empty if there is none."""


class Kept(NamedTuple):
    """Stored entry without its items."""

    kind: str
    head: bytes
    previous: str
    weight: Weight
    """Total size and number of JSON values of all items, without the head."""


class Store(Protocol):
    """Interface for stores, which contain the entries of all tenants."""

    async def start(self) -> None:
        """Start the store."""
        ...

    async def stop(self) -> None:
        """Stop the store."""
        ...

    async def put(self, tenant: str, id: str, packed: Packed) -> bool:
        """Store an entry, which replaces an entry with the same id; return whether there was enough room."""
        ...

    async def get(self, tenant: str, id: str) -> Kept | None:
        """Return an entry without its items, and mark the entry as used; return None if it is not stored."""
        ...

    async def rows(self, tenant: str, id: str, start: int = 0, stop: int | None = None) -> list[Row]:
        """Return the items of an entry from position ``start`` up to position ``stop``."""
        ...

    async def page(
        self, tenant: str, id: str, after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row] | None:
        """Return at most ``limit`` items that follow the item ``after``, or None if that item is missing."""
        ...

    async def item(self, tenant: str, id: str, item: str) -> Row | None:
        """Return one item of an entry, or None if it is not stored."""
        ...

    async def extend(self, tenant: str, id: str, rows: Sequence[Row]) -> bool:
        """Append items to an entry; return whether the items were stored.

        Other processes may append items to the same entry at the same time.
        """
        ...

    async def change(self, tenant: str, id: str, head: bytes) -> bool:
        """Replace an entry's head (the entry's own fields); return whether the entry exists."""
        ...

    async def delete(self, tenant: str, id: str, item: str | None = None) -> bool:
        """Delete an entry or, with ``item``, only one of its items; return whether it existed."""
        ...

    async def weigh(self, tenant: str, items: Sequence[str]) -> dict[str, Weight]:
        """Return the weight (size, value count) of those ``items`` that are stored, keyed by item id."""
        ...

    async def find(self, tenant: str, items: Sequence[str]) -> dict[str, bytes]:
        """Return the encoded data of those ``items`` that are stored, keyed by item id."""
        ...


_BLOCK: Final = 1000
"""Maximum number of items to find or delete in one step, before other tasks may run."""


class _Entry:
    """Entry in memory."""

    __slots__ = (
        "at",
        "gaps",
        "head",
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
        """Items by position, with None in place of deleted items."""
        self.gaps = 0
        self.at: dict[str, int] = {}
        """Position of the last item with each id, keyed by id."""
        self.repeated: set[str] = set()
        """Ids that several items share, which is possible because clients choose the ids."""
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
            assert row is not None  # noqa: S101 - only existing items have positions
            self.rows[position] = None
            self.gaps += 1
            self.size -= len(row.data)
            self.values -= row.values
        # Rebuilding the list takes long, so wait until about half of its positions are empty.
        if self.gaps > len(self.rows) // 2 + _BLOCK:
            self.rows = list(self.listed(0, None))
            self.gaps = 0
            self.at = {row.id: at for at, row in enumerate(self.rows) if row is not None}
        return True

    def row(self, item: str) -> Row | None:
        at = self.at.get(item)
        return None if at is None else self.rows[at]

    def listed(self, start: int, stop: int | None) -> list[Row]:
        rows = list(filter(None, self.rows)) if self.gaps else self.rows
        return cast("list[Row]", rows[start:stop])


class _TenantEntries:
    """Entries of one tenant."""

    def __init__(self) -> None:
        self.size = 0
        self.entries: dict[str, _Entry] = {}
        """Entries by id, in order of last use; the least recently used entry comes first."""
        self.places: dict[str, _Entry] = {}
        """For each item id, the entry to which an item with this id was added most recently."""

    def row(self, item: str) -> Row | None:
        entry = self.places.get(item)
        if entry is None or self.entries.get(entry.id) is not entry:
            return None
        return entry.row(item)


class MemoryStore:
    """Store that keeps all entries in memory."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._size = 0
        self._tenants: dict[str, _TenantEntries] = {}
        self._stale: deque[tuple[_TenantEntries, _Entry]] = deque()
        """Deleted entries whose items are still in ``places``."""

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing; the entries are lost when the process ends."""

    def _entry(self, tenant: str, id: str) -> _Entry | None:
        result = self._tenants.get(tenant)
        return None if result is None else result.entries.get(id)

    async def put(self, tenant: str, id: str, packed: Packed) -> bool:
        """Store an entry."""
        entry = _Entry(id, packed)
        owned = self._tenants.setdefault(tenant, _TenantEntries())
        self._drop(owned, id)
        self._grow(owned, entry.size)
        return self._settle(owned, entry, packed.rows)

    async def get(self, tenant: str, id: str) -> Kept | None:
        """Return an entry without its items, and mark the entry as used."""
        await asyncio.sleep(0)  # let other tasks run while a caller follows a long chain of entries
        entry = self._entry(tenant, id)
        if entry is None:
            return None
        entries = self._tenants[tenant].entries
        entries[id] = entries.pop(id)
        return Kept(
            entry.kind, entry.head, entry.previous, Weight(entry.size - len(entry.head), entry.values)
        )

    async def rows(self, tenant: str, id: str, start: int = 0, stop: int | None = None) -> list[Row]:
        """Return the items of an entry from position ``start`` up to position ``stop``."""
        entry = self._entry(tenant, id)
        return [] if entry is None else entry.listed(start, stop)

    async def page(
        self, tenant: str, id: str, after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row] | None:
        """Return a page of an entry's items, or None if the item ``after`` is missing."""
        entry = self._entry(tenant, id)
        if entry is None or (after is not None and after not in entry.at):
            return None
        step = -1 if newest_first else 1
        at = (len(entry.rows) - 1 if newest_first else 0) if after is None else entry.at[after] + step
        end = -1 if newest_first else len(entry.rows)
        result = (row for place in range(at, end, step) if (row := entry.rows[place]) is not None)
        return list(islice(result, limit))

    async def item(self, tenant: str, id: str, item: str) -> Row | None:
        """Return one item of an entry."""
        entry = self._entry(tenant, id)
        return None if entry is None else entry.row(item)

    async def extend(self, tenant: str, id: str, rows: Sequence[Row]) -> bool:
        """Append items to an entry."""
        entry = self._entry(tenant, id)
        if entry is None:
            return False
        old_size = entry.size
        entry.add(rows)
        owned = self._tenants[tenant]
        self._grow(owned, entry.size - old_size)
        return self._settle(owned, entry, rows)

    async def change(self, tenant: str, id: str, head: bytes) -> bool:
        """Replace the head of an entry: the encoded object with the entry's own fields."""
        entry = self._entry(tenant, id)
        if entry is None:
            return False
        old_size = entry.size
        entry.size += len(head) - len(entry.head)
        entry.head = head
        owned = self._tenants[tenant]
        self._grow(owned, entry.size - old_size)
        return self._settle(owned, entry, ())

    async def delete(self, tenant: str, id: str, item: str | None = None) -> bool:
        """Delete an entry or, with ``item``, only one of its items."""
        entry = self._entry(tenant, id)
        if entry is None:
            return False
        owned = self._tenants[tenant]
        if item is None:
            self._drop(owned, id)
            return True
        old_size = entry.size
        result = entry.remove(item)
        if result and owned.places.get(item) is entry:
            del owned.places[item]
        self._grow(owned, entry.size - old_size)
        self._settle(owned, entry, ())
        return result

    async def weigh(self, tenant: str, items: Sequence[str]) -> dict[str, Weight]:
        """Return the weight (size, value count) of those ``items`` that are stored, keyed by item id."""
        return {row.id: Weight(len(row.data), row.values) for row in await self._find(tenant, items)}

    async def find(self, tenant: str, items: Sequence[str]) -> dict[str, bytes]:
        """Return the encoded data of those ``items`` that are stored, keyed by item id."""
        return {row.id: row.data for row in await self._find(tenant, items)}

    async def _find(self, tenant: str, items: Sequence[str]) -> list[Row]:
        owned = self._tenants.setdefault(tenant, _TenantEntries())
        result: list[Row] = []
        for at in range(0, len(items), _BLOCK):
            await asyncio.sleep(0)
            result += [row for item in items[at : at + _BLOCK] if (row := owned.row(item)) is not None]
        return result

    def _grow(self, owned: _TenantEntries, size: int) -> None:
        owned.size += size
        self._size += size

    def _settle(self, owned: _TenantEntries, entry: _Entry, new: Sequence[Row]) -> bool:
        """Mark an entry as used, and delete entries while the store is too large.

        :returns: whether the entry itself is still stored.
        """
        owned.entries.pop(entry.id, None)
        owned.entries[entry.id] = entry
        owned.places |= dict.fromkeys([row.id for row in new], entry)
        if entry.size > self._room:
            self._drop(owned, entry.id)
        while self._size > self._room:
            _, largest = max((one.size, tenant) for tenant, one in self._tenants.items())
            self._drop(self._tenants[largest], next(iter(self._tenants[largest].entries)))
        self._sweep(2 * len(new) + _BLOCK)
        return owned.entries.get(entry.id) is entry

    def _drop(self, owned: _TenantEntries, id: str) -> None:
        entry = owned.entries.pop(id, None)
        if entry is not None:
            self._grow(owned, -entry.size)
            entry.rows = []
            self._stale.append((owned, entry))
            self._sweep(_BLOCK)

    def _sweep(self, limit: int) -> None:
        """Remove at most ``limit`` items of deleted entries from ``places``.

        There may be very many of these items, so each operation on the store removes only some of them.
        """
        while self._stale and limit > 0:
            owned, entry = self._stale[0]
            while entry.at and limit > 0:
                item, _ = entry.at.popitem()
                if owned.places.get(item) is entry:
                    del owned.places[item]
                limit -= 1
            if not entry.at:
                self._stale.popleft()


# -- encoding and decoding; callers run these functions in a thread if the data is large


def pack(
    kind: str, head: Mapping[str, Any], items: Iterable[Mapping[str, Any]] = (), previous: str = ""
) -> Packed:
    """Encode an entry."""
    return Packed(kind, encode_json(head), pack_items(items), previous)


def pack_items(items: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Encode items; each item must have an ``id``."""
    rows = []
    for item in items:
        data = encode_json(item)
        rows.append(Row(str(item["id"]), data, count_values(data)))
    return rows


def decoded(data: bytes) -> dict[str, Any]:
    """Return stored data as an object."""
    try:
        result: dict[str, Any] = VALUES.decode(data)
    except msgspec.DecodeError:
        # Stored text may contain lone surrogates, which msgspec rejects.
        result = json.loads(data)
    return result
