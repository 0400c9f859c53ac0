"""Responses and conversations in a file: a restart finds them, and so does another worker.

One connection in one thread: the loop never waits for a disk.  The journal is a
write-ahead log, so that readers of other processes do not wait for a writer, and
everything that reads before it writes is one transaction.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from .._core.values.errors import UsageError
from .encoding import encoded
from .failure import Failure
from .store import Given, Item, Kept, decoded, encoded_items

Found = TypeVar("Found")

_VERSION: Final = 1
_BUSY: Final = 10.0
"""Seconds to wait for another process that writes."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS kept (
    number INTEGER PRIMARY KEY, owner TEXT NOT NULL, id TEXT NOT NULL, head BLOB NOT NULL,
    size INTEGER NOT NULL, used INTEGER NOT NULL, UNIQUE (owner, id)
);
CREATE INDEX IF NOT EXISTS by_use ON kept (used);
CREATE TABLE IF NOT EXISTS items (
    place INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL REFERENCES kept ON DELETE CASCADE,
    owner TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS by_number ON items (number);
CREATE INDEX IF NOT EXISTS by_id ON items (owner, id);
CREATE TABLE IF NOT EXISTS clock (one INTEGER PRIMARY KEY CHECK (one = 1), size INTEGER, used INTEGER);
INSERT OR IGNORE INTO clock VALUES (1, 0, 0);
"""
"""``clock``: the size of everything, and how often anything was used."""


class SqliteStore:
    """Keeps things in a file."""

    def __init__(self, path: str, room: int) -> None:
        self._path = path
        self._room = room
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="unspool-store")
        self._open: sqlite3.Connection | None = None

    @property
    def _database(self) -> sqlite3.Connection:
        if self._open is None:
            self._open = self._connected()
        return self._open

    def _connected(self) -> sqlite3.Connection:
        try:
            # What people wrote is in it: for nobody else to read.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            database = sqlite3.connect(self._path, timeout=_BUSY, isolation_level=None)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA foreign_keys = ON")
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _VERSION):
                raise UsageError(f"{self._path} is of another version of unspool: set store to another file")
            database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"store={self._path!r} cannot be used: {error}") from error
        return database

    async def start(self) -> None:
        """Open the file."""
        await self._run(lambda: self._database)

    async def stop(self) -> None:
        """Close it."""
        await self._run(self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    async def _run(self, work: Callable[[], Found]) -> Found:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise Failure("internal", f"the store fails: {error}", code="store_failed") from error

    def _changing(self, work: Callable[[], Found]) -> Callable[[], Found]:
        """The work as one transaction."""

        def whole() -> Found:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                found = work()
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
            return found

        return whole

    async def put(self, owner: str, id: str, head: Given, items: Sequence[Given]) -> bool:
        """Keep this."""

        def put() -> bool:
            data, listed = encoded(head), encoded_items(items)
            self._forget(owner, id)
            number = self._database.execute(
                "INSERT INTO kept (owner, id, head, size, used) VALUES (?, ?, ?, 0, 0)", (owner, id, data)
            ).lastrowid
            self._add(owner, number, listed)
            return self._settle(owner, id, number, len(data))

        return await self._run(self._changing(put))

    async def get(self, owner: str, id: str) -> Kept | None:
        """What is kept."""

        def get() -> Kept | None:
            found = self._find(owner, id)
            if found is None:
                return None
            self._settle(owner, id, found[0], 0)
            query = "SELECT data FROM items WHERE number = ? ORDER BY place"
            items = [row[0] for row in self._database.execute(query, found[:1])]
            return Kept(decoded(found[1]), list(map(decoded, items)), len(found[1]) + sum(map(len, items)))

        return await self._run(self._changing(get))

    async def extend(self, owner: str, id: str, items: Sequence[Given]) -> bool:
        """Add items."""

        def extend() -> bool:
            listed = encoded_items(items)
            found = self._find(owner, id)
            if found is None:
                return False
            self._add(owner, found[0], listed)
            return self._settle(owner, id, found[0], 0)

        return await self._run(self._changing(extend))

    async def change(self, owner: str, id: str, head: Given) -> bool:
        """Give it another head."""
        data = encoded(head)

        def change() -> bool:
            found = self._find(owner, id)
            if found is None:
                return False
            self._database.execute("UPDATE kept SET head = ? WHERE number = ?", (data, found[0]))
            return self._settle(owner, id, found[0], len(data) - len(found[1]))

        return await self._run(self._changing(change))

    async def delete(self, owner: str, id: str, item: str | None = None) -> bool:
        """Forget it, or one item of it."""

        def delete() -> bool:
            if item is None:
                return self._forget(owner, id)
            found = self._find(owner, id)
            if found is None:
                return False
            rows = self._database.execute(
                "DELETE FROM items WHERE number = ? AND id = ? RETURNING length(data)", (found[0], item)
            ).fetchall()
            self._settle(owner, id, found[0], -sum(row[0] for row in rows))
            return bool(rows)

        return await self._run(self._changing(delete))

    async def item(self, owner: str, id: str) -> Item | None:
        """The item of that id."""
        query = "SELECT data FROM items WHERE owner = ? AND id = ? ORDER BY place DESC LIMIT 1"

        def item() -> Item | None:
            row = self._database.execute(query, (owner, id)).fetchone()
            return None if row is None else decoded(row[0])

        return await self._run(item)

    # -- in the thread, inside a transaction

    def _find(self, owner: str, id: str) -> tuple[int, bytes] | None:
        found: tuple[int, bytes] | None = self._database.execute(
            "SELECT number, head FROM kept WHERE owner = ? AND id = ?", (owner, id)
        ).fetchone()
        return found

    def _add(self, owner: str, number: int | None, items: Sequence[tuple[str, bytes]]) -> None:
        self._database.executemany(
            "INSERT INTO items (number, owner, id, data) VALUES (?, ?, ?, ?)",
            [(number, owner, id, data) for id, data in items],
        )
        self._grow(number, sum(len(data) for _, data in items))

    def _settle(self, owner: str, id: str, number: int | None, grown: int) -> bool:
        """Make it the youngest, and room for it; whether that was possible."""
        run = self._database.execute
        self._grow(number, grown)
        run("UPDATE clock SET used = used + 1")
        run("UPDATE kept SET used = (SELECT used FROM clock) WHERE number = ?", (number,))
        if run("SELECT size FROM kept WHERE number = ?", (number,)).fetchone()[0] > self._room:
            self._forget(owner, id)
            return False
        while run("SELECT size FROM clock").fetchone()[0] > self._room:
            self._forget(*run("SELECT owner, id FROM kept ORDER BY used LIMIT 1").fetchone())
        return True

    def _grow(self, number: int | None, grown: int) -> None:
        self._database.execute("UPDATE kept SET size = size + ? WHERE number = ?", (grown, number))
        self._database.execute("UPDATE clock SET size = size + ?", (grown,))

    def _forget(self, owner: str, id: str) -> bool:
        row = self._database.execute(
            "DELETE FROM kept WHERE owner = ? AND id = ? RETURNING size", (owner, id)
        ).fetchone()
        if row is not None:
            self._database.execute("UPDATE clock SET size = size - ?", row)
        return row is not None
