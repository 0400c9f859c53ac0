"""The loop over parts: hands out what is not done yet, and collects what is.

Who does a part is for the workers to say: this process, others on this
machine, or a cluster.  There are never more parts under way than workers have
hands, so that memory does not grow with the input.
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
from ._input_files import Part, cut
from ._job import (
    DONE,
    SUMMARY,
    Counts,
    Job,
    Record,
    begin,
    do_part,
    remove_temporary,
)
from ._output_files import regular_file, write_json


class Workers(Protocol):
    """Those who do parts."""

    hands: int
    """How many parts they can have at a time."""

    def start(self, job: Job, part: Part) -> Any:
        """Hand out a part; the result stands for it, and can be hashed."""

    def finished(self, running: list[Any]) -> Any:
        """Wait until one of them is done."""

    def record(self, handle: Any) -> Record:
        """Its record; raises what went wrong."""

    def close(self) -> None:
        """Wait for nobody."""


@dataclass
class Outcome:
    """How far the work has come."""

    counts: Counts = field(default_factory=Counts)
    parts: int = 0
    found: int = 0
    """Parts that an earlier run had done."""
    weight: int = 0
    """Bytes of the inputs that are done."""
    memory: int = 0
    """The most that a worker had in memory."""
    seconds: float = 0
    """Of CPU, that parts took."""
    failed: dict[str, str] = field(default_factory=dict)
    """Parts that could not be done, and inputs that could not be read to the end, and why."""

    def add(self, part: Part, record: Record) -> None:
        """A part is done."""
        self.parts += 1
        self.weight += part.weight
        self.memory = max(self.memory, record["memory"])
        self.seconds += record["seconds"]
        self.counts.merge(record)


def drive(job: Job, workers: Workers, shown: Callable[[Outcome], None]) -> Outcome:
    """Do every part that is not done.

    :param shown: is called whenever there is progress to show.
    """
    outcome = Outcome()
    running: dict[Any, Part] = {}
    with _alone(Path(job.out)):
        begin(job)

        def collect() -> None:
            handle = workers.finished(list(running))
            part = running.pop(handle)
            try:
                outcome.add(part, workers.record(handle))
            except Exception as error:  # noqa: BLE001 - the other parts are worth having, and this is told
                outcome.failed[part.name] = _first_line(error)
            shown(outcome)

        for part in _parts(job, outcome):
            record = job.done(part)
            if record is not None:
                outcome.found += 1
                outcome.add(part, record)
                shown(outcome)
                continue
            while len(running) >= workers.hands:
                collect()
            running[workers.start(job, part)] = part
        while running:
            collect()
        remove_temporary(job)
        if not outcome.failed:
            write_json(Path(job.out) / SUMMARY, outcome.counts.stable())
    return outcome


def _parts(job: Job, outcome: Outcome) -> Iterator[Part]:
    """The parts of all inputs; of an input that cannot be read to the end those before."""
    for number, one in enumerate(job.inputs):
        try:
            yield from cut(number, one, job.options.part_size)
        except (OSError, ArrowException) as error:
            outcome.failed[one.path] = _first_line(error)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Two runs that write to one directory would take each other's files away."""
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
            raise UsageError(f"another run is writing to {out}") from error
        except OSError:  # a file system without locks
            pass
        yield


# -- workers


class Here:
    """The process itself, one part after the other."""

    hands = 1

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
    """Processes of this machine, which end when this one does, however it ends."""

    def __init__(self, jobs: int) -> None:
        self.hands = jobs + 1  # so that nobody waits while the next part is cut
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who is asked to stop is the parent
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait_for([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
