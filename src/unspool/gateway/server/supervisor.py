"""Several worker processes on one port, and the supervisor that starts and restarts them.

The supervisor opens one listening socket per worker, all on the same port, and the system
distributes connections among these sockets (``SO_REUSEPORT``).  The supervisor keeps the sockets open.  If a
worker dies, only its streams are lost, and its replacement accepts the connections that have arrived in the
meantime.

- A worker that dies is restarted.  If it dies soon after its start, the restart is delayed, and
  the delay doubles with each such death in a row.
- On ``SIGHUP``, the supervisor reads the settings again and starts a new generation of workers
  beside the old one.  When all new workers accept requests, the old workers stop.  If the new
  settings do not work, the old workers continue.
- On ``SIGTERM`` or ``SIGINT``, all workers finish their streams and stop.  A worker that takes
  longer than ``shutdown_timeout`` is killed.
- If the supervisor dies, its workers finish their streams and stop.

Workers report their metrics to the supervisor, so every worker can return the metrics of all
workers (see ``worker_link.py``).  The counters of workers that have died are included.
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
from ..settings import Settings, keep_shared_settings
from ..state.temporary_store_file import shared_store
from ..telemetry.logs import LOGGER, log, set_up
from ..telemetry.metrics import EMPTY, Snapshot, add_counters
from .sockets import Listeners, bind_shared, metrics_url, url_of
from .tls import check_certificate

RunWorker: TypeAlias = Callable[[Settings, Listeners, socket.socket], int]
"""Function that runs a worker with listening sockets and a supervisor link, and returns the exit code."""

OnListening: TypeAlias = Callable[[str], None]
"""Function that is called with the gateway's URL."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_YOUNG: Final = 10.0
"""Seconds that a worker must have run to be restarted without a delay."""
_MAX_DELAY: Final = 5.0
"""Maximum delay before a restart, in seconds."""
_GRACE: Final = 5.0
"""Seconds to wait after the shutdown timeout before the remaining workers are killed."""


class Worker:
    """The supervisor's view of a worker process."""

    def __init__(self, slot: int, generation: int, pid: int, link: socket.socket) -> None:
        self.slot = slot
        """Index of the worker's listening sockets."""
        self.generation = generation
        """Number of times that the settings had been reloaded before the worker was started."""
        self.pid = pid
        self.link = link
        self.started_at = time.monotonic()
        self.serves = False
        """True once the worker has reported that it accepts requests."""
        self.stopping = False
        """True once the supervisor has asked the worker to stop."""
        self.counted: Snapshot = EMPTY
        """Metrics from the worker's last report."""
        self._data = b""

    def receive(self) -> Iterator[dict[str, Any]]:
        """Yield the complete messages that have arrived."""
        try:
            data = self.link.recv(1 << 16)
        except OSError:
            data = b""
        *lines, self._data = (self._data + data).split(b"\n")
        for line in lines:
            yield msgspec.json.decode(line)

    def send(self, message: object) -> None:
        """Send a message to the worker; do nothing if the connection is closed."""
        with suppress(OSError):
            self.link.sendall(msgspec.json.encode(message) + b"\n")

    def signal(self, number: int) -> None:
        """Send a signal to the worker; do nothing if the process has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Supervisor:
    """Supervisor that starts, restarts and stops workers."""

    def __init__(self, settings: Settings, listeners: list[Listeners], run_worker: RunWorker) -> None:
        self.settings = settings
        """The settings of the current generation."""
        self._old_settings = settings
        """The settings of the previous generation."""
        self._listeners = listeners
        self._run_worker = run_worker
        self._workers: list[Worker] = []
        self._generation = 0
        self._due: list[tuple[float, int]] = []
        """Delayed restarts, as pairs of the time and the index of the worker's listening socket."""
        self._young_deaths = 0
        """Number of consecutive workers that have died soon after their start."""
        self._past: Snapshot = EMPTY
        """Sum of the counters of all workers that have died."""
        self._stopping_since: float | None = None
        self._exit_code = 0
        self._selector = selectors.DefaultSelector()

    def run(self, reload: Callable[[], Settings] | None) -> int:
        """Supervise until all workers have stopped; return the exit code."""
        # Signals wake the selector through a pair of sockets (see signal.set_wakeup_fd).
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            far.setblocking(False)
            previous_fd = signal.set_wakeup_fd(far.fileno())
            handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
            self._selector.register(near, selectors.EVENT_READ)
            try:
                self._start(0)  # the other workers are started when the first one accepts requests
                while self._workers or self._due:
                    self._step(near, reload)
            finally:
                for worker in self._workers:
                    worker.signal(signal.SIGKILL)
                signal.set_wakeup_fd(previous_fd)
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        return self._exit_code

    def _step(self, signals: socket.socket, reload: Callable[[], Settings] | None) -> None:
        """Wait for the next event, then handle all pending events."""
        now = time.monotonic()
        due = min((when for when, _ in self._due), default=now + 1)
        for key, _ in self._selector.select(max(0.0, min(due - now, 1.0))):
            if isinstance(key.data, Worker):
                self._handle_messages(key.data)
                continue
            for number in signals.recv(1024):
                if number in (signal.SIGTERM, signal.SIGINT):
                    self._stop()
                elif number == signal.SIGHUP and self._stopping_since is None and reload is not None:
                    self._start_generation(reload)
        self._reap()
        self._restart_due()
        limit = self.settings.shutdown_timeout + _GRACE
        if self._stopping_since is not None and time.monotonic() > self._stopping_since + limit:
            for worker in self._workers:
                worker.signal(signal.SIGKILL)

    # -- starting workers

    def _start(self, slot: int) -> None:
        """Fork a worker."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            self._become_worker(slot, ours, theirs)
        theirs.close()
        ours.settimeout(1.0)
        worker = Worker(slot, self._generation, pid, ours)
        self._workers.append(worker)
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _become_worker(self, slot: int, ours: socket.socket, link: socket.socket) -> None:
        """Run the worker in the child process, then exit the process; this method never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            # Ctrl-C in a terminal sends SIGINT to all processes, but only the supervisor must act on it.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._selector.close()
            # This worker has inherited the supervisor's end of every link.  If it kept these ends open, the
            # links would stay open after the supervisor's death, and the other workers would not notice it.
            for one in (ours, *(worker.link for worker in self._workers)):
                one.close()
            for other, listener in enumerate(self._listeners):
                if other != slot:
                    listener.close()
            code = self._run_worker(self.settings, self._listeners[slot], link)
        except UnspoolError as error:
            log(logging.ERROR, "worker_start_failed", reason=str(error))
            code = 2
        except BaseException:  # noqa: BLE001 - the child process must exit here
            LOGGER.exception("worker_failed")
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _handle_messages(self, worker: Worker) -> None:
        for message in worker.receive():
            if "counted" in message:
                worker.counted = message["counted"]
            if "serves" in message:
                worker.serves = True
                self._young_deaths = 0
                log(logging.INFO, "worker_serves", worker=worker.slot, pid=worker.pid)
                self._advance_generation()
            if "ask" in message:
                others = [one.counted for one in self._workers if one is not worker]
                worker.send({"answer": message["ask"], "counted": [self._past, *others]})

    def _advance_generation(self) -> None:
        """Start the other new workers, or stop the old workers, if it is time to do so.

        The other new workers are started when the first one accepts requests.  The old workers are stopped
        when all new workers accept requests.
        """
        current = [worker for worker in self._workers if worker.generation == self._generation]
        if not any(worker.serves for worker in current) or self._stopping_since is not None:
            return
        taken = {worker.slot for worker in current} | {slot for _, slot in self._due}
        for slot in range(len(self._listeners)):
            if slot not in taken:
                self._start(slot)
        if len([worker for worker in current if worker.serves]) == len(self._listeners):
            for worker in self._workers:
                if worker.generation != self._generation and not worker.stopping:
                    worker.stopping = True
                    worker.signal(signal.SIGTERM)

    # -- stopping and restarting workers

    def _reap(self) -> None:
        """Remove workers that have exited."""
        for worker in list(self._workers):
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if pid == 0:
                continue
            self._handle_messages(worker)  # read the worker's last report
            self._selector.unregister(worker.link)
            worker.link.close()
            self._workers.remove(worker)
            self._past = add_counters(self._past, worker.counted)
            if self._stopping_since is None and not worker.stopping:
                self._on_crash(worker, killed=os.WIFSIGNALED(status))

    def _on_crash(self, worker: Worker, *, killed: bool) -> None:
        """Restart a worker, or go back to the old settings if the new ones do not work.

        :param killed: True if a signal killed the worker; the new settings are then not the cause.
        """
        log(logging.ERROR, "worker_died", worker=worker.slot, pid=worker.pid)
        current = [one for one in self._workers if one.generation == self._generation]
        if worker.generation != self._generation:
            return  # the worker belongs to the old generation, which is about to be replaced anyway
        if not worker.serves and not killed and not current and not self._due:
            if not self._workers:
                self._exit_code = 2
                self._stop()
            else:
                self._generation -= 1
                self.settings = self._old_settings
                log(
                    logging.ERROR,
                    "reload_failed",
                    reason="the new settings do not work; the old workers continue",
                )
            return
        young = time.monotonic() - worker.started_at < _YOUNG
        delay = min(_MAX_DELAY, 0.1 * 2**self._young_deaths) if young and self._young_deaths else 0.0
        self._young_deaths = self._young_deaths + 1 if young else 0
        self._due.append((time.monotonic() + delay, worker.slot))

    def _restart_due(self) -> None:
        """Start the workers whose restart is due."""
        now = time.monotonic()
        for when, slot in list(self._due):
            if when <= now:
                self._due.remove((when, slot))
                self._start(slot)

    def _start_generation(self, reload: Callable[[], Settings]) -> None:
        """Read the settings again, and start the first worker of a new generation."""
        if any(worker.generation == self._generation and not worker.serves for worker in self._workers):
            log(logging.WARNING, "reload_ignored", reason="other workers are still starting")
            return
        try:
            settings = keep_shared_settings(reload(), self.settings)
            check_certificate(settings)
        except UnspoolError as error:
            log(logging.ERROR, "reload_failed", reason=str(error))
            return
        self._old_settings, self.settings = self.settings, settings
        set_up(self.settings)
        log(logging.INFO, "reloading", settings=self.settings.shown())
        self._generation += 1
        self._due.clear()
        # Start only one worker, which shows whether the new settings work.
        self._start(0)

    def _stop(self) -> None:
        """Ask all workers to stop."""
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()
            self._due.clear()
        for worker in self._workers:
            worker.signal(signal.SIGTERM)


def supervise(
    settings: Settings,
    run_worker: RunWorker,
    reload: Callable[[], Settings] | None = None,
    on_listening: OnListening = lambda _: None,
) -> int:
    """Serve with several processes until a signal stops them; return the exit code.

    :param reload: function that reads the settings again, for ``SIGHUP``.
    :param on_listening: called with the gateway's URL as soon as clients can connect.
    """
    if not hasattr(os, "fork") or not hasattr(socket, "SO_REUSEPORT"):
        raise UsageError(
            "workers: processes cannot share a port on this system; set workers to 1, or run several gateways"
        )
    if any(one.upstream == "embedded" for one in settings.each()):
        raise UsageError(
            "workers: every worker would load its own copy of the embedded model; "
            "run llama.cpp's server instead, and set url"
        )
    check_certificate(settings)
    with ExitStack() as stack:
        listeners = bind_shared(settings)
        for listener in listeners:
            stack.enter_context(listener)
        if not settings.store:
            # Workers cannot share a store in memory, so use a temporary file, which is deleted at the end.
            settings = replace(settings, store=stack.enter_context(shared_store()))
        if not settings.seal_key:
            # Every worker must be able to decrypt the reasoning that another worker has encrypted.
            settings = replace(settings, seal_key=secrets.token_hex(32))
        url = url_of(listeners[0].clients, settings.scheme)
        on_listening(url)
        log(
            logging.INFO,
            "listening",
            url=url,
            page=f"{url}/" if settings.serves_page else "off",
            metrics=metrics_url(listeners[0]),
            workers=settings.workers,
            settings=settings.shown(),
        )
        return Supervisor(settings, listeners, run_worker).run(reload)
