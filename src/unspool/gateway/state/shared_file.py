"""The file in which workers keep what they share where no setting names one.

It is in a temporary folder, which goes when the gateway stops.  A supervisor that is
killed cannot remove it: the next one that starts does, once the workers are gone, too.
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
    """Give a path for the file; forked processes hold its folder until all of them are gone."""
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
            # One that has a lock and no file yet is being made.
            if _is_free(lock) and (folder / _FILE).exists():
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _is_free(lock: int) -> bool:
    """Take the lock, if nobody has it."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
