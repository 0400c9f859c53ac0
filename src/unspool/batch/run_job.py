"""The main loop of a job, which distributes parts to workers and collects the records.

Parts are processed in this process, in other processes or on a cluster.  The capacity of the workers limits
the number of parts in progress, so memory use does not grow with the input.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, Protocol

from pyarrow import ArrowException

from ..errors import UsageError
from ._output_files import regular_file, write_json
from .input_files import Part, cut
from .job import (
    DONE,
    SUMMARY,
    Counts,
    Job,
    Record,
    do_part,
    prepare_output,
    remove_temporary,
)


class Workers(Protocol):
    """Interface of the workers that process parts."""

    capacity: int
    """Maximum number of parts in progress."""

    def start(self, job: Job, part: Part) -> Any:
        """Start processing a part; return a hashable handle for this part."""

    def finished(self, running: list[Any]) -> Any:
        """Wait until one of the running parts is done; return its handle."""

    def record(self, handle: Any) -> Record:
        """Return the record of a finished part, or raise the error that stopped its processing."""

    def close(self) -> None:
        """Stop the workers, without waiting for parts in progress."""


@dataclass
class Outcome:
    """Progress and result of a run."""

    counts: Counts = field(default_factory=Counts)
    parts: int = 0
    resumed: int = 0
    """Number of parts that were done in an earlier run."""
    weight: int = 0
    """Total size of the parts that are done, in bytes."""
    memory: int = 0
    """Peak memory use of a single worker, in bytes."""
    seconds: float = 0
    """CPU time of all parts together, in seconds."""
    failed: dict[str, str] = field(default_factory=dict)
    """Error messages of failed parts, keyed by part name.

    If an input file could not be read to its end, the key is the path of the file.
    """

    def add(self, part: Part, record: Record) -> None:
        """Add the record of a finished part."""
        self.parts += 1
        self.weight += part.weight
        self.memory = max(self.memory, record["memory"])
        self.seconds += record["seconds"]
        self.counts.merge(record)


def run_job(job: Job, workers: Workers, on_progress: Callable[[Outcome], None]) -> Outcome:
    """Process every part that is not done yet, and return the outcome.

    :param on_progress: a function that is called after each part.
    """
    outcome = Outcome()
    running: dict[Any, Part] = {}
    with _output_lock(Path(job.out)):
        prepare_output(job)

        def collect() -> None:
            handle = workers.finished(list(running))
            part = running.pop(handle)
            try:
                outcome.add(part, workers.record(handle))
            except Exception as error:  # noqa: BLE001 - an error of one part must not stop the others
                outcome.failed[part.name] = _first_line(error)
            on_progress(outcome)

        for part in _parts(job, outcome):
            record = job.done(part)
            if record is not None:
                outcome.resumed += 1
                outcome.add(part, record)
                on_progress(outcome)
                continue
            while len(running) >= workers.capacity:
                collect()
            running[workers.start(job, part)] = part
        while running:
            collect()
        remove_temporary(job)
        if not outcome.failed:
            write_json(Path(job.out) / SUMMARY, outcome.counts.stable())
    return outcome


def _parts(job: Job, outcome: Outcome) -> Iterator[Part]:
    """Yield the parts of all inputs; if an input cannot be read, store the error and skip the input."""
    for number, one in enumerate(job.inputs):
        try:
            yield from cut(number, one, job.options.part_size)
        except (OSError, ArrowException) as error:
            outcome.failed[one.path] = _first_line(error)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


@contextmanager
def _output_lock(out: Path) -> Iterator[None]:
    """Lock the output directory, because two runs in one directory would remove each other's files."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    (out / DONE).mkdir(parents=True, exist_ok=True)
    try:
        stack = ExitStack()
        file = stack.enter_context(regular_file(out / DONE / "lock", writable=True))
    except OSError as error:
        raise UsageError(
            f"{out / DONE / 'lock'} cannot be used as a lock: {error.strerror}. Remove it, or choose "
            "another directory"
        ) from error
    with stack:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another run is writing to {out}: wait for it, or choose another directory"
            ) from error
        except OSError:  # the file system does not support locks
            pass
        yield


# -- workers


class InProcess:
    """Worker that processes parts in this process, one after another."""

    capacity = 1

    def __init__(self) -> None:
        self._record: Record | Exception = {}

    def start(self, job: Job, part: Part) -> Part:
        try:
            self._record = do_part(job, part)
        except Exception as error:  # noqa: BLE001 - `record` raises it
            self._record = error
        return part

    def finished(self, running: list[Part]) -> Part:
        return running[0]

    def record(self, _: Part) -> Record:
        if isinstance(self._record, Exception):
            raise self._record
        return self._record

    def close(self) -> None: ...


class Processes:
    """Worker processes on this machine; they exit when the main process ends, even if it is killed."""

    def __init__(self, jobs: int) -> None:
        self.capacity = jobs + 1  # one more part than processes, so that no process has to wait for a part
        self._pool = ProcessPoolExecutor(
            jobs, multiprocessing.get_context("spawn"), initializer=_end_with_parent
        )

    def start(self, job: Job, part: Part) -> Future[Record]:
        return self._pool.submit(do_part, job, part)

    def finished(self, running: list[Future[Record]]) -> Future[Record]:
        return next(iter(wait(running, return_when=FIRST_COMPLETED).done))

    def record(self, handle: Future[Record]) -> Record:
        return handle.result()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait_for([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
