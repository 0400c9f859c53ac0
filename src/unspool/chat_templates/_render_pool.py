"""The processes that render templates, from the outside.

A template is a program, and comes with a download or with a request.  So it
runs in a child process (``_render_process.py``) that may be stopped at any time, which no
thread of ours can be.  The children are kept, few, and started when they are
needed.  Whoever renders waits its turn, first come, first served.  The seconds
of a rendering are those that it works; who waits for it, for its turn or because
the machine is busy, waits at most three times as long, and a second.

Where no processes can be had, templates run in the caller's thread, with the
bounds of ``environment.py`` alone: they are looked at when a template writes,
calls or multiplies.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from ..errors import UnspoolError
from ._jinja_environment import too_big, too_slow
from ._render_job import HEADER, KINDS, READY, Answer, Job, Workshop

_PACKAGE: Final = __package__ or ""
_BOOT: Final = f"""
import json, sys, types
sys.path[:], packages = json.loads(sys.argv[1])
for name, path in packages.items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = path
from {_PACKAGE}._render_process import main
main()
"""
"""Our packages are named, not loaded: rendering needs three of their files."""
_KEPT: Final = (
    "TZ",
    "TZDIR",
    "PYTHONHOME",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
)
"""What a child sees of the environment: what it takes to start, and to know the date; no keys."""
_TO_START: Final = 60.0
_PATIENCE: Final = 3.0
_GRACE: Final = 1.0
_COURTEOUS: Final = 10
"""Priority, of 19, of those who let others go first."""
_ROOM: Final = 1 << 16
"""Bytes of an answer that is no rendering."""


class NoRenderer(UnspoolError):
    """No process is there to render a template: all are busy, or none can be started.  Try again later."""


class _Gone(Exception):
    """The child has ended without an answer, or gave one that is none."""


class _Child:
    """A process that renders."""

    def __init__(self) -> None:
        self.ready = False
        packages = {name: list(sys.modules[name].__path__) for name in (_PACKAGE.partition(".")[0], _PACKAGE)}
        told = json.dumps([[str(Path(path).absolute()) for path in sys.path], packages])
        flags = ["-S", "-s", "-P", *(["-B"] if sys.dont_write_bytecode else [])]
        self._wire, theirs = socket.socketpair()
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, *flags, "-c", _BOOT, told],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            self._wire.close()
            raise
        finally:
            theirs.close()

    def yield_to_others(self) -> None:
        """Let others go first."""
        with suppress(OSError):  # it has ended, or the system forbids it
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _COURTEOUS)

    def begin(self) -> None:
        """Wait until it is ready."""
        self.ready = self._receive(len(READY), time.monotonic() + _TO_START) == READY

    def ask(self, told: bytes, length: int, until: float) -> tuple[Answer, bool]:
        """The answer to a job, and whether it was the last.

        :param length: characters that it may have.

        Raises ``TimeoutError`` or ``_Gone``; the child is of no use then.
        """
        try:
            self._wire.settimeout(max(0.001, until - time.monotonic()))
            self._wire.sendall(told)
        except TimeoutError:
            raise
        except OSError:
            raise _Gone from None
        kind, leaving, line, seconds, size = HEADER.unpack(self._receive(HEADER.size, until))
        if kind >= len(KINDS) or size > max(4 * length, _ROOM) or not 0 <= seconds < math.inf:
            raise _Gone
        try:
            text = str(self._receive(size, until), "utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise _Gone from None
        return Answer(KINDS[kind], text, None if line < 0 else line, seconds), bool(leaving)

    def _receive(self, size: int, until: float) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._wire.settimeout(left)
            try:
                count = self._wire.recv_into(view)
            except TimeoutError:
                raise
            except OSError:
                count = 0
            if not count:
                raise _Gone
            view = view[count:]
        return data

    def end(self) -> int:
        """End it, whatever it does; returns what it ended with."""
        self._wire.close()
        self._process.kill()
        return self._process.wait()

    def forget(self) -> None:
        """Leave it to the process that this one was forked from."""
        self._wire.close()
        self._process.returncode = 0


class Renderers:
    """A few children, and those who wait for one."""

    def __init__(self, size: int, *, yielding: bool = False) -> None:
        """Start none yet.

        :param size: so many run at once.
        :param yielding: whether everything else on the machine goes before them.
        """
        self._yielding = yielding
        self._size = size
        self._free = size
        self._waiting: deque[threading.Lock] = deque()
        self._idle: list[_Child] = []

    def render(self, job: Job) -> Answer:
        """Do a job."""
        slow = Answer("limit", str(too_slow(job.seconds)), seconds=job.left)
        if job.left <= 0:
            return slow
        until = time.monotonic() + _PATIENCE * job.left + _GRACE
        try:
            told = job.encoded()
        except ValueError:
            return Answer("value", "messages, tools or variables are nested too deeply")
        if len(told) > job.megabytes << 20:
            return Answer("limit", str(too_big(job.megabytes)))
        self._enter(until)
        try:
            for _ in range(2):  # a child may have been killed by somebody else while it had nothing to do
                with suppress(_Gone):
                    return self._try(told, job.length, until)
        except TimeoutError:
            return slow
        finally:
            self._leave()
        return Answer(
            "limit", "the process that renders templates ended in the middle of it", seconds=job.left
        )

    def _try(self, told: bytes, length: int, until: float) -> Answer:
        child, started = self._child()
        keep = False
        try:
            answer, leaving = child.ask(told, length, until + started)
            keep = not leaving
        except _Gone:
            if child.end() == -signal.SIGVTALRM:  # its own clock has ended it
                raise TimeoutError from None
            raise
        finally:
            with _lock:
                if keep:
                    self._idle.append(child)
                else:
                    _children.discard(child)
            if not keep:
                child.end()
        return answer

    def _child(self) -> tuple[_Child, float]:
        """A child that has nothing to do, and how long it took to start."""
        with _lock:
            if self._idle:
                return self._idle.pop(), 0.0
            began = time.monotonic()
            try:
                child = _Child()
                if self._yielding:
                    child.yield_to_others()
            except OSError as error:
                raise NoRenderer(f"the process that renders templates cannot be started: {error}") from error
            _children.add(child)
        try:
            child.begin()
        except (TimeoutError, _Gone):
            raise NoRenderer(
                f"the process that renders templates did not start (it ended with {child.end()}): "
                f"can {sys.executable} import jinja2?"
            ) from None
        finally:
            if not child.ready:
                with _lock:
                    _children.discard(child)
                child.end()
        return child, time.monotonic() - began

    def _enter(self, until: float) -> None:
        """Wait for one's turn."""
        began = time.monotonic()
        with _lock:
            if self._free:
                self._free -= 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=max(0.0, until - time.monotonic())):
            return
        with _lock:
            if turn not in self._waiting:
                return  # it came at the last moment
            self._waiting.remove(turn)
        waited = time.monotonic() - began
        raise NoRenderer(f"other templates are being rendered, for {waited:.1f} seconds already: try again")

    def _leave(self) -> None:
        with _lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1

    def close(self) -> None:
        """End all children; the next rendering starts another."""
        with _lock:
            idle, self._idle = self._idle, []
            _children.difference_update(idle)
        for child in idle:
            child.end()

    def forget(self) -> None:
        """In a forked process: the children are not ours, nor is who waits for them."""
        self._free = self._size
        self._waiting.clear()
        self._idle.clear()


def _has_processes() -> bool:
    return (
        hasattr(os, "register_at_fork")
        and sys.platform not in ("emscripten", "wasi")
        and "py" in Path(sys.executable or "").name.lower()  # not a program that has Python inside
        and not getattr(sys, "frozen", False)
    )


_lock = threading.Lock()
_children: Final[set[_Child]] = set()
"""All that there are, so that a forked process can leave them alone."""
_renderers: Final = Renderers(min(4, max(2, os.cpu_count() or 1))) if _has_processes() else None
_apart: Final[ContextVar[Renderers | None]] = ContextVar("_apart", default=None)
_workshop: Final = Workshop()


def render(job: Job) -> Answer:
    """Do a job, where it can do no harm."""
    renderers = _apart.get() or _renderers
    return _workshop.answer(job) if renderers is None else renderers.render(job)


@contextmanager
def apart() -> Iterator[None]:
    """Inside, templates run in a process that nothing else runs in, before or after: they are strangers'.

    It has a lower priority: what strangers bring must not take the processor from those who stream.
    """
    own = None if _renderers is None else Renderers(1, yielding=True)
    token = _apart.set(own)
    try:
        yield
    finally:
        _apart.reset(token)
        if own is not None:
            own.close()


def _forget() -> None:
    global _lock  # noqa: PLW0603 - that of the other process is locked
    _lock = threading.Lock()
    for child in _children:
        child.forget()
    _children.clear()
    if _renderers is not None:
        _renderers.forget()


def _before_fork() -> None:
    _lock.acquire()  # so that all children are known


def _after_fork() -> None:
    _lock.release()


if _renderers is not None:
    atexit.register(_renderers.close)
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forget)
