"""Temporary store file that workers share if the settings do not name a file.

The file is in a temporary folder, which is deleted when the gateway stops.  A killed
supervisor cannot delete its folder.  The next supervisor deletes this folder when it starts, if all workers
of the killed supervisor have exited.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

_PREFIX: Final = "unspool-kept-"
_FILE: Final = "kept.db"
_LOCK: Final = "lock"


@contextmanager
def shared_store() -> Iterator[str]:
    """Yield the path of the file, in a folder that stays locked until all forked processes have exited."""
    import fcntl

    _remove_abandoned()
    with TemporaryDirectory(prefix=_PREFIX) as folder, (Path(folder) / _LOCK).open("xb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield str(Path(folder) / _FILE)


def _remove_abandoned() -> None:
    """Remove folders of gateways that were killed."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        info = folder.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
            continue
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            # A folder that has a lock but no store file yet is still being created.
            if _is_free(lock) and (folder / _FILE).exists():
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _is_free(lock: int) -> bool:
    """Try to take the lock; return whether it was free."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
