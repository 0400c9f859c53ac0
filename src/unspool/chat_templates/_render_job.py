"""Render jobs and their results, which cross the boundary of a process.

``TemplateRunner`` runs a job.  It returns errors as results, because exceptions
cannot cross the boundary.
"""

from __future__ import annotations

import marshal
import math
import struct
import threading
import traceback
from collections import OrderedDict
from types import CodeType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ._jinja_environment import RenderMode, clock, environment, generate
from ._render_limits import Limit, out_of_memory

Kind: TypeAlias = Literal["text", "syntax", "undefined", "refused", "value", "limit"]
KINDS: Final[tuple[Kind, ...]] = ("text", "syntax", "undefined", "refused", "value", "limit")
"""Kinds of results: the text; a template that does not compile; a missing variable or field; a refusal by
the template or its sandbox; a value that the template cannot handle; a limit."""

_MAX_REASON: Final = 10_000
_MAX_KEPT: Final = 1 << 20
"""Maximum total length of the templates whose compiled code is cached."""


JOB: Final = struct.Struct("!IddI")
"""Header of a job: size in bytes, seconds, remaining seconds, megabytes."""
HEADER: Final = struct.Struct("!BBidI")
"""Header of a result: kind, whether the process ends after it, line (or -1), seconds, size in bytes."""
READY: Final = b"+"
"""Byte that a child process sends before its first job."""


class RenderJob(NamedTuple):
    """One rendering, with its limits."""

    source: str
    mode: RenderMode
    variables: dict[str, Any] | None
    """The variables; None to only compile the template."""
    marked: bool
    """Put marks around ``{% generation %}`` blocks."""
    length: int
    """Maximum length of the text."""
    seconds: float
    """Maximum processor time, which does not depend on how busy the machine is."""
    megabytes: int
    """Maximum memory."""
    left: float
    """Remaining seconds, if earlier renderings share the limit."""

    def encode(self) -> bytes:
        """Return the job as bytes for a child process.

        Raises ``ValueError`` if a value is nested too deeply.
        """
        body = marshal.dumps(tuple(self), 2)  # later versions spend time on finding repeated objects
        return JOB.pack(len(body), self.seconds, self.left, self.megabytes) + body


class RenderResult(NamedTuple):
    """The result of a job."""

    kind: Kind
    text: str
    """The rendering, or the reason for the error."""
    line: int | None = None
    """The line of the template that caused the error."""
    seconds: float = 0.0
    """The processor time of the job."""


class TemplateRunner:
    """Runner of jobs with a cache of compiled templates; compiling takes longer than many renderings."""

    def __init__(self, *, watched: bool = False) -> None:
        """Create a runner with an empty cache.

        :param watched: the caller enforces the time limit, with a signal.
        """
        self._watched = watched
        self._code: OrderedDict[str, CodeType] = OrderedDict()
        self._length = 0
        self._lock = threading.Lock()
        """Guards the cache: without child processes, jobs run in the threads of the callers."""

    def run(self, job: RenderJob) -> RenderResult:
        """Run a job."""
        started = clock()
        try:
            compiled = self._compiled(job)
            if isinstance(compiled, RenderResult) or job.variables is None:
                return compiled if isinstance(compiled, RenderResult) else RenderResult("text", "")
            sandbox = environment(job.mode)
            template = sandbox.template_class.from_code(sandbox, compiled, sandbox.make_globals(None))
            left = math.inf if self._watched else job.left - (clock() - started)
            text = generate(
                template,
                job.variables,
                marked=job.marked,
                length=job.length,
                seconds=job.seconds,
                left=left,
            )
            return RenderResult("text", text)
        except Exception as error:  # noqa: BLE001 - whatever a template makes Jinja raise
            return _failure(error, job)

    def _compiled(self, job: RenderJob) -> CodeType | RenderResult:
        with self._lock:
            code = self._code.get(job.source)
            if code is not None:
                self._code.move_to_end(job.source)
                return code
        from jinja2 import exceptions

        try:
            code = environment(job.mode).compile(job.source)
        except exceptions.TemplateSyntaxError as error:
            return RenderResult("syntax", error.message or "syntax error", error.lineno)
        except (RecursionError, SyntaxError):  # Python limits the nesting of blocks
            return RenderResult("syntax", "nested too deeply")
        except (ArithmeticError, ValueError) as error:  # a number with too many digits
            return RenderResult("syntax", _cut(f"{type(error).__name__}: {error}"))
        with self._lock:
            self._length += 0 if job.source in self._code else len(job.source)
            self._code[job.source] = code
            while self._length > _MAX_KEPT:
                self._length -= len(self._code.popitem(last=False)[0])
        return code


def _failure(error: Exception, job: RenderJob) -> RenderResult:
    from jinja2 import exceptions

    line = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == "<template>":
            line = number
    kind: Kind = "value"
    if isinstance(error, MemoryError):
        kind, reason = "limit", str(out_of_memory(job.megabytes))
    elif isinstance(error, Limit):
        kind, reason = "limit", str(error)
    elif isinstance(error, exceptions.TemplateError):
        kind = "undefined" if isinstance(error, exceptions.UndefinedError) else "refused"
        reason = str(error.message or type(error).__name__)
    else:
        reason = f"{type(error).__name__}: {error}"
    return RenderResult(kind, _cut(reason), line)


def _cut(reason: str) -> str:
    return reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]} ..."
