"""Errors.  They are for callers' mistakes; what a model writes never raises from ``feed``."""

from __future__ import annotations

_PUBLIC = "unspool"
"""Where users import them from, and what a traceback calls them by."""


class UnspoolError(Exception):
    """Base of every error this library raises."""

    __module__ = _PUBLIC


class UsageError(UnspoolError):
    """The library was used wrongly; the message says how to use it."""

    __module__ = _PUBLIC


class SpecError(UnspoolError):
    """A dialect declaration contradicts itself; the message shows the template."""

    __module__ = _PUBLIC


class UnknownDialect(UsageError, LookupError):
    """No dialect of that name is registered."""

    __module__ = _PUBLIC


class ProtocolError(UnspoolError):
    """A stream of deltas breaks the rules clients rely on (see ``ChatStreamDecoder``)."""

    __module__ = _PUBLIC


_LENIENT = "Parse with lenient policies to get the rest of the output, and this as a problem."


class MalformedOutput(UnspoolError):
    """The model's output is not well-formed, and the policies say that is an error.

    Raised by ``parse`` and ``fold``, never by ``Parser.feed``.
    """

    __module__ = _PUBLIC

    def __init__(
        self, kind: str, detail: str, start: int, end: int, raw: str, at: int, advice: str = _LENIENT
    ) -> None:
        self.kind = kind
        """What is wrong: one of ``DIAGNOSTIC_KINDS``."""
        self.detail = detail
        """What was expected."""
        self.start = start
        """Span of the offending call: offset of its first character ..."""
        self.end = end
        """... and behind its last one."""
        self.at = at
        """Offset where it went wrong."""
        self.raw = raw
        """The offending text as the model wrote it."""
        super().__init__(
            f"{kind.replace('_', ' ')} at offset {at} (characters {start} to {end}): {detail}\n"
            f"{caret(raw, at - start)}\n{advice}"
        )


def caret(raw: str, at: int) -> str:
    """The line of a text that holds an offset, with a caret under the place."""
    at = max(0, min(at, len(raw)))
    left = raw.rfind("\n", 0, at) + 1
    right = raw.find("\n", at)
    right = len(raw) if right < 0 else right
    left = max(left, at - 60)
    right = min(right, at + 20)
    return f"    {raw[left:right]}\n    {' ' * (at - left)}^"
