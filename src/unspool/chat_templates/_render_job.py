"""One rendering: a job in, an answer out.  What goes wrong is an answer, too: it has to cross a process."""

from __future__ import annotations

import marshal
import math
import struct
import threading
import traceback
from collections import OrderedDict
from types import CodeType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ._jinja_environment import Limit, Manner, clock, environment, generate, too_big

Kind: TypeAlias = Literal["text", "syntax", "undefined", "refused", "value", "limit"]
KINDS: Final[tuple[Kind, ...]] = ("text", "syntax", "undefined", "refused", "value", "limit")
"""What came of a job: the rendering; a template that cannot be compiled; a variable or field that is not
there; a refusal by the template or its sandbox; a value that the template cannot handle; a bound."""

_MAX_REASON: Final = 10_000
_MAX_KEPT: Final = 1 << 20
"""Characters of the templates whose code is kept."""


JOB: Final = struct.Struct("!IddI")
"""Stands before a job: its bytes, its seconds, those that are left, its megabytes."""
HEADER: Final = struct.Struct("!BBidI")
"""Stands before an answer: its kind, whether the process leaves with it, the line (or -1), the seconds that
it took, its bytes."""
READY: Final = b"+"
"""What a child says before its first job."""


class Job(NamedTuple):
    """What is to be rendered, and what it may cost."""

    source: str
    manner: Manner
    variables: dict[str, Any] | None
    """None: it is only compiled, to see whether it can be."""
    marked: bool
    """Show what ``{% generation %}`` marks."""
    length: int
    seconds: float
    """Of a processor's time: how busy the machine is must not matter."""
    megabytes: int
    left: float
    """What is left of the seconds, by what went before."""

    def encoded(self) -> bytes:
        """As a child process is told.

        Raises ``ValueError`` where a value is nested too deeply.
        """
        body = marshal.dumps(tuple(self), 2)  # later versions look for objects that occur twice
        return JOB.pack(len(body), self.seconds, self.left, self.megabytes) + body


class Answer(NamedTuple):
    """What came of it."""

    kind: Kind
    text: str
    """The rendering, or the reason why there is none."""
    line: int | None = None
    """Of the template, where the reason is."""
    seconds: float = 0.0
    """What it took of a processor's time."""


class Workshop:
    """Renders, and keeps what it has compiled: that takes longer than many renderings."""

    def __init__(self, *, watched: bool = False) -> None:
        """Begin with nothing.

        :param watched: somebody else looks at the time.
        """
        self._watched = watched
        self._code: OrderedDict[str, CodeType] = OrderedDict()
        self._length = 0
        self._lock = threading.Lock()
        """There are threads where there are no processes."""

    def answer(self, job: Job) -> Answer:
        """Do a job."""
        began = clock()
        try:
            compiled = self._compiled(job)
            if isinstance(compiled, Answer) or job.variables is None:
                return compiled if isinstance(compiled, Answer) else Answer("text", "")
            found = environment(job.manner)
            template = found.template_class.from_code(found, compiled, found.make_globals(None))
            left = math.inf if self._watched else job.left - (clock() - began)
            text = generate(
                template,
                job.variables,
                marked=job.marked,
                length=job.length,
                seconds=job.seconds,
                left=left,
            )
            return Answer("text", text)
        except Exception as error:  # noqa: BLE001 - whatever a template makes Jinja raise
            return _failure(error, job)

    def _compiled(self, job: Job) -> CodeType | Answer:
        with self._lock:
            code = self._code.get(job.source)
            if code is not None:
                self._code.move_to_end(job.source)
                return code
        from jinja2 import exceptions

        try:
            code = environment(job.manner).compile(job.source)
        except exceptions.TemplateSyntaxError as error:
            return Answer("syntax", error.message or "syntax error", error.lineno)
        except (RecursionError, SyntaxError):  # Python, too, nests only so many blocks
            return Answer("syntax", "nested too deeply")
        except (ArithmeticError, ValueError) as error:  # a number with too many digits
            return Answer("syntax", _cut(f"{type(error).__name__}: {error}"))
        with self._lock:
            self._length += 0 if job.source in self._code else len(job.source)
            self._code[job.source] = code
            while self._length > _MAX_KEPT:
                self._length -= len(self._code.popitem(last=False)[0])
        return code


def _failure(error: Exception, job: Job) -> Answer:
    from jinja2 import exceptions

    line = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == "<template>":
            line = number
    kind: Kind = "value"
    if isinstance(error, MemoryError):
        kind, reason = "limit", str(too_big(job.megabytes))
    elif isinstance(error, Limit):
        kind, reason = "limit", str(error)
    elif isinstance(error, exceptions.TemplateError):
        kind = "undefined" if isinstance(error, exceptions.UndefinedError) else "refused"
        reason = str(error.message or type(error).__name__)
    else:
        reason = f"{type(error).__name__}: {error}"
    return Answer(kind, _cut(reason), line)


def _cut(reason: str) -> str:
    return reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]} ..."
