"""Exceptions of the library.

``UsageError`` and its subclasses report mistakes of the caller.  Faults in the output of a model never
raise from ``Parser.feed``; they become diagnostics, unless a policy says ``error``.
"""

from __future__ import annotations

_PUBLIC = "unspool"
"""Module that users import them from, which tracebacks show."""


class UnspoolError(Exception):
    """Base class of all errors that the library raises."""

    __module__ = _PUBLIC


class UsageError(UnspoolError):
    """Wrong use of the library; the message says what to do."""

    __module__ = _PUBLIC


class SpecError(UnspoolError):
    """Contradiction in the declaration of a dialect; the message shows the template."""

    __module__ = _PUBLIC


class UnknownDialect(UsageError, LookupError):
    """No dialect is registered under this name."""

    __module__ = _PUBLIC


class ProtocolError(UnspoolError):
    """Violation of the rules that clients of a stream rely on; see ``ChatStreamDecoder``."""

    __module__ = _PUBLIC


_LENIENT = "Parse without strict=True to get the rest of the output, with this as a diagnostic."


class MalformedOutput(UnspoolError):
    """Output that is not well-formed, under policies that make this an error.

    Raised by ``parse`` and by message builders, never by ``Parser.feed``.
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
        """Offset just past its last character."""
        self.at = at
        """Offset of the fault."""
        self.raw = raw
        """Faulty call as the model wrote it."""
        super().__init__(
            f"{kind.replace('_', ' ')} at offset {at} (characters {start} to {end}): {detail}\n"
            f"{caret(raw, at - start)}\n{advice}"
        )


def caret(raw: str, at: int) -> str:
    """Return the line of a text that contains an offset, with a caret under that place."""
    at = max(0, min(at, len(raw)))
    left = raw.rfind("\n", 0, at) + 1
    right = raw.find("\n", at)
    right = len(raw) if right < 0 else right
    left = max(left, at - 60)
    right = min(right, at + 20)
    return f"    {raw[left:right]}\n    {' ' * (at - left)}^"
