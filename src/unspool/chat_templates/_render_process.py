"""The process that renders templates: one job after the other, until whoever started it is gone.

What a template does here hurts nobody else.  Time is kept three times: when the
seconds of work are spent, an alarm ends the rendering and tells at which line it
was; a second one ends the process where Python does not come to hear the first,
even if nobody is left to watch; and the parent kills a child that does not
answer.  Memory is bounded by the kernel.  No file can be opened any more, no
socket, and no process begun: what is needed is loaded before the first job.

A job comes in the form of ``marshal``, which is quick and knows every value that
a template may see (tuples, large numbers, halves of characters); it comes from
our own parent and interpreter.  In the answer a template had a hand, so it goes
back as text behind a header of fixed form, which nobody has to trust.
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

from ._jinja_environment import Limit, too_big, too_slow
from ._render_job import HEADER, JOB, KINDS, READY, Job, Workshop

_WIRE: Final = 0
_AGAIN: Final = 0.05
"""Seconds until the alarm rings again: somebody may have swallowed it."""
_GRACE: Final = 0.25
"""Seconds of work behind the last one until the process ends itself."""
_MOST_GROWN: Final = 64 << 20
"""A process that has grown by more bytes than this is not kept."""


def main() -> None:
    """Answer jobs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    workshop = Workshop(watched=True)
    _load(workshop)
    sizes = _confine()
    base = _size(sizes)
    os.write(_WIRE, READY)
    leaving = False
    while not leaving and (head := _read(JOB.size)) is not None:
        size, seconds, left, megabytes = JOB.unpack(head)
        line: int | None = None
        rung: list[int] = []
        began = time.process_time()
        try:
            with _bounded(seconds, left, base + (megabytes << 20)) as rung:
                body = _read(size)
                if body is None:
                    return
                given = marshal.loads(body)  # noqa: S302 - from our own parent
                answer = workshop.answer(Job._make(given))
                kind, line = answer.kind, answer.line
                data = answer.text.encode("utf-8", "surrogatepass")
                del answer, body, given
        except (Limit, MemoryError) as error:
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
            reason = error if isinstance(error, Limit) else too_big(megabytes)
            kind, data = "limit", str(reason).encode()
            leaving = True
        spent = time.process_time() - began
        # Nobody knows what an alarm has interrupted.
        leaving = leaving or bool(rung) or _size(sizes) - base > _MOST_GROWN
        _write(HEADER.pack(KINDS.index(kind), leaving, -1 if line is None else line, spent, len(data)) + data)


def _load(workshop: Workshop) -> None:
    """Load what renderings load late."""
    for name in ("html", "jinja2.constants", "jinja2.debug", "pprint", "random", "textwrap", "unicodedata"):
        importlib.import_module(name)
    source = "{{ strftime_now('%c') }}{{ 1 | tojson(indent=1) }}{{ raise_exception('') }}"
    for manner in ("plain", "probing", "lenient"):
        workshop.answer(Job(source, manner, {}, False, 99, 9.0, 0, 9.0))


def _confine() -> int:
    """Give up what no rendering needs; returns the file that says how large the process is (or -1)."""
    sizes = -1
    with suppress(OSError):  # Linux has it
        sizes = os.open("/proc/self/statm", os.O_RDONLY)
    for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
        with suppress(OSError, ValueError):
            resource.setrlimit(what, (0, 0))
    return sizes


def _size(sizes: int) -> int:
    """Bytes of addresses that are taken."""
    return 0 if sizes < 0 else int(os.pread(sizes, 99, 0).split()[0]) * resource.getpagesize()


@contextmanager
def _bounded(seconds: float, left: float, addresses: int) -> Iterator[list[int]]:
    """Bound what is done inside; gives the alarms that rang."""
    rung: list[int] = []

    def ring(number: int, _: object) -> NoReturn:
        rung.append(number)
        signal.setitimer(signal.ITIMER_PROF, _AGAIN)
        raise too_slow(seconds)

    before, most = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        addresses = min(addresses, most)
    signal.signal(signal.SIGPROF, ring)
    with suppress(OSError, ValueError):  # not every kernel knows it
        resource.setrlimit(resource.RLIMIT_AS, (addresses, most))
    signal.setitimer(signal.ITIMER_VIRTUAL, left + _GRACE)
    signal.setitimer(signal.ITIMER_PROF, max(left, 0.001))  # less would be never
    try:
        yield rung
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (before, most))


def _read(size: int) -> bytes | None:
    """So many bytes; None: the parent is gone."""
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
