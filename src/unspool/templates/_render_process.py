"""Child process that renders templates, one job after another, until its parent ends.

A template is untrusted code, so the process limits itself before the first job:

* **Time** is limited in three ways.  When the processor time of a job is used up, a
  signal (``SIGPROF``) raises an error that names the line of the template.  If Python cannot handle this
  signal, for example in a long C function, a second signal (``SIGVTALRM``) ends the process.  As a last
  resort, the parent kills a child that does not send a result.
* **Memory** is limited by the kernel (``RLIMIT_AS``).
* **Files and sockets** cannot be opened, and **processes** cannot be started.  The
  process therefore loads all modules that renderings need in advance.

Jobs arrive as ``marshal`` data, which is fast and supports every value that a
template may receive (tuples, large numbers, unpaired surrogates).  Loading such data is
safe here, because jobs come from our own parent process.  Results, in contrast, can
be influenced by a template.  So they are sent as a header of fixed size and plain
text, and the parent checks both.
"""

from __future__ import annotations

import importlib
import marshal
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from ._render_job import HEADER, JOB, KINDS, READY, RenderJob, TemplateRunner
from ._render_limits import MAX_GROWTH, Limit, out_of_memory, out_of_time

_WIRE: Final = 0
_AGAIN: Final = 0.05
"""Seconds between two ``SIGPROF`` signals.  The signal is repeated, because other code may catch the error
that the first signal raised."""
_GRACE: Final = 0.25
"""Seconds of processor time between the limit and ``SIGVTALRM``, which ends the process."""


def main() -> None:
    """Run jobs until the parent closes the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    runner = TemplateRunner(has_signal=True)
    _load(runner)
    sizes = _confine()
    base = _size(sizes)
    os.write(_WIRE, READY)
    leaving = False
    while not leaving and (head := _read(JOB.size)) is not None:
        size, seconds, seconds_left, megabytes = JOB.unpack(head)
        line: int | None = None
        rung: list[int] = []
        started_at = time.process_time()
        try:
            with _bounded(seconds, seconds_left, base + (megabytes << 20)) as rung:
                body = _read(size)
                if body is None:
                    return
                fields = marshal.loads(body)  # noqa: S302 - from our own parent
                result = runner.run(RenderJob._make(fields))
                kind, line = result.kind, result.line
                data = result.text.encode("utf-8", "surrogatepass")
                del result, body, fields
        except (Limit, MemoryError) as error:
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
            reason = error if isinstance(error, Limit) else out_of_memory(megabytes)
            kind, data = "limit", str(reason).encode()
            leaving = True
        spent = time.process_time() - started_at
        # The signal may have interrupted Python at any point, so the interpreter's state is unreliable and
        # the process must end.
        leaving = leaving or bool(rung) or _size(sizes) - base > MAX_GROWTH
        _write(HEADER.pack(KINDS.index(kind), leaving, -1 if line is None else line, spent, len(data)) + data)


def _load(runner: TemplateRunner) -> None:
    """Import all modules that renderings need, because a confined process cannot open files."""
    for name in ("html", "jinja2.constants", "jinja2.debug", "pprint", "random", "textwrap", "unicodedata"):
        importlib.import_module(name)
    source = "{{ strftime_now('%c') }}{{ 1 | tojson(indent=1) }}{{ raise_exception('') }}"
    for mode in ("plain", "probing", "lenient"):
        runner.run(RenderJob(source, mode, {}, False, 99, 9.0, 0, 9.0))


def _confine() -> int:
    """Prevent this process from opening files and sockets, and from starting processes.

    Returns the file descriptor of ``/proc/self/statm``, or -1 if there is no such file.
    """
    sizes = -1
    with suppress(OSError):  # only Linux has this file
        sizes = os.open("/proc/self/statm", os.O_RDONLY)
    for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
        with suppress(OSError, ValueError):
            resource.setrlimit(what, (0, 0))
    return sizes


def _size(sizes: int) -> int:
    """Return the size of this process's address space in bytes."""
    return 0 if sizes < 0 else int(os.pread(sizes, 99, 0).split()[0]) * resource.getpagesize()


@contextmanager
def _bounded(seconds: float, seconds_left: float, addresses: int) -> Iterator[list[int]]:
    """Limit time and memory inside the ``with`` block; yield a list to which each ``SIGPROF`` is appended."""
    rung: list[int] = []

    def ring(number: int, _: object) -> NoReturn:
        rung.append(number)
        signal.setitimer(signal.ITIMER_PROF, _AGAIN)
        raise out_of_time(seconds)

    before, most = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        addresses = min(addresses, most)
    signal.signal(signal.SIGPROF, ring)
    with suppress(OSError, ValueError):  # not every kernel supports this limit
        resource.setrlimit(resource.RLIMIT_AS, (addresses, most))
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds_left + _GRACE)
    signal.setitimer(signal.ITIMER_PROF, max(seconds_left, 0.001))  # zero would disable the timer
    try:
        yield rung
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (before, most))


def _read(size: int) -> bytes | None:
    """Return the next ``size`` bytes from the parent; None if the parent has ended."""
    pieces = []
    while size:
        piece = os.read(_WIRE, size)
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(_WIRE, view) :]
