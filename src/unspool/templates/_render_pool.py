"""Pool of child processes that render templates.

A template is an untrusted program from a download or a request.  So it runs in a
child process (``_render_process.py``), which can be killed at any time, unlike a
thread.  The pool starts child processes when they are needed, and keeps a few of them.  If all child
processes are busy, callers wait in the order of arrival.

The time limit of a rendering is a limit on processor time.  A caller waits at most
one second longer than three times that limit, including the time until a child is free.

On platforms without child processes, templates run in the caller's thread.  Then only
the limits of ``_jinja_environment.py`` apply.  These limits are checked when a template
writes text, calls a function or multiplies.
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
from ._render_job import HEADER, KINDS, READY, RenderJob, RenderResult, TemplateRunner
from ._render_limits import out_of_memory, out_of_time

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
"""Source code of the program that a child process runs.

The program registers our packages without running their ``__init__`` modules, because a
rendering needs only four modules.
"""
_KEPT: Final = (
    "TZ",
    "TZDIR",
    "PYTHONHOME",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
)
"""Environment variables that a child process inherits, because it needs them to start and to find the local
time. All other variables are withheld, because they may contain secrets."""
_TO_START: Final = 60.0
_PATIENCE: Final = 3.0
_GRACE: Final = 1.0
_LOW_PRIORITY: Final = 10
"""Niceness of the processes for untrusted templates; the lowest priority is 19."""
_MAX_ERROR_SIZE: Final = 1 << 16
"""Maximum size in bytes of a result that is an error."""


class NoRenderer(UnspoolError):
    """Raised if no process can render a template now, because all are busy or none can be started."""


class _ProcessEnded(Exception):
    """Raised if a child ends without a result, or sends an invalid result."""


class _RenderProcess:
    """The parent's handle for a child process that renders templates."""

    def __init__(self) -> None:
        self.ready = False
        packages = {name: list(sys.modules[name].__path__) for name in (_PACKAGE.partition(".")[0], _PACKAGE)}
        arguments = json.dumps([[str(Path(path).absolute()) for path in sys.path], packages])
        flags = ["-S", "-s", "-P", *(["-B"] if sys.dont_write_bytecode else [])]
        self._socket, theirs = socket.socketpair()
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, *flags, "-c", _BOOT, arguments],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()

    def lower_priority(self) -> None:
        """Lower the priority of the child process."""
        with suppress(OSError):  # the child has ended, or the system does not permit the change
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _LOW_PRIORITY)

    def wait_until_ready(self) -> None:
        """Wait until the child accepts jobs."""
        self.ready = self._receive(len(READY), time.monotonic() + _TO_START) == READY

    def run(self, job: bytes, length: int, until: float) -> tuple[RenderResult, bool]:
        """Send a job; return its result, and whether the child ends after this job.

        After ``TimeoutError`` or ``_ProcessEnded`` was raised, the child cannot be used again.

        :param job: the encoded job.
        :param length: maximum length of the text in characters.
        :param until: the time at which to stop waiting.
        """
        try:
            self._socket.settimeout(max(0.001, until - time.monotonic()))
            self._socket.sendall(job)
        except TimeoutError:
            raise
        except OSError:
            raise _ProcessEnded from None
        kind, leaving, line, seconds, size = HEADER.unpack(self._receive(HEADER.size, until))
        if kind >= len(KINDS) or size > max(4 * length, _MAX_ERROR_SIZE) or not 0 <= seconds < math.inf:
            raise _ProcessEnded
        try:
            text = str(self._receive(size, until), "utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise _ProcessEnded from None
        return RenderResult(KINDS[kind], text, None if line < 0 else line, seconds), bool(leaving)

    def _receive(self, size: int, until: float) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            try:
                count = self._socket.recv_into(view)
            except TimeoutError:
                raise
            except OSError:
                count = 0
            if not count:
                raise _ProcessEnded
            view = view[count:]
        return data

    def end(self) -> int:
        """Kill the child process, and return its exit status."""
        self._socket.close()
        self._process.kill()
        return self._process.wait()

    def forget(self) -> None:
        """Close this process's copy of the socket after a fork; only the parent still uses the child."""
        self._socket.close()
        self._process.returncode = 0


class RenderPool:
    """Pool of child processes, with a queue of callers that wait for a free one."""

    def __init__(self, size: int, *, low_priority: bool = False) -> None:
        """Create a pool, which starts processes when they are needed.

        :param size: maximum number of processes that run at the same time.
        :param low_priority: True to run the processes with a low priority.
        """
        self._low_priority = low_priority
        self._size = size
        self._free = size
        self._waiting: deque[threading.Lock] = deque()
        self._idle: list[_RenderProcess] = []

    def render(self, job: RenderJob) -> RenderResult:
        """Run a job in a child process, and return its result."""
        slow = RenderResult("limit", str(out_of_time(job.seconds)), seconds=job.seconds_left)
        if job.seconds_left <= 0:
            return slow
        until = time.monotonic() + _PATIENCE * job.seconds_left + _GRACE
        try:
            encoded = job.encode()
        except ValueError:
            return RenderResult("value", "messages, tools or variables are nested too deeply")
        if len(encoded) > job.megabytes << 20:
            return RenderResult("limit", str(out_of_memory(job.megabytes)))
        self._enter(until)
        try:
            for _ in range(2):  # try again, because an idle child may have been killed since its last job
                with suppress(_ProcessEnded):
                    return self._try(encoded, job.length, until)
        except TimeoutError:
            return slow
        finally:
            self._leave()
        return RenderResult(
            "limit", "the process that renders templates ended during the rendering", seconds=job.seconds_left
        )

    def _try(self, encoded: bytes, length: int, until: float) -> RenderResult:
        child, started = self._child()
        keep = False
        try:
            result, leaving = child.run(encoded, length, until + started)
            keep = not leaving
        except _ProcessEnded:
            if child.end() == -signal.SIGVTALRM:  # the child has ended because of its time limit
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
        return result

    def _child(self) -> tuple[_RenderProcess, float]:
        """Return an idle or a new child process, and the seconds that a new process took to start."""
        with _lock:
            if self._idle:
                return self._idle.pop(), 0.0
            started_at = time.monotonic()
            try:
                child = _RenderProcess()
                if self._low_priority:
                    child.lower_priority()
            except OSError as error:
                raise NoRenderer(f"the process that renders templates cannot start: {error}") from error
            _children.add(child)
        try:
            child.wait_until_ready()
        except (TimeoutError, _ProcessEnded):
            raise NoRenderer(
                f"the process that renders templates did not start (exit status {child.end()}): "
                f"check that {sys.executable} can import jinja2"
            ) from None
        finally:
            if not child.ready:
                with _lock:
                    _children.discard(child)
                child.end()
        return child, time.monotonic() - started_at

    def _enter(self, until: float) -> None:
        """Wait until fewer than ``size`` jobs are running; callers are served in the order of arrival."""
        started_at = time.monotonic()
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
                return  # another job ended just after the timeout
            self._waiting.remove(turn)
        waited = time.monotonic() - started_at
        raise NoRenderer(f"all template processes were busy for {waited:.1f} seconds: try again later")

    def _leave(self) -> None:
        with _lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1

    def close(self) -> None:
        """End all idle child processes; the next rendering starts a new one."""
        with _lock:
            idle, self._idle = self._idle, []
            _children.difference_update(idle)
        for child in idle:
            child.end()

    def forget(self) -> None:
        """Forget all child processes and waiting callers after a fork, because they belong to the parent."""
        self._free = self._size
        self._waiting.clear()
        self._idle.clear()


def _has_processes() -> bool:
    return (
        hasattr(os, "register_at_fork")
        and sys.platform not in ("emscripten", "wasi")
        # A program that embeds Python cannot run our child process, because its executable is not an
        # interpreter.
        and "py" in Path(sys.executable or "").name.lower()
        and not getattr(sys, "frozen", False)
    )


_lock = threading.Lock()
_children: Final[set[_RenderProcess]] = set()
"""All child processes; after a fork, the new process closes its copies of their sockets."""
_pool: Final = RenderPool(min(4, max(2, os.cpu_count() or 1))) if _has_processes() else None
_isolated: Final[ContextVar[RenderPool | None]] = ContextVar("_isolated", default=None)
_runner: Final = TemplateRunner()


def render(job: RenderJob) -> RenderResult:
    """Run a job in a child process, or in this thread if the platform has none, and return its result."""
    renderers = _isolated.get() or _pool
    return _runner.run(job) if renderers is None else renderers.render(job)


@contextmanager
def isolated_renderer() -> Iterator[None]:
    """Render templates in a new process until the ``with`` block ends.

    Use this function for templates from requests, so that such templates cannot affect other renderings.  The
    process has a low priority, so that such templates do not slow down streaming requests.
    """
    own = None if _pool is None else RenderPool(1, low_priority=True)
    token = _isolated.set(own)
    try:
        yield
    finally:
        _isolated.reset(token)
        if own is not None:
            own.close()


def _forget() -> None:
    global _lock  # noqa: PLW0603 - the inherited lock is locked
    _lock = threading.Lock()
    for child in _children:
        child.forget()
    _children.clear()
    if _pool is not None:
        _pool.forget()


def _before_fork() -> None:
    _lock.acquire()  # no other thread may start a child during the fork


def _after_fork() -> None:
    _lock.release()


if _pool is not None:
    atexit.register(_pool.close)
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forget)
