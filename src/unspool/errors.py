"""Exceptions of the library.

``UsageError`` and its subclasses report mistakes in the calling code.  A fault in a model's output never
makes ``Parser.feed`` raise an exception; it becomes a diagnostic.  If a policy for such a fault is set to
``error``, ``parse`` and message builders raise ``MalformedOutput``.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "ArgumentsError",
    "MalformedOutput",
    "ProtocolError",
    "SpecError",
    "UnknownDialect",
    "UnspoolError",
    "UsageError",
]

_PUBLIC = "unspool"
"""Module from which users import the exceptions; tracebacks show its name."""


class UnspoolError(Exception):
    """Base class of all errors that the library raises."""

    __module__ = _PUBLIC


class UsageError(UnspoolError, ValueError, TypeError):
    """Error for incorrect use of the library; its message explains what to do.

    It is also a ``ValueError`` and a ``TypeError``, so code that catches one of these catches this error,
    too.
    """

    __module__ = _PUBLIC


class SpecError(UnspoolError, ValueError):
    """Error for a contradictory dialect declaration; the message shows the faulty template."""

    __module__ = _PUBLIC


class UnknownDialect(UsageError, LookupError):
    """Error for a dialect name that is not registered."""

    __module__ = _PUBLIC


class ProtocolError(UnspoolError, ValueError):
    """Error for an API stream that violates its protocol; see ``ChatStreamDecoder``."""


class ArgumentsError(UnspoolError, ValueError):
    """Error for arguments that cannot be converted, raised by ``ToolCall.args`` and ``parse_as``."""

    __module__ = _PUBLIC

    def __init__(self, name: str, arguments: str, detail: str, start: int = 0, end: int = 0) -> None:
        self.name = name
        """Name of the function."""
        self.arguments = arguments
        """Arguments of the call, as the model wrote them or as JSON."""
        self.detail = detail
        """Description of the problem."""
        self.start = start
        """Offset of the arguments in the output; equal to ``end`` if the offset is not known."""
        self.end = end
        """Offset just past the arguments in the output."""
        place = f" (characters {start} to {end})" if end > start else ""
        super().__init__(f"call of {name}{place}: {detail}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return ArgumentsError, (self.name, self.arguments, self.detail, self.start, self.end)


_LENIENT = "Parse with other policies to get the rest of the output and a diagnostic instead of this error."


class MalformedOutput(UnspoolError, ValueError):
    """Error for malformed output, raised only if a policy is set to ``error``.

    ``parse`` and message builders raise this error; ``Parser.feed`` never does.
    """

    __module__ = _PUBLIC

    def __init__(
        self, kind: str, detail: str, start: int, end: int, raw: str, at: int, advice: str = _LENIENT
    ) -> None:
        self.kind = kind
        """Kind of the fault: one of ``DIAGNOSTIC_KINDS``."""
        self.detail = detail
        """Description of what was expected."""
        self.start = start
        """Offset of the first character of the faulty call."""
        self.end = end
        """Offset just past the last character of the faulty call."""
        self.at = at
        """Offset of the fault."""
        self.raw = raw
        """Text of the faulty call as the model wrote it."""
        super().__init__(
            f"{kind.replace('_', ' ')} at offset {at} (characters {start} to {end}): {detail}\n"
            + (f"{caret(raw, at - start)}\n" if raw else "")
            + advice
        )


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return a question that suggests the most similar names, or an empty string if no name is similar.

    >>> suggestion("urll", ["url", "model"])
    ": did you mean 'url'?"
    """
    known = [*names]
    similar = [each for each in known if len(name) > 1 and (name in each or each in name)]
    similar = similar or get_close_matches(name, known, n=2)
    return f": did you mean {' or '.join(map(repr, similar[:3]))}?" if similar else ""


def caret(raw: str, at: int) -> str:
    """Return the line of ``raw`` that contains offset ``at``, with a caret under this offset."""
    at = max(0, min(at, len(raw)))
    left = raw.rfind("\n", 0, at) + 1
    right = raw.find("\n", at)
    right = len(raw) if right < 0 else right
    left = max(left, at - 60)
    right = min(right, at + 20)
    return f"    {raw[left:right]}\n    {' ' * (at - left)}^"
