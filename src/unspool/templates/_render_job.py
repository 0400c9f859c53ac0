"""Jobs that render templates, their results, and the format for sending both between processes.

``TemplateRunner`` runs a job.  It returns errors as results, because an exception
cannot be sent to another process.
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
"""Kinds of results. ``text`` is a rendering. All other kinds are errors:

- ``syntax``: the template does not compile;
- ``undefined``: a variable or field is missing;
- ``refused``: the template or its sandbox rejects the messages;
- ``value``: the template cannot handle a value;
- ``limit``: a limit is exceeded.
"""

_MAX_REASON: Final = 10_000
_MAX_KEPT: Final = 1 << 20
"""Maximum total length, in characters, of the templates whose compiled code is cached."""


JOB: Final = struct.Struct("!IddI")
"""Header of a job: size of the job in bytes, maximum seconds, remaining seconds, maximum megabytes."""
HEADER: Final = struct.Struct("!BBidI")
"""Header of a result: index of its kind in ``KINDS``, 1 if the child process ends now (otherwise 0), line of
the template (-1 if unknown), seconds that the job took, size of the result in bytes."""
READY: Final = b"+"
"""Byte that a child process sends before its first job."""


class RenderJob(NamedTuple):
    """Job to render one template within limits."""

    source: str
    mode: RenderMode
    variables: dict[str, Any] | None
    """The template's variables; None to compile the template without rendering."""
    marked: bool
    """True to put marks around ``{% generation %}`` blocks."""
    length: int
    """Maximum length of the text in characters."""
    seconds: float
    """Maximum processor time in seconds; unlike wall time, it does not depend on other processes."""
    megabytes: int
    """Maximum memory in megabytes."""
    seconds_left: float
    """Remaining part of ``seconds``; smaller than ``seconds`` if earlier renderings have used a part of it.
    """

    def encode(self) -> bytes:
        """Return the job as bytes for a child process.

        Raises ``ValueError`` if a value is nested too deeply.
        """
        # Version 2 of the format is faster, because later versions also search for repeated objects.
        body = marshal.dumps(tuple(self), 2)
        return JOB.pack(len(body), self.seconds, self.seconds_left, self.megabytes) + body


class RenderResult(NamedTuple):
    """The result of a render job."""

    kind: Kind
    text: str
    """The rendered text, or the error message."""
    line: int | None = None
    """The number of the template line that caused the error; None if unknown."""
    seconds: float = 0.0
    """The processor time that the job took, in seconds."""


class TemplateRunner:
    """Runner of render jobs.

    The runner caches compiled templates, because compiling a template takes longer than rendering it.
    """

    def __init__(self, *, has_signal: bool = False) -> None:
        """Create a runner with an empty cache.

        :param has_signal: True if a signal enforces the time limit.
        """
        self._has_signal = has_signal
        self._code: OrderedDict[str, CodeType] = OrderedDict()
        self._length = 0
        self._lock = threading.Lock()
        """Lock for the cache; needed on platforms where jobs run in the threads of the caller's process."""

    def run(self, job: RenderJob) -> RenderResult:
        """Run a job, and return its result; errors are results, too."""
        started = clock()
        try:
            compiled = self._compiled(job)
            if isinstance(compiled, RenderResult) or job.variables is None:
                return compiled if isinstance(compiled, RenderResult) else RenderResult("text", "")
            sandbox = environment(job.mode)
            template = sandbox.template_class.from_code(sandbox, compiled, sandbox.make_globals(None))
            seconds_left = math.inf if self._has_signal else job.seconds_left - (clock() - started)
            text = generate(
                template,
                job.variables,
                marked=job.marked,
                length=job.length,
                seconds=job.seconds,
                seconds_left=seconds_left,
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
        except (RecursionError, SyntaxError):  # Python cannot compile deeply nested blocks
            return RenderResult("syntax", "nested too deeply")
        except (ArithmeticError, ValueError) as error:  # for example, an integer literal with too many digits
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
