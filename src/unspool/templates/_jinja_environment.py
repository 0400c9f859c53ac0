"""Jinja environment for chat templates, as in Transformers, but with limits on each rendering.

To start quickly, the child process (``_render_process.py``) imports only three modules of our package: this
file, ``_render_job.py`` and ``_render_limits.py``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

from ._render_limits import MAX_EXPONENT, MAX_RANGE, Limit, out_of_time, too_long

if TYPE_CHECKING:
    from jinja2 import Template, nodes
    from jinja2.parser import Parser
    from jinja2.runtime import Context, Macro
    from jinja2.sandbox import ImmutableSandboxedEnvironment


RenderMode: TypeAlias = Literal["plain", "probing", "lenient"]
"""The mode in which a template runs. In the mode ``plain``, it runs as in Transformers. In the mode
``probing``, the date is constant, and a missing variable acts as an empty string. The mode ``lenient`` is
like ``probing``, but templates may modify lists, as some engines allow.
"""
clock: Final = getattr(time, "thread_time", time.process_time)
"""Function that returns the processor time of the current thread, in seconds.  On platforms that cannot
measure it, the function returns the processor time of the whole process."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The limits of one rendering."""

    length: int
    seconds: float
    deadline: float

    def check(self) -> None:
        if self.deadline < math.inf and clock() > self.deadline:
            raise out_of_time(self.seconds)

    def check_length(self, length: float) -> None:
        if length > self.length:
            raise too_long(self.length)


_bounds: ContextVar[_Bounds] = ContextVar("_bounds")
_marking: ContextVar[bool] = ContextVar("_marking", default=False)
GENERATION_MARKS: Final = ("\ud800", "\udfff")
"""Characters that mark the start and the end of each ``{% generation %}`` block, if requested.  They are
unpaired surrogates, which no ordinary text contains."""


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return a value as JSON.

    Unlike Jinja's own filter, this filter does not escape HTML, because a prompt is not HTML.
    """
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)  # noqa: DTZ005 - the local date, as in Transformers


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > MAX_RANGE:
        raise Limit(f"range() with {len(numbers)} numbers; at most {MAX_RANGE} are allowed")
    return numbers


@cache
def environment(mode: RenderMode) -> ImmutableSandboxedEnvironment:  # noqa: C901 - defines classes, see below
    """Return the Jinja environment for a mode.

    The classes are defined inside this function, because Jinja2 is an optional dependency.
    """
    if mode == "lenient":
        return _lenient()
    import jinja2
    from jinja2 import ext, sandbox, utils
    from jinja2 import nodes as tree

    class Generation(ext.Extension):
        """Extension for ``{% generation %}`` blocks, which mark the model's text for training."""

        tags = {"generation"}  # noqa: RUF012 - Jinja's own declaration

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return tree.CallBlock(self.call_method("_written"), [], [], body).set_lineno(line)

        def _written(self, caller: Macro) -> str:
            return f"{GENERATION_MARKS[0]}{caller()}{GENERATION_MARKS[1]}" if _marking.get() else caller()

    class TemplateDict:
        """Replacement for ``dict`` in templates, which hides the attributes of the type."""

        def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
            return dict(*args, **kwargs)

        def fromkeys(self, *args: Any) -> dict[Any, Any]:
            return dict.fromkeys(*args)

    class TemplateNamespace(utils.Namespace):
        """Jinja namespace that rejects private attribute names."""

        def __init__(*args: Any, **kwargs: Any) -> None:
            attributes = dict(*args[1:], **kwargs)
            for name in attributes:
                _checked(name)
            utils.Namespace.__init__(args[0], attributes)

        def __setitem__(self, name: str, value: Any) -> None:
            utils.Namespace.__setitem__(self, _checked(name), value)

    def _checked(name: str) -> str:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(
                f"a namespace cannot have the private attribute {name!r}: rename it"
            )
        return name

    class Sandbox(sandbox.ImmutableSandboxedEnvironment):
        """Sandbox that checks the limits at every call and every multiplication."""

        intercepted_binops = frozenset(("*", "**"))

        def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
            _bounds.get().check()
            return super().call(context, obj, *args, **kwargs)

        def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
            for one, other in ((left, right), (right, left)):
                if isinstance(one, int) and isinstance(other, str | list | tuple):
                    _bounds.get().check_length(len(other) * one)
            if operator == "**" and isinstance(right, int | float) and abs(right) > MAX_EXPONENT:
                raise jinja2.exceptions.SecurityError(
                    f"exponent too large: {right}; at most {MAX_EXPONENT} is allowed"
                )
            return super().call_binop(context, operator, left, right)

    class Given(jinja2.Undefined):
        """Placeholder for a missing variable in a probe; adding text to it returns the text."""

        def __add__(self, other: Any) -> Any:
            return other if self._undefined_obj is utils.missing else super().__add__(other)

        def __radd__(self, other: Any) -> Any:
            return other if self._undefined_obj is utils.missing else super().__radd__(other)

    def raise_exception(message: str) -> NoReturn:
        raise jinja2.exceptions.TemplateError(message)

    sandboxed = Sandbox(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, ext.loopcontrols],
        undefined=jinja2.Undefined if mode == "plain" else Given,
    )
    sandboxed.filters["tojson"] = _tojson
    sandboxed.globals["raise_exception"] = raise_exception
    sandboxed.globals["strftime_now"] = _strftime_now if mode == "plain" else str
    sandboxed.globals["range"] = _range
    sandboxed.globals["dict"] = TemplateDict()
    sandboxed.globals["namespace"] = TemplateNamespace
    return sandboxed


def _lenient() -> ImmutableSandboxedEnvironment:
    from jinja2.sandbox import SandboxedEnvironment

    sandboxed = environment("probing").overlay()
    vars(sandboxed)["is_safe_attribute"] = partial(SandboxedEnvironment.is_safe_attribute, sandboxed)
    return sandboxed


def generate(
    template: Template,
    variables: Mapping[str, object],
    *,
    marked: bool,
    length: int,
    seconds: float,
    seconds_left: float,
) -> str:
    """Return the rendering of a template; raise ``Limit`` if it reaches a limit.

    :param marked: whether to put marks around ``{% generation %}`` blocks.
    :param seconds: the whole time limit, for the error message.
    :param seconds_left: the seconds that remain of the time limit.
    """
    bounds = _Bounds(length, seconds, clock() + seconds_left)
    tokens = _bounds.set(bounds), _marking.set(marked)
    try:
        return "".join(_bounded(template.generate(variables), bounds))
    finally:
        _bounds.reset(tokens[0])
        _marking.reset(tokens[1])


def _bounded(pieces: Iterator[str], bounds: _Bounds) -> Iterator[str]:
    length = 0
    for piece in pieces:
        bounds.check()
        length += len(piece)
        bounds.check_length(length)
        yield piece
