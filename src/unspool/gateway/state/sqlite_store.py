"""Store in a SQLite file, which survives restarts and which several workers can share.

All work is done in one thread with one connection, so that the event loop never waits for a disk.
The journal is a write-ahead log, so readers do not wait for a writer in another process.  Every
operation that reads before it writes runs in one transaction.  Reading does not depend on writing,
so stored data can be read even if the disk is full.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from ...errors import UsageError
from ..http.failure import Failure
from .store import Kept, Packed, Row, Weight

Result = TypeVar("Result")

_VERSION: Final = 2
_BUSY: Final = 10.0
"""Seconds to wait for a writer in another process."""
_NO_LIMIT: Final = -1
_LAST: Final = (1 << 63) - 1
"""Number greater than any value in the column ``place``."""
_OTHERS: Final = 0o077
"""Permission bits for all users except the file's owner."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS kept (
    number INTEGER PRIMARY KEY, owner TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL,
    previous TEXT NOT NULL, head BLOB NOT NULL, size INTEGER NOT NULL, counted INTEGER NOT NULL,
    used INTEGER NOT NULL, UNIQUE (owner, id)
);
CREATE INDEX IF NOT EXISTS by_use ON kept (owner, used);
CREATE TABLE IF NOT EXISTS items (
    place INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL REFERENCES kept ON DELETE CASCADE,
    owner TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, counted INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_number ON items (number);
CREATE INDEX IF NOT EXISTS by_id ON items (owner, id);
CREATE TABLE IF NOT EXISTS owners (owner TEXT PRIMARY KEY, size INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS clock (one INTEGER PRIMARY KEY CHECK (one = 1), size INTEGER, used INTEGER);
INSERT OR IGNORE INTO clock VALUES (1, 0, 0);
"""
"""Tables of the store.

``kept`` contains the entries, ``items`` their items, and ``owners`` the size of each tenant's data.
``clock`` has a single row, with the total size of all data and a counter that orders entries by their
last use.  Each ``counted`` column contains a number of JSON values.
"""
_FIND: Final = """
SELECT number, kind, head, previous, size - length(head), counted FROM kept WHERE owner = ? AND id = ?
"""
_PLACE: Final = """
SELECT max(place) FROM items
WHERE number = (SELECT number FROM kept WHERE owner = ? AND kept.id = ?) AND id = ? HAVING count(*)
"""
_OLDEST_FIRST: Final = """
SELECT id, data, counted FROM items
WHERE number = (SELECT number FROM kept WHERE owner = ? AND kept.id = ?) AND place > ?
ORDER BY place LIMIT ? OFFSET ?
"""
_NEWEST_FIRST: Final = _OLDEST_FIRST.replace("place > ?", "place < ?").replace("BY place", "BY place DESC")
_ANYWHERE: Final = """
WHERE place IN (
    SELECT max(place) FROM items WHERE owner = ? AND id IN (SELECT value FROM json_each(?)) GROUP BY id
)
"""


class SqliteStore:
    """Store in a SQLite file."""

    def __init__(self, path: str, room: int) -> None:
        self._path = path
        self._room = room
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="unspool-store")
        self._open: sqlite3.Connection | None = None

    @property
    def _database(self) -> sqlite3.Connection:
        if self._open is None:
            self._open = self._connect()
        return self._open

    def _connect(self) -> sqlite3.Connection:
        try:
            _keep_private(self._path)
            database = sqlite3.connect(self._path, timeout=_BUSY, isolation_level=None)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA foreign_keys = ON")
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _VERSION):
                raise UsageError(
                    f"{self._path} was created by another version of unspool; set store to another file"
                )
            database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"store={self._path!r} cannot be opened: {error}") from error
        return database

    async def start(self) -> None:
        """Open the file."""
        await self._run(lambda: self._database)

    async def stop(self) -> None:
        """Close the file."""
        await self._run(self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    async def _run(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise Failure("internal", f"the store failed: {error}", code="store_failed") from error

    async def _change(self, work: Callable[[], Result]) -> Result:
        """Run a function in a transaction."""
        return await self._run(lambda: self._transact(work))

    def _transact(self, work: Callable[[], Result]) -> Result:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            result = work()
        except BaseException:
            with suppress(sqlite3.Error):  # if the disk is full, SQLite may have ended the transaction itself
                self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
        return result

    async def put(self, tenant: str, id: str, packed: Packed) -> bool:
        """Store an entry."""

        def put() -> bool:
            self._forget(tenant, id)
            number = self._database.execute(
                "INSERT INTO kept (owner, id, kind, previous, head, size, counted, used) "
                "VALUES (?, ?, ?, ?, ?, 0, 0, 0)",
                (tenant, id, packed.kind, packed.previous, packed.head),
            ).lastrowid
            self._add(tenant, number, packed.rows)
            return self._settle(tenant, id, number, len(packed.head), 0)

        return await self._change(put)

    async def get(self, tenant: str, id: str) -> Kept | None:
        """Return an entry without its items, and mark the entry as used."""

        def get() -> Kept | None:
            row = self._database.execute(_FIND, (tenant, id)).fetchone()
            if row is None:
                return None
            with suppress(sqlite3.Error):  # if the disk is full, the use is not recorded
                self._transact(lambda: self._use(row[0]))
            return Kept(row[1], row[2], row[3], Weight(row[4], row[5]))

        return await self._run(get)

    async def rows(self, tenant: str, id: str, start: int = 0, stop: int | None = None) -> list[Row]:
        """Return the items of an entry from position ``start`` up to position ``stop``."""
        limit = _NO_LIMIT if stop is None else max(0, stop - start)
        return await self._run(lambda: self._rows(_OLDEST_FIRST, tenant, id, -1, limit, start))

    async def page(
        self, tenant: str, id: str, after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row] | None:
        """Return a page of an entry's items, or None if the item ``after`` is missing."""

        def page() -> list[Row] | None:
            place = _LAST if newest_first else -1
            if after is not None:
                row = self._database.execute(_PLACE, (tenant, id, after)).fetchone()
                if row is None:
                    return None
                place = row[0]
            return self._rows(_NEWEST_FIRST if newest_first else _OLDEST_FIRST, tenant, id, place, limit, 0)

        return await self._run(page)

    async def item(self, tenant: str, id: str, item: str) -> Row | None:
        """Return one item of an entry."""

        def find() -> Row | None:
            place = self._database.execute(_PLACE, (tenant, id, item)).fetchone()
            if place is None:
                return None
            result = self._database.execute("SELECT id, data, counted FROM items WHERE place = ?", place)
            return Row(*result.fetchone())

        return await self._run(find)

    async def extend(self, tenant: str, id: str, rows: Sequence[Row]) -> bool:
        """Append items to an entry."""

        def extend() -> bool:
            number = self._number(tenant, id)
            if number is None:
                return False
            self._add(tenant, number, rows)
            return self._settle(tenant, id, number, 0, 0)

        return await self._change(extend)

    async def change(self, tenant: str, id: str, head: bytes) -> bool:
        """Replace the head of an entry: the encoded object with the entry's own fields."""

        def change() -> bool:
            number = self._number(tenant, id)
            if number is None:
                return False
            run = self._database.execute
            old_size = run("SELECT length(head) FROM kept WHERE number = ?", (number,)).fetchone()[0]
            run("UPDATE kept SET head = ? WHERE number = ?", (head, number))
            return self._settle(tenant, id, number, len(head) - old_size, 0)

        return await self._change(change)

    async def delete(self, tenant: str, id: str, item: str | None = None) -> bool:
        """Delete an entry or, with ``item``, only one of its items."""

        def delete() -> bool:
            if item is None:
                return self._forget(tenant, id)
            number = self._number(tenant, id)
            if number is None:
                return False
            rows = self._database.execute(
                "DELETE FROM items WHERE number = ? AND id = ? RETURNING length(data), counted",
                (number, item),
            ).fetchall()
            self._settle(tenant, id, number, -sum(row[0] for row in rows), -sum(row[1] for row in rows))
            return bool(rows)

        return await self._change(delete)

    async def weigh(self, tenant: str, items: Sequence[str]) -> dict[str, Weight]:
        """Return the weight (size, value count) of those ``items`` that are stored, keyed by item id."""
        result = await self._find("SELECT id, length(data), counted FROM items", tenant, items)
        return {id: Weight(size, values) for id, size, values in result}

    async def find(self, tenant: str, items: Sequence[str]) -> dict[str, bytes]:
        """Return the encoded data of those ``items`` that are stored, keyed by item id."""
        return dict(await self._find("SELECT id, data FROM items", tenant, items))

    async def _find(self, select: str, tenant: str, items: Sequence[str]) -> list[Any]:
        params = (tenant, json.dumps(items))
        return await self._run(lambda: self._database.execute(select + _ANYWHERE, params).fetchall())

    # -- methods that run in the store's thread

    def _rows(self, query: str, tenant: str, id: str, place: int, limit: int, start: int) -> list[Row]:
        return [Row(*row) for row in self._database.execute(query, (tenant, id, place, limit, start))]

    def _number(self, tenant: str, id: str) -> int | None:
        query = "SELECT number FROM kept WHERE owner = ? AND id = ?"
        row = self._database.execute(query, (tenant, id)).fetchone()
        return None if row is None else int(row[0])

    # -- methods that run in the store's thread, inside a transaction

    def _add(self, tenant: str, number: int | None, rows: Sequence[Row]) -> None:
        self._database.executemany(
            "INSERT INTO items (number, owner, id, data, counted) VALUES (?, ?, ?, ?, ?)",
            [(number, tenant, *row) for row in rows],
        )
        self._grow(tenant, number, sum(len(row.data) for row in rows), sum(row.values for row in rows))

    def _use(self, number: int | None) -> None:
        """Mark an entry as used."""
        self._database.execute("UPDATE clock SET used = used + 1")
        self._database.execute("UPDATE kept SET used = (SELECT used FROM clock) WHERE number = ?", (number,))

    def _settle(self, tenant: str, id: str, number: int | None, size: int, values: int) -> bool:
        """Mark an entry as used, and delete entries while the store is too large.

        :returns: whether the entry itself is still stored.
        """
        run = self._database.execute
        self._grow(tenant, number, size, values)
        self._use(number)
        if run("SELECT size FROM kept WHERE number = ?", (number,)).fetchone()[0] > self._room:
            self._forget(tenant, id)
        while run("SELECT size FROM clock").fetchone()[0] > self._room:
            largest = run("SELECT owner FROM owners ORDER BY size DESC, owner DESC LIMIT 1").fetchone()[0]
            self._forget(
                *run(
                    "SELECT owner, id FROM kept WHERE owner = ? ORDER BY used LIMIT 1", (largest,)
                ).fetchone()
            )
        return self._number(tenant, id) is not None

    def _grow(self, tenant: str, number: int | None, size: int, values: int) -> None:
        self._database.execute(
            "UPDATE kept SET size = size + ?, counted = counted + ? WHERE number = ?", (size, values, number)
        )
        self._count(tenant, size)

    def _count(self, tenant: str, size: int) -> None:
        self._database.execute(
            "INSERT INTO owners VALUES (?, ?) ON CONFLICT (owner) DO UPDATE SET size = size + excluded.size",
            (tenant, size),
        )
        self._database.execute("UPDATE clock SET size = size + ?", (size,))

    def _forget(self, tenant: str, id: str) -> bool:
        row = self._database.execute(
            "DELETE FROM kept WHERE owner = ? AND id = ? RETURNING size", (tenant, id)
        ).fetchone()
        if row is not None:
            self._count(tenant, -row[0])
        return row is not None


def _keep_private(path: str) -> None:
    """Create the file if it is missing, and deny other users access to it.

    :raises OSError: if the permissions cannot be changed.
    """
    for name in (path, f"{path}-wal", f"{path}-shm"):
        if name != path and not os.path.exists(name):  # noqa: PTH110 - the path is a string
            continue
        file = os.open(name, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            mode = os.fstat(file).st_mode
            if mode & _OTHERS and hasattr(os, "fchmod"):
                os.fchmod(file, mode & ~_OTHERS & 0o7777)
        finally:
            os.close(file)
