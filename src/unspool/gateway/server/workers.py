"""Several processes behind one port, and the one that looks after them.

The supervisor opens a listening socket for each worker, all at the same port
(``SO_REUSEPORT``: the system deals out connections), and keeps them: a worker that
dies ends its own streams and no others, and the one that is started in its place
finds the connections that came meanwhile.

- A worker that dies is started again; one that dies at once, later and later.
- ``SIGHUP``: workers with the settings as they are now are started beside the old
  ones; when all of them serve, the old ones are told to finish.  Where the new
  settings do not work, the old workers stay.
- ``SIGTERM``, ``SIGINT``: all workers finish their streams; whoever has not after
  ``shutdown_timeout`` is ended.
- A worker whose supervisor is gone finishes, too.

Workers tell the supervisor what they count, so that any of them can tell all of it.
What a dead worker counted stays counted.
"""

from __future__ import annotations

import logging
import os
import secrets
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

import msgspec

from ...errors import UnspoolError, UsageError
from ..settings import Settings
from ..state.shared_file import shared_store
from ..telemetry.logs import log, set_up
from ..telemetry.metrics import NOTHING, Snapshot, added

Work: TypeAlias = Callable[[Settings, socket.socket, socket.socket], int]
"""What a worker does with its settings, its listener and its line to the supervisor; its exit code."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_YOUNG: Final = 10.0
"""Seconds that a worker must have lived to be started again at once."""
_LONGEST: Final = 5.0
"""Seconds that a worker waits at most to be started again."""
_GRACE: Final = 5.0
"""Seconds beyond the shutdown timeout."""


class Worker:
    """A process that serves."""

    def __init__(self, slot: int, generation: int, pid: int, line: socket.socket) -> None:
        self.slot = slot
        self.generation = generation
        self.pid = pid
        self.line = line
        self.born = time.monotonic()
        self.serves = False
        self.finishing = False
        """It was told to."""
        self.counted: Snapshot = NOTHING
        self._data = b""

    def heard(self) -> Iterator[dict[str, Any]]:
        """What it says."""
        try:
            data = self.line.recv(1 << 16)
        except OSError:
            data = b""
        *lines, self._data = (self._data + data).split(b"\n")
        for one in lines:
            yield msgspec.json.decode(one)

    def tell(self, message: object) -> None:
        """Say something; if it does not listen, nothing."""
        with suppress(OSError):
            self.line.sendall(msgspec.json.encode(message) + b"\n")

    def signal(self, number: int) -> None:
        """Send a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Supervisor:
    """Starts workers, and looks after them."""

    def __init__(self, settings: Settings, listeners: list[socket.socket], work: Work) -> None:
        self.settings = settings
        self._old = settings
        """Those of the workers before."""
        self._listeners = listeners
        self._work = work
        self._workers: list[Worker] = []
        self._generation = 0
        self._due: list[tuple[float, int]] = []
        """Slots whose worker is to be started again, and when."""
        self._deaths = 0
        """Of workers that were young, in a row."""
        self._past: Snapshot = NOTHING
        """What workers counted that are dead."""
        self._stopping: float | None = None
        """Since when everything ends."""
        self._code = 0
        self._selector = selectors.DefaultSelector()

    def run(self, reload: Callable[[], Settings] | None) -> int:
        """Look after workers until all is over; the exit code."""
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            far.setblocking(False)
            before = signal.set_wakeup_fd(far.fileno())
            handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
            self._selector.register(near, selectors.EVENT_READ)
            try:
                self._start(0)
                while self._workers or self._due:
                    self._turn(near, reload)
            finally:
                for worker in self._workers:
                    worker.signal(signal.SIGKILL)
                signal.set_wakeup_fd(before)
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        return self._code

    def _turn(self, wakened: socket.socket, reload: Callable[[], Settings] | None) -> None:
        now = time.monotonic()
        due = min((when for when, _ in self._due), default=now + 1)
        for key, _ in self._selector.select(max(0.0, min(due - now, 1.0))):
            if isinstance(key.data, Worker):
                self._listen(key.data)
                continue
            for number in wakened.recv(1024):
                if number in (signal.SIGTERM, signal.SIGINT):
                    self._finish()
                elif number == signal.SIGHUP and self._stopping is None and reload is not None:
                    self._renew(reload)
        self._bury()
        self._revive()
        late = self.settings.shutdown_timeout + _GRACE
        if self._stopping is not None and time.monotonic() > self._stopping + late:
            for worker in self._workers:
                worker.signal(signal.SIGKILL)

    # -- workers come

    def _start(self, slot: int) -> None:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            self._be_a_worker(slot, ours, theirs)
        theirs.close()
        ours.settimeout(1.0)
        worker = Worker(slot, self._generation, pid, ours)
        self._workers.append(worker)
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _be_a_worker(self, slot: int, ours: socket.socket, line: socket.socket) -> None:
        """The life of a child; it does not come back from here."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            # An interrupt from the terminal goes to all; it is for the supervisor to say what follows.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._selector.close()
            # Whoever holds the end of a line keeps it open: the others could not see that we are gone.
            for one in (ours, *(worker.line for worker in self._workers)):
                one.close()
            for other, listener in enumerate(self._listeners):
                if other != slot:
                    listener.close()
            code = self._work(self.settings, self._listeners[slot], line)
        except UnspoolError as error:
            log(logging.ERROR, "worker cannot start", reason=str(error))
            code = 2
        except BaseException:
            logging.getLogger("unspool.gateway").exception("worker failed")
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _listen(self, worker: Worker) -> None:
        for message in worker.heard():
            if "counted" in message:
                worker.counted = message["counted"]
            if "serves" in message:
                worker.serves = True
                self._deaths = 0
                log(logging.INFO, "worker serves", worker=worker.slot, pid=worker.pid)
                self._follow()
            if "ask" in message:
                others = [one.counted for one in self._workers if one is not worker]
                worker.tell({"answer": message["ask"], "counted": [self._past, *others]})

    def _follow(self) -> None:
        """When the first of a generation serves, the others may come; when all do, the old ones may go."""
        young = [worker for worker in self._workers if worker.generation == self._generation]
        if not any(worker.serves for worker in young) or self._stopping is not None:
            return
        taken = {worker.slot for worker in young} | {slot for _, slot in self._due}
        for slot in range(len(self._listeners)):
            if slot not in taken:
                self._start(slot)
        if len([worker for worker in young if worker.serves]) == len(self._listeners):
            for worker in self._workers:
                if worker.generation != self._generation and not worker.finishing:
                    worker.finishing = True
                    worker.signal(signal.SIGTERM)

    # -- workers go

    def _bury(self) -> None:
        for worker in list(self._workers):
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if pid == 0:
                continue
            self._listen(worker)  # what it said last
            self._selector.unregister(worker.line)
            worker.line.close()
            self._workers.remove(worker)
            self._past = added(self._past, worker.counted)
            if self._stopping is None and not worker.finishing:
                self._mourn(worker, killed=os.WIFSIGNALED(status))

    def _mourn(self, worker: Worker, *, killed: bool) -> None:
        """A worker died that should not have; if it was killed, that says nothing of the settings."""
        log(logging.ERROR, "worker died", worker=worker.slot, pid=worker.pid)
        alive = [one for one in self._workers if one.generation == self._generation]
        if worker.generation != self._generation:
            return  # its successor is on the way
        if not worker.serves and not killed and not alive and not self._due:
            if not self._workers:
                self._code = 2
                self._finish()
            else:
                # The settings are new and do not work: go on with the workers that have the old ones.
                self._generation -= 1
                self.settings = self._old
                log(logging.ERROR, "the new settings do not work; the old workers stay")
            return
        young = time.monotonic() - worker.born < _YOUNG
        wait = min(_LONGEST, 0.1 * 2**self._deaths) if young and self._deaths else 0.0
        self._deaths = self._deaths + 1 if young else 0
        self._due.append((time.monotonic() + wait, worker.slot))

    def _revive(self) -> None:
        now = time.monotonic()
        for when, slot in list(self._due):
            if when <= now:
                self._due.remove((when, slot))
                self._start(slot)

    def _renew(self, reload: Callable[[], Settings]) -> None:
        """Start workers with the settings as they are now."""
        if any(worker.generation == self._generation and not worker.serves for worker in self._workers):
            log(logging.WARNING, "not restarted: workers are being started already")
            return
        try:
            settings = reload()
        except UnspoolError as error:
            log(logging.ERROR, "not restarted", reason=str(error))
            return
        keys: tuple[str, ...] = ("host", "port", "workers", "store")
        if not settings.seal_key:
            keys = (*keys, "seal_key")
        self._old = self.settings
        self.settings = replace(settings, **{key: getattr(self.settings, key) for key in keys})
        set_up(self.settings)
        log(logging.INFO, "restarting", settings=self.settings.shown())
        self._generation += 1
        self._due.clear()
        self._start(0)

    def _finish(self) -> None:
        if self._stopping is None:
            self._stopping = time.monotonic()
            self._due.clear()
        for worker in self._workers:
            worker.signal(signal.SIGTERM)


def supervise(settings: Settings, work: Work, reload: Callable[[], Settings] | None = None) -> int:
    """Serve with several processes until told to stop; the result is the exit code.

    :param reload: the settings as they are now, for ``SIGHUP``.
    """
    if not hasattr(os, "fork") or not hasattr(socket, "SO_REUSEPORT"):
        raise UsageError("workers: this system cannot share a port; run one worker, or several gateways")
    if any(one.upstream == "embedded" for one in settings.each()):
        raise UsageError(
            "workers: every worker would load the embedded model again; run llama.cpp's server, and set url"
        )
    from .run import address

    with ExitStack() as stack:
        listeners = _listeners(settings)
        for listener in listeners:
            stack.enter_context(listener)
        if not settings.store:
            # They share what is kept, and it is gone when they are.
            settings = replace(settings, store=stack.enter_context(shared_store()))
        if not settings.seal_key:
            # What one of them has sealed another must open.
            settings = replace(settings, seal_key=secrets.token_hex(32))
        log(
            logging.INFO,
            "listening",
            url=address(listeners[0]),
            page=f"{address(listeners[0])}/" if settings.page else "off",
            workers=settings.workers,
            settings=settings.shown(),
        )
        return Supervisor(settings, listeners, work).run(reload)


def _listeners(settings: Settings) -> list[socket.socket]:
    """A listening socket for each worker, all at one port."""
    from .run import bind, set_limits

    with bind(settings) as found:  # tells if the port is taken, which sockets that share would not
        name = found.getsockname()
    out: list[socket.socket] = []
    for _ in range(settings.workers):
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        set_limits(listener)
        listener.bind(name)
        listener.listen(2048)
        out.append(listener)
    return out
